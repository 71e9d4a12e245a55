// Compress of any type of fixed size: the slices where the condition is true are copied.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "provider/cpu/sized/sized_op.h"

namespace quern::cpu {
namespace {

Status Run(SizedRun& run) {
  const Tensor &x = run.inputs[0], &condition = run.inputs[1];
  if (condition.rank() != 1) {
    return run.Error("the condition has shape " + condition.shape().ToString() + "; one dimension is needed");
  }
  Shape shape = x.shape();
  int at = 0;
  if (const int64_t* axis = run.node.FindAttribute<int64_t>("axis")) {
    if (*axis < -shape.rank() || *axis >= shape.rank()) {
      return run.Error("axis " + std::to_string(*axis) + " is not one of shape " + shape.ToString());
    }
    at = static_cast<int>(*axis < 0 ? *axis + shape.rank() : *axis);
  } else {
    shape = Shape{x.num_elements()};
  }
  const int64_t entries = shape[at], outer = shape.num_elements(0, at);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < condition.dim(0); ++i) {
    if (!condition.data<bool>()[i]) continue;
    if (i >= entries) {
      return run.Error("the condition is true at " + std::to_string(i) + " but there are only " +
                       std::to_string(entries) + " entries to choose from");
    }
    chosen.push_back(i);
  }
  const size_t bytes = static_cast<size_t>(shape.num_elements(at + 1, shape.rank())) * DTypeBytes(x.dtype());
  const auto count = static_cast<int64_t>(chosen.size());
  shape[at] = count;
  QUERN_ASSIGN_OR_RETURN(const Tensor y, run.Allocate(0, x.dtype(), shape));
  if (y.num_elements() == 0) return OkStatus();
  const char* from = static_cast<const char*>(x.raw_data());
  char* to = static_cast<char*>(y.raw_data());
  const int64_t grain = std::max<int64_t>(1, 262144 / static_cast<int64_t>(bytes));
  return ForEachItem(run, outer * count, grain, [&](int64_t i) {
    const int64_t slice = i / count * entries + chosen[static_cast<size_t>(i % count)];
    std::memcpy(to + static_cast<size_t>(i) * bytes, from + static_cast<size_t>(slice) * bytes, bytes);
  });
}

}  // namespace

const SizedOp kSizedCompress = {"Compress", RejectUnsizedElements, Run};

}  // namespace quern::cpu
