// If: runs one of two subgraphs.
#include "ops/common/any_types.h"
#include "ops/common/infer_common.h"
#include "ops/common/sequences.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> condition = c.input_data(0);
  const bool known = condition && condition->size() == 1 && condition->front().is_constant();
  const bool first = !known || condition->front().value() != 0;
  Result<std::vector<ValueType>> taken = c.InferSubgraph(first ? "then_branch" : "else_branch", {});
  Result<std::vector<ValueType>> other = c.InferSubgraph(first ? "else_branch" : "then_branch", {});
  // A branch may not fit these shapes, which is an error only if it is the one that runs: models choose by the
  // sampling rate or the rank of an input. While the condition is not known, the branch that fits speaks for both.
  if (!known && !taken.ok() && other.ok()) taken = other;
  if (!taken.ok()) return taken.status();
  if (!known && !other.ok()) other = taken;
  if (static_cast<int>(taken->size()) != c.num_outputs() ||
      (!known && static_cast<int>(other->size()) != c.num_outputs())) {
    return c.Error("both branches must have the " + std::to_string(c.num_outputs()) + " outputs of the node");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    const ValueType& a = (*taken)[i];
    if (known) {
      c.SetOutputType(i, a);
      continue;
    }
    const ValueType& b = (*other)[i];
    const bool open =
        (a.is_tensor() && a.dtype == DType::kUndefined) || (b.is_tensor() && b.dtype == DType::kUndefined);
    if (!open && (a.kind != b.kind || a.dtype != b.dtype)) {
      return c.Error("output " + std::to_string(i) + " is " + TypeToString(a) + " in then_branch and " +
                     TypeToString(b) + " in else_branch");
    }
    c.SetOutputType(i, open ? ValueType{} : CommonType(a, b));
  }
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  const Tensor& condition = c.input(0);
  if (condition.num_elements() != 1) return c.Error("the condition must have one element");
  QUERN_ASSIGN_OR_RETURN(std::vector<Value> results,
                         c.RunSubgraph(*condition.data<bool>() ? "then_branch" : "else_branch", {}));
  if (static_cast<int>(results.size()) != c.num_outputs()) return c.Error("the branch has another number of outputs");
  for (int i = 0; i < c.num_outputs(); ++i) c.SetOutput(i, std::move(results[i]));
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"else_branch", AttrType::kGraph, true}, {"then_branch", AttrType::kGraph, true}};
constexpr Param kInputs[] = {{"cond", "B", kBoolType}};
template <int kSince>  // bfloat16 came with set 16
constexpr Param kOutputs[] = {
    {"outputs", "V", AnyTypes(kSince == 13 ? 12 : kSince), Arity::kVariadic, ValueKind::kNone, false}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputs, kOutputs<kSince>, kAttributes, Infer, Evaluate};
constexpr OpVersion kVersions[] = {kVersion<1>,  kVersion<11>, kVersion<13>, kVersion<16>, kVersion<19>,
                                   kVersion<21>, kVersion<23>, kVersion<24>, kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpIf = {"", "If", kVersions};

}  // namespace quern
