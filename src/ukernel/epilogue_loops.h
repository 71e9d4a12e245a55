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

constexpr size_t kEpilogueChunk = 256;  // floats of a row handled at once: stays in L1 and on the stack

struct EpilogueSpan {
  size_t m, n0, count;  // row and first column in the whole output
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

void ApplyFloat(const EpilogueOp& op, const EpilogueSpan& s, float* x) {
  auto each = [&](auto f) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < s.count; ++i) x[i] = f(x[i], i);
  };
  const float a = op.a, b = op.b;
  switch (op.kind) {
    case EpilogueKind::kAddVectorN:
      each([v = EpilogueData<float>(op.data, s.n0)](float y, size_t i) { return y + v[i]; });
      return;
    case EpilogueKind::kMulVectorN:
      each([v = EpilogueData<float>(op.data, s.n0)](float y, size_t i) { return y * v[i]; });
      return;
    case EpilogueKind::kAddVectorM:
      each([v = *EpilogueData<float>(op.data, s.m)](float y, size_t) { return y + v; });
      return;
    case EpilogueKind::kMulVectorM:
      each([v = *EpilogueData<float>(op.data, s.m)](float y, size_t) { return y * v; });
      return;
    case EpilogueKind::kDivVectorM:
      each([v = *EpilogueData<float>(op.data, s.m)](float y, size_t) { return y / v; });
      return;
    case EpilogueKind::kAddOuter:
      each([u = *EpilogueData<float>(op.data, s.m), v = EpilogueData<float>(op.data2, s.n0)](float y, size_t i) {
        return y + u * v[i];
      });
      return;
    case EpilogueKind::kAddOuterScalar:
      each([a, v = EpilogueData<float>(op.data2, s.n0)](float y, size_t i) { return y + a * v[i]; });
      return;
    case EpilogueKind::kAddMatrix:
    case EpilogueKind::kMulMatrix: {
      const size_t bytes = FormatBytes(op.format);
      const char* row = static_cast<const char*>(op.data) + s.m * op.row_stride + s.n0 * bytes;
      const bool multiply = op.kind == EpilogueKind::kMulMatrix;
      if (op.format == Format::kF32) {
        const float* v = reinterpret_cast<const float*>(row);
        if (multiply) {
          each([v](float y, size_t i) { return y * v[i]; });
        } else {
          each([v](float y, size_t i) { return y + v[i]; });
        }
        return;
      }
      each([&](float y, size_t i) {
        const float v = LoadFloat(op.format, row + i * bytes);
        return multiply ? y * v : y + v;
      });
      return;
    }
    case EpilogueKind::kAddScalar:
      each([a](float y, size_t) { return y + a; });
      return;
    case EpilogueKind::kMulScalar:
      each([a](float y, size_t) { return y * a; });
      return;
    case EpilogueKind::kClamp:
      each([a, b](float y, size_t) { return Bound(y, a, b); });
      return;
    case EpilogueKind::kLeakyRelu:
      each([a](float y, size_t) { return y < 0 ? a * y : y; });
      return;
    case EpilogueKind::kPrelu:
      each([v = EpilogueData<float>(op.data, s.n0)](float y, size_t i) { return y < 0 ? v[i] * y : y; });
      return;
    case EpilogueKind::kHardSigmoid:
      each([a, b](float y, size_t) { return Bound(a * y + b, 0, 1); });
      return;
    case EpilogueKind::kHardSwish:
      each([](float y, size_t) { return y * Bound(y * (1.0f / 6.0f) + 0.5f, 0, 1); });
      return;
    case EpilogueKind::kSigmoid:
      each([](float y, size_t) { return Sigmoid(y); });
      return;
    case EpilogueKind::kSilu:
      each([a](float y, size_t) { return y * Sigmoid(a * y); });
      return;
    case EpilogueKind::kTanh:
      each([](float y, size_t) { return Tanh(y); });
      return;
    case EpilogueKind::kElu:
      each([a](float y, size_t) { return y < 0 ? a * Expm1OfNegative(y) : y; });
      return;
    case EpilogueKind::kGelu:
      each([](float y, size_t) { return Gelu(y); });
      return;
    case EpilogueKind::kGeluTanh:
      // (1 + tanh z) / 2 is the sigmoid of 2 z.
      each([](float y, size_t) { return y * Sigmoid(1.59576912160573071176f * (y + 0.044715f * y * y * y)); });
      return;
    case EpilogueKind::kSoftplus:
      each([](float y, size_t) { return Softplus(y); });
      return;
    case EpilogueKind::kExp:
      each([](float y, size_t) { return Exp(y); });
      return;
    case EpilogueKind::kRowMinMax: {
      float* out = static_cast<float*>(op.out) + 2 * s.m;
      for (size_t i = 0; i < s.count; ++i) {
        out[0] = x[i] < out[0] ? x[i] : out[0];
        out[1] = x[i] > out[1] ? x[i] : out[1];
      }
      return;
    }
    case EpilogueKind::kRowSumSquares: {
      float total = 0;
      for (size_t i = 0; i < s.count; ++i) total += x[i] * x[i];
      static_cast<float*>(op.out)[s.m] += total;
      return;
    }
    case EpilogueKind::kRequantize: {
      const bool is_signed = op.format == Format::kI8;
      float lo = is_signed ? -128.0f : 0.0f, hi = is_signed ? 127.0f : 255.0f;
      if (op.a < op.b) {
        lo = Bound(op.a, lo, hi);
        hi = Bound(op.b, lo, hi);
      }
      const float zero = static_cast<float>(op.integer);
      const float* v = op.data ? EpilogueData<float>(op.data, s.n0) : nullptr;
      each([=](float y, size_t i) {
        const float q = __builtin_rintf(y * (v ? v[i] : op.scale)) + zero;
        return q > lo ? (q < hi ? q : hi) : lo;  // NaN becomes lo
      });
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

[[maybe_unused]] void RunEpilogue(const EpilogueOp* ops, size_t count, const EpilogueBlock& block) {
  const Format out = EpilogueFormat(block.src_format, ops, count);
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
