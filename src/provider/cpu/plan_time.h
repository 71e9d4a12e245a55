// What a plan, which knows the shapes of its cluster's inputs but no elements, knows of a node.
#pragma once

#include "graph/graph.h"

namespace quern::cpu {

// True when a plan knows the outputs' shapes once it knows those of the inputs: unknown extents in their types are at
// hand, or the operator makes them of extents and contents that are.
bool ShapesFollow(const Node& node);

// True when a plan can compute the value's elements: a few, made of shapes and constants by any operators of ONNX.
bool IsMadeOfShapes(const GraphValue& value);

// True when a plan knows the elements of a small integer value, because they are made of shapes and constants.
bool IsKnownToPlan(const GraphValue& value);

// True when the node's outputs are small integers that follow from shapes alone.
bool IsPlanTimeNode(const Node& node);

}  // namespace quern::cpu
