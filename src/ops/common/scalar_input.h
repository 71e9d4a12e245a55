// Inputs that hold one number: a scalar, or (as exporters write) a vector of one element.
#pragma once

#include <string>

#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/op.h"

namespace quern {

// The number in integer input i during inference: known, symbolic or a fresh unknown. An error when the input is known
// to hold more or less than one element. Requires HasInput(i).
inline Result<Dim> InferScalar(const InferContext& c, int i) {
  if (const std::optional<Dims> shape = c.input_shape(i)) {
    if (shape->size() > 1 || (shape->size() == 1 && shape->front().is_constant() && !shape->front().is_constant(1))) {
      return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) +
                     "; a scalar is needed");
    }
  }
  const std::optional<Dims> data = c.input_data(i);
  return data && data->size() == 1 ? data->front() : Dim::Unknown();
}

// The number in int32 or int64 input i.
inline Result<int64_t> ReadIntScalar(EvalContext& c, int i) {
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> values, ReadInts(c, i));
  if (values.size() == 1) return values[0];
  return c.Error("input '" + c.node().input(i)->name() + "' has " + std::to_string(values.size()) +
                 " elements; a scalar is needed");
}

// The number in float input i of any float type.
inline Result<double> ReadFloatScalar(EvalContext& c, int i) {
  const Tensor& t = c.input(i);
  if (t.num_elements() != 1) {
    return c.Error("input '" + c.node().input(i)->name() + "' has " + std::to_string(t.num_elements()) +
                   " elements; a scalar is needed");
  }
  double value = 0;
  QUERN_RETURN_IF_ERROR(DispatchFloat(t.dtype(), [&]<typename T>() {
                          value = static_cast<double>(static_cast<ComputeType<T>>(*t.data<T>()));
                          return OkStatus();
                        }).WithContext(c.node().Describe()));
  return value;
}

}  // namespace quern
