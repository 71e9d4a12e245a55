// ConstantOfShape: a tensor of the given extents filled with one value (default: float 0).
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/infer_common.h"
#include "ops/common/view.h"

namespace quern {
namespace {

Result<Value> Fill(const Node& node) {
  const Value* value = node.FindAttribute<Value>("value");
  if (value == nullptr) return Value(Tensor::Scalar<float>(0));
  if (!value->is_tensor() || value->tensor().num_elements() != 1) {
    return InvalidArgument(node.Describe() + ": attribute 'value' must be a tensor of one element");
  }
  return *value;
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Value fill, Fill(c.node()));
  ValueType type = ValueType::Tensor(fill.tensor().dtype());
  if (std::optional<Dims> shape = c.input_data(0)) {
    for (Dim& d : *shape) {
      if (d.is_constant() && d.value() < 0) return c.Error("the shape " + DimsToString(*shape) + " is negative");
    }
    type.shape = std::move(shape);
  } else if (const std::optional<int64_t> rank = KnownLength(c, 0); rank && *rank <= kMaxRank) {
    type.shape = UnknownDims(*rank);
  }
  const std::optional<Dims> shape = type.shape;
  const bool integer = IsIntegerType(type.dtype) || type.dtype == DType::kBool;
  c.SetOutputType(0, std::move(type));
  if (integer && shape && AllConstant(*shape) && shape->size() <= 1) {
    const int64_t n = shape->empty() ? 1 : shape->front().value();
    if (n <= kMaxPropagatedElements && DTypeBytes(fill.tensor().dtype()) != 0) {
      QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> values, ToInt64s(fill.tensor()));
      c.SetOutputData(0, Dims(static_cast<size_t>(n), Dim(values[0])));
    }
  }
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const Value fill, Fill(c.node()));
  QUERN_ASSIGN_OR_RETURN(const ElementInput value, ElementInput::Make(fill));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, value.dtype(), outputs.shape(0)));
  QUERN_RETURN_IF_ERROR(DispatchElements(value.dtype(), [&]<typename T>() {
    std::fill_n(out.data<T>(), out.num_elements(), *value.data<T>());
    return OkStatus();
  }));
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {{"value", AttrType::kTensor, false, "0.0f"}};
constexpr Param kInputs[] = {{"input", "T1", kInt64Type}};
template <int kSince>
constexpr Param kOutputs[] = {{"output", "T2", AnyNumbers(kSince)}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputs, kOutputs<kSince>, kAttributes, Infer, Evaluate};
constexpr OpVersion kVersions[] = {kVersion<9>, kVersion<20>, kVersion<21>, kVersion<23>, kVersion<24>, kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpConstantOfShape = {"", "ConstantOfShape", kVersions};

}  // namespace quern
