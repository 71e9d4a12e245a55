// NonMaxSuppression: images and classes at once; a box is compared with many that are kept at a time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/common/sorted_keys.h"
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
  static constexpr int64_t kFloats = 5;  // of each box
  Kept(float* memory, int64_t most)
      : x0_(memory), y0_(memory + most), x1_(memory + 2 * most), y1_(memory + 3 * most), area_(memory + 4 * most) {}
  void Add(const Box& b) {
    x0_[size_] = b.x0;
    y0_[size_] = b.y0;
    x1_[size_] = b.x1;
    y1_[size_] = b.y1;
    area_[size_++] = b.area();
  }
  // True when the intersection over the union with one of them is above the threshold.
  bool Overlaps(const ukernel::VectorKernel& row, const Box& b, float threshold) const {
    return row.overlaps({.x0 = b.x0,
                         .y0 = b.y0,
                         .x1 = b.x1,
                         .y1 = b.y1,
                         .area = b.area(),
                         .threshold = threshold,
                         .n = size_,
                         .others_x0 = x0_,
                         .others_y0 = y0_,
                         .others_x1 = x1_,
                         .others_y1 = y1_,
                         .areas = area_});
  }

 private:
  float *x0_, *y0_, *x1_, *y1_, *area_;
  size_t size_ = 0;
};

struct Rules {
  const ukernel::VectorKernel* row = nullptr;
  int64_t most = 0;
  float overlap = 0, score = -std::numeric_limits<float>::infinity();
  bool has_score = false, center_point = false;
};

// Smaller for better scores; NaN is below every number.
uint64_t KeyOf(float score) { return score != score ? UINT32_MAX : OrderedKey(score) ^ UINT32_MAX; }

// The indices of the boxes that are kept, best first, of equal scores the first; returns how many. `order` has room for
// twice `count` entries, `kept` for `most` boxes.
int64_t Select(const Rules& rules, int64_t count, const float* boxes, const float* scores, KeyedIndex* order,
               float* kept, int64_t most, int64_t* selected) {
  int64_t candidates = 0;
  for (int64_t i = 0; i < count; ++i) {
    order[candidates] = {KeyOf(scores[i]), i};
    candidates += !rules.has_score || scores[i] > rules.score ? 1 : 0;
  }
  SortByKey(order, order + count, candidates, kKeyBytes<float>);
  Kept others(kept, most);
  int64_t n = 0;
  for (int64_t i = 0; i < candidates && n < most; ++i) {
    const Box box = Box::Of(boxes + 4 * order[i].index, rules.center_point);
    if (others.Overlaps(*rules.row, box, rules.overlap)) continue;
    others.Add(box);
    selected[n++] = order[i].index;
  }
  return n;
}

// The number that optional input i holds, if it does.
template <typename T>
Status ReadNumber(const SizedRun& run, size_t i, T* number, bool* given = nullptr) {
  if (i >= run.inputs.size() || !run.inputs[i].defined() || run.inputs[i].num_elements() == 0) return OkStatus();
  if (run.inputs[i].num_elements() != 1) {
    return run.Error("input '" + run.node.input(static_cast<int>(i))->name() + "' has " +
                     std::to_string(run.inputs[i].num_elements()) + " elements; a scalar is needed");
  }
  *number = *run.inputs[i].data<T>();
  if (given) *given = true;
  return OkStatus();
}

Status Run(SizedRun& run) {
  const Tensor &boxes = run.inputs[0], &scores = run.inputs[1];
  if (boxes.rank() != 3 || boxes.dim(2) != 4) {
    return run.Error("boxes have shape " + boxes.shape().ToString() + "; [images, boxes, 4] is needed");
  }
  if (scores.rank() != 3 || scores.dim(0) != boxes.dim(0) || scores.dim(2) != boxes.dim(1)) {
    return run.Error("scores have shape " + scores.shape().ToString() +
                     "; [images, classes, boxes] is needed, and boxes have shape " + boxes.shape().ToString());
  }
  Rules rules;
  rules.row = run.row;
  rules.center_point = run.node.GetInt("center_point_box", 0) != 0;
  QUERN_RETURN_IF_ERROR(ReadNumber(run, 2, &rules.most));
  QUERN_RETURN_IF_ERROR(ReadNumber(run, 3, &rules.overlap));
  QUERN_RETURN_IF_ERROR(ReadNumber(run, 4, &rules.score, &rules.has_score));
  if (!(rules.overlap >= 0 && rules.overlap <= 1)) {
    return run.Error("iou_threshold is " + std::to_string(rules.overlap) + "; it must be in [0, 1]");
  }
  const int64_t count = boxes.dim(1), classes = scores.dim(1), most = std::clamp<int64_t>(rules.most, 0, count);
  const int64_t lines = most > 0 ? boxes.dim(0) * classes : 0;
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, count));
  const int64_t slots = std::min<int64_t>(run.executor->concurrency(), std::max<int64_t>(1, lines));
  constexpr int64_t kNumbersPerBox = 2 * sizeof(KeyedIndex) / sizeof(int64_t);
  QUERN_ASSIGN_OR_RETURN(const Tensor selected, run.Scratch(DType::kI64, lines * most));
  QUERN_ASSIGN_OR_RETURN(const Tensor counts, run.Scratch(DType::kI64, lines));
  QUERN_ASSIGN_OR_RETURN(const Tensor orders, run.Scratch(DType::kI64, slots * count * kNumbersPerBox));
  QUERN_ASSIGN_OR_RETURN(const Tensor kept, run.Scratch(DType::kF32, slots * most * Kept::kFloats));
  QUERN_RETURN_IF_ERROR(ForEachItem(
      run, lines, grain,
      [&](int slot, int64_t line) {
        counts.data<int64_t>()[line] =
            Select(rules, count, boxes.data<float>() + line / classes * count * 4, scores.data<float>() + line * count,
                   reinterpret_cast<KeyedIndex*>(orders.data<int64_t>() + slot * count * kNumbersPerBox),
                   kept.data<float>() + slot * most * Kept::kFloats, most, selected.data<int64_t>() + line * most);
      },
      static_cast<int>(slots)));
  int64_t total = 0;
  for (const int64_t n : counts.values<int64_t>()) total += n;
  QUERN_ASSIGN_OR_RETURN(const Tensor y, run.Allocate(0, DType::kI64, Shape{total, 3}));
  int64_t* to = y.data<int64_t>();
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t i = 0; i < counts.data<int64_t>()[line]; ++i) {
      *to++ = line / classes;
      *to++ = line % classes;
      *to++ = selected.data<int64_t>()[line * most + i];
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
