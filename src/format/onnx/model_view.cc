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
  Status Function(std::string_view message, FunctionView* function);
  Status TensorName(std::string_view message, std::string_view* name);
  Status SparseTensorName(std::string_view message, std::string_view* name);
  // A message of two fields that matter, both strings.
  Status Pair(std::string_view message, int first, int second, Entry* entry);
  Status OpsetImport(std::string_view message, OpsetImports* imports);

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

Status ModelParser::OpsetImport(std::string_view message, OpsetImports* imports) {
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
  imports->push_back(import);
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
        inner = OpsetImport(r.Bytes(), &model->opset_imports).WithContext("opset_import");
        break;
      case ModelField::kMetadataProps:
        inner = Pair(r.Bytes(), EntryField::kKey, EntryField::kValue, &model->metadata.emplace_back())
                    .WithContext("metadata_props");
        break;
      case ModelField::kFunctions: {
        const size_t index = model->functions.size();
        FunctionView& function = model->functions.emplace_back();
        inner = Function(r.Bytes(), &function);
        if (!inner.ok()) {
          inner = inner.WithContext("functions[" + std::to_string(index) + "] " + Quoted(function.name));
        }
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
        node.index = graph->nodes.size() - 1;
        inner = Node(r.Bytes(), depth, &node);
        if (!inner.ok()) inner = inner.WithContext(NodePath(node));
        break;
      }
      case GraphField::kInitializer:
      case GraphField::kSparseInitializer: {
        const bool is_sparse = r.field() == GraphField::kSparseInitializer;
        const std::string_view body = r.Bytes();
        graph->initializers.push_back({{}, body, is_sparse});
        InitializerView& initializer = graph->initializers.back();
        inner = is_sparse ? SparseTensorName(body, &initializer.name) : TensorName(body, &initializer.name);
        if (!inner.ok()) {
          inner = inner.WithContext("graph.initializer[" + std::to_string(graph->initializers.size() - 1) + "] " +
                                    Quoted(initializer.name));
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
      default:
        r.Skip();
    }
    QUERN_RETURN_IF_ERROR(inner);
  }
  if (!r.status().ok()) return r.status().WithContext("graph");
  FindFreeNames(graph);
  return OkStatus();
}

Status ModelParser::Function(std::string_view message, FunctionView* function) {
  GraphView& body = function->body;
  FieldReader r(message, base_);
  while (r.Next()) {
    Status inner;
    switch (r.field()) {
      case FunctionField::kName:
        function->name = r.Bytes();
        break;
      case FunctionField::kDomain:
        function->domain = CanonicalDomain(r.Bytes());
        break;
      case FunctionField::kOverload:
        function->overload = r.Bytes();
        break;
      case FunctionField::kInput:
        function->inputs.push_back(r.Bytes());
        break;
      case FunctionField::kOutput:
        function->outputs.push_back(r.Bytes());
        break;
      case FunctionField::kAttribute:
        function->attributes.push_back(r.Bytes());
        break;
      case FunctionField::kAttributeProto: {
        AttributeView& attribute = function->defaults.emplace_back();
        inner = Attribute(r.Bytes(), 0, &attribute);
        if (!inner.ok()) inner = inner.WithContext("attribute " + Quoted(attribute.name));
        break;
      }
      case FunctionField::kNode: {
        if (++nodes_ > limits_.nodes) {
          return ResourceExhausted("the model has more nodes than the limit of " + std::to_string(limits_.nodes));
        }
        NodeView& node = body.nodes.emplace_back();
        node.list = "node";
        node.index = body.nodes.size() - 1;
        inner = Node(r.Bytes(), 0, &node);
        if (!inner.ok()) inner = inner.WithContext(NodePath(node));
        break;
      }
      case FunctionField::kOpsetImport:
        inner = OpsetImport(r.Bytes(), &function->imports).WithContext("opset_import");
        break;
      case FunctionField::kValueInfo:
        inner = ValueInfo(r.Bytes(), &body.value_info.emplace_back()).WithContext("value_info");
        body.value_info.back().is_of_function = true;
        break;
      default:
        r.Skip();
    }
    QUERN_RETURN_IF_ERROR(inner);
  }
  return r.status();
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
      case NodeField::kOverload:
        node->overload = r.Bytes();
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
      case AttributeField::kRefAttrName:
        attribute->reference = r.Bytes();
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

Status ModelParser::SparseTensorName(std::string_view message, std::string_view* name) {
  FieldReader r(message, base_);
  while (r.Next()) {
    if (r.field() != SparseTensorField::kValues) {
      r.Skip();
      continue;
    }
    const std::string_view values = r.Bytes();
    QUERN_RETURN_IF_ERROR(r.status());
    QUERN_RETURN_IF_ERROR(TensorName(values, name));
  }
  return r.status();
}

}  // namespace

void FindFreeNames(GraphView* graph) {
  graph->free_names.clear();
  std::unordered_set<std::string_view> seen;  // defined here, or listed already
  for (const ValueInfoView& input : graph->inputs) seen.insert(input.name);
  for (const InitializerView& initializer : graph->initializers) seen.insert(initializer.name);
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

namespace {

// NodeView and CallView have these members alike.
template <typename View>
std::string PathOf(const View& view, const CallView* call) {
  std::string path = call == nullptr ? std::string(view.list)
                                     : PathOf(*call, call->outer) + ": " + FunctionName(*call->function) + ".node";
  path += "[" + std::to_string(view.index) + "]";
  if (!view.name.empty()) path += " " + Quoted(view.name);
  if (!view.op_type.empty()) path += " (" + std::string(view.op_type.substr(0, 60)) + ")";
  return path;
}

}  // namespace

std::string NodePath(const NodeView& node) { return PathOf(node, node.call); }

std::string FunctionName(const FunctionView& function) {
  std::string name(function.domain.empty() ? "ai.onnx" : function.domain.substr(0, 100));
  name += "." + std::string(function.name.substr(0, 100));
  if (!function.overload.empty()) name += ":" + std::string(function.overload.substr(0, 100));
  return name;
}

Result<ModelView> ParseModel(std::string_view bytes, const Limits& limits) {
  ModelView model;
  QUERN_RETURN_IF_ERROR(ModelParser(bytes.data(), limits).Model(bytes, &model));
  return model;
}

}  // namespace quern::onnx
