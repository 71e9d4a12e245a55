#!/usr/bin/env bash
# Installs what is missing (Debian packages, .tools/), builds Quern and runs its tests; --help lists the stages.
# Safe to run again: what is installed or built is used as it is. The last line is "N passed, N failed, N skipped".
set -euo pipefail
cd "$(dirname "$0")"
case " $* " in
  *" --help "* | *" -h "*)  # needs nothing installed but some Python
    if command -v python3 >/dev/null; then exec python3 scripts/run_tests.py --help; fi ;;
esac
start=$SECONDS
echo "== setup: Debian packages, Python environment, arm64 sysroot and emulator"
if ! scripts/setup.sh build test python arm64; then
  echo "error: setup failed"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
echo "== setup: $((SECONDS - start)) s"
exec .tools/venv/bin/python scripts/run_tests.py "$@"
