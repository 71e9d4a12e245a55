// MaxRoiPool: regions of feature maps, divided into bins on whole pixels, each the largest element in it.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/saturate.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::vector<int64_t> pooled = c.node().GetInts("pooled_shape");
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1) {
    return c.Error("attribute 'pooled_shape' must be a height and a width of at least 1");
  }
  const std::optional<Dims> x = c.input_shape(0), rois = c.input_shape(1);
  if (x && x->size() != 4) {
    return c.Error("input '" + c.node().input(0)->name() + "' has shape " + DimsToString(*x) +
                   "; [N, C, H, W] is needed");
  }
  if (rois && (rois->size() != 2 || ((*rois)[1].is_constant() && !(*rois)[1].is_constant(5)))) {
    return c.Error("input '" + c.node().input(1)->name() + "' has shape " + DimsToString(*rois) +
                   "; [regions, 5] is needed");
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), Dims{rois ? rois->front() : Dim::Unknown(),
                                                              x ? (*x)[1] : Dim::Unknown(), pooled[0], pooled[1]}));
  return OkStatus();
}

struct Range {
  int64_t first, last;  // [first, last)
};

// The elements of bin `index` of `bins` between two coordinates (both included, rounded to whole pixels), inside the
// map's `extent`.
template <typename T>
Range BinRange(T begin, T end, T scale, int64_t index, int64_t bins, int64_t extent) {
  // Far outside any map there is nothing to tell apart; the limit keeps the sums below exact.
  const auto pixel = [&](T v) {
    return std::clamp<int64_t>(SaturateTo<int64_t>(std::round(static_cast<double>(v * scale))), -(int64_t{1} << 40),
                               int64_t{1} << 40);
  };
  const int64_t start = pixel(begin), size = std::max<int64_t>(pixel(end) - start + 1, 1);
  const T bin = static_cast<T>(size) / static_cast<T>(bins);
  const auto at = [&](T v) { return std::clamp<int64_t>(SaturateTo<int64_t>(v) + start, 0, extent); };
  return {at(std::floor(static_cast<T>(index) * bin)), at(std::ceil(static_cast<T>(index + 1) * bin))};
}

template <typename T>
Status Pool(EvalContext& c, const InferredOutputs& outputs) {
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> rois, ReadFloats<T>(c, 1));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
  if (y.num_elements() == 0) return OkStatus();
  const T scale = static_cast<T>(c.node().GetFloat("spatial_scale", 1.0f));
  const int64_t channels = x.shape()[1], height = x.shape()[2], width = x.shape()[3];
  const int64_t regions = y.shape()[0], out_height = y.shape()[2], out_width = y.shape()[3];
  T* out = y.data();
  for (int64_t r = 0; r < regions; ++r) {
    const T* roi = rois.data() + 5 * r;
    const int64_t image = SaturateTo<int64_t>(static_cast<double>(roi[0]));
    if (!(roi[0] >= 0) || image >= x.shape()[0]) {
      return c.Error("region " + std::to_string(r) + " is of image " + std::to_string(roi[0]) +
                     ", which is outside [0, " + std::to_string(x.shape()[0] - 1) + "]");
    }
    for (int64_t channel = 0; channel < channels; ++channel) {
      const T* map = x.data() + (image * channels + channel) * height * width;
      for (int64_t i = 0; i < out_height; ++i) {
        const Range rows = BinRange(roi[2], roi[4], scale, i, out_height, height);
        for (int64_t j = 0; j < out_width; ++j, ++out) {
          const Range columns = BinRange(roi[1], roi[3], scale, j, out_width, width);
          *out = T{0};  // of an empty bin
          bool any = false;
          for (int64_t h = rows.first; h < rows.last; ++h) {
            for (int64_t w = columns.first; w < columns.last; ++w) {
              const T v = map[h * width + w];
              if (!any || v > *out) *out = v;
              any = true;
            }
          }
        }
      }
    }
  }
  y.Finish();
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) { return Pool<T>(c, outputs); });
}

constexpr AttrSpec kAttributes[] = {{"pooled_shape", AttrType::kInts, true},
                                    {"spatial_scale", AttrType::kFloat, false, "1.0"}};
constexpr Param kInputs1[] = {{"X", "T", kOldFloatTypes}, {"rois", "T", kOldFloatTypes}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}, {"rois", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes, Infer, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMaxRoiPool = {"", "MaxRoiPool", kVersions};

}  // namespace quern
