// Elementwise operators of one input: float32 through the vector micro-kernels where they have the function, else
// through the elementwise ones.
#include <algorithm>
#include <array>

#include "provider/cpu/common/elementwise_operators.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

const UnaryOperator& Find(const Node& node) {
  return *std::find_if(std::begin(kUnaryOperators), std::end(kUnaryOperators),
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
  std::array<CpuOp, std::size(kUnaryOperators)> ops{};
  for (size_t i = 0; i < ops.size(); ++i) ops[i] = {"", kUnaryOperators[i].op_type, Reject, Compile};
  return ops;
}();

}  // namespace

extern const std::span<const CpuOp> kCpuOpsUnary = kOps;

}  // namespace quern::cpu
