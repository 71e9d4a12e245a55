// ModelView to Graph: second step of reading. Names become SSA values, outer-scope names become captures.
#pragma once

#include <memory>

#include "base/status.h"
#include "format/onnx/model_view.h"
#include "format/onnx/tensor_decoder.h"
#include "graph/graph.h"

namespace quern::onnx {

// Checks versions and names, sorts nodes topologically where the file does not, decodes tensors with `decoder`. The
// model's functions must have been inlined.
//
//   If(cond) { then: y = Add(x, a)  else: y = Neg(x) }      x, a defined around the If
//   -> If(cond) captures (x, a); then(x, a) { y = Add(x, a) }; else(x, a) { y = Neg(x) }
Result<std::unique_ptr<Graph>> BuildGraph(const ModelView& model, TensorDecoder& decoder);

}  // namespace quern::onnx
