#include "api/model_builder.h"

#include <algorithm>

namespace quern::api {
namespace {

std::string Describe(const ModelBuilder::Node& node) {
  const std::string& name = !node.name.empty() || node.outputs.empty() ? node.name : node.outputs.front();
  return "node '" + name + "' (" + node.op_type + ")";
}

}  // namespace

Status ModelBuilder::Define(const std::string& name) {
  if (name.empty()) return InvalidArgument("a value needs a name");
  if (!defined_.insert(name).second) return InvalidArgument("value '" + name + "' is defined already");
  return OkStatus();
}

Status ModelBuilder::AddInput(std::string name, ValueType type) {
  QUERN_RETURN_IF_ERROR(Define(name));
  inputs_.emplace_back(std::move(name), std::move(type));
  return OkStatus();
}

Status ModelBuilder::AddConstant(std::string name, Value content) {
  QUERN_RETURN_IF_ERROR(Define(name));
  constants_.emplace_back(std::move(name), std::move(content));
  return OkStatus();
}

Status ModelBuilder::AddNode(Node node) {
  int depth = depth_;
  for (const auto& [attribute, subgraph] : node.subgraphs) depth = std::max(depth, subgraph->depth_ + 1);
  if (depth > kMaxDepth) {
    return ResourceExhausted(Describe(node) + ": subgraphs are nested more than " + std::to_string(kMaxDepth) +
                             " deep");
  }
  int64_t size = size_ + 1;
  for (const auto& [attribute, subgraph] : node.subgraphs) size += subgraph->size_;  // each at most the limit
  if (size > Limits{}.nodes) {
    return ResourceExhausted(Describe(node) + ": the graph has more than " + std::to_string(Limits{}.nodes) +
                             " nodes, those of a subgraph counted wherever it is used");
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const Status status = Define(node.outputs[i]);
    if (status.ok()) continue;
    for (size_t j = 0; j < i; ++j) defined_.erase(node.outputs[j]);
    return status.WithContext(Describe(node));
  }
  nodes_.push_back(std::move(node));
  depth_ = depth;
  size_ = size;
  return OkStatus();
}

std::vector<std::string> ModelBuilder::FreeNames() const {
  std::vector<std::string> names;
  std::set<std::string> seen;
  auto use = [&](const std::string& name) {
    if (!name.empty() && !defined_.contains(name) && seen.insert(name).second) names.push_back(name);
  };
  for (const Node& n : nodes_) {
    for (const std::string& input : n.inputs) use(input);
    for (const auto& [attribute, subgraph] : n.subgraphs) {
      for (const std::string& name : subgraph->FreeNames()) use(name);
    }
  }
  for (const std::string& output : outputs_) use(output);
  return names;
}

Result<std::unique_ptr<Graph>> ModelBuilder::Build() const { return Build(imports_, {}, {}); }

Result<std::unique_ptr<Graph>> ModelBuilder::Build(const std::map<std::string, int>& imports,
                                                   std::span<const std::string> captures,
                                                   std::span<const ValueType> types) const {
  auto graph = std::make_unique<Graph>();
  graph->name = name_;
  graph->opset_imports = imports;
  std::map<std::string, GraphValue*, std::less<>> values;
  for (const auto& [name, type] : inputs_) values[name] = graph->AddInput(name, type);
  for (const auto& [name, content] : constants_) values[name] = graph->AddConstant(name, content);
  for (size_t i = 0; i < captures.size(); ++i) {
    // A name that this graph defines itself hides the outer one, which then is an input that nobody reads.
    const bool hidden = defined_.contains(captures[i]);
    GraphValue* input = graph->AddInput(hidden ? graph->UniqueName(captures[i] + ".outer") : captures[i], types[i]);
    if (!hidden) values[captures[i]] = input;
  }
  auto find = [&](const std::string& name, const std::string& reader) -> Result<GraphValue*> {
    auto it = values.find(name);
    if (it != values.end()) return it->second;
    return InvalidArgument(reader + ": value '" + name + "' " +
                           (defined_.contains(name) ? "is used before the node that makes it" : "is not defined"));
  };
  for (const Node& n : nodes_) {
    const std::string who = Describe(n);
    NodeSpec spec{n.name, n.domain, n.op_type, 0, {}, {}, n.attributes, {}};
    auto import = imports.find(n.domain);
    if (import == imports.end()) {
      return InvalidArgument(who + ": no version of operator set '" + n.domain + "' is imported (quern_model_import)");
    }
    spec.opset = import->second;
    for (const std::string& input : n.inputs) {
      if (input.empty()) {
        spec.inputs.push_back(nullptr);
        continue;
      }
      QUERN_ASSIGN_OR_RETURN(GraphValue * value, find(input, who));
      spec.inputs.push_back(value);
    }
    std::vector<std::string> outer;
    for (const auto& [attribute, subgraph] : n.subgraphs) {
      for (const std::string& name : subgraph->FreeNames()) {
        if (std::find(outer.begin(), outer.end(), name) == outer.end()) outer.push_back(name);
      }
    }
    std::vector<ValueType> outer_types;
    for (const std::string& name : outer) {
      QUERN_ASSIGN_OR_RETURN(GraphValue * value, find(name, who + ": subgraph"));
      spec.captures.push_back(value);
      outer_types.push_back(value->type());
    }
    for (const auto& [attribute, subgraph] : n.subgraphs) {
      Result<std::unique_ptr<Graph>> built = subgraph->Build(imports, outer, outer_types);
      if (!built.ok()) return built.status().WithContext(who + ": subgraph '" + attribute + "'");
      spec.attributes.insert_or_assign(attribute, GraphPtr(std::move(built).value()));
    }
    // Every outer name must be free for the node's own outputs: names are unique within a graph.
    for (const std::string& output : n.outputs) {
      if (!output.empty() && graph->FindValue(output)) return InvalidArgument(who + ": '" + output + "' is taken");
    }
    spec.outputs = n.outputs;
    const quern::Node* made = graph->AddNode(std::move(spec));
    for (int i = 0; i < made->num_outputs(); ++i) {
      if (made->output(i)) values[made->output(i)->name()] = made->output(i);
    }
  }
  for (const std::string& output : outputs_) {
    QUERN_ASSIGN_OR_RETURN(GraphValue * value, find(output, "graph output"));
    graph->AddOutput(value);
  }
  return graph;
}

}  // namespace quern::api
