// TensorScatter: a cache with an update written along `axis`, for each batch entry from its own index on.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Result<bool> IsCircular(const Node& node) {
  const std::string mode = node.GetString("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    return InvalidArgument(node.Describe() + ": mode '" + mode + "' is neither linear nor circular");
  }
  return mode == "circular";
}

Result<int> SequenceAxis(const Node& node, int rank) {
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(node, node.GetInt("axis", -2), rank));
  if (axis == 0) return InvalidArgument(node.Describe() + ": the axis is 0, which is the batch");
  return axis;
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(IsCircular(c.node()).status());
  const std::optional<Dims> cache = c.input_shape(0), update = c.input_shape(1), at = c.input_shape(2);
  if (cache) {
    QUERN_ASSIGN_OR_RETURN(const int axis, SequenceAxis(c.node(), static_cast<int>(cache->size())));
    bool fits = !update || update->size() == cache->size();
    for (size_t d = 0; fits && update && d < cache->size(); ++d) {
      const Dim &a = (*cache)[d], &b = (*update)[d];
      if (!a.is_constant() || !b.is_constant()) continue;
      fits = static_cast<int>(d) == axis ? b.value() <= a.value() : b.value() == a.value();
    }
    if (!fits) {
      return c.Error("an update of shape " + DimsToString(*update) + " does not fit into a cache of shape " +
                     DimsToString(*cache) + " along axis " + std::to_string(axis));
    }
    if (at && (at->size() != 1 ||
               (at->front().is_constant() && cache->front().is_constant() && !(at->front() == cache->front())))) {
      return c.Error("write_indices has shape " + DimsToString(*at) + "; " + cache->front().ToString() +
                     " indices are needed");
    }
  }
  return InferSameAsInput(c, 0, 0);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const bool circular, IsCircular(c.node()));
  QUERN_RETURN_IF_ERROR(InferredOutputs::Make(c, Infer).status());
  QUERN_ASSIGN_OR_RETURN(const ElementInput cache, ElementInput::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const ElementInput update, ElementInput::Make(c, 1));
  const Shape& shape = cache.shape();
  QUERN_ASSIGN_OR_RETURN(const int axis, SequenceAxis(c.node(), shape.rank()));
  const int64_t room = shape[axis], length = update.shape()[axis];
  std::vector<int64_t> starts;  // empty: 0 for all
  if (c.HasInput(2)) {
    QUERN_ASSIGN_OR_RETURN(starts, ReadInts(c, 2));
  }
  for (int64_t start : starts) {
    if (start < 0 || (!circular && start > room - length)) {
      return c.Error("write index " + std::to_string(start) + " with " + std::to_string(length) +
                     " entries to write leaves a cache of " + std::to_string(room));
    }
  }
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, cache.dtype(), shape));
  const int64_t between = shape.num_elements(1, axis), inner = shape.num_elements(axis + 1, shape.rank());
  QUERN_RETURN_IF_ERROR(DispatchElements(cache.dtype(), [&]<typename T>() {
    T* y = out.data<T>();
    std::copy_n(cache.data<T>(), cache.num_elements(), y);
    if (update.num_elements() == 0) return OkStatus();
    const T* from = update.data<T>();
    for (int64_t row = 0; row < shape[0] * between; ++row) {
      for (int64_t i = 0; i < length; ++i, from += inner) {
        const int64_t start = starts.empty() ? 0 : starts[row / between];
        const int64_t to = circular ? (start % room + i) % room : start + i;
        std::copy_n(from, inner, y + (row * room + to) * inner);
      }
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "-2"},
                                    {"mode", AttrType::kString, false, "linear"}};
constexpr Param kInputs[] = {{"past_cache", "T", AnyTypes(24)},
                             {"update", "T", AnyTypes(24)},
                             {"write_indices", "", kInt64Type, Arity::kOptional}};
constexpr Param kOutputs[] = {{"present_cache", "T", AnyTypes(24)}};
constexpr OpVersion kVersions[] = {{24, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpTensorScatter = {"", "TensorScatter", kVersions};

}  // namespace quern
