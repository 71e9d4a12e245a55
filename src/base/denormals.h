// What the floating-point unit of the calling thread does with denormal numbers (float32 below 2^-126, float64 below
// 2^-1022), which cost many CPUs some 150 cycles each, and whether it met any. On CPUs other than x86-64 and aarch64
// nothing changes and none are met.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cstdint>

namespace quern {

// The thread's control word. Results and operands that are denormal count as 0 where kFlushBits are set: FTZ and DAZ of
// MXCSR, FZ of FPCR (not FZ16: many useful float16 numbers are denormal).
inline uint64_t FloatControl() {
#if defined(__x86_64__)
  return _mm_getcsr();
#elif defined(__aarch64__)
  uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
#else
  return 0;
#endif
}
inline void SetFloatControl(uint64_t word) {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(word));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(word) : "memory");
#else
  static_cast<void>(word);
#endif
}
#if defined(__x86_64__)
inline constexpr uint64_t kFlushBits = 0x8040;
#elif defined(__aarch64__)
inline constexpr uint64_t kFlushBits = uint64_t{1} << 24;
#else
inline constexpr uint64_t kFlushBits = 0;
#endif

// The calling thread flushes denormals for the scope's life.
class DenormalFlushScope {
 public:
  DenormalFlushScope() : before_(FloatControl() & kFlushBits) { Set(kFlushBits); }
  ~DenormalFlushScope() { Set(before_); }
  DenormalFlushScope(const DenormalFlushScope&) = delete;
  DenormalFlushScope& operator=(const DenormalFlushScope&) = delete;

 private:
  void Set(uint64_t bits) {
    if (before_ != kFlushBits) SetFloatControl((FloatControl() & ~kFlushBits) | bits);
  }

  const uint64_t before_;
};

// Whether an instruction of the calling thread took or made a denormal number since the last call. Not where they are
// flushed; aarch64 tells of inexact results only.
inline bool TakeDenormalsMet() {
#if defined(__x86_64__)
  constexpr unsigned kMet = 0x12;  // DE, UE
  const unsigned word = _mm_getcsr();
  if (!(word & kMet)) return false;
  _mm_setcsr(word & ~kMet);
  return !(word & kFlushBits);
#elif defined(__aarch64__)
  constexpr uint64_t kMet = 0x8;  // UFC
  uint64_t word;
  asm volatile("mrs %0, fpsr" : "=r"(word));
  if (!(word & kMet)) return false;
  asm volatile("msr fpsr, %0" : : "r"(word & ~kMet) : "memory");
  return !(FloatControl() & kFlushBits);
#else
  return false;
#endif
}

}  // namespace quern
