// ai.onnx.ml.DictVectorizer: the values of a map in the order of a vocabulary, zero (or "") where a key is not there.
#include <string>

#include "ops/common/map_values.h"
#include "ops/common/ml_rows.h"

namespace quern {
namespace {

Result<ClassLabels> ReadVocabulary(const Node& node) {
  QUERN_ASSIGN_OR_RETURN(const ClassLabels vocabulary,
                         ClassLabels::Read(node, "int64_vocabulary", "string_vocabulary"));
  if (vocabulary.size() > 0) return vocabulary;
  return InvalidArgument(node.Describe() + ": attribute 'int64_vocabulary' or 'string_vocabulary' is needed");
}

// Maps of integers to integers or of strings to strings are not in the specification; they mean what the others do.
constexpr TypeSet kValues = {DType::kI64, DType::kString, DType::kF32, DType::kF64};

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ClassLabels vocabulary, ReadVocabulary(c.node()));
  QUERN_ASSIGN_OR_RETURN(const DType values, InferMapValues(c, 0, vocabulary.dtype(), kValues));
  c.SetOutputType(0, ValueType::Tensor(values, Dims{Dim(1), Dim(vocabulary.size())}));
  return OkStatus();
}

template <typename Key>
Status Vectorize(EvalContext& c, std::span<const Key> vocabulary) {
  const auto* map = std::get_if<std::map<Key, Value>>(&c.input_value(0).map().entries);
  const std::map<Key, Value> none;
  if (map == nullptr) {
    const size_t count = std::visit([](const auto& m) { return m.size(); }, c.input_value(0).map().entries);
    if (count > 0) return c.Error("the keys of the map are not of the type of the vocabulary");
    map = &none;  // an empty map has no type of keys
  }
  QUERN_ASSIGN_OR_RETURN(const DType dtype, CheckMapValues(c, 0, *map, kValues));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out,
                         ElementOutput::Make(c, 0, dtype, Shape{1, static_cast<int64_t>(vocabulary.size())}));
  QUERN_RETURN_IF_ERROR(DispatchElements(dtype, [&]<typename T>() -> Status {
    T* y = out.data<T>();
    for (const Key& key : vocabulary) {
      const auto found = map->find(key);
      *y = T{};
      if (found != map->end()) {
        QUERN_ASSIGN_OR_RETURN(*y, MapElement<T>(found->second));
      }
      ++y;
    }
    return OkStatus();
  }));
  return out.Finish();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ClassLabels vocabulary, ReadVocabulary(c.node()));
  if (vocabulary.dtype() == DType::kString) return Vectorize<std::string>(c, vocabulary.strings());
  return Vectorize<int64_t>(c, vocabulary.ints());
}

constexpr Param kInputs[] = {{"X", "T1", {}, Arity::kSingle, ValueKind::kMap}};
constexpr Param kOutputs[] = {{"Y", "T2", kValues}};
constexpr AttrSpec kAttributes[] = {{"int64_vocabulary", AttrType::kInts}, {"string_vocabulary", AttrType::kStrings}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlDictVectorizer = {"ai.onnx.ml", "DictVectorizer", kVersions};

}  // namespace quern
