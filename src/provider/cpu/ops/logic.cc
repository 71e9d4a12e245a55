// Comparisons, logic and choice with broadcasting: Equal, Greater, GreaterOrEqual, Less, LessOrEqual, And, Or, Xor,
// Not, Where.
#include <algorithm>

#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

BinaryRow FindRow(BinaryKind kind, DType dtype, const CpuConfig& config) {
  return ElementwiseRowFor(config)->binary(kind, dtype, dtype);
}

// Of bools, And, Or and Xor are those of their bits: 0 and 1.
template <BinaryKind kKind>
std::string Reject(const Node& node, const CpuConfig& config) {
  const DType dtype = node.input(0)->type().dtype;
  if (!FindRow(kKind, dtype, config)) return std::string("type ") + DTypeName(dtype);
  return RejectLegacyBroadcast(node);
}

template <BinaryKind kKind, bool kSwapped = false>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  const DType dtype = node.input(0)->type().dtype;
  return MakePlainBinary({.name = node.op_type(),
                          .from = dtype,
                          .kernel = ElementwiseRowFor(*context.config),
                          .row = FindRow(kKind, dtype, *context.config),
                          .swapped = kSwapped});
}

std::string RejectNot(const Node& node, const CpuConfig&) { return RejectUnlessType(node.input(0), {DType::kBool}); }
Result<std::unique_ptr<CpuKernel>> CompileNot(const Node&, const CompileContext& context) {
  const ukernel::ElementwiseKernel* kernel = ElementwiseRowFor(*context.config);
  return MakePlainUnary({.name = "Not",
                         .from = DType::kBool,
                         .kernel = kernel,
                         .rows = {kernel->unary(UnaryKind::kNot, DType::kBool, DType::kBool)}});
}

class WhereKernel final : public CpuKernel {
 public:
  explicit WhereKernel(const CpuConfig& config) : kernel_(ElementwiseRowFor(config)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const size_t bytes = DTypeBytes(context.outputs[0].dtype);
    const ukernel::ChoiceRow row = kernel_->choose(bytes);
    const PlainOperand choice(context.outputs[0].shape, context.inputs[0]);
    const PlainOperand a(context.outputs[0].shape, context.inputs[1]), b(context.outputs[0].shape, context.inputs[2]);
    return MakeStep([=, n = context.outputs[0].shape.num_elements()](const StepContext& c) {
      auto* y = static_cast<char*>(c.outputs[0]);
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        OperandReader p(choice, c.inputs[0]), u(a, c.inputs[1]), v(b, c.inputs[2]);
        for (int64_t i = begin; i < end; i += kRowChunk) {
          const int64_t count = std::min(kRowChunk, end - i);
          row(count, p.Read(i, count), u.Read(i, count), v.Read(i, count), y + static_cast<size_t>(i) * bytes);
        }
      });
    });
  }
  KernelDescription Describe() const override { return Described(*kernel_, "Where, elementwise with broadcasting"); }

 private:
  const ukernel::ElementwiseKernel* kernel_;
};

std::string RejectWhere(const Node& node, const CpuConfig&) {
  const size_t bytes = DTypeBytes(node.input(1)->type().dtype);
  return bytes >= 1 && bytes <= 8 ? std::string() : std::string("type ") + DTypeName(node.input(1)->type().dtype);
}
Result<std::unique_ptr<CpuKernel>> CompileWhere(const Node&, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new WhereKernel(*context.config));
}

constexpr CpuOp kOps[] = {
    {"", "Equal", Reject<BinaryKind::kEqual>, Compile<BinaryKind::kEqual>},
    {"", "Greater", Reject<BinaryKind::kLess>, Compile<BinaryKind::kLess, true>},
    {"", "GreaterOrEqual", Reject<BinaryKind::kAtMost>, Compile<BinaryKind::kAtMost, true>},
    {"", "Less", Reject<BinaryKind::kLess>, Compile<BinaryKind::kLess>},
    {"", "LessOrEqual", Reject<BinaryKind::kAtMost>, Compile<BinaryKind::kAtMost>},
    {"", "And", Reject<BinaryKind::kBitAnd>, Compile<BinaryKind::kBitAnd>},
    {"", "Or", Reject<BinaryKind::kBitOr>, Compile<BinaryKind::kBitOr>},
    {"", "Xor", Reject<BinaryKind::kBitXor>, Compile<BinaryKind::kBitXor>},
    {"", "Not", RejectNot, CompileNot},
    {"", "Where", RejectWhere, CompileWhere},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsLogic = kOps;

}  // namespace quern::cpu
