// What the passes that recognise normalizations share: the quotient, and the scale and bias of each channel behind it.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace quern {

// x, less its mean if `centered`, over the root of its mean square and epsilon; all over the dimensions from `axis` on.
struct Normalized {
  GraphValue* x = nullptr;
  bool centered = false;
  int axis = 0;
  float epsilon = 0;
};
// What the value normalizes as d / Sqrt(ReduceMean(d * d) + epsilon), or d times the inverse of the root; nothing else
// reads the values in between, but for d.
std::optional<Normalized> ReadNormalized(GraphValue* v);

// of * scale + bias, either of which may be missing; they are constants of float32, one number for each channel.
struct ChannelAffine {
  GraphValue *of, *scale = nullptr, *bias = nullptr;
};
// The value [N, C, ...] taken apart; nothing else reads the values in between. `of` is the value itself where nothing
// is to be taken off.
ChannelAffine ChannelAffineOf(GraphValue* v);

// A constant of float32 of that shape, all of one number; null where that asks for too much memory.
GraphValue* AddFilled(Graph& graph, const std::string& name, const Shape& shape, float number);
// The parameter of each channel as a vector, or one of `missing` where there is none (then AddFilled).
GraphValue* ChannelVector(Graph& graph, GraphValue* parameter, int64_t channels, float missing,
                          const std::string& name);

}  // namespace quern
