// The rows of a family that a CPU runs, for tests by construction.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ukernel/isa.h"

namespace quern::ukernel {

// Those of `lists` whose ISA `cpu` has and that have a body in this build: a member of the row, or what tells of it.
template <class Kernel, class Body>
std::vector<const Kernel*> RowsThatRun(std::span<const KernelList<Kernel>* const> lists, Body body,
                                       const CpuFacts& cpu) {
  std::vector<const Kernel*> rows;
  for (const KernelList<Kernel>* list : lists) {
    for (const Kernel& row : std::span(list->rows, list->count)) {
      if (std::invoke(body, row) && IsaRunsOn(row.isa, cpu)) rows.push_back(&row);
    }
  }
  return rows;
}

}  // namespace quern::ukernel
