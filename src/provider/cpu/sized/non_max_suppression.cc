// NonMaxSuppression: images and classes at once; a box is compared with many that are kept at a time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "provider/cpu/sized/sized_op.h"

namespace quern::cpu {
namespace {

struct Box {
  float x0, y0, x1, y1;

  static Box Of(const float* v, bool center_point) {
    if (center_point) return {v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2};
    return {std::min(v[1], v[3]), std::min(v[0], v[2]), std::max(v[1], v[3]), std::max(v[0], v[2])};
  }
  float area() const { return (x1 - x0) * (y1 - y0); }
};

// The boxes kept so far, each coordinate by itself, so that a comparison with many is one loop.
class Kept {
 public:
  void Add(const Box& b) {
    x0_.push_back(b.x0);
    y0_.push_back(b.y0);
    x1_.push_back(b.x1);
    y1_.push_back(b.y1);
    area_.push_back(b.area());
  }
  size_t size() const { return x0_.size(); }
  // True when the intersection over the union with one of them is above the threshold.
  bool Overlaps(const Box& b, float threshold) const {
    constexpr size_t kAtOnce = 64;  // between these is looked whether one was found
    const float area = b.area();
    for (size_t from = 0; from < size(); from += kAtOnce) {
      int found = 0;
      for (size_t i = from; i < std::min(size(), from + kAtOnce); ++i) {
        const float width = std::min(b.x1, x1_[i]) - std::max(b.x0, x0_[i]);
        const float height = std::min(b.y1, y1_[i]) - std::max(b.y0, y0_[i]);
        const float common = width * height, all = area + area_[i] - common;
        const int meets = (width > 0) & (height > 0) & (area > 0) & (area_[i] > 0) & (all > 0) & (common > 0);
        found |= meets & (common / all > threshold);
      }
      if (found) return true;
    }
    return false;
  }

 private:
  std::vector<float> x0_, y0_, x1_, y1_, area_;
};

struct Limits {
  int64_t most = 0;
  float overlap = 0, score = -std::numeric_limits<float>::infinity();
  bool has_score = false, center_point = false;
};

// The indices of the boxes that are kept, best first.
std::vector<int64_t> Select(const Limits& limits, int64_t count, const float* boxes, const float* scores) {
  struct Candidate {
    float score;
    int64_t box;
    // By falling score, of equal ones the first; NaN is below every number.
    bool operator<(const Candidate& o) const {
      const bool nan = score != score, other_nan = o.score != o.score;
      if (nan != other_nan) return other_nan;
      return nan || score == o.score ? box < o.box : score > o.score;
    }
  };
  std::vector<Candidate> order;
  for (int64_t i = 0; i < count; ++i) {
    if (!limits.has_score || scores[i] > limits.score) order.push_back({scores[i], i});
  }
  std::sort(order.begin(), order.end());
  std::vector<int64_t> selected;
  Kept kept;
  for (const Candidate& c : order) {
    if (static_cast<int64_t>(selected.size()) >= limits.most) break;
    const Box box = Box::Of(boxes + 4 * c.box, limits.center_point);
    if (kept.Overlaps(box, limits.overlap)) continue;
    kept.Add(box);
    selected.push_back(c.box);
  }
  return selected;
}

// The number that optional input i holds, if it does.
template <typename T>
Status ReadNumber(const SizedRun& run, size_t i, T* number, bool* given = nullptr) {
  if (i >= run.inputs.size() || !run.inputs[i].defined() || run.inputs[i].num_elements() == 0) return OkStatus();
  if (run.inputs[i].num_elements() != 1) {
    return InvalidArgument("input '" + run.node.input(static_cast<int>(i))->name() + "' has " +
                           std::to_string(run.inputs[i].num_elements()) + " elements; a scalar is needed");
  }
  *number = *run.inputs[i].data<T>();
  if (given) *given = true;
  return OkStatus();
}

Status Run(SizedRun& run) {
  const Tensor &boxes = run.inputs[0], &scores = run.inputs[1];
  if (boxes.rank() != 3 || boxes.dim(2) != 4) {
    return InvalidArgument("boxes have shape " + boxes.shape().ToString() + "; [images, boxes, 4] is needed");
  }
  if (scores.rank() != 3 || scores.dim(0) != boxes.dim(0) || scores.dim(2) != boxes.dim(1)) {
    return InvalidArgument("scores have shape " + scores.shape().ToString() +
                           "; [images, classes, boxes] is needed, and boxes have shape " + boxes.shape().ToString());
  }
  Limits limits;
  limits.center_point = run.node.GetInt("center_point_box", 0) != 0;
  QUERN_RETURN_IF_ERROR(ReadNumber(run, 2, &limits.most));
  QUERN_RETURN_IF_ERROR(ReadNumber(run, 3, &limits.overlap));
  QUERN_RETURN_IF_ERROR(ReadNumber(run, 4, &limits.score, &limits.has_score));
  if (!(limits.overlap >= 0 && limits.overlap <= 1)) {
    return InvalidArgument("iou_threshold is " + std::to_string(limits.overlap) + "; it must be in [0, 1]");
  }
  const int64_t count = boxes.dim(1), classes = scores.dim(1);
  const int64_t lines = count > 0 && limits.most > 0 ? boxes.dim(0) * classes : 0;
  std::vector<std::vector<int64_t>> selected(static_cast<size_t>(lines));
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, count));
  QUERN_RETURN_IF_ERROR(ForEachItem(run, lines, grain, [&](int64_t line) {
    selected[static_cast<size_t>(line)] =
        Select(limits, count, boxes.data<float>() + line / classes * count * 4, scores.data<float>() + line * count);
  }));
  int64_t total = 0;
  for (const auto& s : selected) total += static_cast<int64_t>(s.size());
  QUERN_ASSIGN_OR_RETURN(const Tensor y, run.Allocate(0, DType::kI64, Shape{total, 3}));
  int64_t* to = y.data<int64_t>();
  for (int64_t line = 0; line < lines; ++line) {
    for (const int64_t box : selected[static_cast<size_t>(line)]) {
      *to++ = line / classes;
      *to++ = line % classes;
      *to++ = box;
    }
  }
  return OkStatus();
}

std::string Reject(const Node& node) {
  static constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kI64, DType::kF32, DType::kF32};
  for (int i = 0; i < std::min(node.num_inputs(), 5); ++i) {
    const GraphValue* v = node.input(i);
    if (v && v->type().dtype != kTypes[i]) return std::string("type ") + DTypeName(v->type().dtype);
  }
  const int64_t center = node.GetInt("center_point_box", 0);
  return center == 0 || center == 1 ? std::string() : "center_point_box " + std::to_string(center);
}

}  // namespace

const SizedOp kSizedNonMaxSuppression = {"NonMaxSuppression", Reject, Run};

}  // namespace quern::cpu
