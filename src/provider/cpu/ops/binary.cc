// Elementwise operators of two or more broadcast inputs, of the inputs' type: Add, Sub, Mul, Div, Mod, Min, Max,
// Sum, Mean, PRelu. float32 through the vector micro-kernels where they have the function, else through the elementwise
// ones.
#include <algorithm>
#include <array>

#include "provider/cpu/common/elementwise_operators.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

constexpr const char* kByZero = "integer division by zero";
constexpr BinaryOperator kFmod = {"Mod", BinaryKind::kTruncMod, true};

const BinaryOperator& Find(const Node& node) {
  if (node.Is("Mod") && node.GetInt("fmod", 0) != 0) return kFmod;
  return *std::find_if(std::begin(kBinaryOperators), std::end(kBinaryOperators),
                       [&](const BinaryOperator& o) { return node.op_type() == o.op_type; });
}

// PRelu's slope broadcasts to x one way only, which the walk does not care about.
class VectorBinaryKernel final : public CpuKernel {
 public:
  VectorBinaryKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)), name_(node.op_type()), kind_(Find(node).kind), mean_(name_ == "Mean") {}
  Placement Place(const BindContext& context) const override { return PlaceBinary(context); }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& out = context.outputs[0].shape;
    const int64_t n = out.num_elements();
    const float count = static_cast<float>(context.inputs.size());
    if (n == 0) return NothingToDo();
    if (context.inputs.size() == 1) {
      return MakeStep([n, row = row_](const StepContext& c) {
        row->unary({.n = static_cast<size_t>(n),
                    .x = static_cast<const float*>(c.inputs[0]),
                    .y = static_cast<float*>(c.outputs[0])});
        return OkStatus();
      });
    }
    std::vector<BroadcastWalk<2>> walks = {BroadcastWalk<2>(out, {context.inputs[0].shape, context.inputs[1].shape})};
    for (size_t i = 2; i < context.inputs.size(); ++i)
      walks.emplace_back(out, std::array{out, context.inputs[i].shape});
    return MakeStep([n, count, mean = mean_, kind = kind_, row = row_, walks = std::move(walks)](const StepContext& c) {
      auto* y = static_cast<float*>(c.outputs[0]);
      for (size_t i = 0; i < walks.size(); ++i) {
        const BroadcastWalk<2>& walk = walks[i];
        const auto* a = i == 0 ? static_cast<const float*>(c.inputs[0]) : y;
        const auto* b = static_cast<const float*>(c.inputs[i + 1]);
        QUERN_RETURN_IF_ERROR(walk.Run(c, kCheapGrain, [&](int64_t at, const auto& offset, int64_t run) {
          row->binary({.kind = kind,
                       .n = static_cast<size_t>(run),
                       .x = a + offset[0],
                       .z = b + offset[1],
                       .y = y + at,
                       .x_step = static_cast<size_t>(walk.step(0)),
                       .z_step = static_cast<size_t>(walk.step(1))});
        }));
      }
      if (!mean) return OkStatus();
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        row->binary({.kind = BinaryKind::kDiv,
                     .n = static_cast<size_t>(end - begin),
                     .x = y + begin,
                     .z = &count,
                     .y = y + begin,
                     .x_step = 1,
                     .z_step = 0});
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, name_ + ", elementwise with broadcasting"); }

 private:
  const ukernel::VectorKernel* row_;
  std::string name_;
  BinaryKind kind_;
  bool mean_;
};

bool IsOfVectors(const Node& node) {
  return node.input(0)->type().dtype == DType::kF32 && HasVectorLoop(Find(node).kind);
}

// Null where there is none. Sums of integers are no operator.
BinaryRow FindRow(const Node& node, const CpuConfig& config) {
  const DType dtype = node.input(0)->type().dtype;
  if ((node.Is("Sum") || node.Is("Mean")) && !IsFloatType(dtype)) return nullptr;
  return ElementwiseRowFor(config)->binary(Find(node).kind, dtype, dtype);
}

// Vectors have no division of 64-bit integers: float64 serves those that it holds.
bool MayBeScalar(BinaryKind kind, DType dtype) {
  const bool divides = kind == BinaryKind::kDiv || kind == BinaryKind::kMod || kind == BinaryKind::kTruncMod;
  return divides && IsIntegerType(dtype) && DTypeBytes(dtype) == 8;
}

std::string Reject(const Node& node, const CpuConfig& config) {
  const DType dtype = node.input(0)->type().dtype;
  if (!IsOfVectors(node) && !FindRow(node, config)) return std::string("type ") + DTypeName(dtype);
  for (const GraphValue* v : node.inputs()) {
    if (std::string why = RejectUnlessType(v, {dtype}); !why.empty()) return why;
  }
  if (node.opset() < 7 && node.Is("PRelu")) return "slopes as before operator set 7";
  return RejectLegacyBroadcast(node);
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  if (IsOfVectors(node)) return std::unique_ptr<CpuKernel>(new VectorBinaryKernel(node, *context.config));
  const ukernel::ElementwiseKernel* kernel = ElementwiseRowFor(*context.config);
  const BinaryOperator& o = Find(node);
  const DType dtype = node.input(0)->type().dtype;
  return MakePlainBinary({.name = node.op_type(),
                          .from = dtype,
                          .kernel = kernel,
                          .row = FindRow(node, *context.config),
                          .scalar = MayBeScalar(o.kind, dtype) ? ", scalar divisions beyond 2^50" : "",
                          .costly = o.costly,
                          .last = node.Is("Mean") ? kernel->unary(UnaryKind::kDivide, dtype, dtype) : nullptr,
                          .fault = kByZero});
}

constexpr auto kOps = [] {
  std::array<CpuOp, std::size(kBinaryOperators)> ops{};
  for (size_t i = 0; i < ops.size(); ++i) ops[i] = {"", kBinaryOperators[i].op_type, Reject, Compile};
  return ops;
}();

}  // namespace

extern const std::span<const CpuOp> kCpuOpsBinary = kOps;

}  // namespace quern::cpu
