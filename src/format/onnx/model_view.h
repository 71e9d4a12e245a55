// The structure of an ONNX model as views of its bytes: first step of reading; tensors and list attributes stay
// encoded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"

namespace quern::onnx {

struct GraphView;

struct AttributeView {
  std::string_view name;
  int64_t type = 0;       // AttributeKind; guessed from the content when the file (IR version 1 style) omits it
  std::string_view body;  // the whole AttributeProto
  std::vector<std::unique_ptr<GraphView>> graphs;
};

struct NodeView {
  std::string_view name, domain, op_type;  // domain "ai.onnx" is given as ""
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeView> attributes;
};

struct ValueInfoView {
  std::string_view name;
  std::string_view type;  // TypeProto, empty when absent
};

struct GraphView {
  std::string_view name;
  std::vector<NodeView> nodes;
  std::vector<std::pair<std::string_view, std::string_view>> initializers;  // name, TensorProto
  std::vector<ValueInfoView> inputs, outputs, value_info;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  bool has_sparse_initializers = false;
  // Names that this graph or one below reads but that it does not define, each once, in order of first use.
  std::vector<std::string_view> free_names;
};

struct ModelView {
  int64_t ir_version = 0;
  int64_t model_version = 0;
  std::string_view producer_name, producer_version, domain, doc_string;
  std::vector<std::pair<std::string_view, int64_t>> opset_imports;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::vector<std::pair<std::string_view, std::string_view>> functions;  // domain, name
  bool has_graph = false;
  GraphView graph;
};

// "graph.node[12] 'conv_7' (Conv)", as errors call a node; parts that are not known are left out.
std::string NodePath(size_t index, std::string_view name, std::string_view op_type);

// Parses the bytes of a ModelProto. Unknown fields are skipped. Errors name the path and the byte.
Result<ModelView> ParseModel(std::string_view bytes, const Limits& limits);

}  // namespace quern::onnx
