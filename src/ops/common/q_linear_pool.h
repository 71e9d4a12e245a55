// Pooling of quantized tensors whose channels come second, or (attribute channels_last) last.
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

// A shape with the channels second, for one whose channels may be last, and back.
template <typename S>
S ChannelsSecond(const Node& node, const S& s) {
  S result = s;
  if (node.GetInt("channels_last", 0) != 0) std::rotate(result.begin() + 1, result.end() - 1, result.end());
  return result;
}
template <typename S>
S ChannelsAsGiven(const Node& node, const S& s) {
  S result = s;
  if (node.GetInt("channels_last", 0) != 0) std::rotate(result.begin() + 1, result.begin() + 2, result.end());
  return result;
}

}  // namespace quern
