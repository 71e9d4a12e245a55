// The operations of an epilogue list over a block, a row chunk at a time: plain loops that the compiler vectorizes with
// the flags of the including file. Everything has internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/convert.h"
#include "ukernel/epilogue.h"
#include "ukernel/vector_math.h"

namespace quern::ukernel {
namespace {

constexpr size_t kEpilogueChunk = 256;   // elements of a row that are converted at once: on the stack
constexpr size_t kEpilogueBlock = 2048;  // floats of several rows

// Part of a block, in the whole output.
struct EpilogueSpan {
  size_t m, n0, count;  // first row, first column, columns
  size_t rows = 1;
  size_t stride = 0;  // floats between rows
};

template <class T>
const T* EpilogueData(const void* base, size_t index) {
  return static_cast<const T*>(base) + index;
}

void ApplyInteger(const EpilogueOp& op, const EpilogueSpan& s, int32_t* x) {
  auto add = [&](auto value) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < s.count; ++i) {
      x[i] = static_cast<int32_t>(static_cast<uint32_t>(x[i]) + static_cast<uint32_t>(value(i)));
    }
  };
  auto times = [](int32_t a, int32_t b) { return static_cast<uint32_t>(a) * static_cast<uint32_t>(b); };
  switch (op.kind) {
    case EpilogueKind::kAddVectorN:
      add([v = EpilogueData<int32_t>(op.data, s.n0)](size_t i) { return v[i]; });
      return;
    case EpilogueKind::kAddVectorM:
      add([v = *EpilogueData<int32_t>(op.data, s.m)](size_t) { return v; });
      return;
    case EpilogueKind::kAddScalar:
      add([v = op.integer](size_t) { return v; });
      return;
    case EpilogueKind::kAddOuter:
      add([&, u = *EpilogueData<int32_t>(op.data, s.m), v = EpilogueData<int32_t>(op.data2, s.n0)](size_t i) {
        return times(u, v[i]);
      });
      return;
    case EpilogueKind::kAddOuterScalar:
      add([&, u = op.integer, v = EpilogueData<int32_t>(op.data2, s.n0)](size_t i) { return times(u, v[i]); });
      return;
    default:
      return;
  }
}

inline float Bound(float x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : x; }

constexpr size_t kLaneBlock = 16;
// Long functions take as many blocks side by side: with more, vectors of 8 floats and less leave the registers.
#if defined(__AVX512F__)
#define QUERN_SIDE 4
#else
#define QUERN_SIDE 2
#endif
// A loop of kLaneBlock independent iterations is to become one vector step (or a few): unrolled before that, it would
// leave the loop around it to be vectorized, by gathers. QUERN_LANES_SIDE_BY_SIDE: QUERN_SIDE such steps at once.
#if defined(__clang__)
#define QUERN_LANES \
  _Pragma("clang loop vectorize(assume_safety) vectorize_width(16) interleave_count(1) unroll(disable)")
#define QUERN_LANES_SIDE_BY_SIDE \
  _Pragma("clang loop vectorize(assume_safety) vectorize_width(16) interleave_count(QUERN_SIDE) unroll(disable)")
#else
#define QUERN_LANES _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#define QUERN_LANES_SIDE_BY_SIDE QUERN_LANES
#endif

// f(i) for i of [at, at + kCount), a power of two: one vector, or a few.
template <size_t kCount, class F>
inline void BlockOfLanes(size_t at, F f) {
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety) vectorize_width(kCount) interleave_count(1) unroll(disable)
#else
  QUERN_LANES
#endif
  for (size_t j = 0; j < kCount; ++j) f(at + j);
}

// f(i) for i < n, independent of each other. Rows of a tile are short, 8 to 64 floats: blocks of a known length become
// one or a few vectors, where a loop of any length is unrolled and leaves most of such a row to its scalar rest.
template <class F>
inline void ForLanes(size_t n, F f) {
  size_t i = 0;
  for (; i + kLaneBlock <= n; i += kLaneBlock) BlockOfLanes<kLaneBlock>(i, f);
  if (n & 8) {
    BlockOfLanes<8>(i, f);
    i += 8;
  }
  if (n & 4) {
    BlockOfLanes<4>(i, f);
    i += 4;
  }
  for (; i < n; ++i) f(i);
}

