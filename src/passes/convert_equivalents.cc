// Operators of com.microsoft that the standard has too become the standard's, as other passes and providers look for
// them:
//   %q = com.microsoft::QuantizeLinear(%x, %scale, %zero)   ->   %q = QuantizeLinear(%x, %scale, %zero)
// onnxruntime's quantizer and PyTorch's exporter write them where the model's operator set lacks the operator or a
// type. The new node follows the model's operator set or, where that lacks it, the first that has it.
#include <algorithm>

#include "graph/rewriter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr const char* kDomain = "com.microsoft";

struct Equivalent {
  const char* op_type;
  int since;  // the first operator set that has the operator in this form
};
constexpr Equivalent kEquivalents[] = {
    {"QuantizeLinear", 13}, {"DequantizeLinear", 13}, {"Trilu", 14}, {"GridSample", 16}};

// The first operator set whose quantization takes the types of the node.
int SetWithTypes(const Node& n) {
  int first = 0;
  for (const GraphValue* v : {n.input(0), n.input(1), n.output(0)}) {
    const DType type = v->type().dtype;
    if (type == DType::kF16) first = std::max(first, 19);
    if (type == DType::kI16 || type == DType::kU16 || type == DType::kI4 || type == DType::kU4) first = 21;
  }
  return first;
}

Result<bool> Convert(Graph& graph, Node* n) {
  const auto* found = std::find_if(std::begin(kEquivalents), std::end(kEquivalents),
                                   [&](const Equivalent& e) { return n->Is(e.op_type, kDomain); });
  if (found == std::end(kEquivalents)) return false;
  const bool quantizes = n->Is("QuantizeLinear", kDomain) || n->Is("DequantizeLinear", kDomain);
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = found->op_type,
               .opset = std::max({graph.opset(""), found->since, quantizes ? SetWithTypes(*n) : 0}),
               .inputs = n->inputs(),
               .attributes = n->attributes()});
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Convert); }

}  // namespace

extern const Pass kConvertEquivalents = {
    "convert_equivalents", "operators of com.microsoft that the standard has too, as the standard's", Run};

}  // namespace quern
