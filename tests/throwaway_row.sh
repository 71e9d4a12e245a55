#!/usr/bin/env bash
# Adds the micro-kernel of docs/adding-a-kernel.md as one new file to a temporary copy of the tree and checks that it is
# found, tested, benchmarked and selected without another change.   usage: throwaway_row.sh   (needs a compiler)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
page="$root/docs/adding-a-kernel.md"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "throwaway row: $1"; exit 1; }

mkdir "$work/tree"
cd "$root"
git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do
  if [ -e "$file" ]; then printf '%s\0' "$file"; fi  # a file may be deleted and not yet committed so
done | xargs -0 cp --parents -t "$work/tree"

# The page names the file and the row; its one block of C++ is the file.
file=$(grep -om1 'src/ukernel/gemm/gemm_[a-z0-9_]*_portable\.cc' "$page") || fail "the page names no file"
row=$(grep -om1 'gemm_[a-z0-9_]*_[0-9]*x[0-9]*x[0-9]*_portable' "$page") || fail "the page names no row"
shape=$(grep -om1 -- '--shape [0-9x]* --types [a-z0-9,]*' "$page") || fail "the page names no shape"
[ ! -e "$work/tree/$file" ] || fail "$file is there already"
sed -n '/^```cpp$/,/^```$/{/^```/!p}' "$page" > "$work/tree/$file"
[ -s "$work/tree/$file" ] || fail "the page has no code"

# Laid out as the checkout is, so that ccache finds what its build compiled.
build="$work/tree/build/release"
export CCACHE_BASEDIR="$work/tree" CCACHE_NOHASHDIR=1
cmake -S "$work/tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="${CC:-clang-19}" \
      -DCMAKE_CXX_COMPILER="${CXX:-clang++-19}" -DQUERN_BUILD_PYTHON=OFF > "$work/configure.log"
cmake --build "$build" -j "$(nproc)" --target ukernel_test ukernel_bench quern_command > "$work/build.log" 2>&1 ||
  { tail -30 "$work/build.log"; exit 1; }

find_binary() { find "$build" -type f -perm -u+x -name "$1" -print -quit; }
tests=$("$(find_binary ukernel_test)" --gtest_filter="*/$row:GemmTable.*" 2>&1) || fail "its tests fail: $tests"
grep -q "OK.*/$row" <<< "$tests" || fail "no test ran it"
"$(find_binary ukernel_bench)" --benchmark_list_tests=true > "$work/benchmarks"
grep -q "$row" "$work/benchmarks" || fail "no benchmark has it"
# shellcheck disable=SC2086  # the shape is several words
"$(find_binary quern)" kernels --cpu generic $shape > "$work/chosen"
grep -q "per call, the kernel: $row" "$work/chosen" || fail "it is not selected: $(cat "$work/chosen")"
echo "throwaway row: found, tested, benchmarked and selected"
