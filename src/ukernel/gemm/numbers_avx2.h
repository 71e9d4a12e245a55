// Numbers of blocks as float32 weights (tile_f32_blocks_few.h) on AVX2. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_blocks_few.h"
#include "ukernel/gemm/vector_i32_avx2.h"

namespace quern::ukernel {
namespace {

// Numbers become the last bits of a float32 whose exponent gives them their value; what it has too much is taken off
// with the zero. Two of them stay where they are in their lane, others are shifted there. int8 has its top bit turned
// over.
template <Format kF, BlockZero kZ>
struct Numbers {
  using V = IntVector;
  static constexpr Format kElement = kF;
  static constexpr BlockZero kZeros = kZ;
  static constexpr int kSums = 4;
  static constexpr bool kInOrder = true;
  static constexpr int kBits = static_cast<int>(FormatBits(kF)), kPerByte = 8 / kBits;
  static constexpr int kPositions = 2;

  // A float32 whose bit `position * kBits` counts one: 2^23, 2^(23-bits).
  static constexpr int Exponent(int position) { return (127 + 23 - position * kBits) << 23; }

  Numbers() : Numbers(_mm256_set1_epi32(kZ == BlockZero::kConstant ? 1 << (kBits - 1) : 0)) {}
  explicit Numbers(__m256i zeros) {
    const __m256 z = V::ToFloat(zeros);
    for (int i = 0; i < kPositions; ++i) {
      zero[i] = _mm256_add_ps(z, _mm256_castsi256_ps(_mm256_set1_epi32(Exponent(i))));
    }
  }

  template <int I>
  __m256 Get(__m256i line) const {
    constexpr int kAt = I % 4 * kPerByte + I / 4, kPosition = kAt % kPositions;
    constexpr int kShift = (kAt - kPosition) * kBits;
    constexpr int kTurned = kF == Format::kI8 ? 0x80 << kPosition * kBits : 0;
    const __m256i bits = _mm256_and_si256(kShift ? _mm256_srli_epi32(line, kShift) : line,
                                          _mm256_set1_epi32(((1 << kBits) - 1) << kPosition * kBits));
    const __m256i number = _mm256_xor_si256(bits, _mm256_set1_epi32(Exponent(kPosition) | kTurned));
    return _mm256_sub_ps(_mm256_castsi256_ps(number), zero[kPosition]);
  }

  __m256 zero[kPositions];
};

// A permutation within four lanes looks at 2 bits of each lane, which is an index of a table.
template <BlockZero kZ>
struct Numbers<Format::kU2, kZ> {
  using V = IntVector;
  static constexpr Format kElement = Format::kU2;
  static constexpr BlockZero kZeros = kZ;
  static constexpr int kSums = 4;
  static constexpr bool kInOrder = true;

  Numbers() = default;
  explicit Numbers(__m256i zeros) : zero(V::ToFloat(zeros)) {}

  template <int I>
  __m256 Get(__m256i line) const {
    constexpr int kShift = I % 4 * 8 + I / 4 * 2;
    constexpr float kLess = kZ == BlockZero::kConstant ? 2 : 0;
    const __m256 table =
        _mm256_setr_ps(0 - kLess, 1 - kLess, 2 - kLess, 3 - kLess, 0 - kLess, 1 - kLess, 2 - kLess, 3 - kLess);
    const __m256 number = _mm256_permutevar_ps(table, kShift ? _mm256_srli_epi32(line, kShift) : line);
    return kZ == BlockZero::kInteger ? _mm256_sub_ps(number, zero) : number;
  }

  __m256 zero;
};

}  // namespace
}  // namespace quern::ukernel
