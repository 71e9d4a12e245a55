#include "provider/cpu/common/conv_problem.h"

#include <algorithm>

#include "ops/common/window.h"
#include "provider/cpu/common/epilogue.h"

namespace quern::cpu {
namespace {

// Padding of dimension d as numbers (SAME as ONNX defines it).
std::pair<int64_t, int64_t> Padding(const Window& w, int d, const Dim& extent) {
  switch (w.auto_pad) {
    case Window::AutoPad::kNotSet:
      return {w.pads_begin[d], w.pads_end[d]};
    case Window::AutoPad::kValid:
      return {0, 0};
    default:
      break;
  }
  const int64_t span = w.Span(d).value();
  int64_t total = span - 1;  // stride 1, for which the extent does not matter
  if (w.strides[d] != 1) {
    const int64_t in = extent.value(), out = (in + w.strides[d] - 1) / w.strides[d];
    total = std::max<int64_t>(0, (out - 1) * w.strides[d] + span - in);
  }
  const int64_t small = total / 2;
  return w.auto_pad == Window::AutoPad::kSameUpper ? std::pair(small, total - small) : std::pair(total - small, small);
}

}  // namespace

ConvGeometry ConvGeometryOf(const Shape& x, const Shape& y) {
  const int r = x.rank();
  const auto depth = [r](const Shape& s) { return r < 5 ? 1 : s[1]; };
  const auto height = [r](const Shape& s) { return r < 4 ? 1 : s[r - 3]; };
  return {x[0], depth(x), height(x), x[r - 2], x.back(), depth(y), height(y), y[r - 2], y.back()};
}

bool StoresChannelsFirst(const Node& conv) { return conv.GetInt("channels_first", 0) != 0; }

Shape SeenChannelsLast(const Shape& of) {
  Shape seen = {of[0]};
  for (int d = 2; d < of.rank(); ++d) seen.push_back(of[d]);
  seen.push_back(of[1]);
  return seen;
}

Result<ConvSource> ReadConv(const Node& node, const CpuConfig& config) {
  const ValueType& x = node.input(0)->type();
  ConvSource source;
  const DType weights_type = node.input(1)->type().dtype;
  for (const Dim& d : *node.input(1)->type().shape) source.weights_shape.push_back(d.value());
  const Shape& w = source.weights_shape;
  Dims kernel_dims(w.begin() + 2, w.end());
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(node, x.rank() - 2, kernel_dims));
  // The window's width, height and depth; -1: there is none.
  const int dw = window.rank() - 1, dh = window.rank() - 2, dd = window.rank() - 3;
  const auto pads = [&](int d) {
    return d < 0 ? std::pair<int64_t, int64_t>(0, 0) : Padding(window, d, (*x.shape)[1 + d]);
  };
  const auto extent = [](const auto& list, int d) { return d < 0 ? size_t{1} : static_cast<size_t>(list[d]); };
  const auto [left, right] = pads(dw);
  const auto [top, bottom] = pads(dh);
  const auto [front, back] = pads(dd);

  kernels::ConvProblem& p = source.problem;
  p.lhs = ukernel::FormatOf(x.dtype);
  p.rhs = ukernel::FormatOf(weights_type);
  p.in_channels = static_cast<size_t>(w[1] * node.GetInt("group", 1));
  p.out_channels = static_cast<size_t>(w[0]);
  p.groups = static_cast<size_t>(node.GetInt("group", 1));
  const Shape taps(w.span().subspan(2));
  p.kernel_d = extent(taps, dd);
  p.kernel_h = extent(taps, dh);
  p.kernel_w = extent(taps, dw);
  p.stride_d = extent(window.strides, dd);
  p.stride_h = extent(window.strides, dh);
  p.stride_w = extent(window.strides, dw);
  p.dilation_d = extent(window.dilations, dd);
  p.dilation_h = extent(window.dilations, dh);
  p.dilation_w = extent(window.dilations, dw);
  p.pad_front = static_cast<size_t>(front);
  p.pad_back = static_cast<size_t>(back);
  p.pad_top = static_cast<size_t>(top);
  p.pad_bottom = static_cast<size_t>(bottom);
  p.pad_left = static_cast<size_t>(left);
  p.pad_right = static_cast<size_t>(right);
  p.precision = PrecisionFor(config);
  const Dims& y = *node.output(0)->type().shape;
  Dim pixels = 1;
  const size_t first = StoresChannelsFirst(node) ? 2 : 1;
  for (size_t i = first; i < first + y.size() - 2; ++i) pixels = pixels * y[i];
  p.expected_pixels = pixels.is_constant() ? static_cast<size_t>(pixels.value()) : 0;

  const auto element = static_cast<ptrdiff_t>(DTypeBytes(weights_type));
  kernels::ConvWeights& s = source.weights;
  s.w_stride = element;
  s.h_stride = static_cast<ptrdiff_t>(p.kernel_w) * element;
  s.d_stride = static_cast<ptrdiff_t>(p.kernel_h) * s.h_stride;
  s.i_stride = static_cast<ptrdiff_t>(p.kernel_d) * s.d_stride;
  s.o_stride = static_cast<ptrdiff_t>(w[1]) * s.i_stride;
  source.flat = dd < 0;
  source.depthwise = source.flat && kernels::Convolution::IsDepthwise(p);
  return source;
}

Result<ConvSource> ReadConvWithWeights(const Node& node, const CpuConfig& config) {
  QUERN_ASSIGN_OR_RETURN(ConvSource source, ReadConv(node, config));
  if (node.input(1)->is_constant()) {
    QUERN_ASSIGN_OR_RETURN(source.constant, node.input(1)->constant()->tensor().Transient());
    source.weights.data = source.constant.unaligned_data();
  }
  return source;
}

}  // namespace quern::cpu
