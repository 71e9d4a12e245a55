// RoiAlign: regions of feature maps, divided into bins, each the mean or the largest of points that are read in it by
// bilinear interpolation. Max mode takes, as onnx's reference does, the largest of the four weighted neighbours.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/float_io.h"
#include "ops/common/roi_axis.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const RoiAttributes a, ReadRoiAttributes(c.node()));
  const std::optional<Dims> x = c.input_shape(0), rois = c.input_shape(1), batch = c.input_shape(2);
  const auto wrong = [&](int i, const Dims& shape, const char* needed) {
    return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(shape) + "; " + needed +
                   " is needed");
  };
  if (x && x->size() != 4) return wrong(0, *x, "[N, C, H, W]");
  if (rois && (rois->size() != 2 || ((*rois)[1].is_constant() && !(*rois)[1].is_constant(4)))) {
    return wrong(1, *rois, "[regions, 4]");
  }
  if (batch && (batch->size() != 1 || (rois && batch->front().is_constant() && rois->front().is_constant() &&
                                       !(batch->front() == rois->front())))) {
    return wrong(2, *batch, "one index for each region");
  }
  Dim count = rois ? rois->front() : Dim::Unknown();
  if (batch && !count.is_constant()) count = batch->front();
  c.SetOutputType(
      0, ValueType::Tensor(c.input_dtype(0), Dims{count, x ? (*x)[1] : Dim::Unknown(), Dim(a.height), Dim(a.width)}));
  return OkStatus();
}

// The points of one bin along one dimension. `outside` are there any beyond the map, which read 0.
template <typename T>
struct BinPoints {
  std::vector<RoiPoint<T>> inside;
  bool outside = false;

  BinPoints(const RoiAxis<T>& axis, int64_t index) {
    outside = axis.ForEachPoint(index, [&](const RoiPoint<T>& p) { inside.push_back(p); });
  }
};

template <typename T>
T PoolBin(bool max, const T* map, int64_t width, const BinPoints<T>& rows, const BinPoints<T>& columns, double count) {
  double sum = 0;
  T largest{};
  bool any = false;
  if (rows.outside || columns.outside) any = true;  // they read 0
  for (const RoiPoint<T>& y : rows.inside) {
    const T *upper = map + y.low * width, *lower = map + y.high * width;
    const T ly = y.high_weight, hy = 1 - ly;
    for (const RoiPoint<T>& x : columns.inside) {
      const T lx = x.high_weight, hx = 1 - lx;
      const T parts[] = {hy * hx * upper[x.low], hy * lx * upper[x.high], ly * hx * lower[x.low],
                         ly * lx * lower[x.high]};
      if (max) {
        const T value = *std::max_element(parts, parts + 4);
        largest = any ? std::max(largest, value) : value;
        any = true;
      } else {
        for (T part : parts) sum += static_cast<double>(part);
      }
    }
  }
  return max ? largest : static_cast<T>(sum / std::max(count, 1.0));
}

template <typename T>
Status Align(EvalContext& c, const RoiAttributes& a, const InferredOutputs& outputs) {
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> rois, ReadFloats<T>(c, 1));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> batch, ReadInts(c, 2));
  const int64_t images = x.shape()[0], channels = x.shape()[1], height = x.shape()[2], width = x.shape()[3];
  for (int64_t image : batch) {
    if (image < 0 || image >= images) {
      return c.Error("batch index " + std::to_string(image) + " is outside [0, " + std::to_string(images - 1) + "]");
    }
  }
  QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
  if (y.num_elements() == 0) return OkStatus();
  T* out = y.data();
  for (size_t r = 0; r < batch.size(); ++r) {
    const T* roi = rois.data() + 4 * r;
    const RoiAxis<T> row_axis(a, roi[1], roi[3], a.height, height), column_axis(a, roi[0], roi[2], a.width, width);
    const double count = static_cast<double>(row_axis.points) * static_cast<double>(column_axis.points);
    for (int64_t i = 0; i < a.height; ++i) {
      const BinPoints<T> rows(row_axis, i);
      for (int64_t j = 0; j < a.width; ++j) {
        const BinPoints<T> columns(column_axis, j);
        for (int64_t channel = 0; channel < channels; ++channel) {
          const T* map = x.data() + (batch[r] * channels + channel) * height * width;
          out[(channel * a.height + i) * a.width + j] = PoolBin(a.max, map, width, rows, columns, count);
        }
      }
    }
    out += channels * a.height * a.width;
  }
  y.Finish();
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const RoiAttributes a, ReadRoiAttributes(c.node()));
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) { return Align<T>(c, a, outputs); });
}

