#include "format/onnx/inline_functions.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "format/onnx/field_reader.h"
#include "format/onnx/fields.h"
#include "format/onnx/function_table.h"

namespace quern::onnx {
namespace {

// Names of one kind (values, nodes) that a model has, and new ones.
class Names {
 public:
  void Add(std::string_view name) { taken_.insert(name); }
  bool Has(std::string_view name) const { return taken_.count(name) != 0; }
  // `name`, or with the first number behind it that makes it new. The text that Add() is to get once it is kept.
  std::string Unused(std::string name) {
    if (!Has(name)) return name;
    int64_t& next = next_[name];
    std::string numbered;
    do {
      numbered = name + "_" + std::to_string(++next);
    } while (Has(numbered));
    return numbered;
  }

 private:
  std::unordered_set<std::string_view> taken_;
  std::unordered_map<std::string, int64_t> next_;
};

// What a name of a function's body, or of a subgraph in it, is called in the model.
struct Scope {
  const Scope* outer = nullptr;  // the graph around a subgraph; null for the body itself
  std::unordered_map<std::string_view, std::string_view> names = {};
};

struct BoundAttribute {
  const AttributeView* content;
  bool is_default;
};

// One call at work.
struct Call {
  const FunctionView& function;
  std::string_view path;  // in front of the names of its nodes and values
  const CallView* view;   // NodeView::call of its nodes
  std::unordered_map<std::string_view, BoundAttribute> attributes = {};
  std::unordered_set<std::string_view> defined = {};  // by nodes of the body
};

class Inliner {
 public:
  Inliner(ModelView& model, TensorDecoder& decoder) : model_(model), decoder_(decoder), limits_(decoder.limits()) {}

  Status Run() {
    for (const FunctionView& function : model_.functions) {
      QUERN_RETURN_IF_ERROR(functions_.Add(function));
    }
    CollectNames(model_.graph);
    // A file of a few kilobytes may ask for any number of nodes: known before the first is made.
    const int64_t most =
        std::min(limits_.nodes, std::numeric_limits<int64_t>::max() / 4);  // so that sums do not overflow
    QUERN_ASSIGN_OR_RETURN(const int64_t size, functions_.InlinedSize(model_.graph.nodes, most));
    if (size > most) return TooManyNodes();
    return Expand(&model_.graph, 0);
  }

 private:
  Status TooManyNodes() const {
    return ResourceExhausted("with its functions inlined the model has more nodes than the limit of " +
                             std::to_string(limits_.nodes));
  }

  // Counts what is made against the limits: a node, and one more per 64 names that are looked at for it.
  Status Spend(size_t names, size_t bytes) {
    nodes_ += 1 + static_cast<int64_t>(names / 64);
    if (nodes_ > limits_.nodes) return TooManyNodes();
    return decoder_.Charge(bytes + names * sizeof(std::string_view));
  }
  Result<std::string_view> Keep(std::string text) {
    constexpr size_t kOverhead = 128;  // of the string and its places in Names
    QUERN_RETURN_IF_ERROR(decoder_.Charge(2 * text.size() + kOverhead));
    return std::string_view(model_.made_up.emplace_back(std::move(text)));
  }
  Result<std::string_view> NewName(Names& names, std::string_view path, std::string_view name) {
    QUERN_ASSIGN_OR_RETURN(const std::string_view kept,
                           Keep(names.Unused(std::string(path) + "/" + std::string(name))));
    names.Add(kept);
    return kept;
  }

  void CollectNames(const GraphView& graph) {
    for (const ValueInfoView& input : graph.inputs) values_.Add(input.name);
    for (const InitializerView& initializer : graph.initializers) values_.Add(initializer.name);
    for (const NodeView& node : graph.nodes) {
      ++nodes_;
      if (!node.name.empty()) node_names_.Add(node.name);
      for (std::string_view output : node.outputs) values_.Add(output);
      for (const AttributeView& attribute : node.attributes) {
        for (const auto& subgraph : attribute.graphs) CollectNames(*subgraph);
      }
    }
  }

