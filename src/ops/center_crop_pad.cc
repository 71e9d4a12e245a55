// CenterCropPad: the middle of the input, cut or surrounded with zeros to given extents.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/indices.h"
#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0), extents = c.input_data(1);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (x) {
    const int rank = static_cast<int>(x->size());
    std::vector<int> axes;
    if (const auto* given = c.node().FindAttribute<std::vector<int64_t>>("axes")) {
      QUERN_ASSIGN_OR_RETURN(axes, NormalizeAxes(c.node(), *given, rank));
    } else {
      for (int d = 0; d < rank; ++d) axes.push_back(d);
    }
    const std::optional<int64_t> length = extents ? static_cast<int64_t>(extents->size()) : KnownLength(c, 1);
    if (length && *length != static_cast<int64_t>(axes.size())) {
      return c.Error("shape has " + std::to_string(*length) + " elements for " + std::to_string(axes.size()) + " axes");
    }
    type.shape = *x;
    for (size_t i = 0; i < axes.size(); ++i) {
      Dim& d = (*type.shape)[axes[i]];
      d = extents ? (*extents)[i] : Dim::Unknown();
      if (d.is_constant() && d.value() < 0) return c.Error("shape has the negative element " + d.ToString());
    }
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput x, ElementInput::Make(c, 0));
  const Shape &in = x.shape(), &out = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(ElementOutput y, ElementOutput::Make(c, 0, x.dtype(), out));
  const Shape in_strides = in.ContiguousStrides(), out_strides = out.ContiguousStrides();
  Shape common = in;
  int64_t from = 0, to = 0;  // where the common part begins
  for (int d = 0; d < in.rank(); ++d) {
    common[d] = std::min(in[d], out[d]);
    from += (in[d] - common[d]) / 2 * in_strides[d];
    to += (out[d] - common[d]) / 2 * out_strides[d];
  }
  const int64_t count = y.num_elements() == 0 || x.num_elements() == 0 ? 0 : common.num_elements();
  QUERN_RETURN_IF_ERROR(DispatchElements(x.dtype(), [&]<typename T>() {
    std::fill_n(y.data<T>(), y.num_elements(), T{});
    IndexCounter at(common);
    for (int64_t i = 0; i < count; ++i, at.Next()) {
      int64_t source = from, target = to;
      for (int d = 0; d < common.rank(); ++d) {
        source += at.index()[d] * in_strides[d];
        target += at.index()[d] * out_strides[d];
      }
      y.data<T>()[target] = x.data<T>()[source];
    }
    return OkStatus();
  }));
  return y.Finish();
}

constexpr AttrSpec kAttributes[] = {{"axes", AttrType::kInts}};
constexpr Param kInputs[] = {{"input_data", "T", AnyTypes(18)}, {"shape", "Tind", kIndexTypes}};
constexpr Param kOutputs[] = {{"output_data", "T", AnyTypes(18)}};
constexpr OpVersion kVersions[] = {{18, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCenterCropPad = {"", "CenterCropPad", kVersions};

}  // namespace quern
