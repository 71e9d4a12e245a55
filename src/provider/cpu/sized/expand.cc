// Expand of any type of fixed size to a shape that comes with the run.
#include <algorithm>

#include "provider/cpu/common/copy.h"
#include "provider/cpu/sized/sized_op.h"

namespace quern::cpu {
namespace {

Status Run(SizedRun& run) {
  const Tensor& x = run.inputs[0];
  std::vector<int64_t> own;
  QUERN_ASSIGN_OR_RETURN(const std::span<const int64_t> list, ReadList(run, 1, own));
  if (list.size() > kMaxRank) return run.Error("a shape of " + std::to_string(list.size()) + " dimensions is too long");
  const Shape target(list);
  if (std::ranges::any_of(target, [](int64_t d) { return d < 0; })) {
    return run.Error("shape " + target.ToString() + " is negative");
  }
  const std::optional<Shape> shape = BroadcastShapes(x.shape(), target);
  if (!shape) return run.Error("shapes " + x.shape().ToString() + " and " + target.ToString() + " do not broadcast");
  QUERN_ASSIGN_OR_RETURN(const Tensor y, run.Allocate(0, x.dtype(), *shape));
  if (y.num_elements() == 0) return OkStatus();
  return StridedCopy::Prepare(*shape, BroadcastStrides(x.shape(), x.strides(), *shape), y.strides(),
                              DTypeBytes(x.dtype()))
      .Run(x.raw_data(), y.raw_data(), *run.executor, run.cancel);
}

}  // namespace

const SizedOp kSizedExpand = {"Expand", RejectUnsizedElements, Run};

}  // namespace quern::cpu
