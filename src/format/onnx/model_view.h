// The structure of an ONNX model as views of its bytes: first step of reading; tensors and list attributes stay
// encoded.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"

namespace quern::onnx {

struct CallView;
struct FunctionView;
struct GraphView;
using OpsetImports = std::vector<std::pair<std::string_view, int64_t>>;  // domain, version

struct AttributeView {
  std::string_view name;
  std::string_view reference;  // the attribute of the enclosing function that gives the content
  int64_t type = 0;            // AttributeKind; guessed from the content when the file (IR version 1 style) omits it
  std::string_view body;       // the whole AttributeProto
  std::vector<std::unique_ptr<GraphView>> graphs;
};

struct NodeView {
  std::string_view name, domain, op_type, overload;  // domain "ai.onnx" is given as ""
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeView> attributes;
  // Where the file has it, for errors: the list that it stands in, or the call whose body it comes from.
  std::string_view list = "graph.node";
  const CallView* call = nullptr;
  size_t index = 0;
  const OpsetImports* imports = nullptr;  // of the function that it was inlined from; null: the model's
};

struct ValueInfoView {
  std::string_view name;
  std::string_view type;        // TypeProto, empty when absent
  bool is_of_function = false;  // names of extents mean something within one call only
};

struct InitializerView {
  std::string_view name;
  std::string_view body;  // TensorProto or SparseTensorProto
  bool is_sparse = false;
};

struct GraphView {
  std::string_view name;
  std::vector<NodeView> nodes;
  std::vector<InitializerView> initializers;
  std::vector<ValueInfoView> inputs, outputs, value_info;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  // Names that this graph or one below reads but that it does not define, each once, in order of first use.
  std::vector<std::string_view> free_names;
};

struct FunctionView {
  std::string_view domain, name, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;  // parameters without a default
  std::vector<AttributeView> defaults;       // those with one
  OpsetImports imports;
  GraphView body;  // nodes and value_info
};

// A node that called a function, before the body took its place.
struct CallView {
  std::string_view name, op_type, list;
  const CallView* outer = nullptr;  // NodeView::call
  size_t index = 0;
  const FunctionView* function = nullptr;
};

struct ModelView {
  int64_t ir_version = 0;
  int64_t model_version = 0;
  std::string_view producer_name, producer_version, domain, doc_string;
  OpsetImports opset_imports;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::vector<FunctionView> functions;
  bool has_graph = false;
  GraphView graph;
  std::deque<std::string> made_up;  // texts that views show and the file does not have
  std::deque<CallView> calls;       // of inlined functions
};

// "graph.node[12] 'conv_7' (Conv)", as errors call a node; parts that are not known are left out.
std::string NodePath(const NodeView& node);
// "local.Block", ":overload" behind it where there is one.
std::string FunctionName(const FunctionView& function);

// Fills GraphView::free_names of one graph; those of its nodes' subgraphs must be there.
void FindFreeNames(GraphView* graph);

// Parses the bytes of a ModelProto. Unknown fields are skipped. Errors name the path and the byte.
Result<ModelView> ParseModel(std::string_view bytes, const Limits& limits);

}  // namespace quern::onnx
