// TopK: the k largest or smallest elements along `axis` with their indices; of equal ones the lower index comes first.
#include <algorithm>
#include <numeric>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  ValueType values = ValueType::Tensor(c.input_dtype(0)), indices = ValueType::Tensor(DType::kI64);
  if (shape) {
    QUERN_ASSIGN_OR_RETURN(const int axis,
                           NormalizeAxis(c.node(), c.node().GetInt("axis", -1), static_cast<int>(shape->size())));
    Dim k = Dim::Unknown();
    if (c.node().opset() < 10) {
      k = Dim(c.node().GetInt("k", 0));
    } else if (const std::optional<Dims> given = c.input_data(1); given && given->size() == 1) {
      k = given->front();
    }
    const Dim& extent = (*shape)[axis];
    if (k.is_constant() && (k.value() < 0 || (extent.is_constant() && k.value() > extent.value()))) {
      return c.Error("k is " + k.ToString() + ", dimension " + std::to_string(axis) + " of " + DimsToString(*shape) +
                     " has " + extent.ToString());
    }
    Dims out = *shape;
    out[axis] = k;
    values.shape = out;
    indices.shape = std::move(out);
  }
  c.SetOutputType(0, std::move(values));
  c.SetOutputType(1, std::move(indices));
  return OkStatus();
}

// a before b; NaN counts as larger than every number.
template <typename C>
bool Less(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a) return false;
    if (b != b) return true;
  }
  return a < b;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Tensor& x = c.input(0);
  const Shape& shape = x.shape();
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", -1), shape.rank()));
  const bool largest = c.node().GetInt("largest", 1) != 0;
  QUERN_ASSIGN_OR_RETURN(const Tensor values, outputs.Allocate(c, 0));
  QUERN_ASSIGN_OR_RETURN(const Tensor indices, outputs.Allocate(c, 1));
  const int64_t n = shape[axis], k = outputs.shape(0)[axis];
  const int64_t outer = shape.num_elements(0, axis), inner = shape.num_elements(axis + 1, shape.rank());
  std::vector<int64_t> order(static_cast<size_t>(n));
  return DispatchNumeric(x.dtype(), [&]<typename T>() {
    using C = ComputeType<T>;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        const T* row = x.data<T>() + o * n * inner + i;
        std::iota(order.begin(), order.end(), int64_t{0});
        std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
          const C u = static_cast<C>(row[a * inner]), v = static_cast<C>(row[b * inner]);
          if (Less(u, v)) return !largest;
          if (Less(v, u)) return largest;
          return a < b;
        });
        for (int64_t j = 0; j < k; ++j) {
          values.data<T>()[(o * k + j) * inner + i] = row[order[j] * inner];
          indices.data<int64_t>()[(o * k + j) * inner + i] = order[j];
        }
      }
    }
    return OkStatus();
  });
}

constexpr TypeSet kTypes1 = {DType::kF32, DType::kF64, DType::kF16};
constexpr TypeSet kTypes11 = kTypes1 | kSignedIntTypes | kUnsignedIntTypes;
constexpr AttrSpec kAttributes1[] = {{"axis", AttrType::kInt, false, "-1"}, {"k", AttrType::kInt, true}};
constexpr AttrSpec kAttributes10[] = {{"axis", AttrType::kInt, false, "-1"}};
constexpr AttrSpec kAttributes11[] = {{"axis", AttrType::kInt, false, "-1"},
                                      {"largest", AttrType::kInt, false, "1"},
                                      {"sorted", AttrType::kInt, false, "1"}};
constexpr Param kInputs1[] = {{"X", "T", kTypes1}};
constexpr Param kInputs10[] = {{"X", "T", kTypes1}, {"K", "", kInt64Type}};
constexpr Param kInputs11[] = {{"X", "T", kTypes11}, {"K", "", kInt64Type}};
constexpr Param kInputs24[] = {{"X", "T", kNumericTypes}, {"K", "", kInt64Type}};
constexpr Param kOutputs1[] = {{"Values", "T", kTypes1}, {"Indices", "I", kInt64Type}};
constexpr Param kOutputs11[] = {{"Values", "T", kTypes11}, {"Indices", "I", kInt64Type}};
constexpr Param kOutputs24[] = {{"Values", "T", kNumericTypes}, {"Indices", "I", kInt64Type}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, Infer, Evaluate},
                                   {10, kInputs10, kOutputs1, kAttributes10, Infer, Evaluate},
                                   {11, kInputs11, kOutputs11, kAttributes11, Infer, Evaluate},
                                   {24, kInputs24, kOutputs24, kAttributes11, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpTopK = {"", "TopK", kVersions};

}  // namespace quern
