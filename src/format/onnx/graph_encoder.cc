#include "format/onnx/graph_encoder.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "format/onnx/fields.h"
#include "format/onnx/type_proto.h"

namespace quern::onnx {
namespace {

// A graph at work: the names that its nodes and their subgraphs may read by now.
struct Frame {
  const Frame* outer;
  std::unordered_set<std::string_view> visible = {};
};

class GraphEncoder {
 public:
  explicit GraphEncoder(ExternalPlan* external) : external_(external) {}

  // `owner`: the node whose subgraph this is, null for the main graph, whose outputs get `output_types`.
  Result<EncodedMessage> Encode(const Graph& graph, const Node* owner, const Frame* outer,
                                const std::vector<ValueType>* output_types);

 private:
  // What the file calls a value.
  const std::string& NameOf(const GraphValue* v) const {
    const auto other = names_.find(v);
    return other == names_.end() ? v->name() : other->second;
  }
  void AssignNames(const Graph& graph, const Node* owner, const Frame* outer);
  // A name that nothing in the graph, around it or captured by it has.
  std::string NewName(const Graph& graph, const Frame* outer, const std::string& prefix);

  Status AddConstant(const Graph& graph, const GraphValue& v, const Frame& frame, EncodedMessage* out);
  Status AddContent(const Graph& graph, const Value& content, const ValueType* type, const std::string& name,
                    const Frame& frame, EncodedMessage* out);
  Result<EncodedMessage> EncodeNode(const Node& node, const Frame& frame);
  Result<EncodedMessage> EncodeAttribute(const std::string& name, const Attribute& attribute, const Node& node,
                                         const Frame& frame);

