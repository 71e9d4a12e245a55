// StringConcat: joins the strings of two tensors element by element, with broadcasting.
#include "ops/common/elements.h"
#include "ops/common/elementwise.h"
#include "ops/common/strings.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferBroadcast));
  const StringTensor &x = c.input_value(0).strings(), &y = c.input_value(1).strings();
  const Shape& shape = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, DType::kString, shape));
  const BroadcastRows<2> rows(shape, {BroadcastStrides(x.shape, x.shape.ContiguousStrides(), shape),
                                      BroadcastStrides(y.shape, y.shape.ContiguousStrides(), shape)});
  // Calls f(place in the output, string of x, string of y).
  const auto for_each = [&](auto f) {
    int64_t at = 0;
    rows.ForEach([&](const auto& offset, const auto& stride, int64_t n) {
      for (int64_t i = 0; i < n; ++i, ++at) {
        f(at, x.values[static_cast<size_t>(offset[0] + i * stride[0])],
          y.values[static_cast<size_t>(offset[1] + i * stride[1])]);
      }
    });
  };
  int64_t bytes = 0;
  for_each(
      [&](int64_t, const std::string& a, const std::string& b) { bytes += static_cast<int64_t>(a.size() + b.size()); });
  QUERN_RETURN_IF_ERROR(CheckTextBytes(c, bytes));
  auto* z = out.data<std::string>();
  for_each([&](int64_t at, const std::string& a, const std::string& b) { z[at] = a + b; });
  return out.Finish();
}

constexpr Param kInputs[] = {{"X", "T", kStringType}, {"Y", "T", kStringType}};
constexpr Param kOutputs[] = {{"Z", "T", kStringType}};
constexpr OpVersion kVersions[] = {{20, kInputs, kOutputs, {}, InferBroadcast, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpStringConcat = {"", "StringConcat", kVersions};

}  // namespace quern