// The bit of n that is kFloats: so many floats are copied.
template <size_t kFloats>
inline void CopyPiece(float*& to, const float*& from, size_t n) {
  if ((n & kFloats) == 0) return;
  __builtin_memcpy(to, from, kFloats * sizeof(float));
  to += kFloats;
  from += kFloats;
}
// Fewer floats than a block has, in pieces of known sizes: a call of memcpy would take longer.
inline void CopyPart(float* to, const float* from, size_t n) {
  CopyPiece<8>(to, from, n);
  CopyPiece<4>(to, from, n);
  CopyPiece<2>(to, from, n);
  CopyPiece<1>(to, from, n);
}

// Each of the first `columns` values of the rows becomes f of it. f is a long chain of steps, of which CPUs do not look
// far enough ahead to find another one to work on: several blocks go side by side, from several rows where these are
// short. kWhole: columns is a multiple of kLaneBlock; otherwise it is less than one block.
template <bool kWhole, class F>
inline void EachOfBlocks(float* x, size_t rows, size_t stride, size_t columns, F f) {
  constexpr size_t kSide = QUERN_SIDE;
  float spare[kLaneBlock] = {};  // what the last step computes beside the last blocks
  size_t column = 0;
  for (size_t left = rows; left > 0;) {
    float* at[kSide];
    float lanes[kSide * kLaneBlock];
    for (size_t k = 0; k < kSide; ++k) {
      at[k] = left > 0 ? x + column : spare;
      column += kLaneBlock;
      if (column >= columns) {
        column = 0;
        x += stride;
        left -= left > 0;
      }
      float* lane = lanes + k * kLaneBlock;
      if constexpr (kWhole) {
        __builtin_memcpy(lane, at[k], kLaneBlock * sizeof(float));
      } else {
        __builtin_memset(lane, 0, kLaneBlock * sizeof(float));
        CopyPart(lane, at[k], columns);
      }
    }
    QUERN_LANES_SIDE_BY_SIDE
    for (size_t j = 0; j < kSide * kLaneBlock; ++j) lanes[j] = f(lanes[j]);
    for (size_t k = 0; k < kSide; ++k) {
      const float* lane = lanes + k * kLaneBlock;
      if constexpr (kWhole) {
        __builtin_memcpy(at[k], lane, kLaneBlock * sizeof(float));
      } else {
        CopyPart(at[k], lane, columns);
      }
    }
  }
}

template <class F>
inline void EachLong(const EpilogueSpan& s, float* x, F f) {
  const size_t part = s.count % kLaneBlock, whole = s.count - part;
  if (whole > 0) EachOfBlocks<true>(x, s.rows, s.stride, whole, f);
  if (part > 0) EachOfBlocks<false>(x + whole, s.rows, s.stride, part, f);
}

