// The bodies of the vector family as plain loops: the compiler vectorizes them with the flags of the including file.
#pragma once

#include "ukernel/epilogue_loops.h"
#include "ukernel/fold/fold_lines.h"
#include "ukernel/softmax_loops.h"
#include "ukernel/vector.h"
#include "ukernel/vector/loops_rows.h"
#include "ukernel/vector/loops_transpose.h"
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

// f is a long chain of steps, of which CPUs do not look far enough ahead to find others to work on: several vectors go
// side by side. The last elements are a vector's, not one by one.
template <class F>
void EachLong(const UnaryArgs& args, F f) {
  const float* x = args.x;
  float* y = args.y;
  const size_t n = args.n;
  size_t i = 0;
  for (; i + QUERN_SIDE * kLaneBlock <= n; i += QUERN_SIDE * kLaneBlock) {
    QUERN_LANES_SIDE_BY_SIDE
    for (size_t j = 0; j < QUERN_SIDE * kLaneBlock; ++j) y[i + j] = f(x[i + j]);
  }
  for (; i + kLaneBlock <= n; i += kLaneBlock) {
    QUERN_LANES
    for (size_t j = 0; j < kLaneBlock; ++j) y[i + j] = f(x[i + j]);
  }
  if (i == n) return;
  float last[kLaneBlock] = {};
  CopyPart(last, x + i, n - i);
  QUERN_LANES
  for (float& v : last) v = f(v);
  CopyPart(y + i, last, n - i);
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
      return EachLong(args, [](float x) { return Sigmoid(x); });
    case UnaryKind::kSilu:
      return EachLong(args, [a](float x) { return Gated(x, a * x); });
    case UnaryKind::kTanh:
      return EachLong(args, [](float x) { return Tanh(x); });
    case UnaryKind::kExp:
      return EachLong(args, [](float x) { return Exp(x); });
    case UnaryKind::kLog:
      return EachLong(args, [](float x) { return Log(x); });
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
      return EachLong(args, [](float x) { return Erf(x); });
    case UnaryKind::kElu:
      return EachLong(args, [a](float x) { return x < 0.0f ? a * Expm1OfNegative(x) : x; });
    case UnaryKind::kCelu:
      return EachLong(args, [a](float x) { return x < 0.0f ? a * Expm1OfNegative(x / a) : x; });
    case UnaryKind::kSelu:
      return EachLong(args, [a, b](float x) { return b * (x > 0.0f ? x : a * Expm1OfNegative(x)); });
    case UnaryKind::kSoftplus:
      return EachLong(args, [](float x) { return Softplus(x); });
    case UnaryKind::kSoftsign:
      return Each(args, [](float x) { return x / (1.0f + Abs(x)); });
    case UnaryKind::kGelu:
      return EachLong(args, [](float x) { return Gelu(x); });
    case UnaryKind::kGeluTanh:
      return EachLong(args, [](float x) { return GeluTanh(x); });
    case UnaryKind::kMish:
      return EachLong(args, [](float x) { return Mish(x); });
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

void RunNormalize(const NormalizeArgs& args) {
  const float shift = args.shift, scale = args.scale, offset = args.offset, *x = args.x, *g = args.gamma,
              *b = args.beta;
  float* y = args.y;
  const size_t n = args.n;
  if (g && b) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = MulAdd((x[i] - shift) * scale, g[i], b[i]);
  } else if (g) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = MulAdd((x[i] - shift) * scale, g[i], offset);
  } else if (b) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = MulAdd(x[i] - shift, scale, b[i]);
  } else {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = MulAdd(x[i] - shift, scale, offset);
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

// Taps [first, first + kTaps); the first ones of all begin the sums.
template <size_t kTaps, bool kBegin>
void GatherTaps(const GatherBlendArgs& args, size_t first) {
  const float* x = args.x;
  float* y = args.y;
  const size_t n = args.n, pitch = args.pitch;
  const int64_t* at = args.offsets + first * pitch;
  const float* w = args.weights + first * pitch;
  QUERN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    float sum = kBegin ? 0.0f : y[i];
    for (size_t t = 0; t < kTaps; ++t) sum += w[t * pitch + i] * x[at[t * pitch + i]];
    y[i] = sum;
  }
}

