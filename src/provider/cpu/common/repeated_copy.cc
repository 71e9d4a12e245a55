#include "provider/cpu/common/repeated_copy.h"

#include <algorithm>
#include <cstring>

#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// `count` copies of the `bytes` at `from`, one behind the other. Short rows go in pieces, as calls of memcpy would take
// longer than they.
template <size_t kBytes>
void RepeatElements(const char* from, int64_t bytes, char* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i, to += bytes) {
    for (int64_t at = 0; at < bytes; at += kBytes) std::memcpy(to + at, from + at, kBytes);
  }
}
void Repeat(const char* from, int64_t bytes, size_t element_bytes, char* to, int64_t count) {
  constexpr int64_t kPiece = 16, kLong = 256;  // bytes
  if (bytes >= kLong) {
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, from, static_cast<size_t>(bytes));
    return;
  }
  if (bytes >= kPiece) {
    for (int64_t i = 0; i < count; ++i, to += bytes) {
      for (int64_t at = 0; at < bytes - kPiece; at += kPiece) std::memcpy(to + at, from + at, kPiece);
      std::memcpy(to + bytes - kPiece, from + bytes - kPiece, kPiece);
    }
    return;
  }
  const int64_t first = std::min(count, (kLong + bytes - 1) / bytes);  // then what is written is long enough to copy
  switch (element_bytes) {
    case 1:
      RepeatElements<1>(from, bytes, to, first);
      break;
    case 2:
      RepeatElements<2>(from, bytes, to, first);
      break;
    case 4:
      RepeatElements<4>(from, bytes, to, first);
      break;
    default:
      RepeatElements<8>(from, bytes, to, first);
  }
  const int64_t total = bytes * count;
  for (int64_t done = bytes * first; done < total;) {
    const int64_t next = std::min(done, total - done);
    std::memcpy(to + done, to, static_cast<size_t>(next));
    done += next;
  }
}

}  // namespace

RepeatedCopy::RepeatedCopy(const Shape& in, const Shape& out, size_t element_bytes) : element_bytes_(element_bytes) {
  const auto bytes = static_cast<int64_t>(element_bytes);
  const Shape from = in.ContiguousStrides(), to = out.ContiguousStrides();
  for (int d = in.rank() - 1; d >= 0; --d) {
    const int64_t repeats = out[d] / in[d];
    if (Level& inner = levels_[std::max(0, depth_ - 1)]; depth_ > 0 && (in[d] == 1 || inner.repeats == 1)) {
      inner.extent *= in[d];
      inner.repeats *= repeats;
    } else {
      levels_[depth_++] = {in[d], repeats, from[d] * bytes, to[d] * bytes};
    }
  }
  if (depth_ == 0) levels_[depth_++] = {1, 1, bytes, bytes};
}

Status RepeatedCopy::Run(const void* source, void* destination, Executor& executor, const CancelToken* cancel) const {
  const auto* from = static_cast<const char*>(source);
  auto* to = static_cast<char*>(destination);
  const StepContext c{.inputs = {}, .outputs = {}, .executor = &executor, .cancel = cancel};
  const Level& outer = levels_[depth_ - 1];
  const int64_t bytes = outer.extent * outer.to_bytes;
  const int64_t grain_bytes = 4 * kCheapGrain;
  if (depth_ == 1) {
    QUERN_RETURN_IF_ERROR(ForRange(
        c, outer.repeats, std::max<int64_t>(1, grain_bytes / bytes),
        [&](int64_t begin, int64_t end) { Repeat(from, bytes, element_bytes_, to + begin * bytes, end - begin); }));
    return OkStatus();
  }
  QUERN_RETURN_IF_ERROR(
      ForRange(c, outer.extent, std::max<int64_t>(1, grain_bytes / outer.to_bytes), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          Write(depth_ - 2, from + i * outer.from_bytes, to + i * outer.to_bytes);
        }
      }));
  return ForRange(c, outer.repeats - 1, std::max<int64_t>(1, grain_bytes / bytes), [&](int64_t begin, int64_t end) {
    Repeat(to, bytes, element_bytes_, to + (begin + 1) * bytes, end - begin);
  });
}

void RepeatedCopy::Write(int level, const char* from, char* to) const {
  const Level& l = levels_[static_cast<size_t>(level)];
  if (level == 0) return Repeat(from, l.extent * l.from_bytes, element_bytes_, to, l.repeats);
  for (int64_t i = 0; i < l.extent; ++i) Write(level - 1, from + i * l.from_bytes, to + i * l.to_bytes);
  const int64_t bytes = l.extent * l.to_bytes;
  Repeat(to, bytes, element_bytes_, to + bytes, l.repeats - 1);
}

}  // namespace quern::cpu
