// AveragePool: mean of each window, over the elements inside the input or (count_include_pad) the padded input.
#include "ops/common/pool.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(InferredOutputs outputs, InferredOutputs::Make(c, InferPool));
  const Shape& shape = c.input(0).shape();
  QUERN_ASSIGN_OR_RETURN(Window3 w, MakePoolWindow(c, shape, outputs.shape(0)));
  const bool include_pad = c.node().GetInt("count_include_pad", 0) != 0;
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    for (int64_t p = 0; p < shape[0] * shape[1]; ++p) {
      const T* in = x.data() + p * w.in_size();
      T* out = y.data() + p * w.out_size();
      double sum = 0;
      double count = 0, padded_count = 0;
      ForEachWindow(
          w,
          [&](const int64_t* o) {
            sum = 0;
            count = 0;
            padded_count = TapsInPadded(w, o);
          },
          [&](int64_t i0, int64_t i1, int64_t i2) {
            sum += static_cast<double>(in[(i0 * w.in[1] + i1) * w.in[2] + i2]);
            ++count;
          },
          [&](int64_t o) {
            const double divisor = include_pad ? padded_count : count;
            out[o] = divisor == 0 ? T{0} : static_cast<T>(sum / divisor);
          });
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs1[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes1[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                     {"kernel_shape", AttrType::kInts, true},
                                     {"pads", AttrType::kInts},
                                     {"strides", AttrType::kInts}};
constexpr AttrSpec kAttributes7[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                     {"count_include_pad", AttrType::kInt, false, "0"},
                                     {"kernel_shape", AttrType::kInts, true},
                                     {"pads", AttrType::kInts},
                                     {"strides", AttrType::kInts}};
constexpr AttrSpec kAttributes10[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                      {"ceil_mode", AttrType::kInt, false, "0"},
                                      {"count_include_pad", AttrType::kInt, false, "0"},
                                      {"kernel_shape", AttrType::kInts, true},
                                      {"pads", AttrType::kInts},
                                      {"strides", AttrType::kInts}};
constexpr AttrSpec kAttributes19[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                      {"ceil_mode", AttrType::kInt, false, "0"},
                                      {"count_include_pad", AttrType::kInt, false, "0"},
                                      {"dilations", AttrType::kInts},
                                      {"kernel_shape", AttrType::kInts, true},
                                      {"pads", AttrType::kInts},
                                      {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, InferPool, Evaluate},
                                   {7, kInputs1, kOutputs1, kAttributes7, InferPool, Evaluate},
                                   {10, kInputs1, kOutputs1, kAttributes10, InferPool, Evaluate},
                                   {11, kInputs1, kOutputs1, kAttributes10, InferPool, Evaluate},
                                   {19, kInputs1, kOutputs1, kAttributes19, InferPool, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes19, InferPool, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpAveragePool = {"", "AveragePool", kVersions};

}  // namespace quern
