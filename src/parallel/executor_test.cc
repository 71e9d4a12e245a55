// The Executor's contract, tested on every back end; then what is particular to each.
#include "parallel/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/host_executor.h"
#include "parallel/hostile_executor.h"
#include "parallel/thread_pool.h"
#include "parallel/topology.h"

// The thread sanitizer brings an operator new of its own.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QUERN_TEST_NO_ALLOCATION_COUNT
#endif
#elif defined(__SANITIZE_THREAD__)
#define QUERN_TEST_NO_ALLOCATION_COUNT
#endif

#ifndef QUERN_TEST_NO_ALLOCATION_COUNT
namespace {
thread_local bool g_count_allocations = false;
std::atomic<int> g_allocations{0};
}  // namespace

// Counts allocations of threads that ask for it. Not inlined: compilers know that new and delete belong together.
[[gnu::noinline]] void* operator new(size_t size) {
  if (g_count_allocations) ++g_allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

namespace quern {
namespace {

// Hosts that keep the contract in different ways.
using HostFn = void (*)(void*, void (*)(void*, int64_t), void*, int64_t);
void HostThreads(void*, void (*body)(void*, int64_t), void* context, int64_t count) {
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) threads.emplace_back([=] { body(context, i); });
  for (std::thread& t : threads) t.join();
}
void HostBackwards(void*, void (*body)(void*, int64_t), void* context, int64_t count) {
  for (int64_t i = count; i-- > 0;) body(context, i);
}
void HostWithoutWorkers(void*, void (*)(void*, int64_t), void*, int64_t) {}
void HostSomeOnly(void*, void (*body)(void*, int64_t), void* context, int64_t count) {
  std::thread([=] { body(context, count - 1); }).join();
}
void HostRepeats(void*, void (*body)(void*, int64_t), void* context, int64_t) {
  std::vector<std::thread> threads;
  for (int64_t i : {int64_t{0}, int64_t{0}, int64_t{1}, int64_t{1}, int64_t{-7}, int64_t{1} << 40, int64_t{2}}) {
    threads.emplace_back([=] { body(context, i); });
  }
  for (std::thread& t : threads) t.join();
}

std::unique_ptr<Executor> MakeHost(HostFn fn, int concurrency) {
  return std::make_unique<HostExecutor>(HostParallel{nullptr, concurrency, fn});
}
std::unique_ptr<Executor> MakePool(int threads, int64_t spin_ns = -1) {
  return std::make_unique<ThreadPool>(ThreadPoolOptions{.threads = threads, .spin_ns = spin_ns});
}

struct Backend {
  const char* name;
  std::function<std::unique_ptr<Executor>()> make;
};

const Backend kBackends[] = {
    {"Inline", [] { return std::make_unique<InlineExecutor>(); }},
    {"Pool1", [] { return MakePool(1); }},
    {"Pool2", [] { return MakePool(2); }},
    {"Pool2Sleepy", [] { return MakePool(2, 0); }},
    {"Pool8", [] { return MakePool(8); }},
    {"Hostile", [] { return std::make_unique<HostileExecutor>(1); }},
    {"HostileOneSlot", [] { return std::make_unique<HostileExecutor>(2, 1); }},
    {"HostThreads", [] { return MakeHost(&HostThreads, 4); }},
    {"HostBackwards", [] { return MakeHost(&HostBackwards, 3); }},
    {"HostWithoutWorkers", [] { return MakeHost(&HostWithoutWorkers, 4); }},
    {"HostSomeOnly", [] { return MakeHost(&HostSomeOnly, 4); }},
    {"HostRepeats", [] { return MakeHost(&HostRepeats, 3); }},
    {"HostOne", [] { return MakeHost(&HostThreads, 1); }},
    {"HostNonsense", [] { return MakeHost(&HostBackwards, -3); }},
};

class EveryExecutor : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override { executor_ = GetParam().make(); }
  std::unique_ptr<Executor> executor_;
};

INSTANTIATE_TEST_SUITE_P(Backends, EveryExecutor, testing::ValuesIn(kBackends),
                         [](const auto& info) { return std::string(info.param.name); });

// Runs a region and checks all that the contract promises about its calls.
void CheckRegion(Executor& executor, int64_t total, int64_t grain, int max_slots = 0) {
  SCOPED_TRACE("total " + std::to_string(total) + " grain " + std::to_string(grain) + " max_slots " +
               std::to_string(max_slots));
  const int slots = executor.SlotCount(max_slots);
  ASSERT_GE(slots, 1);
  std::vector<int> visits(static_cast<size_t>(total), 0);  // plain: pieces are disjoint, so the sanitizer would object
  std::vector<std::atomic<int>> in_slot(static_cast<size_t>(slots));
  std::vector<int64_t> sums(static_cast<size_t>(slots), 0);  // scratch by slot, plain as well
  std::atomic<int> bad{0};
  const Status status = executor.ParallelFor(
      total, grain,
      [&](int slot, int64_t begin, int64_t end) {
        if (slot < 0 || slot >= slots || begin < 0 || begin >= end || end > total) {
          ++bad;
          return;
        }
        if (in_slot[static_cast<size_t>(slot)].fetch_add(1) != 0) ++bad;
        if (begin % grain != 0 || (end % grain != 0 && end != total)) ++bad;
        for (int64_t i = begin; i < end; ++i) {
          ++visits[static_cast<size_t>(i)];
          sums[static_cast<size_t>(slot)] += i;
        }
        in_slot[static_cast<size_t>(slot)].fetch_sub(1);
      },
      nullptr, max_slots);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(bad, 0);
  EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](int v) { return v == 1; }));
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), int64_t{0}), total * (total - 1) / 2);
}

