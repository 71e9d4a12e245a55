// com.microsoft.Inverse: the inverses of square matrices [..., M, M], computed in double.
#include <cmath>
#include <utility>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/infer_common.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  if (const std::optional<Dims> x = c.input_shape(0)) {
    const size_t rank = x->size();
    if (rank < 2 ||
        ((*x)[rank - 1].is_constant() && (*x)[rank - 2].is_constant() && !((*x)[rank - 1] == (*x)[rank - 2]))) {
      return c.Error("input '" + c.node().input(0)->name() + "' has shape " + DimsToString(*x) +
                     "; square matrices are needed");
    }
  }
  return InferSameAsInput(c, 0, 0);
}

// Gauss-Jordan elimination in place, the largest element of each column as pivot; [m, 2 m], the right half of which
// begins as the identity and becomes the inverse. A singular matrix gives what is not finite.
void Invert(std::vector<double>& a, int64_t m) {
  const int64_t width = 2 * m;
  for (int64_t k = 0; k < m; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < m; ++i) {
      if (std::fabs(a[i * width + k]) > std::fabs(a[pivot * width + k])) pivot = i;
    }
    for (int64_t j = 0; pivot != k && j < width; ++j) std::swap(a[pivot * width + j], a[k * width + j]);
    const double head = a[k * width + k];
    for (int64_t j = 0; j < width; ++j) a[k * width + j] /= head;
    for (int64_t i = 0; i < m; ++i) {
      const double factor = a[i * width + k];
      for (int64_t j = 0; i != k && j < width; ++j) a[i * width + j] -= factor * a[k * width + j];
    }
  }
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape& shape = outputs.shape(0);
  const int64_t m = shape.back();
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    std::vector<double> both(static_cast<size_t>(2 * m * m));
    for (int64_t first = 0; first < shape.num_elements(); first += m * m) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < m; ++j) {
          both[i * 2 * m + j] = static_cast<double>(x[first + i * m + j]);
          both[i * 2 * m + m + j] = i == j;
        }
      }
      Invert(both, m);
      for (int64_t i = 0; i < m * m; ++i) y[first + i] = static_cast<T>(both[i / m * 2 * m + m + i % m]);
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs[] = {{"Y", "T", kOldFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftInverse = {"com.microsoft", "Inverse", kVersions};

}  // namespace quern
