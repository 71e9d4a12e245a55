#!/bin/sh
# check_libc_only.sh NM ARCHIVE: what the archive's objects refer to and none of them defines are functions of libc and
# libm; nothing of the C++ library, no operator new, no exceptions, no weak copies of its templates.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" "$2" > "$work/all" 2> /dev/null
awk 'NF == 3 && $2 ~ /^[A-TV-Z]$/ {print $3}' "$work/all" | sort -u > "$work/defined"
awk 'NF == 2 && $1 == "U" {print $2}' "$work/all" | sort -u > "$work/used"
comm -23 "$work/used" "$work/defined" > "$work/needed"
bad=0
# C names without a leading underscore are libc's; of the others only what compilers put in for libc's sake.
checked='^__(mem|str|sn|read|open)[a-z0-9_]*_chk$|^__stack_chk_fail$'
others='^_GLOBAL_OFFSET_TABLE_$|^__errno_location$|^__isoc[0-9]*_'
if grep -v -E "^[a-z][a-z0-9_]*\$|$checked|$others" "$work/needed"; then
  echo "^ needed, not of libc"
  bad=1
fi
if awk 'NF == 3 && $2 ~ /^[WVu]$/ {print $3}' "$work/all" | grep -E '^_ZN?K?St|^_Z(n|d)[aw]'; then
  echo "^ defined, of the C++ library"
  bad=1
fi
count=$(wc -l < "$work/needed")
echo "$count symbols of libc needed"
[ "$count" -gt 0 ] && exit $bad
