#include "graph/matcher.h"

#include "base/check.h"

namespace quern {

GraphValue* Match::value(std::string_view name) const {
  const auto it = values_.find(name);
  QUERN_CHECK(it != values_.end(), "the pattern has no value of that name");
  return it->second;
}

Node* Match::node(std::string_view name) const {
  const auto it = nodes_.find(name);
  QUERN_CHECK(it != nodes_.end(), "the pattern has no node of that name");
  return it->second;
}

Pattern Pattern::Any(std::string name) {
  Pattern p;
  p.name_ = std::move(name);
  return p;
}

Pattern Pattern::Constant(std::string name) {
  Pattern p = Any(std::move(name));
  p.kind_ = Kind::kConstant;
  return p;
}

Pattern Pattern::Op(std::string op_type, std::vector<Pattern> inputs, std::string domain) {
  Pattern p;
  p.kind_ = Kind::kOp;
  p.op_type_ = std::move(op_type);
  p.domain_ = std::move(domain);
  p.inputs_ = std::move(inputs);
  return p;
}

Pattern Pattern::As(std::string name) && {
  name_ = std::move(name);
  return std::move(*this);
}
Pattern Pattern::Optional() && {
  optional_ = true;
  return std::move(*this);
}
Pattern Pattern::Commutative() && {
  QUERN_CHECK(inputs_.size() == 2, "only two inputs commute");
  commutative_ = true;
  return std::move(*this);
}
Pattern Pattern::MoreInputs() && {
  more_inputs_ = true;
  return std::move(*this);
}
Pattern Pattern::SingleUse() && {
  single_use_ = true;
  return std::move(*this);
}
Pattern Pattern::Where(NodePredicate predicate) && {
  node_predicates_.push_back(predicate);
  return std::move(*this);
}
Pattern Pattern::WithInt(std::string attribute, int64_t value, int64_t otherwise) && {
  ints_.push_back({std::move(attribute), value, otherwise});
  return std::move(*this);
}
Pattern Pattern::WhereValue(ValuePredicate predicate) && {
  value_predicates_.push_back(predicate);
  return std::move(*this);
}

std::optional<Match> Pattern::MatchNode(Node* node) const {
  QUERN_CHECK(kind_ == Kind::kOp, "only an Op has a node");
  Match match;
  GraphValue* value = node->output(0);
  if (value == nullptr ? !NodeMatches(node, match) : !Matches(value, match)) return std::nullopt;
  return match;
}

std::optional<Match> Pattern::MatchValue(GraphValue* value) const {
  Match match;
  if (!Matches(value, match)) return std::nullopt;
  return match;
}

bool Pattern::Matches(GraphValue* value, Match& match) const {
  if (value == nullptr) {
    if (!optional_) return false;
    if (!name_.empty()) match.values_[name_] = nullptr;
    return true;
  }
  if (kind_ == Kind::kConstant && !value->is_constant()) return false;
  if (single_use_ && (value->uses().size() != 1 || value->is_graph_output())) return false;
  for (ValuePredicate predicate : value_predicates_) {
    if (!predicate(*value)) return false;
  }
  if (!name_.empty()) {
    const auto [it, added] = match.values_.emplace(name_, value);
    if (!added && it->second != value) return false;
  }
  if (kind_ != Kind::kOp) return true;
  return value->producer() != nullptr && value->producer_index() == 0 && NodeMatches(value->producer(), match);
}

bool Pattern::NodeMatches(Node* node, Match& match) const {
  if (!node->Is(op_type_, domain_)) return false;
  for (const IntCondition& c : ints_) {
    if (node->GetInt(c.attribute, c.otherwise) != c.value) return false;
  }
  for (NodePredicate predicate : node_predicates_) {
    if (!predicate(*node)) return false;
  }
  for (int i = static_cast<int>(inputs_.size()); !more_inputs_ && i < node->num_inputs(); ++i) {
    if (node->input(i) != nullptr) return false;
  }
  if (!name_.empty()) match.nodes_[name_] = node;
  const Match before = match;
  if (InputsMatch(node, false, match)) return true;
  if (!commutative_) return false;
  match = before;
  return InputsMatch(node, true, match);
}

bool Pattern::InputsMatch(Node* node, bool swapped, Match& match) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].Matches(node->input(static_cast<int>(swapped ? 1 - i : i)), match)) return false;
  }
  return true;
}

}  // namespace quern
