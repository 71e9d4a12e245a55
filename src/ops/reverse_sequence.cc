// ReverseSequence: reverses the first sequence_lens[b] steps of each batch entry b along time.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const int64_t time = c.node().GetInt("time_axis", 0), batch = c.node().GetInt("batch_axis", 1);
  if (!((time == 0 && batch == 1) || (time == 1 && batch == 0))) {
    return c.Error("time_axis is " + std::to_string(time) + " and batch_axis " + std::to_string(batch) +
                   "; one must be 0, the other 1");
  }
  const std::optional<Dims> shape = c.input_shape(0), lens = c.input_shape(1);
  if (shape && shape->size() < 2) return c.Error("the input has shape " + DimsToString(*shape) + ", rank 2 is needed");
  if (lens && lens->size() != 1)
    return c.Error("sequence_lens has shape " + DimsToString(*lens) + ", it must be a list");
  if (shape && lens) {
    const Dim &entries = (*shape)[static_cast<size_t>(batch)], &given = lens->front();
    if (entries.is_constant() && given.is_constant() && !(entries == given)) {
      return c.Error("sequence_lens has " + given.ToString() + " lengths for a batch of " + entries.ToString());
    }
  }
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs checked, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, ReadInts(c, 1));
  const Shape& shape = checked.shape(0);
  const int time_axis = static_cast<int>(c.node().GetInt("time_axis", 0));
  const int64_t steps = shape[time_axis], entries = shape[1 - time_axis];
  for (int64_t length : lengths) {
    if (length < 0 || length > steps) {
      return c.Error("sequence_lens has the length " + std::to_string(length) + ", the input has " +
                     std::to_string(steps) + " steps");
    }
  }
  const int64_t inner = shape.num_elements(2, shape.rank());
  const auto offset = [&](int64_t entry, int64_t step) {
    return (time_axis == 0 ? step * entries + entry : entry * steps + step) * inner;
  };
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, in.dtype(), shape));
  QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
    for (int64_t b = 0; b < entries; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t from = t < length ? length - 1 - t : t;
        std::copy_n(in.data<T>() + offset(b, from), inner, out.data<T>() + offset(b, t));
      }
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {{"batch_axis", AttrType::kInt, false, "1"},
                                    {"time_axis", AttrType::kInt, false, "0"}};
template <int kSince>  // version 28 added bfloat16 alone
constexpr Param kInputs[] = {{"input", "T", AnyTypes(kSince)}, {"sequence_lens", "", kInt64Type}};
template <int kSince>
constexpr Param kOutputs[] = {{"Y", "T", AnyTypes(kSince)}};
constexpr OpVersion kVersions[] = {{10, kInputs<10>, kOutputs<10>, kAttributes, Infer, Evaluate},
                                   {28, kInputs<13>, kOutputs<13>, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpReverseSequence = {"", "ReverseSequence", kVersions};

}  // namespace quern
