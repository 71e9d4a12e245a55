// DepthToSpace and SpaceToDepth: blocks of channels against blocks of pixels.
#pragma once

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/infer_common.h"

namespace quern {

// Block size and mode, checked.
struct DepthSpace {
  int64_t block = 1;
  bool depth_first = true;  // mode DCR: the block position is the slow part of the channel number
};
inline Result<DepthSpace> ReadDepthSpace(const Node& node) {
  DepthSpace d;
  d.block = node.GetInt("blocksize", 0);
  if (d.block < 1 || d.block > (1 << 20)) {
    return InvalidArgument(node.Describe() + ": blocksize " + std::to_string(d.block) + " is not positive");
  }
  const std::string mode = node.GetString("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return InvalidArgument(node.Describe() + ": mode '" + mode + "' is not known");
  d.depth_first = mode == "DCR";
  return d;
}

// Extents of the smaller-picture side [n, channels * block * block, h, w] mapped to the larger one or back.
inline Status InferDepthSpace(InferContext& c, bool to_space) {
  QUERN_ASSIGN_OR_RETURN(const DepthSpace d, ReadDepthSpace(c.node()));
  const std::optional<Dims> shape = c.input_shape(0);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (shape) {
    if (shape->size() != 4)
      return c.Error("the input has shape " + DimsToString(*shape) + ", four dimensions are needed");
    Dims out = *shape;
    auto divide = [&](int i, int64_t by) -> Status {
      if (out[i].is_constant() && out[i].value() % by != 0) {
        return c.Error("dimension " + std::to_string(i) + " of " + DimsToString(*shape) + " is not a multiple of " +
                       std::to_string(by));
      }
      out[i] = Dim::FloorDiv(out[i], Dim(by));
      return OkStatus();
    };
    if (to_space) {
      QUERN_RETURN_IF_ERROR(divide(1, d.block * d.block));
      out[2] = out[2] * Dim(d.block);
      out[3] = out[3] * Dim(d.block);
    } else {
      QUERN_RETURN_IF_ERROR(divide(2, d.block));
      QUERN_RETURN_IF_ERROR(divide(3, d.block));
      out[1] = out[1] * Dim(d.block * d.block);
    }
    type.shape = std::move(out);
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

inline Status EvaluateDepthSpace(EvalContext& c, bool to_space, Status (*infer)(InferContext&)) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, infer));
  QUERN_ASSIGN_OR_RETURN(const DepthSpace d, ReadDepthSpace(c.node()));
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, in.dtype(), outputs.shape(0)));
  const Shape& deep = to_space ? in.shape() : out.shape();  // [n, channels * b * b, h, w]
  const Shape& wide = to_space ? out.shape() : in.shape();  // [n, channels, h * b, w * b]
  const int64_t b = d.block, channels = wide[1], h = deep[2], w = deep[3];
  QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
    const T* x = in.data<T>();
    T* y = out.data<T>();
    int64_t at = 0;  // walks the wide side in order
    for (int64_t n = 0; n < wide[0]; ++n) {
      for (int64_t ch = 0; ch < channels; ++ch) {
        for (int64_t i = 0; i < h * b; ++i) {
          for (int64_t j = 0; j < w * b; ++j, ++at) {
            const int64_t position = i % b * b + j % b;
            const int64_t channel = d.depth_first ? position * channels + ch : ch * b * b + position;
            const int64_t other = ((n * deep[1] + channel) * h + i / b) * w + j / b;
            if (to_space) {
              y[at] = x[other];
            } else {
              y[other] = x[at];
            }
          }
        }
      }
    }
    return OkStatus();
  }));
  return out.Finish();
}

}  // namespace quern
