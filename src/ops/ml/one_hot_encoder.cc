// ai.onnx.ml.OneHotEncoder: each element as a row of zeros with a one at the place of its category.
#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/ml_rows.h"

namespace quern {
namespace {

Result<ClassLabels> ReadCategories(const Node& node) {
  QUERN_ASSIGN_OR_RETURN(const ClassLabels categories, ClassLabels::Read(node, "cats_int64s", "cats_strings"));
  if (categories.size() > 0) return categories;
  return InvalidArgument(node.Describe() + ": attribute 'cats_int64s' or 'cats_strings' is needed");
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ClassLabels categories, ReadCategories(c.node()));
  ValueType type = ValueType::Tensor(DType::kF32, c.input_shape(0));
  if (type.shape) type.shape->push_back(Dim(categories.size()));
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

// A number as a category: truncated; nothing when it is out of range or NaN.
template <typename T>
std::optional<int64_t> AsInteger(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T kLimit = static_cast<T>(9223372036854775808.0);  // 2^63
    if (!(x >= -kLimit && x < kLimit)) return std::nullopt;
  }
  return static_cast<int64_t>(x);
}

// Writes a row per element of `elements`; `find` gives an element's place or -1.
template <typename T, typename F>
Status Encode(EvalContext& c, std::span<const T> elements, const Tensor& y, F find) {
  const bool zeros = c.node().GetInt("zeros", 1) != 0;
  float* row = y.data<float>();
  for (size_t i = 0; i < elements.size(); ++i, row += y.shape().back()) {
    const int64_t place = find(elements[i]);
    if (place >= 0) {
      row[place] = 1;
    } else if (!zeros) {
      return c.Error("element " + std::to_string(i) + " is no category, and zeros is 0");
    }
  }
  return OkStatus();
}

template <typename Key>
auto Table(std::span<const Key> categories) {
  std::unordered_map<Key, int64_t> table;
  for (size_t i = 0; i < categories.size(); ++i) table.insert_or_assign(categories[i], static_cast<int64_t>(i));
  return [table = std::move(table)](const Key& key) {
    const auto found = table.find(key);
    return found == table.end() ? int64_t{-1} : found->second;
  };
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ClassLabels categories, ReadCategories(c.node()));
  const Value& x = c.input_value(0);
  const bool strings = x.kind() == ValueKind::kStringTensor;
  if (strings != (categories.dtype() == DType::kString)) {
    return c.Error(std::string("the input has element type ") + DTypeName(ElementTypeOf(x)) + ", the categories are " +
                   DTypeName(categories.dtype()));
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  std::fill_n(y.data<float>(), y.num_elements(), 0.0f);
  if (strings) return Encode<std::string>(c, x.strings().values, y, Table<std::string>(categories.strings()));
  const auto find = Table<int64_t>(categories.ints());
  return DispatchType(FeatureTypeList{}, x.tensor().dtype(), [&]<typename T>() {
    return Encode<T>(c, x.tensor().values<T>(), y, [&](T v) {
      const std::optional<int64_t> category = AsInteger(v);
      return category ? find(*category) : -1;
    });
  });
}

constexpr Param kInputs[] = {{"X", "T", kFeatureTypes | TypeSet{DType::kString}}};
constexpr AttrSpec kAttributes[] = {
    {"cats_int64s", AttrType::kInts}, {"cats_strings", AttrType::kStrings}, {"zeros", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kFloatOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlOneHotEncoder = {"ai.onnx.ml", "OneHotEncoder", kVersions};

}  // namespace quern
