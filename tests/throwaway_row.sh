#!/usr/bin/env bash
# Adds a micro-kernel as one new file to a temporary copy of the tree and checks that it is found, tested, benchmarked
# and selected without another change.   usage: throwaway_row.sh   (needs a configured compiler)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
(cd "$root" && git ls-files -z | xargs -0 cp --parents -t "$work/tree")
row=gemm_f32_f32_f32_2x16x1_portable

# The float32 row of portable C++ with two rows instead of three, said to cost nothing.
sed -e 's/Tile(3, 16, DispatchTileF32<Vector, 3, 1>)/Tile(2, 16, DispatchTileF32<Vector, 2, 1>)/' \
    -e 's/vectors \* 1.5f/vectors * 0.01f/' -e 's/= vectors,/= 0.01f,/' \
    "$work/tree/src/ukernel/gemm/gemm_f32_f32_f32_portable.cc" \
    > "$work/tree/src/ukernel/gemm/gemm_f32_f32_f32_throwaway_portable.cc"

# Laid out as the checkout is, so that ccache finds what its build compiled.
build="$work/tree/build/release"
export CCACHE_BASEDIR="$work/tree" CCACHE_NOHASHDIR=1
cmake -S "$work/tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="${CC:-clang-19}" \
      -DCMAKE_CXX_COMPILER="${CXX:-clang++-19}" -DQUERN_BUILD_PYTHON=OFF > "$work/configure.log"
cmake --build "$build" -j "$(nproc)" --target ukernel_test ukernel_bench quern_command > "$work/build.log" 2>&1 ||
  { tail -30 "$work/build.log"; exit 1; }

fail() { echo "throwaway row: $1"; exit 1; }
find_binary() { find "$build" -type f -perm -u+x -name "$1" | head -1; }
tests=$("$(find_binary ukernel_test)" --gtest_filter="*2x16x1_portable*" 2>&1) || fail "its tests fail: $tests"
grep -qE '\[  PASSED  \] [1-9]' <<< "$tests" || fail "no test ran it"
"$(find_binary ukernel_bench)" --benchmark_list_tests=true | grep -q "$row" || fail "no benchmark has it"
"$(find_binary quern)" kernels --cpu generic --shape 64x64x64 --types f32,f32,f32 > "$work/chosen"
grep -q "per call, the kernel: $row" "$work/chosen" || fail "it is not selected: $(cat "$work/chosen")"
echo "throwaway row: found, tested, benchmarked and selected"
