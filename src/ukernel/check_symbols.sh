#!/usr/bin/env bash
# usage: check_symbols.sh NM LIST: each object file of LIST defines exactly one global symbol, the kernel list that its
# stem names, and no weak one.
set -uo pipefail
nm=$1; bad=0; count=0
while read -r object; do
  [ -n "$object" ] || continue
  count=$((count + 1))
  stem=$(basename "$object"); stem=${stem%%.*}
  globals=$("$nm" --defined-only --extern-only "$object" | awk '$2 ~ /^[A-Z]$/ && $2 !~ /^[VWu]$/ {print $3}')
  weak=$("$nm" "$object" | awk '$(NF-1) ~ /^[VvWwu]$/ {print $NF}')
  if [ "$(printf '%s\n' "$globals" | grep -c .)" != 1 ] || [[ "$globals" != *"$stem"* ]]; then
    echo "$object: exports [$globals], expected the list $stem alone"; bad=1
  fi
  if [ -n "$weak" ]; then echo "$object: weak symbols [$weak]"; bad=1; fi
done < "$2"
echo "$count kernel objects checked"
[ "$count" -gt 0 ] && exit $bad
