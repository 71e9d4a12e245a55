// What the passes that recognise formulas share: numbers, products and sums as exporters write them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace quern {

// Nothing but one input of one node reads the value; false for null.
bool HasOneReader(const GraphValue* v);
// Whether the node is of that operator of ai.onnx and has the operands that the operator needs and its first result: in
// subgraphs of operators that Quern does not know nothing says so.
bool IsWhole(const Node& n, std::string_view op_type);
// The node of that operator (IsWhole) whose first result the value is, or null.
Node* ProducerOf(const GraphValue* v, std::string_view op_type);

// A constant float of one element whose rank is at most `rank`: combined with a value of that rank it changes no shape.
std::optional<double> ScalarOf(const GraphValue* v, int rank);
// The elements of a constant of integers; nothing for other values.
std::optional<std::vector<int64_t>> IntsOf(const GraphValue* v);
// The same number up to what exporters cut off: "1.4142" for the root of 2.
bool IsAbout(double x, double expected);

// A product of values and a number.
struct Factored {
  double number = 1;
  std::vector<GraphValue*> factors;

  // True when the factors are these, in any order.
  bool Is(double number, std::vector<GraphValue*> factors) const;
};
// The value as a product of what Mul, Div by a number, Neg and Pow by 2 and 3 combine; inner nodes have no other
// readers. `v` itself may have any.
Factored FactorsOf(GraphValue* v);

// The other summand and the number of an Add (or a Sub) of a value and a number; nothing for other values.
struct Shifted {
  GraphValue* value;
  double number;
};
std::optional<Shifted> ShiftedOf(const GraphValue* v);

}  // namespace quern
