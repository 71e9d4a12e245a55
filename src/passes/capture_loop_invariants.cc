// States of a Loop that its body hands on as they came become captures, as converters of TensorFlow's while loops leave
// weights to be carried along:
//   %h, %w_last = Loop(%m, %go, %h0, %w) {body = graph {
//     input %i; input %c; input %h; input %v
//     %next = MatMul(%h, %v)
//     return %c, %next, %v }}
// ->
//   %h = Loop(%m, %go, %h0) captures(%w) {body = graph {
//     input %i; input %c; input %h; input %v
//     %next = MatMul(%h, %v)
//     return %c, %next }}                                   (%w_last is %w)
#include <algorithm>

#include "graph/rewriter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr int kFirstState = 2;  // of the node's and the body's inputs: before it are the trips and the condition

// States that stay what they were; uses of their last values become uses of the first ones. Left out are those where
// both names belong to the model's interface.
std::vector<int> TakeInvariants(Graph& graph, const Node& loop, const Graph& body) {
  std::vector<int> states;
  for (int i = 0; kFirstState + i < loop.num_inputs(); ++i) {
    GraphValue *first = loop.input(kFirstState + i), *last = loop.output(i);
    if (!first || body.outputs()[1 + i] != body.inputs()[kFirstState + i]) continue;
    if (!last || last->uses().empty() || ReplaceValue(graph, last, first)) states.push_back(i);
  }
  return states;
}

// The body's input for the capture of `outer`, which becomes one if it is none yet.
GraphValue* CaptureInput(std::vector<GraphValue*>& captures, GraphValue* outer, Graph& body, const GraphValue& state) {
  const auto known = std::find(captures.begin(), captures.end(), outer);
  if (known != captures.end()) return body.inputs()[body.inputs().size() - (captures.end() - known)];
  captures.push_back(outer);
  return body.AddInput(body.UniqueName(state.name() + "_invariant"), state.type());
}

Result<bool> Rewrite(Graph& graph, Node* loop) {
  if (!loop->Is("Loop")) return false;
  const GraphPtr* attribute = loop->FindAttribute<GraphPtr>("body");
  const int states = loop->num_inputs() - kFirstState;
  if (!attribute || states < 1 || loop->num_outputs() < states) return false;
  Graph& body = **attribute;
  if (body.outputs().size() != static_cast<size_t>(1 + loop->num_outputs()) ||
      body.inputs().size() != static_cast<size_t>(loop->num_inputs()) + loop->captures().size()) {
    return false;
  }
  const std::vector<int> invariants = TakeInvariants(graph, *loop, body);
  if (invariants.empty()) return false;
  const auto is_invariant = [&](int i) { return std::binary_search(invariants.begin(), invariants.end(), i); };

  NodeSpec spec{.name = loop->name(), .op_type = "Loop", .opset = loop->opset(), .attributes = loop->attributes()};
  spec.captures = loop->captures();
  for (int i = 0; i < loop->num_inputs(); ++i) {
    if (!is_invariant(i - kFirstState)) spec.inputs.push_back(loop->input(i));
  }
  std::vector<GraphValue*> kept;
  for (int i = 0; i < loop->num_outputs(); ++i) {
    if (is_invariant(i)) continue;
    kept.push_back(loop->output(i));
    spec.outputs.push_back(kept.back() ? graph.UniqueName(kept.back()->name() + "_kept") : std::string());
  }
  std::vector<GraphValue*> carried;
  for (const int i : invariants) {
    GraphValue* state = body.inputs()[kFirstState + i];
    carried.push_back(state);
    body.ReplaceAllUses(state, CaptureInput(spec.captures, loop->input(kFirstState + i), body, *state));
  }
  for (int k = static_cast<int>(invariants.size()) - 1; k >= 0; --k) {
    body.RemoveOutput(1 + invariants[k]);
    body.RemoveValue(carried[k]);
  }
  if (kept.empty()) {
    graph.Remove(loop);
    return true;
  }
  Node* shorter = graph.AddNode(std::move(spec), loop);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    shorter->output(static_cast<int>(i))->set_type(kept[i]->type());
    ReplaceValue(graph, kept[i], shorter->output(static_cast<int>(i)));
  }
  graph.Remove(loop);
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Rewrite); }

}  // namespace

extern const Pass kCaptureLoopInvariants = {"capture_loop_invariants",
                                            "loop states that the body hands on unchanged become captures", Run};

}  // namespace quern
