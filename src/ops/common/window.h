// Sliding windows over the spatial dimensions: attributes, output extents and resolved padding of Conv and the pools.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/op.h"

namespace quern {

// The attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode of a node, checked; lists have one
// entry per spatial dimension.
struct Window {
  enum class AutoPad { kNotSet, kSameUpper, kSameLower, kValid };
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil_mode = false;
  Dims kernel;
  std::vector<int64_t> strides, dilations, pads_begin, pads_end;

  int rank() const { return static_cast<int>(kernel.size()); }
  // Extent along dimension d that one window spans: (kernel - 1) * dilation + 1.
  Dim Span(int d) const { return (kernel[d] - 1) * dilations[d] + 1; }
};

// Reads the attributes for `rank` spatial dimensions. `weight_kernel` holds the kernel that a weight implies; without
// it kernel_shape is required, with it they must agree.
Result<Window> ReadWindow(const Node& node, int rank, const std::optional<Dims>& weight_kernel);

// Spatial output extents for spatial input extents; an error when the kernel exceeds the padded input.
Result<Dims> WindowOutput(const Node& node, const Window& window, const Dims& input);

// A window over concrete extents, left-padded with extents of 1 to three dimensions, so that loops are fixed.
struct Window3 {
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad_begin[3], pad_end[3];

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
  // Elements of the input that a window holds at most.
  int64_t reached_size() const {
    return std::min(kernel[0], in[0]) * std::min(kernel[1], in[1]) * std::min(kernel[2], in[2]);
  }
};
// `x` is [N, C, spatial...]; `output` the shape that WindowOutput gave. Unsupported above three spatial dimensions.
Result<Window3> MakeWindow3(const Node& node, const Window& window, const Shape& x, const Shape& output);

// Output positions [first, last) of one dimension for which tap k reads inside the input.
struct TapRange {
  int64_t first, last, input_at_first;
};
TapRange ValidTaps(const Window3& w, int d, int64_t k);

}  // namespace quern
