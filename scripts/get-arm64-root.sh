#!/usr/bin/env bash
# Makes an arm64 sysroot with the libraries that Quern builds on; the machine's dpkg stays amd64-only (Debian's -dev
# packages are not all multi-arch: installing the arm64 ones would remove amd64's). Does nothing when it is complete.
# usage: get-arm64-root.sh [FOLDER]     (default: .tools/arm64-root of the checkout)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath -m "${1:-$here/../.tools/arm64-root}")
packages=(libc6 libc6-dev linux-libc-dev libcrypt1 libgcc-s1 libgcc-12-dev libstdc++6 libstdc++-12-dev
  libclang-rt-19-dev libgtest-dev libgmock-dev libbenchmark1debian libbenchmark-dev libstb0 libstb-dev libprotozero-dev
  libxxhash-dev)
all=(nlohmann-json3-dev libcli11-dev googletest)  # Architecture: all
want="${packages[*]} ${all[*]}; links inside"
if [ "$(cat "$out/.packages" 2>/dev/null)" = "$want" ]; then
  echo "arm64 root: already in $out"
  exit 0
fi
# shellcheck source=scripts/apt-private.sh
. "$here/apt-private.sh"
PrivateApt "amd64 arm64" "bookworm main"
(cd "$apt/debs" && apt-get "${apt_options[@]}" download -qq "${packages[@]/%/:arm64}" "${all[@]}")
rm -rf "$out"
mkdir -p "$out"
for deb in "$apt"/debs/*.deb; do dpkg -x "$deb" "$out"; done
# Absolute links (libm.so) would lead out of the root, and the linker would take the static library instead.
find "$out" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
  ln -sfrn "$out$(readlink "$link")" "$link"
done
echo "$want" > "$out/.packages"
echo "arm64 root: made in $out"
