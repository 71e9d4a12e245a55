// Executor: the one interface through which anything in Quern uses threads.
// Back ends: ThreadPool, InlineExecutor, HostExecutor (a framework's own pool), HostileExecutor (for tests).
#pragma once

#include <cstdint>

#include "base/status.h"
#include "parallel/cancel.h"
#include "parallel/function_ref.h"

namespace quern {

// task(slot, begin, end): computes the items [begin, end). Must not throw.
using Task = FunctionRef<void(int slot, int64_t begin, int64_t end)>;

// A region is one ParallelFor call. What a task may rely on, with every back end:
// - each item of [0, total) is given to exactly one call, before ParallelFor returns (unless it returns an error);
// - slot is in [0, SlotCount(max_slots)), and no two calls of one region run at the same time with the same slot: use
//   it to index scratch that belongs to this region;
// - what the caller wrote before the region is seen by all tasks, what tasks wrote is seen by the caller after it.
// What it may not rely on: calls may run one after the other, in any order, on any threads, with any slots, the calling
// thread or not, so a task never waits for another (no barriers inside a region).
class Executor {
 public:
  virtual ~Executor() = default;

  // Most slots of a region, at least 1; constant over the executor's life.
  virtual int concurrency() const = 0;

  // Runs task over [0, total), cut at multiples of grain (at least 1; only the last piece may be shorter than it), and
  // returns when all of it is done. At most max_slots slots are used (0: concurrency()). Any number of threads may call
  // at once. A call from inside a task of the same executor runs inline, as a region of its own with the one slot 0.
  // Allocates nothing (HostileExecutor excepted). Returns kCancelled when the token is set before the end: parts may
  // then not have run. No items: nothing runs.
  virtual Status ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel = nullptr,
                             int max_slots = 0) = 0;

  // Slots that a region with this max_slots may use: how many scratch areas a caller needs.
  int SlotCount(int max_slots = 0) const {
    const int most = concurrency();
    return max_slots > 0 && max_slots < most ? max_slots : most;
  }
};

// task(slot, row_begin, row_end, col_begin, col_end): one tile of a grid.
using TileTask = FunctionRef<void(int slot, int64_t row_begin, int64_t row_end, int64_t col_begin, int64_t col_end)>;

struct Grid {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_tile = 1;  // tiles at the right and bottom border are smaller
  int64_t col_tile = 1;
  int64_t grain = 1;       // tiles per call of the back end at least
  bool col_major = false;  // order of tiles: down the columns first (neighbours in time share the columns)
};

// ParallelFor over the tiles of a grid.
inline Status ParallelForGrid(Executor& executor, const Grid& grid, TileTask task, const CancelToken* cancel = nullptr,
                              int max_slots = 0) {
  if (grid.rows <= 0 || grid.cols <= 0) return OkStatus();
  const int64_t row_tiles = (grid.rows - 1) / grid.row_tile + 1;
  const int64_t col_tiles = (grid.cols - 1) / grid.col_tile + 1;
  auto body = [&](int slot, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = (grid.col_major ? t % row_tiles : t / col_tiles) * grid.row_tile;
      const int64_t col = (grid.col_major ? t / row_tiles : t % col_tiles) * grid.col_tile;
      const int64_t row_end = grid.rows - row < grid.row_tile ? grid.rows : row + grid.row_tile;
      const int64_t col_end = grid.cols - col < grid.col_tile ? grid.cols : col + grid.col_tile;
      task(slot, row, row_end, col, col_end);
    }
  };
  return executor.ParallelFor(row_tiles * col_tiles, grid.grain, body, cancel, max_slots);
}

// Runs everything on the calling thread, in order.
class InlineExecutor final : public Executor {
 public:
  int concurrency() const override { return 1; }
  Status ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel = nullptr,
                     int max_slots = 0) override;
};

}  // namespace quern
