#!/bin/sh
# check_exports.sh NM LIBRARY HEADER: the functions that the header declares are exactly what the library exports.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" -D --defined-only "$2" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort -u > "$work/exported"
grep -v '^#' "$3" | tr '\n' ' ' | grep -o 'QUERN_API [^(]*(' |
  sed 's/.*[ *]\(quern_[a-z0-9_]*\)(/\1/' | sort -u > "$work/declared"
if [ "$(wc -l < "$work/declared")" -lt 40 ]; then
  echo "only $(wc -l < "$work/declared") functions found in $3"
  exit 1
fi
diff "$work/declared" "$work/exported" || {
  echo "< declared only, > exported only"
  exit 1
}
