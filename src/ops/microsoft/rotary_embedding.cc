// com.microsoft.RotaryEmbedding: rotates pairs of elements of every head by the angle of their position in the caches.
#include <string>

#include "ops/common/elements.h"
#include "ops/common/float_io.h"
#include "ops/common/head_attention.h"
#include "ops/common/infer_common.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kX, kPositions, kCosines, kSines };

// Elements of a head: told by a 4-D input, by the attributes, or (all of a head is rotated) by the caches.
Dim HeadSize(const Node& node, const Dims& x, const std::optional<Dims>& cosines) {
  if (x.size() == 4) return x[3];
  const int64_t heads = node.GetInt("num_heads", 0);
  if (heads > 0) return Dim::FloorDiv(x[2], heads);
  return cosines ? cosines->back() * 2 : Dim::Unknown();
}

Status Infer(InferContext& c) {
  const Node& node = c.node();
  const float scale = node.GetFloat("scale", 1.0f);
  if (scale != 1.0f) return Unsupported(node.Describe() + ": a 'scale' other than 1 is not supported");
  const std::optional<Dims> x = c.input_shape(kX), cosines = c.input_shape(kCosines);
  if (cosines && cosines->size() != 2) {
    return c.Error("cos_cache has shape " + DimsToString(*cosines) + "; 2 dimensions are needed");
  }
  if (cosines) QUERN_RETURN_IF_ERROR(CheckInputShape(c, kSines, *cosines));
  const int64_t heads = node.GetInt("num_heads", 0), rotated = node.GetInt("rotary_embedding_dim", 0);
  if (heads < 0) return c.Error("'num_heads' is " + std::to_string(heads));
  if (rotated < 0 || rotated % 2 != 0) {
    return c.Error("'rotary_embedding_dim' is " + std::to_string(rotated) + "; an even number is needed");
  }
  if (rotated > 0 && cosines && Differ(cosines->back(), rotated / 2)) {
    return c.Error("cos_cache has shape " + DimsToString(*cosines) +
                   ", which does not fit 'rotary_embedding_dim' = " + std::to_string(rotated));
  }
  if (!x) return InferUnary(c);
  if (x->size() != 3 && x->size() != 4) {
    return c.Error("the input has shape " + DimsToString(*x) + "; 3 or 4 dimensions are needed");
  }
  if (x->size() == 3 && rotated > 0 && heads == 0) {
    return c.Error("'rotary_embedding_dim' on a 3-D input needs the attribute 'num_heads'");
  }
  const Dim size = HeadSize(node, *x, cosines);
  const Dim wanted = cosines ? cosines->back() * 2 : Dim(rotated);
  const bool whole = rotated == 0;
  if (size.is_constant()) {
    const bool divides =
        x->size() == 4 || !x->back().is_constant() ||
        (size.value() > 0 && x->back().value() % size.value() == 0 && (heads == 0 || x->back().value() % heads == 0));
    if (!divides || (wanted.is_constant() && (wanted.value() > size.value() || (whole && cosines && wanted != size)))) {
      return c.Error("the input has shape " + DimsToString(*x) + ", which is not made of heads that caches for " +
                     wanted.ToString() + " elements rotate");
    }
  }
  if (const std::optional<Dims> positions = c.input_shape(kPositions)) {
    const Dim &batch = (*x)[0], &length = (*x)[x->size() == 4 ? 2 : 1];
    const bool fits = positions->size() == 1   ? !Differ((*positions)[0], 1)
                      : positions->size() == 2 ? !Differ((*positions)[0], batch) && !Differ((*positions)[1], length)
                                               : false;
    if (!fits) {  // 'is_packed_batching' tells that rows are of several sequences, whose positions are given alike
      return c.Error("position_ids has shape " + DimsToString(*positions) + "; [1] or [" + batch.ToString() + "," +
                     length.ToString() + "] is needed");
    }
  }
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> x, ReadFloats<float>(c, kX));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> cosines, ReadFloats<float>(c, kCosines));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> sines, ReadFloats<float>(c, kSines));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> positions, ReadInts(c, kPositions));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  const Shape& shape = x.shape();
  const bool flat = shape.rank() == 3, interleaved = c.node().GetInt("interleaved", 0) != 0;
  const int64_t half = cosines.shape()[1], given_heads = c.node().GetInt("num_heads", 0);
  const int64_t batch = shape[0], length = flat ? shape[1] : shape[2];
  const int64_t size = !flat ? shape[3] : given_heads > 0 ? shape[2] / given_heads : 2 * half;
  const int64_t heads = !flat ? shape[1] : size > 0 ? shape[2] / size : 0;
  std::copy_n(x.data(), x.num_elements(), y.data());
  const bool counts_on = c.input(kPositions).rank() == 1;  // from the one position that is given
  const int64_t rows = cosines.shape()[0];
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t s = 0; s < length; ++s) {
      const int64_t given = positions[counts_on ? 0 : b * length + s], step = counts_on ? s : 0;
      if (given < 0 || given >= rows - step) {
        return c.Error("position " + std::to_string(given) + (step > 0 ? " + " + std::to_string(step) : "") +
                       " is outside of the caches of " + std::to_string(rows) + " rows");
      }
      const int64_t position = given + step;
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t at = (flat ? (b * length + s) * heads + h : (b * heads + h) * length + s) * size;
        RotateHead(y.data() + at, half, cosines.data() + position * half, sines.data() + position * half, interleaved);
      }
    }
  }
  y.Finish();
  return OkStatus();
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {
    {"input", "T", kTypes}, {"position_ids", "M", kI64Type}, {"cos_cache", "T", kTypes}, {"sin_cache", "T", kTypes}};
constexpr Param kOutputs[] = {{"output", "T", kTypes}};
constexpr AttrSpec kAttributes[] = {{"interleaved", AttrType::kInt, false, "0"},
                                    {"is_packed_batching", AttrType::kInt, false, "0"},
                                    {"num_heads", AttrType::kInt, false, "0"},
                                    {"rotary_embedding_dim", AttrType::kInt, false, "0"},
                                    {"scale", AttrType::kFloat, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftRotaryEmbedding = {"com.microsoft", "RotaryEmbedding", kVersions};

}  // namespace quern
