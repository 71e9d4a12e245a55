#include "image.h"

#include <cmath>
#include <memory>

#include "command.h"
#include "number.h"

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#include <stb/stb_image.h>
#include <stb/stb_image_resize.h>
#pragma GCC diagnostic pop

namespace quern_tool {
namespace {

struct Layout {
  int channel = -1, height = 0, width = 0;  // dimensions; channel -1: there is none
};

Layout FindLayout(const quern::Shape& dims, const std::string& where) {
  const int rank = static_cast<int>(dims.size());
  auto channels = [&](int d) {
    return dims[static_cast<std::size_t>(d)] == 1 || dims[static_cast<std::size_t>(d)] == 3 ||
           dims[static_cast<std::size_t>(d)] == 4;
  };
  if (rank == 2) return {-1, 0, 1};
  if (rank == 3 || rank == 4) {
    const int first = rank - 3;  // behind the batch
    if (channels(first)) return {first, first + 1, first + 2};
    if (channels(rank - 1)) return {rank - 1, first, first + 1};
    if (dims[static_cast<std::size_t>(first)] < 0) return {first, first + 1, first + 2};
  }
  throw Failure(where + ": a picture fits shapes [H,W], [N,C,H,W] or [N,H,W,C] with 1, 3 or 4 channels only");
}

double PerChannel(const std::vector<double>& values, std::size_t c, const char* option) {
  if (values.size() == 1) return values[0];
  if (c < values.size()) return values[c];
  throw Failure(std::string(option) + " has " + std::to_string(values.size()) + " values, the picture more channels",
                true);
}

}  // namespace

quern::Value ReadImage(const std::string& path, const std::string& input, std::int32_t dtype, quern::Shape dims,
                       const ImageOptions& options) {
  const std::string where = path + " for input '" + input + "'";
  const std::string file = ReadFile(path);
  const Layout layout = FindLayout(dims, where);
  auto dim = [&](int d) -> std::int64_t& { return dims[static_cast<std::size_t>(d)]; };
  const int wanted_channels = layout.channel < 0        ? 1
                              : dim(layout.channel) < 0 ? 3
                                                        : static_cast<int>(dim(layout.channel));
  int width = 0, height = 0, channels = 0;
  std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(file.data()), static_cast<int>(file.size()), &width,
                            &height, &channels, wanted_channels),
      stbi_image_free);
  if (!pixels) throw Failure(path + ": " + stbi_failure_reason());
  if (layout.channel >= 0) dim(layout.channel) = wanted_channels;
  if (dim(layout.height) < 0) dim(layout.height) = height;
  if (dim(layout.width) < 0) dim(layout.width) = width;
  const auto to_height = static_cast<int>(dim(layout.height)), to_width = static_cast<int>(dim(layout.width));
  std::vector<unsigned char> resized;
  const unsigned char* from = pixels.get();
  if (to_height != height || to_width != width) {
    resized.resize(static_cast<std::size_t>(to_height) * static_cast<std::size_t>(to_width) *
                   static_cast<std::size_t>(wanted_channels));
    if (!stbir_resize_uint8(from, width, height, 0, resized.data(), to_width, to_height, 0, wanted_channels)) {
      throw Failure(path + ": cannot be resized to " + std::to_string(to_width) + "x" + std::to_string(to_height));
    }
    from = resized.data();
  }
  for (std::int64_t& d : dims) {
    if (d < 0) d = 1;  // the batch
  }
  if (dims.size() == 4 && dims[0] != 1) {
    throw Failure(where + ": one picture cannot fill a batch of " + std::to_string(dims[0]) + "; use a .npy file");
  }
  quern::Value value = quern::Value::Tensor(dtype, dims);
  const quern::Shape strides = value.strides();
  const std::size_t c_stride =
      layout.channel < 0 ? 0 : static_cast<std::size_t>(strides[static_cast<std::size_t>(layout.channel)]);
  const auto h_stride = static_cast<std::size_t>(strides[static_cast<std::size_t>(layout.height)]);
  const auto w_stride = static_cast<std::size_t>(strides[static_cast<std::size_t>(layout.width)]);
  const auto count = static_cast<std::size_t>(wanted_channels);
  for (std::size_t c = 0; c < count; ++c) {
    const double mean = PerChannel(options.mean, c, "--mean"), std = PerChannel(options.std, c, "--std");
    const std::size_t source = options.bgr && count >= 3 && c < 3 ? 2 - c : c;
    for (std::size_t y = 0; y < static_cast<std::size_t>(to_height); ++y) {
      for (std::size_t x = 0; x < static_cast<std::size_t>(to_width); ++x) {
        const unsigned char pixel = from[(y * static_cast<std::size_t>(to_width) + x) * count + source];
        const double element = dtype == QUERN_U8 ? pixel : (pixel * options.scale - mean) / std;
        if (!StoreNumber(dtype, value.raw_data(), c * c_stride + y * h_stride + x * w_stride, element)) {
          throw Failure(where + ": element type " + quern_dtype_name(dtype) + " takes no picture");
        }
      }
    }
  }
  return value;
}

}  // namespace quern_tool
