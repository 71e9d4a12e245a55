// For tests: every GEMM row of this build, native and emulated, as one table that drivers can be given.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/select.h"
#include "ukernel/row_runner.h"

namespace quern::kernels {

inline RowTable TestRows() {
  static const std::vector<const ukernel::KernelList<GemmKernel>*> lists = [] {
    std::vector<const ukernel::KernelList<GemmKernel>*> all;
    for (RowTable table : {ukernel::AllGemmKernels(), ukernel::EmulatedGemmKernels()}) {
      all.insert(all.end(), table.begin(), table.end());
    }
    return all;
  }();
  return lists;
}

// Those of a kind that this host can run.
template <class Kind>
std::vector<const GemmKernel*> RunnableRows(Kind kind) {
  std::vector<const GemmKernel*> rows;
  for (const auto* list : TestRows()) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      if (kind(row) && ukernel::RowRunner::WhyNot(row, HostCpu().facts()).empty()) rows.push_back(&row);
    }
  }
  return rows;
}

inline std::string RowTestName(const testing::TestParamInfo<const GemmKernel*>& info) {
  return ukernel::Name(*info.param).text;
}

}  // namespace quern::kernels
