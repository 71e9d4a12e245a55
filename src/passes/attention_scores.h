// What a softmax of attention reads, as exporters write it, taken apart: a product, scaled, and masks.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace quern {

// A mask of scores: numbers that are added, or a condition that says which scores stay.
struct MaskTerm {
  enum class Kind : uint8_t {
    kAdded,   // values, times `number`
    kSeen,    // booleans; where they are false the score becomes `number`
    kHidden,  // booleans; where they are true the score becomes `number`
  };
  Kind kind = Kind::kAdded;
  GraphValue* value = nullptr;
  double number = 1;
  Dims scores;  // of the scores that it goes with, whose leading dimensions may be split or merged
};

struct AttentionScores {
  Node* product = nullptr;  // a MatMul
  double scale = 1;
  std::vector<MaskTerm> terms;  // the innermost first
  bool is_reshaped = false;     // leading dimensions were split or merged on the way
  bool is_cast = false;         // between types of floats
};

// Masks that are added, subtracted or chosen by a Where, products and quotients with numbers, casts between floats, and
// Reshapes that keep the last dimension, in any order. A number that stands for a hidden score is at most -10000.
// Nothing else reads the values in between, `v` included; nothing for other values.
std::optional<AttentionScores> ReadScores(GraphValue* v);

// Skips products with, and divisions by, a number, which `scale` takes. Nothing else reads what is skipped.
GraphValue* WithoutScale(GraphValue* v, double* scale);

// The input of a Reshape that keeps the last dimension, or of a Cast between floats; null for others and for what has
// other readers.
GraphValue* ReshapedFrom(const GraphValue* v);
GraphValue* CastFrom(const GraphValue* v);

}  // namespace quern
