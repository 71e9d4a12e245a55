// com.microsoft.QLinearConcat: joins quantized tensors along `axis`, each with a scale and a zero point of its own.
#include "ops/common/infer_common.h"
#include "ops/common/q_linear.h"

namespace quern {
namespace {

// Inputs 0 and 1 are the scale and zero point of y, then three follow for each part.
constexpr int kFirst = 2, kPerPart = 3;

Status Infer(InferContext& c) {
  if (c.num_inputs() < kFirst + kPerPart || (c.num_inputs() - kFirst) % kPerPart != 0) {
    return c.Error("has " + std::to_string(c.num_inputs()) +
                   " inputs; two are needed for the output and three for each tensor");
  }
  std::optional<Dims> joined;
  bool all_known = true;
  for (int i = kFirst; i < c.num_inputs(); i += kPerPart) {
    for (int j = i; j < i + kPerPart; ++j) {
      if (!c.HasInput(j)) return c.Error("input " + std::to_string(j) + " is omitted but required");
      const DType wanted = j == i + 1 ? DType::kF32 : c.input_dtype(1), given = c.input_dtype(j);
      if (wanted != DType::kUndefined && given != DType::kUndefined && wanted != given) {
        return c.Error("input " + std::to_string(j) + " has element type " + DTypeName(given) + ", " +
                       DTypeName(wanted) + " is needed");
      }
    }
    const std::optional<Dims> part = c.input_shape(i);
    if (!part) {
      all_known = false;
      continue;
    }
    const int rank = static_cast<int>(part->size());
    QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 0), rank));
    if (!joined) {
      joined = part;
      continue;
    }
    bool fits = part->size() == joined->size();
    for (int d = 0; fits && d < rank; ++d) {
      Dim& so_far = (*joined)[d];
      const Dim& next = (*part)[d];
      if (d == axis) {
        so_far = so_far + next;
      } else if (so_far.is_constant() && next.is_constant()) {
        fits = so_far.value() == next.value();
      } else if (next.is_constant()) {
        so_far = next;
      }
    }
    if (!fits) {
      return c.Error("input " + std::to_string(i) + " of shape " + DimsToString(*part) +
                     " does not fit the ones before it, joined " + DimsToString(*joined));
    }
  }
  if (joined && !all_known) {
    QUERN_ASSIGN_OR_RETURN(const int axis,
                           NormalizeAxis(c.node(), c.node().GetInt("axis", 0), static_cast<int>(joined->size())));
    (*joined)[axis] = Dim::Unknown();
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(1), std::move(joined)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization to, ReadTensorQuantization(c, 0, 1));
  const Shape shape = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 0), shape.rank()));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  if (y.num_elements() == 0) return OkStatus();
  const int64_t outer = shape.num_elements(0, axis), row = shape.num_elements(axis, shape.rank());
  int64_t at = 0;
  for (int i = kFirst; i < c.num_inputs(); i += kPerPart) {
    QUERN_ASSIGN_OR_RETURN(const TensorQuantization from, ReadTensorQuantization(c, i + 1, i + 2));
    const std::vector<int32_t> part = WidenIntegers(c.input(i));
    const int64_t count = c.input(i).shape().num_elements(axis, shape.rank());
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t e = 0; e < count; ++e) {
        StoreByte(y, o * row + at + e, to.FromReal(from.ToReal(part[o * count + e]), y.dtype()));
      }
    }
    at += count;
  }
  return OkStatus();
}

constexpr Param kInputs[] = {
    {"Y_scale", "TF", kF32Type},
    {"Y_zero_point", "T8", kByteTypes},
    {"inputs", "TV", kByteTypes | kF32Type, Arity::kVariadic, ValueKind::kTensor, /*homogeneous=*/false}};
constexpr Param kOutputs[] = {{"Y", "T8", kByteTypes}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, true}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQLinearConcat = {"com.microsoft", "QLinearConcat", kVersions};

}  // namespace quern
