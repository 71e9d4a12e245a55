#include "ops/common/bnb4_weight.h"

#include <string>

namespace quern {
namespace {

// A sign and 3 bits; not in their order, as bitsandbytes has them.
constexpr float kFp4[16] = {0,     1.0f / 192,  2.0f / 3,  1,  1.0f / 3,  0.5f,  1.0f / 6,  0.25f,
                            -0.0f, -1.0f / 192, -2.0f / 3, -1, -1.0f / 3, -0.5f, -1.0f / 6, -0.25f};
// Quantiles of the normal distribution, with 0 among them, scaled to [-1, 1] (QLoRA, arXiv:2305.14314, appendix E).
constexpr float kNf4[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};

}  // namespace

Result<Bnb4Weight> ReadBnb4Weight(const Node& node) {
  const Bnb4Weight w{node.GetInt("N", 0), node.GetInt("K", 0), node.GetInt("block_size", 0)};
  const int64_t type = node.GetInt("quant_type", 0);
  const auto fails = [&](const std::string& why) { return InvalidArgument(node.Describe() + ": " + why); };
  constexpr int64_t kMost = int64_t{1} << 31;
  if (w.n < 1 || w.k < 1 || w.n > kMost || w.k > kMost) return fails("attributes 'N' and 'K' are out of range");
  if (w.block < 16 || w.block > kMost || (w.block & (w.block - 1)) != 0) {
    return fails("'block_size' is " + std::to_string(w.block) + "; a power of two of at least 16 is needed");
  }
  if (type != 0 && type != 1)
    return fails("'quant_type' is " + std::to_string(type) + "; 0 (FP4) or 1 (NF4) is needed");
  return Bnb4Weight{w.n, w.k, w.block, type == 0 ? kFp4 : kNf4};
}

void DequantizeBnb4(const Bnb4Weight& w, const uint8_t* codes, const float* absmax, float* to) {
  const int64_t elements = w.elements();
  for (int64_t i = 0; i < elements; ++i) {
    const int code = i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
    to[i] = w.levels[code] * absmax[i / w.block];
  }
}

}  // namespace quern
