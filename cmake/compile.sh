#!/bin/sh
# compile.sh <ccache> <compiler> <argument>...: compiles through ccache, with precompiled headers.
# What was compiled with a precompiled header is found again in another folder if the header's text is the same: its
# digest lies beside it (<header>.sum, which ccache takes instead of the file). The header itself names its folder and
# is never taken from the cache.
ccache=$1
shift
emits=
out=
last=
for argument in "$@"; do  # of the build folder, in which this runs: relative
  shift
  [ "$last" = -o ] && out=$argument
  last=$argument
  case $argument in
  "$PWD"/*) argument=${argument#"$PWD"/} ;;
  -emit-pch) emits=1 ;;
  esac
  set -- "$@" "$argument"
done
if [ -z "$emits" ]; then
  exec env CCACHE_DEPEND=1 CCACHE_PCH_EXTSUM=1 CCACHE_SLOPPINESS=pch_defines,time_macros "$ccache" "$@"
fi
"$@" || exit
for argument in "$@"; do  # to the same command, which prints the text
  shift
  [ "$argument" = -emit-pch ] && argument=-fno-pch-timestamp
  set -- "$@" "$argument"
done
{ "$1" --version && printf '%s\n' "$1" && "$@" -E -P -o -; } | sha256sum >"$out.sum"
