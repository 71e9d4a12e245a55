// Operators that move elements: Transpose, Slice, Concat, Split, Expand. Views where memory allows, strided copies
// else.
#include <algorithm>

#include "ops/common/permutation.h"
#include "ops/infer.h"
#include "provider/cpu/common/copy.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// One strided copy per output or input.
class CopiesStep final : public CpuStep {
 public:
  struct Part {
    StridedCopy copy;
    int input, output;
    int64_t from_offset, to_offset;  // bytes
  };
  CopiesStep(std::vector<Part> parts, bool skip_aliased) : parts_(std::move(parts)), skip_aliased_(skip_aliased) {}

  Status Run(const StepContext& context) const override {
    for (const Part& p : parts_) {
      const char* from = static_cast<const char*>(context.inputs[p.input]) + p.from_offset;
      char* to = static_cast<char*>(context.outputs[p.output]) + p.to_offset;
      // Parts that the plan, or a state that is bound in place, has put there already.
      if (skip_aliased_ && from == to && SameStrides(p.copy)) continue;
      QUERN_RETURN_IF_ERROR(p.copy.Run(from, to, *context.executor, context.cancel));
    }
    return OkStatus();
  }

 private:
  static bool SameStrides(const StridedCopy& c) { return c.from_strides == c.to_strides; }
  std::vector<Part> parts_;
  bool skip_aliased_;
};

Result<std::unique_ptr<CpuStep>> MakeCopies(std::vector<CopiesStep::Part> parts, bool skip_aliased = false) {
  return std::unique_ptr<CpuStep>(new CopiesStep(std::move(parts), skip_aliased));
}

KernelDescription CopyDescription(const char* why) {
  return {.kernel = "strided copy", .why = why, .rejected = {}, .layout = {}, .packed_bytes = 0};
}

std::string RejectType(const Node& node, const CpuConfig&) {
  const DType t = node.input(0)->type().dtype;
  return DTypeBytes(t) == 0 ? std::string("type ") + DTypeName(t) : std::string();
}

class TransposeKernel final : public CpuKernel {
 public:
  TransposeKernel(const std::vector<int64_t>& perm, const CpuConfig& config)
      : perm_(perm), row_(VectorRowFor(config)) {}
  Placement Place(const BindContext& context) const override {
    Placement p;
    Placement::View v{.output = 0, .input = 0, .offset = 0, .strides = Permuted(context.inputs[0].strides)};
    // Dimensions of extent 1 may move freely: then the view is contiguous whatever the permutation says.
    const Shape& out = context.outputs[0].shape;
    const Shape dense = out.ContiguousStrides();
    bool same = true;
    for (int i = 0; i < out.rank(); ++i) same = same && (out[i] == 1 || v.strides[i] == dense[i]);
    if (same) v.strides = dense;
    p.views = {v};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const TensorSpec &in = context.inputs[0], &out = context.outputs[0];
    return MakeCopies(
        {{StridedCopy::Prepare(out.shape, Permuted(in.strides), out.strides, DTypeBytes(in.dtype), row_), 0, 0, 0, 0}});
  }
  KernelDescription Describe() const override { return CopyDescription("elements change their order"); }
  uint64_t strided_inputs() const override { return 1; }
  uint64_t strided_outputs() const override { return 1; }

 private:
  Shape Permuted(const Shape& strides) const {
    Shape s;
    for (int64_t i : perm_) s.push_back(strides[static_cast<int>(i)]);
    return s;
  }
  Shape perm_;
  const ukernel::VectorKernel* row_;
};

// Starts and steps along every axis, as the operator's rules clamp them; the step is 1 where it is not taken.
struct SliceRange {
  Shape starts, steps;
};

