// The quantized weights of QMoE: unsigned integers of 2, 4 or 8 bits, the first of a byte in its lowest bits, in rows
// of whole bytes; one scale, and zero point, for each row or for each block of it.
#pragma once

#include <string>

#include "ops/op.h"

namespace quern {

// One of the three: W1, W2 or W3.
struct ExpertWeights {
  int weights = -1, scales = -1, zero_points = -1;  // inputs of the node
  int bits = 4;
  int64_t block = 0;  // along K; 0: whole rows

  static Result<ExpertWeights> Read(const Node& node, int which) {
    constexpr ExpertWeights kAll[3] = {{2, 3, 11}, {5, 6, 12}, {8, 9, 13}};
    constexpr const char* kBits[3] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"};
    ExpertWeights w = kAll[which];
    const int64_t bits = node.GetInt(kBits[which], node.GetInt("expert_weight_bits", 4));
    w.block = node.GetInt("block_size", 0);
    if (const std::string type = node.GetString("quant_type", "int"); type != "int") {
      return Unsupported(node.Describe() + ": 'quant_type' = '" + type + "' is not supported");
    }
    if (node.GetInt("weights_prepacked", -1) > 0) {
      return Unsupported(node.Describe() +
                         ": weights in a provider's own layout ('weights_prepacked') are not supported");
    }
    if (bits != 2 && bits != 4 && bits != 8) {
      return InvalidArgument(node.Describe() + ": weights of " + std::to_string(bits) + " bits; 2, 4 or 8 is needed");
    }
    if (w.block < 0 || (w.block > 0 && (w.block < 16 || (w.block & (w.block - 1)) != 0))) {
      return InvalidArgument(node.Describe() + ": 'block_size' is " + std::to_string(w.block) +
                             "; a power of two of at least 16 is needed");
    }
    w.bits = static_cast<int>(bits);
    return w;
  }

  int64_t per_byte() const { return 8 / bits; }
  int Element(const uint8_t* row, int64_t i) const {
    return row[i / per_byte()] >> (i % per_byte() * bits) & ((1 << bits) - 1);
  }
  // That of a block of a row, of `rows` rows of an expert with `blocks` each.
  int ZeroPoint(const uint8_t* zeros, int64_t rows, int64_t blocks, int64_t expert, int64_t row, int64_t b) const {
    const auto bytes = [this](int64_t count) { return (count + per_byte() - 1) / per_byte(); };
    if (block == 0) return Element(zeros + expert * bytes(rows), row);
    return Element(zeros + (expert * rows + row) * bytes(blocks), b);
  }
};

}  // namespace quern
