// Gather, GatherElements and GatherND of any fixed-size type, by int32 or int64 indices that come with the run.
#include <cstring>

#include "provider/cpu/common/copy.h"
#include "provider/cpu/common/indices.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// f.operator()<bytes>() for blocks of as many bytes as an element may have; 0 for all others.
template <typename F>
auto ByBytes(int64_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 4:
      return f.template operator()<4>();
    case 8:
      return f.template operator()<8>();
    case 16:
      return f.template operator()<16>();
    default:
      return f.template operator()<0>();
  }
}

// Blocks of `bytes` instead of elements: n neighbouring ones, from where the indices of a line tell.
using GatherLine = void (*)(void* to, const void* from, const void* indices, int64_t n, int64_t bytes,
                            const IndexLine& line);

template <typename Index, size_t kBytes>
void GatherAlong(void* to, const void* from, const void* indices, int64_t n, int64_t bytes, const IndexLine& line) {
  const int64_t size = kBytes ? static_cast<int64_t>(kBytes) : bytes;
  const int64_t extent = line.extent, stride = line.axis_stride * size, step = line.step * size;
  const auto* index = static_cast<const Index*>(indices);
  const char* x = static_cast<const char*>(from);
  char* y = static_cast<char*>(to);
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(y + i * size, x + Wrapped(index[i], extent) * stride + i * step, static_cast<size_t>(size));
  }
}
GatherLine LineFor(bool wide, int64_t bytes) {
  return ByBytes(bytes, [wide]<size_t kBytes>() -> GatherLine {
    return wide ? GatherAlong<int64_t, kBytes> : GatherAlong<int32_t, kBytes>;
  });
}

// f(begin, count, line, first): the items [begin, begin + count), which are those of a line of `length` from `first`
// on.
template <typename F>
Status ForLines(const StepContext& context, int64_t lines, int64_t length, int64_t item_bytes, F f) {
  const int64_t grain = std::max<int64_t>(1, kCheapGrain / std::max<int64_t>(1, item_bytes / 4));
  return ForRange(context, lines * length, grain, [&](int64_t begin, int64_t end) {
    int64_t line = begin / length, first = begin % length;
    while (begin < end) {
      const int64_t count = std::min(length - first, end - begin);
      f(begin, count, line++, first);
      begin += count;
      first = 0;
    }
  });
}

class GatherKernel final : public CpuKernel {
 public:
  explicit GatherKernel(const Node& node) : axis_(node.GetInt("axis", 0)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& data = context.inputs[0].shape;
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + data.rank() : axis_);
    const int64_t outer = data.num_elements(0, axis), extent = data[axis];
    const int64_t bytes =
        data.num_elements(axis + 1, data.rank()) * static_cast<int64_t>(DTypeBytes(context.inputs[0].dtype));
    const int64_t count = context.inputs[1].shape.num_elements();
    const bool wide = context.inputs[1].dtype == DType::kI64, within = KnownWithin(context.inputs[1], extent);
    const GatherLine gather = LineFor(wide, bytes);
    const IndexLine blocks{.extent = extent, .axis_stride = 1, .step = 0};
    return MakeStep([=](const StepContext& c) {
      if (!within) QUERN_RETURN_IF_ERROR(CheckIndices(c.inputs[1], wide, count, axis, extent));
      return ForLines(c, outer, count, bytes, [&](int64_t begin, int64_t n, int64_t line, int64_t first) {
        gather(static_cast<char*>(c.outputs[0]) + begin * bytes,
               static_cast<const char*>(c.inputs[0]) + line * extent * bytes,
               static_cast<const char*>(c.inputs[1]) + first * (wide ? 8 : 4), n, bytes, blocks);
      });
    });
  }
  KernelDescription Describe() const override { return Described("gather", "a copy for each index"); }
  uint64_t unaligned_inputs() const override { return 1; }

 private:
  int64_t axis_;
};

