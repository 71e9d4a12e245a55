// com.microsoft.EmbedLayerNormalization of float32: rows of tables, their sum and its normalization while in cache.
#include <cmath>

#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using ukernel::BinaryKind;
using ukernel::FoldKind;

enum Input { kWordIds, kSegmentIds, kWords, kPositionTable, kSegments, kGamma, kBeta, kMask, kPositionIds };

Status CheckIds(const StepContext& c, Input ids, const char* name, int64_t count, int64_t rows) {
  const auto* given = static_cast<const int32_t*>(c.inputs[ids]);
  for (int64_t i = 0; i < count; ++i) {
    if (given[i] >= 0 && given[i] < rows) continue;
    return InvalidArgument(std::string(name) + " has the entry " + std::to_string(given[i]) +
                           ", which is outside of an embedding of " + std::to_string(rows) + " rows");
  }
  return OkStatus();
}

class EmbedKernel final : public CpuKernel {
 public:
  EmbedKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)), epsilon_(node.GetFloat("epsilon", 1e-12f)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const auto rows_of = [&](Input table) { return context.has_input(table) ? context.inputs[table].shape[0] : 0; };
    const Shape& ids = context.inputs[kWordIds].shape;
    const int64_t positions = context.has_input(kPositionIds) ? context.inputs[kPositionIds].shape.num_elements() : 0;
    if (!context.has_input(kPositionIds) && ids[1] > rows_of(kPositionTable) && ids[0] > 0) {
      return InvalidArgument("sequences of " + std::to_string(ids[1]) + " words are longer than the " +
                             std::to_string(rows_of(kPositionTable)) + " rows of position_embedding");
    }
    return MakeStep([=, row = row_, epsilon = epsilon_, batch = ids[0], length = ids[1],
                     hidden = context.outputs[0].shape[2], words = rows_of(kWords), places = rows_of(kPositionTable),
                     segments = rows_of(kSegments), has_segments = context.has_input(kSegmentIds),
                     has_mask = context.has_input(kMask), counts = context.has_output(1),
                     sums = context.has_output(2)](const StepContext& c) {
      QUERN_RETURN_IF_ERROR(CheckIds(c, kWordIds, "input_ids", batch * length, words));
      if (has_segments) QUERN_RETURN_IF_ERROR(CheckIds(c, kSegmentIds, "segment_ids", batch * length, segments));
      if (positions > 0) QUERN_RETURN_IF_ERROR(CheckIds(c, kPositionIds, "position_ids", positions, places));
      for (int64_t b = 0; counts && b < batch; ++b) {
        const auto* mask = has_mask ? static_cast<const int32_t*>(c.inputs[kMask]) + b * length : nullptr;
        static_cast<int32_t*>(c.outputs[1])[b] =
            has_mask ? static_cast<int32_t>(std::count(mask, mask + length, 1)) : 0;
      }
      return ForItems(c, batch * length, hidden * 4, kCheapGrain, [&](int64_t r) {
        const auto id = [&](Input ids, int64_t at) { return static_cast<const int32_t*>(c.inputs[ids])[at]; };
        const auto from = [&](Input table, int64_t at) {
          return static_cast<const float*>(c.inputs[table]) + at * hidden;
        };
        // Positions may be given once for all samples.
        const int64_t place = positions > 0 ? id(kPositionIds, positions > length ? r : r % length) : r % length;
        float* y = static_cast<float*>(c.outputs[0]) + r * hidden;
        float* sum = sums ? static_cast<float*>(c.outputs[2]) + r * hidden : y;
        const size_t n = static_cast<size_t>(hidden);
        row->binary({.kind = BinaryKind::kAdd,
                     .n = n,
                     .x = from(kWords, id(kWordIds, r)),
                     .z = from(kPositionTable, place),
                     .y = sum});
        if (has_segments) {
          row->binary({.kind = BinaryKind::kAdd, .n = n, .x = sum, .z = from(kSegments, id(kSegmentIds, r)), .y = sum});
        }
        const float mean = row->fold({.kind = FoldKind::kSum, .n = n, .x = sum}) / static_cast<float>(hidden);
        const float squares = row->fold({.kind = FoldKind::kSumSquares, .n = n, .x = sum, .shift = mean});
        row->normalize({.n = n,
                        .x = sum,
                        .y = y,
                        .shift = mean,
                        .scale = 1.0f / std::sqrt(squares / static_cast<float>(hidden) + epsilon),
                        .gamma = from(kGamma, 0),
                        .beta = from(kBeta, 0)});
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "rows of tables, normalized while in cache"); }

 private:
  const ukernel::VectorKernel* row_;
  float epsilon_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  for (const GraphValue* v : node.inputs()) {
    if (std::string why = RejectUnlessType(v, {DType::kF32, DType::kI32}); !why.empty()) return why;
  }
  return {};
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new EmbedKernel(node, *context.config));
}

constexpr CpuOp kOps[] = {{"com.microsoft", "EmbedLayerNormalization", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsEmbedLayerNormalization = kOps;

}  // namespace quern::cpu
