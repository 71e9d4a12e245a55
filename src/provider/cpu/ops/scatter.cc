// ScatterElements, Scatter and ScatterND, by int32 or int64 indices that come with the run. Updates go in order, so
// that of several for one element the last one counts, as in the specification.
#include <cstring>

#include "ops/common/scatter.h"
#include "provider/cpu/common/copy.h"
#include "provider/cpu/common/indices.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using ReducedTypes = Types<float, int32_t, int64_t>;

// Combines `n` neighbouring elements with their updates.
using Combine = void (*)(void* to, const void* updates, int64_t n);

template <typename T, quern::Reduction kReduction>
void CombineRun(void* to, const void* updates, int64_t n) {
  T* y = static_cast<T*>(to);
  const T* u = static_cast<const T*>(updates);
  for (int64_t i = 0; i < n; ++i) y[i] = quern::Reduce(kReduction, y[i], u[i]);
}

// Null where an update replaces what is there.
Result<Combine> CombineFor(quern::Reduction reduction, DType dtype) {
  Combine f = nullptr;
  if (reduction == quern::Reduction::kNone) return f;
  QUERN_RETURN_IF_ERROR(DispatchType(ReducedTypes{}, dtype, [&]<typename T>() {
    switch (reduction) {
      case quern::Reduction::kAdd:
        f = CombineRun<T, quern::Reduction::kAdd>;
        break;
      case quern::Reduction::kMul:
        f = CombineRun<T, quern::Reduction::kMul>;
        break;
      case quern::Reduction::kMax:
        f = CombineRun<T, quern::Reduction::kMax>;
        break;
      default:
        f = CombineRun<T, quern::Reduction::kMin>;
        break;
    }
    return OkStatus();
  }));
  return f;
}

using ScatterLine = void (*)(void* to, const void* indices, const void* updates, int64_t n, const IndexLine& line);

template <typename T, typename Index, quern::Reduction kReduction>
void ScatterAlong(void* to, const void* indices, const void* updates, int64_t n, const IndexLine& line) {
  const int64_t extent = line.extent, axis_stride = line.axis_stride, step = line.step;
  T* y = static_cast<T*>(to);
  const auto* index = static_cast<const Index*>(indices);
  const T* u = static_cast<const T*>(updates);
  for (int64_t i = 0; i < n; ++i) {
    T& at = y[Wrapped(index[i], extent) * axis_stride + i * step];
    if constexpr (kReduction == quern::Reduction::kNone) {
      at = u[i];
    } else {
      at = quern::Reduce(kReduction, at, u[i]);
    }
  }
}

template <typename Index>
Result<ScatterLine> LineFor(quern::Reduction reduction, DType dtype) {
  using quern::Reduction;
  struct Sixteen {
    uint64_t parts[2];
  };
  ScatterLine f = nullptr;
  if (reduction == Reduction::kNone) {
    switch (DTypeBytes(dtype)) {
      case 1:
        f = ScatterAlong<uint8_t, Index, Reduction::kNone>;
        break;
      case 2:
        f = ScatterAlong<uint16_t, Index, Reduction::kNone>;
        break;
      case 4:
        f = ScatterAlong<uint32_t, Index, Reduction::kNone>;
        break;
      case 8:
        f = ScatterAlong<uint64_t, Index, Reduction::kNone>;
        break;
      default:
        f = ScatterAlong<Sixteen, Index, Reduction::kNone>;
        break;
    }
    return f;
  }
  QUERN_RETURN_IF_ERROR(DispatchType(ReducedTypes{}, dtype, [&]<typename T>() {
    f = reduction == Reduction::kAdd   ? ScatterAlong<T, Index, Reduction::kAdd>
        : reduction == Reduction::kMul ? ScatterAlong<T, Index, Reduction::kMul>
        : reduction == Reduction::kMax ? ScatterAlong<T, Index, Reduction::kMax>
                                       : ScatterAlong<T, Index, Reduction::kMin>;
    return OkStatus();
  }));
  return f;
}

class ScatterKernel : public CpuKernel {
 public:
  Placement Place(const BindContext&) const override { return {.views = {}, .parts = {}, .in_place_inputs = {0}}; }
};

