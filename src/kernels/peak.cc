// Measures peaks: every loop in short slices, in turn, so that a change of the clock meets all alike.
#include "kernels/peak.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <random>

#include "base/aligned_buffer.h"
#include "ukernel/peak.h"

namespace quern::kernels {
namespace {

using ukernel::PeakKernel;

// Memory is read over more than twice the last-level cache, which may be larger than any machine here can spare.
constexpr size_t kMostBytes = size_t{512} << 20;

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

const PeakKernel* WidestFma(const CpuFacts& cpu) {
  const PeakKernel* best = nullptr;
  for (const auto* list : ukernel::AllPeakKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const PeakKernel& row = list->rows[i];
      if (!row.is_float32_fma || !Runs(row, cpu)) continue;
      // Portable code is the last resort, whatever it does in a step.
      const auto rank = [](const PeakKernel& r) { return r.isa.any_arch ? 0.0 : r.operations; };
      if (!best || rank(row) > rank(*best)) best = &row;
    }
  }
  return best;
}

double Slice(const PeakKernel& row, double seconds) {
  size_t steps = 1000;
  double operations = 0;
  const double begin = ThreadSeconds();
  double spent = 0;
  do {
    const double now = ThreadSeconds();
    g_sink = g_sink + row.run(steps, RandomData());
    operations += row.operations * static_cast<double>(steps);
    if (ThreadSeconds() - now < 1e-3) steps *= 2;
    spent = ThreadSeconds() - begin;
  } while (spent < seconds);
  return operations / spent / 1e9;
}

double ReadSlice(const AlignedBuffer& buffer, size_t bytes, double seconds) {
  const uint64_t* p = buffer.as<uint64_t>();
  double read = 0;
  const double begin = ThreadSeconds();
  double spent = 0;
  do {
    uint64_t sums[8] = {};
    for (size_t i = 0; i + 8 <= bytes / 8; i += 8) {
      for (size_t j = 0; j < 8; ++j) sums[j] += p[i + j];
    }
    for (uint64_t s : sums) g_sink = g_sink + s;
    read += static_cast<double>(bytes);
    spent = ThreadSeconds() - begin;
  } while (spent < seconds);
  return read / spent / 1e9;
}

struct Series {
  Peak peak;
  const PeakKernel* row = nullptr;
  size_t bytes = 0;
  std::vector<double> values;
};

}  // namespace

double ThreadSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

const char* FmaSliceName(const CpuFacts& cpu) {
  const PeakKernel* row = WidestFma(cpu);
  return row ? row->isa.name : "none";
}

double MeasureFmaSlice(const CpuFacts& cpu, double seconds) {
  const PeakKernel* row = WidestFma(cpu);
  return row ? Slice(*row, seconds) : 0;
}

double MeasureIntegerSlice(const ukernel::Isa& isa, const CpuFacts& cpu, double seconds) {
  for (const auto* list : ukernel::AllPeakKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const PeakKernel& row = list->rows[i];
      if (Runs(row, cpu) && std::strcmp(row.unit, "GOP/s") == 0 && std::strcmp(row.isa.name, isa.name) == 0) {
        return Slice(row, seconds);
      }
    }
  }
  return MeasureFmaSlice(cpu, seconds);
}

std::vector<Peak> MeasurePeaks(const CpuInfo& cpu, const PeakOptions& options) {
  const CpuFacts facts = cpu.facts();
  std::vector<Series> all;
  for (const auto* list : ukernel::AllPeakKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const PeakKernel& row = list->rows[i];
      if (!Runs(row, facts)) continue;
      Series s;
      s.peak.name = std::string(row.engine) + " " + row.isa.name;
      s.peak.unit = row.unit;
      s.row = &row;
      all.push_back(std::move(s));
    }
  }
  AlignedBuffer buffer;
  if (options.bandwidth) {
    const CpuInfo& host = HostCpu();
    const size_t memory = std::min(kMostBytes, std::max<size_t>(size_t{64} << 20, host.l3.bytes * 5 / 2));
    Result<AlignedBuffer> made = AlignedBuffer::Allocate(memory, {.huge_pages = true});
    if (made.ok()) {
      buffer = std::move(*made);
      std::memset(buffer.data(), 1, memory);
      const auto add = [&](const char* name, size_t bytes) {
        Series s;
        s.peak.name = name;
        s.peak.unit = "GB/s";
        s.bytes = bytes;
        all.push_back(std::move(s));
      };
      if (host.l2.bytes) add("read l2", std::min(memory, static_cast<size_t>(host.l2.bytes) / 2));
      add("read memory", memory);
    }
  }
  for (int round = 0; round < std::max(1, options.rounds); ++round) {
    for (Series& s : all) {
      s.values.push_back(s.row ? Slice(*s.row, options.seconds_per_round)
                               : ReadSlice(buffer, s.bytes, options.seconds_per_round));
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
