#!/bin/sh
# check_exports.sh NM LIBRARY HEADER...: the functions that the headers declare are exactly what the library exports.
set -eu
nm=$1
library=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$nm" -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort -u > "$work/exported"
cat "$@" | grep -v '^#' | tr '\n' ' ' | grep -o 'QUERN_API [^(]*(' |
  sed 's/.*[ *]\(quern_[a-z0-9_]*\)(/\1/' | sort -u > "$work/declared"
if [ "$(wc -l < "$work/declared")" -lt 40 ]; then
  echo "only $(wc -l < "$work/declared") functions found in $*"
  exit 1
fi
diff "$work/declared" "$work/exported" || {
  echo "< declared only, > exported only"
  exit 1
}
