#include "format/onnx/graph_builder.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "format/onnx/attribute.h"
#include "format/onnx/field_reader.h"
#include "format/onnx/fields.h"
#include "format/onnx/type_proto.h"

namespace quern::onnx {
namespace {

constexpr int64_t kFirstIrVersion = 3, kLastIrVersion = 14;

// The operator sets whose nodes are read. A model may import others as long as no node uses them.
struct KnownDomain {
  std::string_view domain;  // "" is ai.onnx
  int first, last;
  int implied;  // version of a model that uses the domain without importing it, as onnxruntime does; 0: an error
};
constexpr KnownDomain kKnownDomains[] = {{"", 6, 28, 0}, {"ai.onnx.ml", 1, 5, 0}, {"com.microsoft", 1, 1, 1}};
// Of convolutions whose channels and weights lie in blocks of one CPU's vectors; the model does not say how long.
constexpr std::string_view kBlockedLayouts = "com.microsoft.nchwc";

std::string DomainName(std::string_view domain) { return domain.empty() ? "ai.onnx" : std::string(domain); }

Status CheckVersion(const KnownDomain& known, int64_t version) {
  const std::string what = "operator set " + std::to_string(version) + " of " + DomainName(known.domain);
  if (version < known.first) {
    return Unsupported(what + " is older than " + std::to_string(known.first) +
                       ", the oldest that is read: convert the model with onnx.version_converter");
  }
  if (version > known.last) {
    return Unsupported(what + " is newer than " + std::to_string(known.last) +
                       ", the newest that is read: export the model with operator set " + std::to_string(known.last) +
                       " or older");
  }
  return OkStatus();
}

bool IsConstant(const NodeView& node) {
  return node.domain.empty() && node.op_type == "Constant" && node.inputs.empty() && node.outputs.size() == 1;
}

// A value that a node hands to its subgraphs.
struct Capture {
  std::string_view name;
  GraphValue* value;
};

// What all graphs of a model share.
struct Shared {
  TensorDecoder& decoder;
  std::map<std::string, int> opset_imports;    // of the model, with implied ones
  std::map<std::string, int> further_imports;  // of functions: a model of calls alone imports no more than theirs

  std::map<std::string, int> AllImports() const {
    std::map<std::string, int> all = opset_imports;
    all.insert(further_imports.begin(), further_imports.end());
    return all;
  }
};

// Names that a function gave its extents say nothing outside of one call.
ValueType WithoutNames(ValueType type) {
  if (type.shape) {
    for (Dim& d : *type.shape) {
      if (!d.is_constant()) d = Dim::Unknown();
    }
  }
  if (type.element) type.element = std::make_shared<const ValueType>(WithoutNames(*type.element));
  return type;
}

class GraphBuilder {
 public:
  GraphBuilder(Shared& shared, const GraphView& view, Graph& graph, bool is_main)
      : shared_(shared), view_(view), graph_(graph), is_main_(is_main) {}

  // `captures`: what the node around this subgraph captures, for all its subgraphs.
  Status Build(const std::vector<Capture>& captures);

 private:
  Status Declare();
  Status DeclareOutput(size_t node, size_t output, std::string_view name);
  Status ReadTypes();
  Status AddInputs();
  Status AddCaptures(const std::vector<Capture>& captures);
  Status AddInitializers();
  Result<std::vector<size_t>> SortNodes() const;
  Status AddNode(const NodeView& view);
  Result<int> OpsetOf(const NodeView& view);
  Status ReadAttributes(const NodeView& view, NodeSpec* spec);
  Status CollectCaptures(const NodeView& view, std::vector<Capture>* captures) const;
  Status AddOutputs();
  Result<ValueType> Type(const ValueInfoView& info) const {
    Result<ValueType> type = ParseType(info.type, shared_.decoder.base(), shared_.decoder.limits());
    if (type.ok() && info.is_of_function) return WithoutNames(std::move(type).value());
    return type;
  }
  void Define(std::string_view name, GraphValue* value) { values_.try_emplace(name, Defined{value, values_.size()}); }
  // Names that a node reads: its inputs and what its subgraphs take from outside.
  template <typename Visit>
  static void VisitReads(const NodeView& node, Visit visit) {
    for (std::string_view input : node.inputs) {
      if (!input.empty()) visit(input);
    }
    for (const AttributeView& attribute : node.attributes) {
      for (const auto& subgraph : attribute.graphs) {
        for (std::string_view name : subgraph->free_names) visit(name);
      }
    }
  }

