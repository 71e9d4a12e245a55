// Adds the nodes and constants that stand for another node, before it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "tensor/tensor.h"

namespace quern {

using Attributes = std::map<std::string, Attribute, std::less<>>;

class Inserter {
 public:
  // What is added goes before the node and is named after its first result.
  Inserter(Graph& graph, Node* before) : graph_(graph), before_(before) {}

  // `opset` is the oldest that has the operator in this form: written to a file, all nodes follow one.
  GraphValue* Add(const char* op_type, int opset, std::vector<GraphValue*> inputs, ValueType type,
                  Attributes attributes = {}) {
    Node* n = graph_.AddNode({.op_type = op_type,
                              .opset = std::max(opset, before_->opset()),
                              .inputs = std::move(inputs),
                              .outputs = {NewName("_part")},
                              .attributes = std::move(attributes)},
                             before_);
    n->output(0)->set_type(std::move(type));
    return n->output(0);
  }
  GraphValue* Constant(Tensor content, const char* suffix) {
    return graph_.AddConstant(NewName(suffix), std::move(content));
  }
  GraphValue* Ints(const std::vector<int64_t>& numbers) {
    return Constant(Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(numbers.size())}, numbers), "_ints");
  }
  // A scalar of a type of floats.
  GraphValue* Number(DType dtype, double number) {
    const auto narrow = static_cast<float>(number);
    return Constant(dtype == DType::kF64    ? Tensor::Scalar(number)
                    : dtype == DType::kF16  ? Tensor::Scalar(Float16(narrow))
                    : dtype == DType::kBF16 ? Tensor::Scalar(BFloat16(narrow))
                                            : Tensor::Scalar(narrow),
                    "_number");
  }

 private:
  std::string NewName(const char* suffix) { return graph_.UniqueName(before_->output(0)->name() + suffix); }

  Graph& graph_;
  Node* before_;
};

// What a Reshape to these dimensions takes, at most one of which may be open; nothing for others.
inline std::optional<std::vector<int64_t>> ReshapeList(const Dims& dims) {
  std::vector<int64_t> list;
  int open = 0;
  for (const Dim& d : dims) {
    if (d.is_constant() && d.value() <= 0) return std::nullopt;
    open += !d.is_constant();
    list.push_back(d.is_constant() ? d.value() : -1);
  }
  return open <= 1 ? std::optional(std::move(list)) : std::nullopt;
}

}  // namespace quern
