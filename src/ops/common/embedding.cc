#include "ops/common/embedding.h"

#include <cmath>
#include <string>
#include <vector>

#include "ops/common/elements.h"
#include "ops/common/float_io.h"
#include "ops/common/head_attention.h"
#include "ops/common/normalization.h"

namespace quern {
namespace {

enum Input { kWordIds, kSegmentIds, kWords, kPositionTable, kSegments, kGamma, kBeta, kMask, kPositionIds };

// The row of a table for a given id, or an error that names the input.
Result<const float*> RowOf(EvalContext& c, const EmbeddingTable& table, int64_t id, int ids) {
  if (id >= 0 && id < table.shape[0]) return table.data + id * table.shape[1];
  const std::string who =
      ids >= 0 && c.HasInput(ids) ? "'" + c.node().input(ids)->name() + "'" : "the implied positions";
  return c.Error(who + " has the entry " + std::to_string(id) + ", which is outside of an embedding of " +
                 std::to_string(table.shape[0]) + " rows");
}

}  // namespace

Status InferEmbedding(InferContext& c, DType dtype, bool has_positions) {
  if (c.HasInput(kSegmentIds) && !c.HasInput(kSegments)) return c.Error("segment_ids needs segment_embedding");
  Dim hidden = Dim::Unknown();
  for (const int i : {kWords, kPositionTable, kSegments}) {
    const std::optional<Dims> table = c.input_shape(i);
    if (!table) continue;
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, i, {Dim::Unknown(), hidden}));
    if (!hidden.is_constant()) hidden = table->back();
  }
  for (const int i : {kGamma, kBeta}) QUERN_RETURN_IF_ERROR(CheckVector(c, i, hidden));
  const std::optional<Dims> ids = c.input_shape(kWordIds);
  if (!ids) {
    c.SetOutputType(0, ValueType::Tensor(dtype));
    c.SetOutputType(1, ValueType::Tensor(DType::kI32));
    c.SetOutputType(2, ValueType::Tensor(dtype));
    return OkStatus();
  }
  if (ids->size() != 2) return c.Error("input_ids has shape " + DimsToString(*ids) + "; 2 dimensions are needed");
  const Dim &batch = (*ids)[0], &length = (*ids)[1];
  for (const int i : {kSegmentIds, kMask}) QUERN_RETURN_IF_ERROR(CheckInputShape(c, i, {batch, length}));
  if (const std::optional<Dims> positions = has_positions ? c.input_shape(kPositionIds) : std::nullopt) {
    const bool repeats = !positions->empty() && (*positions)[0].is_constant(1);
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, kPositionIds, {repeats ? Dim(1) : batch, length}));
  }
  const Dims shape = {batch, length, hidden};
  c.SetOutputType(0, ValueType::Tensor(dtype, shape));
  c.SetOutputType(1, ValueType::Tensor(DType::kI32, Dims{batch}));
  c.SetOutputType(2, ValueType::Tensor(dtype, shape));
  return OkStatus();
}

Status EvaluateEmbedding(EvalContext& c, const InferredOutputs& outputs, const EmbeddingTables& tables,
                         bool has_positions) {
  const int64_t batch = c.input(kWordIds).dim(0), length = c.input(kWordIds).dim(1), hidden = outputs.shape(0)[2];
  std::vector<int64_t> words, segments, positions;
  QUERN_ASSIGN_OR_RETURN(words, ReadInts(c, kWordIds));
  if (c.HasInput(kSegmentIds)) {
    QUERN_ASSIGN_OR_RETURN(segments, ReadInts(c, kSegmentIds));
  }
  const int position_ids = has_positions ? kPositionIds : -1;
  if (has_positions && c.HasInput(kPositionIds)) {
    QUERN_ASSIGN_OR_RETURN(positions, ReadInts(c, kPositionIds));
  }
  const bool repeats = !positions.empty() && c.input(kPositionIds).dim(0) == 1;
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  FloatOutput<float> sums;
  if (c.HasOutput(2)) {
    QUERN_ASSIGN_OR_RETURN(sums, WriteFloats<float>(c, outputs, 2));
  }
  const double epsilon = c.node().GetFloat("epsilon", 1e-12f);
  std::vector<double> sum(static_cast<size_t>(hidden));
  for (int64_t r = 0; r < batch * length; ++r) {
    const int64_t position = positions.empty() ? r % length : positions[repeats ? r % length : r];
    QUERN_ASSIGN_OR_RETURN(const float* word, RowOf(c, tables.words, words[r], kWordIds));
    QUERN_ASSIGN_OR_RETURN(const float* place, RowOf(c, tables.positions, position, position_ids));
    const float* segment = nullptr;
    if (!segments.empty()) {
      QUERN_ASSIGN_OR_RETURN(segment, RowOf(c, tables.segments, segments[r], kSegmentIds));
    }
    for (int64_t i = 0; i < hidden; ++i) {
      sum[i] = static_cast<double>(word[i]) + place[i] + (segment ? segment[i] : 0.0f);
      if (c.HasOutput(2)) sums[r * hidden + i] = static_cast<float>(sum[i]);
    }
    const Moments m = MomentsOf(sum.data(), hidden);
    const double inverse = 1.0 / std::sqrt(m.variance + epsilon);
    for (int64_t i = 0; i < hidden; ++i) {
      y[r * hidden + i] = static_cast<float>((sum[i] - m.mean) * inverse * tables.gamma.data[i] + tables.beta.data[i]);
    }
  }
  y.Finish();
  if (c.HasOutput(2)) sums.Finish();
  if (!c.HasOutput(1)) return OkStatus();
  QUERN_ASSIGN_OR_RETURN(const Tensor counts, outputs.Allocate(c, 1));
  std::vector<int64_t> mask;
  if (c.HasInput(kMask)) {
    QUERN_ASSIGN_OR_RETURN(mask, ReadInts(c, kMask));
  }
  for (int64_t b = 0; b < batch; ++b) {
    int32_t count = 0;
    for (int64_t s = 0; !mask.empty() && s < length; ++s) count += mask[b * length + s] == 1 ? 1 : 0;
    counts.data<int32_t>()[b] = count;
  }
  return OkStatus();
}

}  // namespace quern
