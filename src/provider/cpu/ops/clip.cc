// Clip: the bounds are attributes (before operator set 11) or inputs, which may come with the run.
#include <cstring>
#include <limits>

#include "ops/common/dispatch.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

// The memory of one element.
struct Element {
  alignas(8) char bytes[8] = {};
  template <typename T>
  void Set(T v) {
    std::memcpy(bytes, &v, sizeof(T));
  }
};

using ClipTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
constexpr TypeSet kClipTypes = TypeSet{DType::kF32, DType::kF64} | kSignedIntTypes | kUnsignedIntTypes;

class ClipKernel final : public CpuKernel {
 public:
  ClipKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)),
        kernel_(ElementwiseRowFor(config)),
        dtype_(node.input(0)->type().dtype),
        rows_{kernel_->unary(UnaryKind::kClip, dtype_, dtype_)},
        has_low_(node.input(1) != nullptr),
        has_high_(node.input(2) != nullptr) {
    static_cast<void>(DispatchType(ClipTypes{}, dtype_, [&]<typename T>() {
      using Range = std::numeric_limits<T>;
      if constexpr (Range::has_infinity) {
        const bool attributes = node.opset() < 11;
        low_.Set(attributes ? static_cast<T>(node.GetFloat("min", std::numeric_limits<float>::lowest()))
                            : -Range::infinity());
        high_.Set(attributes ? static_cast<T>(node.GetFloat("max", std::numeric_limits<float>::max()))
                             : Range::infinity());
      } else {
        low_.Set(Range::lowest());
        high_.Set(Range::max());
      }
      return OkStatus();
    }));
  }
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    return MakeStep([this, n = context.outputs[0].shape.num_elements()](const StepContext& c) {
      const size_t bytes = DTypeBytes(dtype_);
      const RowParameters bounds{.low = has_low_ ? c.inputs[1] : low_.bytes,
                                 .high = has_high_ ? c.inputs[2] : high_.bytes};
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        const char* x = static_cast<const char*>(c.inputs[0]) + static_cast<size_t>(begin) * bytes;
        char* y = static_cast<char*>(c.outputs[0]) + static_cast<size_t>(begin) * bytes;
        if (dtype_ != DType::kF32) return ApplyRows(rows_, bounds, end - begin, x, y, 8 * bytes, 8 * bytes);
        row_->unary({.kind = UnaryKind::kClip,
                     .n = static_cast<size_t>(end - begin),
                     .x = reinterpret_cast<const float*>(x),
                     .y = reinterpret_cast<float*>(y),
                     .a = *static_cast<const float*>(bounds.low),
                     .b = *static_cast<const float*>(bounds.high)});
      });
    });
  }
  KernelDescription Describe() const override {
    if (dtype_ == DType::kF32) return Described(*row_, "Clip, elementwise");
    return Described(*kernel_, std::string("Clip (") + DTypeName(dtype_) + "), elementwise");
  }

 private:
  const ukernel::VectorKernel* row_;
  const ukernel::ElementwiseKernel* kernel_;
  DType dtype_;
  std::vector<UnaryRow> rows_;  // of types that the vector family lacks
  Element low_, high_;
  bool has_low_, has_high_;
};

std::string Reject(const Node& node, const CpuConfig&) { return RejectUnlessType(node.input(0), kClipTypes); }
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new ClipKernel(node, *context.config));
}

constexpr CpuOp kOps[] = {{"", "Clip", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsClip = kOps;

}  // namespace quern::cpu