TEST_P(EveryExecutor, GivesEachItemOnce) {
  for (int64_t total : {1, 2, 3, 7, 16, 49, 100, 1000, 4097}) {
    for (int64_t grain : {1, 2, 5, 16, 64, 5000}) CheckRegion(*executor_, total, grain);
  }
}

TEST_P(EveryExecutor, HonoursMaxSlots) {
  for (int max_slots : {1, 2, 3, 100}) {
    EXPECT_LE(executor_->SlotCount(max_slots), max_slots);
    CheckRegion(*executor_, 1000, 3, max_slots);
  }
}

TEST_P(EveryExecutor, EmptyRegionsRunNothing) {
  for (int64_t total : {int64_t{0}, int64_t{-5}, INT64_MIN}) {
    int calls = 0;
    EXPECT_TRUE(executor_->ParallelFor(total, 4, [&](int, int64_t, int64_t) { ++calls; }).ok());
    EXPECT_EQ(calls, 0);
  }
}

TEST_P(EveryExecutor, HugeRangesDoNotOverflow) {
  std::atomic<int64_t> items{0};
  const int64_t total = INT64_MAX;
  const auto count = [&](int, int64_t begin, int64_t end) { items += end - begin; };
  EXPECT_TRUE(executor_->ParallelFor(total, 1, count).ok());
  EXPECT_EQ(items, total);
  items = 0;
  EXPECT_TRUE(executor_->ParallelFor(total, total - 1, count).ok());
  EXPECT_EQ(items, total);
}

TEST_P(EveryExecutor, NonsenseGrainsMeanOne) {
  std::atomic<int64_t> items{0};
  for (int64_t grain : {int64_t{0}, int64_t{-3}}) {
    EXPECT_TRUE(executor_->ParallelFor(10, grain, [&](int, int64_t b, int64_t e) { items += e - b; }).ok());
  }
  EXPECT_EQ(items, 20);
}

