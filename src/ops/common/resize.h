// Resize and Upsample: attributes, output extents, and for each axis the input taps of every output coordinate.
#pragma once

#include <string>
#include <vector>

#include "ops/op.h"

namespace quern {

enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };
enum class ResizeCoordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNearest,
  kTfCropAndResize
};
// kSimple: of operator sets up to 10: floor, but ceil when shrinking.
enum class ResizeNearest : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil, kSimple };

struct ResizeAttributes {
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoordinates coordinates = ResizeCoordinates::kHalfPixel;
  ResizeNearest nearest = ResizeNearest::kRoundPreferFloor;
  float cubic_a = -0.75f;
  float extrapolation_value = 0;
  bool exclude_outside = false;
  bool antialias = false;
};
// The attributes of a Resize or Upsample node of any version, checked.
Result<ResizeAttributes> ReadResizeAttributes(const Node& node);

// The scales that Upsample has as attributes before operator set 9: of all dimensions, or (before 7) of the last two of
// four.
std::vector<float> ScalesOfAttributes(const Node& node);

// How one axis is resized. `scale` is output by input, as given or as the sizes imply.
struct ResizeAxis {
  int64_t in = 1, out = 1;
  float scale = 1;
  float roi_begin = 0, roi_end = 1;  // kTfCropAndResize: as parts of the input
  float exact_out = 1;               // `out` before rounding down: scale * in where scales are given
  bool resized() const { return in != out || scale != 1.0f || roi_begin != 0.0f || roi_end != 1.0f; }
};

// Taps of one axis: output coordinate o reads input positions indices[o * count + t] with weights[o * count + t] (which
// sum to 1). Where outside[o] is set, the output is the extrapolation value.
struct ResizeTaps {
  int count = 1;
  std::vector<int64_t> indices;
  std::vector<float> weights;
  std::vector<bool> outside;
};
ResizeTaps MakeResizeTaps(const ResizeAttributes& attributes, const ResizeAxis& axis);

// All axes of a node from its inputs: `sizes` or `scales` for `axes` (all when not given); the other is null. roi:
// empty or begins and ends per axis. Errors name the node.
Result<std::vector<ResizeAxis>> MakeResizeAxes(const Node& node, const Shape& in, const std::vector<float>* scales,
                                               const std::vector<int64_t>* sizes, const std::vector<float>& roi);

// Inference and evaluation for both operators; which inputs are there follows from the node's version.
Status InferResize(InferContext& c);
Status EvaluateResize(EvalContext& c);

}  // namespace quern
