// Integer products as floats, for operators of com.microsoft: sum * scale of A * scale of B + bias.
#pragma once

#include <optional>
#include <string>

#include "ops/common/float_io.h"
#include "ops/common/matmul_integer.h"
#include "ops/common/type_sets.h"

namespace quern {

// An error when input i is known not to hold one number per column of b, the right side (or just one).
inline Status CheckColumns(const InferContext& c, int i, const std::optional<Dims>& b, bool one_is_enough) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape || !b || b->empty()) return OkStatus();
  const Dim count = Product(*shape), columns = b->size() == 1 ? Dim(1) : b->back();
  if (!count.is_constant() || !columns.is_constant() || count.value() == columns.value()) return OkStatus();
  if (one_is_enough && count.value() == 1) return OkStatus();
  return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) + "; " +
                 (one_is_enough ? "one element or " : "") + "one per column (" + columns.ToString() + ") is needed");
}

// The factors and the bias of each column.
struct ColumnScales {
  double a_scale;
  FloatInput<float> b_scale, bias;

  static Result<ColumnScales> Make(EvalContext& c, double a_scale, int b_scale, std::optional<int> bias) {
    ColumnScales s{a_scale, {}, {}};
    QUERN_ASSIGN_OR_RETURN(s.b_scale, ReadFloats<float>(c, b_scale));
    if (bias) {
      QUERN_ASSIGN_OR_RETURN(s.bias, ReadFloats<float>(c, *bias));
    }
    return s;
  }
  double At(int64_t sum, int64_t column) const {
    const double scale = a_scale * static_cast<double>(b_scale[b_scale.num_elements() == 1 ? 0 : column]);
    return static_cast<double>(sum) * scale + (bias ? static_cast<double>(bias[column]) : 0.0);
  }
};

}  // namespace quern