TEST_P(EveryExecutor, NestedRegionsRunInlineWithOneSlot) {
  std::atomic<int64_t> items{0};
  std::atomic<int> bad{0};
  const Status status = executor_->ParallelFor(20, 1, [&](int, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t inner = 0;  // plain: all calls of the nested region come one after the other
      const Status nested = executor_->ParallelFor(30, 1, [&](int slot, int64_t b, int64_t e) {
        if (slot != 0) ++bad;
        const Status third = executor_->ParallelFor(2, 1, [&](int, int64_t b2, int64_t e2) { inner += 0 * (e2 - b2); });
        if (!third.ok()) ++bad;
        inner += e - b;
      });
      if (!nested.ok() || inner != 30) ++bad;
      items += inner;
    }
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(items, 600);
}

// Also where the outer region has a single piece, which no pool needs to distribute.
TEST_P(EveryExecutor, NestedInASinglePieceIsInlineToo) {
  std::atomic<int> bad{0};
  (void)executor_->ParallelFor(1, 1, [&](int, int64_t, int64_t) {
    (void)executor_->ParallelFor(1000, 1, [&](int slot, int64_t, int64_t) { bad += slot != 0; });
  });
  EXPECT_EQ(bad, 0);
}

TEST_P(EveryExecutor, ATokenSetBeforeRunsNothing) {
  CancelToken token;
  token.Cancel();
  std::atomic<int> calls{0};
  const auto task = [&](int, int64_t, int64_t) { ++calls; };
  EXPECT_EQ(executor_->ParallelFor(1000, 1, task, &token).code(), StatusCode::kCancelled);
  EXPECT_EQ(executor_->ParallelFor(1, 1, task, &token).code(), StatusCode::kCancelled);
  EXPECT_EQ(calls, 0);
  token.Reset();
  EXPECT_TRUE(executor_->ParallelFor(1000, 1, task, &token).ok());
  EXPECT_GT(calls, 0);
}

TEST_P(EveryExecutor, CancellingInsideStopsTheRest) {
  CancelToken token;
  std::atomic<int64_t> items{0};
  const Status status = executor_->ParallelFor(
      100000, 1,
      [&](int, int64_t begin, int64_t end) {
        items += end - begin;
        token.Cancel();
      },
      &token);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_GT(items, 0);
  // The executor is as good as before.
  CheckRegion(*executor_, 500, 1);
}

TEST_P(EveryExecutor, CancellingFromOutside) {
  CancelToken token;
  std::atomic<bool> begun{false};
  std::thread canceller([&] {
    while (!begun) std::this_thread::yield();
    token.Cancel();
  });
  const Status status = executor_->ParallelFor(
      1 << 20, 1,
      [&](int, int64_t, int64_t) {
        begun = true;
        while (!token.cancelled()) std::this_thread::yield();
      },
      &token);
  canceller.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
}

TEST_P(EveryExecutor, SeveralCallersAtOnce) {
  constexpr int kCallers = 6;
  std::vector<std::thread> callers;
  std::atomic<int> bad{0};
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      for (int round = 0; round < 40; ++round) {
        std::vector<int64_t> values(static_cast<size_t>(50 + 13 * c), 0);
        const Status status = executor_->ParallelFor(static_cast<int64_t>(values.size()), 1 + c % 3,
                                                     [&](int, int64_t begin, int64_t end) {
                                                       for (int64_t i = begin; i < end; ++i)
                                                         values[static_cast<size_t>(i)] += i + c;
                                                     });
        for (size_t i = 0; i < values.size(); ++i) bad += values[i] != static_cast<int64_t>(i) + c;
        bad += !status.ok();
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(bad, 0);
}

TEST_P(EveryExecutor, WhatTheCallerWroteIsSeenAndTheOtherWayRound) {
  std::vector<int64_t> values(300, 0);
  for (int round = 1; round <= 200; ++round) {
    for (int64_t& v : values) ++v;  // plain writes before, between and after regions
    ASSERT_TRUE(executor_
                    ->ParallelFor(300, 7,
                                  [&](int, int64_t begin, int64_t end) {
                                    for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] *= 2;
                                  })
                    .ok());
    for (int64_t& v : values) v /= 2;
  }
  for (int64_t v : values) ASSERT_EQ(v, 200);
}

TEST_P(EveryExecutor, GridsCoverEachCellOnce) {
  for (const Grid& grid : {Grid{.rows = 49, .cols = 100, .row_tile = 7, .col_tile = 48},
                           Grid{.rows = 49, .cols = 100, .row_tile = 8, .col_tile = 16, .grain = 3, .col_major = true},
                           Grid{.rows = 1, .cols = 1000, .row_tile = 8, .col_tile = 16}, Grid{.rows = 5, .cols = 3}}) {
    std::vector<int> visits(static_cast<size_t>(grid.rows * grid.cols), 0);
    const Status status = ParallelForGrid(*executor_, grid, [&](int, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
      if (r1 - r0 > grid.row_tile || c1 - c0 > grid.col_tile || r0 % grid.row_tile || c0 % grid.col_tile) return;
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c) ++visits[static_cast<size_t>(r * grid.cols + c)];
      }
    });
    ASSERT_TRUE(status.ok());
    EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](int v) { return v == 1; }));
  }
  int calls = 0;
  EXPECT_TRUE(ParallelForGrid(*executor_, {.rows = 0, .cols = 5}, [&](int, int64_t, int64_t, int64_t, int64_t) {
                ++calls;
              }).ok());
  EXPECT_EQ(calls, 0);
}

