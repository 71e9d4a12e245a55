// ai.onnx.ml.CastMap: the values of a map from integers in the order of the keys, or (SPARSE) each at the place that
// its key tells.
#include <charconv>
#include <string>

#include "ops/common/map_values.h"
#include "ops/common/ml_rows.h"
#include "ops/common/saturate.h"

namespace quern {
namespace {

struct Form {
  DType to = DType::kF32;
  bool sparse = false;
  int64_t max_map = 1;
};
Result<Form> ReadForm(const Node& node) {
  const std::string to = node.GetString("cast_to", "TO_FLOAT"), form = node.GetString("map_form", "DENSE");
  Form result;
  if (to == "TO_STRING") {
    result.to = DType::kString;
  } else if (to == "TO_INT64") {
    result.to = DType::kI64;
  } else if (to != "TO_FLOAT") {
    return InvalidArgument(node.Describe() + ": cast_to is '" + to +
                           "', one of TO_FLOAT, TO_STRING and TO_INT64 is needed");
  }
  if (form != "DENSE" && form != "SPARSE") {
    return InvalidArgument(node.Describe() + ": map_form is '" + form + "', DENSE or SPARSE is needed");
  }
  result.sparse = form == "SPARSE";
  result.max_map = node.GetInt("max_map", 1);
  if (result.sparse && result.max_map < 1) {
    return InvalidArgument(node.Describe() + ": max_map is " + std::to_string(result.max_map) +
                           ", it must be positive");
  }
  return result;
}

constexpr TypeSet kValues = {DType::kString, DType::kF32};

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Form form, ReadForm(c.node()));
  QUERN_RETURN_IF_ERROR(InferMapValues(c, 0, DType::kI64, kValues).status());
  c.SetOutputType(0, ValueType::Tensor(form.to, Dims{Dim(1), form.sparse ? Dim(form.max_map) : Dim::Unknown()}));
  return OkStatus();
}

// The whole text as a number.
template <typename T>
Result<T> ParseText(const EvalContext& c, const std::string& text) {
  const char* first = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* last = text.data() + text.size();
  T exact{};
  if (const auto [end, error] = std::from_chars(first, last, exact); error == std::errc() && end == last) return exact;
  double number = 0;
  const auto [end, error] = std::from_chars(first, last, number);
  if (error != std::errc() || end != last) return c.Error("value '" + text + "' of the map is not a number");
  return SaturateTo<T>(number);
}

// One value as To; texts of numbers have six decimals, as onnxruntime writes them.
template <typename To>
Result<To> Convert(const EvalContext& c, const Value& value) {
  if (value.kind() == ValueKind::kStringTensor) {
    const std::string& text = value.strings().values.front();
    if constexpr (std::is_same_v<To, std::string>) {
      return text;
    } else {
      return ParseText<To>(c, text);
    }
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor dense, value.tensor().Contiguous());
  const float number = *dense.data<float>();
  if constexpr (std::is_same_v<To, std::string>) {
    return std::to_string(number);
  } else {
    return SaturateTo<To>(number);
  }
}

template <typename To>
Status Cast(EvalContext& c, const Form& form, const std::map<int64_t, Value>& map, const To& absent) {
  const int64_t length = form.sparse ? form.max_map : static_cast<int64_t>(map.size());
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, form.to, Shape{1, length}));
  To* y = out.data<To>();
  if (form.sparse) std::fill_n(y, length, absent);
  for (const auto& [key, value] : map) {
    if (form.sparse && (key < 0 || key >= length)) {
      return c.Error("key " + std::to_string(key) + " of the map is outside [0, " + std::to_string(length - 1) + "]");
    }
    QUERN_ASSIGN_OR_RETURN(To converted, Convert<To>(c, value));
    (form.sparse ? y[key] : *y++) = std::move(converted);
  }
  return out.Finish();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Form form, ReadForm(c.node()));
  const auto* map = std::get_if<std::map<int64_t, Value>>(&c.input_value(0).map().entries);
  if (map == nullptr) return c.Error("the map has strings as keys, integers are needed");
  QUERN_RETURN_IF_ERROR(CheckMapValues(c, 0, *map, kValues).status());
  if (form.to == DType::kString) return Cast<std::string>(c, form, *map, "0.f");  // onnxruntime's text
  if (form.to == DType::kI64) return Cast<int64_t>(c, form, *map, 0);
  return Cast<float>(c, form, *map, 0.0f);
}

constexpr Param kInputs[] = {{"X", "T1", {}, Arity::kSingle, ValueKind::kMap}};
constexpr Param kOutputs[] = {{"Y", "T2", {DType::kString, DType::kF32, DType::kI64}}};
constexpr AttrSpec kAttributes[] = {{"cast_to", AttrType::kString, false, "TO_FLOAT"},
                                    {"map_form", AttrType::kString, false, "DENSE"},
                                    {"max_map", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlCastMap = {"ai.onnx.ml", "CastMap", kVersions,
                                                    "Texts of numbers, and of absent ones, are those of onnxruntime."};

}  // namespace quern
