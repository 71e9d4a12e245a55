// Operators whose outputs' sizes only a run tells: by their data, or by operands that come with the run. A plan of the
// CPU provider knows all shapes, so these are taken by a provider of their own (sized_provider.h), which allocates
// outputs while it runs.
#pragma once

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "parallel/cancel.h"
#include "parallel/executor.h"
#include "tensor/tensor.h"
#include "ukernel/vector.h"

namespace quern::cpu {

// The inputs of a run, contiguous; an omitted one is not defined.
class SizedInputs {
 public:
  explicit SizedInputs(std::span<const Tensor* const> tensors) : tensors_(tensors) {}
  size_t size() const { return tensors_.size(); }
  const Tensor& operator[](size_t i) const { return *tensors_[i]; }

 private:
  std::span<const Tensor* const> tensors_;
};

// One run of a node.
class SizedRun {
 public:
  SizedRun(const Node& node, std::span<const Tensor* const> inputs, const ukernel::VectorKernel* row,
           Executor* executor, const CancelToken* cancel)
      : node(node), inputs(inputs), row(row), executor(executor), cancel(cancel) {}
  virtual ~SizedRun() = default;
  // Memory for output `index`, contiguous and uninitialised.
  virtual Result<Tensor> Allocate(int index, DType dtype, const Shape& shape) = 0;
  // Output `index` is memory that somebody owns (Tensor::owner).
  virtual void Give(int index, Tensor tensor) = 0;
  // Memory for the time of the run: that many numbers.
  virtual Result<Tensor> Scratch(DType dtype, int64_t count) = 0;
  Status Error(const std::string& message) const { return InvalidArgument(node.Describe() + ": " + message); }

  const Node& node;
  const SizedInputs inputs;
  const ukernel::VectorKernel* const row;  // of the CPU that the provider was made for
  Executor* const executor;
  const CancelToken* const cancel;
};

struct SizedOp {
  const char* op_type;                      // of ai.onnx
  std::string (*reject)(const Node& node);  // empty when the node is computed here, else the reason
  Status (*run)(SizedRun& run);             // errors name the node
};

// The integers of an input of at most one dimension, none where it is omitted; `own` holds them where they are not
// int64.
Result<std::span<const int64_t>> ReadList(const SizedRun& run, size_t input, std::vector<int64_t>& own);
// "type string" unless the elements of input 0 have a size.
std::string RejectUnsizedElements(const Node& node);

// f(i), or f(slot, i) with an executor's slot, for each of n items, in pieces of at least `grain`.
template <typename F>
Status ForEachItem(const SizedRun& run, int64_t n, int64_t grain, F f, int max_slots = 0) {
  const auto some = [&](int slot, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if constexpr (std::is_invocable_v<F, int, int64_t>) {
        f(slot, i);
      } else {
        f(i);
      }
    }
  };
  if (n <= grain) {
    some(0, 0, n);
    return OkStatus();
  }
  return run.executor->ParallelFor(n, grain, some, run.cancel, max_slots);
}

extern const SizedOp kSizedCompress;
extern const SizedOp kSizedExpand;
extern const SizedOp kSizedNonMaxSuppression;
extern const SizedOp kSizedNonZero;
extern const SizedOp kSizedReshape;
extern const SizedOp kSizedSlice;
extern const SizedOp kSizedTile;

}  // namespace quern::cpu
