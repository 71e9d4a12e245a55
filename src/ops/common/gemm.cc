#include "ops/common/gemm.h"

#include <string>

#include "ops/common/block_format.h"
#include "ops/common/dispatch.h"
#include "ops/common/float_io.h"
#include "ops/common/infer_common.h"
#include "ops/common/matmul.h"
#include "ops/common/saturate.h"

namespace quern {
namespace {

// C as [M, N]: strides for its broadcast over the result.
struct Addend {
  int64_t row_stride = 0, column_stride = 0;
};
Addend AddendStrides(const Shape& c) {
  Addend a;
  if (c.rank() >= 1 && c.back() != 1) a.column_stride = 1;
  if (c.rank() == 2 && c[0] != 1) a.row_stride = c[1];
  return a;
}

}  // namespace

Status InferGemm(InferContext& c) {
  const std::optional<Dims> a = c.input_shape(0), b = c.input_shape(1), add = c.input_shape(2);
  for (const std::optional<Dims>& shape : {a, b}) {
    if (shape && shape->size() != 2) return c.Error("A and B must be matrices; one has shape " + DimsToString(*shape));
  }
  const bool trans_a = c.node().GetInt("transA", 0) != 0, trans_b = c.node().GetInt("transB", 0) != 0;
  if (IsBlockType(c.input_dtype(1)) && !trans_b) {
    return c.Error(std::string("B in block format ") + DTypeName(c.input_dtype(1)) + " needs 'transB' = 1");
  }
  if (c.HasInput(0) && c.HasInput(1) && !IsBlockType(c.input_dtype(1)) && c.input_dtype(0) != c.input_dtype(1)) {
    return c.Error(std::string("A has element type ") + DTypeName(c.input_dtype(0)) + " but B has " +
                   DTypeName(c.input_dtype(1)));
  }
  const Dim m = a ? (*a)[trans_a ? 1 : 0] : Dim::Unknown(), n = b ? (*b)[trans_b ? 0 : 1] : Dim::Unknown();
  if (a && b) {
    const Dim &ka = (*a)[trans_a ? 0 : 1], &kb = (*b)[trans_b ? 1 : 0];
    if (ka.is_constant() && kb.is_constant() && ka.value() != kb.value()) {
      return c.Error("A has " + ka.ToString() + " columns but B has " + kb.ToString() + " rows (shapes " +
                     DimsToString(*a) + " and " + DimsToString(*b) + " before transposition)");
    }
  }
  const Dims output = {m, n};
  if (add) {
    bool fits = add->size() <= 2;
    for (size_t i = 0; fits && i < add->size(); ++i) {
      const Dim &from = (*add)[i], &to = output[i + 2 - add->size()];
      fits = !from.is_constant() || !to.is_constant() || from.value() == 1 || from.value() == to.value();
    }
    if (!fits) {
      return c.Error("C has shape " + DimsToString(*add) + ", which does not broadcast to " + DimsToString(output));
    }
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), output));
  return OkStatus();
}

Status EvaluateGemm(EvalContext& c, const std::function<double(double)>& activation) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferGemm));
  const bool trans_a = c.node().GetInt("transA", 0) != 0, trans_b = c.node().GetInt("transB", 0) != 0;
  const Tensor &a = c.input(0), &b = c.input(1);
  const int64_t m = outputs.shape(0)[0], n = outputs.shape(0)[1], k = a.dim(trans_a ? 0 : 1);
  const int64_t a_row = trans_a ? 1 : k, a_column = trans_a ? m : 1;
  const int64_t b_row = trans_b ? 1 : n, b_column = trans_b ? k : 1;
  const double alpha = c.node().GetFloat("alpha", 1.0f), beta = c.node().GetFloat("beta", 1.0f);
  const Addend add = c.HasInput(2) ? AddendStrides(c.input(2).shape()) : Addend{};
  if (IsIntegerType(outputs.dtype(0))) {
    QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
    return DispatchType(Types<int32_t, int64_t, uint32_t, uint64_t>{}, y.dtype(),
                        [&]<typename T>() {
                          using U = std::make_unsigned_t<T>;  // sums wrap around
                          const U* addend = c.HasInput(2) ? static_cast<const U*>(c.input(2).raw_data()) : nullptr;
                          const U factor = static_cast<U>(SaturateTo<T>(alpha)),
                                  add_factor = static_cast<U>(SaturateTo<T>(beta));
                          U* out = static_cast<U*>(y.raw_data());
                          for (int64_t i = 0; i < m; ++i, out += n) {
                            MultiplyRow<U, U, U>(n, k, static_cast<const U*>(a.raw_data()) + i * a_row, a_column,
                                                 static_cast<const U*>(b.raw_data()), b_row, b_column, out);
                            for (int64_t j = 0; j < n; ++j) {
                              const U extra = addend ? addend[i * add.row_stride + j * add.column_stride] : U{0};
                              out[j] = factor * out[j] + add_factor * extra;
                              if (!activation) continue;
                              out[j] = static_cast<U>(SaturateTo<T>(activation(static_cast<double>(T(out[j])))));
                            }
                          }
                          return OkStatus();
                        })
        .WithContext(c.node().Describe());
  }
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> left, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> addend, ReadFloats<T>(c, 2));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    const auto finish = [&](int64_t i, int64_t j, double sum) {
      double v = alpha * sum;
      if (addend) v += beta * static_cast<double>(addend[i * add.row_stride + j * add.column_stride]);
      y[i * n + j] = static_cast<T>(activation ? activation(v) : v);
    };
    if (IsBlockType(b.dtype())) {
      const int64_t row_bytes = k / GetDTypeInfo(b.dtype()).block_elements * GetDTypeInfo(b.dtype()).block_bytes;
      std::vector<float> weights(static_cast<size_t>(k));
      for (int64_t j = 0; j < n; ++j) {
        DequantizeBlockRow(b.dtype(), static_cast<const uint8_t*>(b.raw_data()) + j * row_bytes, k, weights.data());
        for (int64_t i = 0; i < m; ++i) {
          double sum = 0;
          for (int64_t p = 0; p < k; ++p) sum += static_cast<double>(left[i * a_row + p * a_column]) * weights[p];
          finish(i, j, sum);
        }
      }
      y.Finish();
      return OkStatus();
    }
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> right, ReadFloats<T>(c, 1));
    std::vector<double> row(static_cast<size_t>(n));
    for (int64_t i = 0; i < m; ++i) {
      MultiplyRow<T, T, double>(n, k, left.data() + i * a_row, a_column, right.data(), b_row, b_column, row.data());
      for (int64_t j = 0; j < n; ++j) finish(i, j, row[j]);
    }
    y.Finish();
    return OkStatus();
  });
}

}  // namespace quern
