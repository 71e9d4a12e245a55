#include "ops/common/random.h"

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include "ops/common/dtype_attribute.h"
#include "ops/common/eval_infer.h"

namespace quern {
namespace {

std::mt19937 Seeded(uint64_t key) {
  std::seed_seq words{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  return std::mt19937(words);
}

// Another number for each call, in this process and in one that starts later.
uint64_t FreshKey() {
  static const uint64_t start =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  static std::atomic<uint64_t> calls{0};
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;  // odd: 2^64 calls get 2^64 keys
  return start + kStep * calls.fetch_add(1, std::memory_order_relaxed);
}

std::mt19937 ForSeed(double seed) {
  if (seed >= 0 && seed <= std::numeric_limits<uint32_t>::max() && seed == std::floor(seed)) {
    return std::mt19937(static_cast<uint32_t>(seed));
  }
  return Seeded(std::bit_cast<uint64_t>(seed));
}

}  // namespace

RandomStream::RandomStream(double seed) : RandomStream(ForSeed(seed)) {}

RandomStream RandomStream::ForNode(const Node& node) {
  if (const float* seed = node.FindAttribute<float>("seed")) return RandomStream(*seed);
  if (const int64_t* seed = node.FindAttribute<int64_t>("seed")) return RandomStream(static_cast<double>(*seed));
  return RandomStream(Seeded(FreshKey()));
}

double RandomStream::Uniform() {
  const uint32_t high = static_cast<uint32_t>(generator_() >> 5), low = static_cast<uint32_t>(generator_() >> 6);
  return (high * 0x1p26 + low) * 0x1p-53;  // exact
}

// Marsaglia's polar method.
double RandomStream::Normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  double x = 0, y = 0, square = 0;
  do {
    x = 2.0 * Uniform() - 1.0;
    y = 2.0 * Uniform() - 1.0;
    square = x * x + y * y;
  } while (square >= 1.0 || square == 0.0);
  const double factor = std::sqrt(-2.0 * std::log(square) / square);
  spare_ = factor * x;
  has_spare_ = true;
  return factor * y;
}

Status InferRandom(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType dtype, ReadDTypeAttribute(c.node(), "dtype", DType::kF32, kFloatTypes));
  Dims shape;
  for (const int64_t extent : c.node().GetInts("shape")) {
    if (extent < 0) return c.Error("attribute 'shape' has the entry " + std::to_string(extent) + ", which is negative");
    shape.push_back(extent);
  }
  c.SetOutputType(0, ValueType::Tensor(dtype, std::move(shape)));
  return OkStatus();
}

Status InferRandomLike(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType dtype, ReadDTypeAttribute(c.node(), "dtype", c.input_dtype(0), kFloatTypes));
  c.SetOutputType(0, ValueType::Tensor(dtype, c.input_shape(0)));
  return OkStatus();
}

Status EvaluateNormal(EvalContext& c, Status (*infer)(InferContext&)) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, infer));
  const double mean = c.node().GetFloat("mean", 0.0f), scale = c.node().GetFloat("scale", 1.0f);
  RandomStream stream = RandomStream::ForNode(c.node());
  return FillOutput(c, outputs.dtype(0), outputs.shape(0), [&] { return mean + scale * stream.Normal(); });
}

Status EvaluateUniform(EvalContext& c, Status (*infer)(InferContext&)) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, infer));
  const double low = c.node().GetFloat("low", 0.0f), high = c.node().GetFloat("high", 1.0f);
  RandomStream stream = RandomStream::ForNode(c.node());
  return FillOutput(c, outputs.dtype(0), outputs.shape(0), [&] { return low + (high - low) * stream.Uniform(); });
}

}  // namespace quern
