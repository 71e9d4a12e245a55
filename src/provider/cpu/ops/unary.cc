// Elementwise operators of one input: float32 through the vector micro-kernels where they have the function, other
// types by plain rows.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/common/elementwise.h"
#include "ops/common/from_double.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

using ukernel::UnaryKind;
using P = RowParameters;

// Functions of float64, as the reference has them; parameters are attributes.
double Relu(double x) { return x < 0 ? 0.0 : x; }
double LeakyRelu(double x, const P& p) { return x < 0 ? p.a * x : x; }
double ThresholdedRelu(double x, const P& p) { return x > p.a ? x : 0.0; }
double HardSigmoid(double x, const P& p) { return std::clamp(p.a * x + p.b, 0.0, 1.0); }
double HardSwish(double x) { return x * std::clamp(x / 6.0 + 0.5, 0.0, 1.0); }
double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double Swish(double x, const P& p) { return x / (1.0 + std::exp(-p.a * x)); }
double Neg(double x) { return -x; }
double Reciprocal(double x) { return 1.0 / x; }
double Round(double x) { return std::nearbyint(x); }
double Elu(double x, const P& p) { return x < 0 ? p.a * std::expm1(x) : x; }
double Celu(double x, const P& p) { return x < 0 ? p.a * std::expm1(x / p.a) : x; }
double Selu(double x, const P& p) { return p.b * (x > 0 ? x : p.a * std::expm1(x)); }
double Softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double Softsign(double x) { return x / (1.0 + std::fabs(x)); }
double Gelu(double x) { return 0.5 * x * (1.0 + std::erf(x * 0.7071067811865476)); }
double GeluTanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));  // sqrt(2 / pi)
}
double Mish(double x) { return x * std::tanh(Softplus(x)); }
double Affine(double x, const P& p) { return p.a * x + p.b; }
double Scale(double x, const P& p) { return p.a * x; }
double ScaledTanh(double x, const P& p) { return p.a * std::tanh(p.b * x); }
double ParametricSoftplus(double x, const P& p) { return p.a * Softplus(p.b * x); }

// In double whatever the type.
struct Shrink {
  template <typename T>
  T operator()(T x, const P& p) const {
    const double v = static_cast<double>(x);
    return FromDouble<T>(v < -p.b ? v + p.a : v > p.b ? v - p.a : 0.0);
  }
};
struct Erf {
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(std::erf(static_cast<double>(x)));
  }
};

// Of integers, which wrap around.
struct Negated {
  template <typename T>
  T operator()(T x) const {
    return WrappingSub(T{0}, x);
  }
};
struct NoLessThanZero {
  template <typename T>
  T operator()(T x) const {
    return x < T{0} ? T{0} : x;
  }
};
struct Magnitude {
  template <typename T>
  T operator()(T x) const {
    return x < T{0} ? WrappingSub(T{0}, x) : x;
  }
};
struct SignOf {
  template <typename T>
  T operator()(T x) const {
    return x > T{0} ? T{1} : x < T{0} ? static_cast<T>(-1) : x == T{0} ? T{0} : x;
  }
};

template <auto kF>
constexpr UnaryRow kF64 = UnaryLoop<double, double, kF>;
template <double (*kF)(double)>
constexpr UnaryRow kLibrary64 = UnaryLoop<double, double, kF>;
template <float (*kF)(float)>
constexpr UnaryRow kLibrary32 = UnaryLoop<float, float, kF>;
template <auto kF>
constexpr UnaryRow kF32 = UnaryLoop<float, float, kF>;

struct Parameter {
  const char* name = nullptr;
  float missing = 0;
};
constexpr UnaryKind kNoKind = UnaryKind::kCount;
struct UnaryOperator {
  const char* op_type;
  UnaryKind kind;  // kNoKind: float32 by `f32`
  UnaryRow f64;
  bool costly = false;  // as scalar code
  Parameter a = {}, b = {};
  UnaryRow f32 = nullptr;
};

