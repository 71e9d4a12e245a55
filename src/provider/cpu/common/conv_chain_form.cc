#include "provider/cpu/common/conv_chain_form.h"

#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/cpu_infer.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

std::string PrefixOf(int weights) {
  return weights == kChainBeforeWeights ? "before_" : weights == kChainDepthwiseWeights ? "depthwise_" : "after_";
}

GraphValue* CopyConstant(Graph& graph, const GraphValue* v) {
  if (!v) return nullptr;
  return graph.AddConstant(graph.UniqueName(v->name()), *v->constant());
}

}  // namespace

Result<ConvStages> StagesOf(const Node& chain, const ValueType& x) {
  ConvStages stages;
  stages.graph = std::make_unique<Graph>();
  Graph& graph = *stages.graph;
  GraphValue* value = graph.AddInput("x", x);
  const bool adds = chain.input(kChainResidual) != nullptr;
  GraphValue* residual = adds ? graph.AddInput("residual", chain.output(0)->type()) : nullptr;
  const auto add = [&](int weights, bool last) -> const Node* {
    if (!chain.input(weights)) return nullptr;
    NodeSpec spec{.name = chain.name(), .domain = kCpuDomain, .op_type = "Conv", .opset = 1};
    spec.inputs = {value, CopyConstant(graph, chain.input(weights)), CopyConstant(graph, chain.input(weights + 1))};
    if (last && residual) spec.inputs.push_back(residual);
    const std::string prefix = PrefixOf(weights);
    for (const auto& [name, attribute] : chain.attributes()) {
      if (name.starts_with(prefix)) spec.attributes.emplace(name.substr(prefix.size()), attribute);
    }
    spec.outputs = {graph.UniqueName("y")};
    const Node* node = graph.AddNode(std::move(spec));
    value = node->output(0);
    return node;
  };
  const bool has_after = chain.input(kChainAfterWeights) != nullptr;
  stages.before = add(kChainBeforeWeights, false);
  stages.depthwise = add(kChainDepthwiseWeights, !has_after);
  stages.after = add(kChainAfterWeights, true);
  graph.AddOutput(value);
  QUERN_RETURN_IF_ERROR(InferClusterTypes(graph));
  return stages;
}

void AddStage(const Node& conv, ChainInput weights, std::vector<GraphValue*>& inputs,
              std::map<std::string, Attribute, std::less<>>& attributes) {
  inputs[weights] = conv.input(1);
  inputs[weights + 1] = conv.input(kBiasInput);
  if (conv.input(kResidualInput)) inputs[kChainResidual] = conv.input(kResidualInput);
  for (const auto& [name, attribute] : conv.attributes()) {
    attributes.insert_or_assign(PrefixOf(weights) + name, attribute);
  }
}

}  // namespace quern::cpu