class SliceKernel final : public CpuKernel {
 public:
  explicit SliceKernel(const Node& node) : opset_(node.opset()) {
    starts_ = node.GetInts("starts");
    axes_ = node.GetInts("axes");
  }
  Placement Place(const BindContext& context) const override {
    const std::optional<SliceRange> r = RangeOf(context);
    if (!r) return {};
    Placement p;
    Placement::View v{.output = 0, .input = 0, .offset = 0, .strides = {}};
    const TensorSpec& in = context.inputs[0];
    for (int d = 0; d < in.shape.rank(); ++d) {
      if (r->steps[d] < 0) return {};
      v.offset += r->starts[d] * in.strides[d];
      v.strides.push_back(in.strides[d] * r->steps[d]);
    }
    if (context.outputs[0].shape.num_elements() == 0) return {};
    p.views = {v};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const std::optional<SliceRange> r = RangeOf(context);
    if (!r) return Unsupported("starts or steps are not known while planning");
    const TensorSpec &in = context.inputs[0], &out = context.outputs[0];
    const size_t bytes = DTypeBytes(in.dtype);
    Shape strides;
    int64_t offset = 0;
    for (int d = 0; d < in.shape.rank(); ++d) {
      offset += r->starts[d] * in.strides[d];
      strides.push_back(in.strides[d] * r->steps[d]);
    }
    if (out.shape.num_elements() == 0) return MakeCopies({});
    return MakeCopies({{StridedCopy::Prepare(out.shape, strides, out.strides, bytes), 0, 0,
                        offset * static_cast<int64_t>(bytes), 0}});
  }
  KernelDescription Describe() const override { return CopyDescription("a part of the input"); }
  uint64_t strided_inputs() const override { return 1; }
  uint64_t strided_outputs() const override { return 1; }
  uint64_t plan_time_inputs() const override { return ~uint64_t{1}; }

 private:
  std::optional<SliceRange> RangeOf(const BindContext& context) const {
    const Shape& shape = context.inputs[0].shape;
    SliceRange r{Shape::Filled(shape.rank(), 0), Shape::Filled(shape.rank(), 1)};
    std::vector<int64_t> starts = starts_, axes = axes_, steps;
    if (opset_ >= 10) {
      auto read = [&](int i, std::vector<int64_t>& into) {
        if (!context.has_input(i)) return true;
        if (!context.inputs[i].constant) return false;
        Result<std::vector<int64_t>> values = ToInt64s(*context.inputs[i].constant);
        if (values.ok()) into = *values;
        return values.ok();
      };
      if (!read(1, starts) || !read(3, axes) || !read(4, steps)) return std::nullopt;
    }
    for (size_t i = 0; i < starts.size(); ++i) {
      int64_t axis = axes.empty() ? static_cast<int64_t>(i) : axes[i];
      if (axis < 0) axis += shape.rank();
      const int64_t extent = shape[static_cast<int>(axis)];
      const int64_t step = steps.empty() ? 1 : steps[i];
      const int64_t start = starts[i] < 0 ? starts[i] + extent : starts[i];
      const int64_t last = step > 0 ? extent : std::max<int64_t>(0, extent - 1);
      r.starts[static_cast<int>(axis)] = std::clamp<int64_t>(start, 0, last);
      // A step of an extent of 1 may be of any size.
      if (context.outputs[0].shape[static_cast<int>(axis)] > 1) r.steps[static_cast<int>(axis)] = step;
    }
    return r;
  }
  int opset_;
  std::vector<int64_t> starts_, axes_;
};

std::string RejectSlice(const Node& node, const CpuConfig& config) {
  for (int i : {1, 3, 4}) {
    const GraphValue* v = node.input(i);
    if (v && !v->is_constant() && !v->data()) return "starts, axes or steps come with the run";
  }
  return RejectType(node, config);
}

class ConcatKernel final : public CpuKernel {
 public:
  explicit ConcatKernel(const Node& node) : axis_(node.GetInt("axis", 1)) {
    if (axis_ < 0) axis_ += node.output(0)->type().rank();
  }
  bool has_parts() const override { return true; }
  Placement Place(const BindContext& context) const override {
    const int axis = static_cast<int>(axis_);
    Placement p;
    int64_t at = 0;
    for (int i = 0; i < static_cast<int>(context.inputs.size()); ++i) {
      p.parts.push_back({i, at * context.outputs[0].strides[axis]});
      at += context.inputs[i].shape[axis];
    }
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const TensorSpec& out = context.outputs[0];
    const auto bytes = static_cast<int64_t>(DTypeBytes(out.dtype));
    std::vector<CopiesStep::Part> parts;
    int64_t at = 0;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      const TensorSpec& in = context.inputs[i];
      if (in.shape.num_elements() > 0) {
        parts.push_back({StridedCopy::Prepare(in.shape, in.strides, out.strides, static_cast<size_t>(bytes)),
                         static_cast<int>(i), 0, 0, at * out.strides[static_cast<int>(axis_)] * bytes});
      }
      at += in.shape[static_cast<int>(axis_)];
    }
    return MakeCopies(std::move(parts), true);
  }
  KernelDescription Describe() const override { return CopyDescription("inputs side by side"); }
  uint64_t strided_inputs() const override { return ~uint64_t{0}; }
  uint64_t strided_outputs() const override { return 1; }

 private:
  int64_t axis_;
};

