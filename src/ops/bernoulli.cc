// Bernoulli: 1 with the probability that the input gives, else 0.
#include "ops/common/dtype_attribute.h"
#include "ops/common/elementwise.h"
#include "ops/common/random.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

constexpr TypeSet kOutputTypes = kNumericTypes | TypeSet{DType::kBool};
using OutputTypeList = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                             uint32_t, uint64_t, bool>;

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType dtype, ReadDTypeAttribute(c.node(), "dtype", c.input_dtype(0), kOutputTypes));
  c.SetOutputType(0, ValueType::Tensor(dtype, c.input_shape(0)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Tensor& p = c.input(0);
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  RandomStream stream = RandomStream::ForNode(c.node());
  return DispatchFloat(p.dtype(), [&]<typename P>() {
    return DispatchType(OutputTypeList{}, y.dtype(), [&]<typename T>() -> Status {
      for (int64_t i = 0; i < p.num_elements(); ++i) {
        const double probability = static_cast<ComputeType<P>>(p.data<P>()[i]);
        if (!(probability >= 0 && probability <= 1)) {
          return c.Error("element " + std::to_string(i) + " is " + std::to_string(probability) +
                         "; probabilities lie in [0, 1]");
        }
        y.data<T>()[i] = static_cast<T>(static_cast<ComputeType<T>>(stream.Uniform() < probability));
      }
      return OkStatus();
    });
  });
}

constexpr AttrSpec kAttributes[] = {{"dtype", AttrType::kInt}, {"seed", AttrType::kFloat}};
constexpr Param kInputs15[] = {{"input", "T1", kOldFloatTypes}}, kInputs22[] = {{"input", "T1", kFloatTypes}};
constexpr Param kOutputs[] = {{"output", "T2", kOutputTypes}};
constexpr OpVersion kVersions[] = {{15, kInputs15, kOutputs, kAttributes, Infer, Evaluate},
                                   {22, kInputs22, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpBernoulli = {"", "Bernoulli", kVersions, kRandomNotes, false};

}  // namespace quern
