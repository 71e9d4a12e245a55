// Every GEMM row that this host can run, on cached operands: GFLOP/s (GOP/s for integers), and the machine's FMA peak
// to compare with. A new row is benchmarked without a change here: --benchmark_filter=<part of its name>.
#include <benchmark/benchmark.h>

#include "base/cpu.h"
#include "ukernel/row_runner.h"

namespace quern::ukernel {
namespace {

void BenchRow(benchmark::State& state, const GemmKernel& row, size_t m, size_t n, size_t k) {
  const CpuFacts host = HostCpu().facts();
  RowProblem p{
      .m = m, .n = n, .k = RoundUp(k, row.k_divisor), .lhs_row_gap = 0, .dst_row_gap = 0, .fill = Fill::kNormal};
  RowRunner runner(row, host, p);
  runner.Prepare();
  if (row.enter_mode) row.enter_mode(row.mode_config);
  for (auto _ : state) {
    runner.ComputeInMode({});
    benchmark::ClobberMemory();
  }
  if (row.leave_mode) row.leave_mode();
  state.counters["ops"] = benchmark::Counter(2.0 * static_cast<double>(m * n * p.k) * state.iterations(),
                                             benchmark::Counter::kIsRate, benchmark::Counter::OneK::kIs1000);
}

void Register() {
  const CpuFacts host = HostCpu().facts();
  for (const auto* list : AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      if (!RowRunner::WhyNot(row, host).empty()) continue;
      const size_t mr = TileM(row, host), nr = TileN(row, host);
      const struct {
        const char* what;
        size_t m, n, k;
      } shapes[] = {{"tile_k256", mr, nr, 256},
                    {"row_k1024", 1, nr, 1024},
                    {"block", 96, 2 * nr, 384},
                    {"square", 512, 512, 512}};
      for (const auto& s : shapes) {
        const std::string name = std::string(Name(row).text) + "/" + s.what;
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&row, s](benchmark::State& state) { BenchRow(state, row, s.m, s.n, s.k); });
      }
    }
  }
}

[[maybe_unused]] const bool kRegistered = (Register(), true);

}  // namespace
}  // namespace quern::ukernel
