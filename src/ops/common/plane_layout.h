// Quantized tensors whose channels come second or, where a node has the attribute channels_last, last.
#pragma once

#include <algorithm>

#include "ops/op.h"

namespace quern {

// Where the channels and the elements of a plane lie.
struct PlaneLayout {
  int64_t batch, channels, plane;
  bool channels_last;

  static PlaneLayout Of(const Node& node, const Shape& s) {
    const bool last = node.GetInt("channels_last", 0) != 0;
    const int first = last ? 1 : 2, end = last ? s.rank() - 1 : s.rank();
    return {s[0], last ? s.back() : s[1], s.num_elements(first, end), last};
  }
  int64_t At(int64_t sample, int64_t channel, int64_t position) const {
    return channels_last ? (sample * plane + position) * channels + channel
                         : (sample * channels + channel) * plane + position;
  }
};

// [N, spatial..., C] -> [N, C, spatial...], of a shape or an order of dimensions, and back.
template <typename S>
S ToChannelsSecond(S s) {
  std::rotate(s.begin() + 1, s.end() - 1, s.end());
  return s;
}
template <typename S>
S ToChannelsLast(S s) {
  std::rotate(s.begin() + 1, s.begin() + 2, s.end());
  return s;
}

// A shape with the channels second, for one whose channels may be last, and back.
template <typename S>
S ChannelsSecond(const Node& node, const S& s) {
  return node.GetInt("channels_last", 0) != 0 ? ToChannelsSecond(s) : s;
}
template <typename S>
S ChannelsAsGiven(const Node& node, const S& s) {
  return node.GetInt("channels_last", 0) != 0 ? ToChannelsLast(s) : s;
}

}  // namespace quern
