// MatMul: numpy matrix product with broadcast batches.
#include "ops/common/dispatch.h"
#include "ops/common/float_io.h"
#include "ops/common/matmul.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferMatMul(c, 0, 1, c.input_dtype(0)); }

// `a`, `b`, `y` are contiguous; every row is summed in Acc.
template <typename Acc, typename T>
void Multiply(const MatMulLoops& loops, const T* a, const T* b, T* y) {
  std::vector<Acc> row(static_cast<size_t>(loops.n));
  for (size_t i = 0; i < loops.a_offset.size(); ++i) {
    for (int64_t m = 0; m < loops.m; ++m, y += loops.n) {
      MultiplyRow<T, T, Acc>(loops.n, loops.k, a + loops.a_offset[i] + m * loops.k, 1, b + loops.b_offset[i], loops.n,
                             1, row.data());
      for (int64_t j = 0; j < loops.n; ++j) y[j] = static_cast<T>(row[j]);
    }
  }
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const MatMulLoops loops = MakeMatMulLoops(c.input(0).shape(), c.input(1).shape());
  if (IsIntegerType(outputs.dtype(0))) {
    QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
    return DispatchType(Types<int32_t, int64_t, uint32_t, uint64_t>{}, y.dtype(),
                        [&]<typename T>() {
                          using U = std::make_unsigned_t<T>;  // sums wrap around
                          Multiply<U>(loops, static_cast<const U*>(c.input(0).raw_data()),
                                      static_cast<const U*>(c.input(1).raw_data()), static_cast<U*>(y.raw_data()));
                          return OkStatus();
                        })
        .WithContext(c.node().Describe());
  }
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> a, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> b, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    Multiply<double>(loops, a.data(), b.data(), y.data());
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs1[] = {{"A", "T", kOldFloatTypes}, {"B", "T", kOldFloatTypes}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs9[] = {{"A", "T", kOldMathTypes}, {"B", "T", kOldMathTypes}};
constexpr Param kOutputs9[] = {{"Y", "T", kOldMathTypes}};
constexpr Param kInputs13[] = {{"A", "T", kMathTypes}, {"B", "T", kMathTypes}};
constexpr Param kOutputs13[] = {{"Y", "T", kMathTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, {}, Infer, Evaluate},
                                   {9, kInputs9, kOutputs9, {}, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMatMul = {"", "MatMul", kVersions};

}  // namespace quern
