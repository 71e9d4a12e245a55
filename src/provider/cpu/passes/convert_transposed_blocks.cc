// A transposed convolution that is none of phases (weights that come with the run, a stride together with a dilation)
// becomes a product whose columns are added up:
//   y = ConvTranspose(x, w, b)  ->  y = Col2Im(w'^T x) + b
// with w' as [groups, input channels / groups, channels / groups * kernel] and x as [N, groups, input channels /
// groups, pixels].
#include "provider/cpu/common/constant_expression.h"
#include "provider/cpu/common/transposed_window.h"
#include "provider/cpu/passes/replacing_chain.h"

namespace quern::cpu {
namespace {

Status Convert(Graph& graph, Node* node) {
  QUERN_ASSIGN_OR_RETURN(const TransposedBlocks t, ReadTransposedBlocks(*node));
  const Dims x = *node->input(0)->type().shape, w = *node->input(1)->type().shape, y = *node->output(0)->type().shape;
  const int64_t in = x[1].value() / t.groups, pixels = Product(Dims(x.begin() + 2, x.end())).value();
  const int64_t columns = Product(Dims(w.begin() + 1, w.end())).value();
  std::vector<int64_t> image;
  for (size_t d = 2; d < y.size(); ++d) image.push_back(y[d].value());
  std::vector<int64_t> pads = t.pads_begin;
  pads.insert(pads.end(), t.pads_end.begin(), t.pads_end.end());

  ReplacingChain weights{graph, node, node->input(1)};
  weights.Add("Reshape", 13, {weights.Constant({t.groups, in, columns})}, {t.groups, in, columns}, {});
  weights.Add("Transpose", 13, {}, {t.groups, columns, in}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  ReplacingChain chain{graph, node, node->input(0)};
  chain.Add("Reshape", 13, {chain.Constant({0, t.groups, in, pixels})}, {x[0], t.groups, in, pixels}, {});
  chain.Add("MatMul", 13, {weights.value}, {x[0], t.groups, columns, pixels}, {}, /*last=*/true);
  chain.Add("Reshape", 13, {chain.Constant({0, t.groups * columns, pixels})}, {x[0], t.groups * columns, pixels}, {});
  chain.Add("Col2Im", 18, {chain.Constant(image), chain.Constant(t.kernel)}, y,
            {{"strides", t.strides}, {"dilations", t.dilations}, {"pads", pads}});
  if (GraphValue* bias = node->input(2)) {
    std::vector<int64_t> column(y.size() - 1, 1);
    column[0] = y[1].value();
    ReplacingChain added{graph, node, bias};
    added.Add("Reshape", 13, {added.Constant(column)}, Dims(column.begin(), column.end()), {});
    chain.Add("Add", 14, {added.value}, y, {});
  }
  graph.ReplaceAllUses(node->output(0), chain.value);
  RemoveIfDead(graph, node);
  return OkStatus();
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const CpuConfig& config = static_cast<const CpuPassContext*>(pass_context)->config;
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (!node->Is("ConvTranspose") || RejectPhases(*node, config).empty()) continue;
    QUERN_RETURN_IF_ERROR(Convert(graph, node));
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kConvertTransposedBlocks = {"cpu_convert_transposed_blocks",
                                              "transposed convolutions to products whose columns are added up", Run,
                                              /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
