// RoiAlign of float32: bins are tasks; each point that a bin reads is worked out once for all channels.
#include <algorithm>

#include "ops/common/roi_axis.h"
#include "provider/cpu/common/indices.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

struct Maps {
  int64_t images, channels, height, width;
  int64_t plane() const { return height * width; }
};

// One bin of a region for all channels: y[channel * y_stride]. `results` holds one number per channel.
void PoolBin(const RoiAttributes& a, const Maps& m, const float* maps, const RoiAxis<float>& rows, int64_t i,
             const RoiAxis<float>& columns, int64_t j, float* results, float* y, int64_t y_stride) {
  bool any = false;
  std::fill_n(results, m.channels, 0.0f);
  const auto read = [&](const RoiPoint<float>& p, const RoiPoint<float>& q) {
    const float ly = p.high_weight, hy = 1 - ly, lx = q.high_weight, hx = 1 - lx;
    const float w[] = {hy * hx, hy * lx, ly * hx, ly * lx};
    const int64_t at[] = {p.low * m.width + q.low, p.low * m.width + q.high, p.high * m.width + q.low,
                          p.high * m.width + q.high};
    const float* map = maps;
    for (int64_t c = 0; c < m.channels; ++c, map += m.plane()) {
      const float parts[] = {w[0] * map[at[0]], w[1] * map[at[1]], w[2] * map[at[2]], w[3] * map[at[3]]};
      if (a.max) {
        const float largest = std::max(std::max(parts[0], parts[1]), std::max(parts[2], parts[3]));
        results[c] = any ? std::max(results[c], largest) : largest;
      } else {
        results[c] += (parts[0] + parts[1]) + (parts[2] + parts[3]);
      }
    }
    any = true;
  };
  const auto nothing = [](const RoiPoint<float>&) {};
  // Points beyond the map read 0.
  any = columns.ForEachPoint(j, nothing) || rows.ForEachPoint(i, nothing);
  rows.ForEachPoint(
      i, [&](const RoiPoint<float>& p) { columns.ForEachPoint(j, [&](const RoiPoint<float>& q) { read(p, q); }); });
  const double count = static_cast<double>(rows.points) * static_cast<double>(columns.points);
  const float divisor = a.max ? 1.0f : static_cast<float>(std::max(count, 1.0));
  for (int64_t c = 0; c < m.channels; ++c) y[c * y_stride] = results[c] / divisor;
}

class RoiAlignKernel final : public CpuKernel {
 public:
  explicit RoiAlignKernel(const RoiAttributes& attributes) : attributes_(attributes) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &x = context.inputs[0].shape, &rois = context.inputs[1].shape, &batch = context.inputs[2].shape;
    if (x.rank() != 4 || rois.rank() != 2 || rois[1] != 4 || batch.rank() != 1 || batch[0] != rois[0]) {
      return InvalidArgument("maps of shape " + x.ToString() + ", regions " + rois.ToString() + " and indices " +
                             batch.ToString() + " do not go together");
    }
    const Maps m{x[0], x[1], x[2], x[3]};
    const int64_t regions = rois[0], bins = attributes_.height * attributes_.width;
    const bool wide = context.inputs[2].dtype == DType::kI64;
    const size_t slot_bytes = (static_cast<size_t>(m.channels) * sizeof(float) + 63) / 64 * 64;
    const int concurrency = context.concurrency;
    auto run = [=, a = attributes_](const StepContext& c) -> Status {
      for (int64_t r = 0; r < regions; ++r) {
        const int64_t image = IndexAt(c.inputs[2], wide, r);
        if (image < 0 || image >= m.images) {
          return InvalidArgument("batch index " + std::to_string(image) + " is outside [0, " +
                                 std::to_string(m.images - 1) + "]");
        }
      }
      const auto task = [&](int slot, int64_t begin, int64_t end) {
        auto* results =
            reinterpret_cast<float*>(static_cast<char*>(c.scratch) + static_cast<size_t>(slot) * slot_bytes);
        for (int64_t item = begin; item < end; ++item) {
          const int64_t r = item / bins, bin = item % bins;
          const float* roi = static_cast<const float*>(c.inputs[1]) + 4 * r;
          const RoiAxis<float> rows(a, roi[1], roi[3], a.height, m.height),
              columns(a, roi[0], roi[2], a.width, m.width);
          const float* maps =
              static_cast<const float*>(c.inputs[0]) + IndexAt(c.inputs[2], wide, r) * m.channels * m.plane();
          float* y = static_cast<float*>(c.outputs[0]) + r * m.channels * bins + bin;
          PoolBin(a, m, maps, rows, bin / a.width, columns, bin % a.width, results, y, bins);
        }
      };
      const int64_t grain = std::max<int64_t>(1, kCostlyGrain / (16 * std::max<int64_t>(1, m.channels)));
      return c.executor->ParallelFor(regions * bins, grain, task, c.cancel, concurrency);
    };
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    return MakeStep(std::move(run), slot_bytes * static_cast<size_t>(concurrency));
  }
  KernelDescription Describe() const override { return Described("roi_align (f32)", "each bin for all channels"); }

 private:
  RoiAttributes attributes_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  const Result<RoiAttributes> a = ReadRoiAttributes(node);
  if (!a.ok()) return a.status().message();
  for (int i : {0, 1}) {
    if (std::string why = RejectUnlessType(node.input(i), {DType::kF32}); !why.empty()) return why;
  }
  return RejectUnlessType(node.input(2), {DType::kI64, DType::kI32});
}
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  QUERN_ASSIGN_OR_RETURN(const RoiAttributes attributes, ReadRoiAttributes(node));
  return std::unique_ptr<CpuKernel>(new RoiAlignKernel(attributes));
}

constexpr CpuOp kOps[] = {{"", "RoiAlign", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsRoiAlign = kOps;

}  // namespace quern::cpu
