// Copies between tensors of different strides, split over threads: transposes, slices, concatenations.
#pragma once

#include <memory>

#include "base/status.h"
#include "parallel/cancel.h"
#include "parallel/executor.h"
#include "provider/cpu/cpu_op.h"
#include "tensor/shape.h"
#include "ukernel/vector.h"

namespace quern::cpu {

// Element (i...) goes from from + sum i*from_strides to to + sum i*to_strides; strides in elements, of any sign.
struct StridedCopy {
  Shape shape, from_strides, to_strides;
  size_t element_bytes = 0;
  const ukernel::VectorKernel* row = nullptr;

  // Dimensions of extent 1 dropped, neighbours that walk as one merged, in the order of the destination's strides.
  // Prepare once; Run allocates nothing. `row`, when given, transposes planes.
  static StridedCopy Prepare(Shape shape, Shape from_strides, Shape to_strides, size_t element_bytes,
                             const ukernel::VectorKernel* row = nullptr);
  Status Run(const void* from, void* to, Executor& executor, const CancelToken* cancel) const;
};

// A step that copies contiguous input 0 to contiguous output 0, which has as many bytes.
Result<std::unique_ptr<CpuStep>> MakeDenseCopy(const TensorSpec& output);

// The bytes of contiguous input 0 to contiguous output 0, unless that is the same memory.
Status CopyUnlessInPlace(const StepContext& context, size_t bytes);

}  // namespace quern::cpu
