// com.microsoft.QAttention: self-attention whose projection is a product of 8-bit integers.
#include <string>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/integer_io.h"
#include "ops/common/matmul.h"
#include "ops/common/packed_attention.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kX, kWeight, kBias, kXScale, kWeightScale, kMask, kXZero, kWeightZero, kPast };

constexpr PackedAttentionInputs kLayout = {
    .bias = kBias, .mask = kMask, .past = kPast, .attention_bias = -1, .past_length = -1};

Status Infer(InferContext& c) {
  const std::optional<Dims> weights = c.input_shape(kWeight);
  for (const int i : {kXScale, kXZero, kWeightScale, kWeightZero}) {
    const std::optional<Dims> shape = c.input_shape(i);
    if (!shape) continue;
    const Dim count = Product(*shape);
    const bool per_column = i == kWeightScale || i == kWeightZero;
    if (!count.is_constant() || count.value() == 1) continue;
    if (per_column && weights && weights->size() == 2) {
      if (!weights->back().is_constant() || count == weights->back()) continue;
    }
    return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) + "; one element" +
                   (per_column ? " or one per column of the weights" : "") + " is needed");
  }
  return InferPackedAttention(c, kLayout, c.input_dtype(kBias));
}

Status Evaluate(EvalContext& c) {
  QUERN_RETURN_IF_ERROR(InferredOutputs::Make(c, Infer).status());
  const int64_t width = c.input(kWeight).dim(0), columns = c.input(kWeight).dim(1);
  QUERN_ASSIGN_OR_RETURN(const std::vector<int32_t> x_zero, ReadZeroPoints(c, kXZero, 1));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int32_t> weight_zero, ReadZeroPoints(c, kWeightZero, columns));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> x_scale, ReadFloats<float>(c, kXScale));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> weight_scale, ReadFloats<float>(c, kWeightScale));
  std::vector<int32_t> x = WidenIntegers(c.input(kX)), weights = WidenIntegers(c.input(kWeight));
  for (int32_t& v : x) v -= x_zero[0];
  for (size_t i = 0; i < weights.size(); ++i) weights[i] -= weight_zero[i % columns];
  std::vector<int64_t> row(static_cast<size_t>(columns));
  return EvaluatePackedAttention(c, Infer, kLayout, [&](int64_t r, double* sums) {
    MultiplyRow<int32_t, int32_t, int64_t>(columns, width, x.data() + r * width, 1, weights.data(), columns, 1,
                                           row.data());
    for (int64_t j = 0; j < columns; ++j) {
      const double scale = weight_scale[weight_scale.num_elements() == 1 ? 0 : j];
      sums[j] = static_cast<double>(row[j]) * x_scale[0] * scale;
    }
  });
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16};
constexpr Param kInputs[] = {{"input", "T1", kByteTypes},
                             {"weight", "T2", kByteTypes},
                             {"bias", "T3", kTypes},
                             {"input_scale", "T3", kTypes},
                             {"weight_scale", "T3", kTypes},
                             {"mask_index", "T4", kI32Type, Arity::kOptional},
                             {"input_zero_point", "T1", kByteTypes, Arity::kOptional},
                             {"weight_zero_point", "T2", kByteTypes, Arity::kOptional},
                             {"past", "T3", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T3", kTypes}, {"present", "T3", kTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"do_rotary", AttrType::kInt, false, "0"},
                                    {"mask_filter_value", AttrType::kFloat, false, "-10000"},
                                    {"num_heads", AttrType::kInt, true},
                                    {"past_present_share_buffer", AttrType::kInt, false, "0"},
                                    {"scale", AttrType::kFloat},
                                    {"unidirectional", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQAttention = {"com.microsoft", "QAttention", kVersions};

}  // namespace quern
