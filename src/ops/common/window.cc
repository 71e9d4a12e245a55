#include "ops/common/window.h"

#include <algorithm>
#include <string>

namespace quern {
namespace {

Status NodeError(const Node& node, std::string message) {
  return InvalidArgument(node.Describe() + ": " + std::move(message));
}

// The list attribute `name` with `count` entries of at least `low`, or `count` times `otherwise`.
Result<std::vector<int64_t>> ReadList(const Node& node, const char* name, int count, int64_t low, int64_t otherwise) {
  std::vector<int64_t> list = node.GetInts(name);
  if (list.empty()) return std::vector<int64_t>(count, otherwise);
  if (static_cast<int>(list.size()) != count) {
    return NodeError(node, std::string("attribute '") + name + "' has " + std::to_string(list.size()) +
                               " entries, the input needs " + std::to_string(count));
  }
  for (int64_t v : list) {
    if (v < low || v > (int64_t{1} << 31)) {
      return NodeError(
          node, std::string("attribute '") + name + "' has the entry " + std::to_string(v) + ", which is out of range");
    }
  }
  return list;
}

}  // namespace

Result<Window> ReadWindow(const Node& node, int rank, const std::optional<Dims>& weight_kernel) {
  Window w;
  const std::string auto_pad = node.GetString("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER") {
    w.auto_pad = Window::AutoPad::kSameUpper;
  } else if (auto_pad == "SAME_LOWER") {
    w.auto_pad = Window::AutoPad::kSameLower;
  } else if (auto_pad == "VALID") {
    w.auto_pad = Window::AutoPad::kValid;
  } else if (auto_pad != "NOTSET" && !auto_pad.empty()) {
    return NodeError(node,
                     "attribute 'auto_pad' is '" + auto_pad + "'; NOTSET, SAME_UPPER, SAME_LOWER or VALID is needed");
  }
  w.ceil_mode = node.GetInt("ceil_mode", 0) != 0;
  QUERN_ASSIGN_OR_RETURN(w.strides, ReadList(node, "strides", rank, 1, 1));
  QUERN_ASSIGN_OR_RETURN(w.dilations, ReadList(node, "dilations", rank, 1, 1));
  QUERN_ASSIGN_OR_RETURN(std::vector<int64_t> pads, ReadList(node, "pads", 2 * rank, -(int64_t{1} << 31), 0));
  if (w.auto_pad != Window::AutoPad::kNotSet) pads.assign(2 * rank, 0);
  w.pads_begin.assign(pads.begin(), pads.begin() + rank);
  w.pads_end.assign(pads.begin() + rank, pads.end());
  const bool has_attribute = !node.GetInts("kernel_shape").empty();
  if (!has_attribute && !weight_kernel) return NodeError(node, "attribute 'kernel_shape' is missing");
  if (has_attribute) {
    QUERN_ASSIGN_OR_RETURN(std::vector<int64_t> kernel, ReadList(node, "kernel_shape", rank, 1, 1));
    w.kernel.assign(kernel.begin(), kernel.end());
    for (int d = 0; weight_kernel && d < rank; ++d) {
      const Dim& k = (*weight_kernel)[d];
      if (k.is_constant() && k.value() != kernel[d]) {
        return NodeError(node, "attribute 'kernel_shape' is " + DimsToString(w.kernel) +
                                   " but the weight has a kernel of " + DimsToString(*weight_kernel));
      }
    }
  } else {
    w.kernel = *weight_kernel;
    for (const Dim& k : w.kernel) {
      if (k.is_constant() && k.value() < 1) {
        return NodeError(node, "the weight has an empty kernel " + DimsToString(w.kernel));
      }
    }
  }
  return w;
}

Result<Dims> WindowOutput(const Node& node, const Window& w, const Dims& input) {
  Dims output;
  for (int d = 0; d < w.rank(); ++d) {
    if (w.auto_pad == Window::AutoPad::kSameUpper || w.auto_pad == Window::AutoPad::kSameLower) {
      output.push_back(Dim::CeilDiv(input[d], w.strides[d]));
      continue;
    }
    const Dim room = input[d] + w.pads_begin[d] + w.pads_end[d] - w.Span(d);
    // Rounded up, a window that reaches over both ends of the input is one.
    const int64_t least = w.ceil_mode ? 1 - w.strides[d] : 0;
    if (room.is_constant() && room.value() < least) {
      return NodeError(node, "the kernel spans " + w.Span(d).ToString() + " in spatial dimension " + std::to_string(d) +
                                 " but the padded input has only " +
                                 (input[d] + w.pads_begin[d] + w.pads_end[d]).ToString());
    }
    if (w.ceil_mode) {
      // Windows that would start in the padding behind the input are left out.
      output.push_back(
          Dim::Min(Dim::CeilDiv(room, w.strides[d]) + 1, Dim::CeilDiv(input[d] + w.pads_begin[d], w.strides[d])));
    } else {
      output.push_back(Dim::FloorDiv(room, w.strides[d]) + 1);
    }
  }
  return output;
}

Result<Window3> MakeWindow3(const Node& node, const Window& w, const Shape& x, const Shape& output) {
  const int rank = w.rank();
  if (rank > 3) {
    return Unsupported(node.Describe() + ": " + std::to_string(rank) + " spatial dimensions; up to 3 are supported");
  }
  Window3 r;
  for (int i = 0; i < 3; ++i) {
    r.in[i] = r.out[i] = r.kernel[i] = r.stride[i] = r.dilation[i] = 1;
    r.pad_begin[i] = r.pad_end[i] = 0;
  }
  for (int d = 0; d < rank; ++d) {
    const int i = 3 - rank + d;
    r.in[i] = x[2 + d];
    r.out[i] = output[2 + d];
    r.kernel[i] = w.kernel[d].value();
    r.stride[i] = w.strides[d];
    r.dilation[i] = w.dilations[d];
    r.pad_begin[i] = w.pads_begin[d];
    r.pad_end[i] = w.pads_end[d];
    if (w.auto_pad == Window::AutoPad::kSameUpper || w.auto_pad == Window::AutoPad::kSameLower) {
      const int64_t total = std::max<int64_t>(0, (r.out[i] - 1) * r.stride[i] + w.Span(d).value() - r.in[i]);
      const int64_t less = total / 2;
      r.pad_begin[i] = w.auto_pad == Window::AutoPad::kSameUpper ? less : total - less;
      r.pad_end[i] = total - r.pad_begin[i];
    }
  }
  return r;
}

TapRange ValidTaps(const Window3& w, int d, int64_t k) {
  const int64_t offset = k * w.dilation[d] - w.pad_begin[d];  // input index = out * stride + offset
  const int64_t stride = w.stride[d];
  const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t past = w.in[d] - offset;  // out * stride < past
  const int64_t last = past <= 0 ? 0 : std::min(w.out[d], (past + stride - 1) / stride);
  return {first, std::max(first, last), first * stride + offset};
}

}  // namespace quern