// HostileExecutor makes threads and lists; the others allocate nothing.
#ifndef QUERN_TEST_NO_ALLOCATION_COUNT
TEST(ThreadPool, RegionsDoNotAllocate) {
  ThreadPool pool({.threads = 3});
  std::atomic<int64_t> items{0};
  const HostExecutor host({nullptr, 4, &HostBackwards});
  HostExecutor host_copy = host;
  InlineExecutor inline_executor;
  CancelToken token;
  g_allocations = 0;
  for (Executor* executor :
       {static_cast<Executor*>(&pool), static_cast<Executor*>(&host_copy), static_cast<Executor*>(&inline_executor)}) {
    for (int round = 0; round < 100; ++round) {
      g_count_allocations = true;
      const Status status = executor->ParallelFor(
          100, 1,
          [&](int, int64_t begin, int64_t end) {
            const bool before = std::exchange(g_count_allocations, true);  // workers count too
            items += end - begin;
            g_count_allocations = before;
          },
          &token);
      g_count_allocations = false;
      ASSERT_TRUE(status.ok());
    }
  }
  EXPECT_EQ(g_allocations, 0);
  EXPECT_EQ(items, 3 * 100 * 100);
}
#endif

TEST(ThreadPool, UsesItsWorkers) {
  // Two items that wait for each other end only if two threads run them (legal here: it is this pool that is tested).
  for (const int64_t spin_ns : {int64_t{0}, int64_t{50'000}}) {
    ThreadPool pool({.threads = 2, .spin_ns = spin_ns});
    ASSERT_EQ(pool.concurrency(), 2);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> arrived{0};
      ASSERT_TRUE(pool.ParallelFor(2, 1,
                                   [&](int, int64_t, int64_t) {
                                     ++arrived;
                                     while (arrived < 2) std::this_thread::yield();
                                   })
                      .ok());
    }
  }
}

TEST(ThreadPool, AllWorkersJoinALongRegion) {
  ThreadPool pool({.threads = 8});
  ASSERT_EQ(pool.concurrency(), 8);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> arrived{0};
    ASSERT_TRUE(pool.ParallelFor(8, 1,
                                 [&](int, int64_t, int64_t) {
                                   ++arrived;
                                   while (arrived < 8) std::this_thread::yield();
                                 })
                    .ok());
  }
}

// A subset of two of four threads still gets its helper when the first worker is held by another caller's region.
TEST(ThreadPool, ASubsetIsServedByWhoeverIsFree) {
  ThreadPool pool({.threads = 4});
  std::atomic<int> holders{0};
  std::atomic<bool> release{false};
  std::thread other([&] {
    (void)pool.ParallelFor(
        2, 1,
        [&](int, int64_t, int64_t) {
          ++holders;
          while (!release) std::this_thread::yield();
        },
        nullptr, 2);
  });
  while (holders < 2) std::this_thread::yield();
  std::atomic<int> arrived{0};
  const Status status = pool.ParallelFor(
      2, 1,
      [&](int, int64_t, int64_t) {
        ++arrived;
        while (arrived < 2) std::this_thread::yield();
      },
      nullptr, 2);
  EXPECT_TRUE(status.ok());
  release = true;
  other.join();
}

