// Types, shapes and small contents of all values, from the operators' inference:
//   %y = MatMul(%a, %b)  ->  %y: f32[batch,10] = MatMul(%a, %b)
#include "ops/infer.h"
#include "passes/passes.h"

namespace quern {
namespace {

// What is known of a value; unknown extents get new names at each inference and count as one.
void AppendKnown(const std::optional<Dims>& dims, std::string& out) {
  if (!dims) {
    out += "*;";
    return;
  }
  for (const Dim& d : *dims) out += (d.has_unknown() ? "?" : d.ToString()) + ",";
  out += ";";
}

void AppendKnown(const GraphValue* v, std::string& out) {
  if (v == nullptr) return;
  const ValueType* type = &v->type();
  for (; type != nullptr; type = type->element.get()) {
    out += std::to_string(static_cast<int>(type->kind)) + DTypeName(type->dtype);
    AppendKnown(type->shape, out);
  }
  AppendKnown(v->data(), out);
}

void CollectKnown(const Graph& graph, std::vector<std::string>& known) {
  for (const Node* n = graph.first_node(); n != nullptr; n = n->next()) {
    std::string of_node;
    for (const GraphValue* v : n->outputs()) AppendKnown(v, of_node);
    for (const auto& [attribute, subgraph] : n->subgraphs()) {
      for (const GraphValue* v : subgraph->inputs()) AppendKnown(v, of_node);
      CollectKnown(*subgraph, known);
    }
    known.push_back(std::move(of_node));
  }
}

Result<int> Run(Graph& graph, const void* context) {
  std::vector<std::string> before, after;
  CollectKnown(graph, before);
  InferOptions options;
  options.limits = LimitsOf(context);
  QUERN_RETURN_IF_ERROR(InferShapes(graph, options));
  CollectKnown(graph, after);
  int changes = 0;
  for (size_t i = 0; i < after.size(); ++i) changes += after[i] != before[i];
  return changes;
}

}  // namespace

extern const Pass kInferShapes = {"infer_shapes", "infer the types, shapes and small contents of all values", Run,
                                  false};

}  // namespace quern
