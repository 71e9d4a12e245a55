// com.microsoft.EmbedLayerNormalization: LayerNormalization of the sum of word, position and segment embeddings, and
// how many words a mask keeps.
#include <cmath>
#include <string>
#include <vector>

#include "ops/common/elements.h"
#include "ops/common/head_attention.h"
#include "ops/common/normalization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kWordIds, kSegmentIds, kWords, kPositionTable, kSegments, kGamma, kBeta, kMask, kPositionIds };

Status Infer(InferContext& c) {
  if (c.HasInput(kSegmentIds) && !c.HasInput(kSegments)) return c.Error("segment_ids needs segment_embedding");
  Dim hidden = Dim::Unknown();
  for (const int i : {kWords, kPositionTable, kSegments}) {
    const std::optional<Dims> table = c.input_shape(i);
    if (!table) continue;
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, i, {Dim::Unknown(), hidden}));
    if (!hidden.is_constant()) hidden = table->back();
  }
  for (const int i : {kGamma, kBeta}) QUERN_RETURN_IF_ERROR(CheckVector(c, i, hidden));
  const DType dtype = c.input_dtype(kWords);
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
  if (const std::optional<Dims> positions = c.input_shape(kPositionIds)) {
    const bool repeats = !positions->empty() && (*positions)[0].is_constant(1);
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, kPositionIds, {repeats ? Dim(1) : batch, length}));
  }
  const Dims shape = {batch, length, hidden};
  c.SetOutputType(0, ValueType::Tensor(dtype, shape));
  c.SetOutputType(1, ValueType::Tensor(DType::kI32, Dims{batch}));
  c.SetOutputType(2, ValueType::Tensor(dtype, shape));
  return OkStatus();
}

// The row of a table for a given id, or an error that names the input.
Result<const float*> RowOf(EvalContext& c, const FloatInput<float>& table, int64_t id, int ids) {
  if (id >= 0 && id < table.shape()[0]) return table.data() + id * table.shape()[1];
  const std::string who = c.HasInput(ids) ? "'" + c.node().input(ids)->name() + "'" : "the implied positions";
  return c.Error(who + " has the entry " + std::to_string(id) + ", which is outside of an embedding of " +
                 std::to_string(table.shape()[0]) + " rows");
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const int64_t batch = c.input(kWordIds).dim(0), length = c.input(kWordIds).dim(1), hidden = outputs.shape(0)[2];
  std::vector<int64_t> words, segments, positions;
  QUERN_ASSIGN_OR_RETURN(words, ReadInts(c, kWordIds));
  if (c.HasInput(kSegmentIds)) {
    QUERN_ASSIGN_OR_RETURN(segments, ReadInts(c, kSegmentIds));
  }
  if (c.HasInput(kPositionIds)) {
    QUERN_ASSIGN_OR_RETURN(positions, ReadInts(c, kPositionIds));
  }
  const bool repeats = c.HasInput(kPositionIds) && c.input(kPositionIds).dim(0) == 1;
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> word_table, ReadFloats<float>(c, kWords));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> position_table, ReadFloats<float>(c, kPositionTable));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> segment_table, ReadFloats<float>(c, kSegments));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> gamma, ReadFloats<float>(c, kGamma));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> beta, ReadFloats<float>(c, kBeta));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  FloatOutput<float> sums;
  if (c.HasOutput(2)) {
    QUERN_ASSIGN_OR_RETURN(sums, WriteFloats<float>(c, outputs, 2));
  }
  const double epsilon = c.node().GetFloat("epsilon", 1e-12f);
  std::vector<double> sum(static_cast<size_t>(hidden));
  for (int64_t r = 0; r < batch * length; ++r) {
    const int64_t position = positions.empty() ? r % length : positions[repeats ? r % length : r];
    QUERN_ASSIGN_OR_RETURN(const float* word, RowOf(c, word_table, words[r], kWordIds));
    QUERN_ASSIGN_OR_RETURN(const float* place, RowOf(c, position_table, position, kPositionIds));
    const float* segment = nullptr;
    if (!segments.empty()) {
      QUERN_ASSIGN_OR_RETURN(segment, RowOf(c, segment_table, segments[r], kSegmentIds));
    }
    for (int64_t i = 0; i < hidden; ++i) {
      sum[i] = static_cast<double>(word[i]) + place[i] + (segment ? segment[i] : 0.0f);
      if (c.HasOutput(2)) sums[r * hidden + i] = static_cast<float>(sum[i]);
    }
    const Moments m = MomentsOf(sum.data(), hidden);
    const double inverse = 1.0 / std::sqrt(m.variance + epsilon);
    for (int64_t i = 0; i < hidden; ++i) {
      y[r * hidden + i] = static_cast<float>((sum[i] - m.mean) * inverse * gamma[i] + beta[i]);
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

constexpr TypeSet kTypes = {DType::kF32, DType::kF16};
constexpr Param kInputs[] = {{"input_ids", "T1", kI32Type},
                             {"segment_ids", "T1", kI32Type, Arity::kOptional},
                             {"word_embedding", "T", kTypes},
                             {"position_embedding", "T", kTypes},
                             {"segment_embedding", "T", kTypes, Arity::kOptional},
                             {"gamma", "T", kTypes},
                             {"beta", "T", kTypes},
                             {"mask", "T1", kI32Type, Arity::kOptional},
                             {"position_ids", "T1", kI32Type, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes},
                              {"mask_index", "T1", kI32Type, Arity::kOptional},
                              {"embedding_sum", "T", kTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"epsilon", AttrType::kFloat, false, "1e-12"},
                                    {"mask_index_type", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftEmbedLayerNormalization = {"com.microsoft", "EmbedLayerNormalization",
                                                                           kVersions};

}  // namespace quern
