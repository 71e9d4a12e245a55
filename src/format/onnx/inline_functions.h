// Model-local functions: calls become the nodes of the function's body. Between parsing and building the graph.
#pragma once

#include "base/status.h"
#include "format/onnx/model_view.h"
#include "format/onnx/tensor_decoder.h"

namespace quern::onnx {

// Replaces every node that calls a function of the model, in the graph, its subgraphs and the functions themselves:
//
//   y = local.Scale(x) 's1'     local.Scale(a) { t = Mul(a, @factor) 'm'; b = Relu(t) }
//   -> s1/t = Mul(x, 2.0) 's1/m';  y = Relu(s1/t) 's1/Relu'
//
// A function stands before an operator of the same domain and name. Names that a body defines, also in subgraphs, get
// the call's name in front and are new in the model; unnamed calls and nodes are called by their operator. Attribute
// references get what the call gives, else the function's default, else the attribute is left out. An input that the
// call omits is omitted in the body. A body's output that is one of its inputs comes through an Identity. Nodes follow
// the operator sets that their function imports.
//
// kInvalidArgument for calls and bodies that do not fit, and for recursion, with the names on the cycle;
// kResourceExhausted when the model has more than Limits::nodes nodes afterwards (a call counts too), nests deeper than
// Limits::subgraph_depth, calls deeper than kMaxDepth, or takes more than Limits::memory_bytes.
Status InlineFunctions(ModelView* model, TensorDecoder& decoder);

}  // namespace quern::onnx
