// ReduceLogSumExp: logarithm of the sum of exp(x) over axes, without overflow.
#include <cmath>
#include <limits>

#include "ops/common/reduce.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferReduce));
  QUERN_ASSIGN_OR_RETURN(const ReducePlan plan, MakeReducePlan(c, outputs.shape(0)));
  const Tensor& x = c.input_value(0).tensor();
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  return DispatchType(ReduceTypeList{}, x.dtype(),
                      [&]<typename T>() {
                        // Per result: the largest element so far and the sum of exp(x - largest).
                        struct Sum {
                          double largest, sum;
                        };
                        std::vector<Sum> sums(static_cast<size_t>(plan.outputs),
                                              {-std::numeric_limits<double>::infinity(), 0.0});
                        ReduceLoop<T>(x, plan, sums, [](Sum s, auto element) {
                          const double v = static_cast<double>(element);
                          if (std::isinf(v)) return v > 0 ? Sum{v, std::isnan(s.sum) ? s.sum : 1.0} : s;
                          if (v > s.largest) return Sum{v, s.sum * std::exp(s.largest - v) + 1.0};
                          return Sum{s.largest, s.sum + std::exp(v - s.largest)};
                        });
                        for (int64_t i = 0; i < plan.outputs; ++i) {
                          y.data<T>()[i] =
                              static_cast<T>(SaturateTo<ComputeType<T>>(std::log(sums[i].sum) + sums[i].largest));
                        }
                        return OkStatus();
                      })
      .WithContext(c.node().Describe());
}

constexpr Param kInputs1[] = {{"data", "T", kOldMathTypes}};
constexpr Param kOutputs1[] = {{"reduced", "T", kOldMathTypes}};
constexpr AttrSpec kAttributes1[] = {{"axes", AttrType::kInts}, {"keepdims", AttrType::kInt, false, "1"}};
constexpr Param kInputs13[] = {{"data", "T", kMathTypes}};
constexpr Param kOutputs13[] = {{"reduced", "T", kMathTypes}};
constexpr Param kInputs18[] = {{"data", "T", kMathTypes}, {"axes", "", kI64Type, Arity::kOptional}};
constexpr AttrSpec kAttributes18[] = {{"keepdims", AttrType::kInt, false, "1"},
                                      {"noop_with_empty_axes", AttrType::kInt, false, "0"}};
constexpr Param kInputs28[] = {{"data", "T", kFloatTypes}, {"axes", "", kI64Type, Arity::kOptional}};
constexpr Param kOutputs28[] = {{"reduced", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, InferReduce, Evaluate},
                                   {11, kInputs1, kOutputs1, kAttributes1, InferReduce, Evaluate},
                                   {13, kInputs13, kOutputs13, kAttributes1, InferReduce, Evaluate},
                                   {18, kInputs18, kOutputs13, kAttributes18, InferReduce, Evaluate},
                                   {28, kInputs28, kOutputs28, kAttributes18, InferReduce, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpReduceLogSumExp = {"", "ReduceLogSumExp", kVersions};

}  // namespace quern
