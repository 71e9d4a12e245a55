// Shape: the extents [start, end) of the input.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

// The range of dimensions that start and end select; both may be negative and are clamped.
std::pair<int64_t, int64_t> SelectedRange(const Node& node, int64_t rank) {
  auto clamp = [&](int64_t i) { return std::clamp(i < 0 ? i + rank : i, int64_t{0}, rank); };
  const int64_t start = clamp(node.GetInt("start", 0));
  return {start, std::max(start, clamp(node.GetInt("end", rank)))};
}

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  if (!shape) {
    c.SetOutputType(0, ValueType::Tensor(DType::kI64, Dims{Dim::Unknown()}));
    return OkStatus();
  }
  const auto [start, end] = SelectedRange(c.node(), static_cast<int64_t>(shape->size()));
  c.SetOutputType(0, ValueType::Tensor(DType::kI64, Dims{Dim(end - start)}));
  c.SetOutputData(0, Dims(shape->begin() + start, shape->begin() + end));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  const Shape& shape = ShapeOf(c.input_value(0));
  const auto [start, end] = SelectedRange(c.node(), shape.rank());
  QUERN_ASSIGN_OR_RETURN(const Tensor out, c.AllocateOutput(0, DType::kI64, Shape{end - start}));
  std::copy(shape.begin() + start, shape.begin() + end, out.data<int64_t>());
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"start", AttrType::kInt, false, "0"}, {"end", AttrType::kInt}};
constexpr Param kOutputs[] = {{"shape", "T1", kInt64Type}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kDataOfAnyType<kSince>, kOutputs, kAttributes, Infer, Evaluate};
constexpr OpVersion kVersions[] = {
    {1, kDataOfAnyType<1>, kOutputs, {}, Infer, Evaluate},
    {13, kDataOfAnyType<13>, kOutputs, {}, Infer, Evaluate},
    kVersion<15>,
    kVersion<19>,
    kVersion<21>,
    kVersion<23>,
    kVersion<24>,
    kVersion<25>,
};

}  // namespace

extern constinit const OpDefinition kOpShape = {"", "Shape", kVersions};

}  // namespace quern
