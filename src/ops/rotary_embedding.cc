// RotaryEmbedding: rotates pairs of elements of every head by the angle of their position.
#include <span>
#include <string>

#include "ops/common/float_io.h"
#include "ops/common/infer_common.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0);
  if (x) {
    if (x->size() != 3 && x->size() != 4) {
      return c.Error("X has shape " + DimsToString(*x) + "; 3 or 4 dimensions are needed");
    }
    const int64_t heads = c.node().GetInt("num_heads", 0);
    if (x->size() == 3 && (heads < 1 || ((*x)[2].is_constant() && (*x)[2].value() % heads != 0))) {
      return c.Error("3-D X needs an attribute 'num_heads' that divides its last dimension");
    }
    Dim size = x->size() == 4 ? x->back() : Dim::FloorDiv(x->back(), heads);
    const int64_t rotated = c.node().GetInt("rotary_embedding_dim", 0);
    if (rotated < 0 || rotated % 2 != 0 || (size.is_constant() && rotated > size.value())) {
      return c.Error("'rotary_embedding_dim' = " + std::to_string(rotated) + " does not fit heads of " +
                     size.ToString() + " elements");
    }
    if (rotated > 0) size = rotated;
    if (size.is_constant() && size.value() % 2 != 0)
      return c.Error("heads of " + size.ToString() + " elements are odd");
    const size_t cache_rank = c.HasInput(3) ? 2 : 3;
    const Dim batch = (*x)[0], length = (*x)[x->size() == 4 ? 2 : 1];
    for (int i : {1, 2}) {
      const std::optional<Dims> cache = c.input_shape(i);
      if (!cache) continue;
      const auto differ = [](const Dim& a, const Dim& b) {
        return a.is_constant() && b.is_constant() && a.value() != b.value();
      };
      bool fits = cache->size() == cache_rank && !differ(cache->back() * 2, size);
      if (fits && cache_rank == 3) fits = !differ((*cache)[0], batch) && !differ((*cache)[1], length);
      if (!fits) {
        return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*cache) +
                       ", which does not fit X of shape " + DimsToString(*x));
      }
    }
  }
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape& shape = outputs.shape(0);
  const bool flat = shape.rank() == 3, interleaved = c.node().GetInt("interleaved", 0) != 0;
  const int64_t batch = shape[0], length = flat ? shape[1] : shape[2];
  const int64_t heads = flat ? c.node().GetInt("num_heads", 1) : shape[1];
  const int64_t size = flat ? shape[2] / heads : shape[3];
  const int64_t given = c.node().GetInt("rotary_embedding_dim", 0), half = (given > 0 ? given : size) / 2;
  std::span<const int64_t> positions;
  if (c.HasInput(3)) {
    positions = c.input(3).values<int64_t>();
    const int64_t rows = std::min(c.input(1).dim(0), c.input(2).dim(0));
    if (static_cast<int64_t>(positions.size()) != batch * length) {
      return c.Error("position_ids has shape " + c.input(3).shape().ToString() + "; [" + std::to_string(batch) + "," +
                     std::to_string(length) + "] is needed");
    }
    for (const int64_t p : positions) {
      if (p < 0 || p >= rows) return c.Error("position " + std::to_string(p) + " is outside of the caches");
    }
  }
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> cosines, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> sines, ReadFloats<T>(c, 2));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t s = 0; s < length; ++s) {
        const int64_t row = (positions.empty() ? b * length + s : positions[b * length + s]) * half;
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t at = (flat ? (b * length + s) * heads + h : (b * heads + h) * length + s) * size;
          for (int64_t i = 2 * half; i < size; ++i) y[at + i] = x[at + i];
          for (int64_t i = 0; i < half; ++i) {
            const int64_t first = at + (interleaved ? 2 * i : i), second = interleaved ? first + 1 : first + half;
            const double real = x[first], imaginary = x[second], cosine = cosines[row + i], sine = sines[row + i];
            y[first] = static_cast<T>(cosine * real - sine * imaginary);
            y[second] = static_cast<T>(sine * real + cosine * imaginary);
          }
        }
      }
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr TypeSet kTTypes23 = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"X", "T", kTTypes23},
                             {"cos_cache", "T", kTTypes23},
                             {"sin_cache", "T", kTTypes23},
                             {"position_ids", "M", kI64Type, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T", kTTypes23}};
constexpr AttrSpec kAttributes[] = {{"interleaved", AttrType::kInt, false, "0"},
                                    {"num_heads", AttrType::kInt},
                                    {"rotary_embedding_dim", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{23, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpRotaryEmbedding = {"", "RotaryEmbedding", kVersions};

}  // namespace quern
