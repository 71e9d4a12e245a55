// DFT: discrete Fourier transform along one axis of real or complex signals; inverse, one-sided and inverse one-sided.
#include <algorithm>

#include "ops/common/float_io.h"
#include "ops/common/fourier_op.h"
#include "ops/common/scalar_input.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

enum Input { kSignal, kLength, kAxis };

// Nothing when only a run can tell.
Result<std::optional<int>> InferAxis(InferContext& c, int rank) {
  int64_t axis = DefaultDftAxis(c.node());
  if (c.HasInput(kAxis)) {
    QUERN_ASSIGN_OR_RETURN(const Dim given, InferScalar(c, kAxis));
    if (!given.is_constant()) return std::optional<int>();
    axis = given.value();
  }
  QUERN_ASSIGN_OR_RETURN(const int normal, SignalAxis(c.node(), axis, rank));
  return std::optional<int>(normal);
}

Status Infer(InferContext& c) {
  const DftMode mode = DftMode::Of(c.node());
  ValueType type = ValueType::Tensor(c.input_dtype(kSignal), c.input_shape(kSignal));
  std::optional<Dim> length;
  if (c.HasInput(kLength)) {
    QUERN_ASSIGN_OR_RETURN(length, InferScalar(c, kLength));
  }
  if (type.shape) {
    Dims& shape = *type.shape;
    const int rank = static_cast<int>(shape.size());
    if (rank < 2) {
      return c.Error("the signal has shape " + DimsToString(shape) + "; at least two dimensions are needed");
    }
    QUERN_RETURN_IF_ERROR(CheckComponents(c, shape));
    if (mode.onesided && shape.back().is_constant(mode.inverse ? 1 : 2)) {
      return c.Error(mode.inverse ? "a one-sided inverse transform needs complex input, the signal is real"
                                  : "a one-sided transform needs real input, the signal is complex");
    }
    shape.back() = mode.real_output() ? 1 : 2;
    QUERN_ASSIGN_OR_RETURN(const std::optional<int> axis, InferAxis(c, rank));
    if (axis) {
      if (!length) length = mode.DefaultLength(shape[*axis]);
      shape[*axis] = mode.OutputLength(*length);
    } else if (length || mode.onesided) {
      for (int d = 0; d + 1 < rank; ++d) shape[d] = Dim::Unknown();
    }
  }
  if (length && length->is_constant() && length->value() < 1) {
    return c.Error("the transform's length is " + length->ToString() + ", at least 1 is needed");
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

// Fills the second half of a spectrum whose first half (n / 2 + 1 elements) belongs to a real signal. The imaginary
// parts of the elements that are their own mirror do not count.
void CompleteSpectrum(std::vector<Complex>& line) {
  const size_t n = line.size();
  line[0].im = 0;
  if (n % 2 == 0) line[n / 2].im = 0;
  for (size_t k = 1; k < (n + 1) / 2; ++k) line[n - k] = line[k].Conjugate();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const DftMode mode = DftMode::Of(c.node());
  const Shape in = c.input(kSignal).shape(), out = outputs.shape(0);
  int64_t given_axis = DefaultDftAxis(c.node());
  if (c.HasInput(kAxis)) {
    QUERN_ASSIGN_OR_RETURN(given_axis, ReadIntScalar(c, kAxis));
  }
  QUERN_ASSIGN_OR_RETURN(const int axis, SignalAxis(c.node(), given_axis, in.rank()));
  int64_t length = mode.DefaultLength(in[axis]).value();
  if (c.HasInput(kLength)) {
    QUERN_ASSIGN_OR_RETURN(length, ReadIntScalar(c, kLength));
  }
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, kSignal));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    if (y.num_elements() == 0) return OkStatus();
    QUERN_RETURN_IF_ERROR(CheckFourierMemory(c, length));
    FourierTransform transform(length);
    std::vector<Complex> line(static_cast<size_t>(length));
    const int64_t outer = in.num_elements(0, axis), inner = in.num_elements(axis + 1, in.rank() - 1);
    const int64_t taken = mode.Taken(in[axis], length);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        std::fill(line.begin(), line.end(), Complex{});
        for (int64_t j = 0; j < taken; ++j) {
          line[j] = LoadComplex(x.data(), (o * in[axis] + j) * inner + i, in.back());
        }
        if (mode.real_output()) CompleteSpectrum(line);
        mode.inverse ? transform.Inverse(line.data()) : transform.Forward(line.data());
        for (int64_t k = 0; k < out[axis]; ++k) {
          T* to = y.data() + ((o * out[axis] + k) * inner + i) * out.back();
          to[0] = static_cast<T>(line[k].re);
          if (!mode.real_output()) to[1] = static_cast<T>(line[k].im);
        }
      }
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr AttrSpec kAttributes17[] = {{"axis", AttrType::kInt, false, "1"},
                                      {"inverse", AttrType::kInt, false, "0"},
                                      {"onesided", AttrType::kInt, false, "0"}};
constexpr AttrSpec kAttributes20[] = {{"inverse", AttrType::kInt, false, "0"},
                                      {"onesided", AttrType::kInt, false, "0"}};
constexpr TypeSet kLengthTypes = {DType::kI32, DType::kI64};
constexpr Param kInputs17[] = {{"input", "T1", kFloatTypes}, {"dft_length", "T2", kLengthTypes, Arity::kOptional}};
constexpr Param kInputs20[] = {{"input", "T1", kFloatTypes},
                               {"dft_length", "T2", kLengthTypes, Arity::kOptional},
                               {"axis", "", kI64Type, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T1", kFloatTypes}};
constexpr OpVersion kVersions[] = {{17, kInputs17, kOutputs, kAttributes17, Infer, Evaluate},
                                   {20, kInputs20, kOutputs, kAttributes20, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpDft = {"", "DFT", kVersions};

}  // namespace quern
