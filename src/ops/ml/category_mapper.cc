// ai.onnx.ml.CategoryMapper: strings to integers or integers to strings, by two lists of the same length.
#include <string>

#include "ops/common/lookup.h"
#include "ops/common/ml_rows.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const DType from = c.input_dtype(0);
  const DType to = from == DType::kUndefined ? from : from == DType::kString ? DType::kI64 : DType::kString;
  c.SetOutputType(0, ValueType::Tensor(to, c.input_shape(0)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  const Node& node = c.node();
  const Value ints = ListValue(ListAttribute<int64_t>(node, "cats_int64s"));
  const Value strings = ListValue(ListAttribute<std::string>(node, "cats_strings"));
  if (c.input_value(0).kind() == ValueKind::kStringTensor) {
    return EvaluateLookup(c, {strings, ints, Tensor::Scalar<int64_t>(node.GetInt("default_int64", -1))});
  }
  return EvaluateLookup(c, {ints, strings, StringTensor{Shape{}, {node.GetString("default_string", "_Unused")}}});
}

constexpr Param kInputs[] = {{"X", "T1", kLabelTypes}}, kOutputs[] = {{"Y", "T2", kLabelTypes}};
constexpr AttrSpec kAttributes[] = {{"cats_int64s", AttrType::kInts},
                                    {"cats_strings", AttrType::kStrings},
                                    {"default_int64", AttrType::kInt, false, "-1"},
                                    {"default_string", AttrType::kString, false, "_Unused"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlCategoryMapper = {"ai.onnx.ml", "CategoryMapper", kVersions};

}  // namespace quern
