// Patterns over nodes and values, written as expressions, for passes:
//
//   const Pattern kPattern = Pattern::Op("Add", {Pattern::Op("MatMul", {Pattern::Any("a"), Pattern::Constant("b")})
//                                                    .As("matmul").SingleUse(),
//                                                Pattern::Constant("bias")}).Commutative();
//   if (std::optional<Match> m = kPattern.MatchNode(node)) ... m->value("bias"), m->node("matmul") ...
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace quern {

// What the named parts of a pattern stand for.
class Match {
 public:
  // Null for an optional part that is omitted. The name must occur in the pattern (checked).
  GraphValue* value(std::string_view name) const;
  Node* node(std::string_view name) const;

 private:
  friend class Pattern;
  std::map<std::string, GraphValue*, std::less<>> values_;
  std::map<std::string, Node*, std::less<>> nodes_;
};

class Pattern {
 public:
  // A value of any origin. A name that occurs twice must stand for the same value.
  static Pattern Any(std::string name = "");
  static Pattern Constant(std::string name = "");
  // The output 0 of a node. The node's inputs match `inputs` one by one; further inputs must be omitted.
  static Pattern Op(std::string op_type, std::vector<Pattern> inputs, std::string domain = "");

  Pattern As(std::string name) &&;  // names the value, and the node of an Op
  Pattern Optional() &&;            // the input may also be omitted
  Pattern Commutative() &&;         // an Op of two inputs whose order does not matter
  Pattern MoreInputs() &&;          // an Op whose further inputs are of no interest
  Pattern SingleUse() &&;           // the value has one use, which is not as a graph output
  // Conditions on the node of an Op; all must hold.
  using NodePredicate = bool (*)(const Node& node);
  Pattern Where(NodePredicate predicate) &&;
  Pattern WithInt(std::string attribute, int64_t value, int64_t otherwise) &&;  // `otherwise`: the default
  // A condition on the value.
  using ValuePredicate = bool (*)(const GraphValue& value);
  Pattern WhereValue(ValuePredicate predicate) &&;

  // Matches an Op pattern with `node` as its root.
  std::optional<Match> MatchNode(Node* node) const;
  // Matches any pattern with `value` as its root.
  std::optional<Match> MatchValue(GraphValue* value) const;

 private:
  enum class Kind : uint8_t { kAny, kConstant, kOp };
  struct IntCondition {
    std::string attribute;
    int64_t value, otherwise;
  };
  bool Matches(GraphValue* value, Match& match) const;
  bool NodeMatches(Node* node, Match& match) const;
  bool InputsMatch(Node* node, bool swapped, Match& match) const;

  Kind kind_ = Kind::kAny;
  bool optional_ = false, commutative_ = false, more_inputs_ = false, single_use_ = false;
  std::string name_, op_type_, domain_;
  std::vector<Pattern> inputs_;
  std::vector<NodePredicate> node_predicates_;
  std::vector<ValuePredicate> value_predicates_;
  std::vector<IntCondition> ints_;
};

}  // namespace quern
