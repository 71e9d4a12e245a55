#include "kernels/time_row.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/peak.h"

namespace quern::kernels {
namespace {

// Words that are between 2^-7 and 2 in size as bf16, and so in float32; between 1 and 2 as f16; any int8 in one byte.
void Fill(AlignedBuffer& buffer, size_t bytes) {
  static const std::vector<uint16_t> words = [] {
    std::mt19937 rng(7);
    std::vector<uint16_t> random(1 << 14);
    for (uint16_t& w : random) w = static_cast<uint16_t>(0x3c00 | (rng() & 0x83ff));
    return random;
  }();
  const size_t chunk = words.size() * sizeof(uint16_t);
  for (size_t i = 0; i < bytes; i += chunk) std::memcpy(buffer.data() + i, words.data(), std::min(chunk, bytes - i));
}

constexpr double kBatchSeconds = 2e-4;  // long against the clock's resolution and its call

}  // namespace

Result<TimedProduct> TimedProduct::Make(const GemmProblem& problem, const SelectOptions& options,
                                        const LayoutChoice& layout, const GemmKernel& row, size_t m) {
  TimedProduct t;
  const GemmKernel* fallback = nullptr;
  if (ComputesOnTerms(row)) {
    SelectOptions all = options;
    all.force_row = {};
    fallback = SelectSplitFallback(EligibleRows(problem, all, layout), problem, options.cpu, layout.layout, m);
  }
  t.plan_ = PlanGemm(problem, options.cpu, layout, row, fallback, {.m = m}, 1);
  const size_t lhs_row = problem.k * problem.segments * FormatBytes(t.plan_.lhs_format);
  const size_t dst_row = problem.n * t.plan_.acc_bytes();
  const auto make = [](AlignedBuffer& buffer, size_t bytes) -> Status {
    QUERN_ASSIGN_OR_RETURN(buffer, AlignedBuffer::Allocate(std::max<size_t>(bytes, 64), {.huge_pages = true}));
    Fill(buffer, bytes);
    return OkStatus();
  };
  QUERN_RETURN_IF_ERROR(make(t.lhs_, m * lhs_row));
  QUERN_RETURN_IF_ERROR(make(t.rhs_, t.plan_.rhs_geometry.total_bytes));
  QUERN_RETURN_IF_ERROR(make(t.dst_, m * dst_row));
  QUERN_RETURN_IF_ERROR(make(t.workspace_, t.plan_.workspace_bytes));
  t.operands_ = {.lhs = t.lhs_.data(),
                 .lhs_row_stride = static_cast<ptrdiff_t>(lhs_row),
                 .rhs = t.rhs_.data(),
                 .dst = t.dst_.data(),
                 .dst_row_stride = dst_row};
  return t;
}

void TimedProduct::Run() {
  const Status status =
      RunGemm(plan_, operands_, {.workspace = workspace_.data(), .workspace_bytes = plan_.workspace_bytes});
  QUERN_CHECK(status.ok(), status.message().c_str());
}

double TimedProduct::Time(double seconds) {
  Run();  // operands and code come into the caches
  double best = 0, spent = 0;
  size_t runs = 1;
  do {
    const double begin = ThreadSeconds();
    for (size_t i = 0; i < runs; ++i) Run();
    const double batch = ThreadSeconds() - begin;
    spent += batch;
    if (batch < kBatchSeconds) {
      runs *= 2;
      continue;
    }
    const double one = batch / static_cast<double>(runs);
    best = best == 0 ? one : std::min(best, one);
  } while (spent < seconds || best == 0);
  return best;
}

double MeasureClock(double seconds) {
  // Exclusive or of two registers takes a cycle on every CPU, and none merges two of them.
  constexpr int kChain = 4096;
  uint64_t x = 1, y = 0x9e3779b97f4a7c15u;
  double best = 0, spent = 0;
  int runs = 16;
  do {
    const double begin = ThreadSeconds();
    for (int r = 0; r < runs; ++r) {
      for (int i = 0; i < kChain; i += 8) {
#if defined(__x86_64__)
        asm volatile(
            "xor %1,%0\n\txor %1,%0\n\txor %1,%0\n\txor %1,%0\n\t"
            "xor %1,%0\n\txor %1,%0\n\txor %1,%0\n\txor %1,%0"
            : "+r"(x)
            : "r"(y)
            : "cc");
#elif defined(__aarch64__)
        asm volatile(
            "eor %0,%0,%1\n\teor %0,%0,%1\n\teor %0,%0,%1\n\teor %0,%0,%1\n\t"
            "eor %0,%0,%1\n\teor %0,%0,%1\n\teor %0,%0,%1\n\teor %0,%0,%1"
            : "+r"(x)
            : "r"(y));
#endif
      }
    }
    const double batch = ThreadSeconds() - begin;
    spent += batch;
    if (batch < kBatchSeconds) {
      runs *= 2;
      continue;
    }
    best = std::max(best, runs * static_cast<double>(kChain) / batch);
  } while (spent < seconds || best == 0);
  return best;
}

}  // namespace quern::kernels
