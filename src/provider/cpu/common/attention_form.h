// What the attention operators have in common, once their inputs have shapes: where queries, keys and values lie, what
// is cached, which keys a query sees. One reader for each operator.
#pragma once

#include <string>

#include "kernels/attention.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {

// Heads inside an operand; `index` of the node's inputs or outputs, -1: none.
struct HeadsOperand {
  int index = -1;
  int64_t offset = 0;  // floats
  kernels::HeadStrides strides;
  int64_t bias_offset = 0;  // within the input `bias`, of head 0
  bool present() const { return index >= 0; }
};

struct AttentionForm {
  enum class Mask {
    kNone,
    kSeen,      // bool: false hides
    kAdded,     // float32, added
    kEnds,      // int32 [batch]: the keys before it are seen
    kRanges,    // int32 [2 * batch]: ends, then starts
    kWords,     // int32 [batch, columns] of the last keys: positive ones are seen
    kPairs,     // int32 [batch, queries, keys]
    kPositions  // int32 [batch, 1, n, n] by position of query and key
  };
  // Of those given per sample: what an input says.
  enum class Lengths {
    kNone,
    kValid,  // int64 [batch]: keys that count (ai.onnx)
    kLast    // int32 [batch]: the last key that counts (GroupQueryAttention)
  };

  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, new_keys = 0, size = 0, value_size = 0;
  int64_t past_rows = 0;  // of the cache given
  int64_t rows = 0;       // of the cache that is returned
  int64_t keys = 0;       // that take part, at most
  HeadsOperand q, k, v, past_k, past_v, present_k, present_v, y;
  int bias = -1;  // float32, added to queries, keys and values

  float scale = 1, softcap = 0;
  bool causal = false;            // a query sees no key after its position
  bool last_sees_all = false;     // but the last query sees all keys
  int64_t left = -1, right = -1;  // keys that a query sees before and after its position, if not negative

  Mask mask = Mask::kNone;
  int mask_input = -1;
  int64_t mask_columns = 0;             // of one row
  int64_t mask_strides[3] = {0, 0, 0};  // of sample, head, query
  float filter = 0;                     // added where an int32 mask hides
  int added = -1;                       // input of biases of the scores
  int64_t added_strides[3] = {0, 0, 0};

  Lengths lengths = Lengths::kNone;
  int lengths_input = -1;

  int cosines = -1, sines = -1, positions = -1;  // of rotary embedding
  int64_t rotated_half = 0, angle_rows = 0;
  bool interleaved = false;
  bool rotates() const { return cosines >= 0; }

  int sinks = -1;  // input [heads]
  bool smooth = false;
};

// The operators' attributes, read once. Each gives the form for shapes, or an error.
using FormReader = Result<AttentionForm> (*)(const Node& node, const BindContext& context);
Result<AttentionForm> ReadAttention(const Node& node, const BindContext& context);        // ai.onnx
Result<AttentionForm> ReadPackedAttention(const Node& node, const BindContext& context);  // this provider's
Result<AttentionForm> ReadMultiHeadAttention(const Node& node, const BindContext& context);
Result<AttentionForm> ReadGroupQueryAttention(const Node& node, const BindContext& context);

}  // namespace quern::cpu
