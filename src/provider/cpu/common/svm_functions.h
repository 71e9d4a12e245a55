// What a support vector machine computes of each row before it sums and votes: the kernel of the row with each support
// vector, or linear functions of it.
#pragma once

#include <span>
#include <vector>

#include "kernels/matmul.h"
#include "ops/common/svm.h"
#include "provider/cpu/cpu_op.h"
#include "ukernel/elementwise.h"
#include "ukernel/vector.h"

namespace quern::cpu {

class SvmFunctions {
 public:
  struct Plan {
    int64_t rows = 0;
    int concurrency = 1;
    kernels::MatMulPlan product;
    size_t workspace_bytes = 0;
  };

  // `vectors` is (count, features); `expected_rows` is 0 where any number may come.
  static Result<SvmFunctions> Create(const SvmKernel& kernel, std::span<const float> vectors, int64_t features,
                                     int64_t expected_rows, const CompileContext& context);

  int64_t count() const { return count_; }
  Plan PlanRows(int64_t rows, int concurrency) const;
  // y (rows, count) of x (rows, features); allocates nothing. The workspace is 64-byte aligned.
  Status Run(const StepContext& c, const Plan& plan, void* workspace, const float* x, float* y) const;
  KernelDescription Describe(int64_t rows) const;

 private:
  kernels::MatMulArgs Args(int64_t rows) const;
  void Distances(const float* x, int64_t first, int64_t n, float* scratch, float* y) const;
  Status RaiseToDegree(const StepContext& c, int64_t n, float* y) const;

  SvmKernel kernel_;
  int64_t count_ = 0, features_ = 0;
  CpuConfig config_;
  const ukernel::VectorKernel* vector_ = nullptr;
  kernels::PackedRhs packed_;  // of all kernels but RBF
  kernels::MatMul product_;
  std::vector<ukernel::EpilogueOp> ops_;
  ukernel::BinaryRow power_ = nullptr;  // POLY of degrees that are no small integer
  std::vector<float> exponents_;        // one block of them
  std::vector<float> columns_;          // (features, count), of RBF
};

}  // namespace quern::cpu
