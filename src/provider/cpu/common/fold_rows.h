// The fold micro-kernels that a node's CPU runs: float32's folds are of the vector family, all others of the fold
// family.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "provider/cpu/common/loops.h"
#include "ukernel/fold.h"

namespace quern::cpu {

struct FoldRows {
  explicit FoldRows(const CpuConfig& config)
      : vector(VectorRowFor(config)), fold(ukernel::SelectFoldRow(config.cpu.facts())) {}

  template <typename T>
  ukernel::FoldFunctions<T> Of() const {
    ukernel::FoldFunctions<T> f = fold->Of<T>();
    if constexpr (std::is_same_v<T, float>) {
      f.fold = vector->fold;
      f.fold_lines = vector->fold_lines;
      f.fold_rows = vector->fold_rows;
    }
    return f;
  }
  // Of a node that folds elements of `dtype`.
  KernelDescription Describe(DType dtype, std::string why) const {
    return dtype == DType::kF32 ? Described(*vector, std::move(why))
                                : Described(ukernel::Name(*fold).text, std::move(why));
  }

  const ukernel::VectorKernel* vector;
  const ukernel::FoldKernel* fold;
};

}  // namespace quern::cpu
