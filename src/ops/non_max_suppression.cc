// NonMaxSuppression: per image and class the boxes by falling score, without those that overlap a better one too much.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/common/any_types.h"
#include "ops/common/scalar_input.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status CheckInputs(const Node& node, const std::optional<Dims>& boxes, const std::optional<Dims>& scores) {
  const auto error = [&](std::string message) { return InvalidArgument(node.Describe() + ": " + std::move(message)); };
  const auto differs = [](const Dim& a, const Dim& b) { return a.is_constant() && b.is_constant() && !(a == b); };
  if (boxes && (boxes->size() != 3 || differs((*boxes)[2], 4))) {
    return error("boxes have shape " + DimsToString(*boxes) + "; [images, boxes, 4] is needed");
  }
  if (scores &&
      (scores->size() != 3 || (boxes && (differs((*scores)[0], (*boxes)[0]) || differs((*scores)[2], (*boxes)[1]))))) {
    return error("scores have shape " + DimsToString(*scores) + "; [images, classes, boxes] is needed" +
                 (boxes ? ", and boxes have shape " + DimsToString(*boxes) : std::string()));
  }
  const int64_t center = node.GetInt("center_point_box", 0);
  if (center != 0 && center != 1) return error("center_point_box is " + std::to_string(center) + "; it is 0 or 1");
  return OkStatus();
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(CheckInputs(c.node(), c.input_shape(0), c.input_shape(1)));
  c.SetOutputType(0, ValueType::Tensor(DType::kI64, Dims{Dim::Unknown(), 3}));
  return OkStatus();
}

struct Box {
  float x0, y0, x1, y1;  // x0 <= x1, y0 <= y1 unless a size is negative
  float area() const { return (x1 - x0) * (y1 - y0); }
};

Box MakeBox(const float* v, bool center_point) {
  if (center_point) return {v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2};
  return {std::min(v[1], v[3]), std::min(v[0], v[2]), std::max(v[1], v[3]), std::max(v[0], v[2])};
}

// Intersection over union; 0 where one of them has no area.
float Overlap(const Box& a, const Box& b) {
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (!(width > 0 && height > 0)) return 0;
  const float common = width * height, all = a.area() + b.area() - common;
  return a.area() > 0 && b.area() > 0 && all > 0 && common > 0 ? common / all : 0;
}

// A number that an input may give.
Result<float> ReadThreshold(EvalContext& c, int i, float otherwise) {
  if (!c.HasInput(i) || c.input(i).num_elements() == 0) return otherwise;
  QUERN_ASSIGN_OR_RETURN(const double value, ReadFloatScalar(c, i));
  return static_cast<float>(value);
}

// Whether a and b are in this order: by falling score, of equal ones the first; NaN is below every number.
struct ByScore {
  const float* scores;
  bool operator()(int64_t a, int64_t b) const {
    const bool a_is_nan = std::isnan(scores[a]), b_is_nan = std::isnan(scores[b]);
    if (a_is_nan != b_is_nan) return b_is_nan;
    if (a_is_nan) return a < b;
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  }
};

Status Evaluate(EvalContext& c) {
  const Tensor &boxes = c.input(0), &scores = c.input(1);
  QUERN_RETURN_IF_ERROR(CheckInputs(c.node(), Dims(boxes.shape().begin(), boxes.shape().end()),
                                    Dims(scores.shape().begin(), scores.shape().end())));
  int64_t most = 0;
  if (c.HasInput(2) && c.input(2).num_elements() > 0) {
    QUERN_ASSIGN_OR_RETURN(most, ReadIntScalar(c, 2));
  }
  QUERN_ASSIGN_OR_RETURN(const float iou_threshold, ReadThreshold(c, 3, 0.0f));
  if (!(iou_threshold >= 0 && iou_threshold <= 1)) {
    return c.Error("iou_threshold is " + std::to_string(iou_threshold) + "; it must be in [0, 1]");
  }
  const bool has_score_threshold = c.HasInput(4) && c.input(4).num_elements() > 0;
  QUERN_ASSIGN_OR_RETURN(const float score_threshold, ReadThreshold(c, 4, 0.0f));
  const bool center_point = c.node().GetInt("center_point_box", 0) != 0;
  const int64_t images = boxes.dim(0), count = boxes.dim(1), classes = scores.dim(1);
  std::vector<int64_t> selected;  // image, class, box
  for (int64_t line = 0; count > 0 && most > 0 && line < images * classes; ++line) {
    const float* score = scores.data<float>() + line * count;
    const float* corners = boxes.data<float>() + line / classes * count * 4;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count; ++i) {
      if (!has_score_threshold || score[i] > score_threshold) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), ByScore{score});
    std::vector<Box> kept;
    for (int64_t i : order) {
      if (static_cast<int64_t>(kept.size()) >= most) break;
      const Box box = MakeBox(corners + 4 * i, center_point);
      const auto overlaps = [&](const Box& other) { return Overlap(box, other) > iou_threshold; };
      if (std::any_of(kept.begin(), kept.end(), overlaps)) continue;
      kept.push_back(box);
      selected.insert(selected.end(), {line / classes, line % classes, i});
    }
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y,
                         c.AllocateOutput(0, DType::kI64, Shape{static_cast<int64_t>(selected.size()) / 3, 3}));
  std::copy(selected.begin(), selected.end(), y.data<int64_t>());
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"center_point_box", AttrType::kInt, false, "0"}};
constexpr Param kInputs[] = {{"boxes", "", kF32Type},
                             {"scores", "", kF32Type},
                             {"max_output_boxes_per_class", "", kInt64Type, Arity::kOptional},
                             {"iou_threshold", "", kF32Type, Arity::kOptional},
                             {"score_threshold", "", kF32Type, Arity::kOptional}};
constexpr Param kOutputs[] = {{"selected_indices", "", kInt64Type}};
constexpr OpVersion kVersions[] = {{10, kInputs, kOutputs, kAttributes, Infer, Evaluate},
                                   {11, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpNonMaxSuppression = {"", "NonMaxSuppression", kVersions};

}  // namespace quern
