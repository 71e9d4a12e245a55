// The equation of an Einsum node.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace quern {

// "ij,jk->ik" with the letters of every operand spelled out; an ellipsis becomes the letters 0, 1, ... (digits),
// numbered so that the last dimension of each ellipsis is 'ellipsis - 1'.
struct EinsumEquation {
  std::vector<std::string> inputs;
  std::string output;
};

// For operands of these ranks.
Result<EinsumEquation> ParseEinsum(const Node& node, const std::vector<int>& ranks);

}  // namespace quern
