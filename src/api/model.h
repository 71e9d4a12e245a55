// The struct behind quern_model handles.
#pragma once

#include <memory>

#include "api/error.h"
#include "api/model_builder.h"
#include "base/limits.h"
#include "graph/graph.h"

struct quern_model {
  // Of quern_model_create; null for models that were read.
  std::unique_ptr<quern::api::ModelBuilder> builder;
  // Null while `builder` has changes that it does not show.
  mutable std::unique_ptr<quern::Graph> graph;
};

namespace quern::api {

// The model's graph, made now if need be. Handles are used by one thread at a time.
Result<const Graph*> GraphOf(const quern_model* model);

// What was read of a file that was cut short meanwhile would be zeros.
Status CheckIntact(const Graph& graph);

// Zeros become the defaults; `limits` may be null.
Result<Limits> ReadLimits(const quern_limits* limits);

}  // namespace quern::api
