// The bodies of the vector family as plain loops: the compiler vectorizes them with the flags of the including file.
#pragma once

#include "ukernel/epilogue_loops.h"
#include "ukernel/vector.h"
#include "ukernel/vector_math.h"

namespace quern::ukernel {
namespace {

template <class F>
void Each(const UnaryArgs& args, F f) {
  const float* x = args.x;
  float* y = args.y;
  const size_t n = args.n;
  QUERN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

void RunUnary(const UnaryArgs& args) {
  const float a = args.a, b = args.b;
  const auto bound = [](float x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : x; };
  switch (args.kind) {
    case UnaryKind::kRelu:
      return Each(args, [](float x) { return x < 0.0f ? 0.0f : x; });
    case UnaryKind::kLeakyRelu:
      return Each(args, [a](float x) { return x < 0.0f ? a * x : x; });
    case UnaryKind::kThresholdedRelu:
      return Each(args, [a](float x) { return x > a ? x : 0.0f; });
    case UnaryKind::kClip:
      return Each(args, [a, b](float x) {
        const float v = x < a ? a : x;
        return v > b ? b : v;
      });
    case UnaryKind::kHardSigmoid:
      return Each(args, [=](float x) { return bound(MulAdd(a, x, b), 0, 1); });
    case UnaryKind::kHardSwish:
      return Each(args, [=](float x) { return x * bound(MulAdd(x, 1.0f / 6.0f, 0.5f), 0, 1); });
    case UnaryKind::kSigmoid:
      return Each(args, [](float x) { return Sigmoid(x); });
    case UnaryKind::kSilu:
      return Each(args, [a](float x) { return x * Sigmoid(a * x); });
    case UnaryKind::kTanh:
      return Each(args, [](float x) { return Tanh(x); });
    case UnaryKind::kExp:
      return Each(args, [](float x) { return Exp(x); });
    case UnaryKind::kLog:
      return Each(args, [](float x) { return Log(x); });
    case UnaryKind::kSqrt:
      return Each(args, [](float x) { return __builtin_sqrtf(x); });
    case UnaryKind::kNeg:
      return Each(args, [](float x) { return -x; });
    case UnaryKind::kAbs:
      return Each(args, [](float x) { return Abs(x); });
    case UnaryKind::kReciprocal:
      return Each(args, [](float x) { return 1.0f / x; });
    case UnaryKind::kFloor:
      return Each(args, [](float x) { return __builtin_floorf(x); });
    case UnaryKind::kCeil:
      return Each(args, [](float x) { return __builtin_ceilf(x); });
    case UnaryKind::kRound:
      return Each(args, [](float x) { return __builtin_nearbyintf(x); });
    case UnaryKind::kSign:
      return Each(args, [](float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; });
    case UnaryKind::kErf:
      return Each(args, [](float x) { return Erf(x); });
    case UnaryKind::kElu:
      return Each(args, [a](float x) { return x < 0.0f ? a * Expm1OfNegative(x) : x; });
    case UnaryKind::kCelu:
      return Each(args, [a](float x) { return x < 0.0f ? a * Expm1OfNegative(x / a) : x; });
    case UnaryKind::kSelu:
      return Each(args, [a, b](float x) { return b * (x > 0.0f ? x : a * Expm1OfNegative(x)); });
    case UnaryKind::kSoftplus:
      return Each(args, [](float x) { return Softplus(x); });
    case UnaryKind::kSoftsign:
      return Each(args, [](float x) { return x / (1.0f + Abs(x)); });
    case UnaryKind::kGelu:
      return Each(args, [](float x) { return Gelu(x); });
    case UnaryKind::kGeluTanh:
      // (1 + tanh z) / 2 is the sigmoid of 2 z.
      return Each(args, [](float x) { return x * Sigmoid(1.59576912160573071176f * (x + 0.044715f * x * x * x)); });
    case UnaryKind::kMish:
      return Each(args, [](float x) { return Mish(x); });
    case UnaryKind::kSquare:
      return Each(args, [](float x) { return x * x; });
    case UnaryKind::kCube:
      return Each(args, [](float x) { return x * x * x; });
    default:  // kCopy
      return Each(args, [](float x) { return x; });
  }
}

float Larger(float a, float b) { return ((a > b) | (a != a)) ? a : b; }
float Smaller(float a, float b) { return ((a < b) | (a != a)) ? a : b; }

template <class F>
void EachPair(const BinaryArgs& args, F f) {
  const float *x = args.x, *z = args.z;
  float* y = args.y;
  const size_t n = args.n;
  if (n == 0) return;
  if (args.x_step && args.z_step) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = f(x[i], z[i]);
  } else if (args.x_step) {
    const float s = *z;
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = f(x[i], s);
  } else if (args.z_step) {
    const float s = *x;
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = f(s, z[i]);
  } else {
    const float v = f(*x, *z);
    for (size_t i = 0; i < n; ++i) y[i] = v;
  }
}

void RunBinary(const BinaryArgs& args) {
  switch (args.kind) {
    case BinaryKind::kAdd:
      return EachPair(args, [](float a, float b) { return a + b; });
    case BinaryKind::kSub:
      return EachPair(args, [](float a, float b) { return a - b; });
    case BinaryKind::kMul:
      return EachPair(args, [](float a, float b) { return a * b; });
    case BinaryKind::kDiv:
      return EachPair(args, [](float a, float b) { return a / b; });
    case BinaryKind::kMin:
      return EachPair(args, Smaller);
    case BinaryKind::kMax:
      return EachPair(args, Larger);
    default:  // kPrelu
      return EachPair(args, [](float a, float b) { return a < 0.0f ? b * a : a; });
  }
}

// 16 floats that the compiler maps to the registers of the ISA.
typedef float Lanes __attribute__((vector_size(64)));
constexpr size_t kLaneCount = 16;

void Load(const float* p, Lanes& v) { __builtin_memcpy(&v, p, sizeof v); }
void Store(float* p, const Lanes& v) { __builtin_memcpy(p, &v, sizeof v); }

// One step of a fold, on lanes or single elements, in place: acc = acc op x.
template <FoldKind kKind>
struct FoldStep {
  float shift;
  template <class T>
  void operator()(T& acc, const T& x) const {
    if constexpr (kKind == FoldKind::kSum) {
      acc = acc + x;
    } else if constexpr (kKind == FoldKind::kSumAbs) {
      acc = acc + (x < 0.0f ? -x : x);
    } else if constexpr (kKind == FoldKind::kSumSquares) {
      const T d = x - shift;
      acc = acc + d * d;
    } else if constexpr (kKind == FoldKind::kProd) {
      acc = acc * x;
    } else if constexpr (kKind == FoldKind::kMax) {
      acc = ((acc > x) | (acc != acc)) ? acc : x;
    } else {
      acc = ((acc < x) | (acc != acc)) ? acc : x;
    }
  }
};
// Joins two partial results.
template <FoldKind kKind>
using FoldJoin = FoldStep<kKind == FoldKind::kSumAbs || kKind == FoldKind::kSumSquares ? FoldKind::kSum : kKind>;

void Fill(Lanes& v, float x) { v = Lanes{} + x; }

template <FoldKind kKind>
float FoldAll(const FoldArgs& args) {
  constexpr size_t kBlock = 4096;  // elements of one partial sum: 64 per lane
  const FoldStep<kKind> step{args.shift};
  const FoldJoin<kKind> join{0};
  float total = FoldStart(kKind);
  for (size_t begin = 0; begin < args.n; begin += kBlock) {
    const size_t count = args.n - begin < kBlock ? args.n - begin : kBlock;
    const float* x = args.x + begin;
    Lanes acc[4];
    for (Lanes& a : acc) Fill(a, FoldStart(kKind));
    size_t i = 0;
    for (; i + 4 * kLaneCount <= count; i += 4 * kLaneCount) {
      Lanes v[4];
      for (int k = 0; k < 4; ++k) {
        Load(x + i + static_cast<size_t>(k) * kLaneCount, v[k]);
        step(acc[k], v[k]);
      }
    }
    for (; i + kLaneCount <= count; i += kLaneCount) {
      Lanes v;
      Load(x + i, v);
      step(acc[0], v);
    }
    float rest = FoldStart(kKind);
    for (; i < count; ++i) step(rest, x[i]);
    join(acc[0], acc[1]);
    join(acc[2], acc[3]);
    join(acc[0], acc[2]);
    float lanes[kLaneCount];
    Store(lanes, acc[0]);
    for (size_t half = kLaneCount / 2; half > 0; half /= 2) {
      for (size_t k = 0; k < half; ++k) join(lanes[k], lanes[k + half]);
    }
    join(lanes[0], rest);
    join(total, lanes[0]);
  }
  return total;
}

float RunFold(const FoldArgs& args) {
  switch (args.kind) {
    case FoldKind::kSum:
      return FoldAll<FoldKind::kSum>(args);
    case FoldKind::kSumAbs:
      return FoldAll<FoldKind::kSumAbs>(args);
    case FoldKind::kSumSquares:
      return FoldAll<FoldKind::kSumSquares>(args);
    case FoldKind::kProd:
      return FoldAll<FoldKind::kProd>(args);
    case FoldKind::kMax:
      return FoldAll<FoldKind::kMax>(args);
    case FoldKind::kMin:
      return FoldAll<FoldKind::kMin>(args);
    case FoldKind::kCount:
      break;
  }
  return 0;
}

constexpr size_t kRowBlock = 64;

const float* RowAt(const FoldRowsArgs& args, size_t row) {
  return args.x + (args.offsets ? args.offsets[row] : static_cast<ptrdiff_t>(row) * args.row_stride);
}

// kVectors * 16 columns from c on.
template <FoldKind kKind, int kVectors>
void FoldColumns(const FoldRowsArgs& args, size_t c) {
  const FoldStep<kKind> step{0};
  const FoldJoin<kKind> join{0};
  Lanes total[kVectors];
  for (Lanes& t : total) Fill(t, FoldStart(kKind));
  for (size_t row = 0; row < args.rows; row += kRowBlock) {
    const size_t end = args.rows - row < kRowBlock ? args.rows : row + kRowBlock;
    Lanes acc[kVectors];
    for (Lanes& a : acc) Fill(a, FoldStart(kKind));
    for (size_t r = row; r < end; ++r) {
      const float* x = RowAt(args, r) + c;
      for (int v = 0; v < kVectors; ++v) {
        Lanes l;
        Load(x + static_cast<size_t>(v) * kLaneCount, l);
        step(acc[v], l);
      }
    }
    for (int v = 0; v < kVectors; ++v) join(total[v], acc[v]);
  }
  for (int v = 0; v < kVectors; ++v) {
    total[v] = total[v] * args.scale;
    Store(args.y + c + static_cast<size_t>(v) * kLaneCount, total[v]);
  }
}

// Fewer than 16 columns from c on.
template <FoldKind kKind>
void FoldNarrow(const FoldRowsArgs& args, size_t c) {
  const FoldStep<kKind> step{0};
  const FoldJoin<kKind> join{0};
  const size_t width = args.n - c;
  float total[kLaneCount], acc[kLaneCount];
  for (float& t : total) t = FoldStart(kKind);
  for (size_t row = 0; row < args.rows; row += kRowBlock) {
    const size_t end = args.rows - row < kRowBlock ? args.rows : row + kRowBlock;
    for (float& a : acc) a = FoldStart(kKind);
    for (size_t r = row; r < end; ++r) {
      const float* x = RowAt(args, r) + c;
      for (size_t i = 0; i < width; ++i) step(acc[i], x[i]);
    }
    for (size_t i = 0; i < width; ++i) join(total[i], acc[i]);
  }
  for (size_t i = 0; i < width; ++i) args.y[c + i] = total[i] * args.scale;
}

template <FoldKind kKind>
void FoldAllRows(const FoldRowsArgs& args) {
  size_t c = 0;
  for (; c + 4 * kLaneCount <= args.n; c += 4 * kLaneCount) FoldColumns<kKind, 4>(args, c);
  for (; c + kLaneCount <= args.n; c += kLaneCount) FoldColumns<kKind, 1>(args, c);
  if (c < args.n) FoldNarrow<kKind>(args, c);
}

void RunFoldRows(const FoldRowsArgs& args) {
  switch (args.kind) {
    case FoldKind::kSum:
      return FoldAllRows<FoldKind::kSum>(args);
    case FoldKind::kSumAbs:
      return FoldAllRows<FoldKind::kSumAbs>(args);
    case FoldKind::kSumSquares:
      return FoldAllRows<FoldKind::kSumSquares>(args);
    case FoldKind::kProd:
      return FoldAllRows<FoldKind::kProd>(args);
    case FoldKind::kMax:
      return FoldAllRows<FoldKind::kMax>(args);
    case FoldKind::kMin:
      return FoldAllRows<FoldKind::kMin>(args);
    case FoldKind::kCount:
      return;
  }
}

constexpr size_t kSoftmaxBlock = 256;  // floats of exponentials held at once

void SoftmaxLine(const SoftmaxArgs& args) {
  const size_t n = args.count;
  const float* x = args.x;
  float* y = args.y;
  const float largest = FoldAll<FoldKind::kMax>({.kind = FoldKind::kMax, .n = n, .x = x});
  float sum = 0;
  for (size_t begin = 0; begin < n; begin += kSoftmaxBlock) {
    const size_t count = n - begin < kSoftmaxBlock ? n - begin : kSoftmaxBlock;
    float scratch[kSoftmaxBlock];
    float* e = args.log ? scratch : y + begin;  // x is still needed for the logarithm, and y may be x
    QUERN_INDEPENDENT
    for (size_t i = 0; i < count; ++i) e[i] = Exp(x[begin + i] - largest);
    sum += FoldAll<FoldKind::kSum>({.kind = FoldKind::kSum, .n = count, .x = e});
  }
  if (args.log) {
    const float log = Log(sum);
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = (x[i] - largest) - log;
  } else {
    const float inverse = 1.0f / sum;
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = y[i] * inverse;
  }
}

// At most 64 neighbouring lines from column c on.
void SoftmaxColumns(const SoftmaxArgs& args, size_t c, size_t width) {
  float largest[64], sum[64];
  for (size_t i = 0; i < width; ++i) {
    largest[i] = args.x[c + i];
    sum[i] = 0;
  }
  for (size_t k = 1; k < args.count; ++k) {
    const float* x = args.x + static_cast<ptrdiff_t>(k) * args.stride + c;
    for (size_t i = 0; i < width; ++i) largest[i] = Larger(largest[i], x[i]);
  }
  for (size_t k = 0; k < args.count; ++k) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(k) * args.stride;
    const float* x = args.x + at + c;
    float* y = args.y + at + c;
    float e[64];
    for (size_t i = 0; i < width; ++i) {
      e[i] = Exp(x[i] - largest[i]);
      sum[i] += e[i];
    }
    if (!args.log) __builtin_memcpy(y, e, width * sizeof(float));
  }
  for (size_t i = 0; i < width; ++i) sum[i] = args.log ? Log(sum[i]) : 1.0f / sum[i];
  for (size_t k = 0; k < args.count; ++k) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(k) * args.stride;
    const float* x = args.x + at + c;
    float* y = args.y + at + c;
    if (args.log) {
      QUERN_INDEPENDENT
      for (size_t i = 0; i < width; ++i) y[i] = (x[i] - largest[i]) - sum[i];
    } else {
      QUERN_INDEPENDENT
      for (size_t i = 0; i < width; ++i) y[i] *= sum[i];
    }
  }
}