class ScatterElementsKernel final : public ScatterKernel {
 public:
  explicit ScatterElementsKernel(const Node& node)
      : axis_(node.GetInt("axis", 0)), reduction_(quern::ReadReduction(node).value()) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &data = context.inputs[0].shape, &shape = context.inputs[1].shape;
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + data.rank() : axis_);
    if (shape.rank() != data.rank() || axis < 0 || axis >= data.rank() || !(shape == context.inputs[2].shape)) {
      return InvalidArgument("indices " + shape.ToString() + " and updates " + context.inputs[2].shape.ToString() +
                             " must have one shape, of the rank of data " + data.ToString());
    }
    for (int d = 0; d < data.rank(); ++d) {
      if (d != axis && shape[d] > data[d]) {
        return InvalidArgument("indices of shape " + shape.ToString() + " exceed data of shape " + data.ToString());
      }
    }
    const bool wide = context.inputs[1].dtype == DType::kI64;
    const size_t bytes = DTypeBytes(context.inputs[0].dtype);
    const size_t total = static_cast<size_t>(data.num_elements()) * bytes;
    const DType dtype = context.inputs[0].dtype;
    QUERN_ASSIGN_OR_RETURN(const ScatterLine scatter,
                           wide ? LineFor<int64_t>(reduction_, dtype) : LineFor<int32_t>(reduction_, dtype));
    Shape strides = data.ContiguousStrides();
    const int64_t axis_stride = strides[axis], extent = data[axis], n = shape.num_elements();
    strides[axis] = 0;  // an index tells the place
    const auto walk = BroadcastWalk<1>::OfStrides(shape, {strides});
    const IndexLine line{.extent = extent, .axis_stride = axis_stride, .step = walk.stride(0)};
    const bool within = KnownWithin(context.inputs[1], extent);
    return MakeStep([=](const StepContext& c) {
      if (!within) QUERN_RETURN_IF_ERROR(CheckIndices(c.inputs[1], wide, n, axis, extent));
      QUERN_RETURN_IF_ERROR(CopyUnlessInPlace(c, total));
      walk.RunRange(0, n, [&](int64_t begin, const std::array<int64_t, 1>& at, int64_t count) {
        scatter(static_cast<char*>(c.outputs[0]) + at[0] * static_cast<int64_t>(bytes),
                static_cast<const char*>(c.inputs[1]) + begin * (wide ? 8 : 4),
                static_cast<const char*>(c.inputs[2]) + begin * static_cast<int64_t>(bytes), count, line);
      });
      return OkStatus();
    });
  }
  KernelDescription Describe() const override { return Described("scatter", "one element for each index"); }

 private:
  int64_t axis_;
  quern::Reduction reduction_;
};

class ScatterNdKernel final : public ScatterKernel {
 public:
  explicit ScatterNdKernel(const Node& node) : reduction_(quern::ReadReduction(node).value()) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &data = context.inputs[0].shape, &index = context.inputs[1].shape;
    if (index.rank() == 0 || index.back() < 0 || index.back() > data.rank()) {
      return InvalidArgument("indices of shape " + index.ToString() + " do not address data of shape " +
                             data.ToString());
    }
    const int depth = static_cast<int>(index.back());
    const int64_t count = index.num_elements(0, index.rank() - 1);
    const int64_t slice = data.num_elements(depth, data.rank());
    if (context.inputs[2].shape.num_elements() != count * slice) {
      return InvalidArgument("updates of shape " + context.inputs[2].shape.ToString() +
                             " do not fit indices of shape " + index.ToString() + " into data of shape " +
                             data.ToString());
    }
    const size_t bytes = DTypeBytes(context.inputs[0].dtype);
    const size_t total = static_cast<size_t>(data.num_elements()) * bytes;
    QUERN_ASSIGN_OR_RETURN(const Combine combine, CombineFor(reduction_, context.inputs[0].dtype));
    const IndexTuples tuples(data, 0, depth);
    const Tensor* constant = context.inputs[1].constant;
    const bool within = constant && tuples.AllWithin<int64_t>(constant->raw_data(), count);
    return MakeStep([=](const StepContext& c) {
      if (!within) QUERN_RETURN_IF_ERROR(tuples.Check(c.inputs[1], true, count));
      QUERN_RETURN_IF_ERROR(CopyUnlessInPlace(c, total));
      const auto slice_bytes = slice * static_cast<int64_t>(bytes);
      const auto* tuple = static_cast<const int64_t*>(c.inputs[1]);
      for (int64_t t = 0; t < count; ++t, tuple += depth) {
        const int64_t at = tuples.Offset(tuple);
        char* to = static_cast<char*>(c.outputs[0]) + at * static_cast<int64_t>(bytes);
        const char* from = static_cast<const char*>(c.inputs[2]) + t * slice_bytes;
        if (combine) {
          combine(to, from, slice);
        } else if (slice_bytes > 0) {
          std::memcpy(to, from, static_cast<size_t>(slice_bytes));
        }
      }
      return OkStatus();
    });
  }
  KernelDescription Describe() const override { return Described("scatter", "a slice for each tuple of indices"); }

 private:
  quern::Reduction reduction_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  const DType t = node.input(0)->type().dtype;
  if (DTypeBytes(t) == 0) return std::string("type ") + DTypeName(t);
  const Result<quern::Reduction> reduction = quern::ReadReduction(node);
  if (!reduction.ok()) return reduction.status().message();
  if (*reduction != quern::Reduction::kNone && t != DType::kF32 && t != DType::kI32 && t != DType::kI64) {
    return std::string("a reduction of type ") + DTypeName(t);
  }
  return RejectUnlessType(node.input(1), {DType::kI64, DType::kI32});
}

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new Kernel(node));
}

constexpr CpuOp kOps[] = {
    {"", "Scatter", Reject, Compile<ScatterElementsKernel>},
    {"", "ScatterElements", Reject, Compile<ScatterElementsKernel>},
    {"", "ScatterND", Reject, Compile<ScatterNdKernel>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsScatter = kOps;

}  // namespace quern::cpu
