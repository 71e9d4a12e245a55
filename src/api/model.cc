#include "api/model.h"

#include "api/struct_size.h"
#include "api/value.h"
#include "base/mapped_file.h"
#include "format/onnx/reader.h"
#include "graph/text.h"
#include "session/facts.h"

namespace quern::api {

Result<const Graph*> GraphOf(const quern_model* model) {
  QUERN_RETURN_IF_ERROR(RequirePointer(model, "model"));
  if (!model->graph) {
    QUERN_ASSIGN_OR_RETURN(model->graph, model->builder->Build());
  }
  return static_cast<const Graph*>(model->graph.get());
}

Status CheckIntact(const Graph& graph) {
  for (const auto& file : graph.mapped_files) QUERN_RETURN_IF_ERROR(file->CheckIntact());
  return OkStatus();
}

namespace {

quern_model* NewModel(std::unique_ptr<Graph> graph) { return new quern_model{nullptr, std::move(graph)}; }

Status RequireBuilder(const quern_model* model) {
  QUERN_RETURN_IF_ERROR(RequirePointer(model, "model"));
  if (model->builder) return OkStatus();
  return InvalidArgument("only a model of quern_model_create can be added to");
}

Status ReadNames(const char* const* names, size_t count, const char* what, std::vector<std::string>& out) {
  if (count > 0) QUERN_RETURN_IF_ERROR(RequirePointer(names, what));
  for (size_t i = 0; i < count; ++i) {
    if (!names[i]) return InvalidArgument(std::string(what) + "[" + std::to_string(i) + "] must not be NULL");
    out.emplace_back(names[i]);
  }
  return OkStatus();
}

Status ReadAttribute(const quern_attribute& a, ModelBuilder::Node& node) {
  QUERN_RETURN_IF_ERROR(RequirePointer(a.name, "attribute.name"));
  const std::string context = "attribute '" + std::string(a.name) + "': ";
  auto require = [&](const void* pointer, const char* field) {
    return pointer ? OkStatus() : InvalidArgument(context + field + " must not be NULL");
  };
  Attribute value;
  switch (a.type) {
    case QUERN_ATTRIBUTE_INT:
      value = a.int_value;
      break;
    case QUERN_ATTRIBUTE_FLOAT:
      value = a.float_value;
      break;
    case QUERN_ATTRIBUTE_STRING:
      QUERN_RETURN_IF_ERROR(require(a.string_value, "string_value"));
      value = std::string(a.string_value);
      break;
    case QUERN_ATTRIBUTE_TENSOR:
      QUERN_RETURN_IF_ERROR(require(a.tensor, "tensor"));
      value = a.tensor->value;
      break;
    case QUERN_ATTRIBUTE_GRAPH: {
      QUERN_RETURN_IF_ERROR(require(a.graph, "graph"));
      QUERN_RETURN_IF_ERROR(RequireBuilder(a.graph));
      node.subgraphs.emplace_back(a.name, std::make_shared<const ModelBuilder>(*a.graph->builder));
      return OkStatus();
    }
    case QUERN_ATTRIBUTE_INTS:
      if (a.count > 0) QUERN_RETURN_IF_ERROR(require(a.ints, "ints"));
      value = std::vector<int64_t>(a.ints, a.ints + a.count);
      break;
    case QUERN_ATTRIBUTE_FLOATS:
      if (a.count > 0) QUERN_RETURN_IF_ERROR(require(a.floats, "floats"));
      value = std::vector<float>(a.floats, a.floats + a.count);
      break;
    case QUERN_ATTRIBUTE_STRINGS: {
      std::vector<std::string> strings;
      QUERN_RETURN_IF_ERROR(ReadNames(a.strings, a.count, "strings", strings));
      value = std::move(strings);
      break;
    }
    default:
      return InvalidArgument(context + "type " + std::to_string(a.type) + " is not one of 1 to 8");
  }
  if (!node.attributes.emplace(a.name, std::move(value)).second) return InvalidArgument(context + "given twice");
  return OkStatus();
}

Result<ValueType> ReadTensorType(int32_t dtype, int32_t rank, const int64_t* dims, const char* const* symbols) {
  QUERN_ASSIGN_OR_RETURN(const DType type, ReadDType(dtype));
  if (rank == -1) return ValueType::Tensor(type);
  if (rank < -1 || rank > kMaxRank) return InvalidArgument("rank " + std::to_string(rank) + " is not in -1..16");
  if (rank > 0) QUERN_RETURN_IF_ERROR(RequirePointer(dims, "dims"));
  Dims shape;
  for (int32_t i = 0; i < rank; ++i) {
    if (dims[i] >= 0) {
      shape.push_back(Dim(dims[i]));
    } else if (dims[i] == -1) {
      shape.push_back(symbols && symbols[i] && symbols[i][0] ? Dim::Symbol(symbols[i]) : Dim::Unknown());
    } else {
      return InvalidArgument("dims[" + std::to_string(i) + "] is " + std::to_string(dims[i]));
    }
  }
  return ValueType::Tensor(type, std::move(shape));
}

}  // namespace
}  // namespace quern::api