void RunGatherBlend(const GatherBlendArgs& args) {
  size_t t = args.taps % 4;
  if (args.taps == 0) {
    for (size_t i = 0; i < args.n; ++i) args.y[i] = 0;
  } else if (t == 0) {
    GatherTaps<4, true>(args, 0);
    t = 4;
  } else if (t == 1) {
    GatherTaps<1, true>(args, 0);
  } else if (t == 2) {
    GatherTaps<2, true>(args, 0);
  } else {
    GatherTaps<3, true>(args, 0);
  }
  for (; t < args.taps; t += 4) GatherTaps<4, false>(args, t);
}

template <bool kInterleaved>
void Rotate(const RotateArgs& a) {
  const size_t half = a.half;
  const float *cosines = a.cosines, *sines = a.sines, *x = a.x;
  float* y = a.y;
  constexpr size_t kStep = kInterleaved ? 2 : 1;
  const size_t apart = kInterleaved ? 1 : half;
  QUERN_INDEPENDENT
  for (size_t i = 0; i < half; ++i) {
    const float u = x[i * kStep], v = x[i * kStep + apart];
    y[i * kStep] = cosines[i] * u - sines[i] * v;
    y[i * kStep + apart] = sines[i] * u + cosines[i] * v;
  }
}
void RunRotate(const RotateArgs& a) { a.interleaved ? Rotate<true>(a) : Rotate<false>(a); }

bool RunScaleRows(const ScaleRowsArgs& a) {
  using Lanes = typename LanesOf<float>::Type;
  constexpr size_t kLanes = sizeof(Lanes) / sizeof(float);
  // 0 times a number that is infinite or none is none.
  Lanes nothing;
  Fill(nothing, 0.0f);
  float rest = 0;
  float* y = a.y;
  for (size_t r = 0; r < a.rows; ++r, y += a.pitch) {
    const float scale = a.scales[r];
    size_t i = 0;
    for (; i + kLanes <= a.n; i += kLanes) {
      Lanes v;
      Load(y + i, v);
      nothing += v * 0.0f;
      Store(y + i, v * scale);
    }
    for (; i < a.n; ++i) {
      rest += y[i] * 0.0f;
      y[i] *= scale;
    }
  }
  return JoinLanes<float, FoldKind::kSum>(nothing) + rest == 0.0f;
}

bool RunOverlaps(const OverlapArgs& a) {
  constexpr size_t kAtOnce = 64;  // between these is looked whether one was found
  for (size_t from = 0; from < a.n; from += kAtOnce) {
    const size_t end = a.n - from < kAtOnce ? a.n : from + kAtOnce;
    int found = 0;
    for (size_t i = from; i < end; ++i) {
      const float right = a.others_x1[i] < a.x1 ? a.others_x1[i] : a.x1;
      const float left = a.x0 < a.others_x0[i] ? a.others_x0[i] : a.x0;
      const float bottom = a.others_y1[i] < a.y1 ? a.others_y1[i] : a.y1;
      const float top = a.y0 < a.others_y0[i] ? a.others_y0[i] : a.y0;
      const float width = right - left, height = bottom - top;
      const float common = width * height, all = a.area + a.areas[i] - common;
      const int meets = (width > 0) & (height > 0) & (a.area > 0) & (a.areas[i] > 0) & (all > 0) & (common > 0);
      found |= meets & (common / all > a.threshold);
    }
    if (found) return true;
  }
  return false;
}

constexpr VectorKernel VectorRow(const Isa& isa, uint16_t lanes) {
  return {.isa = isa,
          .lanes = lanes,
          .unary = RunUnary,
          .binary = RunBinary,
          .fold = RunFold<float>,
          .fold_lines = RunFoldLines<float>,
          .fold_rows = RunFoldRows<float>,
          .softmax = RunSoftmax<float>,
          .normalize = RunNormalize,
          .blend = RunBlend,
          .transpose = RunTranspose,
          .overlaps = RunOverlaps,
          .gather_blend = RunGatherBlend,
          .rotate = RunRotate,
          .scale_rows = RunScaleRows,
          .dot_rows = RunDotRows,
          .sum_rows = RunSumRows,
          .epilogue = RunEpilogue};
}

}  // namespace
}  // namespace quern::ukernel
