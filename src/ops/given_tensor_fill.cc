// GivenTensorFill: a tensor of the attribute's values. Its shape is an attribute, or that of the input, or the input's
// content, with extra_shape behind the latter two.
#include <string>
#include <vector>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/eval_infer.h"
#include "ops/common/legacy_experimental.h"
#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const DType from = c.input_dtype(0);
  // The values are floats; only a float input says of which width.
  ValueType type = ValueType::Tensor(kOldFloatTypes.Has(from) ? from : DType::kF32);
  const auto* shape = c.node().FindAttribute<std::vector<int64_t>>("shape");
  const std::vector<int64_t> extra = c.node().GetInts("extra_shape");
  if (shape != nullptr) {
    if (c.HasInput(0) || !extra.empty()) return c.Error("attribute 'shape' excludes an input and 'extra_shape'");
    type.shape = Dims(shape->begin(), shape->end());
  } else if (!c.HasInput(0)) {
    return c.Error("neither attribute 'shape' nor an input says which shape is to be filled");
  } else {
    if (c.node().GetInt("input_as_shape", 0) == 0) {
      type.shape = c.input_shape(0);
    } else if (!kIndexTypes.Has(from)) {
      return c.Error(std::string("the input has element type ") + DTypeName(from) + "; a shape is i64 or i32");
    } else if (std::optional<Dims> data = c.input_data(0)) {
      type.shape = std::move(data);
    } else if (const std::optional<int64_t> length = KnownLength(c, 0)) {
      type.shape = UnknownDims(*length);
    }
    if (type.shape) type.shape->insert(type.shape->end(), extra.begin(), extra.end());
  }
  for (size_t d = 0; type.shape && d < type.shape->size(); ++d) {
    const Dim& extent = (*type.shape)[d];
    if (extent.is_constant() && extent.value() < 0) {
      return c.Error("the shape " + DimsToString(*type.shape) + " has a negative extent");
    }
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const std::vector<float>* values = c.node().FindAttribute<std::vector<float>>("values");
  const int64_t count = values != nullptr ? static_cast<int64_t>(values->size()) : 0;
  if (CheckedProduct(outputs.shape(0).span()) != count) {
    return c.Error(std::to_string(count) + " values are given for the shape " + outputs.shape(0).ToString());
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  return DispatchFloat(y.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < count; ++i) y.data<T>()[i] = static_cast<T>((*values)[i]);
    return OkStatus();
  });
}

constexpr TypeSet kInputTypes = kOldFloatTypes | kIndexTypes;
constexpr AttrSpec kAttributes[] = {{"extra_shape", AttrType::kInts},
                                    {"input_as_shape", AttrType::kInt},
                                    {"shape", AttrType::kInts},
                                    {"values", AttrType::kFloats}};
constexpr Param kInputs[] = {{"shape", "", kInputTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"X", "", kOldFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpGivenTensorFill = {"", "GivenTensorFill", kVersions, kExperimentalNotes};

}  // namespace quern
