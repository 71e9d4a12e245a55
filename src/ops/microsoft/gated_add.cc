// com.microsoft.GatedAdd: X + Y * gate, one gate for each row; it is given, or the sigmoid of a product.
#include <cmath>

#include "ops/common/float_io.h"
#include "ops/common/input_shape.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kX, kY, kGate, kGateWeight };

Status Infer(InferContext& c) {
  if (c.HasInput(kGateWeight) && c.input_dtype(kX) != DType::kBF16 && c.input_dtype(kX) != DType::kUndefined) {
    return Unsupported(c.node().Describe() +
                       ": a gate that is projected ('gate_weight') is defined for bfloat16 only, not " +
                       DTypeName(c.input_dtype(kX)));
  }
  const std::optional<Dims> x = c.input_shape(kX), gate = c.input_shape(kGate);
  if (x) {
    if (x->empty()) return c.Error("input '" + c.node().input(kX)->name() + "' is a scalar");
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, kY, *x));
    Dims rows = *x;
    rows.back() = 1;
    if (c.HasInput(kGateWeight) && gate && !gate->empty()) rows.back() = gate->back();
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, kGate, rows));
    if (c.HasInput(kGateWeight)) QUERN_RETURN_IF_ERROR(CheckInputShape(c, kGateWeight, {rows.back(), 1}));
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(kX), x));
  return OkStatus();
}

// As an operator of its own would give it.
float Round(DType type, float v) {
  if (type == DType::kF16) return static_cast<float>(Float16(v));
  return type == DType::kBF16 ? static_cast<float>(BFloat16(v)) : v;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> x, ReadFloats<float>(c, kX));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> y, ReadFloats<float>(c, kY));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> gate, ReadFloats<float>(c, kGate));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> weight, ReadFloats<float>(c, kGateWeight));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> out, WriteFloats<float>(c, outputs, 0));
  const DType type = outputs.dtype(0);
  const Shape& shape = outputs.shape(0);
  const int64_t count = shape.back(), rows = shape.num_elements(0, shape.rank() - 1), terms = weight.num_elements();
  for (int64_t r = 0; r < rows; ++r) {
    float factor = 0;
    if (weight) {
      double sum = 0;
      for (int64_t k = 0; k < terms; ++k) sum += static_cast<double>(gate[r * terms + k]) * weight[k];
      factor = Round(type, 1 / (1 + std::exp(-Round(type, static_cast<float>(sum)))));
    } else {
      factor = gate[r];
    }
    for (int64_t i = r * count; i < (r + 1) * count; ++i) out[i] = x[i] + Round(type, y[i] * factor);
  }
  out.Finish();
  return OkStatus();
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {
    {"X", "T", kTypes}, {"Y", "T", kTypes}, {"gate", "T", kTypes}, {"gate_weight", "T", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftGatedAdd = {"com.microsoft", "GatedAdd", kVersions};

}  // namespace quern