void RunSoftmax(const SoftmaxArgs& args) {
  if (args.width == 1 && args.stride == 1) return SoftmaxLine(args);
  for (size_t c = 0; c < args.width; c += 64) SoftmaxColumns(args, c, args.width - c < 64 ? args.width - c : 64);
}

void RunNormalize(const NormalizeArgs& args) {
  const float shift = args.shift, scale = args.scale, *x = args.x, *g = args.gamma, *b = args.beta;
  float* y = args.y;
  const size_t n = args.n;
  if (g && b) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = MulAdd((x[i] - shift) * scale, g[i], b[i]);
  } else if (g) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale * g[i];
  } else if (b) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = MulAdd(x[i] - shift, scale, b[i]);
  } else {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale;
  }
}

void RunBlend(const BlendArgs& args) {
  const float* x = args.x;
  float* y = args.y;
  const size_t n = args.n;
  const ptrdiff_t* at = args.offsets;
  const float* w = args.weights;
  if (args.taps == 1) {
    const float *p = x + at[0], u = w[0];
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = u * p[i];
  } else if (args.taps == 2) {
    const float *p = x + at[0], *q = x + at[1], u = w[0], v = w[1];
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = u * p[i] + v * q[i];
  } else if (args.taps == 4) {
    const float *p = x + at[0], *q = x + at[1], *r = x + at[2], *s = x + at[3];
    const float a = w[0], b = w[1], c = w[2], d = w[3];
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = a * p[i] + b * q[i] + c * r[i] + d * s[i];
  } else {
    for (size_t i = 0; i < n; ++i) y[i] = 0;
    for (size_t t = 0; t < args.taps; ++t) {
      const float *p = x + at[t], u = w[t];
      QUERN_INDEPENDENT
      for (size_t i = 0; i < n; ++i) y[i] += u * p[i];
    }
  }
}

constexpr VectorKernel VectorRow(const Isa& isa, uint16_t lanes) {
  return {.isa = isa,
          .lanes = lanes,
          .unary = RunUnary,
          .binary = RunBinary,
          .fold = RunFold,
          .fold_rows = RunFoldRows,
          .softmax = RunSoftmax,
          .normalize = RunNormalize,
          .blend = RunBlend,
          .epilogue = RunEpilogue};
}

}  // namespace
}  // namespace quern::ukernel
