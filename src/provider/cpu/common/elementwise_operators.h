// The elementwise operators of one and two operands whose functions are micro-kernels, and small powers: what their own
// kernels and chains of them share.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "ukernel/elementwise_kinds.h"

namespace quern::cpu {

using ukernel::BinaryKind;
using ukernel::UnaryKind;

// An attribute that is a parameter of a function.
struct FunctionParameter {
  const char* name = nullptr;
  float missing = 0;
};
struct UnaryOperator {
  const char* op_type;
  UnaryKind kind;
  bool costly = false;  // more than a few instructions for each element
  FunctionParameter a = {}, b = {};
};

inline constexpr bool kCheap = false, kCostly = true;
inline constexpr UnaryOperator kUnaryOperators[] = {
    {"Relu", UnaryKind::kRelu},
    {"LeakyRelu", UnaryKind::kLeakyRelu, kCheap, {"alpha", 0.01f}},
    {"ThresholdedRelu", UnaryKind::kThresholdedRelu, kCheap, {"alpha", 1.0f}},
    {"HardSigmoid", UnaryKind::kHardSigmoid, kCheap, {"alpha", 0.2f}, {"beta", 0.5f}},
    {"HardSwish", UnaryKind::kHardSwish},
    {"Sigmoid", UnaryKind::kSigmoid, kCostly},
    {"Swish", UnaryKind::kSilu, kCostly, {"alpha", 1.0f}},
    {"Tanh", UnaryKind::kTanh, kCostly},
    {"Exp", UnaryKind::kExp, kCostly},
    {"Log", UnaryKind::kLog, kCostly},
    {"Sqrt", UnaryKind::kSqrt, kCostly},
    {"Neg", UnaryKind::kNeg},
    {"Abs", UnaryKind::kAbs},
    {"Reciprocal", UnaryKind::kReciprocal, kCostly},
    {"Floor", UnaryKind::kFloor},
    {"Ceil", UnaryKind::kCeil},
    {"Round", UnaryKind::kRound},
    {"Sign", UnaryKind::kSign},
    {"Erf", UnaryKind::kErf, kCostly},
    {"Elu", UnaryKind::kElu, kCostly, {"alpha", 1.0f}},
    {"Celu", UnaryKind::kCelu, kCostly, {"alpha", 1.0f}},
    {"Selu", UnaryKind::kSelu, kCostly, {"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}},
    {"Softplus", UnaryKind::kSoftplus, kCostly},
    {"Softsign", UnaryKind::kSoftsign, kCostly},
    {"Gelu", UnaryKind::kGelu, kCostly},
    {"Mish", UnaryKind::kMish, kCostly},
    {"Sin", UnaryKind::kSin, kCostly},
    {"Cos", UnaryKind::kCos, kCostly},
    {"Tan", UnaryKind::kTan, kCostly},
    {"Asin", UnaryKind::kAsin, kCostly},
    {"Acos", UnaryKind::kAcos, kCostly},
    {"Atan", UnaryKind::kAtan, kCostly},
    {"Sinh", UnaryKind::kSinh, kCostly},
    {"Cosh", UnaryKind::kCosh, kCostly},
    {"Asinh", UnaryKind::kAsinh, kCostly},
    {"Acosh", UnaryKind::kAcosh, kCostly},
    {"Atanh", UnaryKind::kAtanh, kCostly},
    {"Shrink", UnaryKind::kShrink, kCheap, {"bias", 0.0f}, {"lambd", 0.5f}},
    {"Affine", UnaryKind::kAffine, kCheap, {"alpha", 1.0f}, {"beta", 0.0f}},
    {"Scale", UnaryKind::kScale, kCheap, {"scale", 1.0f}},
    {"ScaledTanh", UnaryKind::kScaledTanh, kCostly, {"alpha", 1.0f}, {"beta", 1.0f}},
    {"ParametricSoftplus", UnaryKind::kParametricSoftplus, kCostly, {"alpha", 1.0f}, {"beta", 1.0f}},
};

struct BinaryOperator {
  const char* op_type;
  BinaryKind kind;
  bool costly = false;  // more than a few instructions for each element
};
inline constexpr BinaryOperator kBinaryOperators[] = {
    {"Add", BinaryKind::kAdd},       {"Sub", BinaryKind::kSub},  {"Mul", BinaryKind::kMul},
    {"Div", BinaryKind::kDiv, true}, {"Min", BinaryKind::kMin},  {"Max", BinaryKind::kMax},
    {"Sum", BinaryKind::kAdd},       {"Mean", BinaryKind::kAdd}, {"PRelu", BinaryKind::kPrelu},
    {"Mod", BinaryKind::kMod, true},
};

// The function of a Pow of floats to a small constant; nothing for others.
std::optional<UnaryKind> FindSmallPower(const Node& node);

}  // namespace quern::cpu
