// Reshape of any type of fixed size to a shape that comes with the run: 0 copies the extent of the input (unless
// allowzero), -1 is what remains. The result is the input's memory where that has an owner.
#include <cstring>

#include "base/checked_math.h"
#include "provider/cpu/sized/sized_op.h"

namespace quern::cpu {
namespace {

Result<Shape> ShapeOfResult(const SizedRun& run, const Shape& in, std::span<const int64_t> target) {
  if (target.size() > kMaxRank) {
    return run.Error("a shape of " + std::to_string(target.size()) + " dimensions is too long");
  }
  const bool allow_zero = run.node.GetInt("allowzero", 0) != 0;
  Shape out;
  int rest = -1;           // the dimension that is what remains
  Shape left = in, right;  // of which it is made: extents that are copied cancel, also when they are 0
  bool has_zero = false;
  for (int i = 0; i < static_cast<int>(target.size()); ++i) {
    const int64_t d = target[static_cast<size_t>(i)];
    if (d < -1) {
      return run.Error("shape " + Shape(target).ToString() + " has the negative extent " + std::to_string(d));
    }
    if (d == -1) {
      if (rest >= 0) return run.Error("shape " + Shape(target).ToString() + " has more than one -1");
      rest = i;
      out.push_back(1);
    } else if (d == 0 && !allow_zero) {
      if (i >= in.rank()) {
        return run.Error("shape " + Shape(target).ToString() + " copies dimension " + std::to_string(i) +
                         " but the input has shape " + in.ToString());
      }
      out.push_back(in[i]);
      left[i] = 1;
    } else {
      has_zero = has_zero || d == 0;
      out.push_back(d);
      right.push_back(d);
    }
  }
  if (rest >= 0 && has_zero) return run.Error("shape " + Shape(target).ToString() + " has both 0 and -1");
  const std::optional<int64_t> elements = CheckedProduct((rest >= 0 ? left : in).span()),
                               others = CheckedProduct((rest >= 0 ? right : out).span());
  const bool fits = elements && others && (rest >= 0 ? *others != 0 && *elements % *others == 0 : *elements == *others);
  if (!fits) return run.Error("input of shape " + in.ToString() + " cannot become " + Shape(target).ToString());
  if (rest >= 0) out[rest] = *elements / *others;
  return out;
}

Status Run(SizedRun& run) {
  const Tensor& x = run.inputs[0];
  std::vector<int64_t> own;
  QUERN_ASSIGN_OR_RETURN(const std::span<const int64_t> target, ReadList(run, 1, own));
  QUERN_ASSIGN_OR_RETURN(const Shape shape, ShapeOfResult(run, x.shape(), target));
  if (x.owner() != nullptr) {
    run.Give(0, x.Reshaped(shape));
    return OkStatus();
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, run.Allocate(0, x.dtype(), shape));
  if (x.bytes() > 0) std::memcpy(y.raw_data(), x.raw_data(), x.bytes());
  return OkStatus();
}

std::string Reject(const Node& node) {
  return node.opset() < 5 ? "Reshape of operator set 1" : RejectUnsizedElements(node);
}

}  // namespace

const SizedOp kSizedReshape = {"Reshape", Reject, Run};

}  // namespace quern::cpu
