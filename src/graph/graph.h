// The IR: a Graph of Nodes over SSA GraphValues. Nodes stand in a topological order; subgraphs are self-contained.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/type.h"
#include "tensor/value.h"

namespace quern {

class Graph;
class MappedFile;
class Node;

// One use of a value: input `index` of `node` (captures count on from num_inputs), or a graph output (node == null).
struct Use {
  Node* node;
  int index;
};

// Defined once: by a node output, as a graph input, or as a constant (initializer). Owned by its Graph.
class GraphValue {
 public:
  const std::string& name() const { return name_; }
  const ValueType& type() const { return type_; }
  void set_type(ValueType type) { type_ = std::move(type); }

  Node* producer() const { return producer_; }  // null for inputs and constants
  int producer_index() const { return producer_index_; }
  bool is_input() const { return is_input_; }
  bool is_constant() const { return constant_.has_value(); }
  // The content of a constant (a tensor view with its owner, or a string tensor); null for other values.
  const Value* constant() const { return is_constant() ? &constant_ : nullptr; }
  const std::vector<Use>& uses() const { return uses_; }  // in no particular order
  bool is_graph_output() const { return num_output_uses_ > 0; }

  // Elements of a small integer tensor (rank 0 or 1) known symbolically: what Shape, Gather, Concat chains carry.
  const std::optional<Dims>& data() const { return data_; }
  void set_data(std::optional<Dims> data) { data_ = std::move(data); }

 private:
  friend class Graph;
  friend class Node;
  std::string name_;
  ValueType type_;
  Node* producer_ = nullptr;
  int producer_index_ = 0;
  bool is_input_ = false;
  Value constant_;
  std::optional<Dims> data_;
  std::vector<Use> uses_;
  int num_output_uses_ = 0;  // of uses_, those as a graph output
  size_t slot_ = 0;          // in the graph's list of values
};

using GraphPtr = std::shared_ptr<Graph>;
using Attribute = std::variant<int64_t, float, std::string, Value, GraphPtr, ValueType, std::vector<int64_t>,
                               std::vector<float>, std::vector<std::string>, std::vector<Value>, std::vector<GraphPtr>>;

// An operator application. Owned by its Graph.
//
// Subgraphs (attributes of type GraphPtr) never refer to values of another graph: each outer value that a subgraph
// reads is listed once in the node's captures(), and every subgraph of the node has, after its formal inputs, one
// extra input per capture, in the same order.
class Node {
 public:
  const std::string& name() const { return name_; }  // may be empty
  void set_name(std::string name) { name_ = std::move(name); }
  const std::string& domain() const { return domain_; }  // "" is ai.onnx
  const std::string& op_type() const { return op_type_; }
  int opset() const { return opset_; }  // operator set version of the domain that this node follows
  void set_opset(int opset) { opset_ = opset; }
  bool Is(std::string_view op_type, std::string_view domain = "") const {
    return op_type_ == op_type && domain_ == domain;
  }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  GraphValue* input(int i) const { return i < num_inputs() ? inputs_[i] : nullptr; }  // null: omitted
  const std::vector<GraphValue*>& inputs() const { return inputs_; }
  const std::vector<GraphValue*>& captures() const { return captures_; }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  GraphValue* output(int i) const { return i < num_outputs() ? outputs_[i] : nullptr; }  // null: omitted
  const std::vector<GraphValue*>& outputs() const { return outputs_; }

