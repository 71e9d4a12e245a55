// The integer convolution behind ConvInteger and QLinearConv.
#pragma once

#include <utility>
#include <vector>

#include "ops/common/convolution.h"
#include "ops/common/integer_io.h"
#include "ops/common/plane_layout.h"

namespace quern {

// Inputs of an integer convolution by index.
struct IntegerConvInputs {
  int x, x_zero_point, weight, weight_zero_point;
};

// Sums of (x - zero point) * (w - zero point of the channel); padding contributes nothing. Calls
// store(n, channel, sums) per output plane. x may have its channels last.
template <typename Store>
Status ConvolveIntegers(EvalContext& c, IntegerConvInputs in, const ConvSizes& sizes, Store store) {
  const Tensor& weight = c.input(in.weight);
  QUERN_ASSIGN_OR_RETURN(std::vector<int32_t> x_zero, ReadZeroPoints(c, in.x_zero_point, 1));
  QUERN_ASSIGN_OR_RETURN(std::vector<int32_t> w_zero, ReadZeroPoints(c, in.weight_zero_point, sizes.out_channels));
  std::vector<int32_t> x = WidenIntegers(c.input(in.x)), w = WidenIntegers(weight);
  for (int32_t& v : x) v -= x_zero[0];
  if (const PlaneLayout given = PlaneLayout::Of(c.node(), c.input(in.x).shape()); given.channels_last) {
    const std::vector<int32_t> as_given = std::exchange(x, std::vector<int32_t>(x.size()));
    PlaneLayout wanted = given;
    wanted.channels_last = false;
    for (int64_t n = 0; n < given.batch; ++n) {
      for (int64_t channel = 0; channel < given.channels; ++channel) {
        for (int64_t i = 0; i < given.plane; ++i) x[wanted.At(n, channel, i)] = as_given[given.At(n, channel, i)];
      }
    }
  }
  const int64_t per_channel = weight.shape().num_elements(1, weight.rank());
  for (int64_t m = 0; m < sizes.out_channels; ++m) {
    for (int64_t i = 0; i < per_channel; ++i) w[m * per_channel + i] -= w_zero[m];
  }
  Convolve<int32_t, int64_t>(sizes, x.data(), w.data(), store);
  return OkStatus();
}

}  // namespace quern
