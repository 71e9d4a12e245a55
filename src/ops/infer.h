// Shape inference over whole graphs: symbolic at load (InferShapes), with actual extents when a run is planned
// (InferConcrete). Both carry small integer contents along, so that Shape, Gather, Concat, Reshape chains resolve.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "ops/op.h"

namespace quern {

// The inference of an operator that is not in AllOps (a provider's own), or null.
using InferLookup = Status (*(*)(const Node& node))(InferContext&);

struct InferOptions {
  // A declared shape (value_info, graph output) that contradicts the inferred one is an error. Otherwise the inferred
  // one wins and the difference is told in `warnings`: models in the field declare wrong shapes and run elsewhere.
  // Contradicting element types are always an error.
  bool strict = false;
  std::vector<std::string>* warnings = nullptr;
  Limits limits = {};
  InferLookup lookup = nullptr;  // asked for nodes whose operator is not in AllOps; null: there are none
};

// Checks every node against its schema and writes type() and data() of every value of the graph and its subgraphs.
// Operators that are not known leave their outputs as declared (partitioning reports them). Errors name the node.
Status InferShapes(Graph& graph, const InferOptions& options = {});

// What inference knows of one value.
struct ValueFacts {
  ValueType type;
  std::optional<Dims> data;              // integer or bool content, rank 0 or 1, small
  std::shared_ptr<const Value> content;  // any small content that is fully known
};

// Types (and small contents) of a graph's values for given inputs.
class ShapeTable {
 public:
  // For a value that inference did not reach: what the graph says of it.
  const ValueType& type(const GraphValue* value) const;
  const std::optional<Dims>& data(const GraphValue* value) const;
  // The content of a constant, or of a value whose content follows from the inputs' shapes; else null.
  const Value* content(const GraphValue* value) const;
  bool empty() const { return facts_.empty(); }

 private:
  friend class InferEngine;
  std::unordered_map<const GraphValue*, ValueFacts> facts_;
};

// The same for given input types (usually all extents numbers), without touching the graph; one type per graph input.
// `contents`: empty, or one Value per input (kNone where not known) whose small content may decide shapes.
// The graph must have passed InferShapes.
Result<ShapeTable> InferConcrete(const Graph& graph, std::span<const ValueType> inputs,
                                 std::span<const Value> contents = {}, const InferOptions& options = {});

// Makes `table`, which is empty or what this gave for other inputs, that of these inputs; of nodes whose inputs stay as
// they were, the results stay. Returns the values of the graph of which it now says something else, constants never
// among them. After an error the table is of no use.
Result<std::vector<const GraphValue*>> UpdateConcrete(const Graph& graph, std::span<const ValueType> inputs,
                                                      std::span<const Value> contents, const InferOptions& options,
                                                      ShapeTable& table);

}  // namespace quern
