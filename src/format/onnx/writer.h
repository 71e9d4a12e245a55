// Writes a Graph as an ONNX model: a file, optionally with its large tensors in another one beside it, or bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/limits.h"
#include "base/status.h"
#include "graph/graph.h"

namespace quern {

struct OnnxWriteOptions {
  // Initializers of at least `external_bytes` go to a file beside the model (WriteOnnxFile).
  bool external_data = false;
  uint64_t external_bytes = 1024;
  std::string external_name = {};  // of that file; empty: the model's with ".data" behind it
  // Of a graph that does not come from an ONNX file, which has its own.
  std::string producer_name = {}, producer_version = {};
  Limits limits = {};  // of what is inferred for outputs without a type
};

// The model at `path`, which is replaced as a whole or not at all; so is the file of its tensors, just before it.
//
// What the model holds:
// - everything that reader.h says of a Graph, so that reading it gives a graph with the same text form, but for: names
//   that checkers refuse and outputs of subgraphs that are outer values (graph_encoder.h); formulas of extents, which
//   become names; propagated elements; unused captures; a missing name of a graph;
// - types of outputs that the graph does not know, as far as inference tells them;
// - the IR version of metadata "onnx.ir_version" (raised to 4 where initializers are no inputs), else the one that came
//   with the operator set;
// - one version per operator set: the graph's, or one under which every node means the same.
// kUnsupported: nodes that need two versions of an operator set, block types, constants of kinds that ONNX does not
// have. kResourceExhausted: 2 GB or more without external data. Errors name the node, constant or file.
Status WriteOnnxFile(const Graph& graph, const std::string& path, const OnnxWriteOptions& options = {});

// The bytes of the model, all tensors inside.
Result<std::string> WriteOnnx(const Graph& graph, const OnnxWriteOptions& options = {});

}  // namespace quern
