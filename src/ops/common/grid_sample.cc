#include "ops/common/grid_sample.h"

#include <complex>
#include <string>
#include <vector>

#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/float_io.h"
#include "ops/common/grid_taps.h"
#include "ops/common/saturate.h"

namespace quern {
namespace {

// Calls f(offset of an input plane, its taps, output offset) for every output element.
template <typename G, typename F>
void ForEachPosition(const GridAttributes& a, const Shape& in, const FloatInput<G>& grid, F f) {
  const int rank = in.rank() - 2;
  const int64_t in_plane = in.num_elements(2, in.rank()), out_plane = grid.shape().num_elements(1, rank + 1);
  std::vector<GridAxis> axes;
  for (int d = 0; d < rank; ++d) axes.emplace_back(in[2 + d], a.align_corners);
  std::vector<AxisTaps> taps(static_cast<size_t>(rank));
  const G* position = grid.data();
  for (int64_t n = 0; n < in[0]; ++n) {
    for (int64_t o = 0; o < out_plane; ++o, position += rank) {
      for (int d = 0; d < rank; ++d) taps[d] = GridTaps(a, axes[d], position[rank - 1 - d]);
      for (int64_t plane = n * in[1]; plane < (n + 1) * in[1]; ++plane) {
        f(plane * in_plane, taps.data(), plane * out_plane + o);
      }
    }
  }
}

template <typename G>
Status Sample(EvalContext& c, const GridAttributes& a, const Shape& shape) {
  QUERN_ASSIGN_OR_RETURN(const ElementInput x, ElementInput::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<G> grid, ReadFloats<G>(c, 1));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, x.dtype(), shape));
  if (out.num_elements() == 0) return out.Finish();
  if (x.num_elements() == 0 && a.padding != GridPadding::kZeros) {
    return c.Error("input '" + c.node().input(0)->name() + "' has shape " + x.shape().ToString() +
                   "; there is nothing to read");
  }
  Shape strides;
  for (int d = 2; d < x.shape().rank(); ++d) strides.push_back(x.shape().num_elements(d + 1, x.shape().rank()));
  const auto interpolate = [&]<typename T, typename Acc>(const T* from, T* to, Acc zero, auto convert) {
    ForEachPosition<G>(a, x.shape(), grid, [&](int64_t plane, const AxisTaps* taps, int64_t o) {
      const auto at = [&](int64_t i) { return static_cast<Acc>(static_cast<ComputeType<T>>(from[plane + i])); };
      to[o] = convert(SumOfTaps(taps, strides, zero, at));
    });
    return OkStatus();
  };
  Status status;
  if (a.mode == GridMode::kNearest) {
    status = DispatchElements(x.dtype(), [&]<typename T>() {
      ForEachPosition<G>(a, x.shape(), grid, [&](int64_t plane, const AxisTaps* taps, int64_t o) {
        int64_t offset = plane;
        bool inside = true;
        for (int d = 0; d < strides.rank(); ++d) {
          inside = inside && taps[d].count > 0;
          offset += inside ? taps[d].index[0] * strides[d] : 0;
        }
        out.data<T>()[o] = inside ? x.data<T>()[offset] : T{};
      });
      return OkStatus();
    });
  } else if (x.dtype() == DType::kC64) {
    status = interpolate(x.data<std::complex<float>>(), out.data<std::complex<float>>(), std::complex<double>(),
                         [](std::complex<double> v) { return std::complex<float>(v); });
  } else if (x.dtype() == DType::kC128) {
    status = interpolate(x.data<std::complex<double>>(), out.data<std::complex<double>>(), std::complex<double>(),
                         [](std::complex<double> v) { return v; });
  } else if (x.dtype() == DType::kBool) {
    status = interpolate(x.data<bool>(), out.data<bool>(), 0.0, [](double v) { return v != 0; });
  } else {
    status = DispatchNumeric(x.dtype(), [&]<typename T>() {
      return interpolate(x.data<T>(), out.data<T>(), 0.0,
                         [](double v) { return static_cast<T>(SaturateTo<ComputeType<T>>(v)); });
    });
  }
  return status.ok() ? out.Finish() : status.WithContext(c.node().Describe());
}

}  // namespace

Result<GridAttributes> ReadGridAttributes(const Node& node) {
  GridAttributes a;
  const std::string mode = node.GetString("mode", "linear"), padding = node.GetString("padding_mode", "zeros");
  if (mode == "nearest") {
    a.mode = GridMode::kNearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    a.mode = GridMode::kCubic;
  } else if (mode != "linear" && mode != "bilinear") {
    return InvalidArgument(node.Describe() + ": mode '" + mode + "' is none of linear, nearest and cubic");
  }
  if (padding == "border") {
    a.padding = GridPadding::kBorder;
  } else if (padding == "reflection") {
    a.padding = GridPadding::kReflection;
  } else if (padding != "zeros") {
    return InvalidArgument(node.Describe() + ": padding_mode '" + padding +
                           "' is none of zeros, border and reflection");
  }
  a.align_corners = node.GetInt("align_corners", 0) != 0;
  return a;
}

Status InferGridSample(InferContext& c) {
  QUERN_RETURN_IF_ERROR(ReadGridAttributes(c.node()).status());
  const std::optional<Dims> x = c.input_shape(0), grid = c.input_shape(1);
  const bool only_images = !c.node().domain().empty() || c.node().opset() < 20;
  for (int i : {0, 1}) {
    const std::optional<Dims>& shape = i == 0 ? x : grid;
    if (shape && (shape->size() < 3 || (only_images && shape->size() != 4))) {
      return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) +
                     (only_images ? "; 4 dimensions are needed" : "; 3 dimensions are the least"));
    }
  }
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (x && grid) {
    const Dim spatial(static_cast<int64_t>(x->size()) - 2);
    const bool batch_differs = (*x)[0].is_constant() && (*grid)[0].is_constant() && !((*x)[0] == (*grid)[0]);
    if (grid->size() != x->size() || batch_differs || (grid->back().is_constant() && !(grid->back() == spatial))) {
      return c.Error("a grid of shape " + DimsToString(*grid) + " does not fit an input of shape " + DimsToString(*x) +
                     "; [N, extents of the output, " + spatial.ToString() + "] is needed");
    }
  }
  if (x || grid) {
    type.shape = Dims{x ? (*x)[0] : (*grid)[0], x ? (*x)[1] : Dim::Unknown()};
    const size_t rank = (x ? x : grid)->size();
    for (size_t d = 1; d + 1 < rank; ++d) type.shape->push_back(grid ? (*grid)[d] : Dim::Unknown());
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status EvaluateGridSample(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const GridAttributes attributes, ReadGridAttributes(c.node()));
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferGridSample));
  return WithComputeType(c, c.input(1).dtype(),
                         [&]<typename G>(G) { return Sample<G>(c, attributes, outputs.shape(0)); });
}

}  // namespace quern
