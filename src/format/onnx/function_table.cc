#include "format/onnx/function_table.h"

#include <algorithm>

namespace quern::onnx {
namespace {

std::string Key(std::string_view domain, std::string_view name, std::string_view overload) {
  std::string key(domain);
  key.append(1, '\0').append(name).append(1, '\0').append(overload);
  return key;
}

}  // namespace

Status CallsTooDeep() {
  return ResourceExhausted("functions call functions more than " + std::to_string(kMaxDepth) + " deep");
}

Status FunctionTable::Add(const FunctionView& function) {
  if (functions_.emplace(Key(function.domain, function.name, function.overload), &function).second) return OkStatus();
  return InvalidArgument("function " + FunctionName(function) + " is defined twice");
}

const FunctionView* FunctionTable::Find(const NodeView& node) const {
  const auto at = functions_.find(Key(node.domain, node.op_type, node.overload));
  return at == functions_.end() ? nullptr : at->second;
}

Result<int64_t> FunctionTable::InlinedSize(const std::vector<NodeView>& nodes, int64_t most) {
  int64_t size = 0;
  for (const NodeView& node : nodes) {
    int64_t of_node = 1;
    if (const FunctionView* function = Find(node)) {
      QUERN_ASSIGN_OR_RETURN(const int64_t of_body, InlinedSize(*function, most));
      of_node += of_body;
    }
    for (const AttributeView& attribute : node.attributes) {
      for (const auto& subgraph : attribute.graphs) {
        QUERN_ASSIGN_OR_RETURN(const int64_t of_graph, InlinedSize(subgraph->nodes, most));
        of_node = std::min(of_node + of_graph, most + 1);
      }
    }
    size = std::min(size + of_node, most + 1);
  }
  return size;
}

Result<int64_t> FunctionTable::InlinedSize(const FunctionView& function, int64_t most) {
  if (const auto known = sizes_.find(&function); known != sizes_.end()) return int64_t{known->second};
  const auto begin = std::find(active_.begin(), active_.end(), &function);
  if (begin != active_.end()) {
    std::string cycle;
    for (auto f = begin; f != active_.end(); ++f) cycle += FunctionName(**f) + " -> ";
    return InvalidArgument("functions call each other in a circle: " + cycle + FunctionName(function));
  }
  if (active_.size() >= static_cast<size_t>(kMaxDepth)) return CallsTooDeep();
  active_.push_back(&function);
  QUERN_ASSIGN_OR_RETURN(const int64_t size, InlinedSize(function.body.nodes, most));
  active_.pop_back();
  sizes_.emplace(&function, size);
  return size;
}

}  // namespace quern::onnx
