// Convolutions around a depthwise one, as one node that computes strips of rows:
//   quern.cpu.Conv 1x1 (w2, b2) of quern.cpu.Conv depthwise (w1, b1) of quern.cpu.Conv 1x1 (w0, b0) of x
//     ->  quern.cpu.ConvChain(x, w0, b0, w1, b1, w2, b2)
// where nothing else reads what lies between, and that is too large to stay in the second-level cache from node to
// node. The convolution before or the one after may be missing.
#include <algorithm>

#include "provider/cpu/common/conv_chain_form.h"
#include "provider/cpu/common/conv_problem.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

// A float32 Conv of two dimensions and known extents (but for images) whose weights and bias are constants.
bool IsPlainConv(const Node* node) {
  if (!node || !node->Is("Conv", kCpuDomain)) return false;
  const ValueType &x = node->input(0)->type(), &y = node->output(0)->type();
  if (x.dtype != DType::kF32 || y.dtype != DType::kF32 || !x.shape || x.rank() != 4 || !y.shape) return false;
  for (int d = 1; d < 4; ++d) {
    if (!(*x.shape)[d].is_constant() || !(*y.shape)[d].is_constant() || (*y.shape)[d].is_constant(0)) return false;
  }
  const GraphValue* bias = node->input(kBiasInput);
  return node->input(1)->is_constant() && node->input(1)->type().dtype == DType::kF32 && (!bias || bias->is_constant());
}

bool IsDepthwise(const Node* node, const CpuConfig& config) {
  if (!IsPlainConv(node)) return false;
  const Result<ConvSource> source = ReadConv(*node, config);
  return source.ok() && source->depthwise && source->problem.out_channels == source->problem.in_channels;
}

// A product of each pixel, not too large to be read once for each strip.
bool IsPointwise(const Node* node, const CpuConfig& config) {
  if (!IsPlainConv(node)) return false;
  const Result<ConvSource> source = ReadConv(*node, config);
  if (!source.ok()) return false;
  const kernels::ConvProblem& p = source->problem;
  return p.kernel_h == 1 && p.kernel_w == 1 && p.stride_h == 1 && p.stride_w == 1 && p.groups == 1 &&
         p.pad_top + p.pad_left + p.pad_bottom + p.pad_right == 0 &&
         p.in_channels * p.out_channels * sizeof(float) <= config.cpu.facts().l2_bytes / 4;
}

// The node that alone reads the value, if there is one.
Node* OnlyReader(const GraphValue* value) {
  if (value->is_graph_output() || value->uses().size() != 1) return nullptr;
  return value->uses()[0].node;
}

// Bytes of a [N, H, W, C] value's image.
int64_t ImageBytes(const GraphValue* v) {
  const Dims& d = *v->type().shape;
  return d[1].value() * d[2].value() * d[3].value() * static_cast<int64_t>(sizeof(float));
}

bool Fuse(Graph& graph, Node* depthwise, const CpuConfig& config) {
  if (!IsDepthwise(depthwise, config)) return false;
  Node* before = depthwise->input(0)->producer();
  if (!IsPointwise(before, config) || OnlyReader(before->output(0)) != depthwise || before->input(kResidualInput)) {
    before = nullptr;
  }
  Node* after = OnlyReader(depthwise->output(0));
  if (!IsPointwise(after, config) || after->input(0) != depthwise->output(0) || depthwise->input(kResidualInput)) {
    after = nullptr;
  }
  if (!before && !after) return false;
  const int64_t between = (before ? ImageBytes(before->output(0)) : 0) + (after ? ImageBytes(depthwise->output(0)) : 0);
  if (between <= static_cast<int64_t>(config.cpu.facts().l2_bytes) / 2) return false;

  Node* last = after ? after : depthwise;
  std::vector<GraphValue*> inputs(kChainInputs);
  std::map<std::string, Attribute, std::less<>> attributes;
  inputs[kChainX] = (before ? before : depthwise)->input(0);
  if (before) AddStage(*before, kChainBeforeWeights, inputs, attributes);
  AddStage(*depthwise, kChainDepthwiseWeights, inputs, attributes);
  if (after) AddStage(*after, kChainAfterWeights, inputs, attributes);
  while (!inputs.back()) inputs.pop_back();
  Node* chain = AddInternal(graph, "ConvChain", *last, std::move(inputs), last->output(0)->type(), last);
  for (const auto& [name, value] : attributes) chain->SetAttribute(name, value);
  graph.ReplaceAllUses(last->output(0), chain->output(0));
  RemoveIfDead(graph, last);
  return true;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const CpuConfig& config = static_cast<const CpuPassContext*>(pass_context)->config;
  std::vector<Node*> convs;  // depthwise ones stay until they are fused themselves
  for (Node* node : graph.nodes()) {
    if (node->Is("Conv", kCpuDomain) && node->GetInt("group", 1) > 1) convs.push_back(node);
  }
  int changes = 0;
  for (Node* node : convs) changes += Fuse(graph, node, config);
  return changes;
}

}  // namespace

extern const Pass kFuseConvChains = {"cpu_fuse_conv_chains", "1x1 convolutions around a depthwise one, by strips", Run};

}  // namespace quern::cpu
