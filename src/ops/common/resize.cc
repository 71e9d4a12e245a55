#include "ops/common/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"
#include "ops/common/interpolation.h"
#include "ops/common/saturate.h"
#include "ops/common/view.h"

namespace quern {
namespace {

template <typename E>
struct Named {
  const char* name;
  E value;
};
constexpr Named<ResizeMode> kModes[] = {{"nearest", ResizeMode::kNearest},
                                        {"linear", ResizeMode::kLinear},
                                        {"bilinear", ResizeMode::kLinear},  // Upsample of operator set 7, in the field
                                        {"cubic", ResizeMode::kCubic}};
constexpr Named<ResizeCoordinates> kCoordinates[] = {
    {"half_pixel", ResizeCoordinates::kHalfPixel},
    {"half_pixel_symmetric", ResizeCoordinates::kHalfPixelSymmetric},
    {"pytorch_half_pixel", ResizeCoordinates::kPytorchHalfPixel},
    {"align_corners", ResizeCoordinates::kAlignCorners},
    {"asymmetric", ResizeCoordinates::kAsymmetric},
    {"tf_half_pixel_for_nn", ResizeCoordinates::kTfHalfPixelForNearest},
    {"tf_crop_and_resize", ResizeCoordinates::kTfCropAndResize}};
constexpr Named<ResizeNearest> kNearests[] = {{"round_prefer_floor", ResizeNearest::kRoundPreferFloor},
                                              {"round_prefer_ceil", ResizeNearest::kRoundPreferCeil},
                                              {"floor", ResizeNearest::kFloor},
                                              {"ceil", ResizeNearest::kCeil}};

template <typename E, size_t N>
Result<E> FindNamed(const Node& node, const Named<E> (&table)[N], const char* attribute, const char* otherwise) {
  const std::string text = node.GetString(attribute, otherwise);
  for (const Named<E>& row : table) {
    if (text == row.name) return row.value;
  }
  return InvalidArgument(node.Describe() + ": " + attribute + " '" + text + "' is not known");
}

// Resize from operator set 11 on has coordinates, sizes and more; before, and as Upsample, only scales.
bool IsOld(const Node& node) { return node.op_type() == "Upsample" || node.opset() < 11; }

// The position in the input (fractional) of output coordinate o. Single precision, as other runtimes compute it: which
// of two neighbours is nearest may depend on it.
float OriginalCoordinate(const ResizeAttributes& a, const ResizeAxis& axis, int64_t o) {
  const float x = static_cast<float>(o), in = static_cast<float>(axis.in), out = static_cast<float>(axis.out);
  switch (a.coordinates) {
    case ResizeCoordinates::kHalfPixel:
      return (x + 0.5f) / axis.scale - 0.5f;
    case ResizeCoordinates::kHalfPixelSymmetric:
      return in / 2 * (1 - out / axis.exact_out) + (x + 0.5f) / axis.scale - 0.5f;
    case ResizeCoordinates::kPytorchHalfPixel:
      return axis.out > 1 ? (x + 0.5f) / axis.scale - 0.5f : 0.0f;
    case ResizeCoordinates::kAlignCorners:
      return axis.out == 1 ? 0.0f : x * (in - 1) / (axis.exact_out - 1);
    case ResizeCoordinates::kAsymmetric:
      return x / axis.scale;
    case ResizeCoordinates::kTfHalfPixelForNearest:
      return (x + 0.5f) / axis.scale;
    case ResizeCoordinates::kTfCropAndResize:
      return axis.out > 1 ? axis.roi_begin * (in - 1) + x * (axis.roi_end - axis.roi_begin) * (in - 1) / (out - 1)
                          : 0.5f * (axis.roi_begin + axis.roi_end) * (in - 1);
  }
  return 0;
}

int64_t NearestIndex(ResizeNearest rule, float x, bool shrinks) {
  switch (rule) {
    case ResizeNearest::kRoundPreferFloor:
      return static_cast<int64_t>(std::ceil(x - 0.5f));
    case ResizeNearest::kRoundPreferCeil:
      return static_cast<int64_t>(std::floor(x + 0.5f));
    case ResizeNearest::kFloor:
      return static_cast<int64_t>(std::floor(x));
    case ResizeNearest::kCeil:
      return static_cast<int64_t>(std::ceil(x));
    case ResizeNearest::kSimple:
      return static_cast<int64_t>(shrinks ? std::ceil(x) : std::floor(x));
  }
  return 0;
}

// Sums over the taps of one axis: in [outer, axis.in, inner] -> out [outer, axis.out, inner].
template <typename C>
std::vector<C> Interpolate(const std::vector<C>& in, const ResizeTaps& taps, int64_t outer, int64_t extent,
                           int64_t out_extent, int64_t inner) {
  std::vector<C> out(static_cast<size_t>(outer * out_extent * inner));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < out_extent; ++j) {
      C* row = out.data() + (o * out_extent + j) * inner;
      std::fill_n(row, inner, C{0});
      for (int t = 0; t < taps.count; ++t) {
        const C weight = static_cast<C>(taps.weights[j * taps.count + t]);
        if (weight == 0) continue;
        const C* source = in.data() + (o * extent + taps.indices[j * taps.count + t]) * inner;
        for (int64_t i = 0; i < inner; ++i) row[i] += weight * source[i];
      }
    }
  }
  return out;
}

