// What a parallel region costs: empty regions and small ones, by threads, spinning and sleeping.
#include <benchmark/benchmark.h>

#include <cmath>

#include "parallel/executor.h"
#include "parallel/thread_pool.h"

namespace quern {
namespace {

// Regions that follow each other at once: workers are found spinning.
void EmptyRegion(benchmark::State& state) {
  ThreadPool pool({.threads = static_cast<int>(state.range(0))});
  const int64_t total = state.range(0);
  for (auto _ : state) {
    benchmark::DoNotOptimize(pool.ParallelFor(total, 1, [](int, int64_t, int64_t) {}).ok());
  }
}
BENCHMARK(EmptyRegion)->ArgName("threads")->Arg(1)->Arg(2)->Arg(4)->UseRealTime();

// Workers sleep after each region, so each region wakes them.
void EmptyRegionSleeping(benchmark::State& state) {
  ThreadPool pool({.threads = static_cast<int>(state.range(0)), .spin_ns = 0});
  const int64_t total = state.range(0);
  for (auto _ : state) {
    benchmark::DoNotOptimize(pool.ParallelFor(total, 1, [](int, int64_t, int64_t) {}).ok());
  }
}
BENCHMARK(EmptyRegionSleeping)->ArgName("threads")->Arg(2)->Arg(4)->UseRealTime();

// About 20 microseconds of work on one thread: the smallest region that is worth its cost.
void SmallRegion(benchmark::State& state) {
  ThreadPool pool({.threads = static_cast<int>(state.range(0))});
  for (auto _ : state) {
    benchmark::DoNotOptimize(pool.ParallelFor(64, 1,
                                              [](int, int64_t begin, int64_t end) {
                                                for (int64_t i = begin; i < end; ++i) {
                                                  float x = static_cast<float>(i + 1);
                                                  for (int k = 0; k < 60; ++k) x = std::sqrt(x + 1.0f);
                                                  benchmark::DoNotOptimize(x);
                                                }
                                              })
                                 .ok());
  }
}
BENCHMARK(SmallRegion)->ArgName("threads")->Arg(1)->Arg(2)->Arg(4)->UseRealTime();

}  // namespace
}  // namespace quern
