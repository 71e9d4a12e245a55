// QuantizeLinear and DequantizeLinear of com.microsoft, which onnxruntime's quantizer writes where the model's operator
// set lacks a type, become the standard's, as other passes and providers look for them:
//   %q = com.microsoft::QuantizeLinear(%x, %scale, %zero)   ->   %q = QuantizeLinear(%x, %scale, %zero)
// They follow the model's operator set or, where that has not the types, the first that has.
#include <algorithm>

#include "graph/rewriter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr const char* kDomain = "com.microsoft";

// The first operator set whose operators take the types of the node.
int SetWithTypes(const Node& n) {
  int first = 13;
  for (const GraphValue* v : {n.input(0), n.input(1), n.output(0)}) {
    const DType type = v->type().dtype;
    if (type == DType::kF16) first = std::max(first, 19);
    if (type == DType::kI16 || type == DType::kU16 || type == DType::kI4 || type == DType::kU4) first = 21;
  }
  return first;
}

Result<bool> Convert(Graph& graph, Node* n) {
  if (!n->Is("QuantizeLinear", kDomain) && !n->Is("DequantizeLinear", kDomain)) return false;
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = n->op_type(),
               .opset = std::max(graph.opset(""), SetWithTypes(*n)),
               .inputs = n->inputs(),
               .attributes = n->attributes()});
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Convert); }

}  // namespace

extern const Pass kConvertQuantization = {"convert_quantization",
                                          "onnxruntime's QuantizeLinear and DequantizeLinear as the standard's", Run};

}  // namespace quern
