// ai.onnx.ml.ZipMap: each row of scores as a map from the class labels.
#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "ops/common/ml_rows.h"

namespace quern {
namespace {

Result<ClassLabels> ReadKeys(const Node& node) {
  QUERN_ASSIGN_OR_RETURN(const ClassLabels keys, ClassLabels::Read(node, "classlabels_int64s", "classlabels_strings"));
  if (keys.size() > 0) return keys;
  return InvalidArgument(node.Describe() + ": attribute 'classlabels_int64s' or 'classlabels_strings' is needed");
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ClassLabels keys, ReadKeys(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  if (dims.features.is_constant() && !dims.features.is_constant(keys.size())) {
    return c.Error("the input has " + dims.features.ToString() + " columns for " + std::to_string(keys.size()) +
                   " class labels");
  }
  auto element = std::make_shared<const ValueType>(ValueType::Tensor(DType::kF32, Dims{}));
  auto map =
      std::make_shared<const ValueType>(ValueType{ValueKind::kMap, keys.dtype(), std::nullopt, std::move(element)});
  c.SetOutputType(0, ValueType{ValueKind::kSequence, DType::kUndefined, std::nullopt, std::move(map)});
  return OkStatus();
}

template <typename Key>
ValueMap MapOf(std::span<const Key> keys, float* scores, const std::shared_ptr<const void>& owner) {
  std::map<Key, Value> entries;
  for (size_t i = 0; i < keys.size(); ++i) {
    entries.insert_or_assign(keys[i], Tensor::Wrap(DType::kF32, Shape{}, scores + i, owner));
  }
  return ValueMap{std::move(entries)};
}

Status Evaluate(EvalContext& c) {
  const Tensor& x = c.input(0);
  QUERN_ASSIGN_OR_RETURN(const ClassLabels keys, ReadKeys(c.node()));
  if ((x.rank() != 1 && x.rank() != 2) || x.shape().back() != keys.size()) {
    return c.Error("the input has shape " + x.shape().ToString() + ", [N," + std::to_string(keys.size()) +
                   "] is needed, a column per class label");
  }
  // A value of a map costs far more than its number.
  constexpr int64_t kBytesPerValue = sizeof(Value) + sizeof(std::string) + 48;
  if (x.num_elements() > c.limits().tensor_bytes / kBytesPerValue) {
    return ResourceExhausted(c.node().Describe() + ": maps of " + std::to_string(x.num_elements()) +
                             " values are more than the limit for one tensor allows");
  }
  // The values view one tensor of their own.
  QUERN_ASSIGN_OR_RETURN(const Tensor scores, c.AllocateOutput(0, DType::kF32, x.shape()));
  std::copy_n(x.data<float>(), x.num_elements(), scores.data<float>());
  const int64_t rows = x.rank() == 1 ? 1 : x.dim(0);
  ValueSequence maps;
  maps.reserve(static_cast<size_t>(rows));
  for (int64_t n = 0; n < rows; ++n) {
    float* row = scores.data<float>() + n * keys.size();
    maps.push_back(Value::Map(keys.dtype() == DType::kString ? MapOf(keys.strings(), row, scores.owner())
                                                             : MapOf(keys.ints(), row, scores.owner())));
  }
  c.SetOutput(0, Value::Sequence(std::move(maps)));
  return OkStatus();
}

constexpr Param kInputs[] = {{"X", "", {DType::kF32}}};
constexpr Param kOutputs[] = {{"Z", "T", {}, Arity::kSingle, ValueKind::kSequence}};
constexpr AttrSpec kAttributes[] = {{"classlabels_int64s", AttrType::kInts},
                                    {"classlabels_strings", AttrType::kStrings}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlZipMap = {"ai.onnx.ml", "ZipMap", kVersions};

}  // namespace quern
