// MelWeightMatrix: triangles over the bins of a one-sided spectrum, their corners evenly spaced on the mel scale.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/common/dtype_attribute.h"
#include "ops/common/eval_infer.h"
#include "ops/common/from_double.h"
#include "ops/common/scalar_input.h"

namespace quern {
namespace {

enum Input { kMelBins, kDftLength, kSampleRate, kLowerEdge, kUpperEdge };

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType dtype,
                         ReadDTypeAttribute(c.node(), "output_datatype", DType::kF32, kNumericTypes));
  QUERN_ASSIGN_OR_RETURN(const Dim mel_bins, InferScalar(c, kMelBins));
  QUERN_ASSIGN_OR_RETURN(const Dim length, InferScalar(c, kDftLength));
  QUERN_ASSIGN_OR_RETURN(const Dim rate, InferScalar(c, kSampleRate));
  if (mel_bins.is_constant() && mel_bins.value() < 0) {
    return c.Error("num_mel_bins is " + mel_bins.ToString() + ", which is negative");
  }
  for (const auto& [name, value] : {std::pair("dft_length", length), std::pair("sample_rate", rate)}) {
    if (value.is_constant() && value.value() < 1) {
      return c.Error(std::string(name) + " is " + value.ToString() + ", at least 1 is needed");
    }
  }
  c.SetOutputType(0, ValueType::Tensor(dtype, Dims{Dim::FloorDiv(length, 2) + 1, mel_bins}));
  return OkStatus();
}

// mel = 2595 log10(1 + hertz / 700) = kMelsPerE ln(1 + hertz / 700)
constexpr double kMelsPerE = 2595.0 / std::numbers::ln10;
double HertzToMel(double hertz) { return kMelsPerE * std::log1p(hertz / 700.0); }
double MelToHertz(double mel) { return 700.0 * std::expm1(mel / kMelsPerE); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const int64_t length, ReadIntScalar(c, kDftLength));
  QUERN_ASSIGN_OR_RETURN(const int64_t rate, ReadIntScalar(c, kSampleRate));
  QUERN_ASSIGN_OR_RETURN(const double lower, ReadFloatScalar(c, kLowerEdge));
  QUERN_ASSIGN_OR_RETURN(const double upper, ReadFloatScalar(c, kUpperEdge));
  if (!(lower >= 0) || !(upper >= lower) || !std::isfinite(upper)) {
    return c.Error("the edges are " + std::to_string(lower) + " and " + std::to_string(upper) +
                   " Hz; 0 <= lower <= upper is needed");
  }
  const int64_t bins = outputs.shape(0)[0], mel_bins = outputs.shape(0)[1];
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  const double low = HertzToMel(lower), step = (HertzToMel(upper) - low) / static_cast<double>(mel_bins + 2);
  // The spectrum's bin of corner i; triangle m spans corners m to m + 2.
  const auto bin_of = [&](int64_t i) {
    const double hertz = MelToHertz(low + static_cast<double>(i) * step);
    return std::floor((static_cast<double>(length) + 1.0) * hertz / static_cast<double>(rate));
  };
  const double last_bin = static_cast<double>(bins - 1);
  if (!(bin_of(mel_bins + 1) <= last_bin)) {
    return c.Error("the upper edge of " + std::to_string(upper) + " Hz lies beyond the spectrum of a signal of " +
                   std::to_string(rate) + " Hz");
  }
  const auto corner = [&](int64_t i) { return static_cast<int64_t>(std::clamp(bin_of(i), 0.0, last_bin)); };
  return DispatchNumeric(y.dtype(), [&]<typename T>() {
    T* out = y.data<T>();
    std::fill_n(out, y.num_elements(), FromDouble<T>(0));
    for (int64_t m = 0; m < mel_bins; ++m) {
      const int64_t left = corner(m), middle = corner(m + 1), right = corner(m + 2);
      for (int64_t b = left; b < right; ++b) {
        const double height = b < middle ? static_cast<double>(b - left) / static_cast<double>(middle - left)
                                         : static_cast<double>(right - b) / static_cast<double>(right - middle);
        out[b * mel_bins + m] = FromDouble<T>(height);
      }
      out[middle * mel_bins + m] = FromDouble<T>(1);
    }
    return OkStatus();
  });
}

constexpr TypeSet kCountTypes = {DType::kI32, DType::kI64};
constexpr Param kInputs[] = {{"num_mel_bins", "T1", kCountTypes},
                             {"dft_length", "T1", kCountTypes},
                             {"sample_rate", "T1", kCountTypes},
                             {"lower_edge_hertz", "T2", kFloatTypes},
                             {"upper_edge_hertz", "T2", kFloatTypes}};
constexpr Param kOutputs[] = {{"output", "T3", kNumericTypes}};
constexpr AttrSpec kAttributes[] = {{"output_datatype", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{17, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMelWeightMatrix = {"", "MelWeightMatrix", kVersions};

}  // namespace quern
