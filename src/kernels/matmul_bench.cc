// float32 products of one thread, each with the share of the FMA peak measured in turns with it. QUERN_CPU sets the
// CPU.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "kernels/bench/gemm_case.h"
#include "kernels/peak.h"

namespace quern::kernels {
namespace {

void BenchGemm(benchmark::State& state) {
  const Result<CpuInfo> cpu = CpuFromEnvironment();
  if (!cpu.ok() || !CanRun(*cpu)) return state.SkipWithError("QUERN_CPU names no CPU that this host can be");
  const size_t size = static_cast<size_t>(state.range(0));
  Result<GemmCase> made = GemmCase::Make(*cpu, size, size, size);
  if (!made.ok()) return state.SkipWithError(made.status().message().c_str());
  made->Run();
  double done = 0, peak = 0, rounds = 0;
  for (auto _ : state) {
    made->Run();
    done += made->operations();
    state.PauseTiming();
    peak += MeasureFmaSlice(cpu->facts(), 0.02);
    ++rounds;
    state.ResumeTiming();
  }
  state.SetLabel(made->row_name());
  state.counters["GFLOP/s"] = benchmark::Counter(done / 1e9, benchmark::Counter::kIsRate);
  state.counters["peak"] = peak / rounds;
}
BENCHMARK(BenchGemm)->Arg(512)->Arg(1024)->Arg(2048)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quern::kernels