  // The calls of the main graph or a subgraph of it, in place.
  Status Expand(GraphView* graph, int depth);
  // Adds a node whose names are the model's to `to`, or what it calls.
  Status Append(NodeView node, int depth, GraphView* to);
  Status AppendBody(const NodeView& node, const FunctionView& function, int depth, GraphView* to);
  Status BindInputs(const NodeView& node, const FunctionView& function, Scope* scope);
  Status BindAttributes(const NodeView& node, Call* call);
  // Names of what the body defines; `identities` gets an Identity for each output that needs one.
  Status BindOutputs(const NodeView& node, Call* call, Scope* scope, std::vector<NodeView>* identities);

  Result<std::string_view> Resolve(const Call& call, const Scope& scope, std::string_view name) const;
  Result<NodeView> CopyNode(const Call& call, const Scope& scope, const NodeView& node, int depth);
  // Nothing when it refers to an attribute that the call does not give.
  Result<std::optional<AttributeView>> CopyAttribute(const Call& call, const Scope& scope,
                                                     const AttributeView& attribute, int depth);
  // A subgraph of a body: renamed, with its calls inlined.
  Result<std::unique_ptr<GraphView>> CopySubgraph(const Call& call, const Scope& outer, const GraphView& graph,
                                                  int depth);
  // A graph that a call gives as an attribute, once more: its names are the caller's.
  Result<std::unique_ptr<GraphView>> Duplicate(const GraphView& graph, int depth);

  Status CheckDepth(int depth) const {
    if (depth <= limits_.subgraph_depth) return OkStatus();
    return ResourceExhausted("subgraphs nested deeper than the limit of " + std::to_string(limits_.subgraph_depth));
  }

