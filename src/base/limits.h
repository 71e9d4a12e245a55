// Limits on what an untrusted model may ask for. All settable (quern_limits in quern.h has the same fields); going
// beyond one is kResourceExhausted.
#pragma once

#include <cstdint>

namespace quern {

// Graphs and types are walked by recursion, a level per nesting: the depths below may be set to this at most. A level
// of an If that runs takes up to 16 KiB of stack, threads usually have 8 MiB, and sanitizers need a multiple.
constexpr int kMaxDepth = 128;

// Memory of the machine, in bytes.
int64_t PhysicalMemoryBytes();

struct Limits {
  int64_t model_bytes = int64_t{64} << 30;        // a model file, or its serialized bytes in memory
  int64_t tensor_bytes = int64_t{64} << 30;       // one tensor: initializer, constant or computed value
  int64_t memory_bytes = PhysicalMemoryBytes();   // what a run, a session's packed weights or loading holds
  int64_t folded_bytes = int64_t{64} << 20;       // a value that constant folding may create
  int64_t nodes = 2'000'000;                      // in all graphs of a model together
  int64_t attribute_elements = int64_t{1} << 28;  // in one list attribute
  int64_t loop_iterations = int64_t{1} << 24;     // of one Loop: minutes even when the body does next to nothing
  int subgraph_depth = 32;                        // graphs within graphs; readers recurse once per level
  int type_depth = 16;                            // sequence of optional of ...
  int rank = 16;                                  // dimensions of a tensor; 16 at most (tensor/shape.h)
};

}  // namespace quern
