#!/usr/bin/env bash
# Fetches a current qemu-aarch64 (SME2 needs 10.1 or later, Debian 12 has 7.2) from Debian's unstable suite into
# FOLDER/usr/bin, without touching the machine's own package sources. Does nothing when it is there already.
# usage: get-qemu.sh [FOLDER]     (default: .tools/qemu of the checkout)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath -m "${1:-$here/../.tools/qemu}")
if "$out/usr/bin/qemu-aarch64" --version >/dev/null 2>&1; then
  echo "qemu-aarch64: already in $out"
  exit 0
fi
# shellcheck source=scripts/apt-private.sh
. "$here/apt-private.sh"
PrivateApt amd64 "unstable main"
(cd "$apt/debs" && apt-get "${apt_options[@]}" download -qq qemu-user)
mkdir -p "$out/usr/bin"
dpkg -x "$apt"/debs/qemu-user_*.deb "$apt/unpacked"
cp "$apt/unpacked/usr/bin/qemu-aarch64" "$out/usr/bin/"  # the other emulators take 450 MB
"$out/usr/bin/qemu-aarch64" --version | sed -n 1p