constexpr bool kCheap = false, kCostly = true;
constexpr Parameter kNone = {};
constexpr UnaryOperator kOperators[] = {
    {"Relu", UnaryKind::kRelu, kF64<Relu>},
    {"LeakyRelu", UnaryKind::kLeakyRelu, kF64<LeakyRelu>, kCheap, {"alpha", 0.01f}},
    {"ThresholdedRelu", UnaryKind::kThresholdedRelu, kF64<ThresholdedRelu>, kCheap, {"alpha", 1.0f}},
    {"HardSigmoid", UnaryKind::kHardSigmoid, kF64<HardSigmoid>, kCheap, {"alpha", 0.2f}, {"beta", 0.5f}},
    {"HardSwish", UnaryKind::kHardSwish, kF64<HardSwish>},
    {"Sigmoid", UnaryKind::kSigmoid, kF64<Sigmoid>, kCostly},
    {"Swish", UnaryKind::kSilu, kF64<Swish>, kCostly, {"alpha", 1.0f}},
    {"Tanh", UnaryKind::kTanh, kLibrary64<std::tanh>, kCostly},
    {"Exp", UnaryKind::kExp, kLibrary64<std::exp>, kCostly},
    {"Log", UnaryKind::kLog, kLibrary64<std::log>, kCostly},
    {"Sqrt", UnaryKind::kSqrt, kLibrary64<std::sqrt>, kCostly},
    {"Neg", UnaryKind::kNeg, kF64<Neg>},
    {"Abs", UnaryKind::kAbs, kLibrary64<std::fabs>},
    {"Reciprocal", UnaryKind::kReciprocal, kF64<Reciprocal>, kCostly},
    {"Floor", UnaryKind::kFloor, kLibrary64<std::floor>},
    {"Ceil", UnaryKind::kCeil, kLibrary64<std::ceil>},
    {"Round", UnaryKind::kRound, kF64<Round>},
    {"Sign", UnaryKind::kSign, kF64<SignOf{}>},
    {"Erf", UnaryKind::kErf, kLibrary64<std::erf>, kCostly},
    {"Elu", UnaryKind::kElu, kF64<Elu>, kCostly, {"alpha", 1.0f}},
    {"Celu", UnaryKind::kCelu, kF64<Celu>, kCostly, {"alpha", 1.0f}},
    {"Selu",
     UnaryKind::kSelu,
     kF64<Selu>,
     kCostly,
     {"alpha", 1.67326319217681884765625f},
     {"gamma", 1.05070102214813232421875f}},
    {"Softplus", UnaryKind::kSoftplus, kF64<Softplus>, kCostly},
    {"Softsign", UnaryKind::kSoftsign, kF64<Softsign>, kCostly},
    {"Gelu", UnaryKind::kGelu, kF64<Gelu>, kCostly},
    {"Mish", UnaryKind::kMish, kF64<Mish>, kCostly},
    {"Sin", kNoKind, kLibrary64<std::sin>, kCostly, kNone, kNone, kLibrary32<std::sin>},
    {"Cos", kNoKind, kLibrary64<std::cos>, kCostly, kNone, kNone, kLibrary32<std::cos>},
    {"Tan", kNoKind, kLibrary64<std::tan>, kCostly, kNone, kNone, kLibrary32<std::tan>},
    {"Asin", kNoKind, kLibrary64<std::asin>, kCostly, kNone, kNone, kLibrary32<std::asin>},
    {"Acos", kNoKind, kLibrary64<std::acos>, kCostly, kNone, kNone, kLibrary32<std::acos>},
    {"Atan", kNoKind, kLibrary64<std::atan>, kCostly, kNone, kNone, kLibrary32<std::atan>},
    {"Sinh", kNoKind, kLibrary64<std::sinh>, kCostly, kNone, kNone, kLibrary32<std::sinh>},
    {"Cosh", kNoKind, kLibrary64<std::cosh>, kCostly, kNone, kNone, kLibrary32<std::cosh>},
    {"Asinh", kNoKind, kLibrary64<std::asinh>, kCostly, kNone, kNone, kLibrary32<std::asinh>},
    {"Acosh", kNoKind, kLibrary64<std::acosh>, kCostly, kNone, kNone, kLibrary32<std::acosh>},
    {"Atanh", kNoKind, kLibrary64<std::atanh>, kCostly, kNone, kNone, kLibrary32<std::atanh>},
    {"Shrink", kNoKind, kF64<Shrink{}>, kCheap, {"bias", 0.0f}, {"lambd", 0.5f}, kF32<Shrink{}>},
    {"Affine", kNoKind, kF64<Affine>, kCheap, {"alpha", 1.0f}, {"beta", 0.0f}, kF32<Affine>},
    {"Scale", kNoKind, kF64<Scale>, kCheap, {"scale", 1.0f}, kNone, kF32<Scale>},
    {"ScaledTanh", kNoKind, kF64<ScaledTanh>, kCostly, {"alpha", 1.0f}, {"beta", 1.0f}, kF32<ScaledTanh>},
    {"ParametricSoftplus",
     kNoKind,
     kF64<ParametricSoftplus>,
     kCostly,
     {"alpha", 1.0f},
     {"beta", 1.0f},
     kF32<ParametricSoftplus>},
};

