// DepthToSpace, SpaceToDepth, CumSum, CumProd, Trilu, ConstantOfShape.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "ops/common/depth_space.h"
#include "ops/common/dispatch.h"
#include "provider/cpu/common/copy.h"
#include "provider/cpu/common/fold_rows.h"

namespace quern::cpu {
namespace {

std::string RejectType(const Node& node, const CpuConfig&) {
  const DType t = node.input(0)->type().dtype;
  return DTypeBytes(t) == 0 ? std::string("type ") + DTypeName(t) : std::string();
}

// One transposing copy: the deep side [n, channels * b * b, h, w] has the block position in its channels.
class DepthSpaceKernel final : public CpuKernel {
 public:
  DepthSpaceKernel(const Node& node, DepthSpace form, const CpuConfig& config)
      : form_(form), to_space_(node.op_type() == "DepthToSpace"), row_(VectorRowFor(config)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &in = context.inputs[0].shape, &out = context.outputs[0].shape;
    if (out.num_elements() == 0) return NothingToDo();
    const Shape &deep = to_space_ ? in : out, &wide = to_space_ ? out : in;
    const int64_t b = form_.block, channels = wide[1], h = deep[2], w = deep[3];
    // Along n, channel, h, block row, w, block column: the wide side's own order.
    const Shape extents{wide[0], channels, h, b, w, b};
    const Shape wide_strides = extents.ContiguousStrides();
    const int64_t plane = h * w, position = form_.depth_first ? channels * plane : plane;
    const Shape deep_strides{deep[1] * plane, form_.depth_first ? plane : b * b * plane, w, b * position, 1, position};
    const StridedCopy copy =
        StridedCopy::Prepare(extents, to_space_ ? deep_strides : wide_strides, to_space_ ? wide_strides : deep_strides,
                             DTypeBytes(context.inputs[0].dtype), row_);
    return MakeStep(
        [copy](const StepContext& c) { return copy.Run(c.inputs[0], c.outputs[0], *c.executor, c.cancel); });
  }
  KernelDescription Describe() const override {
    return Described("strided copy", to_space_ ? "blocks of channels to pixels" : "blocks of pixels to channels");
  }

 private:
  DepthSpace form_;
  bool to_space_;
  const ukernel::VectorKernel* row_;
};

std::string RejectDepthSpace(const Node& node, const CpuConfig& config) {
  const Result<DepthSpace> form = ReadDepthSpace(node);
  return form.ok() ? RejectType(node, config) : form.status().message();
}
Result<std::unique_ptr<CpuKernel>> CompileDepthSpace(const Node& node, const CompileContext& context) {
  QUERN_ASSIGN_OR_RETURN(const DepthSpace form, ReadDepthSpace(node));
  return std::unique_ptr<CpuKernel>(new DepthSpaceKernel(node, form, *context.config));
}

struct Cumulation {
  bool product, exclusive, reverse;
};

template <typename T>
Result<std::unique_ptr<CpuStep>> BindCumulative(const ukernel::FoldFunctions<T>& folds, int64_t outer, int64_t n,
                                                int64_t inner, Cumulation how) {
  constexpr int64_t kBlock = 256;  // columns of one task
  const int64_t blocks = (inner + kBlock - 1) / kBlock;
  return MakeStep([=](const StepContext& c) {
    return ForItems(c, outer * blocks, n * std::min(kBlock, inner), kCostlyGrain, [&](int64_t item) {
      const int64_t first = item % blocks * kBlock;
      const int64_t at = item / blocks * n * inner + first + (how.reverse ? (n - 1) * inner : 0);
      folds.running_sum({.product = how.product,
                         .exclusive = how.exclusive,
                         .rows = static_cast<size_t>(n),
                         .n = static_cast<size_t>(std::min(kBlock, inner - first)),
                         .x = static_cast<const T*>(c.inputs[0]) + at,
                         .y = static_cast<T*>(c.outputs[0]) + at,
                         .row_stride = how.reverse ? -inner : inner});
    });
  });
}

class CumulativeKernel final : public CpuKernel {
 public:
  CumulativeKernel(const Node& node, const CpuConfig& config)
      : rows_(config),
        how_{node.op_type() == "CumProd", node.GetInt("exclusive", 0) != 0, node.GetInt("reverse", 0) != 0} {}
  uint64_t plan_time_inputs() const override { return 2; }
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (!context.inputs[1].constant) return Unsupported("the axis is not known while planning");
    QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ToInt64s(*context.inputs[1].constant));
    if (axes.size() != 1 || axes[0] < -shape.rank() || axes[0] >= shape.rank()) {
      return InvalidArgument("the axis must be one number that names a dimension of " + shape.ToString());
    }
    if (shape.num_elements() == 0) return NothingToDo();
    const int axis = static_cast<int>(axes[0] < 0 ? axes[0] + shape.rank() : axes[0]);
    const int64_t outer = shape.num_elements(0, axis), inner = shape.num_elements(axis + 1, shape.rank());
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(CumulativeTypes{}, context.inputs[0].dtype, [&]<typename T>() {
      QUERN_ASSIGN_OR_RETURN(step, BindCumulative<T>(rows_.Of<T>(), outer, shape[axis], inner, how_));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override {
    return Described(ukernel::Name(*rows_.fold).text, how_.product ? "CumProd by columns" : "CumSum by columns");
  }

 private:
  using CumulativeTypes = Types<float, double, int32_t, int64_t, uint32_t, uint64_t>;

  const FoldRows rows_;
  Cumulation how_;
};

std::string RejectCumulative(const Node& node, const CpuConfig&) {
  const GraphValue* axis = node.input(1);
  if (!axis->is_constant() && !axis->data()) return "the axis comes with the run";
  return RejectUnlessType(node.input(0),
                          {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU32, DType::kU64});
}

Result<std::unique_ptr<CpuKernel>> CompileCumulative(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new CumulativeKernel(node, *context.config));
}

class TriluKernel final : public CpuKernel {
 public:
  explicit TriluKernel(const Node& node) : upper_(node.GetInt("upper", 1) != 0) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const int64_t rows = shape[shape.rank() - 2], columns = shape.back();
    const auto bytes = static_cast<int64_t>(DTypeBytes(context.inputs[0].dtype));
    const bool has_k = context.has_input(1);
    return MakeStep([=, total = shape.num_elements(0, shape.rank() - 1), upper = upper_](const StepContext& c) {
      const int64_t k = has_k ? std::clamp(*static_cast<const int64_t*>(c.inputs[1]), -rows, columns) : 0;
      return ForItems(c, total, columns, kCheapGrain, [&](int64_t line) {
        // Columns [first, last) of this row stay.
        const int64_t diagonal = std::clamp<int64_t>(line % rows + k + (upper ? 0 : 1), 0, columns);
        const int64_t first = upper ? diagonal : 0, last = upper ? columns : diagonal;
        const char* x = static_cast<const char*>(c.inputs[0]) + line * columns * bytes;
        char* y = static_cast<char*>(c.outputs[0]) + line * columns * bytes;
        std::memset(y, 0, static_cast<size_t>(first * bytes));
        std::memcpy(y + first * bytes, x + first * bytes, static_cast<size_t>((last - first) * bytes));
        std::memset(y + last * bytes, 0, static_cast<size_t>((columns - last) * bytes));
      });
    });
  }
  KernelDescription Describe() const override { return Described("Trilu", "copies and zeros by rows"); }

