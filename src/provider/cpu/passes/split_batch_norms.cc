// BatchNormalizations in inference that stay channels first become a product and a sum, which chains of elementwise
// operators take up with what stands around them:
//   y = BatchNormalization(x, s, b, mean, var)  ->  y = Add(Mul(x, s'), b')    s', b' of [channels, 1, ...]
#include "provider/cpu/passes/edit.h"
#include "provider/cpu/passes/folded_batch_norm.h"

namespace quern::cpu {
namespace {

bool Split(Graph& graph, Node* norm, const CpuConfig& config) {
  std::optional<FoldedBatchNorm> folded = FoldBatchNorm(*norm, config);
  if (!folded || !norm->output(0)->type().shape) return false;
  Shape shape = Shape::Filled(norm->input(0)->type().rank() - 1, 1);
  shape[0] = folded->scale.num_elements();
  const auto apply = [&](const char* op_type, GraphValue* x, const Tensor& channels, const std::string& what) {
    const std::string name = norm->output(0)->name() + what;
    GraphValue* constant = graph.AddConstant(graph.UniqueName(name), channels.Reshaped(shape));
    Node* made = graph.AddNode({.name = norm->name(),
                                .op_type = op_type,
                                .opset = 14,
                                .inputs = {x, constant},
                                .outputs = {graph.UniqueName(name + "_applied")}},
                               norm);
    made->output(0)->set_type(norm->output(0)->type());
    return made->output(0);
  };
  GraphValue* scaled = apply("Mul", norm->input(0), folded->scale, "_scale");
  graph.ReplaceAllUses(norm->output(0), apply("Add", scaled, folded->bias, "_bias"));
  RemoveIfDead(graph, norm);
  return true;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  for (Node* node : graph.nodes()) changes += Split(graph, node, context.config);
  return changes;
}

}  // namespace

extern const Pass kSplitBatchNorms = {"cpu_split_batch_norms", "batch normalizations to products and sums", Run};

}  // namespace quern::cpu
