// NodeWork: how much a node computes and moves, from its operator and shapes; what a profile compares times with.
#pragma once

#include <cstddef>
#include <span>

#include "graph/graph.h"
#include "tensor/shape.h"

namespace quern {

// An operand as a run has it; dtype kUndefined: omitted, or no tensor.
struct OperandType {
  DType dtype = DType::kUndefined;
  Shape shape;
  bool constant = false;
};

struct NodeWork {
  double operations = 0;  // multiplications and additions of products (convolutions, attention...); else 0
  double bytes = 0;       // operands read once and results written once
};

// Of the operators of ONNX and com.microsoft, and of the CPU provider's own. Attention counts all keys, masked or not.
// packed_bytes: of constant operands that were packed, which count instead of them; 0 when none was.
NodeWork WorkOf(const Node& node, std::span<const OperandType> inputs, std::span<const OperandType> outputs,
                size_t packed_bytes = 0);

}  // namespace quern
