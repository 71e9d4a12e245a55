// AttributeProto to Attribute, all kinds but graphs (which the graph builder makes).
#pragma once

#include "base/status.h"
#include "format/onnx/model_view.h"
#include "format/onnx/tensor_decoder.h"
#include "graph/graph.h"

namespace quern::onnx {

// Sparse tensors come dense. kUnsupported for lists of types; kCorrupt when the content the type promises is missing.
Result<Attribute> ReadAttribute(const AttributeView& view, TensorDecoder& decoder);

}  // namespace quern::onnx
