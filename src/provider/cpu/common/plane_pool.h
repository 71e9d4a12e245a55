// Pools whose channels are not neighbours: windows of a plane as folds of its lines.
#pragma once

#include <memory>

#include "provider/cpu/common/pool_fold.h"

namespace quern::cpu {

// Whether BindPlanePool takes the pool: one channel (or each plane as an image), contiguous, a largest element or a
// mean, and no window much wider than the plane.
bool FoldsByPlanes(const Pool& pool);

// Lines are folded over the rows of the windows first, many at once; then the same lines, shifted by each tap, over the
// columns.
template <typename T>
Result<std::unique_ptr<CpuStep>> BindPlanePool(const Pool& pool, const FoldRows& folds, int concurrency);

}  // namespace quern::cpu
