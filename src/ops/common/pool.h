// What the pooling operators share: shape inference and the walk over windows.
#pragma once

#include <algorithm>

#include "ops/common/float_io.h"
#include "ops/common/window.h"
#include "ops/op.h"

namespace quern {

// Output 0 is [N, C, spatial...] of input 0's type; output 1, where there is one, the same shape in int64.
Status InferPool(InferContext& context);
// Output 0 alone, of a quantized input that may have its channels last: [N, spatial..., C].
Status InferQuantizedPool(InferContext& context, bool channels_last);
// Output 0 is [N, C, 1, ...].
Status InferGlobalPool(InferContext& context);
// The window of a pool node over actual shapes.
Result<Window3> MakePoolWindow(const EvalContext& context, const Shape& x, const Shape& output);

// The taps of one dimension that stay inside the input for output position o: kernel indices [first, last).
struct KernelRange {
  int64_t first, last, input_at_first;
};
inline KernelRange ValidKernel(const Window3& w, int d, int64_t o) {
  const int64_t start = o * w.stride[d] - w.pad_begin[d], dilation = w.dilation[d];
  const int64_t first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
  const int64_t past = w.in[d] - start;
  const int64_t last = past <= 0 ? 0 : std::min(w.kernel[d], (past + dilation - 1) / dilation);
  return {first, std::max(first, last), start + first * dilation};
}

// Taps of a window. Attributes allow more than 64 bits hold.
inline double AllTaps(const Window3& w) {
  return static_cast<double>(w.kernel[0]) * static_cast<double>(w.kernel[1]) * static_cast<double>(w.kernel[2]);
}

// Those of the window at `o` (its three indices) that lie inside the padded input.
inline double TapsInPadded(const Window3& w, const int64_t* o) {
  double taps = 1;
  for (int d = 0; d < 3; ++d) {
    const int64_t past = w.in[d] + w.pad_end[d] - (o[d] * w.stride[d] - w.pad_begin[d]);
    const int64_t inside = past <= 0 ? 0 : std::min(w.kernel[d], (past + w.dilation[d] - 1) / w.dilation[d]);
    taps *= static_cast<double>(inside);
  }
  return taps;
}

// For every output position of one plane calls start(o), then tap(i0, i1, i2) for each input element in its window,
// then finish(output index).
template <typename Start, typename Tap, typename Finish>
void ForEachWindow(const Window3& w, Start start, Tap tap, Finish finish) {
  int64_t index = 0;
  for (int64_t o0 = 0; o0 < w.out[0]; ++o0) {
    const KernelRange a = ValidKernel(w, 0, o0);
    for (int64_t o1 = 0; o1 < w.out[1]; ++o1) {
      const KernelRange b = ValidKernel(w, 1, o1);
      for (int64_t o2 = 0; o2 < w.out[2]; ++o2, ++index) {
        const KernelRange r = ValidKernel(w, 2, o2);
        const int64_t position[3] = {o0, o1, o2};
        start(position);
        for (int64_t k0 = a.first; k0 < a.last; ++k0) {
          for (int64_t k1 = b.first; k1 < b.last; ++k1) {
            for (int64_t k2 = r.first; k2 < r.last; ++k2) {
              tap(a.input_at_first + (k0 - a.first) * w.dilation[0], b.input_at_first + (k1 - b.first) * w.dilation[1],
                  r.input_at_first + (k2 - r.first) * w.dilation[2]);
            }
          }
        }
        finish(index);
      }
    }
  }
}

// Reduces each [N, C] plane of float input 0 to one element: f(plane, count) -> double.
template <typename F>
Status EvaluateGlobalPool(EvalContext& c, F f) {
  QUERN_ASSIGN_OR_RETURN(InferredOutputs outputs, InferredOutputs::Make(c, InferGlobalPool));
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    const int64_t size = x.shape().num_elements(2, x.shape().rank());
    if (size == 0 && y.num_elements() > 0) return c.Error("the input has no elements to pool");
    for (int64_t i = 0; i < y.num_elements(); ++i) y[i] = static_cast<T>(f(x.data() + i * size, size));
    y.Finish();
    return OkStatus();
  });
}

}  // namespace quern
