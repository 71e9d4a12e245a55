// Crop: images [N, C, H, W] without a border (left, top, right, bottom), or, with `scale`, a height and a width of them
// from the left and top border on.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/legacy_experimental.h"

namespace quern {
namespace {

struct Borders {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
};

bool IsNoExtent(int64_t n) { return n < 0 || n > int64_t{1} << 40; }

Result<Borders> ReadBorders(const Node& node) {
  const std::vector<int64_t> border = node.GetInts("border");
  if (border.empty()) return Borders{};
  if (border.size() != 4 || std::any_of(border.begin(), border.end(), IsNoExtent)) {
    return InvalidArgument(node.Describe() +
                           ": attribute 'border' must have 4 elements, none negative: left, top, right, bottom");
  }
  return Borders{border[0], border[1], border[2], border[3]};
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Borders border, ReadBorders(c.node()));
  const std::vector<int64_t> scale = c.node().GetInts("scale");
  if (!scale.empty() && (scale.size() != 2 || IsNoExtent(scale[0]) || IsNoExtent(scale[1]))) {
    return c.Error("attribute 'scale' must be a height and a width");
  }
  std::optional<Dims> shape = c.input_shape(0);
  if (shape) {
    if (shape->size() != 4) {
      return c.Error("input '" + c.node().input(0)->name() + "' has shape " + DimsToString(*shape) +
                     "; [N, C, H, W] is needed");
    }
    Dim &height = (*shape)[2], &width = (*shape)[3];
    const Dim rows = height - border.top - (scale.empty() ? Dim(border.bottom) : Dim(scale[0]));
    const Dim columns = width - border.left - (scale.empty() ? Dim(border.right) : Dim(scale[1]));
    if ((rows.is_constant() && rows.value() < 0) || (columns.is_constant() && columns.value() < 0)) {
      return c.Error("what is to remain of " + height.ToString() + " by " + width.ToString() +
                     " pixels lies outside of them");
    }
    height = scale.empty() ? rows : Dim(scale[0]);
    width = scale.empty() ? columns : Dim(scale[1]);
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), std::move(shape)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const Borders border, ReadBorders(c.node()));
  QUERN_ASSIGN_OR_RETURN(const ElementInput x, ElementInput::Make(c, 0));
  const Shape &in = x.shape(), &out = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(ElementOutput y, ElementOutput::Make(c, 0, x.dtype(), out));
  if (y.num_elements() == 0) return y.Finish();
  QUERN_RETURN_IF_ERROR(DispatchElements(x.dtype(), [&]<typename T>() {
    T* to = y.data<T>();
    for (int64_t plane = 0; plane < in[0] * in[1]; ++plane) {
      for (int64_t row = 0; row < out[2]; ++row) {
        to = std::copy_n(x.data<T>() + (plane * in[2] + border.top + row) * in[3] + border.left, out[3], to);
      }
    }
    return OkStatus();
  }));
  return y.Finish();
}

constexpr AttrSpec kAttributes[] = {{"border", AttrType::kInts}, {"scale", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{1, kExperimentalInput, kExperimentalOutput, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCrop = {"", "Crop", kVersions, kExperimentalNotes};

}  // namespace quern
