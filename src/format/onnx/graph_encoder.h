// Graph to GraphProto: captures become outer-scope names again.
#pragma once

#include <vector>

#include "base/status.h"
#include "format/onnx/encoded_message.h"
#include "format/onnx/tensor_encoder.h"
#include "graph/graph.h"

namespace quern::onnx {

// The GraphProto of a verified main graph. `output_types`: what to write as the types of its outputs. `external` may be
// null: then all tensors stay inside.
//
//   If(cond) captures (x); then(x) { y = Neg(x); return y }; else(x) { return x }
//   -> If(cond) { then: y = Neg(x), output y;  else: x_1 = Identity(x), output x_1 }
//
// Names stay, but that a subgraph does not define what is visible around it, or what it reads from there: such names
// get a number behind them. An output of a subgraph that is an outer value comes through an Identity, which runtimes
// ask for. Constants that are sequences or optionals, which ONNX has not, become nodes.
Result<EncodedMessage> EncodeGraph(const Graph& graph, const std::vector<ValueType>& output_types,
                                   ExternalPlan* external);

}  // namespace quern::onnx
