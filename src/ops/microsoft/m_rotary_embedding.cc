// com.microsoft.MRotaryEmbedding: rotary embedding of elements that have three positions each - in time, height and
// width - of which every pair of a head is turned by one.
#include <string>

#include "ops/common/elements.h"
#include "ops/common/float_io.h"
#include "ops/common/head_attention.h"
#include "ops/common/infer_common.h"
#include "ops/common/position_streams.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kX, kPositions, kCosines, kSines };

// Pairs of a head that are turned: the sum of the sections.
Result<int64_t> ReadPairs(const InferContext& c) {
  const Node& node = c.node();
  const std::vector<int64_t> sections = node.GetInts("mrope_section");
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto fits = [](int64_t n) { return n >= 0 && n < kMost; };
  if (sections.size() != 3 || !fits(sections[0]) || !fits(sections[1]) || !fits(sections[2])) {
    std::string list;
    for (const int64_t n : sections) list += (list.empty() ? "" : ",") + std::to_string(n);
    return c.Error("'mrope_section' is [" + list + "]; three numbers of pairs are needed");
  }
  const int64_t pairs = sections[0] + sections[1] + sections[2], rotated = node.GetInt("rotary_embedding_dim", 0);
  if (rotated != 0 && rotated != 2 * pairs) {
    return c.Error("'mrope_section' is of " + std::to_string(pairs) +
                   " pairs, which do not fit 'rotary_embedding_dim' = " + std::to_string(rotated));
  }
  return pairs;
}

Status CheckHeads(const InferContext& c, const Dims& x, int64_t pairs) {
  const int64_t heads = c.node().GetInt("num_heads", 0);
  if (x.size() != 3 && x.size() != 4) {
    return c.Error("the input has shape " + DimsToString(x) + "; 3 or 4 dimensions are needed");
  }
  if (x.size() == 3 && heads <= 0) return c.Error("a 3-D input needs a positive 'num_heads'");
  const Dim size = x.size() == 4 ? x[3] : Dim::FloorDiv(x[2], heads);
  if (!size.is_constant()) return OkStatus();
  const bool divides = x.size() == 4 || !x[2].is_constant() || x[2].value() % heads == 0;
  const bool whole = c.node().GetInt("rotary_embedding_dim", 0) == 0;
  if (divides && (whole ? size.value() == 2 * pairs : size.value() >= 2 * pairs)) return OkStatus();
  return c.Error("the input has shape " + DimsToString(x) + ", which is not made of heads of which " +
                 std::to_string(pairs) + " pairs ('mrope_section') are turned");
}

Status Infer(InferContext& c) {
  const int64_t layout = c.node().GetInt("mrope_layout", 0), heads = c.node().GetInt("num_heads", 0);
  if (layout != 0 && layout != 1) return c.Error("'mrope_layout' is " + std::to_string(layout) + "; 0 or 1 is needed");
  if (heads < 0) return c.Error("'num_heads' is " + std::to_string(heads));
  QUERN_ASSIGN_OR_RETURN(const int64_t pairs, ReadPairs(c));
  const std::optional<Dims> cosines = c.input_shape(kCosines), x = c.input_shape(kX);
  const Dim rows = cosines && cosines->size() == 2 ? (*cosines)[0] : Dim::Unknown();
  if (cosines && cosines->size() == 2 && Differ(cosines->back(), pairs)) {
    return c.Error("cos_cache has shape " + DimsToString(*cosines) + " but 'mrope_section' is of " +
                   std::to_string(pairs) + " pairs");
  }
  for (const int i : {kCosines, kSines}) QUERN_RETURN_IF_ERROR(CheckInputShape(c, i, {rows, pairs}));
  Dim batch = Dim::Unknown(), length = Dim::Unknown();
  if (x) {
    QUERN_RETURN_IF_ERROR(CheckHeads(c, *x, pairs));
    batch = (*x)[0];
    length = (*x)[x->size() == 4 ? 2 : 1];
  }
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, kPositions, {3, batch, length}));
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> x, ReadFloats<float>(c, kX));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> cosines, ReadFloats<float>(c, kCosines));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> sines, ReadFloats<float>(c, kSines));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> positions, ReadInts(c, kPositions));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  const Node& node = c.node();
  const Shape& shape = x.shape();
  const bool flat = shape.rank() == 3, interleaved = node.GetInt("interleaved", 0) != 0;
  const int64_t half = cosines.shape()[1], rows = cosines.shape()[0];
  const int64_t batch = shape[0], length = flat ? shape[1] : shape[2];
  const int64_t heads = flat ? node.GetInt("num_heads", 0) : shape[1], size = flat ? shape[2] / heads : shape[3];
  const float scale = node.GetFloat("scale", 1.0f);  // of what is turned, not of the rest of a head
  if (x.num_elements() == 0) return OkStatus();
  const std::vector<uint8_t> streams =
      PositionStreams(node.GetInts("mrope_section"), node.GetInt("mrope_layout", 0) == 1);
  for (const int64_t position : positions) {
    if (position >= 0 && position < rows) continue;
    return c.Error("position " + std::to_string(position) + " is outside of the caches of " + std::to_string(rows) +
                   " rows");
  }
  std::copy_n(x.data(), x.num_elements(), y.data());
  std::vector<float> cosine(static_cast<size_t>(half)), sine(cosine.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t s = 0; s < length; ++s) {
      for (int64_t i = 0; i < half; ++i) {
        const int64_t at = positions[(streams[i] * batch + b) * length + s] * half + i;
        cosine[i] = scale * cosines[at];
        sine[i] = scale * sines[at];
      }
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t at = (flat ? (b * length + s) * heads + h : (b * heads + h) * length + s) * size;
        RotateHead(y.data() + at, half, cosine.data(), sine.data(), interleaved);
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
// 'is_packed_batching' tells that rows are of several sequences, whose positions are given alike.
constexpr AttrSpec kAttributes[] = {
    {"interleaved", AttrType::kInt, false, "0"},  {"is_packed_batching", AttrType::kInt, false, "0"},
    {"mrope_layout", AttrType::kInt, false, "0"}, {"mrope_section", AttrType::kInts, true},
    {"num_heads", AttrType::kInt, false, "0"},    {"rotary_embedding_dim", AttrType::kInt, false, "0"},
    {"scale", AttrType::kFloat, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftMRotaryEmbedding = {"com.microsoft", "MRotaryEmbedding", kVersions};

}  // namespace quern