void ApplyFloat(const EpilogueOp& op, const EpilogueSpan& s, float* x) {
  // f(value, column, row), both from 0 on.
  auto each = [&](auto f) {
    for (size_t r = 0; r < s.rows; ++r) {
      float* to = x + r * s.stride;
      ForLanes(s.count, [&](size_t i) { to[i] = f(to[i], i, r); });
    }
  };
  auto each_long = [&](auto f) { EachLong(s, x, f); };  // f(value)
  const float a = op.a, b = op.b;
  switch (op.kind) {
    case EpilogueKind::kAddVectorN:
      each([v = EpilogueData<float>(op.data, s.n0)](float y, size_t i, size_t) { return y + v[i]; });
      return;
    case EpilogueKind::kMulVectorN:
      each([v = EpilogueData<float>(op.data, s.n0)](float y, size_t i, size_t) { return y * v[i]; });
      return;
    case EpilogueKind::kAddVectorM:
      each([v = EpilogueData<float>(op.data, s.m)](float y, size_t, size_t r) { return y + v[r]; });
      return;
    case EpilogueKind::kMulVectorM:
      each([v = EpilogueData<float>(op.data, s.m)](float y, size_t, size_t r) { return y * v[r]; });
      return;
    case EpilogueKind::kDivVectorM:
      each([v = EpilogueData<float>(op.data, s.m)](float y, size_t, size_t r) { return y / v[r]; });
      return;
    case EpilogueKind::kAddOuter:
      each([u = EpilogueData<float>(op.data, s.m), v = EpilogueData<float>(op.data2, s.n0)](
               float y, size_t i, size_t r) { return y + u[r] * v[i]; });
      return;
    case EpilogueKind::kAddOuterScalar:
      each([a, v = EpilogueData<float>(op.data2, s.n0)](float y, size_t i, size_t) { return y + a * v[i]; });
      return;
    case EpilogueKind::kAddMatrix:
    case EpilogueKind::kMulMatrix: {
      const size_t bytes = FormatBytes(op.format);
      const bool multiply = op.kind == EpilogueKind::kMulMatrix;
      for (size_t r = 0; r < s.rows; ++r) {
        const char* row = static_cast<const char*>(op.data) + (s.m + r) * op.row_stride + s.n0 * bytes;
        const float* v = reinterpret_cast<const float*>(row);
        float* to = x + r * s.stride;
        if (op.format != Format::kF32) {
          for (size_t i = 0; i < s.count; ++i) {
            const float w = LoadFloat(op.format, row + i * bytes);
            to[i] = multiply ? to[i] * w : to[i] + w;
          }
        } else if (multiply) {
          ForLanes(s.count, [&](size_t i) { to[i] *= v[i]; });
        } else {
          ForLanes(s.count, [&](size_t i) { to[i] += v[i]; });
        }
      }
      return;
    }
    case EpilogueKind::kAddScalar:
      each([a](float y, size_t, size_t) { return y + a; });
      return;
    case EpilogueKind::kMulScalar:
      each([a](float y, size_t, size_t) { return y * a; });
      return;
    case EpilogueKind::kClamp:
      each([a, b](float y, size_t, size_t) { return Bound(y, a, b); });
      return;
    case EpilogueKind::kLeakyRelu:
      each([a](float y, size_t, size_t) { return y < 0 ? a * y : y; });
      return;
    case EpilogueKind::kPrelu:
      each([v = EpilogueData<float>(op.data, s.n0)](float y, size_t i, size_t) { return y < 0 ? v[i] * y : y; });
      return;
    case EpilogueKind::kHardSigmoid:
      each([a, b](float y, size_t, size_t) { return Bound(a * y + b, 0, 1); });
      return;
    case EpilogueKind::kHardSwish:
      each([](float y, size_t, size_t) { return y * Bound(y * (1.0f / 6.0f) + 0.5f, 0, 1); });
      return;
    case EpilogueKind::kSigmoid:
      each_long([](float y) { return Sigmoid(y); });
      return;
    case EpilogueKind::kSilu:
      each_long([a](float y) { return Gated(y, a * y); });
      return;
    case EpilogueKind::kTanh:
      each_long([](float y) { return Tanh(y); });
      return;
    case EpilogueKind::kElu:
      each_long([a](float y) { return y < 0 ? a * Expm1OfNegative(y) : y; });
      return;
    case EpilogueKind::kGelu:
      each_long([](float y) { return Gelu(y); });
      return;
    case EpilogueKind::kGeluTanh:
      each_long([](float y) { return GeluTanh(y); });
      return;
    case EpilogueKind::kSoftplus:
      each_long([](float y) { return Softplus(y); });
      return;
    case EpilogueKind::kExp:
      each_long([](float y) { return Exp(y); });
      return;
    case EpilogueKind::kRowMinMax:
      for (size_t r = 0; r < s.rows; ++r) {
        float* out = static_cast<float*>(op.out) + 2 * (s.m + r);
        const float* from = x + r * s.stride;
        for (size_t i = 0; i < s.count; ++i) {
          out[0] = from[i] < out[0] ? from[i] : out[0];
          out[1] = from[i] > out[1] ? from[i] : out[1];
        }
      }
      return;
    case EpilogueKind::kRowSumSquares:
      for (size_t r = 0; r < s.rows; ++r) {
        const float* from = x + r * s.stride;
        float total = 0;
        for (size_t i = 0; i < s.count; ++i) total += from[i] * from[i];
        static_cast<float*>(op.out)[s.m + r] += total;
      }
      return;
    case EpilogueKind::kRequantize: {
      const bool is_signed = op.format == Format::kI8;
      float lo = is_signed ? -128.0f : 0.0f, hi = is_signed ? 127.0f : 255.0f;
      if (op.a < op.b) {
        lo = Bound(op.a, lo, hi);
        hi = Bound(op.b, lo, hi);
      }
      const float zero = static_cast<float>(op.integer);
      const float* v = op.data ? EpilogueData<float>(op.data, s.n0) : nullptr;
      const auto stored = [=](float y, float scale) {
        const float q = __builtin_rintf(y * scale) + zero;
        return q > lo ? (q < hi ? q : hi) : lo;  // NaN becomes lo
      };
      if (v) {
        each([=](float y, size_t i, size_t) { return stored(y, v[i]); });
      } else {
        each([=, scale = op.scale](float y, size_t, size_t) { return stored(y, scale); });
      }
      return;
    }
    case EpilogueKind::kConvert:
    case EpilogueKind::kCount:
      return;
  }
}