using quern::InvalidArgument;
using quern::OkStatus;
using quern::Status;
using quern::api::Guard;
using quern::api::RequireBuilder;
using quern::api::RequirePointer;

extern "C" {

quern_status quern_model_load(const char* path, const quern_limits* limits, quern_model** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(path, "path"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    quern::OnnxReadOptions options;
    QUERN_ASSIGN_OR_RETURN(options.limits, quern::api::ReadLimits(limits));
    QUERN_ASSIGN_OR_RETURN(std::unique_ptr<quern::Graph> graph, quern::ReadOnnxFile(path, options));
    *out = quern::api::NewModel(std::move(graph));
    return OkStatus();
  });
}

quern_status quern_model_load_memory(const void* bytes, size_t size, int32_t copy, const char* folder,
                                     const quern_limits* limits, quern_model** out) {
  return Guard([&]() -> Status {
    if (size > 0) QUERN_RETURN_IF_ERROR(RequirePointer(bytes, "bytes"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    quern::OnnxReadOptions options;
    QUERN_ASSIGN_OR_RETURN(options.limits, quern::api::ReadLimits(limits));
    if (folder) options.external_data_folder = folder;
    // The caller keeps the bytes: an owner that does nothing lets tensors view them.
    const std::shared_ptr<const void> owner = copy ? nullptr : std::shared_ptr<const void>(bytes, [](const void*) {});
    const std::span<const std::byte> span(static_cast<const std::byte*>(bytes), size);
    QUERN_ASSIGN_OR_RETURN(std::unique_ptr<quern::Graph> graph, quern::ReadOnnx(span, owner, options));
    *out = quern::api::NewModel(std::move(graph));
    return OkStatus();
  });
}

quern_status quern_model_parse(const char* text, const quern_limits* limits, quern_model** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(text, "text"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    QUERN_ASSIGN_OR_RETURN(const quern::Limits read, quern::api::ReadLimits(limits));
    QUERN_ASSIGN_OR_RETURN(std::unique_ptr<quern::Graph> graph, quern::ParseGraph(text, read));
    *out = quern::api::NewModel(std::move(graph));
    return OkStatus();
  });
}

void quern_model_free(quern_model* model) { delete model; }

quern_status quern_model_facts(const quern_model* model, char** json) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(json, "json"));
    QUERN_ASSIGN_OR_RETURN(const quern::Graph* graph, quern::api::GraphOf(model));
    const std::string facts = quern::ModelFacts(*graph);
    QUERN_RETURN_IF_ERROR(quern::api::CheckIntact(*graph));
    *json = quern::api::CopyText(facts);
    return OkStatus();
  });
}

quern_status quern_model_text(const quern_model* model, int32_t full_constants, char** text) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(text, "text"));
    QUERN_ASSIGN_OR_RETURN(const quern::Graph* graph, quern::api::GraphOf(model));
    const std::string content = quern::PrintGraph(*graph, {.full_constants = full_constants != 0});
    QUERN_RETURN_IF_ERROR(quern::api::CheckIntact(*graph));
    *text = quern::api::CopyText(content);
    return OkStatus();
  });
}

quern_status quern_model_create(const char* name, quern_model** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    *out = new quern_model{std::make_unique<quern::api::ModelBuilder>(name ? name : ""), nullptr};
    return OkStatus();
  });
}

