#!/usr/bin/env bash
# usage: fuzz/run.sh SECONDS   Builds the fuzz targets and runs each that long, within memory and time limits.
set -euo pipefail
cd "$(dirname "$0")/.."
exec ./test.sh --fuzz "${1:?usage: fuzz/run.sh SECONDS}"
