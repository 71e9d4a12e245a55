#!/usr/bin/env bash
# usage: check_roots.sh SOURCE ROOTS CMAKE COMPILER: from each folder of src/, an include of itself or of a lower layer
# is found and any other is not; micro-kernels find the kernel-safe headers only; a path with `..` fails the build's
# check.
set -euo pipefail
source=$1 roots=$2 cmake=$3 compiler=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks=0 bad=0

# Expect RESULT FOLDER HEADER: whether a file of FOLDER that includes HEADER gets past the preprocessor.
Expect() {
  local result=found
  printf '#if !__has_include("%s")\n#error not found\n#endif\n' "$3" > "$work/one.cc"
  "$compiler" -E -std=c++20 -I "$roots/$2" "$work/one.cc" > /dev/null 2> "$work/log" || result=absent
  checks=$((checks + 1))
  if [ "$result" != "$1" ] || { [ "$result" = absent ] && ! grep -q "not found" "$work/log"; }; then
    echo "from $2, \"$3\" is $result, should be $1"
    cat "$work/log"
    bad=1
  fi
}

declare -A layer
while read -r number folder; do
  if [ -d "$source/src/$folder" ]; then layer[$folder]=$number; fi
done < <(grep -E '^[0-9]+ [a-z]+$' "$source/cmake/layers.txt")
safe=$(sed -n 's/^kernel-safe //p' "$source/cmake/layers.txt")

for folder in "${!layer[@]}"; do
  for other in "${!layer[@]}"; do
    header=$(cd "$source/src" && find "$other" -name '*.h' | sort | sed -n 1p)
    if [ "$other" = "$folder" ]; then
      Expect found "$folder" "$header"
    elif [ "$folder" = ukernel ]; then
      [ "$other" = base ] || Expect absent ukernel "$header"
    elif [ "${layer[$other]}" -lt "${layer[$folder]}" ]; then
      Expect found "$folder" "$header"
    else
      Expect absent "$folder" "$header"
    fi
  done
done
for header in "$source"/src/base/*.h; do
  header=base/$(basename "$header")
  if grep -qx "$header" <<< "$safe"; then Expect found ukernel "$header"; else Expect absent ukernel "$header"; fi
done

mkdir "$work/tensor"
for line in '#include "../graph/graph.h"' ' # include <tensor/../../graph/graph.h>'; do
  echo "$line" > "$work/tensor/wrong.h"
  checks=$((checks + 1))
  if "$cmake" -D FOLDER="$work/tensor" -D STAMP="$work/stamp" -P "$source/cmake/check_includes.cmake" 2> "$work/log" ||
    ! grep -qF "$line" <(tr -d '\n' < "$work/log") || [ -e "$work/stamp" ]; then
    echo "passed: $line"
    cat "$work/log"
    bad=1
  fi
done
echo "$checks includes checked"
exit $bad
