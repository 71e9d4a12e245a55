// LpPool: p-norm of each window.
#include <cmath>

#include "ops/common/pool.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(InferredOutputs outputs, InferredOutputs::Make(c, InferPool));
  const Shape& shape = c.input(0).shape();
  QUERN_ASSIGN_OR_RETURN(Window3 w, MakePoolWindow(c, shape, outputs.shape(0)));
  const int64_t p = c.node().GetInt("p", 2);
  if (p < 1) return c.Error("attribute 'p' is " + std::to_string(p) + "; at least 1 is needed");
  const double power = static_cast<double>(p);
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    for (int64_t plane = 0; plane < shape[0] * shape[1]; ++plane) {
      const T* in = x.data() + plane * w.in_size();
      T* out = y.data() + plane * w.out_size();
      double sum = 0;
      ForEachWindow(
          w, [&](const int64_t*) { sum = 0; },
          [&](int64_t i0, int64_t i1, int64_t i2) {
            sum += std::pow(std::fabs(static_cast<double>(in[(i0 * w.in[1] + i1) * w.in[2] + i2])), power);
          },
          [&](int64_t o) { out[o] = static_cast<T>(std::pow(sum, 1.0 / power)); });
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs2[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs2[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes2[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                     {"kernel_shape", AttrType::kInts, true},
                                     {"p", AttrType::kInt, false, "2"},
                                     {"pads", AttrType::kInts},
                                     {"strides", AttrType::kInts}};
constexpr AttrSpec kAttributes18[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                      {"ceil_mode", AttrType::kInt, false, "0"},
                                      {"dilations", AttrType::kInts},
                                      {"kernel_shape", AttrType::kInts, true},
                                      {"p", AttrType::kInt, false, "2"},
                                      {"pads", AttrType::kInts},
                                      {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{2, kInputs2, kOutputs2, kAttributes2, InferPool, Evaluate},
                                   {11, kInputs2, kOutputs2, kAttributes2, InferPool, Evaluate},
                                   {18, kInputs2, kOutputs2, kAttributes18, InferPool, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes18, InferPool, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpLpPool = {"", "LpPool", kVersions};

}  // namespace quern
