// What a Conv of this provider says, for the drivers: geometry, and where its weights lie.
#pragma once

#include "base/status.h"
#include "graph/graph.h"
#include "kernels/convolution.h"
#include "provider/cpu/cpu_op.h"
#include "tensor/tensor.h"

namespace quern::cpu {

// [images, depth, height, width, channels] of input and output, of one to three spatial dimensions.
struct ConvGeometry {
  int64_t images, in_d, in_h, in_w, channels, out_d, out_h, out_w, out_channels;
};
ConvGeometry ConvGeometryOf(const Shape& x, const Shape& y);

// Whether a Conv of kCpuDomain stores [N, C, spatial...] (attribute `channels_first`, cpu_store_channels_first). Its
// other operands are channels last all the same.
bool StoresChannelsFirst(const Node& conv);
// Extents or strides of [N, C, spatial...] as those of [N, spatial..., C].
Shape SeenChannelsLast(const Shape& of);

struct ConvSource {
  kernels::ConvProblem problem;
  kernels::ConvWeights weights;  // without data where it was not read, or comes with the run
  Shape weights_shape;           // [O, I/g, kernel...]
  Tensor constant;               // keeps the memory of weights.data
  bool flat = false;             // two dimensions at most
  bool depthwise = false;        // two dimensions at most, each input channel by itself
};

// Reads a Conv of kCpuDomain (input [N, spatial..., C]) that the provider claims, but for the weights' data.
Result<ConvSource> ReadConv(const Node& node, const CpuConfig& config);
// With the data of constant weights, for kernels that pack it.
Result<ConvSource> ReadConvWithWeights(const Node& node, const CpuConfig& config);

}  // namespace quern::cpu