std::optional<std::vector<float>> FloatsOf(const Value* value) {
  if (value == nullptr || !value->is_tensor()) return std::nullopt;
  std::vector<float> result;
  Result<Tensor> t = value->tensor().Contiguous();
  if (!t.ok()) return std::nullopt;
  const Status status = DispatchFloat(t->dtype(), [&]<typename T>() {
    for (const T& v : t->values<T>()) result.push_back(static_cast<float>(static_cast<ComputeType<T>>(v)));
    return OkStatus();
  });
  return status.ok() ? std::optional(std::move(result)) : std::nullopt;
}

// Positions of the operands for this version; -1: it has none.
struct Operands {
  int roi = -1, scales = -1, sizes = -1;
};
Operands OperandsOf(const Node& node) {
  if (!IsOld(node)) return {1, 2, 3};
  if (node.op_type() == "Upsample" && node.opset() < 9) return {};
  return {-1, 1, -1};
}

// An operand that is there: present and not the empty tensor that stands for "not given".
bool IsGiven(const InferContext& c, int i) {
  if (i < 0 || !c.HasInput(i)) return false;
  const std::optional<Dims> shape = c.input_shape(i);
  return !(shape && shape->size() == 1 && shape->front().is_constant(0));
}

Result<std::vector<int>> ResizedAxes(const Node& node, int rank) {
  if (const auto* axes = node.FindAttribute<std::vector<int64_t>>("axes")) return NormalizeAxes(node, *axes, rank);
  std::vector<int> all;
  for (int i = 0; i < rank; ++i) all.push_back(i);
  return all;
}

}  // namespace

Result<ResizeAttributes> ReadResizeAttributes(const Node& node) {
  ResizeAttributes a;
  QUERN_ASSIGN_OR_RETURN(a.mode, FindNamed(node, kModes, "mode", "nearest"));
  if (IsOld(node)) {
    a.coordinates = ResizeCoordinates::kAsymmetric;
    a.nearest = ResizeNearest::kSimple;
    return a;
  }
  QUERN_ASSIGN_OR_RETURN(a.coordinates, FindNamed(node, kCoordinates, "coordinate_transformation_mode", "half_pixel"));
  QUERN_ASSIGN_OR_RETURN(a.nearest, FindNamed(node, kNearests, "nearest_mode", "round_prefer_floor"));
  a.cubic_a = node.GetFloat("cubic_coeff_a", -0.75f);
  a.extrapolation_value = node.GetFloat("extrapolation_value", 0.0f);
  a.exclude_outside = node.GetInt("exclude_outside", 0) != 0;
  a.antialias = node.GetInt("antialias", 0) != 0;
  return a;
}

std::vector<float> ScalesOfAttributes(const Node& node) {
  if (const auto* scales = node.FindAttribute<std::vector<float>>("scales")) return *scales;
  const float *height = node.FindAttribute<float>("height_scale"), *width = node.FindAttribute<float>("width_scale");
  if (height == nullptr || width == nullptr) return {};
  return {1, 1, *height, *width};
}