  ModelView& model_;
  TensorDecoder& decoder_;
  const Limits& limits_;
  FunctionTable functions_;
  Names values_, node_names_;
  const Scope no_names_ = {};
  int depth_of_calls_ = 0;
  int64_t nodes_ = 0;
};

Status Inliner::Expand(GraphView* graph, int depth) {
  std::vector<NodeView> nodes = std::move(graph->nodes);
  graph->nodes.clear();
  graph->nodes.reserve(nodes.size());
  for (NodeView& node : nodes) {
    for (AttributeView& attribute : node.attributes) {
      for (const auto& subgraph : attribute.graphs) {
        const Status inner = Expand(subgraph.get(), depth + 1);
        if (!inner.ok()) {
          return inner.WithContext(NodePath(node) + ": attribute " + Quoted(attribute.name));
        }
      }
    }
    QUERN_RETURN_IF_ERROR(Append(std::move(node), depth, graph));
  }
  FindFreeNames(graph);
  return OkStatus();
}

Status Inliner::Append(NodeView node, int depth, GraphView* to) {
  if (const FunctionView* function = functions_.Find(node)) {
    const Status status = AppendBody(node, *function, depth, to);
    // Errors of nodes in the body begin with the call's path already.
    const std::string path = NodePath(node);
    return status.ok() || status.message().starts_with(path) ? status : status.WithContext(path);
  }
  to->nodes.push_back(std::move(node));
  return OkStatus();
}

Status Inliner::AppendBody(const NodeView& node, const FunctionView& function, int depth, GraphView* to) {
  if (depth_of_calls_ >= kMaxDepth) return CallsTooDeep();  // what was counted before hides how deep it goes
  QUERN_RETURN_IF_ERROR(Spend(function.inputs.size() + function.outputs.size() + function.attributes.size() +
                                  function.defaults.size() + function.body.value_info.size() + node.attributes.size(),
                              sizeof(NodeView) + sizeof(CallView)));
  std::string_view path = node.name;
  if (path.empty()) {
    QUERN_ASSIGN_OR_RETURN(path, Keep(node_names_.Unused(std::string(node.op_type))));
    node_names_.Add(path);
  }
  model_.calls.push_back({node.name, node.op_type, node.list, node.call, node.index, &function});
  Call call{.function = function, .path = path, .view = &model_.calls.back()};
  Scope scope;
  std::vector<NodeView> identities;
  QUERN_RETURN_IF_ERROR(BindInputs(node, function, &scope));
  QUERN_RETURN_IF_ERROR(BindAttributes(node, &call));
  QUERN_RETURN_IF_ERROR(BindOutputs(node, &call, &scope, &identities));
  for (const ValueInfoView& info : function.body.value_info) {
    if (call.defined.count(info.name) == 0) continue;
    ValueInfoView renamed = info;
    renamed.name = scope.names.at(info.name);
    to->value_info.push_back(renamed);
  }
  ++depth_of_calls_;
  for (const NodeView& inner : function.body.nodes) {
    Result<NodeView> copy = CopyNode(call, scope, inner, depth);
    if (!copy.ok()) {
      NodeView named;
      named.name = inner.name;
      named.op_type = inner.op_type;
      named.call = call.view;
      named.index = inner.index;
      return copy.status().WithContext(NodePath(named));
    }
    QUERN_RETURN_IF_ERROR(Append(std::move(copy).value(), depth, to));
  }
  --depth_of_calls_;
  for (NodeView& identity : identities) to->nodes.push_back(std::move(identity));
  return OkStatus();
}

Status Inliner::BindInputs(const NodeView& node, const FunctionView& function, Scope* scope) {
  if (node.inputs.size() > function.inputs.size()) {
    return InvalidArgument("has " + std::to_string(node.inputs.size()) + " inputs, the function " +
                           FunctionName(function) + " takes " + std::to_string(function.inputs.size()));
  }
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const std::string_view given = i < node.inputs.size() ? node.inputs[i] : std::string_view();
    if (!scope->names.emplace(function.inputs[i], given).second) {
      return InvalidArgument("function " + FunctionName(function) + ": input " + Quoted(function.inputs[i]) +
                             " is declared twice");
    }
  }
  return OkStatus();
}

Status Inliner::BindAttributes(const NodeView& node, Call* call) {
  std::unordered_set<std::string_view> known(call->function.attributes.begin(), call->function.attributes.end());
  for (const AttributeView& attribute : call->function.defaults) {
    known.insert(attribute.name);
    call->attributes.insert_or_assign(attribute.name, BoundAttribute{&attribute, true});
  }
  std::unordered_set<std::string_view> given;
  for (const AttributeView& attribute : node.attributes) {
    if (known.count(attribute.name) == 0) {
      return InvalidArgument("attribute " + Quoted(attribute.name) + ": the function " + FunctionName(call->function) +
                             " has no such attribute");
    }
    if (!given.insert(attribute.name).second) {
      return InvalidArgument("attribute " + Quoted(attribute.name) + " is given twice");
    }
    call->attributes.insert_or_assign(attribute.name, BoundAttribute{&attribute, false});
  }
  return OkStatus();
}

Status Inliner::BindOutputs(const NodeView& node, Call* call, Scope* scope, std::vector<NodeView>* identities) {
  const FunctionView& function = call->function;
  const std::string in_function = "function " + FunctionName(function) + ": ";
  if (node.outputs.size() > function.outputs.size()) {
    return InvalidArgument("has " + std::to_string(node.outputs.size()) + " outputs, the function " +
                           FunctionName(function) + " gives " + std::to_string(function.outputs.size()));
  }
  for (const NodeView& inner : function.body.nodes) {
    for (std::string_view output : inner.outputs) {
      if (output.empty()) continue;
      call->defined.insert(output);
      if (scope->names.count(output) != 0) {
        return InvalidArgument(in_function + NodePath(inner) + ": output " + Quoted(output) +
                               " has the name of an input");
      }
    }
  }
  // What the call names keeps that name: the first output of the function that is the value.
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string_view inner = function.outputs[i];
    if (node.outputs[i].empty()) continue;
    const auto known = scope->names.find(inner);
    if (known == scope->names.end()) {
      if (call->defined.count(inner) == 0) {
        return InvalidArgument(in_function + "output " + Quoted(inner) + " is not defined");
      }
      scope->names.emplace(inner, node.outputs[i]);
      continue;
    }
    if (known->second.empty()) {
      return InvalidArgument("output " + std::to_string(i) + " is the input " + Quoted(inner) + " of the function " +
                             FunctionName(function) + ", which the call omits");
    }
    NodeView& identity = identities->emplace_back();
    QUERN_RETURN_IF_ERROR(Spend(2, sizeof(NodeView)));
    QUERN_ASSIGN_OR_RETURN(identity.name, NewName(node_names_, call->path, "Identity"));
    identity.op_type = "Identity";
    identity.inputs = {known->second};
    identity.outputs = {node.outputs[i]};
    identity.call = call->view;
    identity.index = function.body.nodes.size();
    identity.imports = &function.imports;
  }
  for (const NodeView& inner : function.body.nodes) {
    for (std::string_view output : inner.outputs) {
      if (output.empty() || scope->names.count(output) != 0) continue;
      QUERN_ASSIGN_OR_RETURN(const std::string_view name, NewName(values_, call->path, output));
      scope->names.emplace(output, name);
    }
  }
  return OkStatus();
}

