// FunctionTable: which function a node calls, and how much its body comes to.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "format/onnx/model_view.h"

namespace quern::onnx {

class FunctionTable {
 public:
  // An error when two functions have the same domain, name and overload.
  Status Add(const FunctionView& function);
  // Null for a node that calls none.
  const FunctionView* Find(const NodeView& node) const;
  // How many nodes and calls the nodes become when all calls are inlined, as far as `most` + 1 (`most`: a quarter of
  // int64 at most); a graph that a call gives as an attribute counts once. kInvalidArgument for functions that call
  // each other in a circle, with the names on it; kResourceExhausted for calls deeper than kMaxDepth.
  Result<int64_t> InlinedSize(const std::vector<NodeView>& nodes, int64_t most);

 private:
  Result<int64_t> InlinedSize(const FunctionView& function, int64_t most);

  std::unordered_map<std::string, const FunctionView*> functions_;
  std::unordered_map<const FunctionView*, int64_t> sizes_;
  std::vector<const FunctionView*> active_;  // being counted, the innermost last
};

// The error of calls that nest too deeply.
Status CallsTooDeep();

}  // namespace quern::onnx