void StoreChunk(Format format, const float* x, const int32_t* integers, size_t count, char* dst) {
  switch (format) {
    case Format::kI32:
      __builtin_memcpy(dst, integers, count * 4);
      return;
    case Format::kF32:
      __builtin_memcpy(dst, x, count * 4);
      return;
    case Format::kI8:
    case Format::kU8:
      for (size_t i = 0; i < count; ++i) dst[i] = static_cast<char>(static_cast<int>(x[i]));
      return;
    default:
      for (size_t i = 0; i < count; ++i) StoreFloat(format, dst + i * 2, x[i]);
  }
}

// float32 throughout: in place in the result, as many rows at a time as stay in L1 from one operation to the next.
void RunFloats(const EpilogueOp* ops, size_t count, const EpilogueBlock& block) {
  const size_t most = block.n < kEpilogueBlock ? kEpilogueBlock / (block.n ? block.n : 1) : 1;
  for (size_t r = 0; r < block.m; r += most) {
    const size_t rows = block.m - r < most ? block.m - r : most;
    const EpilogueSpan s{block.m0 + r, block.n0, block.n, rows, block.dst_row_stride / sizeof(float)};
    const char* src = static_cast<const char*>(block.src) + r * block.src_row_stride;
    float* dst = static_cast<float*>(block.dst) + r * s.stride;
    for (size_t i = 0; block.src != block.dst && i < rows; ++i) {
      ForLanes(block.n, [to = dst + i * s.stride, from = reinterpret_cast<const float*>(
                                                      src + i * block.src_row_stride)](size_t j) { to[j] = from[j]; });
    }
    for (size_t i = 0; i < count; ++i) ApplyFloat(ops[i], s, dst);
  }
}

[[maybe_unused]] void RunEpilogue(const EpilogueOp* ops, size_t count, const EpilogueBlock& block) {
  const Format out = EpilogueFormat(block.src_format, ops, count);
  if (block.src_format == Format::kF32 && out == Format::kF32) return RunFloats(ops, count, block);
  for (size_t r = 0; r < block.m; ++r) {
    for (size_t c = 0; c < block.n; c += kEpilogueChunk) {
      const EpilogueSpan s{block.m0 + r, block.n0 + c, block.n - c < kEpilogueChunk ? block.n - c : kEpilogueChunk};
      float x[kEpilogueChunk];
      int32_t integers[kEpilogueChunk];
      bool is_integer = block.src_format == Format::kI32;
      const char* src = static_cast<const char*>(block.src) + r * block.src_row_stride + c * 4;
      if (is_integer) {
        __builtin_memcpy(integers, src, s.count * 4);
      } else {
        __builtin_memcpy(x, src, s.count * 4);
      }
      for (size_t i = 0; i < count; ++i) {
        if (is_integer && IsIntegerOp(ops[i].kind)) {
          ApplyInteger(ops[i], s, integers);
          continue;
        }
        if (is_integer) {
          for (size_t j = 0; j < s.count; ++j) x[j] = static_cast<float>(integers[j]);
          is_integer = false;
        }
        ApplyFloat(ops[i], s, x);
      }
      char* dst = static_cast<char*>(block.dst) + r * block.dst_row_stride + c * FormatBytes(out);
      StoreChunk(out, x, integers, s.count, dst);
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
