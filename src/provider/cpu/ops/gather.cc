// Gather, GatherElements and GatherND of any fixed-size type, by int32 or int64 indices that come with the run.
#include <cstring>

#include "provider/cpu/common/indices.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

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
    const bool wide = context.inputs[1].dtype == DType::kI64;
    return MakeStep([=](const StepContext& c) {
      const void* indices = c.inputs[1];
      QUERN_RETURN_IF_ERROR(CheckIndices(indices, wide, count, axis, extent));
      const char* from = static_cast<const char*>(c.inputs[0]);
      char* to = static_cast<char*>(c.outputs[0]);
      return ForItems(c, outer * count, bytes / 4, kCheapGrain, [&](int64_t item) {
        const int64_t i = Wrapped(IndexAt(indices, wide, item % count), extent);
        std::memcpy(to + item * bytes, from + (item / count * extent + i) * bytes, static_cast<size_t>(bytes));
      });
    });
  }
  KernelDescription Describe() const override { return Described("gather", "a copy for each index"); }
  uint64_t unaligned_inputs() const override { return 1; }

 private:
  int64_t axis_;
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
    const bool wide = context.inputs[1].dtype == DType::kI64;
    const size_t bytes = DTypeBytes(context.inputs[0].dtype);
    return MakeStep([=, strides = data.ContiguousStrides(), extent = data[axis]](const StepContext& c) {
      const int64_t n = shape.num_elements();
      QUERN_RETURN_IF_ERROR(CheckIndices(c.inputs[1], wide, n, axis, extent));
      return ForRange(c, n, kCostlyGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          int64_t rest = i, at = Wrapped(IndexAt(c.inputs[1], wide, i), extent) * strides[axis];
          for (int d = shape.rank() - 1; d >= 0; --d) {
            if (d != axis) at += rest % shape[d] * strides[d];
            rest /= shape[d];
          }
          std::memcpy(static_cast<char*>(c.outputs[0]) + i * static_cast<int64_t>(bytes),
                      static_cast<const char*>(c.inputs[0]) + at * static_cast<int64_t>(bytes), bytes);
        }
      });
    });
  }
  KernelDescription Describe() const override { return Described("gather", "one element for each index"); }
  uint64_t unaligned_inputs() const override { return 1; }

 private:
  int64_t axis_;
};

class GatherNdKernel final : public CpuKernel {
 public:
  explicit GatherNdKernel(const Node& node) : batch_(static_cast<int>(node.GetInt("batch_dims", 0))) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &data = context.inputs[0].shape, &index = context.inputs[1].shape;
    const int depth = static_cast<int>(index.back());
    const int64_t tuples = index.num_elements(batch_, index.rank() - 1);
    const int64_t batches = data.num_elements(0, batch_), batch_size = data.num_elements(batch_, data.rank());
    const auto bytes = static_cast<int64_t>(DTypeBytes(context.inputs[0].dtype));
    const int64_t slice = data.num_elements(batch_ + depth, data.rank()) * bytes;
    const bool wide = context.inputs[1].dtype == DType::kI64;
    return MakeStep([=, batch = batch_, strides = data.ContiguousStrides()](const StepContext& c) {
      for (int64_t i = 0; i < batches * tuples * depth; ++i) {
        const int d = batch + static_cast<int>(i % depth);
        QUERN_RETURN_IF_ERROR(CheckIndex(IndexAt(c.inputs[1], wide, i), i, d, data[d]));
      }
      return ForItems(c, batches * tuples, slice / 4, kCheapGrain, [&](int64_t item) {
        int64_t at = item / tuples * batch_size;
        for (int d = 0; d < depth; ++d) {
          at += Wrapped(IndexAt(c.inputs[1], wide, item * depth + d), data[batch + d]) * strides[batch + d];
        }
        std::memcpy(static_cast<char*>(c.outputs[0]) + item * slice, static_cast<const char*>(c.inputs[0]) + at * bytes,
                    static_cast<size_t>(slice));
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

constexpr CpuOp kOps[] = {
    {"", "Gather", Reject, Compile<GatherKernel>},
    {"", "GatherElements", Reject, Compile<GatherElementsKernel>},
    {"", "GatherND", Reject, Compile<GatherNdKernel>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsGather = kOps;

}  // namespace quern::cpu
