// What the convolution operators share: shape inference, sizes, and a direct convolution that stands as the oracle.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "ops/common/eval_infer.h"
#include "ops/common/window.h"
#include "ops/op.h"

namespace quern {

// Which inputs of a node are the image, the weight and the bias (-1: none).
struct ConvInputs {
  int x = 0, weight = 1, bias = 2;
};

// Sets output 0 to [N, M, spatial...] of `dtype` (with attribute channels_last, and x likewise, [N, spatial..., M]);
// errors name the input that does not fit.
Status InferConv(InferContext& context, ConvInputs inputs, DType dtype);

struct ConvSizes {
  int64_t batch, in_channels, out_channels, groups;
  Window3 window;
};
// Sizes for inputs that passed InferConv on their actual shapes; `output` is the inferred shape.
Result<ConvSizes> MakeConvSizes(const EvalContext& context, const Shape& x, const Shape& weight, const Shape& output);

// Evaluates a float convolution of inputs 0 to 2: sums, plus the bias, plus input `addend` (of the output's shape; -1:
// none), through `activation` (null: none).
Status EvaluateFloatConv(EvalContext& context, int addend, const std::function<double(double)>& activation);

// Convolves x [batch, in_channels, in...] with weight [out_channels, in_channels / groups, kernel...]. Calls
// store(n, channel, sums) with the Acc sums of one output plane (out_size() of them) at a time.
template <typename T, typename Acc, typename Store>
void Convolve(const ConvSizes& s, const T* x, const T* weight, Store store) {
  const Window3& w = s.window;
  const int64_t in_size = w.in_size(), kernel_size = w.kernel_size();
  const int64_t group_in = s.in_channels / s.groups, group_out = s.out_channels / s.groups;
  std::vector<TapRange> taps[3];
  for (int d = 0; d < 3; ++d) {
    for (int64_t k = 0; k < w.kernel[d]; ++k) taps[d].push_back(ValidTaps(w, d, k));
  }
  std::vector<Acc> sums(static_cast<size_t>(w.out_size()));
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t m = 0; m < s.out_channels; ++m) {
      std::fill(sums.begin(), sums.end(), Acc{0});
      for (int64_t c = 0; c < group_in; ++c) {
        const T* plane = x + (n * s.in_channels + m / group_out * group_in + c) * in_size;
        const T* taps_of_weight = weight + (m * group_in + c) * kernel_size;
        for (const TapRange& a : taps[0]) {
          for (const TapRange& b : taps[1]) {
            for (const TapRange& r : taps[2]) {
              const Acc value = static_cast<Acc>(*taps_of_weight++);
              int64_t i0 = a.input_at_first;
              for (int64_t o0 = a.first; o0 < a.last; ++o0, i0 += w.stride[0]) {
                int64_t i1 = b.input_at_first;
                for (int64_t o1 = b.first; o1 < b.last; ++o1, i1 += w.stride[1]) {
                  Acc* out = sums.data() + (o0 * w.out[1] + o1) * w.out[2] + r.first;
                  const T* in = plane + (i0 * w.in[1] + i1) * w.in[2] + r.input_at_first;
                  const int64_t count = r.last - r.first;
                  if (w.stride[2] == 1) {
                    for (int64_t i = 0; i < count; ++i) out[i] += value * static_cast<Acc>(in[i]);
                  } else {
                    for (int64_t i = 0; i < count; ++i) out[i] += value * static_cast<Acc>(in[i * w.stride[2]]);
                  }
                }
              }
            }
          }
        }
      }
      store(n, m, sums.data());
    }
  }
}

}  // namespace quern
