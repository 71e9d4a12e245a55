// Evaluation that reuses an operator's own shape inference: one place checks the inputs and knows the output shapes.
#pragma once

#include <vector>

#include "ops/op.h"

namespace quern {

// Concrete shapes of a node's outputs, from its inference function run on the inputs at hand (their contents count as
// constants). Every check that `infer` makes is thereby made on the actual shapes before memory is touched.
class InferredOutputs {
 public:
  static Result<InferredOutputs> Make(EvalContext& context, Status (*infer)(InferContext&));

  DType dtype(int i) const { return dtypes_[i]; }
  const Shape& shape(int i) const { return shapes_[i]; }
  // Allocates output i with the inferred type; also for outputs that the node omits (private memory).
  Result<Tensor> Allocate(EvalContext& context, int i) const;

 private:
  std::vector<DType> dtypes_;
  std::vector<Shape> shapes_;
};

}  // namespace quern
