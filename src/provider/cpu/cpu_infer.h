// Shape inference that knows this provider's own operators besides ONNX's.
#pragma once

#include <span>

#include "graph/graph.h"
#include "ops/infer.h"

namespace quern::cpu {

// InferShapes and InferConcrete of ops/infer.h over a cluster.
Status InferClusterTypes(Graph& graph);
Result<ShapeTable> InferCluster(const Graph& graph, std::span<const ValueType> inputs, std::span<const Value> contents,
                                const ShapeTable* before);

}  // namespace quern::cpu
