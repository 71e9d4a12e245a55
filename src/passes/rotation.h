// What fuse_rotary reads of a graph: where pairs of elements are turned by angles.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "passes/paired_angles.h"

namespace quern {

// The order of the dimensions of x: [batch, heads, length, size] or [batch, length, heads, size].
enum class HeadOrder { kHeadsFirst, kLengthFirst };

struct Rotation {
  GraphValue* x;
  GraphValue *cosines, *sines;  // they broadcast to x, alike for all heads
  Pairing pairing;
  Node* last;            // what makes the result
  bool is_half = false;  // the cosines and sines hold each number once, else twice
  HeadOrder order = HeadOrder::kHeadsFirst;
  int64_t rotated = 0;  // the first elements of each head, where not all are turned
};

// An extent that is known, of which two may be multiplied.
bool IsSmallExtent(const Dim& d);

// The rotation of which the node makes the sum, or joins the halves; it may go on behind the node (`last`).
std::optional<Rotation> ReadRotation(Node* n);

}  // namespace quern
