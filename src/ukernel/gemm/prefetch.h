// Asking for weights ahead of the loop that streams them once. For kernel files only.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

// A line that comes from memory, into L2: a core waits for more of L2's lines at once than of L1's (24 on Zen 4, where
// asking L1 for them halves what memory gives), and its L2 is near enough to load from.
// A core that waits for as many lines as it can drops what else it is asked for: where much is done with each line, so
// that loads themselves do not reach far ahead, it is asked again on the way (Zen 4, 4-bit blocks: 21 GB/s asked once,
// 27 twice).
// Cores whose L1 waits for more lines ask it instead (GemmArgs::stream_into_l1).
QUERN_INLINE void PrefetchStream(const void* line, bool into_l1) {
  if (into_l1) {
    __builtin_prefetch(line);
  } else {
    __builtin_prefetch(line, 0, 2);
  }
}

template <size_t kBytes>
QUERN_INLINE void PrefetchLines(const char* lines, bool into_l1) {
  if (into_l1) {
    QUERN_UNROLL for (size_t i = 0; i < kBytes; i += 64) __builtin_prefetch(lines + i);
  } else {
    QUERN_UNROLL for (size_t i = 0; i < kBytes; i += 64) __builtin_prefetch(lines + i, 0, 2);
  }
}

// What the call's ops take for each column, when the product is done: of a few rows, whose product is short, waiting
// for it is a good part of the time.
[[maybe_unused]] __attribute__((noinline)) void PrefetchColumnOperands(const GemmArgs& a) {
  for (const EpilogueOp* op = a.ops; a.last_k && op != a.ops + a.op_count; ++op) {
    const void* columns = nullptr;
    switch (op->kind) {
      case EpilogueKind::kAddVectorN:
      case EpilogueKind::kMulVectorN:
      case EpilogueKind::kPrelu:
      case EpilogueKind::kRequantize:
        columns = op->data;
        break;
      case EpilogueKind::kAddOuter:
      case EpilogueKind::kAddOuterScalar:
        columns = op->data2;
        break;
      default:
        break;
    }
    if (!columns) continue;
    const char* const end = static_cast<const char*>(columns) + (a.n0 + a.n) * 4;
    for (const char* at = end - a.n * 4; at < end; at += 64) __builtin_prefetch(at);
  }
}

}  // namespace
}  // namespace quern::ukernel
