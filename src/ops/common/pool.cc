#include "ops/common/pool.h"

#include <string>

namespace quern {
namespace {

Status CheckRank(InferContext& c, const Dims& x) {
  if (x.size() >= 3) return OkStatus();
  return c.Error("input '" + c.node().input(0)->name() + "' has shape " + DimsToString(x) +
                 "; a batch, a channel and at least one spatial dimension are needed");
}

}  // namespace

Status InferPool(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0);
  std::optional<Dims> output;
  if (x) {
    QUERN_RETURN_IF_ERROR(CheckRank(c, *x));
    QUERN_ASSIGN_OR_RETURN(Window window, ReadWindow(c.node(), static_cast<int>(x->size()) - 2, std::nullopt));
    QUERN_ASSIGN_OR_RETURN(output, WindowOutput(c.node(), window, Dims(x->begin() + 2, x->end())));
    output->insert(output->begin(), {(*x)[0], (*x)[1]});
  }
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
