#include "ops/common/quantization.h"

#include <string>

#include "ops/common/infer_common.h"

namespace quern {

Status InferQuantization(InferContext& c, DType dtype) {
  QUERN_ASSIGN_OR_RETURN(const OpVersion* version, FindOpVersion(c.node()));
  if (dtype != DType::kUndefined && !version->outputs[0].types.Has(dtype)) {
    return c.Error(std::string("the output cannot be of type ") + DTypeName(dtype) + " in operator set " +
                   std::to_string(c.node().opset()));
  }
  const std::optional<Dims> x = c.input_shape(0), scale = c.input_shape(1), zero = c.input_shape(2);
  c.SetOutputType(0, ValueType::Tensor(dtype, x));
  const auto differ = [](const Dim& a, const Dim& b) {
    return a.is_constant() && b.is_constant() && a.value() != b.value();
  };
  if (scale && zero) {
    bool same = scale->size() == zero->size();
    for (size_t d = 0; same && d < scale->size(); ++d) same = !differ((*scale)[d], (*zero)[d]);
    same = same || (Product(*scale).is_constant(1) && Product(*zero).is_constant(1));
    if (!same) {
      return c.Error("scale has shape " + DimsToString(*scale) + " but zero point has " + DimsToString(*zero));
    }
  }
  if (!x || !scale || scale->empty() || (scale->size() == 1 && (*scale)[0].is_constant(1))) return OkStatus();
  const int64_t block = c.node().GetInt("block_size", 0);
  if (block < 0) return c.Error("attribute 'block_size' is " + std::to_string(block) + ", it must not be negative");
  QUERN_ASSIGN_OR_RETURN(const int axis,
                         NormalizeAxis(c.node(), c.node().GetInt("axis", 1), static_cast<int>(x->size())));
  if (block == 0) {
    if (scale->size() != 1 || differ((*scale)[0], (*x)[axis])) {
      return c.Error("scale has shape " + DimsToString(*scale) + "; a scalar or [" + (*x)[axis].ToString() +
                     "] (axis " + std::to_string(axis) + " of the input) is needed");
    }
    return OkStatus();
  }
  bool fits = scale->size() == x->size();
  for (size_t d = 0; fits && d < x->size(); ++d) {
    fits = !differ((*scale)[d], static_cast<int>(d) == axis ? Dim::CeilDiv((*x)[d], block) : (*x)[d]);
  }
  if (!fits) {
    return c.Error("scale has shape " + DimsToString(*scale) + ", which does not fit blocks of " +
                   std::to_string(block) + " along axis " + std::to_string(axis) + " of " + DimsToString(*x));
  }
  return OkStatus();
}

Result<QuantizationLayout> QuantizationLayout::Make(const EvalContext& c, const Shape& x, const Shape& scale) {
  QuantizationLayout l;
  if (scale.rank() == 0 || (scale.rank() == 1 && scale[0] == 1)) {
    l.inner_ = x.num_elements();
    return l;
  }
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 1), x.rank()));
  l.outer_ = x.num_elements(0, axis);
  l.extent_ = x[axis];
  l.inner_ = x.num_elements(axis + 1, x.rank());
  l.block_step_ = 1;
  if (const int64_t block = c.node().GetInt("block_size", 0); block > 0) {
    l.block_ = block;
    l.inner_step_ = 1;
    l.block_step_ = l.inner_;
    l.outer_step_ = scale[axis] * l.inner_;
  }
  return l;
}

}  // namespace quern