constexpr AttrSpec kAttributes10[] = {{"mode", AttrType::kString, false, "avg"},
                                      {"output_height", AttrType::kInt, false, "1"},
                                      {"output_width", AttrType::kInt, false, "1"},
                                      {"sampling_ratio", AttrType::kInt, false, "0"},
                                      {"spatial_scale", AttrType::kFloat, false, "1.0"}};
constexpr AttrSpec kAttributes16[] = {{"coordinate_transformation_mode", AttrType::kString, false, "half_pixel"},
                                      {"mode", AttrType::kString, false, "avg"},
                                      {"output_height", AttrType::kInt, false, "1"},
                                      {"output_width", AttrType::kInt, false, "1"},
                                      {"sampling_ratio", AttrType::kInt, false, "0"},
                                      {"spatial_scale", AttrType::kFloat, false, "1.0"}};
constexpr Param kInputs10[] = {
    {"X", "T1", kOldFloatTypes}, {"rois", "T1", kOldFloatTypes}, {"batch_indices", "T2", kInt64Type}};
constexpr Param kOutputs10[] = {{"Y", "T1", kOldFloatTypes}};
constexpr Param kInputs22[] = {
    {"X", "T1", kFloatTypes}, {"rois", "T1", kFloatTypes}, {"batch_indices", "T2", kInt64Type}};
constexpr Param kOutputs22[] = {{"Y", "T1", kFloatTypes}};
constexpr OpVersion kVersions[] = {{10, kInputs10, kOutputs10, kAttributes10, Infer, Evaluate},
                                   {16, kInputs10, kOutputs10, kAttributes16, Infer, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes16, Infer, Evaluate}};

}  // namespace

Result<RoiAttributes> ReadRoiAttributes(const Node& node) {
  const auto error = [&](std::string message) { return InvalidArgument(node.Describe() + ": " + std::move(message)); };
  const std::string mode = node.GetString("mode", "avg");
  const std::string coordinates =
      node.GetString("coordinate_transformation_mode", node.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max") return error("mode '" + mode + "' is neither avg nor max");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
    return error("coordinate_transformation_mode '" + coordinates + "' is neither half_pixel nor output_half_pixel");
  }
  const RoiAttributes a{.max = mode == "max",
                        .half_pixel = coordinates == "half_pixel",
                        .height = node.GetInt("output_height", 1),
                        .width = node.GetInt("output_width", 1),
                        .sampling_ratio = node.GetInt("sampling_ratio", 0),
                        .spatial_scale = node.GetFloat("spatial_scale", 1.0f)};
  if (a.height < 1 || a.width < 1) {
    return error("the output is " + std::to_string(a.height) + " by " + std::to_string(a.width) +
                 "; at least 1 by 1 is needed");
  }
  if (a.sampling_ratio < 0 || a.sampling_ratio > kMostRoiSamples) {
    return error("sampling_ratio is " + std::to_string(a.sampling_ratio) + "; 0 to " + std::to_string(kMostRoiSamples) +
                 " are possible");
  }
  return a;
}

extern constinit const OpDefinition kOpRoiAlign = {"", "RoiAlign", kVersions};

}  // namespace quern
