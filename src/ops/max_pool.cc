// MaxPool: largest element per window, and where it stands (row-major or, with storage_order 1, column-major).
#include <cmath>
#include <limits>

#include "ops/common/pool.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

template <typename T>
bool IsNan(T v) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(v);
  return false;
}

// `x` and `y` hold `planes` planes; `indices` may be null. A NaN wins over every number.
template <typename T>
void Pool(const Window3& w, int64_t planes, bool column_major, const T* x, T* y, int64_t* indices) {
  for (int64_t p = 0; p < planes; ++p) {
    const T* in = x + p * w.in_size();
    T* out = y + p * w.out_size();
    T best{};
    int64_t best_at = 0;
    bool any = false;
    ForEachWindow(
        w,
        [&](const int64_t*) {
          any = false;
          best_at = 0;
          best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                      : std::numeric_limits<T>::lowest();
        },
        [&](int64_t i0, int64_t i1, int64_t i2) {
          const T v = in[(i0 * w.in[1] + i1) * w.in[2] + i2];
          if (any && !(v > best) && !(IsNan(v) && !IsNan(best))) return;
          any = true;
          best = v;
          best_at = column_major ? i0 + w.in[0] * (i1 + w.in[1] * i2) : (i0 * w.in[1] + i1) * w.in[2] + i2;
        },
        [&](int64_t o) {
          out[o] = best;
          if (indices) indices[p * w.out_size() + o] = p * w.in_size() + best_at;
        });
  }
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(InferredOutputs outputs, InferredOutputs::Make(c, InferPool));
  const Tensor& x = c.input(0);
  QUERN_ASSIGN_OR_RETURN(Window3 w, MakePoolWindow(c, x.shape(), outputs.shape(0)));
  const int64_t planes = x.dim(0) * x.dim(1);
  const bool column_major = c.node().GetInt("storage_order", 0) != 0;
  int64_t* indices = nullptr;
  if (c.HasOutput(1)) {
    QUERN_ASSIGN_OR_RETURN(Tensor t, outputs.Allocate(c, 1));
    indices = t.data<int64_t>();
  }
  if (x.dtype() == DType::kI8 || x.dtype() == DType::kU8) {
    QUERN_ASSIGN_OR_RETURN(Tensor y, outputs.Allocate(c, 0));
    if (x.dtype() == DType::kI8) {
      Pool(w, planes, column_major, x.data<int8_t>(), y.data<int8_t>(), indices);
    } else {
      Pool(w, planes, column_major, x.data<uint8_t>(), y.data<uint8_t>(), indices);
    }
    return OkStatus();
  }
  return WithComputeType(c, x.dtype(), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(FloatInput<T> in, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    Pool(w, planes, column_major, in.data(), y.data(), indices);
    y.Finish();
    return OkStatus();
  });
}

constexpr TypeSet kTypes12 = kOldFloatTypes | kByteTypes;
constexpr TypeSet kTypes22 = kFloatTypes | kByteTypes;
constexpr Param kInputs1[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kInputs12[] = {{"X", "T", kTypes12}};
constexpr Param kInputs22[] = {{"X", "T", kTypes22}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kOutputs8[] = {{"Y", "T", kOldFloatTypes}, {"Indices", "I", kI64Type, Arity::kOptional}};
constexpr Param kOutputs12[] = {{"Y", "T", kTypes12}, {"Indices", "I", kI64Type, Arity::kOptional}};
constexpr Param kOutputs22[] = {{"Y", "T", kTypes22}, {"Indices", "I", kI64Type, Arity::kOptional}};
constexpr AttrSpec kAttributes1[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                     {"kernel_shape", AttrType::kInts, true},
                                     {"pads", AttrType::kInts},
                                     {"strides", AttrType::kInts}};
constexpr AttrSpec kAttributes8[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                     {"kernel_shape", AttrType::kInts, true},
                                     {"pads", AttrType::kInts},
                                     {"storage_order", AttrType::kInt, false, "0"},
                                     {"strides", AttrType::kInts}};
constexpr AttrSpec kAttributes10[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                      {"ceil_mode", AttrType::kInt, false, "0"},
                                      {"dilations", AttrType::kInts},
                                      {"kernel_shape", AttrType::kInts, true},
                                      {"pads", AttrType::kInts},
                                      {"storage_order", AttrType::kInt, false, "0"},
                                      {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, InferPool, Evaluate},
                                   {8, kInputs1, kOutputs8, kAttributes8, InferPool, Evaluate},
                                   {10, kInputs1, kOutputs8, kAttributes10, InferPool, Evaluate},
                                   {11, kInputs1, kOutputs8, kAttributes10, InferPool, Evaluate},
                                   {12, kInputs12, kOutputs12, kAttributes10, InferPool, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes10, InferPool, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMaxPool = {"", "MaxPool", kVersions};

}  // namespace quern
