// Tile of any type of fixed size, whose repeats come with the run.
#include "base/checked_math.h"
#include "provider/cpu/common/repeated_copy.h"
#include "provider/cpu/sized/sized_op.h"

namespace quern::cpu {
namespace {

std::string Reject(const Node& node) {
  return node.opset() < 6 ? "Tile of operator set 1" : RejectUnsizedElements(node);
}

Status Run(SizedRun& run) {
  const Tensor& x = run.inputs[0];
  std::vector<int64_t> own;
  QUERN_ASSIGN_OR_RETURN(const std::span<const int64_t> repeats, ReadList(run, 1, own));
  if (static_cast<int>(repeats.size()) != x.rank()) {
    return run.Error(std::to_string(repeats.size()) + " repeats are given for the dimensions of " +
                     x.shape().ToString());
  }
  Shape shape = x.shape();
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t times = repeats[static_cast<size_t>(d)];
    const std::optional<int64_t> extent = CheckedMul(shape[d], times);
    if (times < 0 || !extent) {
      return run.Error("repeats " + Shape(repeats).ToString() +
                       (times < 0 ? " are negative" : " make the output too large"));
    }
    shape[d] = *extent;
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, run.Allocate(0, x.dtype(), shape));
  if (y.num_elements() == 0) return OkStatus();
  return RepeatedCopy(x.shape(), shape, DTypeBytes(x.dtype()))
      .Run(x.raw_data(), y.raw_data(), *run.executor, run.cancel);
}

}  // namespace

const SizedOp kSizedTile = {"Tile", Reject, Run};

}  // namespace quern::cpu
