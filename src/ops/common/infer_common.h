// What many inference functions share: axes, broadcasting of symbolic shapes, pass-through types, propagation of small
// integer contents (what Shape, Gather, Concat, Mul chains of exporters carry).
#pragma once

#include <algorithm>
#include <vector>

#include "ops/op.h"

namespace quern {

// Most elements of a content that is propagated during inference.
inline constexpr int64_t kMaxPropagatedElements = 64;

// An axis of [-rank, rank) made non-negative; an error that names the node otherwise.
Result<int> NormalizeAxis(const Node& node, int64_t axis, int rank);
// The same for a list; a repeated axis is an error.
Result<std::vector<int>> NormalizeAxes(const Node& node, std::span<const int64_t> axes, int rank);

// The axes of a node that may come as an attribute or (later versions) as input `input`. Not known (nothing inside the
// Result) when the input is not constant; `given` is false when neither is there.
struct AxesOperand {
  bool given = false;
  std::optional<std::vector<int64_t>> values;
};
AxesOperand ReadAxes(const InferContext& context, std::string_view attribute, int input);

// Constants of an int input whose content is known and free of symbols.
std::optional<std::vector<int64_t>> ConstantInts(const InferContext& context, int input);

// Symbolic broadcast: a constant extent other than 1 beats a symbol, equal ones stay, two different symbols give a new
// unknown. An error when two numbers contradict.
Result<Dims> BroadcastDims(const Node& node, const Dims& a, const Dims& b);

// Output `out` has the type of input `in` (and its content, when known).
Status InferSameAsInput(InferContext& context, int in, int out);
// Output 0 is the type of input 0: for unary elementwise operators.
Status InferUnary(InferContext& context);
// Output 0 has the broadcast shape of all inputs and element type `dtype`.
Status InferBroadcastTo(InferContext& context, DType dtype);
// The same with input 0's element type.
Status InferBroadcast(InferContext& context);
// Bool output: comparisons and logic.
Status InferBroadcastToBool(InferContext& context);

// Small content of an input (at most kMaxPropagatedElements, rank 0 or 1, integer or bool); nothing when not known.
std::optional<Dims> PropagatedInput(const InferContext& context, int input);

// Sets the content of output 0 to f(a, b) of the broadcast contents of the inputs, where all are known. Call after the
// type is set. f: Dim(const Dim&, const Dim&), or optional<Dim> to give up.
template <typename F>
void PropagateElementwise(InferContext& context, F f) {
  std::optional<Dims> result = PropagatedInput(context, 0);
  for (int i = 1; result && i < context.num_inputs(); ++i) {
    const std::optional<Dims> other = PropagatedInput(context, i);
    if (!other || (other->size() != result->size() && other->size() != 1 && result->size() != 1)) return;
    const size_t n = other->empty() || result->empty() ? 0 : std::max(other->size(), result->size());
    Dims combined;
    combined.reserve(n);
    for (size_t j = 0; j < n; ++j) {
      const std::optional<Dim> d = f((*result)[result->size() == 1 ? 0 : j], (*other)[other->size() == 1 ? 0 : j]);
      if (!d) return;
      combined.push_back(*d);
    }
    result = std::move(combined);
  }
  if (result) context.SetOutputData(0, *std::move(result));
}

}  // namespace quern
