// Families that have one row for each ISA, with every function of the family: their rows' names, and the choice by the
// width of registers.
#pragma once

#include <span>

#include "ukernel/gemm.h"
#include "ukernel/isa.h"

namespace quern::ukernel {

// `<family>_<isa>`
inline KernelName NameOfIsaRow(const char* family, const Isa& isa) {
  KernelName name;
  size_t at = 0;
  for (const char* part : {family, "_", isa.name}) {
    while (*part && at + 1 < sizeof(name.text)) name.text[at++] = *part++;
  }
  return name;
}

// Of the rows that have a body in this build and run on the CPU, the one with the widest registers; null if there is
// none. body(row) is null without a body; width(row) is in any unit.
template <class Kernel, class Body, class Width>
const Kernel* WidestRow(std::span<const KernelList<Kernel>* const> lists, KernelGroup family, const CpuFacts& cpu,
                        Body body, Width width) {
  const Kernel* best = nullptr;
  for (const KernelList<Kernel>* list : lists) {
    for (size_t i = 0; i < list->count; ++i) {
      const Kernel& row = list->rows[i];
      if (!body(row) || !RowRunsOn(row.isa, family, cpu)) continue;
      if (!best || width(row) > width(*best)) best = &row;
    }
  }
  return best;
}

}  // namespace quern::ukernel
