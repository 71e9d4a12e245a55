// Numbers of blocks as float32 weights (tile_f32_blocks_few.h) on AVX-512. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_blocks_few.h"
#include "ukernel/gemm/vector_i32_avx512.h"

namespace quern::ukernel {
namespace {

// Numbers become the last bits of a float32 whose exponent gives them their value; what it has too much is taken off
// with the zero. kPositions of them stay where they are in their lane, others are shifted there. int8 has its top bit
// turned over.
template <Format kF, BlockZero kZ>
struct Numbers {
  using V = IntVector;
  static constexpr Format kElement = kF;
  static constexpr BlockZero kZeros = kZ;
  static constexpr bool kInOrder = false;
  static constexpr int kBits = static_cast<int>(FormatBits(kF)), kPerByte = 8 / kBits;
  static constexpr int kPositions = kBits == 4 ? 3 : 2;
  static constexpr int kSums = kBits < 8 ? 8 : kZ == BlockZero::kInteger ? 12 : 16;

  // A float32 whose bit `position * kBits` counts one: 2^23, 2^22...
  static constexpr int Exponent(int position) { return (127 + 23 - position * kBits) << 23; }

  Numbers() : Numbers(_mm512_set1_epi32(kZ == BlockZero::kConstant ? 1 << (kBits - 1) : 0)) {}
  explicit Numbers(__m512i zeros) {
    const __m512 z = V::ToFloat(zeros);
    for (int i = 0; i < kPositions; ++i) {
      zero[i] = _mm512_add_ps(z, _mm512_castsi512_ps(_mm512_set1_epi32(Exponent(i))));
    }
  }

  template <int I>
  __m512 Get(__m512i line) const {
    constexpr int kAt = I % 4 * kPerByte + I / 4, kPosition = kAt % kPositions;
    constexpr int kShift = (kAt - kPosition) * kBits;
    constexpr int kTurned = kF == Format::kI8 ? 0x80 << kPosition * kBits : 0;
    const __m512i bits = _mm512_ternarylogic_epi32(  // (line & mask) ^ exponent
        kShift ? _mm512_srli_epi32(line, kShift) : line, _mm512_set1_epi32(((1 << kBits) - 1) << kPosition * kBits),
        _mm512_set1_epi32(Exponent(kPosition) | kTurned), 0x6a);
    return _mm512_sub_ps(_mm512_castsi512_ps(bits), zero[kPosition]);
  }

  __m512 zero[kPositions];
};

// A permutation looks at 4 bits of each lane, which is an index of a table of numbers less their zero. Of 2 bits these
// are two numbers, and there is a table for each.
template <int kBits, BlockZero kZ>
struct TableNumbers {
  using V = IntVector;
  static constexpr Format kElement = kBits == 4 ? Format::kU4 : Format::kU2;
  static constexpr BlockZero kZeros = kZ;
  static constexpr int kSums = 16;
  static constexpr bool kInOrder = false;

  // For kBits of the index from kFrom on.
  template <int kFrom>
  static __m512 Table() {
    const __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i number = _mm512_and_si512(_mm512_srli_epi32(index, kFrom), _mm512_set1_epi32((1 << kBits) - 1));
    const __m512i zero = _mm512_set1_epi32(kZ == BlockZero::kConstant ? 1 << (kBits - 1) : 0);
    return V::ToFloat(_mm512_sub_epi32(number, zero));
  }

  // The 4 bits of a line from 4 * kFour on, found in a table.
  template <int kFour>
  static __m512 Pair(__m512i line, __m512 table) {
    return _mm512_permutexvar_ps(kFour ? _mm512_srli_epi32(line, 4 * kFour) : line, table);
  }

  template <int I>
  __m512 Get(__m512i line) const {
    constexpr int kAt = (I % 4 * 8 / kBits + I / 4) * kBits;
    return Pair<kAt / 4>(line, Table<kAt % 4>());
  }
};

template <>
struct Numbers<Format::kU4, BlockZero::kConstant> : TableNumbers<4, BlockZero::kConstant> {};
template <>
struct Numbers<Format::kU4, BlockZero::kMinimum> : TableNumbers<4, BlockZero::kMinimum> {};
template <>
struct Numbers<Format::kU2, BlockZero::kConstant> : TableNumbers<2, BlockZero::kConstant> {};
template <>
struct Numbers<Format::kU2, BlockZero::kMinimum> : TableNumbers<2, BlockZero::kMinimum> {};

}  // namespace
}  // namespace quern::ukernel