TEST(ThreadPool, MoreCallersThanRegionPlaces) {
  ThreadPool pool({.threads = 3});
  constexpr int kCallers = 24;
  std::atomic<int> inside{0};
  std::atomic<int64_t> items{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&] {
      ++inside;
      while (inside < kCallers) std::this_thread::yield();
      for (int round = 0; round < 20; ++round) {
        (void)pool.ParallelFor(100, 1, [&](int, int64_t begin, int64_t end) { items += end - begin; });
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(items, kCallers * 20 * 100);
}

// A slow slot's share is taken over: one item blocks until all the others are done.
TEST(ThreadPool, OthersHelpASlowSlot) {
  ThreadPool pool({.threads = 2});
  constexpr int64_t kItems = 12;  // as many chunks as items: two slots of six
  std::atomic<int64_t> done{0};
  ASSERT_TRUE(pool.ParallelFor(kItems, 1,
                               [&](int, int64_t begin, int64_t end) {
                                 for (int64_t i = begin; i < end; ++i) {
                                   while (i == 0 && done < kItems - 1) std::this_thread::yield();
                                   ++done;
                                 }
                               })
                  .ok());
  EXPECT_EQ(done, kItems);
}

TEST(ThreadPool, APoolInsideAnothersTaskRunsInParallel) {
  ThreadPool outer({.threads = 2}), inner({.threads = 3});
  std::atomic<int64_t> items{0};
  ASSERT_TRUE(outer
                  .ParallelFor(10, 1,
                               [&](int, int64_t begin, int64_t end) {
                                 for (int64_t i = begin; i < end; ++i) {
                                   (void)inner.ParallelFor(50, 1, [&](int, int64_t b, int64_t e) { items += e - b; });
                                 }
                               })
                  .ok());
  EXPECT_EQ(items, 500);
}

TEST(ThreadPool, ComesAndGoes) {
  for (int round = 0; round < 30; ++round) {
    ThreadPool pool({.threads = 1 + round % 9, .spin_ns = round % 2 ? 0 : 20'000});
    if (round % 3 == 0) continue;  // destroyed before it did anything
    CheckRegion(pool, 100, 1);
    if (round % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(100));  // its workers may sleep by now
  }
}

TEST(ThreadPool, DefaultsAndSpin) {
  ThreadPool pool;
  EXPECT_EQ(pool.concurrency(), DefaultThreadCount());
  pool.SetSpin(1234);
  EXPECT_EQ(pool.spin_ns(), 1234);
  pool.SetSpin(-1);
  EXPECT_EQ(pool.spin_ns(), 0);
  CheckRegion(pool, 100, 1);
  // Nobody spins where there are more threads than cores.
  ThreadPool crowded({.threads = static_cast<int>(UsableCpus().size()) + 1});
  EXPECT_EQ(crowded.spin_ns(), 0);
}

TEST(HostileExecutor, IsHostile) {
  HostileExecutor executor(3);
  bool out_of_order = false, other_thread = false, odd_slot = false, uneven = false;
  const std::thread::id self = std::this_thread::get_id();
  for (int round = 0; round < 20; ++round) {
    int64_t last = -1, first_size = -1;
    ASSERT_TRUE(executor
                    .ParallelFor(1000, 1,
                                 [&](int slot, int64_t begin, int64_t end) {
                                   out_of_order |= begin < last;
                                   other_thread |= std::this_thread::get_id() != self;
                                   odd_slot |= slot > 0;
                                   if (first_size < 0) first_size = end - begin;
                                   uneven |= end - begin != first_size;
                                   last = begin;
                                 })
                    .ok());
  }
  EXPECT_TRUE(out_of_order && other_thread && odd_slot && uneven);
}

TEST(FunctionRef, CallsWhatItRefersTo) {
  int calls = 0;
  const auto add = [&](int x) { return calls += x; };
  const FunctionRef<int(int)> ref = add;
  EXPECT_EQ(ref(2), 2);
  EXPECT_EQ(ref(3), 5);
  const auto moves = [](std::unique_ptr<int> p) { return *p; };
  const FunctionRef<int(std::unique_ptr<int>)> taker = moves;
  EXPECT_EQ(taker(std::make_unique<int>(9)), 9);
  static_assert(sizeof(ref) == 2 * sizeof(void*));
}

}  // namespace
}  // namespace quern
