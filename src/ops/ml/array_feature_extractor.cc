// ai.onnx.ml.ArrayFeatureExtractor: elements of the last dimension by their indices; a vector counts as one row.
#include <string>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> data = c.input_shape(0), indices = c.input_shape(1);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (data) {
    if (data->empty()) return c.Error("input X is a scalar, it needs at least one dimension");
    Dims out(data->begin(), data->end() - 1);
    if (out.empty()) out.push_back(Dim(1));
    out.push_back(indices ? Product(*indices) : Dim::Unknown());
    type.shape = std::move(out);
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput data, ElementInput::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadInts(c, 1));
  const int64_t extent = data.shape().back(), rows = data.shape().num_elements(0, data.shape().rank() - 1);
  for (const int64_t index : indices) {
    if (index < 0 || index >= extent) {
      return c.Error("index " + std::to_string(index) + " is outside [0, " + std::to_string(extent - 1) + "]");
    }
  }
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, data.dtype(), outputs.shape(0)));
  if (out.num_elements() == 0) return out.Finish();
  QUERN_RETURN_IF_ERROR(DispatchElements(data.dtype(), [&]<typename T>() {
    T* y = out.data<T>();
    for (int64_t r = 0; r < rows; ++r) {
      for (const int64_t index : indices) *y++ = data.data<T>()[r * extent + index];
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF64, DType::kI64, DType::kI32, DType::kString};
constexpr Param kInputs[] = {{"X", "T", kTypes}, {"Y", "", kInt64Type}}, kOutputs[] = {{"Z", "T", kTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlArrayFeatureExtractor = {"ai.onnx.ml", "ArrayFeatureExtractor", kVersions};

}  // namespace quern
