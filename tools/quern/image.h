// Pictures as tensors: PNG (and what else stb reads), scaled to a model's input.
#pragma once

#include <string>
#include <vector>

#include "quern/quern.hpp"

namespace quern_tool {

// element = (pixel * scale - mean[c]) / std[c], pixel in 0..255. Vectors of one entry serve every channel.
struct ImageOptions {
  double scale = 1.0 / 255;
  std::vector<double> mean = {0};
  std::vector<double> std = {1};
  bool bgr = false;
};

// Reads a picture for an input of element type `dtype` and extents `dims` (-1: open): [H,W], [C,H,W], [H,W,C],
// [N,C,H,W] or [N,H,W,C] with 1, 3 or 4 channels. Open extents follow the picture, fixed ones resize it. u8 inputs get
// the pixels as they are. Failures name the path and the input.
quern::Value ReadImage(const std::string& path, const std::string& input, std::int32_t dtype, quern::Shape dims,
                       const ImageOptions& options);

}  // namespace quern_tool
