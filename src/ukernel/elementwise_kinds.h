// What elementwise micro-kernels compute. Kernel-safe.
#pragma once

#include <cstdint>

namespace quern::ukernel {

// Functions of one operand x with parameters a, b. The vector family has float32 loops of those up to kCopy.
enum class UnaryKind : uint8_t {
  kRelu,             // x < 0 ? 0 : x
  kLeakyRelu,        // x < 0 ? a * x : x
  kThresholdedRelu,  // x > a ? x : 0
  kClip,             // x below a becomes a, then above b becomes b; NaN stays
  kHardSigmoid,      // a * x + b within [0, 1]
  kHardSwish,        // x times (x / 6 + 1/2 within [0, 1])
  kSigmoid,
  kSilu,  // x * sigmoid(a * x)
  kTanh,
  kExp,
  kLog,
  kSqrt,
  kNeg,
  kAbs,
  kReciprocal,
  kFloor,
  kCeil,
  kRound,  // half to even
  kSign,
  kErf,
  kElu,   // x < 0 ? a * (e^x - 1) : x
  kCelu,  // x < 0 ? a * (e^(x / a) - 1) : x
  kSelu,  // b * (x > 0 ? x : a * (e^x - 1))
  kSoftplus,
  kSoftsign,
  kGelu,
  kGeluTanh,
  kMish,
  kSquare,
  kCube,
  kCopy,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kShrink,      // x moved towards 0 by a where |x| > b, else 0; in float64, truncated and saturated for integers
  kAffine,      // a * x + b
  kScale,       // a * x
  kScaledTanh,  // a * tanh(b * x)
  kParametricSoftplus,  // a * softplus(b * x)
  kDivide,              // x / a
  kIsAbove,             // x > a ? 1 : 0, compared in float64
  kIsNan,
  kIsInf,     // of +infinity where a is not 0, of -infinity where b is not 0
  kNot,       // of a bool
  kBitNot,    // of an integer
  kConvert,   // the rules of Cast: see conversions.h; to floats of 8 bits and fewer `a` is the
              // Overflow, `b` the E8M0Rounding
  kRoundOdd,  // to float32, so that a rounding to 16 bits that follows gives what one rounding would
  kExponent,  // uint64 to an int64 of the same parity; what does not fit becomes one of the two largest
  kCount,
};

static constexpr bool HasVectorLoop(UnaryKind kind) { return kind <= UnaryKind::kCopy; }

// Functions of two operands x, z. The vector family has float32 loops of those up to kPrelu. A NaN wins in kMin and
// kMax; integers wrap around, and their division by zero is a fault.
enum class BinaryKind : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kPrelu,     // x < 0 ? z * x : x
  kMod,       // remainder with the sign of z
  kTruncMod,  // remainder with the sign of x
  kEqual,     // comparisons give bools
  kLess,
  kAtMost,
  kBitAnd,
  kBitOr,
  kBitXor,
  kShiftLeft,   // by less than 0 or all bits or more: 0
  kShiftRight,  // by less than 0 or all bits or more: what fills, the sign of a signed x
  kPow,         // a negative power of integer 0 is a fault
  kCount,
};

static constexpr bool HasVectorLoop(BinaryKind kind) { return kind <= BinaryKind::kPrelu; }

}  // namespace quern::ukernel
