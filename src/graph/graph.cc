#include "graph/graph.h"

#include <algorithm>

#include "base/check.h"
#include "base/mapped_file.h"

namespace quern {

const Attribute* Node::FindAnyAttribute(std::string_view name) const {
  auto it = attributes_.find(name);
  return it == attributes_.end() ? nullptr : &it->second;
}
int64_t Node::GetInt(std::string_view name, int64_t otherwise) const {
  const int64_t* p = FindAttribute<int64_t>(name);
  return p ? *p : otherwise;
}
float Node::GetFloat(std::string_view name, float otherwise) const {
  const float* p = FindAttribute<float>(name);
  return p ? *p : otherwise;
}
std::string Node::GetString(std::string_view name, std::string_view otherwise) const {
  const std::string* p = FindAttribute<std::string>(name);
  return p ? *p : std::string(otherwise);
}
std::vector<int64_t> Node::GetInts(std::string_view name, std::vector<int64_t> otherwise) const {
  const std::vector<int64_t>* p = FindAttribute<std::vector<int64_t>>(name);
  return p ? *p : otherwise;
}
void Node::SetAttribute(std::string name, Attribute value) {
  attributes_.insert_or_assign(std::move(name), std::move(value));
}
void Node::RemoveAttribute(std::string_view name) {
  if (auto it = attributes_.find(name); it != attributes_.end()) attributes_.erase(it);
}

bool Node::has_subgraphs() const {
  return std::ranges::any_of(attributes_, [](const auto& attribute) {
    return std::holds_alternative<GraphPtr>(attribute.second) ||
           std::holds_alternative<std::vector<GraphPtr>>(attribute.second);
  });
}

std::vector<std::pair<std::string, GraphPtr>> Node::subgraphs() const {
  std::vector<std::pair<std::string, GraphPtr>> found;
  for (const auto& [key, attribute] : attributes_) {
    if (const GraphPtr* one = std::get_if<GraphPtr>(&attribute)) {
      found.emplace_back(key, *one);
    } else if (const auto* several = std::get_if<std::vector<GraphPtr>>(&attribute)) {
      for (const GraphPtr& g : *several) found.emplace_back(key, g);
    }
  }
  return found;
}

std::string Node::Describe() const {
  std::string called = name_;
  for (size_t i = 0; called.empty() && i < outputs_.size(); ++i) {
    if (outputs_[i] != nullptr) called = outputs_[i]->name();
  }
  return "node '" + called + "' (" + (domain_.empty() ? "" : domain_ + ".") + op_type_ + ")";
}

Graph::~Graph() {
  for (Node* n = first_; n != nullptr;) {
    Node* next = n->next_;
    delete n;
    n = next;
  }
}

std::vector<Node*> Graph::nodes() const {
  std::vector<Node*> list;
  list.reserve(static_cast<size_t>(num_nodes_));
  for (Node* n = first_; n != nullptr; n = n->next_) list.push_back(n);
  return list;
}

std::vector<GraphValue*> Graph::constants() const {
  std::vector<GraphValue*> list;
  for (const auto& v : values_) {
    if (v != nullptr && v->is_constant()) list.push_back(v.get());
  }
  return list;
}

GraphValue* Graph::FindValue(std::string_view value_name) const {
  const auto it = by_name_.find(std::string(value_name));
  return it == by_name_.end() ? nullptr : it->second;
}

GraphValue* Graph::NewValue(std::string value_name) {
  auto value = std::make_unique<GraphValue>();
  GraphValue* v = value.get();
  v->name_ = std::move(value_name);
  v->slot_ = values_.size();
  QUERN_CHECK(!v->name_.empty(), "a value needs a name");
  QUERN_CHECK(by_name_.emplace(v->name_, v).second, "the name of a value is in use");
  values_.push_back(std::move(value));
  return v;
}

void Graph::Delete(GraphValue* value) {
  by_name_.erase(value->name_);
  values_[value->slot_] = nullptr;
  if (++num_removed_ <= values_.size() / 2) return;
  std::erase(values_, nullptr);
  for (size_t i = 0; i < values_.size(); ++i) values_[i]->slot_ = i;
  num_removed_ = 0;
}

size_t& Graph::UseSlot(Node* node, int index) {
  std::vector<size_t>& slots = node != nullptr ? node->use_slots_ : output_slots_;
  const size_t i = static_cast<size_t>(index);
  if (i >= slots.size()) slots.resize(i + 1);
  return slots[i];
}

void Graph::AddUse(GraphValue* value, Node* node, int index) {
  if (value == nullptr) return;
  UseSlot(node, index) = value->uses_.size();
  value->uses_.push_back({node, index});
  value->num_output_uses_ += node == nullptr;
}

void Graph::DropUse(GraphValue* value, Node* node, int index) {
  if (value == nullptr) return;
  auto& uses = value->uses_;
  const size_t slot = UseSlot(node, index);
  QUERN_CHECK(slot < uses.size() && uses[slot].node == node && uses[slot].index == index,
              "a use is not in the list of its value");
  uses[slot] = uses.back();
  UseSlot(uses[slot].node, uses[slot].index) = slot;
  uses.pop_back();
  value->num_output_uses_ -= node == nullptr;
}

void Graph::Link(Node* node, Node* before) {
  node->graph_ = this;
  node->next_ = before;
  node->prev_ = before != nullptr ? before->prev_ : last_;
  (node->prev_ != nullptr ? node->prev_->next_ : first_) = node;
  (before != nullptr ? before->prev_ : last_) = node;
  ++num_nodes_;
}

void Graph::Unlink(Node* node) {
  (node->prev_ != nullptr ? node->prev_->next_ : first_) = node->next_;
  (node->next_ != nullptr ? node->next_->prev_ : last_) = node->prev_;
  --num_nodes_;
}

GraphValue* Graph::AddInput(std::string value_name, ValueType type) {
  GraphValue* v = NewValue(std::move(value_name));
  v->type_ = std::move(type);
  v->is_input_ = true;
  inputs_.push_back(v);
  return v;
}

GraphValue* Graph::AddConstant(std::string value_name, Value content) {
  QUERN_CHECK(content.has_value(), "a constant needs a content");
  GraphValue* v = NewValue(std::move(value_name));
  v->type_ = TypeOf(content);
  v->constant_ = std::move(content);
  return v;
}

Node* Graph::AddNode(NodeSpec spec, Node* before) {
  QUERN_CHECK(before == nullptr || before->graph_ == this, "the node to insert before is of another graph");
  Node* node = new Node();
  node->name_ = std::move(spec.name);
  node->domain_ = spec.domain == "ai.onnx" ? std::string() : std::move(spec.domain);
  node->op_type_ = std::move(spec.op_type);
  node->opset_ = spec.opset != 0 ? spec.opset : opset(node->domain_);
  node->attributes_ = std::move(spec.attributes);
  Link(node, before);
  for (GraphValue* v : spec.inputs) {
    AddUse(v, node, node->num_inputs());
    node->inputs_.push_back(v);
  }
  for (GraphValue* v : spec.captures) AddCapture(node, v);
  for (std::string& output : spec.outputs) AddNodeOutput(node, std::move(output));
  return node;
}

GraphValue* Graph::AddNodeOutput(Node* node, std::string value_name) {
  GraphValue* v = nullptr;
  if (!value_name.empty()) {
    v = NewValue(std::move(value_name));
    v->producer_ = node;
    v->producer_index_ = node->num_outputs();
  }
  node->outputs_.push_back(v);
  return v;
}

void Graph::AddOutput(GraphValue* value) {
  QUERN_CHECK(value != nullptr, "a graph output needs a value");
  AddUse(value, nullptr, static_cast<int>(outputs_.size()));
  outputs_.push_back(value);
}

std::string Graph::UniqueName(std::string_view prefix) {
  std::string candidate(prefix);
  while (candidate.empty() || by_name_.contains(candidate)) {
    candidate = std::string(prefix) + "_" + std::to_string(next_name_++);
  }
  return candidate;
}

int Graph::opset(std::string_view domain) const {
  const auto it = opset_imports.find(domain == "ai.onnx" ? std::string() : std::string(domain));
  return it == opset_imports.end() ? 0 : it->second;
}

void Graph::SetInput(Node* node, int index, GraphValue* value) {
  QUERN_CHECK(node->graph_ == this && index >= 0 && index <= node->num_inputs(), "no such input");
  if (index == node->num_inputs()) {
    // Captures count on from the inputs, so each of their uses moves up by one.
    for (int i = static_cast<int>(node->captures_.size()) - 1; i >= 0; --i) {
      DropUse(node->captures_[i], node, index + i);
      AddUse(node->captures_[i], node, index + i + 1);
    }
    node->inputs_.push_back(nullptr);
  }
  DropUse(node->inputs_[index], node, index);
  node->inputs_[index] = value;
  AddUse(value, node, index);
}

void Graph::AddCapture(Node* node, GraphValue* value) {
  QUERN_CHECK(value != nullptr, "a capture needs a value");
  AddUse(value, node, node->num_inputs() + static_cast<int>(node->captures_.size()));
  node->captures_.push_back(value);
}

void Graph::RemoveCapture(Node* node, int index) {
  QUERN_CHECK(index >= 0 && index < static_cast<int>(node->captures_.size()), "no such capture");
  for (int i = index; i < static_cast<int>(node->captures_.size()); ++i) {
    DropUse(node->captures_[i], node, node->num_inputs() + i);
    if (i > index) AddUse(node->captures_[i], node, node->num_inputs() + i - 1);
  }
  node->captures_.erase(node->captures_.begin() + index);
}

void Graph::RemoveInputs(Node* node, int from) {
  QUERN_CHECK(from >= 0 && from <= node->num_inputs(), "no such input");
  const int count = node->num_inputs(), drop = count - from;
  for (int i = from; i < count; ++i) DropUse(node->inputs_[i], node, i);
  for (int i = 0; i < static_cast<int>(node->captures_.size()) && drop > 0; ++i) {
    DropUse(node->captures_[i], node, count + i);
    AddUse(node->captures_[i], node, from + i);
  }
  node->inputs_.resize(static_cast<size_t>(from));
}

void Graph::OmitOutput(Node* node, int index) {
  QUERN_CHECK(index >= 0 && index < node->num_outputs(), "no such output");
  GraphValue* v = node->outputs_[index];
  if (v == nullptr) return;
  QUERN_CHECK(v->uses_.empty(), "an output with uses cannot be omitted");
  node->outputs_[index] = nullptr;
  Delete(v);
}

void Graph::SetOutput(int index, GraphValue* value) {
  QUERN_CHECK(index >= 0 && index < static_cast<int>(outputs_.size()) && value != nullptr, "no such graph output");
  DropUse(outputs_[index], nullptr, index);
  outputs_[index] = value;
  AddUse(value, nullptr, index);
}

void Graph::RemoveOutput(int index) {
  QUERN_CHECK(index >= 0 && index < static_cast<int>(outputs_.size()), "no such graph output");
  const std::vector<GraphValue*> behind(outputs_.begin() + index + 1, outputs_.end());
  for (int i = index; i < static_cast<int>(outputs_.size()); ++i) DropUse(outputs_[i], nullptr, i);
  outputs_.resize(static_cast<size_t>(index));
  for (GraphValue* value : behind) AddOutput(value);
}

void Graph::ReplaceAllUses(GraphValue* from, GraphValue* to) {
  QUERN_CHECK(to != nullptr, "uses need a value");
  if (from == to) return;
  for (const Use& use : from->uses_) {
    if (use.node == nullptr) {
      outputs_[use.index] = to;
    } else if (use.index < use.node->num_inputs()) {
      use.node->inputs_[use.index] = to;
    } else {
      use.node->captures_[use.index - use.node->num_inputs()] = to;
    }
    UseSlot(use.node, use.index) = to->uses_.size();
    to->uses_.push_back(use);
  }
  to->num_output_uses_ += from->num_output_uses_;
  from->num_output_uses_ = 0;
  from->uses_.clear();
}

void Graph::Remove(Node* node) {
  QUERN_CHECK(node->graph_ == this, "the node is of another graph");
  for (GraphValue* v : node->outputs_) QUERN_CHECK(v == nullptr || v->uses_.empty(), "an output of the node is in use");
  for (int i = 0; i < node->num_inputs(); ++i) DropUse(node->inputs_[i], node, i);
  for (size_t i = 0; i < node->captures_.size(); ++i) {
    DropUse(node->captures_[i], node, node->num_inputs() + static_cast<int>(i));
  }
  for (GraphValue* v : node->outputs_) {
    if (v != nullptr) Delete(v);
  }
  Unlink(node);
  delete node;
}

void Graph::RemoveValue(GraphValue* value) {
  QUERN_CHECK(value->uses_.empty() && value->producer_ == nullptr, "the value is in use or made by a node");
  if (value->is_input_) std::erase(inputs_, value);
  Delete(value);
}

void Graph::RenameValue(GraphValue* value, std::string new_name) {
  if (value->name_ == new_name) return;
  QUERN_CHECK(!new_name.empty(), "a value needs a name");
  QUERN_CHECK(by_name_.emplace(new_name, value).second, "the name of a value is in use");
  by_name_.erase(value->name_);
  value->name_ = std::move(new_name);
}

void Graph::MoveBefore(Node* node, Node* before) {
  QUERN_CHECK(node->graph_ == this && (before == nullptr || before->graph_ == this), "a node is of another graph");
  if (node == before) return;
  Unlink(node);
  Link(node, before);
}

void Graph::TurnIntoConstant(GraphValue* value, Value content) {
  QUERN_CHECK(content.has_value(), "a constant needs a content");
  Node* producer = value->producer_;
  if (producer != nullptr) {
    producer->outputs_[value->producer_index_] = nullptr;
    value->producer_ = nullptr;
    value->producer_index_ = 0;
  }
  if (value->is_input_) {
    std::erase(inputs_, value);
    value->is_input_ = false;
  }
  value->type_ = TypeOf(content);
  value->constant_ = std::move(content);
  if (producer != nullptr && std::all_of(producer->outputs_.begin(), producer->outputs_.end(),
                                         [](GraphValue* v) { return v == nullptr || v->uses_.empty(); })) {
    Remove(producer);
  }
}

namespace {

Attribute CloneAttribute(const Attribute& attribute) {
  if (const GraphPtr* g = std::get_if<GraphPtr>(&attribute)) return GraphPtr((*g)->Clone());
  if (const auto* list = std::get_if<std::vector<GraphPtr>>(&attribute)) {
    std::vector<GraphPtr> copy;
    for (const GraphPtr& g : *list) copy.push_back(g->Clone());
    return copy;
  }
  return attribute;
}

}  // namespace

void Graph::DropFilePages() const {
  for (const auto& file : mapped_files) file->DropPages();
}

std::unique_ptr<Graph> Graph::Clone() const {
  auto copy = std::make_unique<Graph>();
  copy->name = name;
  copy->opset_imports = opset_imports;
  copy->metadata = metadata;
  copy->keep_alive = keep_alive;
  copy->mapped_files = mapped_files;
  copy->overridable = overridable;
  copy->next_name_ = next_name_;
  std::unordered_map<const GraphValue*, GraphValue*> twin;
  for (const auto& v : values_) {
    if (v == nullptr) continue;
    GraphValue* t = copy->NewValue(v->name_);
    t->type_ = v->type_;
    t->is_input_ = v->is_input_;
    t->constant_ = v->constant_;
    t->data_ = v->data_;
    twin[v.get()] = t;
  }
  twin[nullptr] = nullptr;
  for (const GraphValue* v : inputs_) copy->inputs_.push_back(twin.at(v));
  for (const Node* n = first_; n != nullptr; n = n->next_) {
    NodeSpec spec{n->name_, n->domain_, n->op_type_, n->opset_, {}, {}, {}, {}};
    for (const GraphValue* v : n->inputs_) spec.inputs.push_back(twin.at(v));
    for (const GraphValue* v : n->captures_) spec.captures.push_back(twin.at(v));
    for (const auto& [key, attribute] : n->attributes_) spec.attributes.emplace(key, CloneAttribute(attribute));
    Node* m = copy->AddNode(std::move(spec));
    m->opset_ = n->opset_;
    for (const GraphValue* v : n->outputs_) {
      GraphValue* t = twin.at(v);
      if (t != nullptr) {
        t->producer_ = m;
        t->producer_index_ = m->num_outputs();
      }
      m->outputs_.push_back(t);
    }
  }
  for (const GraphValue* v : outputs_) copy->AddOutput(twin.at(v));
  return copy;
}

}  // namespace quern
