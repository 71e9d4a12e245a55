#include "provider/cpu/common/indexed_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

bool IsIdentity(const std::vector<int64_t>& positions, int64_t extent) {
  if (static_cast<int64_t>(positions.size()) != extent) return false;
  for (int64_t i = 0; i < extent; ++i) {
    if (positions[static_cast<size_t>(i)] != i) return false;
  }
  return true;
}

struct Block16 {
  uint64_t words[2];
};

// How often each of neighbouring places comes, where all come as often: 1 where they do not, or more than four times.
int64_t TimesEach(const std::vector<int64_t>& places) {
  const auto is_repeated = [&](int64_t times) {
    if (static_cast<int64_t>(places.size()) % times) return false;
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] != places[0] + static_cast<int64_t>(i) / times) return false;
    }
    return true;
  };
  for (const int64_t times : {2, 3, 4}) {
    if (is_repeated(times)) return times;
  }
  return 1;
}

// Each of n elements kTimes times, for both rows.
template <int64_t kTimes, typename T>
void Repeat(const T* __restrict from, int64_t n, T* __restrict to, T* __restrict second) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t t = 0; t < kTimes; ++t) to[i * kTimes + t] = second[i * kTimes + t] = from[i];
  }
}
template <int64_t kTimes, typename T>
void Repeat(const T* __restrict from, int64_t n, T* __restrict to) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t t = 0; t < kTimes; ++t) to[i * kTimes + t] = from[i];
  }
}

}  // namespace

IndexedCopy IndexedCopy::Prepare(const Shape& in, const std::vector<std::vector<int64_t>>& positions,
                                 size_t element_bytes) {
  IndexedCopy c;
  c.element_bytes_ = element_bytes;
  const Shape strides = in.ContiguousStrides();
  // Trailing dimensions that stay as they are make a block; the dimension before them makes the rows.
  int last = in.rank();
  int64_t block = 1;
  while (last > 0 && IsIdentity(positions[static_cast<size_t>(last - 1)], in[last - 1])) block *= in[--last];
  for (int d = 0; d < last - 1; ++d) {
    const std::vector<int64_t>& from = positions[static_cast<size_t>(d)];
    std::vector<int64_t> steps;
    for (int64_t p : from) steps.push_back(p < 0 ? -1 : p * strides[d]);
    c.outer_.push_back(static_cast<int64_t>(from.size()));
    c.steps_.push_back(std::move(steps));
  }
  if (last == 0) {
    c.row_.push_back({0, block});
    c.row_elements_ = block;
    return c;
  }
  for (int64_t p : positions[static_cast<size_t>(last - 1)]) {
    const int64_t from = p < 0 ? -1 : p * block;
    Segment* before = c.row_.empty() ? nullptr : &c.row_.back();
    if (before && (from < 0 ? before->from < 0 : before->from >= 0 && before->from + before->count == from)) {
      before->count += block;
    } else {
      c.row_.push_back({from, block});
    }
    c.row_elements_ += block;
  }
  const bool fills = std::any_of(c.row_.begin(), c.row_.end(), [](const Segment& s) { return s.from < 0; });
  if (!fills && static_cast<int64_t>(c.row_.size()) * 2 > c.row_elements_) {
    for (const Segment& s : c.row_) {
      for (int64_t i = 0; i < s.count; ++i) c.places_.push_back(s.from + i);
    }
    c.row_.clear();
    c.times_ = TimesEach(c.places_);
  }
  return c;
}

template <typename T>
void IndexedCopy::RunRows(const T* from, T fill, T* to, int64_t begin, int64_t end) const {
  constexpr int64_t kShort = 16;  // elements below which a loop beats a call of memcpy
  const int last = outer_.rank() - 1;
  const int64_t neighbours = last < 0 ? 1 : outer_[last];
  int64_t before = -1;  // where the row before was read
  int64_t line = 0;     // the step of the outer dimensions but the last; -1: outside
  for (int64_t row = begin, next = row % neighbours; row < end; ++row, ++next) {
    if (next == neighbours) next = 0;
    if (row == begin || next == 0) {
      line = 0;
      int64_t rest = row / neighbours;
      for (int d = last - 1; d >= 0; --d) {
        const int64_t step = steps_[static_cast<size_t>(d)][static_cast<size_t>(rest % outer_[d])];
        line = line < 0 || step < 0 ? -1 : line + step;
        rest /= outer_[d];
      }
    }
    const int64_t step = last < 0 ? 0 : steps_[static_cast<size_t>(last)][static_cast<size_t>(next)];
    const int64_t at = line + step;
    const bool inside = line >= 0 && step >= 0;
    T* y = to + row * row_elements_;
    if (!inside) {
      std::fill_n(y, row_elements_, fill);
      before = -1;
      continue;
    }
    if (std::exchange(before, at) == at) {
      std::memcpy(y, y - row_elements_, static_cast<size_t>(row_elements_) * sizeof(T));
      continue;
    }
    if (times_ == 1) {
      for (size_t i = 0; i < places_.size(); ++i) y[i] = from[at + places_[i]];
    } else {
      const T* x = from + at + places_[0];
      const bool again = row + 1 < end && next + 1 < neighbours && steps_.back()[static_cast<size_t>(next + 1)] == step;
      const auto repeat = [&]<int64_t kTimes>() {
        again ? Repeat<kTimes>(x, row_elements_ / kTimes, y, y + row_elements_)
              : Repeat<kTimes>(x, row_elements_ / kTimes, y);
      };
      if (times_ == 2) repeat.template operator()<2>();
      if (times_ == 3) repeat.template operator()<3>();
      if (times_ == 4) repeat.template operator()<4>();
      if (again) ++row, ++next;
    }
    for (const Segment& s : row_) {
      if (s.from < 0) {
        std::fill_n(y, s.count, fill);
      } else if (s.count < kShort) {
        for (int64_t i = 0; i < s.count; ++i) y[i] = from[at + s.from + i];
      } else {
        std::memcpy(y, from + at + s.from, static_cast<size_t>(s.count) * sizeof(T));
      }
      y += s.count;
    }
  }
}

Status IndexedCopy::Run(const StepContext& context, const void* from, const void* fill, void* to) const {
  const int64_t rows = outer_.num_elements();
  if (rows == 0 || row_elements_ == 0) return OkStatus();
  const int64_t grain = std::max<int64_t>(1, kCheapGrain / row_elements_);
  return ForRange(context, rows, grain, [&](int64_t begin, int64_t end) {
    auto run = [&]<typename T>(T value) {
      if (fill) std::memcpy(&value, fill, sizeof value);
      RunRows(static_cast<const T*>(from), value, static_cast<T*>(to), begin, end);
    };
    switch (element_bytes_) {
      case 1:
        return run(uint8_t{});
      case 2:
        return run(uint16_t{});
      case 4:
        return run(uint32_t{});
      case 8:
        return run(uint64_t{});
      default:
        return run(Block16{});
    }
  });
}

}  // namespace quern::cpu