Result<std::string_view> Inliner::Resolve(const Call& call, const Scope& scope, std::string_view name) const {
  if (name.empty()) return name;
  for (const Scope* s = &scope; s != nullptr; s = s->outer) {
    if (const auto at = s->names.find(name); at != s->names.end()) return std::string_view(at->second);
  }
  return InvalidArgument(Quoted(name) + " is not defined in the function " + FunctionName(call.function));
}

Result<NodeView> Inliner::CopyNode(const Call& call, const Scope& scope, const NodeView& node, int depth) {
  QUERN_RETURN_IF_ERROR(Spend(node.inputs.size() + node.outputs.size() + node.attributes.size(),
                              sizeof(NodeView) + node.attributes.size() * sizeof(AttributeView)));
  NodeView copy;
  QUERN_ASSIGN_OR_RETURN(copy.name, NewName(node_names_, call.path, node.name.empty() ? node.op_type : node.name));
  copy.domain = node.domain;
  copy.op_type = node.op_type;
  copy.overload = node.overload;
  copy.list = node.list;
  copy.call = node.list == "node" ? call.view : nullptr;  // else it stands in a subgraph, which errors name
  copy.index = node.index;
  copy.imports = &call.function.imports;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    Result<std::string_view> name = Resolve(call, scope, node.inputs[i]);
    if (!name.ok()) return name.status().WithContext("input " + std::to_string(i));
    copy.inputs.push_back(*name);
  }
  for (std::string_view output : node.outputs) {
    QUERN_ASSIGN_OR_RETURN(const std::string_view name, Resolve(call, scope, output));
    copy.outputs.push_back(name);
  }
  for (const AttributeView& attribute : node.attributes) {
    Result<std::optional<AttributeView>> made = CopyAttribute(call, scope, attribute, depth);
    if (!made.ok()) return made.status().WithContext("attribute " + Quoted(attribute.name));
    if (made->has_value()) copy.attributes.push_back(std::move(**made));
  }
  return copy;
}

Result<std::optional<AttributeView>> Inliner::CopyAttribute(const Call& call, const Scope& scope,
                                                            const AttributeView& attribute, int depth) {
  AttributeView copy;
  copy.name = attribute.name;
  const AttributeView* source = &attribute;
  bool is_callers = false;  // its graphs speak of the caller's values
  const Scope* names = &scope;
  if (!attribute.reference.empty()) {
    const auto bound = call.attributes.find(attribute.reference);
    if (bound == call.attributes.end()) return std::optional<AttributeView>();
    source = bound->second.content;
    is_callers = !bound->second.is_default;
    names = &no_names_;  // a default knows no values
    if (attribute.type != AttributeKind::kUndefined && attribute.type != source->type) {
      return InvalidArgument("refers to " + Quoted(attribute.reference) + " of the function " +
                             FunctionName(call.function) + " as type " + std::to_string(attribute.type) +
                             ", it is given as type " + std::to_string(source->type));
    }
    copy.reference = source->reference;  // in a call outside of functions: an error when the attribute is read
  }
  copy.type = source->type;
  copy.body = source->body;
  for (const auto& graph : source->graphs) {
    std::unique_ptr<GraphView> made;
    if (is_callers) {
      QUERN_ASSIGN_OR_RETURN(made, Duplicate(*graph, depth + 1));
    } else {
      QUERN_ASSIGN_OR_RETURN(made, CopySubgraph(call, *names, *graph, depth + 1));
    }
    copy.graphs.push_back(std::move(made));
  }
  return std::optional<AttributeView>(std::move(copy));
}

