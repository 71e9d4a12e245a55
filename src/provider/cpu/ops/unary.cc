// Elementwise operators of one input: float32 through the vector micro-kernels where they have the function, else
// through the elementwise ones.
#include <algorithm>
#include <array>

#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

struct Parameter {
  const char* name = nullptr;
  float missing = 0;
};
struct UnaryOperator {
  const char* op_type;
  UnaryKind kind;
  bool costly = false;  // more than a few instructions for each element
  Parameter a = {}, b = {};
};

constexpr bool kCheap = false, kCostly = true;
constexpr UnaryOperator kOperators[] = {
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

const UnaryOperator& Find(const Node& node) {
  return *std::find_if(std::begin(kOperators), std::end(kOperators),
                       [&](const UnaryOperator& o) { return node.op_type() == o.op_type; });
}

UnaryKind KindOf(const Node& node) {
  const UnaryKind kind = Find(node).kind;
  return kind == UnaryKind::kGelu && node.GetString("approximate", "none") == "tanh" ? UnaryKind::kGeluTanh : kind;
}

class VectorUnaryKernel final : public CpuKernel {
 public:
  VectorUnaryKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)), unary_(Find(node)), kind_(KindOf(node)) {
    if (unary_.a.name) a_ = node.GetFloat(unary_.a.name, unary_.a.missing);
    if (unary_.b.name) b_ = node.GetFloat(unary_.b.name, unary_.b.missing);
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

bool IsOfVectors(const Node& node) { return node.input(0)->type().dtype == DType::kF32 && HasVectorLoop(KindOf(node)); }

// Null where there is none.
UnaryRow FindRow(const Node& node, const CpuConfig& config) {
  const DType dtype = node.input(0)->type().dtype;
  return ElementwiseRowFor(config)->unary(KindOf(node), dtype, dtype);
}

std::string Reject(const Node& node, const CpuConfig& config) {
  if (IsOfVectors(node) || FindRow(node, config)) return {};
  return std::string("type ") + DTypeName(node.input(0)->type().dtype);
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  if (IsOfVectors(node)) return std::unique_ptr<CpuKernel>(new VectorUnaryKernel(node, *context.config));
  const UnaryOperator& o = Find(node);
  PlainUnary what{.name = node.op_type(),
                  .from = node.input(0)->type().dtype,
                  .kernel = ElementwiseRowFor(*context.config),
                  .rows = {FindRow(node, *context.config)}};
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
