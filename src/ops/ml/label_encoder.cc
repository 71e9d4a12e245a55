// ai.onnx.ml.LabelEncoder: each element replaced by the value that stands beside it in a list of keys.
#include <numeric>
#include <string>

#include "ops/common/elements.h"
#include "ops/common/lookup.h"
#include "ops/common/ml_rows.h"

namespace quern {
namespace {

// Version 1: strings to their places in a list, or places to strings.
Status Infer1(InferContext& c) {
  const DType from = c.input_dtype(0);
  const DType to = from == DType::kUndefined ? from : from == DType::kString ? DType::kI64 : DType::kString;
  c.SetOutputType(0, ValueType::Tensor(to, c.input_shape(0)));
  return OkStatus();
}

Status Evaluate1(EvalContext& c) {
  const Node& node = c.node();
  const std::span<const std::string> classes = ListAttribute<std::string>(node, "classes_strings");
  std::vector<int64_t> numbers(classes.size());
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  if (c.input_value(0).kind() == ValueKind::kStringTensor) {
    return EvaluateLookup(
        c, {ListValue(classes), ListValue(numbers), Tensor::Scalar<int64_t>(node.GetInt("default_int64", -1))});
  }
  return EvaluateLookup(c, {ListValue(numbers), ListValue(classes),
                            StringTensor{Shape{}, {node.GetString("default_string", "_Unused")}}});
}

// The one list "<prefix>_int64s", "<prefix>_floats", "<prefix>_strings" or "<prefix>_tensor" that is given.
Result<Value> ReadList(const Node& node, const std::string& prefix) {
  Value list;
  int given = 0;
  const auto take = [&](auto values) {
    if (values.empty()) return;
    list = ListValue(values);
    ++given;
  };
  take(ListAttribute<int64_t>(node, prefix + "_int64s"));
  take(ListAttribute<float>(node, prefix + "_floats"));
  take(ListAttribute<std::string>(node, prefix + "_strings"));
  if (const Value* tensor = node.FindAttribute<Value>(prefix + "_tensor")) {
    list = *tensor;
    ++given;
  }
  if (given != 1) {
    return InvalidArgument(node.Describe() + ": " + std::to_string(given) + " of the attributes " + prefix +
                           "_* are given, one is needed");
  }
  return list;
}

Result<Value> DefaultFor(const Node& node, DType type) {
  if (const Value* tensor = node.FindAttribute<Value>("default_tensor")) return *tensor;
  switch (type) {
    case DType::kString:
      return Value(StringTensor{Shape{}, {node.GetString("default_string", "_Unused")}});
    case DType::kI64:
      return Value(Tensor::Scalar<int64_t>(node.GetInt("default_int64", -1)));
    case DType::kF32:
      return Value(Tensor::Scalar<float>(node.GetFloat("default_float", -0.0f)));
    case DType::kI32:
      return Value(Tensor::Scalar<int32_t>(-1));
    case DType::kI16:
      return Value(Tensor::Scalar<int16_t>(-1));
    case DType::kF64:
      return Value(Tensor::Scalar<double>(-0.0));
    default:
      return InvalidArgument(node.Describe() + ": values of element type " + DTypeName(type) + " are not admitted");
  }
}

Status Infer2(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Value values, ReadList(c.node(), "values"));
  c.SetOutputType(0, ValueType::Tensor(ElementTypeOf(values), c.input_shape(0)));
  return OkStatus();
}

Status Evaluate2(EvalContext& c) {
  Lookup lookup;
  QUERN_ASSIGN_OR_RETURN(lookup.keys, ReadList(c.node(), "keys"));
  QUERN_ASSIGN_OR_RETURN(lookup.values, ReadList(c.node(), "values"));
  QUERN_ASSIGN_OR_RETURN(lookup.otherwise, DefaultFor(c.node(), ElementTypeOf(lookup.values)));
  lookup.first_counts = c.node().opset() < 4;  // as onnxruntime does; from version 4 on the last one is specified
  return EvaluateLookup(c, lookup);
}

constexpr TypeSet kTypes2 = kLabelTypes | TypeSet{DType::kF32};
constexpr TypeSet kTypes4 = kTypes2 | TypeSet{DType::kI32, DType::kI16, DType::kF64};
constexpr Param kInputs1[] = {{"X", "T1", kLabelTypes}}, kOutputs1[] = {{"Y", "T2", kLabelTypes}};
constexpr Param kInputs2[] = {{"X", "T1", kTypes2}}, kOutputs2[] = {{"Y", "T2", kTypes2}};
constexpr Param kInputs4[] = {{"X", "T1", kTypes4}}, kOutputs4[] = {{"Y", "T2", kTypes4}};
constexpr AttrSpec kAttributes1[] = {{"classes_strings", AttrType::kStrings},
                                     {"default_int64", AttrType::kInt, false, "-1"},
                                     {"default_string", AttrType::kString, false, "_Unused"}};
constexpr AttrSpec kAttributes2[] = {{"default_float", AttrType::kFloat, false, "-0"},
                                     {"default_int64", AttrType::kInt, false, "-1"},
                                     {"default_string", AttrType::kString, false, "_Unused"},
                                     {"keys_floats", AttrType::kFloats},
                                     {"keys_int64s", AttrType::kInts},
                                     {"keys_strings", AttrType::kStrings},
                                     {"values_floats", AttrType::kFloats},
                                     {"values_int64s", AttrType::kInts},
                                     {"values_strings", AttrType::kStrings}};
constexpr AttrSpec kAttributes4[] = {{"default_float", AttrType::kFloat, false, "-0"},
                                     {"default_int64", AttrType::kInt, false, "-1"},
                                     {"default_string", AttrType::kString, false, "_Unused"},
                                     {"default_tensor", AttrType::kTensor},
                                     {"keys_floats", AttrType::kFloats},
                                     {"keys_int64s", AttrType::kInts},
                                     {"keys_strings", AttrType::kStrings},
                                     {"keys_tensor", AttrType::kTensor},
                                     {"values_floats", AttrType::kFloats},
                                     {"values_int64s", AttrType::kInts},
                                     {"values_strings", AttrType::kStrings},
                                     {"values_tensor", AttrType::kTensor}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, Infer1, Evaluate1},
                                   {2, kInputs2, kOutputs2, kAttributes2, Infer2, Evaluate2},
                                   {4, kInputs4, kOutputs4, kAttributes4, Infer2, Evaluate2}};

}  // namespace

extern constinit const OpDefinition kOpMlLabelEncoder = {"ai.onnx.ml", "LabelEncoder", kVersions};

}  // namespace quern
