// The readable form of a graph, and the parser that reads it back.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/status.h"
#include "graph/graph.h"

namespace quern {

struct PrintOptions {
  // Print every constant whole (numbers, or hex of the bytes when there are many), so that ParseGraph gives back the
  // same bits. Otherwise constants above max_elements are shown by their size and a digest.
  bool full_constants = false;
  int64_t max_elements = 16;
};

// One definition per line, in the graph's order:
//
//   graph @mnist opset("": 17, "com.microsoft": 1) {
//     metadata "producer" = "pytorch"
//     input %x: f32[batch,3,32,32]
//     const %w = f32[2] {0.5, -1.0}
//     %y: f32[batch,2], _ = com.microsoft::Foo#1(%x, _, %w) captures(%c) {axis = 1, name = "a", body = graph {..}}
//     @foo_1 return %y
//   }
//
// "_" is an omitted input or output, "#1" an operator set other than the graph's import, "@" the node's name, and
// "data [batch,2]" after a type the propagated elements. Attribute values: 1, 1.0, "a", [1, 2], ints [] (empty list),
// value f32[1] {2.0}, type f32[*], graph {..}. Names outside [A-Za-z0-9_./$-] are quoted. A subgraph without "opset"
// has the imports of the graph around it.
std::string PrintGraph(const Graph& graph, const PrintOptions& options = {});
// The node's line alone, subgraphs as "graph {...}".
std::string PrintNode(const Node& node, const PrintOptions& options = {});

// Reads what PrintGraph writes (elided constants are refused) and verifies it. Errors in the text start with
// "line:column: ".
// Any bytes are safe: memory stays in proportion to the text, and nesting within `limits`.
Result<std::unique_ptr<Graph>> ParseGraph(std::string_view text, const Limits& limits = {});

// A type alone, as TypeToString (graph/type.h) writes it. Errors as ParseGraph's.
Result<ValueType> ParseType(std::string_view text, const Limits& limits = {});

}  // namespace quern
