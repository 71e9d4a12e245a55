#include "provider/cpu/common/transposed_window.h"

#include <algorithm>

#include "base/checked_math.h"
#include "ops/common/window.h"
#include "provider/cpu/common/constant_expression.h"

namespace quern::cpu {
namespace {

// The phases' weights hold zeros where a stride is beyond the kernel; more of them are left to others.
constexpr int64_t kMostGrowth = 8, kSmallWeights = int64_t{1} << 20;

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

// Elements of dimension d that the whole result has before the wanted one.
Result<int64_t> PadBefore(const Node& node, const Window& window, int d) {
  if (window.auto_pad == Window::AutoPad::kNotSet && node.GetInts("output_shape").empty()) return window.pads_begin[d];
  const Dim &x = (*node.input(0)->type().shape)[d + 2], &y = (*node.output(0)->type().shape)[d + 2];
  const std::vector<int64_t> extra = node.GetInts("output_padding");
  const Dim whole = (x - 1) * window.strides[d] + window.Span(d) + (extra.empty() ? 0 : extra[d]);
  const Dim total = Dim::Max(whole - y, 0);
  if (!total.is_constant()) return Unsupported("padding that depends on the input's extents");
  const int64_t half = total.value() / 2;
  return window.auto_pad == Window::AutoPad::kSameUpper ? half : total.value() - half;
}

}  // namespace

int64_t TransposedWindow::phases() const {
  int64_t product = 1;
  for (int64_t s : strides) product *= s;
  return product;
}

bool TransposedWindow::crops() const {
  const auto some = [](int64_t n) { return n > 0; };
  return std::any_of(begin.begin(), begin.end(), some) || std::any_of(end.begin(), end.end(), some);
}

Result<TransposedWindow> ReadTransposedWindow(const Node& node) {
  const Dims &x = *node.input(0)->type().shape, &w = *node.input(1)->type().shape, &y = *node.output(0)->type().shape;
  const int rank = static_cast<int>(x.size()) - 2;
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(node, rank, Dims(w.begin() + 2, w.end())));
  TransposedWindow t;
  t.groups = node.GetInt("group", 1);
  t.strides = window.strides;
  t.dilations = window.dilations;
  for (int d = 0; d < rank; ++d) {
    const int64_t k = window.kernel[d].value(), s = window.strides[d];
    if (s > 1 && window.dilations[d] > 1) return Unsupported("a stride together with a dilation");
    t.kernel.push_back(k);
    t.taps.push_back((k + s - 1) / s);
    QUERN_ASSIGN_OR_RETURN(const int64_t pad, PadBefore(node, window, d));
    // The output ends at s * x + rest, in elements of the whole result.
    const Dim rest = y[d + 2] + pad - x[d + 2] * s;
    if (!rest.is_constant()) return Unsupported("an output whose extent does not follow from the input's");
    const int64_t first = FloorDiv(pad, s), last = -FloorDiv(-rest.value(), s);
    t.pads_begin.push_back((t.taps[d] - 1) * window.dilations[d] - first);
    t.pads_end.push_back(last);
    t.begin.push_back(pad - first * s);
    t.end.push_back(last * s - rest.value());
    if (t.pads_begin[d] < 0 || t.pads_end[d] < 0) return Unsupported("padding beyond the kernel");
  }
  std::vector<int64_t> grown = t.strides;
  for (int d = 0; d < rank; ++d) grown.push_back(t.taps[d]);
  for (int d = 0; d < 2; ++d) grown.push_back(w[d].value());
  const std::optional<int64_t> elements = CheckedProduct(grown);
  if (!elements || (*elements > kSmallWeights && *elements / kMostGrowth > Product(w).value())) {
    return Unsupported("strides far beyond the kernel");
  }
  return t;
}

std::string RejectPhases(const Node& node, const CpuConfig& config) {
  for (int i = 1; i < node.num_inputs(); ++i) {
    if (node.input(i) && !IsConstantOrFolded(node.input(i), config)) return "the weights are not constant";
  }
  if (!node.input(1)->type().has_static_shape()) return "the weights' shape does not fit";
  const Result<TransposedWindow> window = ReadTransposedWindow(node);
  if (!window.ok()) return window.status().message();
  const ValueType& x = node.input(0)->type();
  const bool woven = x.rank() == 5 || (x.rank() == 4 && window->strides[0] != window->strides[1]);
  if (woven && window->phases() > 1 && !(AllConstant(*x.shape) && node.output(0)->type().has_static_shape())) {
    return x.rank() == 5 ? "strides in three dimensions need known extents" : "strides that differ need known extents";
  }
  return {};
}

Result<TransposedBlocks> ReadTransposedBlocks(const Node& node) {
  const Dims &x = *node.input(0)->type().shape, &w = *node.input(1)->type().shape, &y = *node.output(0)->type().shape;
  const int rank = static_cast<int>(x.size()) - 2;
  for (const Dims* dims : {&x, &w, &y}) {
    if (!AllConstant(Dims(dims->begin() + 1, dims->end()))) return Unsupported("extents that are not known");
  }
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(node, rank, Dims(w.begin() + 2, w.end())));
  TransposedBlocks t;
  t.groups = node.GetInt("group", 1);
  t.strides = window.strides;
  t.dilations = window.dilations;
  for (int d = 0; d < rank; ++d) {
    const int64_t s = window.strides[d];
    QUERN_ASSIGN_OR_RETURN(const int64_t pad, PadBefore(node, window, d));
    // Behind the last block the image may end up to s - 1 elements later.
    const int64_t after = (x[d + 2].value() - 1) * s + window.Span(d).value() - y[d + 2].value() - pad;
    if (pad < 0 || after <= -s) return Unsupported("padding beyond the kernel");
    t.kernel.push_back(window.kernel[d].value());
    t.pads_begin.push_back(pad);
    t.pads_end.push_back(std::max<int64_t>(after, 0));
  }
  return t;
}

}  // namespace quern::cpu