quern_status quern_model_import(quern_model* model, const char* domain, int32_t version) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequireBuilder(model));
    QUERN_RETURN_IF_ERROR(RequirePointer(domain, "domain"));
    if (version < 1) return InvalidArgument("operator set versions start at 1");
    model->graph.reset();
    model->builder->Import(std::string(domain) == "ai.onnx" ? "" : domain, version);
    return OkStatus();
  });
}

quern_status quern_model_add_input(quern_model* model, const char* name, int32_t dtype, int32_t rank,
                                   const int64_t* dims, const char* const* symbols) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequireBuilder(model));
    QUERN_RETURN_IF_ERROR(RequirePointer(name, "name"));
    quern::Result<quern::ValueType> type = quern::api::ReadTensorType(dtype, rank, dims, symbols);
    if (!type.ok()) return type.status().WithContext("input '" + std::string(name) + "'");
    model->graph.reset();
    return model->builder->AddInput(name, std::move(type).value());
  });
}

quern_status quern_model_add_typed_input(quern_model* model, const char* name, const char* type) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequireBuilder(model));
    QUERN_RETURN_IF_ERROR(RequirePointer(name, "name"));
    QUERN_RETURN_IF_ERROR(RequirePointer(type, "type"));
    quern::Result<quern::ValueType> read = quern::ParseType(type);
    if (!read.ok()) return read.status().WithContext("input '" + std::string(name) + "', type '" + type + "'");
    model->graph.reset();
    return model->builder->AddInput(name, std::move(read).value());
  });
}

quern_status quern_model_add_constant(quern_model* model, const char* name, const quern_value* content) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequireBuilder(model));
    QUERN_RETURN_IF_ERROR(RequirePointer(name, "name"));
    QUERN_RETURN_IF_ERROR(RequirePointer(content, "content"));
    const quern::ValueKind kind = content->value.kind();
    if (kind != quern::ValueKind::kTensor && kind != quern::ValueKind::kStringTensor) {
      return InvalidArgument("constant '" + std::string(name) + "': only tensors and strings can be constants");
    }
    model->graph.reset();
    quern::Value value = content->value;
    if (value.is_tensor() && !value.tensor().is_contiguous()) {
      QUERN_ASSIGN_OR_RETURN(quern::Tensor dense, value.tensor().Contiguous());
      value = std::move(dense);
    }
    return model->builder->AddConstant(name, std::move(value));
  });
}

quern_status quern_model_add_node(quern_model* model, const char* op_type, const char* domain, const char* name,
                                  const char* const* inputs, size_t num_inputs, const char* const* outputs,
                                  size_t num_outputs, const quern_attribute* attributes, size_t num_attributes) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequireBuilder(model));
    QUERN_RETURN_IF_ERROR(RequirePointer(op_type, "op_type"));
    quern::api::ModelBuilder::Node node;
    node.op_type = op_type;
    if (domain && std::string(domain) != "ai.onnx") node.domain = domain;
    if (name) node.name = name;
    QUERN_RETURN_IF_ERROR(quern::api::ReadNames(inputs, num_inputs, "inputs", node.inputs));
    QUERN_RETURN_IF_ERROR(quern::api::ReadNames(outputs, num_outputs, "outputs", node.outputs));
    if (num_attributes > 0) QUERN_RETURN_IF_ERROR(RequirePointer(attributes, "attributes"));
    for (size_t i = 0; i < num_attributes; ++i) {
      QUERN_ASSIGN_OR_RETURN(const quern_attribute known, quern::api::ReadElement(attributes, i, "attributes"));
      const Status status = quern::api::ReadAttribute(known, node);
      if (!status.ok()) return status.WithContext("node '" + node.name + "' (" + node.op_type + ")");
    }
    model->graph.reset();
    return model->builder->AddNode(std::move(node));
  });
}

quern_status quern_model_add_output(quern_model* model, const char* name) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequireBuilder(model));
    QUERN_RETURN_IF_ERROR(RequirePointer(name, "name"));
    model->graph.reset();
    model->builder->AddOutput(name);
    return OkStatus();
  });
}

}  // extern "C"
