// STFT: discrete Fourier transforms of the frames that a window cuts out of a signal at regular steps. A signal of two
// dimensions, which exporters write and onnxruntime takes, is a real one.
#include "ops/common/float_io.h"
#include "ops/common/fourier_op.h"
#include "ops/common/scalar_input.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

enum Input { kSignal, kStep, kWindow, kFrameLength };

// The length of a frame: given, that of the window, or that of the signal.
Result<Dim> InferFrameLength(InferContext& c) {
  std::optional<Dim> window;
  if (const std::optional<Dims> shape = c.input_shape(kWindow)) {
    if (shape->size() != 1) {
      return c.Error("the window has shape " + DimsToString(*shape) + "; one dimension is needed");
    }
    window = shape->front();
  }
  if (c.HasInput(kFrameLength)) {
    QUERN_ASSIGN_OR_RETURN(const Dim given, InferScalar(c, kFrameLength));
    if (window && window->is_constant() && given.is_constant() && window->value() != given.value()) {
      return c.Error("frame_length is " + given.ToString() + " but the window has " + window->ToString() + " elements");
    }
    return !given.is_constant() && window ? *window : given;
  }
  if (c.HasInput(kWindow)) return window ? *window : Dim::Unknown();
  const std::optional<Dims> signal = c.input_shape(kSignal);
  return signal ? (*signal)[1] : Dim::Unknown();
}

Status Infer(InferContext& c) {
  const std::optional<Dims> signal = c.input_shape(kSignal);
  if (signal) {
    if (signal->size() != 2 && signal->size() != 3) {
      return c.Error("the signal has shape " + DimsToString(*signal) +
                     "; three dimensions are needed: batch, length, and 1 (real) or 2 (complex)");
    }
    const bool real = signal->size() == 2;
    if (!real) QUERN_RETURN_IF_ERROR(CheckComponents(c, *signal));
    if (IsOnesidedStft(c.node()) && !real && signal->back().is_constant(2)) {
      return c.Error("the signal is complex, which needs 'onesided' = 0");
    }
  }
  QUERN_ASSIGN_OR_RETURN(const Dim step, InferScalar(c, kStep));
  QUERN_ASSIGN_OR_RETURN(const Dim length, InferFrameLength(c));
  if (step.is_constant() && step.value() < 1) {
    return c.Error("frame_step is " + step.ToString() + ", at least 1 is needed");
  }
  if (length.is_constant() && length.value() < 1) {
    return c.Error("the frames' length is " + length.ToString() + ", at least 1 is needed");
  }
  Dim frames = Dim::Unknown();
  if (signal) {
    const Dim room = (*signal)[1] - length;
    if (room.is_constant() && room.value() < 0) {
      return c.Error("frames of " + length.ToString() + " elements are longer than the signal of " +
                     (*signal)[1].ToString());
    }
    frames = Dim::FloorDiv(room, step) + 1;
  }
  const Dim bins = IsOnesidedStft(c.node()) ? Dim::FloorDiv(length, 2) + 1 : length;
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(kSignal),
                                       Dims{signal ? signal->front() : Dim::Unknown(), frames, bins, Dim(2)}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const int64_t step, ReadIntScalar(c, kStep));
  const Shape signal = c.input(kSignal).shape(), out = outputs.shape(0);
  const int64_t components = signal.rank() == 2 ? 1 : signal[2];
  int64_t length = c.HasInput(kWindow) ? c.input(kWindow).num_elements() : signal[1];
  if (c.HasInput(kFrameLength)) {
    QUERN_ASSIGN_OR_RETURN(length, ReadIntScalar(c, kFrameLength));
  }
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, kSignal));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> window, ReadFloats<T>(c, kWindow));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    if (y.num_elements() == 0) return OkStatus();
    QUERN_RETURN_IF_ERROR(CheckFourierMemory(c, length));
    FourierTransform transform(length);
    std::vector<Complex> line(static_cast<size_t>(length));
    T* to = y.data();
    for (int64_t b = 0; b < out[0]; ++b) {
      for (int64_t f = 0; f < out[1]; ++f) {
        for (int64_t j = 0; j < length; ++j) {
          line[j] = LoadComplex(x.data(), b * signal[1] + f * step + j, components);
          if (window) line[j] = line[j] * static_cast<double>(window[j]);
        }
        transform.Forward(line.data());
        for (int64_t k = 0; k < out[2]; ++k) {
          *to++ = static_cast<T>(line[k].re);
          *to++ = static_cast<T>(line[k].im);
        }
      }
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr TypeSet kLengthTypes = {DType::kI32, DType::kI64};
constexpr Param kInputs[] = {{"signal", "T1", kFloatTypes},
                             {"frame_step", "T2", kLengthTypes},
                             {"window", "T1", kFloatTypes, Arity::kOptional},
                             {"frame_length", "T2", kLengthTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T1", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"onesided", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{17, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpStft = {"", "STFT", kVersions};

}  // namespace quern