ResizeTaps MakeResizeTaps(const ResizeAttributes& a, const ResizeAxis& axis) {
  ResizeTaps taps;
  // With antialiasing a filter is stretched over as many input pixels as an output pixel covers.
  const double stretch = a.antialias ? std::min(1.0, static_cast<double>(axis.scale)) : 1.0;
  const double radius = a.mode == ResizeMode::kCubic ? 2 : 1;
  int64_t first = 0;  // tap 0 relative to the pixel at or before the position
  if (a.mode != ResizeMode::kNearest) {
    first = static_cast<int64_t>(std::floor(-radius / stretch) + 1);
    taps.count = static_cast<int>(std::min<int64_t>(2 - 2 * first, int64_t{1} << 24));
  }
  const bool crops = a.coordinates == ResizeCoordinates::kTfCropAndResize;
  std::vector<double> weights(static_cast<size_t>(taps.count));
  taps.outside.assign(static_cast<size_t>(axis.out), false);
  for (int64_t o = 0; o < axis.out; ++o) {
    const float x = OriginalCoordinate(a, axis, o);
    if (crops && !(x >= 0 && x <= static_cast<float>(axis.in - 1))) taps.outside[o] = true;
    // Far outside (and NaN) the edge pixel counts; the clamp keeps the conversions below defined.
    const float near = std::isnan(x) ? 0 : std::clamp(x, -1e9f, static_cast<float>(axis.in) + 1e9f);
    if (a.mode == ResizeMode::kNearest) {
      const int64_t i = NearestIndex(a.nearest, near, axis.scale < 1);
      taps.indices.push_back(std::clamp<int64_t>(i, 0, axis.in - 1));
      taps.weights.push_back(1);
      continue;
    }
    const double floor = std::floor(static_cast<double>(near)), ratio = static_cast<double>(near) - floor;
    const int64_t base = static_cast<int64_t>(floor) + first;
    double sum = 0;
    for (int t = 0; t < taps.count; ++t) {
      const double distance = (static_cast<double>(first + t) - ratio) * stretch;
      double& w = weights[t];
      w = a.mode == ResizeMode::kCubic ? CubicWeight(a.cubic_a, distance) : std::max(0.0, 1 - std::fabs(distance));
      if (a.exclude_outside && (base + t < 0 || base + t >= axis.in)) w = 0;
      sum += w;
    }
    for (int t = 0; t < taps.count; ++t) {
      taps.indices.push_back(std::clamp<int64_t>(base + t, 0, axis.in - 1));
      taps.weights.push_back(static_cast<float>(sum != 0 ? weights[t] / sum : 0));
    }
  }
  return taps;
}

Result<std::vector<ResizeAxis>> MakeResizeAxes(const Node& node, const Shape& in, const std::vector<float>* scales,
                                               const std::vector<int64_t>* sizes, const std::vector<float>& roi) {
  auto error = [&](std::string message) { return InvalidArgument(node.Describe() + ": " + std::move(message)); };
  QUERN_ASSIGN_OR_RETURN(const std::vector<int> axes, ResizedAxes(node, in.rank()));
  const size_t given = scales != nullptr ? scales->size() : sizes->size();
  if (given != axes.size()) {
    return error(std::to_string(given) + (scales != nullptr ? " scales" : " sizes") + " are given for " +
                 std::to_string(axes.size()) + " dimensions");
  }
  const bool crops = node.GetString("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  if (crops && roi.size() != 2 * axes.size()) {
    return error("roi has " + std::to_string(roi.size()) + " elements, " + std::to_string(2 * axes.size()) +
                 " are needed");
  }
  std::vector<ResizeAxis> result;
  for (int d = 0; d < in.rank(); ++d)
    result.push_back({.in = in[d], .out = in[d], .exact_out = static_cast<float>(in[d])});
  const std::string policy = node.GetString("keep_aspect_ratio_policy", "stretch");
  float common = 0;
  if (sizes != nullptr && policy != "stretch") {
    if (policy != "not_larger" && policy != "not_smaller")
      return error("keep_aspect_ratio_policy '" + policy + "' is not known");
    for (size_t i = 0; i < axes.size(); ++i) {
      const float scale = static_cast<float>((*sizes)[i]) / static_cast<float>(in[axes[i]]);
      common = i == 0 ? scale : policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
    }
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis& axis = result[axes[i]];
    if (crops) {
      axis.roi_begin = roi[i];
      axis.roi_end = roi[axes.size() + i];
    }
    float out = 0;
    if (scales != nullptr) {
      axis.scale = (*scales)[i];
      if (!(axis.scale > 0)) return error("scale " + std::to_string(axis.scale) + " is not positive");
      const float cover = crops ? axis.roi_end - axis.roi_begin : 1.0f;
      out = std::floor(static_cast<float>(axis.in) * cover * axis.scale);
    } else if (policy != "stretch") {
      axis.scale = common;
      out = std::floor(static_cast<float>(axis.in) * common + 0.5f);
    } else {
      axis.out = (*sizes)[i];
      if (axis.out < 0) return error("size " + std::to_string(axis.out) + " is negative");
      axis.scale = axis.in == 0 ? 1.0f : static_cast<float>(axis.out) / static_cast<float>(axis.in);
      axis.exact_out = static_cast<float>(axis.out);
      if (axis.in == 0 && axis.out > 0) return error("an empty dimension cannot be resized");
      continue;
    }
    if (!(out >= 0 && out < 1e15f)) return error("the output would have extent " + std::to_string(out));
    axis.out = static_cast<int64_t>(out);
    axis.exact_out = scales != nullptr ? axis.scale * static_cast<float>(axis.in) : out;
    if (axis.in == 0 && axis.out > 0) return error("an empty dimension cannot be resized");
  }
  return result;
}

