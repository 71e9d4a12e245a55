// Accumulators of types that C++ has no arrays of (SVE's vectors), for loops over them. For kernel files only: internal
// linkage.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

// Calls f(all) with pointers to N variables of type Reg, which become registers where f is unrolled.
template <int N, class Reg, class F, class... Taken>
QUERN_INLINE void WithRegisters(const F& f, Taken*... taken) {
  if constexpr (sizeof...(Taken) == N) {
    Reg* const all[N] = {taken...};
    f(all);
  } else {
    Reg next;
    WithRegisters<N, Reg>(f, taken..., &next);
  }
}

}  // namespace
}  // namespace quern::ukernel
