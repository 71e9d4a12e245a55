// com.microsoft.QGemm: (alpha * A * B) of quantized matrices plus int32 C in units of alpha * a_scale * b_scale, as
// floats or (with y_scale and y_zero_point) quantized.
#include "ops/common/matmul_scaled.h"
#include "ops/common/q_linear.h"

namespace quern {
namespace {

enum Input { kA, kAScale, kAZeroPoint, kB, kBScale, kBZeroPoint, kC, kYScale, kYZeroPoint };

bool Differ(const Dim& a, const Dim& b) { return a.is_constant() && b.is_constant() && a.value() != b.value(); }

Status Infer(InferContext& c) {
  const bool trans_a = c.node().GetInt("transA", 0) != 0, trans_b = c.node().GetInt("transB", 0) != 0;
  if (c.HasInput(kYScale) != c.HasInput(kYZeroPoint)) {
    return c.Error("y_scale and y_zero_point must be given together");
  }
  const std::optional<Dims> a = c.input_shape(kA), b = c.input_shape(kB), add = c.input_shape(kC);
  for (const std::optional<Dims>& shape : {a, b}) {
    if (shape && shape->size() != 2) return c.Error("A and B must be matrices; one has shape " + DimsToString(*shape));
  }
  if (a && b && Differ((*a)[trans_a ? 0 : 1], (*b)[trans_b ? 1 : 0])) {
    return c.Error("shapes " + DimsToString(*a) + " and " + DimsToString(*b) +
                   " (before transposition) do not multiply");
  }
  const Dims output = {a ? (*a)[trans_a ? 1 : 0] : Dim::Unknown(), b ? (*b)[trans_b ? 0 : 1] : Dim::Unknown()};
  for (const int i : {kBScale, kBZeroPoint}) QUERN_RETURN_IF_ERROR(CheckColumns(c, i, Dims{1, output[1]}, true));
  if (add) {
    bool fits = add->size() <= 2;
    for (size_t i = 0; fits && i < add->size(); ++i) {
      const Dim& extent = (*add)[i];
      fits = extent.is_constant(1) || !Differ(extent, output[i + 2 - add->size()]);
    }
    if (!fits) {
      return c.Error("C has shape " + DimsToString(*add) + ", which does not broadcast to " + DimsToString(output));
    }
  }
  c.SetOutputType(0, ValueType::Tensor(c.HasInput(kYScale) ? c.input_dtype(kYZeroPoint) : DType::kF32, output));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const bool trans_a = c.node().GetInt("transA", 0) != 0, trans_b = c.node().GetInt("transB", 0) != 0;
  const int64_t m = outputs.shape(0)[0], n = outputs.shape(0)[1], k = c.input(kA).dim(trans_a ? 0 : 1);
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization of_a, ReadTensorQuantization(c, kAScale, kAZeroPoint));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int32_t> b_zero, ReadZeroPoints(c, kBZeroPoint, n));
  const double alpha = c.node().GetFloat("alpha", 1.0f);
  QUERN_ASSIGN_OR_RETURN(const ColumnScales scales, ColumnScales::Make(c, alpha * of_a.scale, kBScale, std::nullopt));
  TensorQuantization of_y{1, 0};
  if (c.HasInput(kYScale)) {
    QUERN_ASSIGN_OR_RETURN(of_y, ReadTensorQuantization(c, kYScale, kYZeroPoint));
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  if (y.num_elements() == 0) return OkStatus();
  std::vector<int32_t> left = WidenIntegers(c.input(kA)), right = WidenIntegers(c.input(kB));
  for (int32_t& v : left) v -= of_a.zero_point;
  for (size_t i = 0; i < right.size(); ++i) right[i] -= b_zero[trans_b ? i / k : i % n];
  const int32_t* add = nullptr;
  int64_t add_row = 0, add_column = 0;
  if (c.HasInput(kC)) {
    add = c.input(kC).data<int32_t>();
    const Shape strides = BroadcastStrides(c.input(kC).shape(), c.input(kC).strides(), outputs.shape(0));
    add_row = strides[0];
    add_column = strides[1];
  }
  std::vector<int64_t> row(static_cast<size_t>(n));
  for (int64_t i = 0; i < m; ++i) {
    MultiplyRow<int32_t, int32_t, int64_t>(n, k, left.data() + i * (trans_a ? 1 : k), trans_a ? m : 1, right.data(),
                                           trans_b ? 1 : n, trans_b ? k : 1, row.data());
    for (int64_t j = 0; j < n; ++j) {
      const int64_t sum = row[j] + (add ? add[i * add_row + j * add_column] : 0);
      const double value = scales.At(sum, j);
      if (y.dtype() == DType::kF32) {
        y.data<float>()[i * n + j] = static_cast<float>(value);
      } else {
        StoreByte(y, i * n + j, of_y.FromReal(value, y.dtype()));
      }
    }
  }
  return OkStatus();
}

constexpr Param kInputs[] = {{"A", "TA", kByteTypes},
                             {"a_scale", "T", kF32Type},
                             {"a_zero_point", "TA", kByteTypes},
                             {"B", "TB", kByteTypes},
                             {"b_scale", "T", kF32Type},
                             {"b_zero_point", "TB", kByteTypes},
                             {"C", "TC", kI32Type, Arity::kOptional},
                             {"y_scale", "T", kF32Type, Arity::kOptional},
                             {"y_zero_point", "TYZ", kByteTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "TY", kByteTypes | kF32Type}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "1"},
                                    {"transA", AttrType::kInt, false, "0"},
                                    {"transB", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQGemm = {"com.microsoft", "QGemm", kVersions};

}  // namespace quern
