// What the cells of LSTM, GRU and RNN make of the sums of their gates.
#pragma once

#include <limits>
#include <vector>

#include "graph/graph.h"
#include "ukernel/vector.h"

namespace quern::cpu {

// An activation of a recurrent node.
struct GateFunction {
  ukernel::UnaryKind kind = ukernel::UnaryKind::kTanh;
  float a = 0, b = 0;  // its parameters

  void Apply(const ukernel::VectorKernel& row, float* x, int64_t n) const;
};

// What a node says of the cells of one direction.
struct CellForm {
  std::vector<GateFunction> functions;                   // f, g and h of an LSTM, f and g of a GRU, f of an RNN
  float bound = std::numeric_limits<float>::infinity();  // sums of gates are clipped to [-bound, bound]
  bool couples_gates = false;                            // LSTM: the forget gate is 1 - the input gate
  std::vector<float> peepholes;  // LSTM: what the cell adds to the gates input, output and forget, n each; or empty

  // Function i of n clipped sums.
  void Activate(const ukernel::VectorKernel& row, size_t i, float* x, int64_t n) const;
};

// The forms of the node's directions, without the peepholes.
Result<std::vector<CellForm>> ReadCellForms(const Node& node, int64_t directions);

// An error where one of the `batch` lengths (null: none are given) is not within [0, steps].
Status CheckSequenceLengths(const int32_t* lengths, int64_t batch, int64_t steps);

// One sample of n hidden units: `gates` (input, output, forget, cell; n each) are changed, h and c become the next
// ones.
void FinishLstm(const ukernel::VectorKernel& row, const CellForm& form, int64_t n, float* gates, float* h, float* c);

}  // namespace quern::cpu
