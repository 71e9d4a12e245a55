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

// Types (and small contents) of a graph's values for given inputs. Copies share what they hold, which does not change.
class ShapeTable {
 public:
  // For a value that inference did not reach: what the graph says of it.
  const ValueType& type(const GraphValue* value) const;
  const std::optional<Dims>& data(const GraphValue* value) const;
  // The content of a constant, or of a value whose content follows from the inputs' shapes; else null.
  const Value* content(const GraphValue* value) const;

 private:
  friend class InferEngine;
  std::unordered_map<const GraphValue*, std::shared_ptr<const ValueFacts>> facts_;
};

// The same for given input types (usually all extents numbers), without touching the graph; one type per graph input.
// `contents`: empty, or one Value per input (kNone where not known) whose small content may decide shapes.
// The graph must have passed InferShapes. `before`: what the same call gave for other inputs, or null; of nodes whose
// inputs are as they were then, the results are taken from there.
Result<ShapeTable> InferConcrete(const Graph& graph, std::span<const ValueType> inputs,
                                 std::span<const Value> contents = {}, const InferOptions& options = {},
                                 const ShapeTable* before = nullptr);

}  // namespace quern
