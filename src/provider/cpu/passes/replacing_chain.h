// Nodes that together stand for one node, each the reader of the one before.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "provider/cpu/passes/edit.h"

namespace quern::cpu {

// Adds nodes of float32 results before `node`; each gets its name and a type. `value` is the last result, at first what
// the chain begins with.
struct ReplacingChain {
  Graph& graph;
  Node* node;
  GraphValue* value;

  // `more`: the inputs behind `value`, or before it with `last`.
  void Add(const char* op, int opset, std::vector<GraphValue*> more, Dims shape,
           std::map<std::string, Attribute, std::less<>> attributes, bool last = false) {
    more.insert(last ? more.end() : more.begin(), value);
    Node* made = graph.AddNode({.name = node->name(),
                                .op_type = op,
                                .opset = opset,
                                .inputs = std::move(more),
                                .outputs = {graph.UniqueName(node->output(0)->name() + "_part")},
                                .attributes = std::move(attributes)},
                               node);
    value = made->output(0);
    value->set_type(ValueType::Tensor(DType::kF32, std::move(shape)));
  }
  GraphValue* Constant(const std::vector<int64_t>& numbers) {
    return graph.AddConstant(graph.UniqueName(node->output(0)->name() + "_plan"),
                             Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(numbers.size())}, numbers));
  }
};

}  // namespace quern::cpu