  Shared& shared_;
  const GraphView& view_;
  Graph& graph_;
  const bool is_main_;
  std::unordered_set<std::string_view> formal_names_;  // graph inputs as declared
  std::unordered_set<std::string_view> initializer_names_;
  std::unordered_map<std::string_view, size_t> producers_;  // node that defines a name
  std::unordered_set<size_t> replaced_;                     // Constant nodes that a later one redefines
  std::unordered_map<std::string_view, ValueType> types_;   // declared, of node outputs
  struct Defined {
    GraphValue* value;
    size_t order;
  };
  std::unordered_map<std::string_view, Defined> values_;  // by the file's names
};

Status GraphBuilder::DeclareOutput(size_t node, size_t output, std::string_view name) {
  const NodeView& view = view_.nodes[node];
  if (formal_names_.count(name) == 0 && initializer_names_.count(name) == 0) {
    const auto [at, is_new] = producers_.emplace(name, node);
    if (is_new) return OkStatus();
    // Some exporters repeat Constant nodes. As in onnxruntime the last one counts, also for nodes before it.
    if (IsConstant(view) && IsConstant(view_.nodes[at->second]) && at->second != node) {
      replaced_.insert(at->second);
      at->second = node;
      return OkStatus();
    }
  }
  return InvalidArgument(NodePath(view) + ": output " + std::to_string(output) + " " + Quoted(name) +
                         " is defined twice: names must be unique within a graph");
}

Status GraphBuilder::Declare() {
  for (const ValueInfoView& input : view_.inputs) {
    if (input.name.empty()) return Corrupt("graph.input without a name");
    if (!formal_names_.insert(input.name).second) {
      return InvalidArgument("graph.input " + Quoted(input.name) + " is declared twice");
    }
  }
  for (const InitializerView& initializer : view_.initializers) {
    if (initializer.name.empty()) return Corrupt("graph.initializer without a name");
    if (!initializer_names_.insert(initializer.name).second) {
      return InvalidArgument("graph.initializer " + Quoted(initializer.name) + " is defined twice");
    }
  }
  for (size_t n = 0; n < view_.nodes.size(); ++n) {
    const std::vector<std::string_view>& outputs = view_.nodes[n].outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].empty()) QUERN_RETURN_IF_ERROR(DeclareOutput(n, i, outputs[i]));
    }
  }
  return OkStatus();
}

Status GraphBuilder::ReadTypes() {
  for (const auto* list : {&view_.outputs, &view_.value_info}) {
    for (const ValueInfoView& info : *list) {
      if (producers_.count(info.name) == 0) continue;
      Result<ValueType> type = Type(info);
      if (!type.ok()) return type.status().WithContext("graph.value_info " + Quoted(info.name));
      const auto [at, is_new] = types_.emplace(info.name, *type);
      if (is_new) continue;
      // Tools leave stale value_info behind; where it contradicts the declared output, the output is right.
      if (Result<ValueType> merged = MergeTypes(at->second, *type); merged.ok()) at->second = std::move(merged).value();
    }
  }
  return OkStatus();
}

Status GraphBuilder::AddInputs() {
  for (const ValueInfoView& input : view_.inputs) {
    Result<ValueType> type = Type(input);
    if (!type.ok()) return type.status().WithContext("graph.input " + Quoted(input.name));
    // In a main graph an input with an initializer has a default value: a constant, unless a session makes it an input
    // again. In a subgraph inputs are bound by position, so the input stays.
    if (is_main_ && initializer_names_.count(input.name) != 0) {
      graph_.overridable.emplace_back(std::string(input.name), std::move(type).value());
      continue;
    }
    Define(input.name, graph_.AddInput(std::string(input.name), std::move(type).value()));
  }
  return OkStatus();
}

Status GraphBuilder::AddCaptures(const std::vector<Capture>& captures) {
  for (const Capture& capture : captures) {
    // Names defined here hide the outer ones; the input is still there, under another name, for its position.
    const bool is_hidden = formal_names_.count(capture.name) != 0 || initializer_names_.count(capture.name) != 0 ||
                           producers_.count(capture.name) != 0;
    std::string name(capture.name);
    while (formal_names_.count(name) != 0 || initializer_names_.count(name) != 0 || producers_.count(name) != 0 ||
           graph_.FindValue(name) != nullptr) {
      name += "_outer";
    }
    // Each subgraph of a node gets every capture of all of them: a small file can ask for a lot.
    QUERN_RETURN_IF_ERROR(shared_.decoder.Charge(sizeof(GraphValue) + name.size()));
    GraphValue* input = graph_.AddInput(std::move(name), capture.value->type());
    if (!is_hidden) Define(capture.name, input);
  }
  return OkStatus();
}

