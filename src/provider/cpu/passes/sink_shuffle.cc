#include "provider/cpu/passes/sink_shuffle.h"

#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

// What a shuffle of groups of channels consists of.
struct Shuffle {
  GraphValue* x = nullptr;  // channels last
  int64_t groups = 0, size = 0;
};

bool IsOnlyLink(const GraphValue* v) { return v->uses().size() == 1 && v->uses()[0].node; }

std::optional<Shuffle> ReadShuffle(const Node& last) {
  if (!last.Is("Reshape")) return std::nullopt;
  const Node* turn = last.input(0)->producer();
  const std::optional<Permutation> p = TransposePermutation(turn);
  if (!p || p->size() < 4 || !IsOnlyLink(turn->output(0))) return std::nullopt;
  Permutation expected = {0, 2, 1};
  for (size_t i = 3; i < p->size(); ++i) expected.push_back(static_cast<int64_t>(i));
  if (*p != expected) return std::nullopt;
  const Node* apart = turn->input(0)->producer();
  if (!apart || !apart->Is("Reshape") || !IsOnlyLink(apart->output(0))) return std::nullopt;
  const GraphValue* x = apart->input(0);
  const Node* first = x->producer();
  const int rank = static_cast<int>(p->size()) - 1;
  if (TransposePermutation(first) != ToChannelsFirst(rank)) return std::nullopt;
  if (!x->type().shape || !last.output(0)->type().shape || !apart->output(0)->type().shape) return std::nullopt;
  const Dims &whole = *x->type().shape, &parts = *apart->output(0)->type().shape;
  if (!(whole == *last.output(0)->type().shape) || !parts[1].is_constant() || !parts[2].is_constant())
    return std::nullopt;
  if (!(whole[0] == parts[0]) || !(whole[1] == parts[1] * parts[2])) return std::nullopt;
  for (size_t d = 2; d < whole.size(); ++d) {
    if (!(whole[d] == parts[d + 1])) return std::nullopt;
  }
  return Shuffle{first->input(0), parts[1].value(), parts[2].value()};
}

}  // namespace

bool SinkShuffle(Graph& graph, Node* node) {
  const std::optional<Shuffle> s = ReadShuffle(*node);
  if (!s || s->groups <= 0 || s->size <= 0) return false;
  const auto add = [&](const char* op_type, std::vector<GraphValue*> inputs, Dims shape,
                       std::map<std::string, Attribute, std::less<>> attributes) {
    const DType dtype = inputs[0]->type().dtype;
    Node* made = graph.AddNode({.name = node->name(),
                                .op_type = op_type,
                                .opset = 13,
                                .inputs = std::move(inputs),
                                .outputs = {graph.UniqueName(node->output(0)->name() + "_shuffled")},
                                .attributes = std::move(attributes)},
                               node);
    made->output(0)->set_type(ValueType::Tensor(dtype, std::move(shape)));
    return made->output(0);
  };
  const auto list = [&](std::vector<int64_t> spatial, std::vector<int64_t> channels) {
    spatial.insert(spatial.end(), channels.begin(), channels.end());
    const auto n = static_cast<int64_t>(spatial.size());
    return graph.AddConstant(graph.UniqueName(node->output(0)->name() + "_shape"),
                             Tensor::FromValues<int64_t>(Shape{n}, spatial));
  };
  const Dims whole = *s->x->type().shape;
  const std::vector<int64_t> same(whole.size() - 1, 0);  // extents that a Reshape copies
  Dims apart(whole.begin(), whole.end() - 1), turned = apart;
  apart.insert(apart.end(), {Dim(s->groups), Dim(s->size)});
  turned.insert(turned.end(), {Dim(s->size), Dim(s->groups)});
  Permutation perm;
  for (size_t d = 0; d < apart.size(); ++d) perm.push_back(static_cast<int64_t>(d));
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  GraphValue* y = add("Reshape", {s->x, list(same, {s->groups, s->size})}, apart, {});
  y = add("Transpose", {y}, turned, {{"perm", perm}});
  y = add("Reshape", {y, list(same, {s->groups * s->size})}, whole, {});
  graph.ReplaceAllUses(node->output(0),
                       TransposeValue(graph, y, ToChannelsFirst(static_cast<int>(whole.size())), node));
  RemoveIfDead(graph, node);
  return true;
}

}  // namespace quern::cpu
