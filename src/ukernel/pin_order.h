// Order that compilers keep. For kernel files only.
#pragma once

namespace quern::ukernel {
namespace {

// No instruction: `reg`, a vector of the file's ISA, is as if read and written here, so that what makes it stays before
// and what uses it after, in the order of such calls.
template <class V>
[[maybe_unused]] inline __attribute__((always_inline)) void PinOrder(V& reg) {
#if defined(__aarch64__)
  asm volatile("" : "+w"(reg));
#elif defined(QUERN_AVX512_EMULATED)
  asm volatile("" : "+m"(reg));  // two registers
#else
  asm volatile("" : "+v"(reg));
#endif
}

// No instruction: what lies at `p` is read (again) after this, instead of being kept or read early, where registers are
// few.
template <class T>
inline __attribute__((always_inline)) void ReadAgain(T*& p) {
  asm volatile("" : "+r"(p));
}

}  // namespace
}  // namespace quern::ukernel
