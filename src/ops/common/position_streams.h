// Which of the three positions of an element - in time, height, width - turns each pair of a head, for
// com.microsoft's MRotaryEmbedding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern {

// Stream 0, 1 or 2 of each pair. Sections of 3 numbers >= 0 that add up to the pairs. They lie one after another, or
// with `interleaved` take turns: h and w every third pair from 1 and 2 on, as many as they have (as fit), t the rest.
inline std::vector<uint8_t> PositionStreams(std::span<const int64_t> sections, bool interleaved) {
  const int64_t pairs = sections[0] + sections[1] + sections[2];
  std::vector<uint8_t> streams(static_cast<size_t>(pairs), 0);
  int64_t at = sections[0];  // of the next section
  for (uint8_t stream = 1; stream < 3; ++stream) {
    const int64_t first = interleaved ? stream : at, step = interleaved ? 3 : 1;
    for (int64_t i = 0; i < sections[stream] && first + i * step < pairs; ++i) streams[first + i * step] = stream;
    at += sections[stream];
  }
  return streams;
}

}  // namespace quern
