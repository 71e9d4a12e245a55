#include "format/onnx/model_view.h"

#include <unordered_set>

#include "format/onnx/field_reader.h"
#include "format/onnx/fields.h"

namespace quern::onnx {
namespace {

using Entry = std::pair<std::string_view, std::string_view>;

std::string_view CanonicalDomain(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

class ModelParser {
 public:
  ModelParser(const char* base, const Limits& limits) : base_(base), limits_(limits) {}

  Status Model(std::string_view message, ModelView* model);

 private:
  Status Graph(std::string_view message, int depth, GraphView* graph);
  Status Node(std::string_view message, int depth, NodeView* node);
  Status Attribute(std::string_view message, int depth, AttributeView* attribute);
  Status ValueInfo(std::string_view message, ValueInfoView* info);
  Status TensorName(std::string_view message, std::string_view* name);
  // A message of two fields that matter, both strings.
  Status Pair(std::string_view message, int first, int second, Entry* entry);
  Status OpsetImport(std::string_view message, ModelView* model);
  static void FindFreeNames(GraphView* graph);

  const char* base_;
  const Limits& limits_;
  int64_t nodes_ = 0;
};

Status ModelParser::Pair(std::string_view message, int first, int second, Entry* entry) {
  FieldReader r(message, base_);
  while (r.Next()) {
    if (r.field() == first) {
      entry->first = r.Bytes();
    } else if (r.field() == second) {
      entry->second = r.Bytes();
    } else {
      r.Skip();
    }
  }
  return r.status();
}

Status ModelParser::OpsetImport(std::string_view message, ModelView* model) {
  std::pair<std::string_view, int64_t> import{"", 0};
  FieldReader r(message, base_);
  while (r.Next()) {
    switch (r.field()) {
      case OperatorSetIdField::kDomain:
        import.first = CanonicalDomain(r.Bytes());
        break;
      case OperatorSetIdField::kVersion:
        import.second = r.Int64();
        break;
      default:
        r.Skip();
    }
  }
  QUERN_RETURN_IF_ERROR(r.status());
  model->opset_imports.push_back(import);
  return OkStatus();
}

Status ModelParser::Model(std::string_view message, ModelView* model) {
  FieldReader r(message, base_);
  while (r.Next()) {
    Status inner;
    switch (r.field()) {
      case ModelField::kIrVersion:
        model->ir_version = r.Int64();
        break;
      case ModelField::kProducerName:
        model->producer_name = r.Bytes();
        break;
      case ModelField::kProducerVersion:
        model->producer_version = r.Bytes();
        break;
      case ModelField::kDomain:
        model->domain = r.Bytes();
        break;
      case ModelField::kModelVersion:
        model->model_version = r.Int64();
        break;
      case ModelField::kDocString:
        model->doc_string = r.Bytes();
        break;
      case ModelField::kOpsetImport:
        inner = OpsetImport(r.Bytes(), model).WithContext("opset_import");
        break;
      case ModelField::kMetadataProps:
        inner = Pair(r.Bytes(), EntryField::kKey, EntryField::kValue, &model->metadata.emplace_back())
                    .WithContext("metadata_props");
        break;
      case ModelField::kFunctions: {
        Entry& function = model->functions.emplace_back();
        inner = Pair(r.Bytes(), FunctionField::kDomain, FunctionField::kName, &function).WithContext("functions");
        function.first = CanonicalDomain(function.first);
        break;
      }
      case ModelField::kGraph: {
        const std::string_view body = r.Bytes();
        if (model->has_graph) return Corrupt("the model has two graphs");
        model->has_graph = r.status().ok();
        inner = Graph(body, 0, &model->graph);
        break;
      }
      default:
        r.Skip();
    }
    QUERN_RETURN_IF_ERROR(inner);
  }
  return r.status();
}

Status ModelParser::Graph(std::string_view message, int depth, GraphView* graph) {
  if (depth > limits_.subgraph_depth) {
    return ResourceExhausted("subgraphs nested deeper than the limit of " + std::to_string(limits_.subgraph_depth));
  }
  FieldReader r(message, base_);
  while (r.Next()) {
    Status inner;
    switch (r.field()) {
      case GraphField::kName:
        graph->name = r.Bytes();
        break;
      case GraphField::kNode: {
        if (++nodes_ > limits_.nodes) {
          return ResourceExhausted("the model has more nodes than the limit of " + std::to_string(limits_.nodes));
        }
        NodeView& node = graph->nodes.emplace_back();
        inner = Node(r.Bytes(), depth, &node);
        if (!inner.ok()) inner = inner.WithContext(NodePath(graph->nodes.size() - 1, node.name, node.op_type));
        break;
      }
      case GraphField::kInitializer: {
        const std::string_view body = r.Bytes();
        auto& [name, tensor] = graph->initializers.emplace_back(std::string_view(), body);
        inner = TensorName(body, &name);
        if (!inner.ok()) {
          inner = inner.WithContext("graph.initializer[" + std::to_string(graph->initializers.size() - 1) + "] " +
                                    Quoted(name));
        }
        break;
      }
      case GraphField::kInput:
        inner = ValueInfo(r.Bytes(), &graph->inputs.emplace_back()).WithContext("graph.input");
        break;
      case GraphField::kOutput:
        inner = ValueInfo(r.Bytes(), &graph->outputs.emplace_back()).WithContext("graph.output");
        break;
      case GraphField::kValueInfo:
        inner = ValueInfo(r.Bytes(), &graph->value_info.emplace_back()).WithContext("graph.value_info");
        break;
      case GraphField::kMetadataProps:
        inner = Pair(r.Bytes(), EntryField::kKey, EntryField::kValue, &graph->metadata.emplace_back())
                    .WithContext("graph.metadata_props");
        break;
      case GraphField::kSparseInitializer:
        graph->has_sparse_initializers = true;
        r.Skip();
        break;
      default:
        r.Skip();
    }
    QUERN_RETURN_IF_ERROR(inner);
  }
  if (!r.status().ok()) return r.status().WithContext("graph");
  FindFreeNames(graph);
  return OkStatus();
}

Status ModelParser::Node(std::string_view message, int depth, NodeView* node) {
  FieldReader r(message, base_);
  while (r.Next()) {
    switch (r.field()) {
      case NodeField::kInput:
        node->inputs.push_back(r.Bytes());
        break;
      case NodeField::kOutput:
        node->outputs.push_back(r.Bytes());
        break;
      case NodeField::kName:
        node->name = r.Bytes();
        break;
      case NodeField::kOpType:
        node->op_type = r.Bytes();
        break;
      case NodeField::kDomain:
        node->domain = CanonicalDomain(r.Bytes());
        break;
      case NodeField::kAttribute: {
        AttributeView& attribute = node->attributes.emplace_back();
        const Status inner = Attribute(r.Bytes(), depth, &attribute);
        if (!inner.ok()) return inner.WithContext("attribute " + Quoted(attribute.name));
        break;
      }
      default:
        r.Skip();
    }
  }
  return r.status();
}

Status ModelParser::Attribute(std::string_view message, int depth, AttributeView* attribute) {
  attribute->body = message;
  int64_t guess = AttributeKind::kUndefined;
  FieldReader r(message, base_);
  while (r.Next()) {
    switch (r.field()) {
      case AttributeField::kName:
        attribute->name = r.Bytes();
        break;
      case AttributeField::kType:
        attribute->type = r.Int64();
        break;
      case AttributeField::kGraph:
      case AttributeField::kGraphs: {
        guess = r.field() == AttributeField::kGraph ? AttributeKind::kGraph : AttributeKind::kGraphs;
        const std::string_view body = r.Bytes();
        attribute->graphs.push_back(std::make_unique<GraphView>());
        QUERN_RETURN_IF_ERROR(Graph(body, depth + 1, attribute->graphs.back().get()));
        break;
      }
      case AttributeField::kFloat:
        guess = AttributeKind::kFloat, r.Skip();
        break;
      case AttributeField::kInt:
        guess = AttributeKind::kInt, r.Skip();
        break;
      case AttributeField::kString:
        guess = AttributeKind::kString, r.Skip();
        break;
      case AttributeField::kTensor:
        guess = AttributeKind::kTensor, r.Skip();
        break;
      case AttributeField::kFloats:
        guess = AttributeKind::kFloats, r.Skip();
        break;
      case AttributeField::kInts:
        guess = AttributeKind::kInts, r.Skip();
        break;
      case AttributeField::kStrings:
        guess = AttributeKind::kStrings, r.Skip();
        break;
      case AttributeField::kTensors:
        guess = AttributeKind::kTensors, r.Skip();
        break;
      default:
        r.Skip();
    }
  }
  if (attribute->type == AttributeKind::kUndefined) attribute->type = guess;
  return r.status();
}

Status ModelParser::ValueInfo(std::string_view message, ValueInfoView* info) {
  Entry entry;
  const Status status = Pair(message, ValueInfoField::kName, ValueInfoField::kType, &entry);
  info->name = entry.first;
  info->type = entry.second;
  return status;
}

Status ModelParser::TensorName(std::string_view message, std::string_view* name) {
  FieldReader r(message, base_);
  while (r.Next()) {
    if (r.field() == TensorField::kName) {
      *name = r.Bytes();
    } else {
      r.Skip();
    }
  }
  return r.status();
}

void ModelParser::FindFreeNames(GraphView* graph) {
  std::unordered_set<std::string_view> seen;  // defined here, or listed already
  for (const ValueInfoView& input : graph->inputs) seen.insert(input.name);
  for (const auto& [name, tensor] : graph->initializers) seen.insert(name);
  for (const NodeView& node : graph->nodes) seen.insert(node.outputs.begin(), node.outputs.end());
  const auto read = [&](std::string_view name) {
    if (!name.empty() && seen.insert(name).second) graph->free_names.push_back(name);
  };
  for (const NodeView& node : graph->nodes) {
    for (std::string_view input : node.inputs) read(input);
    for (const AttributeView& attribute : node.attributes) {
      for (const auto& subgraph : attribute.graphs) {
        for (std::string_view name : subgraph->free_names) read(name);
      }
    }
  }
  for (const ValueInfoView& output : graph->outputs) read(output.name);
}

}  // namespace

std::string NodePath(size_t index, std::string_view name, std::string_view op_type) {
  std::string path = "graph.node[" + std::to_string(index) + "]";
  if (!name.empty()) path += " " + Quoted(name);
  if (!op_type.empty()) path += " (" + std::string(op_type.substr(0, 60)) + ")";
  return path;
}

Result<ModelView> ParseModel(std::string_view bytes, const Limits& limits) {
  ModelView model;
  QUERN_RETURN_IF_ERROR(ModelParser(bytes.data(), limits).Model(bytes, &model));
  return model;
}

}  // namespace quern::onnx
