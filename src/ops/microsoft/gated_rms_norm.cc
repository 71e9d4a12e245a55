// com.microsoft.GatedRMSNorm: root-mean-square normalization of groups of the last dimension, times an activated gate.
#include <cmath>
#include <string>

#include "ops/common/float_io.h"
#include "ops/common/input_shape.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kX, kScale, kGate };

Status Infer(InferContext& c) {
  const std::string activation = c.node().GetString("activation", "silu");
  if (activation != "silu" && activation != "swish" && activation != "sigmoid") {
    return c.Error("attribute 'activation' is '" + activation + "'; silu, swish or sigmoid is needed");
  }
  const std::optional<Dims> x = c.input_shape(kX), scale = c.input_shape(kScale);
  if (scale && scale->size() != 1) {
    return c.Error("input '" + c.node().input(kScale)->name() + "' has shape " + DimsToString(*scale) +
                   "; one dimension is needed");
  }
  if (x) {
    if (x->empty()) return c.Error("input '" + c.node().input(kX)->name() + "' is a scalar");
    if (scale && (*scale)[0].is_constant() && x->back().is_constant()) {
      const int64_t count = (*scale)[0].value();
      if (count == 0 || x->back().value() % count != 0) {
        return c.Error("the last dimension of X, of shape " + DimsToString(*x) + ", is no multiple of the scale's " +
                       std::to_string(count));
      }
    }
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, kGate, *x));
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(kX), x));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> x, ReadFloats<float>(c, kX));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> scale, ReadFloats<float>(c, kScale));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> gate, ReadFloats<float>(c, kGate));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  const double epsilon = c.node().GetFloat("epsilon", 1e-5f);
  const bool by_gate = c.node().GetString("activation", "silu") != "sigmoid";
  const int64_t count = scale.num_elements();
  for (int64_t begin = 0; begin < x.num_elements(); begin += count) {
    double squares = 0;
    for (int64_t i = 0; i < count; ++i) squares += static_cast<double>(x[begin + i]) * x[begin + i];
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(count) + epsilon);
    for (int64_t i = 0; i < count; ++i) {
      const double z = gate[begin + i], sigmoid = 1 / (1 + std::exp(-z));
      y[begin + i] = static_cast<float>(x[begin + i] * inverse * scale[i] * (by_gate ? z * sigmoid : sigmoid));
    }
  }
  y.Finish();
  return OkStatus();
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"X", "T", kTypes}, {"scale", "T", kTypes}, {"gate", "T", kTypes}};
constexpr Param kOutputs[] = {{"Y", "T", kTypes}};
constexpr AttrSpec kAttributes[] = {{"activation", AttrType::kString, false, "silu"},
                                    {"epsilon", AttrType::kFloat, false, "1e-05"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftGatedRmsNorm = {"com.microsoft", "GatedRMSNorm", kVersions};

}  // namespace quern