// By one index that is a constant: a part of the data, as of a Slice.
class SelectKernel final : public CpuKernel {
 public:
  explicit SelectKernel(const Node& node) : axis_(node.GetInt("axis", 0)) {
    const Tensor& index = node.input(1)->constant()->tensor();
    index_ = IndexAt(index.raw_data(), index.dtype() == DType::kI64, 0);
  }
  Placement Place(const BindContext& context) const override {
    if (!Check(context).ok() || context.outputs[0].shape.num_elements() == 0) return {};
    Placement p;
    p.views = {{.output = 0, .input = 0, .offset = OffsetIn(context), .strides = StridesIn(context)}};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    if (Status outside = Check(context); !outside.ok()) {
      return MakeStep([outside](const StepContext&) { return outside; });
    }
    const TensorSpec& out = context.outputs[0];
    const size_t bytes = DTypeBytes(out.dtype);
    const StridedCopy copy = StridedCopy::Prepare(out.shape, StridesIn(context), out.strides, bytes);
    return MakeStep([copy, offset = OffsetIn(context) * static_cast<int64_t>(bytes)](const StepContext& c) {
      return copy.Run(static_cast<const char*>(c.inputs[0]) + offset, c.outputs[0], *c.executor, c.cancel);
    });
  }
  KernelDescription Describe() const override { return Described("strided copy", "a part of the input"); }
  uint64_t strided_inputs() const override { return 1; }
  uint64_t strided_outputs() const override { return 1; }

 private:
  int AxisIn(const BindContext& context) const {
    return static_cast<int>(axis_ < 0 ? axis_ + context.inputs[0].shape.rank() : axis_);
  }
  Status Check(const BindContext& context) const {
    const int axis = AxisIn(context);
    return CheckIndex(index_, 0, axis, context.inputs[0].shape[axis]);
  }
  // Elements from the data's first to the part's first; the index is within the data.
  int64_t OffsetIn(const BindContext& context) const {
    const TensorSpec& data = context.inputs[0];
    const int axis = AxisIn(context);
    return Wrapped(index_, data.shape[axis]) * data.strides[axis];
  }
  // The data's, with dimensions of extent 1, as many as the index has, in the place of the axis.
  Shape StridesIn(const BindContext& context) const {
    const Shape& data = context.inputs[0].strides;
    const int axis = AxisIn(context);
    Shape strides;
    for (int d = 0; d < axis; ++d) strides.push_back(data[d]);
    for (int i = 0; i < context.inputs[1].shape.rank(); ++i) strides.push_back(data[axis]);
    for (int d = axis + 1; d < data.rank(); ++d) strides.push_back(data[d]);
    return strides;
  }

  int64_t axis_, index_;
};

class GatherElementsKernel final : public CpuKernel {
 public:
  explicit GatherElementsKernel(const Node& node) : axis_(node.GetInt("axis", 0)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &data = context.inputs[0].shape, &shape = context.inputs[1].shape;
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + data.rank() : axis_);
    for (int d = 0; d < data.rank(); ++d) {
      if (d != axis && shape[d] > data[d]) {
        return InvalidArgument("indices of shape " + shape.ToString() + " exceed data of shape " + data.ToString());
      }
    }
    const int64_t n = shape.num_elements(), extent = data[axis];
    const auto bytes = static_cast<int64_t>(DTypeBytes(context.inputs[0].dtype));
    const bool wide = context.inputs[1].dtype == DType::kI64, within = KnownWithin(context.inputs[1], extent);
    const GatherLine gather = LineFor(wide, bytes);
    Shape strides = data.ContiguousStrides();
    const int64_t axis_stride = strides[axis];
    strides[axis] = 0;  // an index tells the place
    const auto walk = BroadcastWalk<1>::OfStrides(shape, {strides});
    const IndexLine line{.extent = extent, .axis_stride = axis_stride, .step = walk.stride(0)};
    return MakeStep([=](const StepContext& c) {
      if (!within) QUERN_RETURN_IF_ERROR(CheckIndices(c.inputs[1], wide, n, axis, extent));
      return walk.Run(c, kCostlyGrain, [&](int64_t begin, const std::array<int64_t, 1>& at, int64_t count) {
        gather(static_cast<char*>(c.outputs[0]) + begin * bytes, static_cast<const char*>(c.inputs[0]) + at[0] * bytes,
               static_cast<const char*>(c.inputs[1]) + begin * (wide ? 8 : 4), count, bytes, line);
      });
    });
  }
  KernelDescription Describe() const override { return Described("gather", "one element for each index"); }
  uint64_t unaligned_inputs() const override { return 1; }

 private:
  int64_t axis_;
};