  ExternalPlan* external_;
  std::unordered_map<const GraphValue*, std::string> names_;  // of values that go by another name than their own
  std::unordered_set<std::string> made_;                      // names that no value of a graph has
  std::unordered_map<std::string, int64_t> numbers_;          // the last one behind a prefix
};

bool IsVisible(const Frame* frame, std::string_view name) {
  for (; frame != nullptr; frame = frame->outer) {
    if (frame->visible.count(name) != 0) return true;
  }
  return false;
}

EncodedMessage EncodeValueInfo(const std::string& name, const ValueType& type) {
  EncodedMessage out;
  out.Fields().add_string(ValueInfoField::kName, name);
  const std::string encoded = EncodeType(type);
  if (!encoded.empty()) out.Fields().add_message(ValueInfoField::kType, encoded);
  return out;
}

// `out` = op_type(inputs), of ai.onnx.
EncodedMessage SimpleNode(const char* op_type, const std::vector<std::string>& inputs, const std::string& output) {
  EncodedMessage out;
  for (const std::string& input : inputs) out.Fields().add_string(NodeField::kInput, input);
  out.Fields().add_string(NodeField::kOutput, output);
  out.Fields().add_string(NodeField::kOpType, op_type);
  return out;
}

size_t NumFormals(const Graph& graph, const Node* owner) {
  return graph.inputs().size() - (owner != nullptr ? owner->captures().size() : 0);
}

std::string GraphEncoder::NewName(const Graph& graph, const Frame* outer, const std::string& prefix) {
  std::string name;
  int64_t& number = numbers_[prefix];
  do {
    name = prefix + "_" + std::to_string(++number);
  } while (graph.FindValue(name) != nullptr || IsVisible(outer, name) || made_.count(name) != 0);
  made_.insert(name);
  return name;
}

void GraphEncoder::AssignNames(const Graph& graph, const Node* owner, const Frame* outer) {
  if (owner == nullptr) return;
  const size_t formals = NumFormals(graph, owner);
  std::unordered_set<std::string_view> captured;
  for (size_t i = formals; i < graph.inputs().size(); ++i) {
    const GraphValue* inner = graph.inputs()[i];
    const std::string& name = NameOf(owner->captures()[i - formals]);
    if (name != inner->name()) names_.emplace(inner, name);
    if (!inner->uses().empty()) captured.insert(name);
  }
  const auto assign = [&](const GraphValue* v, bool must_be_new) {
    const std::string& name = v->name();
    if (captured.count(name) == 0 && made_.count(name) == 0 && !(must_be_new && IsVisible(outer, name))) return;
    names_.emplace(v, NewName(graph, outer, name));
  };
  // Checkers let formal inputs and initializers have the names of outer values, but no outputs of nodes.
  for (size_t i = 0; i < formals; ++i) assign(graph.inputs()[i], false);
  for (const GraphValue* v : graph.constants()) assign(v, false);
  for (const Node* n = graph.first_node(); n != nullptr; n = n->next()) {
    for (const GraphValue* v : n->outputs()) {
      if (v != nullptr) assign(v, true);
    }
  }
}

Status GraphEncoder::AddContent(const Graph& graph, const Value& content, const ValueType* type,
                                const std::string& name, const Frame& frame, EncodedMessage* out) {
  const ValueType* element = type != nullptr ? type->element.get() : nullptr;
  switch (content.kind()) {
    case ValueKind::kTensor:
    case ValueKind::kStringTensor: {
      QUERN_ASSIGN_OR_RETURN(EncodedMessage tensor, EncodeTensor(content, name, external_));
      out->AddMessage(GraphField::kInitializer, std::move(tensor));
      return OkStatus();
    }
    case ValueKind::kSequence: {
      std::vector<std::string> parts;
      for (const Value& part : content.sequence()) {
        if (!part.is_tensor() && part.kind() != ValueKind::kStringTensor) {
          return Unsupported("a constant sequence of other things than tensors");
        }
        parts.push_back(NewName(graph, &frame, name));
        QUERN_RETURN_IF_ERROR(AddContent(graph, part, nullptr, parts.back(), frame, out));
      }
      EncodedMessage node = SimpleNode(parts.empty() ? "SequenceEmpty" : "SequenceConstruct", parts, name);
      if (parts.empty() && element != nullptr && element->dtype != DType::kUndefined) {
        EncodedMessage dtype;
        dtype.Fields().add_string(AttributeField::kName, "dtype");
        dtype.Fields().add_int32(AttributeField::kType, AttributeKind::kInt);
        dtype.Fields().add_int64(AttributeField::kInt, static_cast<int64_t>(element->dtype));
        node.AddMessage(NodeField::kAttribute, std::move(dtype));
      }
      out->AddMessage(GraphField::kNode, std::move(node));
      return OkStatus();
    }
    case ValueKind::kOptional: {
      std::vector<std::string> parts;
      if (content.optional_element().has_value()) {
        parts.push_back(NewName(graph, &frame, name));
        QUERN_RETURN_IF_ERROR(AddContent(graph, content.optional_element(), element, parts.back(), frame, out));
      }
      EncodedMessage node = SimpleNode("Optional", parts, name);
      if (parts.empty()) {
        if (element == nullptr || !HasElementTypes(*element)) {
          return Unsupported("a constant without an element whose type is not known");
        }
        EncodedMessage of;
        of.Fields().add_string(AttributeField::kName, "type");
        of.Fields().add_int32(AttributeField::kType, AttributeKind::kTypeProto);
        of.Fields().add_message(AttributeField::kTypeProto, EncodeType(*element));
        node.AddMessage(NodeField::kAttribute, std::move(of));
      }
      out->AddMessage(GraphField::kNode, std::move(node));
      return OkStatus();
    }
    case ValueKind::kMap:
    case ValueKind::kNone:
      break;
  }
  return Unsupported(std::string("ONNX has no constant of kind ") + ValueKindName(content.kind()));
}

Status GraphEncoder::AddConstant(const Graph& graph, const GraphValue& v, const Frame& frame, EncodedMessage* out) {
  const Status status = AddContent(graph, *v.constant(), &v.type(), NameOf(&v), frame, out);
  return status.ok() ? status : status.WithContext("constant '" + v.name() + "'");
}

Result<EncodedMessage> GraphEncoder::EncodeAttribute(const std::string& name, const Attribute& attribute,
                                                     const Node& node, const Frame& frame) {
  EncodedMessage out;
  out.Fields().add_string(AttributeField::kName, name);
  const auto set_type = [&](int type) { out.Fields().add_int32(AttributeField::kType, type); };
  const auto add_tensor = [&](int field, const Value& value) -> Status {
    QUERN_ASSIGN_OR_RETURN(EncodedMessage tensor, EncodeTensor(value, "", nullptr));
    out.AddMessage(field, std::move(tensor));
    return OkStatus();
  };
  const auto add_graph = [&](int field, const Graph& graph) -> Status {
    QUERN_ASSIGN_OR_RETURN(EncodedMessage subgraph, Encode(graph, &node, &frame, nullptr));
    out.AddMessage(field, std::move(subgraph));
    return OkStatus();
  };
  if (const auto* i = std::get_if<int64_t>(&attribute)) {
    set_type(AttributeKind::kInt);
    out.Fields().add_int64(AttributeField::kInt, *i);
  } else if (const auto* f = std::get_if<float>(&attribute)) {
    set_type(AttributeKind::kFloat);
    out.Fields().add_float(AttributeField::kFloat, *f);
  } else if (const auto* s = std::get_if<std::string>(&attribute)) {
    set_type(AttributeKind::kString);
    out.Fields().add_bytes(AttributeField::kString, *s);
  } else if (const auto* value = std::get_if<Value>(&attribute)) {
    set_type(AttributeKind::kTensor);
    QUERN_RETURN_IF_ERROR(add_tensor(AttributeField::kTensor, *value));
  } else if (const auto* graph = std::get_if<GraphPtr>(&attribute)) {
    set_type(AttributeKind::kGraph);
    QUERN_RETURN_IF_ERROR(add_graph(AttributeField::kGraph, **graph));
  } else if (const auto* type = std::get_if<ValueType>(&attribute)) {
    set_type(AttributeKind::kTypeProto);
    out.Fields().add_message(AttributeField::kTypeProto, EncodeType(*type));
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute)) {
    set_type(AttributeKind::kInts);
    out.Fields().add_packed_int64(AttributeField::kInts, ints->begin(), ints->end());
  } else if (const auto* floats = std::get_if<std::vector<float>>(&attribute)) {
    set_type(AttributeKind::kFloats);
    out.Fields().add_packed_float(AttributeField::kFloats, floats->begin(), floats->end());
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&attribute)) {
    set_type(AttributeKind::kStrings);
    for (const std::string& one : *strings) out.Fields().add_bytes(AttributeField::kStrings, one);
  } else if (const auto* values = std::get_if<std::vector<Value>>(&attribute)) {
    set_type(AttributeKind::kTensors);
    for (const Value& one : *values) QUERN_RETURN_IF_ERROR(add_tensor(AttributeField::kTensors, one));
  } else {
    set_type(AttributeKind::kGraphs);
    for (const GraphPtr& one : std::get<std::vector<GraphPtr>>(attribute)) {
      QUERN_RETURN_IF_ERROR(add_graph(AttributeField::kGraphs, *one));
    }
  }
  return out;
}