Status InferResize(InferContext& c) {
  QUERN_RETURN_IF_ERROR(ReadResizeAttributes(c.node()).status());
  const std::optional<Dims> in = c.input_shape(0);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (!in) {
    c.SetOutputType(0, std::move(type));
    return OkStatus();
  }
  const int rank = static_cast<int>(in->size());
  QUERN_ASSIGN_OR_RETURN(const std::vector<int> axes, ResizedAxes(c.node(), rank));
  const Operands at = OperandsOf(c.node());
  std::optional<std::vector<float>> scales;
  std::optional<Dims> sizes;
  bool by_sizes = false;
  if (at.scales < 0) {
    scales = ScalesOfAttributes(c.node());
  } else if (IsGiven(c, at.sizes)) {
    by_sizes = true;
    if (IsGiven(c, at.scales)) return c.Error("scales and sizes are both given");
    sizes = c.input_data(at.sizes);
  } else if (IsGiven(c, at.scales)) {
    scales = FloatsOf(c.input_constant(at.scales));
  } else if (rank > 0) {
    return c.Error("scales or sizes are needed");
  }
  std::optional<std::vector<float>> roi;
  const bool crops = c.node().GetString("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  if (crops) roi = FloatsOf(at.roi >= 0 && c.HasInput(at.roi) ? c.input_constant(at.roi) : nullptr);
  const bool roi_known = !crops || roi.has_value() || by_sizes;
  if (AllConstant(*in) && rank <= kMaxRank && (scales || (sizes && AllConstant(*sizes))) && roi_known) {
    Shape shape;
    for (const Dim& d : *in) shape.push_back(d.value());
    std::vector<int64_t> numbers;
    if (sizes) {
      for (const Dim& d : *sizes) numbers.push_back(d.value());
    }
    if (crops && !roi) roi.emplace(2 * axes.size(), 0.0f);  // the extents do not depend on it
    QUERN_ASSIGN_OR_RETURN(const std::vector<ResizeAxis> resized,
                           MakeResizeAxes(c.node(), shape, scales ? &*scales : nullptr, sizes ? &numbers : nullptr,
                                          roi ? *roi : std::vector<float>()));
    type.shape = Dims();
    for (const ResizeAxis& axis : resized) type.shape->push_back(Dim(axis.out));
    c.SetOutputType(0, std::move(type));
    return OkStatus();
  }
  Dims out = *in;
  const bool stretch = c.node().GetString("keep_aspect_ratio_policy", "stretch") == "stretch";
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& d = out[axes[i]];
    if (sizes && i < sizes->size() && stretch) {
      d = (*sizes)[i];
    } else if (scales && i < scales->size() && !crops) {
      const float scale = (*scales)[i];
      const float inverse = std::round(1 / scale);
      if (scale == std::floor(scale) && scale >= 1 && scale < 1e6f) {
        d = d * Dim(static_cast<int64_t>(scale));
      } else if (scale > 0 && inverse < 1e6f && std::exp2(std::round(std::log2(inverse))) == inverse &&
                 1 / inverse == scale) {
        d = Dim::FloorDiv(d, Dim(static_cast<int64_t>(inverse)));  // powers of two: exact in float
      } else {
        d = Dim::Unknown();
      }
    } else {
      d = Dim::Unknown();
    }
  }
  type.shape = std::move(out);
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status EvaluateResize(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ResizeAttributes attributes, ReadResizeAttributes(c.node()));
  const Operands at = OperandsOf(c.node());
  auto given = [&](int i) { return i >= 0 && c.HasInput(i) && ShapeOf(c.input_value(i)).num_elements() > 0; };
  std::vector<float> scales, roi;
  std::vector<int64_t> sizes;
  const bool by_sizes = given(at.sizes);
  if (by_sizes) {
    if (given(at.scales)) return c.Error("scales and sizes are both given");
    QUERN_ASSIGN_OR_RETURN(sizes, ReadInts(c, at.sizes));
  } else if (at.scales < 0) {
    scales = ScalesOfAttributes(c.node());
  } else if (c.HasInput(at.scales)) {
    if (auto floats = FloatsOf(&c.input_value(at.scales))) scales = *std::move(floats);
  }
  if (given(at.roi)) {
    if (auto floats = FloatsOf(&c.input_value(at.roi))) roi = *std::move(floats);
  }
  const Shape in = ShapeOf(c.input_value(0));
  if (!by_sizes && scales.empty() && in.rank() > 0) return c.Error("scales or sizes are needed");
  QUERN_ASSIGN_OR_RETURN(const std::vector<ResizeAxis> axes,
                         MakeResizeAxes(c.node(), in, by_sizes ? nullptr : &scales, by_sizes ? &sizes : nullptr, roi));
  QUERN_ASSIGN_OR_RETURN(const ElementInput x, ElementInput::Make(c, 0));
  Shape shape;
  for (const ResizeAxis& axis : axes) shape.push_back(axis.out);
  QUERN_ASSIGN_OR_RETURN(ElementOutput y, ElementOutput::Make(c, 0, x.dtype(), shape));
  if (y.num_elements() == 0) return y.Finish();
  std::vector<ResizeTaps> taps;
  for (const ResizeAxis& axis : axes) {
    if (axis.resized()) {
      taps.push_back(MakeResizeTaps(attributes, axis));
    } else {  // kept as it is, whatever the coordinates
      taps.push_back(
          MakeResizeTaps({ResizeMode::kNearest, ResizeCoordinates::kAsymmetric, ResizeNearest::kFloor}, axis));
    }
  }
  const int rank = in.rank();
  const int64_t n = shape.num_elements();
  auto is_outside = [&](const Shape& position) {
    for (int d = 0; d < rank; ++d) {
      if (taps[d].outside[position[d]]) return true;
    }
    return false;
  };
  const bool crops = attributes.coordinates == ResizeCoordinates::kTfCropAndResize;
  if (attributes.mode == ResizeMode::kNearest) {
    const Shape strides = in.ContiguousStrides();
    QUERN_RETURN_IF_ERROR(DispatchElements(x.dtype(), [&]<typename T>() {
      IndexCounter position(shape);
      for (int64_t i = 0; i < n; ++i, position.Next()) {
        int64_t offset = 0;
        for (int d = 0; d < rank; ++d) offset += taps[d].indices[position.index()[d]] * strides[d];
        y.data<T>()[i] = x.data<T>()[offset];
      }
      return OkStatus();
    }));
    if (!crops) return y.Finish();
    const Status filled = DispatchNumeric(x.dtype(), [&]<typename T>() {
      const T outside = SaturateTo<T>(attributes.extrapolation_value);
      IndexCounter position(shape);
      for (int64_t i = 0; i < n; ++i, position.Next()) {
        if (is_outside(position.index())) y.data<T>()[i] = outside;
      }
      return OkStatus();
    });
    return filled.ok() ? y.Finish() : filled.WithContext(c.node().Describe());
  }
  const Status status = DispatchNumeric(x.dtype(), [&]<typename T>() {
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    std::vector<C> values(static_cast<size_t>(x.num_elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<C>(static_cast<ComputeType<T>>(x.data<T>()[i]));
    Shape current = in;
    for (int d = rank - 1; d >= 0; --d) {
      if (!axes[d].resized()) continue;
      values = Interpolate(values, taps[d], current.num_elements(0, d), current[d], shape[d],
                           current.num_elements(d + 1, rank));
      current[d] = shape[d];
    }
    IndexCounter position(shape);
    for (int64_t i = 0; i < n; ++i, position.Next()) {
      C v = crops && is_outside(position.index()) ? static_cast<C>(attributes.extrapolation_value) : values[i];
      if constexpr (std::is_integral_v<T>) {  // the filter may overshoot the range
        // The greatest value itself may not be a float; below the next power of two is.
        constexpr C kLow = static_cast<C>(std::numeric_limits<T>::min());
        constexpr C kEnd = static_cast<C>(std::numeric_limits<T>::max() / 2 + 1) * 2;
        y.data<T>()[i] = v < kLow   ? std::numeric_limits<T>::min()
                         : v < kEnd ? static_cast<T>(v)
                                    : std::numeric_limits<T>::max();
      } else {
        y.data<T>()[i] = static_cast<T>(v);
      }
    }
    return OkStatus();
  });
  return status.ok() ? y.Finish() : status.WithContext(c.node().Describe());
}

}  // namespace quern
