// Measures peaks: every loop in short slices, in turn, so that a change of the clock meets all alike.
#include "kernels/peak.h"

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>
#include <thread>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "ukernel/peak.h"

namespace quern::kernels {
namespace {

using ukernel::PeakKernel;

// Results end here, so that no loop can be dropped.
volatile uint64_t g_sink;

const void* RandomData() {
  alignas(64) static unsigned char data[ukernel::kPeakDataBytes];
  static const bool filled = [] {
    std::mt19937 rng(1);
    for (unsigned char& x : data) x = static_cast<unsigned char>(rng());
    return true;
  }();
  return filled ? data : nullptr;
}

bool Runs(const PeakKernel& row, const CpuFacts& cpu) {
  return row.run && IsaRunsOn(row.isa, cpu) && IsaRunsOn(row.isa, HostCpu().facts());
}

// The row of memory with the widest registers.
const PeakKernel* WidestMemory(const CpuFacts& cpu) {
  const PeakKernel* best = nullptr;
  for (const auto* list : ukernel::AllPeakKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const PeakKernel& row = list->rows[i];
      if (!row.read || !IsaRunsOn(row.isa, cpu) || !IsaRunsOn(row.isa, HostCpu().facts())) continue;
      if (!best || row.vector_bytes > best->vector_bytes) best = &row;
    }
  }
  return best;
}

// Calls work(amount), which does that much, for about `seconds` of this thread's time; the amount per second.
template <class Work>
double Rate(double seconds, const Work& work) {
  double done = 0, spent = 0;
  const double begin = ThreadSeconds();
  do {
    done += work();
    spent = ThreadSeconds() - begin;
  } while (spent < seconds);
  return done / spent;
}

double Slice(const PeakKernel& row, double seconds) {
  size_t steps = 1000;
  const double operations = PeakOperations(row, HostCpu().facts());
  return Rate(seconds, [&] {
    const double now = ThreadSeconds();
    const size_t run = steps;
    g_sink = g_sink + row.run(run, RandomData());
    if (ThreadSeconds() - now < 1e-3) steps *= 2;
    return operations * static_cast<double>(run) / 1e9;
  });
}

enum class Access : uint8_t { kRead, kCopy };

// Reads `bytes`, or copies the first half of them to the second.
double MemorySlice(const PeakKernel& row, Access access, std::byte* memory, size_t bytes, double seconds) {
  const size_t grain = ukernel::kPeakMemoryGrain, half = bytes / 2 / grain * grain;
  const size_t all = bytes / grain * grain;
  const auto repeats = static_cast<int>(std::max<size_t>(1, (size_t{1} << 20) / all));  // the clock is not free
  return Rate(seconds, [&] {
    for (int i = 0; i < repeats; ++i) {
      if (access == Access::kCopy) {
        row.copy(memory + half, memory, half);
      } else {
        g_sink = g_sink + row.read(memory, all);
      }
    }
    return static_cast<double>(access == Access::kCopy ? half : all) * repeats / 1e9;
  });
}

struct Series {
  Peak peak;
  const PeakKernel* row = nullptr;
  Access access = Access::kRead;
  size_t bytes = 0;  // of each thread
  std::vector<double> values;
};

// The sum of what `threads` threads reach at the same time.
template <class Slice>
double Together(int threads, const Slice& slice) {
  if (threads <= 1) return slice(0);
  std::vector<double> rates(static_cast<size_t>(threads));
  std::barrier start(threads);
  const auto run = [&](int thread) {
    start.arrive_and_wait();
    rates[static_cast<size_t>(thread)] = slice(thread);
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(run, t);
  run(0);
  others.clear();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

struct Level {
  const char* name;
  size_t bytes;  // of each thread
};

// Working sets that lie in each level: half of it, and of L3 not more than tells it from L2. `memory` is of all
// threads.
std::vector<Level> Levels(const CpuInfo& host, size_t memory, int threads) {
  const CpuFacts facts = host.facts();
  const auto count = static_cast<size_t>(threads);
  const size_t l2 = host.l2.bytes ? facts.l2_bytes : 0;
  std::vector<Level> levels;
  if (host.l1d.bytes) levels.push_back({"l1", facts.l1d_bytes / 2});
  if (l2) levels.push_back({"l2", l2 / 2});
  const size_t l3 = std::min<size_t>(host.l3.bytes / 2, 16 * l2 * count) / count;
  if (l3 >= 2 * l2 && l3 > 0) levels.push_back({"l3", l3});
  levels.push_back({"memory", memory / count});
  return levels;
}

}  // namespace

double ThreadSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::string PeakName(const PeakKernel& loop) { return std::string(loop.engine) + " " + loop.isa.name; }

std::string PeakNameOf(std::string_view kernel) {
  const CpuFacts host = HostCpu().facts();
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      if (kernel != Name(list->rows[i]).text) continue;
      const PeakKernel* loop = PeakOf(list->rows[i], host);
      return loop ? PeakName(*loop) : "";
    }
  }
  return "";
}