Result<EncodedMessage> GraphEncoder::EncodeNode(const Node& node, const Frame& frame) {
  EncodedMessage out;
  for (const GraphValue* v : node.inputs()) {
    out.Fields().add_string(NodeField::kInput, v != nullptr ? NameOf(v) : std::string());
  }
  for (const GraphValue* v : node.outputs()) {
    out.Fields().add_string(NodeField::kOutput, v != nullptr ? NameOf(v) : std::string());
  }
  if (!node.name().empty()) out.Fields().add_string(NodeField::kName, node.name());
  out.Fields().add_string(NodeField::kOpType, node.op_type());
  if (!node.domain().empty()) out.Fields().add_string(NodeField::kDomain, node.domain());
  for (const auto& [name, attribute] : node.attributes()) {
    Result<EncodedMessage> encoded = EncodeAttribute(name, attribute, node, frame);
    if (!encoded.ok()) {
      return encoded.status().WithContext(node.Describe() + ": attribute '" + name + "'");
    }
    out.AddMessage(NodeField::kAttribute, std::move(encoded).value());
  }
  return out;
}

Result<EncodedMessage> GraphEncoder::Encode(const Graph& graph, const Node* owner, const Frame* outer,
                                            const std::vector<ValueType>* output_types) {
  AssignNames(graph, owner, outer);
  const size_t formals = NumFormals(graph, owner);
  Frame frame{.outer = outer};
  EncodedMessage out;
  out.Fields().add_string(GraphField::kName, graph.name.empty() ? "graph" : graph.name);  // checkers ask for one
  for (size_t i = 0; i < formals; ++i) {
    const GraphValue* v = graph.inputs()[i];
    frame.visible.insert(NameOf(v));
    const ValueType type = owner == nullptr || HasElementTypes(v->type()) ? v->type() : ValueType();
    out.AddMessage(GraphField::kInput, EncodeValueInfo(NameOf(v), type));
  }
  if (owner == nullptr) {
    for (const auto& [name, type] : graph.overridable) {
      const GraphValue* v = graph.FindValue(name);
      if (v != nullptr && v->is_constant()) out.AddMessage(GraphField::kInput, EncodeValueInfo(name, type));
    }
  }
  for (const GraphValue* v : graph.constants()) {
    frame.visible.insert(NameOf(v));
    QUERN_RETURN_IF_ERROR(AddConstant(graph, *v, frame, &out));
  }
  for (const Node* n = graph.first_node(); n != nullptr; n = n->next()) {
    QUERN_ASSIGN_OR_RETURN(EncodedMessage node, EncodeNode(*n, frame));
    out.AddMessage(GraphField::kNode, std::move(node));
    for (const GraphValue* v : n->outputs()) {
      if (v == nullptr) continue;
      frame.visible.insert(NameOf(v));
      if (!v->is_graph_output() && HasElementTypes(v->type())) {
        out.AddMessage(GraphField::kValueInfo, EncodeValueInfo(NameOf(v), v->type()));
      }
    }
  }
  const auto captures = graph.inputs().begin() + static_cast<std::ptrdiff_t>(formals);
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const GraphValue* v = graph.outputs()[i];
    std::string name = NameOf(v);
    if (std::find(captures, graph.inputs().end(), v) != graph.inputs().end()) {
      name = NewName(graph, &frame, name);
      out.AddMessage(GraphField::kNode, SimpleNode("Identity", {NameOf(v)}, name));
    }
    const ValueType& type = output_types != nullptr ? (*output_types)[i] : v->type();
    out.AddMessage(GraphField::kOutput, EncodeValueInfo(name, HasElementTypes(type) ? type : ValueType()));
  }
  return out;
}

}  // namespace

Result<EncodedMessage> EncodeGraph(const Graph& graph, const std::vector<ValueType>& output_types,
                                   ExternalPlan* external) {
  return GraphEncoder(external).Encode(graph, nullptr, nullptr, &output_types);
}

}  // namespace quern::onnx
