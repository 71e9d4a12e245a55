// Comparisons, logic and choice with broadcasting: Equal, Greater, GreaterOrEqual, Less, LessOrEqual, And, Or, Xor,
// Not, Where.
#include <algorithm>

#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

struct EqualTo {
  template <typename T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct LessThan {
  template <typename T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct AtMost {
  template <typename T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
bool Both(bool a, bool b) { return a && b; }
bool Either(bool a, bool b) { return a || b; }
bool Differ(bool a, bool b) { return a != b; }
bool Negated(bool a) { return !a; }

using Floats = Types<float, double>;

// Null for types that have none.
template <auto kF>
BinaryRow OrderRow(DType dtype) {
  const BinaryRow floats = BinaryRowOf<kF, bool>(Floats{}, dtype);
  return floats ? floats : BinaryRowOf<kF, bool>(IntegerTypeList{}, dtype);
}
BinaryRow EqualityRow(DType dtype) {
  const BinaryRow floats = BinaryRowOf<EqualTo{}, bool>(Floats{}, dtype);
  return floats ? floats : BinaryRowOf<EqualTo{}, bool>(UnsignedTypeList{}, AsUnsigned(dtype));
}
template <bool (*kF)(bool, bool)>
BinaryRow LogicRow(DType dtype) {
  return dtype == DType::kBool ? BinaryLoop<bool, bool, bool, kF> : nullptr;
}

template <BinaryRow (*kRowFor)(DType)>
std::string Reject(const Node& node, const CpuConfig&) {
  const DType dtype = node.input(0)->type().dtype;
  if (!kRowFor(dtype)) return std::string("type ") + DTypeName(dtype);
  return RejectLegacyBroadcast(node);
}

template <BinaryRow (*kRowFor)(DType), bool kSwapped = false>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  const DType dtype = node.input(0)->type().dtype;
  return MakePlainBinary({.name = node.op_type(), .from = dtype, .row = kRowFor(dtype), .swapped = kSwapped});
}

std::string RejectNot(const Node& node, const CpuConfig&) { return RejectUnlessType(node.input(0), {DType::kBool}); }
Result<std::unique_ptr<CpuKernel>> CompileNot(const Node&, const CompileContext&) {
  return MakePlainUnary({.name = "Not", .from = DType::kBool, .rows = {UnaryLoop<bool, bool, Negated>}});
}

// By the width of an element only.
using ChoiceRow = void (*)(int64_t n, const void* choice, const void* a, const void* b, void* y);
template <typename T>
void Choose(int64_t n, const void* choice, const void* a, const void* b, void* y) {
  const bool* __restrict p = static_cast<const bool*>(choice);
  const T* __restrict u = static_cast<const T*>(a), * __restrict v = static_cast<const T*>(b);
  T* __restrict to = static_cast<T*>(y);
  for (int64_t i = 0; i < n; ++i) {
    const T chosen = u[i], other = v[i];  // both are read, so that there is no branch
    to[i] = p[i] ? chosen : other;
  }
}

class WhereKernel final : public CpuKernel {
 public:
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const size_t bytes = DTypeBytes(context.outputs[0].dtype);
    const ChoiceRow row = bytes == 1   ? Choose<uint8_t>
                          : bytes == 2 ? Choose<uint16_t>
                          : bytes == 4 ? Choose<uint32_t>
                                       : Choose<uint64_t>;
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
  KernelDescription Describe() const override { return Described("Where", "plain loop"); }
};

std::string RejectWhere(const Node& node, const CpuConfig&) {
  const size_t bytes = DTypeBytes(node.input(1)->type().dtype);
  return bytes >= 1 && bytes <= 8 ? std::string() : std::string("type ") + DTypeName(node.input(1)->type().dtype);
}
Result<std::unique_ptr<CpuKernel>> CompileWhere(const Node&, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new WhereKernel());
}

constexpr auto kLess = OrderRow<LessThan{}>;
constexpr auto kAtMost = OrderRow<AtMost{}>;
constexpr CpuOp kOps[] = {
    {"", "Equal", Reject<EqualityRow>, Compile<EqualityRow>},
    {"", "Greater", Reject<kLess>, Compile<kLess, true>},
    {"", "GreaterOrEqual", Reject<kAtMost>, Compile<kAtMost, true>},
    {"", "Less", Reject<kLess>, Compile<kLess>},
    {"", "LessOrEqual", Reject<kAtMost>, Compile<kAtMost>},
    {"", "And", Reject<LogicRow<Both>>, Compile<LogicRow<Both>>},
    {"", "Or", Reject<LogicRow<Either>>, Compile<LogicRow<Either>>},
    {"", "Xor", Reject<LogicRow<Differ>>, Compile<LogicRow<Differ>>},
    {"", "Not", RejectNot, CompileNot},
    {"", "Where", RejectWhere, CompileWhere},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsLogic = kOps;

}  // namespace quern::cpu
