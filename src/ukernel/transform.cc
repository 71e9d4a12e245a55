// Lookup of block transforms.
#include "ukernel/transform.h"

namespace quern::ukernel {

bool SameElements(const PackLayout& a, const PackLayout& b) {
  return a.element == b.element && a.n_unit == b.n_unit && a.n_scale == b.n_scale && a.k_interleave == b.k_interleave &&
         (a.scale == Format::kNone) == (b.scale == Format::kNone);
}

const TransformKernel* FindTransformKernel(const PackLayout& from, const PackLayout& to, const CpuFacts& cpu,
                                           Lookup lookup) {
  const TransformKernel* best = nullptr;
  for (const KernelList<TransformKernel>* list : AllTransformKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const TransformKernel& row = list->rows[i];
      if (!SameElements(row.from, from) || !SameElements(row.to, to) ||
          !RowRunsOn(row.isa, KernelGroup::kTransform, cpu))
        continue;
      if (lookup == Lookup::kRun && !row.run) continue;
      if (!best || row.cycles_per_element < best->cycles_per_element) best = &row;
    }
  }
  return best;
}

}  // namespace quern::ukernel