// Slices of `slice` bytes for n tuples, from data of elements of `bytes`.
using GatherSlices = void (*)(void* to, const void* from, const void* indices, int64_t n, int64_t bytes, int64_t slice,
                              const IndexTuples& tuples);

template <typename Index, size_t kSlice>
void GatherByTuples(void* to, const void* from, const void* indices, int64_t n, int64_t bytes, int64_t slice,
                    const IndexTuples& tuples) {
  const int64_t size = kSlice ? static_cast<int64_t>(kSlice) : slice;
  const auto* tuple = static_cast<const Index*>(indices);
  for (int64_t i = 0; i < n; ++i, tuple += tuples.depth) {
    std::memcpy(static_cast<char*>(to) + i * size, static_cast<const char*>(from) + tuples.Offset(tuple) * bytes,
                static_cast<size_t>(size));
  }
}

class GatherNdKernel final : public CpuKernel {
 public:
  explicit GatherNdKernel(const Node& node) : batch_(static_cast<int>(node.GetInt("batch_dims", 0))) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &data = context.inputs[0].shape, &index = context.inputs[1].shape;
    const int depth = static_cast<int>(index.back());
    const int64_t count = index.num_elements(batch_, index.rank() - 1);
    const int64_t batches = data.num_elements(0, batch_);
    const auto bytes = static_cast<int64_t>(DTypeBytes(context.inputs[0].dtype));
    const int64_t batch_bytes = data.num_elements(batch_, data.rank()) * bytes;
    const int64_t slice = data.num_elements(batch_ + depth, data.rank()) * bytes;
    const bool wide = context.inputs[1].dtype == DType::kI64;
    const IndexTuples tuples(data, batch_, depth);
    const Tensor* constant = context.inputs[1].constant;
    const bool within = constant && tuples.AllWithin(constant->raw_data(), wide, batches * count);
    const GatherSlices gather = ByBytes(slice, [wide]<size_t kSlice>() -> GatherSlices {
      return wide ? GatherByTuples<int64_t, kSlice> : GatherByTuples<int32_t, kSlice>;
    });
    return MakeStep([=](const StepContext& c) {
      if (!within) QUERN_RETURN_IF_ERROR(tuples.Check(c.inputs[1], wide, batches * count));
      return ForLines(c, batches, count, slice, [&](int64_t begin, int64_t n, int64_t batch, int64_t) {
        gather(static_cast<char*>(c.outputs[0]) + begin * slice,
               static_cast<const char*>(c.inputs[0]) + batch * batch_bytes,
               static_cast<const char*>(c.inputs[1]) + begin * depth * (wide ? 8 : 4), n, bytes, slice, tuples);
      });
    });
  }
  KernelDescription Describe() const override { return Described("gather", "a copy for each tuple of indices"); }
  uint64_t unaligned_inputs() const override { return 1; }

 private:
  int batch_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  const DType t = node.input(0)->type().dtype;
  if (DTypeBytes(t) == 0) return std::string("type ") + DTypeName(t);
  return RejectUnlessType(node.input(1), {DType::kI64, DType::kI32});
}

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new Kernel(node));
}

Result<std::unique_ptr<CpuKernel>> CompileGather(const Node& node, const CompileContext& context) {
  const Value* index = node.input(1)->constant();
  const bool one = index && index->is_tensor() && index->tensor().num_elements() == 1 && !node.input(0)->is_constant();
  return one ? Compile<SelectKernel>(node, context) : Compile<GatherKernel>(node, context);
}

constexpr CpuOp kOps[] = {
    {"", "Gather", Reject, CompileGather},
    {"", "GatherElements", Reject, Compile<GatherElementsKernel>},
    {"", "GatherND", Reject, Compile<GatherNdKernel>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsGather = kOps;

}  // namespace quern::cpu
