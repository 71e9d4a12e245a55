// Multinomial: classes drawn for each row of unnormalized log-probabilities.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/common/dtype_attribute.h"
#include "ops/common/float_io.h"
#include "ops/common/random.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

constexpr TypeSet kOutputTypes = {DType::kI32, DType::kI64};

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType dtype, ReadDTypeAttribute(c.node(), "dtype", DType::kI32, kOutputTypes));
  const int64_t samples = c.node().GetInt("sample_size", 1);
  if (samples < 1) return c.Error("attribute 'sample_size' is " + std::to_string(samples) + ", at least 1 is needed");
  const std::optional<Dims> shape = c.input_shape(0);
  if (shape && shape->size() != 2) {
    return c.Error("the input has shape " + DimsToString(*shape) + "; two dimensions are needed: batch and class");
  }
  c.SetOutputType(0, ValueType::Tensor(dtype, Dims{shape ? shape->front() : Dim::Unknown(), Dim(samples)}));
  return OkStatus();
}

// sums[j]: the probability of the classes up to j, times a factor of the row.
template <typename T>
Status SumProbabilities(const EvalContext& c, const T* row, std::vector<double>& sums) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (size_t j = 0; j < sums.size(); ++j) {
    if (std::isnan(row[j])) return c.Error("a log-probability is not a number");
    largest = std::max(largest, static_cast<double>(row[j]));
  }
  if (!std::isfinite(largest)) return c.Error("the largest log-probability of a row is not finite");
  for (size_t j = 0; j < sums.size(); ++j) sums[j] = sum += std::exp(static_cast<double>(row[j]) - largest);
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const int64_t batch = outputs.shape(0)[0], samples = outputs.shape(0)[1], classes = c.input(0).dim(1);
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  RandomStream stream = RandomStream::ForNode(c.node());
  std::vector<double> sums(static_cast<size_t>(classes));
  return WithComputeType(c, c.input(0).dtype(), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    return DispatchIndex(y.dtype(), [&]<typename Out>() -> Status {
      for (int64_t b = 0; b < batch; ++b) {
        QUERN_RETURN_IF_ERROR(SumProbabilities(c, x.data() + b * classes, sums));
        const double below_total = std::nextafter(sums.back(), 0.0);
        for (int64_t s = 0; s < samples; ++s) {
          // The first class whose sum exceeds the number: never one of probability 0.
          const double number = std::min(stream.Uniform() * sums.back(), below_total);
          const auto drawn = std::upper_bound(sums.begin(), sums.end(), number);
          y.data<Out>()[b * samples + s] = static_cast<Out>(drawn - sums.begin());
        }
      }
      return OkStatus();
    });
  });
}

constexpr AttrSpec kAttributes[] = {
    {"dtype", AttrType::kInt, false, "6"}, {"sample_size", AttrType::kInt, false, "1"}, {"seed", AttrType::kFloat}};
constexpr Param kInputs7[] = {{"input", "T1", kOldFloatTypes}}, kInputs22[] = {{"input", "T1", kFloatTypes}};
constexpr Param kOutputs[] = {{"output", "T2", kOutputTypes}};
constexpr OpVersion kVersions[] = {{7, kInputs7, kOutputs, kAttributes, Infer, Evaluate},
                                   {22, kInputs22, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMultinomial = {"", "Multinomial", kVersions, kRandomNotes, false};

}  // namespace quern
