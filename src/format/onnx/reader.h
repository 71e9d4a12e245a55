// Reads ONNX models (IR version 3 to 14; ai.onnx 6 to 28, ai.onnx.ml 1 to 5, com.microsoft) into a Graph, in place.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/limits.h"
#include "base/status.h"
#include "graph/graph.h"

namespace quern {

struct OnnxReadOptions {
  // Where external data is looked for. Empty: the file's own folder for ReadOnnxFile, nowhere for ReadOnnx. Files
  // outside of it (by "..", absolute path or link) are refused.
  std::string external_data_folder;
  Limits limits;
  std::string name = "model";  // ReadOnnx: what errors call the model
};

// The model in a file, which is mapped: constants view it where their bytes are aligned for their type, and keep it
// alive. Errors name the file, the node, tensor or attribute and the byte:
// "m.onnx: graph.node[12] 'conv_7' (Conv): attribute 'pads': field 8: truncated at byte 1234".
//
// What the Graph holds:
// - subgraphs with captures as graph.h says; a name defined in a subgraph hides an outer one;
// - nodes in topological order (files need not have it; a cycle is an error that names a node on it);
// - for each call of a model-local function its body (inline_functions.h says how);
// - an initializer that is also an input (every one before IR version 4) as a constant, listed in `overridable`;
// - Constant nodes as nodes (of several with the same output the last, as in onnxruntime; any other name that is
//   defined twice is an error);
// - sparse initializers and sparse constants expanded to dense ones;
// - metadata: metadata_props, and the model's facts as onnx.producer_name, onnx.doc_string and so on; unknown fields
//   and the doc strings of everything else are dropped;
// - mapped_files: every file that its constants view.
// Operators of other domains, inputs of sparse types: kUnsupported.
Result<std::unique_ptr<Graph>> ReadOnnxFile(const std::string& path, const OnnxReadOptions& options = {});

// The model in memory. `owner` keeps `bytes` alive; without one tensors are copied and `bytes` may go.
Result<std::unique_ptr<Graph>> ReadOnnx(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                        const OnnxReadOptions& options = {});

}  // namespace quern
