// What the operators of this folder share: steps made of a lambda, ranges split over threads, walks over broadcast
// operands.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "provider/cpu/cpu_op.h"
#include "tensor/shape.h"
#include "ukernel/affine.h"
#include "ukernel/elementwise.h"
#include "ukernel/vector.h"

namespace quern::cpu {

// Elements that make about 20 us of work on one core, the least that is worth a thread.
inline constexpr int64_t kCheapGrain = 32768;  // a few instructions for each
inline constexpr int64_t kCostlyGrain = 8192;  // exponentials, divisions, scalar code

// A step whose Run is f(context) -> Status.
template <typename F>
class FunctionStep final : public CpuStep {
 public:
  FunctionStep(F f, size_t scratch_bytes) : f_(std::move(f)), scratch_bytes_(scratch_bytes) {}
  Status Run(const StepContext& context) const override { return f_(context); }
  size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  F f_;
  size_t scratch_bytes_;
};
template <typename F>
Result<std::unique_ptr<CpuStep>> MakeStep(F f, size_t scratch_bytes = 0) {
  return std::unique_ptr<CpuStep>(new FunctionStep<F>(std::move(f), scratch_bytes));
}
inline Result<std::unique_ptr<CpuStep>> NothingToDo() {
  return MakeStep([](const StepContext&) { return OkStatus(); });
}

inline KernelDescription Described(std::string kernel, std::string why) {
  return {.kernel = std::move(kernel), .why = std::move(why), .rejected = {}, .layout = {}, .packed_bytes = 0};
}
inline KernelDescription Described(const ukernel::VectorKernel& row, std::string why) {
  return Described(ukernel::Name(row).text, std::move(why));
}

inline const ukernel::VectorKernel* VectorRowFor(const CpuConfig& config) {
  return ukernel::SelectVectorRow(config.cpu.facts());
}
inline KernelDescription Described(const ukernel::ElementwiseKernel& row, std::string why) {
  return Described(ukernel::Name(row).text, std::move(why));
}
inline const ukernel::ElementwiseKernel* ElementwiseRowFor(const CpuConfig& config) {
  return ukernel::SelectElementwiseRow(config.cpu.facts());
}

inline KernelDescription Described(const ukernel::AffineKernel& row, std::string why) {
  return Described(ukernel::Name(row).text, std::move(why));
}
inline const ukernel::AffineKernel* AffineRowFor(const CpuConfig& config) {
  return ukernel::SelectAffineRow(config.cpu.facts());
}

// "type f64" unless the value has one of the types; omitted values pass.
inline std::string RejectUnlessType(const GraphValue* v, TypeSet types) {
  if (!v || types.Has(v->type().dtype)) return {};
  return std::string("type ") + DTypeName(v->type().dtype);
}

// f(begin, end) over [0, n), in pieces of at least `grain`.
template <typename F>
Status ForRange(const StepContext& context, int64_t n, int64_t grain, F f) {
  if (n <= 0) return OkStatus();
  if (n <= grain) {
    f(int64_t{0}, n);
    return OkStatus();
  }
  auto body = [&](int, int64_t begin, int64_t end) { f(begin, end); };
  return context.executor->ParallelFor(n, grain, body, context.cancel);
}
// f(item) for each of `items` of `elements` elements each.
template <typename F>
Status ForItems(const StepContext& context, int64_t items, int64_t elements, int64_t grain, F f) {
  const int64_t per_task = std::max<int64_t>(1, grain / std::max<int64_t>(1, elements));
  return ForRange(context, items, per_task, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

// The distance, in elements, from one to the next of the places that dimensions [first, last] count through in order;
// nothing where that is not the same everywhere. A tensor of [N, spatial..., C] that is a part of the channels of
// another has it for all dimensions but the last.
inline std::optional<int64_t> EvenStride(const Shape& shape, const Shape& strides, int first, int last) {
  std::optional<int64_t> stride;
  int64_t count = 1;
  for (int d = last; d >= first; --d) {
    if (shape[d] == 1) continue;
    if (stride && strides[d] != *stride * count) return std::nullopt;
    if (!stride) stride = strides[d];
    count *= shape[d];
  }
  return stride.value_or(last < first ? 1 : strides[last]);
}
// Whether [.., C] lies as rows of neighbouring channels, a fixed distance apart, from dimension `first` on.
inline bool HasEvenRows(const Shape& shape, const Shape& strides, int first) {
  const int rank = shape.rank();
  return rank > 0 && (shape.back() == 1 || strides.back() == 1) && EvenStride(shape, strides, first, rank - 2);
}

// A walk over a contiguous output and up to N inputs that broadcast to it. Dimensions that all of them walk as one are
// merged; along the innermost one each contiguous input has a step of 0 or 1.
template <int N>
class BroadcastWalk {
 public:
  BroadcastWalk(const Shape& out, const std::array<Shape, N>& inputs) : total_(out.num_elements()) {
    std::array<Shape, N> strides;
    for (int i = 0; i < N; ++i) strides[i] = BroadcastStrides(inputs[i], inputs[i].ContiguousStrides(), out);
    Merge(out, strides);
  }
  // Each input moves by its strides (elements) with the dimensions of the output.
  static BroadcastWalk OfStrides(const Shape& out, const std::array<Shape, N>& strides) {
    BroadcastWalk walk(out.num_elements());
    walk.Merge(out, strides);
    return walk;
  }

  int64_t row_length() const { return extents_[rank_ - 1]; }
  int step(int input) const { return static_cast<int>(stride(input)); }
  int64_t stride(int input) const { return strides_[rank_ - 1][input]; }  // along the innermost dimension

  // f(output offset, offset of each input, count): a run of `count` neighbouring outputs. Calls may be concurrent.
  template <typename F>
  Status Run(const StepContext& context, int64_t grain, F f) const {
    return ForRange(context, total_, grain, [&](int64_t begin, int64_t end) { RunRange(begin, end, f); });
  }
  // The same for the outputs [begin, end), in order.
  template <typename F>
  void RunRange(int64_t begin, int64_t end, F&& f) const {
    if (begin >= end) return;
    const int inner = rank_ - 1;
    const int64_t length = extents_[inner];
    std::array<int64_t, kMaxRank> index{};
    std::array<int64_t, N> offset{};
    int64_t rest = begin / length, within = begin % length;
    for (int d = inner - 1; d >= 0; --d) {
      index[d] = rest % extents_[d];
      rest /= extents_[d];
      for (int i = 0; i < N; ++i) offset[i] += index[d] * strides_[d][i];
    }
    while (begin < end) {
      const int64_t count = std::min(length - within, end - begin);
      std::array<int64_t, N> at = offset;
      for (int i = 0; i < N; ++i) at[i] += within * strides_[inner][i];
      f(begin, at, count);
      begin += count;
      within = 0;
      for (int d = inner - 1; d >= 0; --d) {
        for (int i = 0; i < N; ++i) offset[i] += strides_[d][i];
        if (++index[d] < extents_[d]) break;
        for (int i = 0; i < N; ++i) offset[i] -= strides_[d][i] * extents_[d];
        index[d] = 0;
      }
    }
  }

 private:
  explicit BroadcastWalk(int64_t total) : total_(total) {}

  void Merge(const Shape& out, const std::array<Shape, N>& strides) {
    for (int d = 0; d < out.rank(); ++d) {
      if (out[d] == 1) continue;
      bool merges = rank_ > 0;
      for (int i = 0; merges && i < N; ++i) merges = strides_[rank_ - 1][i] == strides[i][d] * out[d];
      if (!merges) extents_[rank_++] = 1;
      extents_[rank_ - 1] *= out[d];
      for (int i = 0; i < N; ++i) strides_[rank_ - 1][i] = strides[i][d];
    }
    if (rank_ == 0) {
      extents_[0] = 1;
      strides_[0].fill(0);
      rank_ = 1;
    }
  }

  int64_t total_;
  int rank_ = 0;
  std::array<int64_t, kMaxRank> extents_{};
  std::array<std::array<int64_t, N>, kMaxRank> strides_{};
};

}  // namespace quern::cpu
