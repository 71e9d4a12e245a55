// PRelu: x, or slope * x below zero; the slope broadcasts to x.
#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0), slope = c.input_shape(1);
  if (x && slope) {
    QUERN_ASSIGN_OR_RETURN(const Dims joined, BroadcastDims(c.node(), *x, *slope));
    for (size_t d = 0; d < joined.size(); ++d) {
      const bool grows =
          joined.size() > x->size() || ((*x)[d].is_constant() && joined[d].is_constant() && !(joined[d] == (*x)[d]));
      if (grows) {
        return c.Error("slope " + DimsToString(*slope) + " does not broadcast to x of shape " + DimsToString(*x));
      }
    }
  }
  return InferUnary(c);
}

constexpr auto kPRelu = [](auto x, auto slope) { return x < decltype(x){0} ? WrappingMul(slope, x) : x; };

Status Evaluate(EvalContext& c) {
  QUERN_RETURN_IF_ERROR(InferredOutputs::Make(c, Infer).status());
  return EvaluateBinary(c, NumericTypeList{}, kPRelu);
}

// Before operator set 7 the slope has one element, or one per channel.
Status Infer6(InferContext& c) { return InferUnary(c); }

Status Evaluate6(EvalContext& c) {
  const Tensor& x = c.input_value(0).tensor();
  Tensor slope = c.input(1);
  if (slope.num_elements() == 1) {
    slope = slope.Reshaped(Shape{});
  } else if (x.rank() > 1 && slope.num_elements() == x.dim(1)) {
    Shape shape = Shape::Filled(x.rank(), 1);
    shape[1] = x.dim(1);
    slope = slope.Reshaped(shape);
  } else {
    return c.Error("slope has shape " + slope.shape().ToString() + ", one element or one per channel is needed");
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, x.dtype(), x.shape()));
  return DispatchFloat(x.dtype(), [&]<typename T>() {
    ApplyBinary<T, T, T>(x, slope, y, kPRelu);
    return OkStatus();
  });
}

constexpr Param kInputs6[] = {{"X", "T", kOldFloatTypes}, {"slope", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs9[] = {{"X", "T", kOldMathTypes}, {"slope", "T", kOldMathTypes}};
constexpr Param kOutputs9[] = {{"Y", "T", kOldMathTypes}};
constexpr Param kInputs16[] = {{"X", "T", kMathTypes}, {"slope", "T", kMathTypes}};
constexpr Param kOutputs16[] = {{"Y", "T", kMathTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, {}, Infer6, Evaluate6},
                                   {7, kInputs6, kOutputs6, {}, Infer, Evaluate},
                                   {9, kInputs9, kOutputs9, {}, Infer, Evaluate},
                                   {16, kInputs16, kOutputs16, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpPRelu = {"", "PRelu", kVersions};

}  // namespace quern