  const std::map<std::string, Attribute, std::less<>>& attributes() const { return attributes_; }
  // The attribute, or null when absent or of another type.
  template <typename T>
  const T* FindAttribute(std::string_view name) const {
    const Attribute* attribute = FindAnyAttribute(name);
    return attribute ? std::get_if<T>(attribute) : nullptr;
  }
  const Attribute* FindAnyAttribute(std::string_view name) const;
  // The attribute where the node has it in this kind, else `otherwise`.
  int64_t GetInt(std::string_view name, int64_t otherwise) const;
  float GetFloat(std::string_view name, float otherwise) const;
  std::string GetString(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> GetInts(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  void SetAttribute(std::string name, Attribute value);
  void RemoveAttribute(std::string_view name);
  // Every subgraph with the attribute that holds it, in attribute order.
  std::vector<std::pair<std::string, GraphPtr>> subgraphs() const;
  bool has_subgraphs() const;

  Graph* graph() const { return graph_; }
  Node* next() const { return next_; }  // in the graph's order; null at the end
  Node* prev() const { return prev_; }
  // "node 'conv_7' (Conv)": the form that every error uses; unnamed nodes are named by their first output.
  std::string Describe() const;

 private:
  friend class Graph;
  Graph* graph_ = nullptr;
  Node* next_ = nullptr;
  Node* prev_ = nullptr;
  std::string name_, domain_, op_type_;
  int opset_ = 0;
  std::vector<GraphValue*> inputs_, captures_, outputs_;
  std::vector<size_t> use_slots_;  // of each input, then capture: its place in the uses of its value
  std::map<std::string, Attribute, std::less<>> attributes_;
};

// What a node is made of.
struct NodeSpec {
  std::string name = {}, domain = {}, op_type = {};
  int opset = 0;  // 0: the graph's import of the domain
  std::vector<GraphValue*> inputs = {};
  std::vector<std::string> outputs = {};  // "" omits the output
  std::map<std::string, Attribute, std::less<>> attributes = {};
  std::vector<GraphValue*> captures = {};
};

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name;
  std::map<std::string, int> opset_imports;     // domain -> version; "" is ai.onnx
  std::map<std::string, std::string> metadata;  // metadata_props, producer..., free for the user
  // Memory that constants view without owning.
  std::vector<std::shared_ptr<const void>> keep_alive;
  // Files whose mapped bytes constants view: whoever reads them asks CheckIntact() before results leave.
  std::vector<std::shared_ptr<const MappedFile>> mapped_files;
  // Gives the memory of their pages back, after constants were copied into other forms.
  void DropFilePages() const;
  // Constants that a file lists as inputs too (initializers with a name of graph.input), with the type it declares. A
  // fact of the file: passes ignore it, the text form leaves it out.
  std::vector<std::pair<std::string, ValueType>> overridable;

  const std::vector<GraphValue*>& inputs() const { return inputs_; }
  const std::vector<GraphValue*>& outputs() const { return outputs_; }
  Node* first_node() const { return first_; }
  Node* last_node() const { return last_; }
  // A snapshot in order, so that the graph may be changed while walking it.
  std::vector<Node*> nodes() const;
  int num_nodes() const { return num_nodes_; }
  // All constants, in the order of their making.
  std::vector<GraphValue*> constants() const;
  // The value of that name, or null. Names are unique within a graph.
  GraphValue* FindValue(std::string_view name) const;

  // Building. Names must be unused (checked); UniqueName gives one.
  GraphValue* AddInput(std::string value_name, ValueType type);
  GraphValue* AddConstant(std::string value_name, Value content);
  // Appends, or inserts before `before`.
  Node* AddNode(NodeSpec spec, Node* before = nullptr);
  // Adds an output to a node; "" adds an omitted one (and gives null).
  GraphValue* AddNodeOutput(Node* node, std::string value_name);
  void AddOutput(GraphValue* value);
  // `prefix` itself when it is free, else with a number behind it.
  std::string UniqueName(std::string_view prefix);
  int opset(std::string_view domain) const;  // import of a domain, 0 when not imported

  // Changing.
  void SetInput(Node* node, int index, GraphValue* value);  // index may be num_inputs() (appends)
  void AddCapture(Node* node, GraphValue* value);           // the caller adds the matching subgraph inputs
  void RemoveCapture(Node* node, int index);                // the caller removes the matching subgraph inputs
  void RemoveInputs(Node* node, int from);                  // drops inputs [from, end)
  void OmitOutput(Node* node, int index);                   // drops an unused output (checked)
  void SetOutput(int index, GraphValue* value);
  void RemoveOutput(int index);  // those behind it move up
  // Every use of `from`, graph outputs included, becomes a use of `to`.
  void ReplaceAllUses(GraphValue* from, GraphValue* to);
  // Removes a node whose outputs have no uses (checked), with its outputs.
  void Remove(Node* node);
  // Removes an unused constant or graph input.
  void RemoveValue(GraphValue* value);
  void RenameValue(GraphValue* value, std::string new_name);
  void MoveBefore(Node* node, Node* before);  // null: to the end
  // Makes a value a constant in place (its producer is removed when no other output of it is used).
  void TurnIntoConstant(GraphValue* value, Value content);

  // A deep copy (subgraphs too; constant contents are shared).
  std::unique_ptr<Graph> Clone() const;

 private:
  GraphValue* NewValue(std::string value_name);
  void Link(Node* node, Node* before);
  void Unlink(Node* node);
  void DropUse(GraphValue* value, Node* node, int index);
  size_t& UseSlot(Node* node, int index);
  void AddUse(GraphValue* value, Node* node, int index);
  void Delete(GraphValue* value);
  std::vector<std::unique_ptr<GraphValue>> values_;  // in the order of their making; null where one was removed
  size_t num_removed_ = 0;
  std::vector<GraphValue*> inputs_, outputs_;
  std::vector<size_t> output_slots_;  // of each output: its place in the uses of its value
  std::unordered_map<std::string, GraphValue*> by_name_;
  Node* first_ = nullptr;
  Node* last_ = nullptr;
  int num_nodes_ = 0;
  int64_t next_name_ = 0;
};

}  // namespace quern