Result<std::unique_ptr<GraphView>> Inliner::CopySubgraph(const Call& call, const Scope& outer, const GraphView& graph,
                                                         int depth) {
  QUERN_RETURN_IF_ERROR(CheckDepth(depth));
  QUERN_RETURN_IF_ERROR(
      Spend(graph.inputs.size() + graph.outputs.size() + graph.initializers.size() + graph.value_info.size(),
            sizeof(GraphView)));
  Scope scope{.outer = &outer};
  const auto define = [&](std::string_view name) -> Status {
    if (name.empty() || scope.names.count(name) != 0) return OkStatus();  // twice: an error when the graph is built
    QUERN_ASSIGN_OR_RETURN(const std::string_view made, NewName(values_, call.path, name));
    scope.names.emplace(name, made);
    return OkStatus();
  };
  for (const ValueInfoView& input : graph.inputs) QUERN_RETURN_IF_ERROR(define(input.name));
  for (const InitializerView& initializer : graph.initializers) QUERN_RETURN_IF_ERROR(define(initializer.name));
  for (const NodeView& node : graph.nodes) {
    for (std::string_view output : node.outputs) QUERN_RETURN_IF_ERROR(define(output));
  }
  auto copy = std::make_unique<GraphView>();
  copy->name = graph.name;
  const auto copy_infos = [&](const std::vector<ValueInfoView>& from, bool required,
                              std::vector<ValueInfoView>* to) -> Status {
    for (const ValueInfoView& info : from) {
      ValueInfoView renamed = info;
      renamed.is_of_function = true;
      if (required) {
        QUERN_ASSIGN_OR_RETURN(renamed.name, Resolve(call, scope, info.name));
      } else if (const auto own = scope.names.find(info.name); own != scope.names.end()) {
        renamed.name = own->second;
      } else {
        continue;
      }
      to->push_back(renamed);
    }
    return OkStatus();
  };
  QUERN_RETURN_IF_ERROR(copy_infos(graph.inputs, true, &copy->inputs));
  QUERN_RETURN_IF_ERROR(copy_infos(graph.value_info, false, &copy->value_info));
  for (const InitializerView& initializer : graph.initializers) {
    QUERN_ASSIGN_OR_RETURN(const std::string_view name, Resolve(call, scope, initializer.name));
    copy->initializers.push_back({name, initializer.body, initializer.is_sparse});
  }
  for (const NodeView& node : graph.nodes) {
    Result<NodeView> made = CopyNode(call, scope, node, depth);
    if (!made.ok()) return made.status().WithContext(NodePath(node));
    QUERN_RETURN_IF_ERROR(Append(std::move(made).value(), depth, copy.get()));
  }
  QUERN_RETURN_IF_ERROR(copy_infos(graph.outputs, true, &copy->outputs));
  FindFreeNames(copy.get());
  return copy;
}

Result<std::unique_ptr<GraphView>> Inliner::Duplicate(const GraphView& graph, int depth) {
  QUERN_RETURN_IF_ERROR(CheckDepth(depth));
  QUERN_RETURN_IF_ERROR(Spend(graph.inputs.size() + graph.outputs.size() + graph.initializers.size() +
                                  graph.value_info.size() + graph.free_names.size(),
                              sizeof(GraphView)));
  auto copy = std::make_unique<GraphView>();
  copy->name = graph.name;
  copy->initializers = graph.initializers;
  copy->inputs = graph.inputs;
  copy->outputs = graph.outputs;
  copy->value_info = graph.value_info;
  copy->free_names = graph.free_names;
  for (const NodeView& node : graph.nodes) {
    QUERN_RETURN_IF_ERROR(Spend(node.inputs.size() + node.outputs.size() + node.attributes.size(),
                                sizeof(NodeView) + node.attributes.size() * sizeof(AttributeView)));
    NodeView& made = copy->nodes.emplace_back();
    made.name = node.name;
    made.domain = node.domain;
    made.op_type = node.op_type;
    made.overload = node.overload;
    made.inputs = node.inputs;
    made.outputs = node.outputs;
    made.list = node.list;
    made.call = node.call;
    made.index = node.index;
    made.imports = node.imports;
    for (const AttributeView& attribute : node.attributes) {
      AttributeView& to = made.attributes.emplace_back();
      to.name = attribute.name;
      to.reference = attribute.reference;
      to.type = attribute.type;
      to.body = attribute.body;
      for (const auto& subgraph : attribute.graphs) {
        QUERN_ASSIGN_OR_RETURN(std::unique_ptr<GraphView> inner, Duplicate(*subgraph, depth + 1));
        to.graphs.push_back(std::move(inner));
      }
    }
  }
  return copy;
}

}  // namespace

Status InlineFunctions(ModelView* model, TensorDecoder& decoder) {
  if (model->functions.empty()) return OkStatus();
  return Inliner(*model, decoder).Run();
}

}  // namespace quern::onnx
