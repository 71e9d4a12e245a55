// Shape inference that knows this provider's own operators besides ONNX's.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "ops/infer.h"

namespace quern::cpu {

// InferShapes and UpdateConcrete of ops/infer.h over a cluster.
Status InferClusterTypes(Graph& graph);
Result<std::vector<const GraphValue*>> UpdateCluster(const Graph& graph, std::span<const ValueType> inputs,
                                                     std::span<const Value> contents, ShapeTable& table);

}  // namespace quern::cpu
