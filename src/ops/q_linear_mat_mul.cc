// QLinearMatMul: product of quantized matrices; y = rint(sum * a_scale * b_scale / y_scale) + y_zero_point.
#include "base/round_to_odd.h"
#include "ops/common/any_types.h"
#include "ops/common/eval_infer.h"
#include "ops/common/float_io.h"
#include "ops/common/integer_io.h"
#include "ops/common/matmul.h"
#include "ops/common/small_types.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferMatMul(c, 0, 3, c.input_dtype(7)); }

// The elements of an 8-bit integer or float tensor.
std::vector<double> ReadQuantized(const Tensor& t) {
  if (IsSmallFloat(t.dtype())) {
    std::vector<float> floats(static_cast<size_t>(t.num_elements()));
    LoadSmallFloats(t, 0, t.num_elements(), floats.data());
    return {floats.begin(), floats.end()};
  }
  const std::vector<int32_t> integers = WidenIntegers(t);
  return {integers.begin(), integers.end()};
}

// Scales or zero points of an operand: one, one per line (row of a, column of b), or one per line of each matrix.
template <typename T>
struct LineParameters {
  std::vector<T> values;
  int64_t lines = 1;  // of one matrix
  T operator[](int64_t line) const {
    const auto count = static_cast<int64_t>(values.size());
    return values[count == 1 ? 0 : count == lines ? line % lines : line];
  }
};

struct Operand {
  std::vector<double> values;  // less the zero point
  LineParameters<float> scale;
};

// The operand at inputs i (matrix), i + 1 (scale) and i + 2 (zero point). line(e): the line of element e, counted
// through all matrices, of which each has `lines`.
template <typename F>
Result<Operand> ReadOperand(EvalContext& c, int i, int64_t lines, int64_t all_lines, F line) {
  Operand operand{ReadQuantized(c.input(i)), {{}, lines}};
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> scale, ReadFloats<float>(c, i + 1));
  operand.scale.values.assign(scale.data(), scale.data() + scale.num_elements());
  const LineParameters<double> zero{ReadQuantized(c.input(i + 2)), lines};
  for (const size_t count : {operand.scale.values.size(), zero.values.size()}) {
    const auto n = static_cast<int64_t>(count);
    if (n == 1 || n == lines || n == all_lines) continue;
    return c.Error("scale or zero point of '" + c.node().input(i)->name() + "' has " + std::to_string(n) +
                   " elements; 1, " + std::to_string(lines) + " or " + std::to_string(all_lines) + " are needed");
  }
  for (size_t e = 0; e < operand.values.size(); ++e) operand.values[e] -= zero[line(static_cast<int64_t>(e))];
  return operand;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Tensor &a = c.input(0), &b = c.input(3);
  const MatMulLoops loops = MakeMatMulLoops(a.shape(), b.shape());
  const int64_t m = loops.m, n = loops.n, k = loops.k;
  const int64_t all_rows = a.rank() == 1 ? 1 : a.shape().num_elements(0, a.rank() - 1);
  const int64_t all_columns = b.rank() == 1 ? 1 : b.shape().num_elements(0, b.rank() - 2) * n;
  QUERN_ASSIGN_OR_RETURN(const Operand left, ReadOperand(c, 0, m, all_rows, [&](int64_t e) { return e / k; }));
  QUERN_ASSIGN_OR_RETURN(const Operand right,
                         ReadOperand(c, 3, n, all_columns, [&](int64_t e) { return e / (k * n) * n + e % n; }));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> y_scale, ReadFloats<float>(c, 6));
  const std::vector<double> y_zero = ReadQuantized(c.input(7));
  if (y_scale.num_elements() != 1 || y_zero.size() != 1) return c.Error("y_scale and y_zero_point need one element");
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  QUERN_ASSIGN_OR_RETURN(const SmallFloatRules rules, ReadSmallFloatRules(c.node()));
  const bool integers = !IsSmallFloat(a.dtype()) && !IsSmallFloat(b.dtype());
  std::vector<double> row(static_cast<size_t>(n));
  int64_t index = 0;
  for (size_t i = 0; i < loops.a_offset.size(); ++i) {
    const int64_t first_row = k == 0 ? 0 : loops.a_offset[i] / k, first_column = k == 0 ? 0 : loops.b_offset[i] / k;
    for (int64_t r = 0; r < m; ++r) {
      MultiplyRow<double, double, double>(n, k, left.values.data() + loops.a_offset[i] + r * k, 1,
                                          right.values.data() + loops.b_offset[i], n, 1, row.data());
      for (int64_t j = 0; j < n; ++j, ++index) {
        // Sums of integers wrap around at 32 bits.
        const float sum = integers ? static_cast<float>(static_cast<int32_t>(static_cast<int64_t>(row[j])))
                                   : static_cast<float>(row[j]);
        const float value = sum * (left.scale[first_row + r] * right.scale[first_column + j] / y_scale[0]);
        if (IsSmallFloat(y.dtype())) {
          const float shifted = RoundToOdd(static_cast<double>(value) + y_zero[0]);
          StoreSmallFloats(&shifted, index, 1, rules, y);
        } else {
          StoreByte(y, index, RequantizeToByte(value, static_cast<int32_t>(y_zero[0]), y.dtype()));
        }
      }
    }
  }
  return OkStatus();
}

constexpr Param kInputs10[] = {
    {"a", "T1", kByteTypes},   {"a_scale", "", kF32Type},         {"a_zero_point", "T1", kByteTypes},
    {"b", "T2", kByteTypes},   {"b_scale", "", kF32Type},         {"b_zero_point", "T2", kByteTypes},
    {"y_scale", "", kF32Type}, {"y_zero_point", "T3", kByteTypes}};
constexpr Param kOutputs10[] = {{"y", "T3", kByteTypes}};
constexpr TypeSet kT1Types21 = kByteTypes | kFloat8Types;
constexpr TypeSet kTSTypes21 = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs21[] = {
    {"a", "T1", kT1Types21},       {"a_scale", "TS", kTSTypes21},     {"a_zero_point", "T1", kT1Types21},
    {"b", "T2", kT1Types21},       {"b_scale", "TS", kTSTypes21},     {"b_zero_point", "T2", kT1Types21},
    {"y_scale", "TS", kTSTypes21}, {"y_zero_point", "T3", kT1Types21}};
constexpr Param kOutputs21[] = {{"y", "T3", kT1Types21}};
constexpr OpVersion kVersions[] = {{10, kInputs10, kOutputs10, {}, Infer, Evaluate},
                                   {21, kInputs21, kOutputs21, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpQLinearMatMul = {"", "QLinearMatMul", kVersions};

}  // namespace quern