class SplitKernel final : public CpuKernel {
 public:
  explicit SplitKernel(const Node& node) : axis_(node.GetInt("axis", 0)) {
    if (axis_ < 0) axis_ += node.input(0)->type().rank();
  }
  Placement Place(const BindContext& context) const override {
    const Shape& strides = context.inputs[0].strides;
    const int axis = static_cast<int>(axis_);
    Placement p;
    int64_t at = 0;
    for (int i = 0; i < static_cast<int>(context.outputs.size()); ++i) {
      if (!context.has_output(i)) return {};
      if (context.outputs[i].shape.num_elements() > 0) p.views.push_back({i, 0, at * strides[axis], strides});
      at += context.outputs[i].shape[axis];
    }
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const TensorSpec& in = context.inputs[0];
    const auto bytes = static_cast<int64_t>(DTypeBytes(in.dtype));
    std::vector<CopiesStep::Part> parts;
    int64_t at = 0;
    for (size_t i = 0; i < context.outputs.size(); ++i) {
      const TensorSpec& out = context.outputs[i];
      if (!out.present()) return Unsupported("an omitted output of Split");
      if (out.shape.num_elements() > 0) {
        parts.push_back({StridedCopy::Prepare(out.shape, in.strides, out.strides, static_cast<size_t>(bytes)), 0,
                         static_cast<int>(i), at * in.strides[static_cast<int>(axis_)] * bytes, 0});
      }
      at += out.shape[static_cast<int>(axis_)];
    }
    return MakeCopies(std::move(parts), true);
  }
  KernelDescription Describe() const override { return CopyDescription("parts of the input"); }
  uint64_t strided_inputs() const override { return 1; }
  uint64_t strided_outputs() const override { return ~uint64_t{0}; }
  uint64_t plan_time_inputs() const override { return ~uint64_t{1}; }

 private:
  int64_t axis_;
};

class ExpandKernel final : public CpuKernel {
 public:
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const TensorSpec &in = context.inputs[0], &out = context.outputs[0];
    return MakeCopies({{StridedCopy::Prepare(out.shape, BroadcastStrides(in.shape, in.strides, out.shape), out.strides,
                                             DTypeBytes(in.dtype)),
                        0, 0, 0, 0}});
  }
  KernelDescription Describe() const override { return CopyDescription("the input repeated"); }
  uint64_t strided_inputs() const override { return 1; }
  uint64_t strided_outputs() const override { return 1; }
  uint64_t plan_time_inputs() const override { return ~uint64_t{1}; }
};

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  if constexpr (std::is_constructible_v<Kernel, const Node&>) {
    return std::unique_ptr<CpuKernel>(new Kernel(node));
  } else {
    return std::unique_ptr<CpuKernel>(new Kernel());
  }
}

std::string RejectTranspose(const Node& node, const CpuConfig& config) {
  const Result<std::vector<int64_t>> perm = ReadPermutation(node, node.input(0)->type().rank());
  return perm.ok() ? RejectType(node, config) : perm.status().message();
}
Result<std::unique_ptr<CpuKernel>> CompileTranspose(const Node& node, const CompileContext& context) {
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, ReadPermutation(node, node.input(0)->type().rank()));
  return std::unique_ptr<CpuKernel>(new TransposeKernel(perm, *context.config));
}

std::string RejectSplit(const Node& node, const CpuConfig& config) {
  for (const GraphValue* v : node.outputs()) {
    if (!v) return "an omitted output";
  }
  return RejectType(node, config);
}

constexpr CpuOp kOps[] = {
    {"", "Transpose", RejectTranspose, CompileTranspose},
    {"", "Slice", RejectSlice, Compile<SliceKernel>, kAllButData},
    {"", "Concat", RejectType, Compile<ConcatKernel>},
    {"", "Split", RejectSplit, Compile<SplitKernel>, kAllButData},
    {"", "Expand", RejectType, Compile<ExpandKernel>, kAllButData},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsMovement = kOps;

}  // namespace quern::cpu
