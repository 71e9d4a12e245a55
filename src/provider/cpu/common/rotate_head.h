// Rotary embedding of one head.
#pragma once

#include <cstdint>

namespace quern::cpu {

// Rotates the first 2 * half elements by the angles whose cosines and sines are given: pairs are half apart, or
// neighbours when interleaved. y may be x.
inline void RotateHead(const float* cosines, const float* sines, int64_t half, bool interleaved, const float* x,
                       float* y) {
  const int64_t step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
  for (int64_t i = 0; i < half; ++i) {
    const float real = x[i * step], imaginary = x[i * step + apart];
    y[i * step] = cosines[i] * real - sines[i] * imaginary;
    y[i * step + apart] = sines[i] * real + cosines[i] * imaginary;
  }
}

}  // namespace quern::cpu
