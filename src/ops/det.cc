// Det: the determinants of square matrices [..., M, M].
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (x) {
    const size_t rank = x->size();
    if (rank < 2 ||
        ((*x)[rank - 1].is_constant() && (*x)[rank - 2].is_constant() && !((*x)[rank - 1] == (*x)[rank - 2]))) {
      return c.Error("input '" + c.node().input(0)->name() + "' has shape " + DimsToString(*x) +
                     "; square matrices are needed");
    }
    type.shape = Dims(x->begin(), x->end() - 2);
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

// Gaussian elimination in place, the largest element of each column as pivot.
double Determinant(std::vector<double>& a, int64_t m) {
  double product = 1;
  for (int64_t k = 0; k < m; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < m; ++i) {
      if (std::fabs(a[i * m + k]) > std::fabs(a[pivot * m + k])) pivot = i;
    }
    const double head = a[pivot * m + k];
    product *= pivot == k ? head : -head;
    if (head == 0) return 0;
    for (int64_t j = k; pivot != k && j < m; ++j) std::swap(a[pivot * m + j], a[k * m + j]);
    for (int64_t i = k + 1; i < m; ++i) {
      const double factor = a[i * m + k] / head;
      for (int64_t j = k + 1; j < m; ++j) a[i * m + j] -= factor * a[k * m + j];
    }
  }
  return product;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    const int64_t m = x.shape().back();
    std::vector<double> matrix(static_cast<size_t>(y.num_elements() > 0 ? m * m : 0));
    for (int64_t i = 0; i < y.num_elements(); ++i) {
      std::copy_n(x.data() + i * m * m, m * m, matrix.begin());
      y[i] = static_cast<T>(Determinant(matrix, m));
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs11[] = {{"X", "T", kOldFloatTypes}}, kOutputs11[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}}, kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{11, kInputs11, kOutputs11, {}, Infer, Evaluate},
                                   {22, kInputs22, kOutputs22, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpDet = {"", "Det", kVersions};

}  // namespace quern