const UnaryOperator& Find(const Node& node) {
  return *std::find_if(std::begin(kOperators), std::end(kOperators),
                       [&](const UnaryOperator& o) { return node.op_type() == o.op_type; });
}

class VectorUnaryKernel final : public CpuKernel {
 public:
  VectorUnaryKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)), unary_(Find(node)), kind_(unary_.kind) {
    if (unary_.a.name) a_ = node.GetFloat(unary_.a.name, unary_.a.missing);
    if (unary_.b.name) b_ = node.GetFloat(unary_.b.name, unary_.b.missing);
    if (kind_ == UnaryKind::kGelu && node.GetString("approximate", "none") == "tanh") kind_ = UnaryKind::kGeluTanh;
  }
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const int64_t n = context.outputs[0].shape.num_elements();
    return MakeStep([n, row = row_, kind = kind_, a = a_, b = b_,
                     grain = unary_.costly ? kCostlyGrain : kCheapGrain](const StepContext& c) {
      const auto* x = static_cast<const float*>(c.inputs[0]);
      auto* y = static_cast<float*>(c.outputs[0]);
      return ForRange(c, n, grain, [&](int64_t begin, int64_t end) {
        row->unary(
            {.kind = kind, .n = static_cast<size_t>(end - begin), .x = x + begin, .y = y + begin, .a = a, .b = b});
      });
    });
  }
  KernelDescription Describe() const override {
    return Described(*row_, std::string(unary_.op_type) + ", elementwise");
  }

 private:
  const ukernel::VectorKernel* row_;
  const UnaryOperator& unary_;
  UnaryKind kind_;
  float a_ = 0, b_ = 0;
};

UnaryRow FindIntegerRow(const Node& node, DType dtype) {
  if (node.Is("Relu")) return UnaryRowOf<NoLessThanZero{}>(SignedTypeList{}, dtype);
  if (node.Is("Neg")) return UnaryRowOf<Negated{}>(SignedTypeList{}, dtype);
  if (node.Is("Abs")) return UnaryRowOf<Magnitude{}>(IntegerTypeList{}, dtype);
  if (node.Is("Sign")) return UnaryRowOf<SignOf{}>(IntegerTypeList{}, dtype);
  if (node.Is("Erf")) return UnaryRowOf<Erf{}>(IntegerTypeList{}, dtype);
  if (node.Is("Shrink")) return UnaryRowOf<Shrink{}>(IntegerTypeList{}, dtype);
  return nullptr;
}

// Null where there is none; float32 that has a micro-kernel is not asked for.
UnaryRow FindRow(const Node& node) {
  const UnaryOperator& o = Find(node);
  const DType dtype = node.input(0)->type().dtype;
  if (dtype == DType::kF32) return o.f32;
  if (dtype != DType::kF64) return FindIntegerRow(node, dtype);
  return node.Is("Gelu") && node.GetString("approximate", "none") == "tanh" ? kF64<GeluTanh> : o.f64;
}

bool IsOfVectors(const Node& node) { return node.input(0)->type().dtype == DType::kF32 && Find(node).kind != kNoKind; }

std::string Reject(const Node& node, const CpuConfig&) {
  if (IsOfVectors(node) || FindRow(node)) return {};
  return std::string("type ") + DTypeName(node.input(0)->type().dtype);
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  if (IsOfVectors(node)) return std::unique_ptr<CpuKernel>(new VectorUnaryKernel(node, *context.config));
  const UnaryOperator& o = Find(node);
  PlainUnary what{.name = node.op_type(), .from = node.input(0)->type().dtype, .rows = {FindRow(node)}};
  if (o.a.name) what.parameters.a = static_cast<double>(node.GetFloat(o.a.name, o.a.missing));
  if (o.b.name) what.parameters.b = static_cast<double>(node.GetFloat(o.b.name, o.b.missing));
  what.costly = o.costly;
  return MakePlainUnary(std::move(what));
}

constexpr auto kOps = [] {
  std::array<CpuOp, std::size(kOperators)> ops{};
  for (size_t i = 0; i < ops.size(); ++i) ops[i] = {"", kOperators[i].op_type, Reject, Compile};
  return ops;
}();

}  // namespace

extern const std::span<const CpuOp> kCpuOpsUnary = kOps;

}  // namespace quern::cpu
