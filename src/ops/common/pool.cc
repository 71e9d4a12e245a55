#include "ops/common/pool.h"

#include <algorithm>
#include <string>

#include "ops/common/plane_layout.h"

namespace quern {
namespace {

Status CheckRank(InferContext& c, const Dims& x) {
  if (x.size() >= 3) return OkStatus();
  return c.Error("input '" + c.node().input(0)->name() + "' has shape " + DimsToString(x) +
                 "; a batch, a channel and at least one spatial dimension are needed");
}

// The shape of the result, where that of the input is known.
Result<std::optional<Dims>> PooledShape(InferContext& c, bool channels_last) {
  std::optional<Dims> shape = c.input_shape(0);
  if (!shape) return shape;
  QUERN_RETURN_IF_ERROR(CheckRank(c, *shape));
  if (channels_last) shape = ToChannelsSecond(*shape);
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(c.node(), static_cast<int>(shape->size()) - 2, std::nullopt));
  QUERN_ASSIGN_OR_RETURN(const Dims spatial, WindowOutput(c.node(), window, Dims(shape->begin() + 2, shape->end())));
  std::copy(spatial.begin(), spatial.end(), shape->begin() + 2);
  if (channels_last) shape = ToChannelsLast(*shape);
  return shape;
}

}  // namespace

Status InferQuantizedPool(InferContext& c, bool channels_last) {
  QUERN_ASSIGN_OR_RETURN(std::optional<Dims> output, PooledShape(c, channels_last));
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), std::move(output)));
  return OkStatus();
}

Status InferPool(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const std::optional<Dims> output, PooledShape(c, /*channels_last=*/false));
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), output));
  if (c.num_outputs() > 1) c.SetOutputType(1, ValueType::Tensor(DType::kI64, output));
  return OkStatus();
}

Status InferGlobalPool(InferContext& c) {
  std::optional<Dims> x = c.input_shape(0);
  if (x) {
    QUERN_RETURN_IF_ERROR(CheckRank(c, *x));
    for (size_t d = 2; d < x->size(); ++d) (*x)[d] = 1;
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), std::move(x)));
  return OkStatus();
}

Result<Window3> MakePoolWindow(const EvalContext& c, const Shape& x, const Shape& output) {
  QUERN_ASSIGN_OR_RETURN(Window window, ReadWindow(c.node(), x.rank() - 2, std::nullopt));
  return MakeWindow3(c.node(), window, x, output);
}

}  // namespace quern