const PeakKernel& WidestFma(const CpuFacts& cpu) {
  const PeakKernel* best = nullptr;
  for (const auto* list : ukernel::AllPeakKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const PeakKernel& row = list->rows[i];
      if (row.multiplies != ukernel::Format::kF32 || row.m_scale != ukernel::VectorScale::kFixed || !Runs(row, cpu)) {
        continue;
      }
      // Portable code is the last resort, whatever it does in a step.
      const auto rank = [](const PeakKernel& r) { return r.isa.any_arch ? 0.0 : PeakOperations(r, HostCpu().facts()); };
      if (!best || rank(row) > rank(*best)) best = &row;
    }
  }
  QUERN_CHECK(best, "the portable loop is always there");
  return *best;
}

size_t ColdBytes(int threads) {
  constexpr size_t kLeastOfThread = size_t{64} << 20, kMost = size_t{512} << 20;
  return std::min(kMost, std::max(kLeastOfThread, HostCpu().l3.bytes * 10) * static_cast<size_t>(threads));
}

double MeasureSlice(const PeakKernel& loop, double seconds, int threads) {
  return Together(threads, [&](int) { return Slice(loop, seconds); });
}

std::vector<Peak> MeasurePeaks(const CpuInfo& cpu, const PeakOptions& options) {
  const CpuFacts facts = cpu.facts();
  std::vector<Series> all;
  for (const auto* list : ukernel::AllPeakKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const PeakKernel& row = list->rows[i];
      if (!Runs(row, facts)) continue;
      Series s;
      s.peak.name = PeakName(row);
      s.peak.unit = row.unit;
      s.row = &row;
      all.push_back(std::move(s));
    }
  }
  AlignedBuffer buffer;
  const PeakKernel* mover = options.bandwidth ? WidestMemory(facts) : nullptr;
  const int threads = std::max(1, options.threads);
  size_t share = 0;
  if (mover) {
    const CpuInfo& host = HostCpu();
    const size_t memory = ColdBytes(threads);
    Result<AlignedBuffer> made = AlignedBuffer::Allocate(memory, {.huge_pages = true});
    if (made.ok()) {
      buffer = std::move(*made);
      std::memset(buffer.data(), 1, memory);
      share = memory / static_cast<size_t>(threads) / 4096 * 4096;
      for (const Level& level : Levels(host, memory, threads)) {
        for (Access access : {Access::kRead, Access::kCopy}) {
          Series s;
          s.peak.name = std::string(access == Access::kRead ? "read " : "copy ") + level.name;
          s.peak.unit = mover->unit;
          s.access = access;
          s.bytes = std::min(level.bytes, share);
          all.push_back(std::move(s));
        }
      }
    }
  }
  for (int round = 0; round < std::max(1, options.rounds); ++round) {
    for (Series& s : all) {
      s.values.push_back(Together(threads, [&](int thread) {
        if (s.row) return Slice(*s.row, options.seconds_per_round);
        std::byte* memory = buffer.data() + share * static_cast<size_t>(thread);
        return MemorySlice(*mover, s.access, memory, s.bytes, options.seconds_per_round);
      }));
    }
  }
  std::vector<Peak> peaks;
  for (Series& s : all) {
    std::sort(s.values.begin(), s.values.end());
    s.peak.value = s.values[s.values.size() / 2];
    s.peak.best = s.values.back();
    peaks.push_back(std::move(s.peak));
  }
  return peaks;
}

}  // namespace quern::kernels
