// What the CPU passes share: permutations, transposes with their types, constants of new shape.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "provider/cpu/common/constants.h"
#include "provider/cpu/passes/cpu_passes.h"

namespace quern::cpu {

using Permutation = std::vector<int64_t>;  // output dimension i is input dimension perm[i], as in ONNX Transpose

// [0, 2, 3, ..., 1]: channels first to channels last; and back.
Permutation ToChannelsLast(int rank);
Permutation ToChannelsFirst(int rank);
Permutation Inverse(const Permutation& p);
// The one permutation that does `first`, then `second`.
Permutation Compose(const Permutation& first, const Permutation& second);
bool IsIdentity(const Permutation& p);

// The permutation of a Transpose node (default: reversed); nothing for other nodes or unknown rank.
std::optional<Permutation> TransposePermutation(const Node* node);
// An existing Transpose of `value` that stands before `before`, or null.
GraphValue* FindTranspose(const GraphValue* value, const Permutation& p, const Node* before);
// A Transpose of `value` before `before`, typed; an existing one is used again, and an identity
// is no node at all.
GraphValue* TransposeValue(Graph& graph, GraphValue* value, const Permutation& p, Node* before);

// A channels-last Conv or pool of this provider in the place of `node`, between transposes: `inputs` are its own, input
// 0 still channels first; the attributes of `node` are copied, the result is of type `dtype`.
Node* ReplaceChannelsLast(Graph& graph, Node* node, const std::string& op_type, std::vector<GraphValue*> inputs,
                          DType dtype);

// True if the value's only use is one input of `node`.
bool OnlyUsedBy(const GraphValue* value, const Node* node);
// Removes the node when none of its outputs is used, then its producers likewise.
void RemoveIfDead(Graph& graph, Node* node);
// An operator of this provider at `before`, named after `origin` (for reports), its output typed as `type`.
Node* AddInternal(Graph& graph, std::string op_type, const Node& origin, std::vector<GraphValue*> inputs,
                  ValueType type, Node* before);
// A MatMulNBits of com.microsoft, without its attributes, and a MatMulIntegerToFloat likewise; the last inputs may be
// null.
Node* AddProductOfBlocks(Graph& graph, const Node& origin, std::vector<GraphValue*> inputs, ValueType type,
                         Node* before);
Node* AddProductToFloat(Graph& graph, const Node& origin, std::vector<GraphValue*> inputs, ValueType type,
                        Node* before);

}  // namespace quern::cpu