Status GraphBuilder::AddInitializers() {
  for (size_t i = 0; i < view_.initializers.size(); ++i) {
    const auto& [name, body, is_sparse] = view_.initializers[i];
    if (!is_main_ && formal_names_.count(name) != 0) continue;
    Result<Value> content = is_sparse ? shared_.decoder.DecodeSparse(body) : shared_.decoder.Decode(body);
    if (!content.ok()) {
      return content.status().WithContext("graph.initializer[" + std::to_string(i) + "] " + Quoted(name));
    }
    Define(name, graph_.AddConstant(std::string(name), std::move(content).value()));
  }
  return OkStatus();
}

// The order of the file where that is topological, else the order closest to it (smallest index first).
Result<std::vector<size_t>> GraphBuilder::SortNodes() const {
  const size_t count = view_.nodes.size();
  std::vector<std::vector<size_t>> readers(count);
  std::vector<size_t> missing(count, 0);  // producers that have not been placed
  for (size_t n = 0; n < count; ++n) {
    VisitReads(view_.nodes[n], [&](std::string_view name) {
      const auto at = producers_.find(name);
      if (at == producers_.end()) return;
      readers[at->second].push_back(n);
      ++missing[n];
    });
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t n = 0; n < count; ++n) {
    if (missing[n] == 0) ready.push(n);
  }
  std::vector<size_t> order;
  order.reserve(count);
  while (!ready.empty()) {
    const size_t n = ready.top();
    ready.pop();
    order.push_back(n);
    for (size_t reader : readers[n]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() == count) return order;
  // Going from a node that was not placed to one that it waits for must come round: that node is on a cycle.
  size_t at = static_cast<size_t>(std::find_if(missing.begin(), missing.end(), [](size_t m) { return m > 0; }) -
                                  missing.begin());
  for (size_t step = 0; step < count; ++step) {
    size_t waits_for = at;
    VisitReads(view_.nodes[at], [&](std::string_view name) {
      const auto producer = producers_.find(name);
      if (producer != producers_.end() && missing[producer->second] > 0) waits_for = producer->second;
    });
    at = waits_for;
  }
  const NodeView& node = view_.nodes[at];
  return InvalidArgument(NodePath(node) + " is on a cycle: it needs its own output");
}

// The version of the operator set that the node follows: of its function's imports, else of the model's.
Result<int> GraphBuilder::OpsetOf(const NodeView& view) {
  const auto known = std::find_if(std::begin(kKnownDomains), std::end(kKnownDomains),
                                  [&](const KnownDomain& k) { return k.domain == view.domain; });
  const std::string op = DomainName(view.domain) + "." + std::string(view.op_type.substr(0, 100));
  if (!view.overload.empty()) {
    return InvalidArgument("the model has no function " + op + " with the overload " + Quoted(view.overload));
  }
  if (known == std::end(kKnownDomains)) {
    std::string message = "operator " + op + ": the domain " + Quoted(view.domain) + " is not known";
    if (view.domain == kBlockedLayouts) {
      message +=
          "; onnxruntime's optimizer has laid this model out for one CPU: load the model that it was made from, or "
          "save it with ORT_ENABLE_EXTENDED";
    }
    return Unsupported(std::move(message));
  }
  const std::string domain(view.domain);
  if (view.imports != nullptr) {
    const auto own = std::find_if(view.imports->begin(), view.imports->end(),
                                  [&](const auto& import) { return import.first == view.domain; });
    if (own != view.imports->end()) {
      QUERN_RETURN_IF_ERROR(CheckVersion(*known, own->second));
      const int version = static_cast<int>(own->second);
      shared_.further_imports.emplace(domain, version);
      return version;
    }
  }
  const auto import = shared_.opset_imports.find(domain);
  if (import != shared_.opset_imports.end()) {
    QUERN_RETURN_IF_ERROR(CheckVersion(*known, import->second));
    return int{import->second};
  }
  if (known->implied == 0) {
    return InvalidArgument("operator " + op + " is used but the model has no opset_import for " +
                           DomainName(view.domain));
  }
  shared_.opset_imports[domain] = known->implied;
  return int{known->implied};
}

// In the order in which this graph defines them, whatever the order of attributes and nodes in the file.
Status GraphBuilder::CollectCaptures(const NodeView& view, std::vector<Capture>* captures) const {
  std::map<size_t, Capture> ordered;
  for (const AttributeView& attribute : view.attributes) {
    for (const auto& subgraph : attribute.graphs) {
      for (std::string_view name : subgraph->free_names) {
        const auto defined = values_.find(name);
        if (defined == values_.end()) {
          return InvalidArgument("attribute " + Quoted(attribute.name) + ": the subgraph reads " + Quoted(name) +
                                 ", which neither it nor a graph around it defines");
        }
        ordered.try_emplace(defined->second.order, Capture{name, defined->second.value});
      }
    }
  }
  for (const auto& [order, capture] : ordered) captures->push_back(capture);
  return OkStatus();
}

Status GraphBuilder::ReadAttributes(const NodeView& view, NodeSpec* spec) {
  std::vector<Capture> captures;
  QUERN_RETURN_IF_ERROR(CollectCaptures(view, &captures));
  for (const Capture& capture : captures) spec->captures.push_back(capture.value);
  for (const AttributeView& attribute : view.attributes) {
    const std::string where = "attribute " + Quoted(attribute.name);
    if (attribute.name.empty()) return Corrupt("an attribute without a name");
    // Sparse tensors are expanded when they are read, so that a sparse constant is one like any other.
    const bool is_sparse_constant =
        IsConstant(view) && attribute.name == "sparse_value" && attribute.type == AttributeKind::kSparseTensor;
    const std::string key(is_sparse_constant ? std::string_view("value") : attribute.name);
    if (spec->attributes.count(key) != 0) {
      return InvalidArgument(where + (is_sparse_constant ? " and 'value' are both given" : " is given twice"));
    }
    Attribute content;
    if (attribute.type == AttributeKind::kGraph || attribute.type == AttributeKind::kGraphs) {
      std::vector<GraphPtr> graphs;
      for (const auto& subgraph : attribute.graphs) {
        graphs.push_back(std::make_shared<Graph>());
        const Status status = GraphBuilder(shared_, *subgraph, *graphs.back(), /*is_main=*/false).Build(captures);
        if (!status.ok()) return status.WithContext(where);
      }
      if (attribute.type == AttributeKind::kGraphs) {
        content = std::move(graphs);
      } else if (graphs.size() == 1) {
        content = std::move(graphs[0]);
      } else {
        return Corrupt(where + " has type GRAPH but " + std::to_string(graphs.size()) + " graphs");
      }
    } else {
      // Graphs under another attribute type would have to match the captures too; no writer makes them.
      if (!attribute.graphs.empty()) return Corrupt(where + " has a graph but another type");
      Result<Attribute> read = ReadAttribute(attribute, shared_.decoder);
      if (!read.ok()) return read.status().WithContext(where);
      content = std::move(read).value();
    }
    spec->attributes.emplace(key, std::move(content));
  }
  return OkStatus();
}

Status GraphBuilder::AddNode(const NodeView& view) {
  if (view.op_type.empty()) return Corrupt("a node without an operator");
  QUERN_ASSIGN_OR_RETURN(const int opset, OpsetOf(view));
  QUERN_RETURN_IF_ERROR(shared_.decoder.Charge(sizeof(Node) + view.outputs.size() * sizeof(GraphValue)));
  NodeSpec spec;
  spec.name = std::string(view.name);
  spec.domain = std::string(view.domain);
  spec.op_type = std::string(view.op_type);
  spec.opset = opset;
  for (size_t i = 0; i < view.inputs.size(); ++i) {
    const std::string_view name = view.inputs[i];
    const auto value = values_.find(name);
    if (!name.empty() && value == values_.end()) {
      return InvalidArgument("input " + std::to_string(i) + " " + Quoted(name) +
                             " is not defined: no node, input or initializer has that name");
    }
    spec.inputs.push_back(name.empty() ? nullptr : value->second.value);
  }
  for (std::string_view name : view.outputs) spec.outputs.emplace_back(name);
  QUERN_RETURN_IF_ERROR(ReadAttributes(view, &spec));
  Node* node = graph_.AddNode(std::move(spec));
  for (int i = 0; i < node->num_outputs(); ++i) {
    if (node->output(i) == nullptr) continue;
    const std::string_view name = view.outputs[static_cast<size_t>(i)];
    Define(name, node->output(i));
    if (auto type = types_.find(name); type != types_.end()) node->output(i)->set_type(std::move(type->second));
  }
  return OkStatus();
}

Status GraphBuilder::AddOutputs() {
  for (size_t i = 0; i < view_.outputs.size(); ++i) {
    const std::string_view name = view_.outputs[i].name;
    const auto value = values_.find(name);
    if (value == values_.end()) {
      return InvalidArgument("graph.output[" + std::to_string(i) + "] " + Quoted(name) +
                             " is not defined: no node, input or initializer has that name");
    }
    graph_.AddOutput(value->second.value);
  }
  return OkStatus();
}

Status GraphBuilder::Build(const std::vector<Capture>& captures) {
  graph_.name = std::string(view_.name);
  graph_.opset_imports = shared_.AllImports();
  QUERN_RETURN_IF_ERROR(Declare());
  QUERN_RETURN_IF_ERROR(ReadTypes());
  QUERN_RETURN_IF_ERROR(AddInputs());
  QUERN_RETURN_IF_ERROR(AddCaptures(captures));
  QUERN_RETURN_IF_ERROR(AddInitializers());
  QUERN_ASSIGN_OR_RETURN(const std::vector<size_t> order, SortNodes());
  for (size_t n : order) {
    if (replaced_.count(n) != 0) continue;
    const NodeView& node = view_.nodes[n];
    const Status status = AddNode(node);
    if (!status.ok()) return status.WithContext(NodePath(node));
  }
  graph_.opset_imports = shared_.AllImports();  // with those that its nodes brought
  return AddOutputs();
}

Status ReadImports(const ModelView& model, Shared* shared) {
  for (const auto& [domain, version] : model.opset_imports) {
    if (version < 1 || version > INT32_MAX) {
      return Corrupt("opset_import: version " + std::to_string(version) + " of " + DomainName(domain));
    }
    const auto [at, is_new] = shared->opset_imports.emplace(std::string(domain), static_cast<int>(version));
    if (!is_new && at->second != version) {
      return InvalidArgument("opset_import: two versions of " + DomainName(domain));
    }
  }
  const auto main = shared->opset_imports.find("");
  if (main != shared->opset_imports.end()) {
    QUERN_RETURN_IF_ERROR(CheckVersion(kKnownDomains[0], main->second).WithContext("opset_import"));
  }
  return OkStatus();
}

void AddMetadata(const ModelView& model, Graph* graph) {
  for (const auto* list : {&model.graph.metadata, &model.metadata}) {
    for (const auto& [key, value] : *list) graph->metadata.insert_or_assign(std::string(key), std::string(value));
  }
  const auto add = [&](const char* key, std::string_view value) {
    if (!value.empty()) graph->metadata.insert_or_assign(key, std::string(value));
  };
  add("onnx.ir_version", std::to_string(model.ir_version));
  add("onnx.producer_name", model.producer_name);
  add("onnx.producer_version", model.producer_version);
  add("onnx.domain", model.domain);
  add("onnx.model_version", std::to_string(model.model_version));
  add("onnx.doc_string", model.doc_string);
}

}  // namespace

Result<std::unique_ptr<Graph>> BuildGraph(const ModelView& model, TensorDecoder& decoder) {
  if (!model.has_graph) return Corrupt("no graph: this is not an ONNX model");
  if (model.ir_version < kFirstIrVersion || model.ir_version > kLastIrVersion) {
    return Unsupported("IR version " + std::to_string(model.ir_version) + " is not read: versions " +
                       std::to_string(kFirstIrVersion) + " to " + std::to_string(kLastIrVersion) +
                       " are; save the model again with a current onnx package");
  }
  Shared shared{decoder, {}, {}};
  QUERN_RETURN_IF_ERROR(ReadImports(model, &shared));
  auto graph = std::make_unique<Graph>();
  QUERN_RETURN_IF_ERROR(GraphBuilder(shared, model.graph, *graph, /*is_main=*/true).Build({}));
  AddMetadata(model, graph.get());
  return graph;
}

}  // namespace quern::onnx
