// Slice of any type of fixed size, whose starts, ends, axes or steps come with the run.
#include <cstring>

#include "ops/common/slice_part.h"
#include "provider/cpu/common/copy.h"
#include "provider/cpu/sized/sized_op.h"

namespace quern::cpu {
namespace {

std::string Reject(const Node& node) {
  return node.opset() < 10 ? "Slice of operator set 1" : RejectUnsizedElements(node);
}

Status Run(SizedRun& run) {
  const Tensor& x = run.inputs[0];
  SliceOperands o;
  std::vector<int64_t> starts, ends, axes, steps;
  QUERN_ASSIGN_OR_RETURN(o.starts, ReadList(run, 1, starts));
  QUERN_ASSIGN_OR_RETURN(o.ends, ReadList(run, 2, ends));
  QUERN_ASSIGN_OR_RETURN(o.axes, ReadList(run, 3, axes));
  QUERN_ASSIGN_OR_RETURN(o.steps, ReadList(run, 4, steps));
  o.has_axes = run.inputs.size() > 3 && run.inputs[3].defined();
  QUERN_ASSIGN_OR_RETURN(const SlicePart part, SelectPart(run.node, x.shape(), o));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, run.Allocate(0, x.dtype(), part.shape));
  if (y.num_elements() == 0) return OkStatus();
  const size_t bytes = DTypeBytes(x.dtype());
  const char* from = static_cast<const char*>(x.raw_data()) + part.offset * static_cast<int64_t>(bytes);
  return StridedCopy::Prepare(part.shape, part.strides, y.strides(), bytes)
      .Run(from, y.raw_data(), *run.executor, run.cancel);
}

}  // namespace

const SizedOp kSizedSlice = {"Slice", Reject, Run};

}  // namespace quern::cpu
