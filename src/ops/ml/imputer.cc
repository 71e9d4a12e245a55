// ai.onnx.ml.Imputer: elements that equal one value (or are NaN) replaced by another, which may differ by feature.
#include <cmath>
#include <limits>
#include <string>

#include "ops/common/infer_common.h"
#include "ops/common/ml_rows.h"

namespace quern {
namespace {

// T: the tensor's type; From: what the attributes hold for it.
template <typename T, typename From>
Status Impute(EvalContext& c, const char* list, From replaced) {
  const Tensor& x = c.input(0);
  const std::span<const From> imputed = ListAttribute<From>(c.node(), list);
  const int64_t features = x.rank() == 0 ? 1 : x.shape().back(), count = static_cast<int64_t>(imputed.size());
  if (count == 0) {
    return c.Error(std::string("attribute '") + list + "' is needed for element type " + DTypeName(x.dtype()));
  }
  if (count != 1 && count != features) {
    return c.Error(std::string(list) + " has " + std::to_string(count) + " values; 1 or " + std::to_string(features) +
                   ", one per feature, are needed");
  }
  for (const From v : imputed) {
    if constexpr (std::is_same_v<T, int32_t>) {
      if (v != static_cast<int32_t>(v)) return c.Error(std::to_string(v) + " does not fit element type i32");
    }
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, x.dtype(), x.shape()));
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const T v = x.data<T>()[i];
    bool missing;
    if constexpr (std::is_integral_v<T>) {
      missing = int64_t{v} == replaced;
    } else {
      missing = v == static_cast<T>(replaced) || (std::isnan(v) && std::isnan(replaced));
    }
    y.data<T>()[i] = missing ? static_cast<T>(imputed[static_cast<size_t>(count == 1 ? 0 : i % features)]) : v;
  }
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  const float replaced_float = c.node().GetFloat("replaced_value_float", 0.0f);
  const int64_t replaced_int = c.node().GetInt("replaced_value_int64", 0);
  switch (c.input(0).dtype()) {
    case DType::kF32:
      return Impute<float, float>(c, "imputed_value_floats", replaced_float);
    case DType::kF64:
      return Impute<double, float>(c, "imputed_value_floats", replaced_float);
    case DType::kI64:
      return Impute<int64_t, int64_t>(c, "imputed_value_int64s", replaced_int);
    default:
      return Impute<int32_t, int64_t>(c, "imputed_value_int64s", replaced_int);
  }
}

constexpr Param kOutputs[] = {{"Y", "T", kFeatureTypes}};
constexpr AttrSpec kAttributes[] = {{"imputed_value_floats", AttrType::kFloats},
                                    {"imputed_value_int64s", AttrType::kInts},
                                    {"replaced_value_float", AttrType::kFloat, false, "0"},
                                    {"replaced_value_int64", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kFeatureInputs, kOutputs, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlImputer = {"ai.onnx.ml", "Imputer", kVersions};

}  // namespace quern
