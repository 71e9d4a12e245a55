#!/usr/bin/env bash
# Installs what Quern needs to build and test on Debian 12: Debian packages that are missing (apt, as root or by sudo),
# and, into the ignored folder .tools of the checkout, the Python environment, the arm64 sysroot and the emulator.
# Does nothing for what is there already.
# usage: setup.sh PART...    parts: build (compilers, libraries), test, python (.tools/venv), arm64 (sysroot, emulator)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tools=$(realpath -m "$here/../.tools")

build_packages=(clang-19 lld-19 llvm-19 cmake ninja-build ccache libprotozero-dev nlohmann-json3-dev libcli11-dev
  libstb-dev libxxhash-dev libgtest-dev libgmock-dev libbenchmark-dev git python3 python3-dev
  python3-venv)
test_packages=(libclang-rt-19-dev clang-format-19 g++-12 qemu-user)

# InstallPackages NAME...: installs the Debian packages of the list that are missing, in one apt call.
InstallPackages() {
  local missing=() package sudo=
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    echo "setup: Debian packages are there"
    return
  fi
  echo "setup: installing ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    sudo=sudo
    command -v sudo >/dev/null || { echo "error: run as root, or install sudo" >&2; exit 1; }
  fi
  $sudo apt-get -o Acquire::Retries=3 update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 install -qq -y \
    --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

# MakeVenv: .tools/venv with scripts/requirements.txt; made anew when that file has changed.
MakeVenv() {
  local stamp
  stamp=$(sha256sum < "$here/requirements.txt")
  if [ "$(cat "$tools/venv/.stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "setup: Python environment is there"
    return
  fi
  echo "setup: making the Python environment .tools/venv"
  local python=/usr/bin/python3
  [ -x "$python" ] || python=python3
  rm -rf "$tools/venv"
  mkdir -p "$tools"
  "$python" -m venv "$tools/venv"
  "$tools/venv/bin/pip" install -q --disable-pip-version-check --retries 5 -r "$here/requirements.txt"
  echo "$stamp" > "$tools/venv/.stamp"
}

[ $# -gt 0 ] || set -- build test python arm64
packages=()
for part in "$@"; do
  case $part in
    build) packages+=("${build_packages[@]}") ;;
    test) packages+=("${test_packages[@]}") ;;
    python | arm64) ;;
    *) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;;
  esac
done
[ ${#packages[@]} -eq 0 ] || InstallPackages "${packages[@]}"
for part in "$@"; do
  case $part in
    python) MakeVenv ;;
    arm64)
      "$here/get-qemu.sh"
      "$here/get-arm64-root.sh" ;;
  esac
done