 private:
  bool upper_;
};

std::string RejectTrilu(const Node& node, const CpuConfig& config) {
  if (node.input(0)->type().rank() < 2) return "an input without rows and columns";
  return RejectType(node, config);
}

// The output's shape is known while planning; its elements are copies of one value.
class FillKernel final : public CpuKernel {
 public:
  explicit FillKernel(const Node& node) {
    const Value* value = node.FindAttribute<Value>("value");
    if (value && value->is_tensor()) std::memcpy(element_, value->tensor().raw_data(), value->tensor().bytes());
  }
  uint64_t plan_time_inputs() const override { return 1; }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const auto bytes = static_cast<int64_t>(DTypeBytes(context.outputs[0].dtype));
    return MakeStep([this, bytes, n = context.outputs[0].shape.num_elements()](const StepContext& c) {
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        const auto fill = [&]<typename T>(T element) {
          std::memcpy(&element, element_, sizeof element);
          std::fill(static_cast<T*>(c.outputs[0]) + begin, static_cast<T*>(c.outputs[0]) + end, element);
        };
        switch (bytes) {
          case 1:
            return fill(uint8_t{});
          case 2:
            return fill(uint16_t{});
          case 4:
            return fill(uint32_t{});
          case 8:
            return fill(uint64_t{});
          default:
            return fill(std::array<uint64_t, 2>{});
        }
      });
    });
  }
  KernelDescription Describe() const override { return Described("fill", "one value everywhere"); }

 private:
  char element_[16] = {};
};

std::string RejectFill(const Node& node, const CpuConfig&) {
  if (DTypeBytes(node.output(0)->type().dtype) == 0)
    return std::string("type ") + DTypeName(node.output(0)->type().dtype);
  const Value* value = node.FindAttribute<Value>("value");
  if (value && (!value->is_tensor() || value->tensor().num_elements() != 1)) return "a value that is not one element";
  return {};
}

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new Kernel(node));
}

constexpr CpuOp kOps[] = {
    {"", "DepthToSpace", RejectDepthSpace, CompileDepthSpace},
    {"", "SpaceToDepth", RejectDepthSpace, CompileDepthSpace},
    {"", "CumSum", RejectCumulative, CompileCumulative, kAllButData},
    {"", "CumProd", RejectCumulative, CompileCumulative, kAllButData},
    {"", "Trilu", RejectTrilu, Compile<TriluKernel>, kAllButData},
    {"", "ConstantOfShape", RejectFill, Compile<FillKernel>, 0b1},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsArrange = kOps;

}  // namespace quern::cpu
