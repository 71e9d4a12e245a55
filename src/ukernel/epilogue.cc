#include "ukernel/epilogue_loops.h"

namespace quern::ukernel {

void ApplyEpilogue(const EpilogueOp* ops, size_t count, const EpilogueBlock& block) { RunEpilogue(ops, count, block); }

}  // namespace quern::ukernel
