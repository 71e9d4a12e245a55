#include "parallel/hostile_executor.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "parallel/region.h"

namespace quern {

HostileExecutor::HostileExecutor(uint64_t seed, int concurrency)
    : concurrency_(concurrency < 1 ? 1 : concurrency), random_(seed) {}

int64_t HostileExecutor::Draw(int64_t below) {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
}

Status HostileExecutor::ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel, int max_slots) {
  if (total <= 0) return RegionStatus(cancel);
  if (grain < 1) grain = 1;
  const bool nested = RegionScope::Inside(this);
  const int slots = nested ? 1 : SlotCount(max_slots);
  const int64_t units = CeilDiv(total, grain);

  // Borders in units, then pieces in random order.
  constexpr int64_t kMaxPieces = 24;
  const int64_t cuts = Draw(std::min(units, kMaxPieces));
  std::vector<int64_t> borders = {0, units};
  for (int64_t i = 0; i < cuts; ++i) borders.push_back(Draw(units));
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::vector<IndexRange> pieces;
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    pieces.push_back({borders[i] * grain, borders[i + 1] == units ? total : borders[i + 1] * grain});
  }
  for (size_t i = pieces.size(); i > 1; --i) {
    std::swap(pieces[i - 1], pieces[static_cast<size_t>(Draw(static_cast<int64_t>(i)))]);
  }

  for (const IndexRange& piece : pieces) {
    if (cancel && cancel->cancelled()) break;
    const int slot = static_cast<int>(Draw(slots));
    const auto run = [&] {
      const RegionScope scope(this);
      task(slot, piece.begin, piece.end);
    };
    if (!nested && Draw(3) == 0) {
      std::thread(run).join();
    } else {
      run();
    }
  }
  return RegionStatus(cancel);
}

}  // namespace quern
