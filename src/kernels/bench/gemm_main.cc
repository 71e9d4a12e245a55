// quern_gemm_bench: products beside the peak of their instruction, or the read bandwidth, in alternation, on one thread
// or several.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/bench/gemm_case.h"
#include "kernels/peak.h"

namespace quern::kernels {
namespace {

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

constexpr char kUsage[] =
    "quern_gemm_bench [--types LHS,RHS,DST] [--precision P] [--cpu NAME] [--row NAME] [--cold] [--threads N]\n"
    "                 [--rounds N] [--seconds S] [--min-share F] [--fma-peak] [MxNxK...]\n"
    "Products beside the peak of the same run: speed and share of the fastest round of each (what else the machine\n"
    "runs only slows), and the median of the rounds' shares. The peak is that of the instruction that the row is made\n"
    "of, as the end of a line says, or of the float32 multiply-add where there is no such loop or with --fma-peak.\n"
    "--threads: products as a session of N threads runs them, by the clock, beside N loops at the same time; 1 (the\n"
    "default) counts processor time.\n"
    "--types: f32,f32,f32 (default), bf16,bf16,bf16, f16,f16,f32, i8,i8,i32, i8d,i8,f32, f64,f64,f64 and others.\n"
    "Results may also be i8 or u8, requantized; weights u8, qb4w and qb2w come in blocks of 32, i4 by channels.\n"
    "--precision: fp32 (default), fp32-fast, fp16, bf16.\n"
    "--cold: the weights come from memory, as copies of them are taken in turn, of ten times the last-level\n"
    "cache together, and so for each thread; GB/s of them beside a loop that only reads them.\n"
    "Exits with 1 when a shape's share of the fastest is below --min-share (0.8: 80 %).\n"
    "Default shapes: 512, 1024 and 2048 squared; cold 1, 4 and 16 rows of 4096 squared. QUERN_CPU sets the CPU where\n"
    "--cpu does not.\n";

bool ParseFormat(const std::string& name, Format* format) {
  for (int i = 0; i <= static_cast<int>(Format::kF64); ++i) {
    *format = static_cast<Format>(i);
    if (name == FormatName(*format)) return true;
  }
  return false;
}

bool ParseTypes(const std::string& text, GemmTypes* types) {
  const size_t comma = text.find(',');
  if (comma == std::string::npos) return false;
  const std::string rest = text.substr(comma + 1);
  const size_t next = rest.find(',');
  return next != std::string::npos && ParseFormat(text.substr(0, comma), &types->lhs) &&
         ParseFormat(rest.substr(0, next), &types->rhs) && ParseFormat(rest.substr(next + 1), &types->dst);
}

bool ParsePrecision(const std::string& name, Precision* precision) {
  for (Precision p : {Precision::kFp32, Precision::kFp32Fast, Precision::kFp16, Precision::kBf16}) {
    if (name != PrecisionName(p)) continue;
    *precision = p;
    return true;
  }
  return false;
}

int Main(int argc, char** argv) {
  std::string spec = std::getenv("QUERN_CPU") ? std::getenv("QUERN_CPU") : "native";
  std::string row;
  GemmTypes types;
  bool cold = false, fma_peak = false;
  int rounds = 25, threads = 1;
  double seconds = 0.1, min_share = 0;
  std::vector<const char*> shapes;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&](const char* name) {
      return !std::strcmp(argv[i], name) && i + 1 < argc ? argv[++i] : nullptr;
    };
    if (const char* v = value("--cpu")) {
      spec = v;
    } else if (const char* r = value("--row")) {
      row = r;
    } else if (const char* t = value("--types")) {
      if (!ParseTypes(t, &types)) return std::fprintf(stderr, "'%s' are no types\n", t), 2;
    } else if (const char* p = value("--precision")) {
      if (!ParsePrecision(p, &types.precision)) return std::fprintf(stderr, "'%s' is no precision\n", p), 2;
    } else if (!std::strcmp(argv[i], "--cold")) {
      cold = true;
    } else if (!std::strcmp(argv[i], "--fma-peak")) {
      fma_peak = true;
    } else if (const char* w = value("--threads")) {
      threads = std::max(1, std::atoi(w));
    } else if (const char* n = value("--rounds")) {
      rounds = std::max(1, std::atoi(n));
    } else if (const char* s = value("--seconds")) {
      seconds = std::atof(s);
    } else if (const char* f = value("--min-share")) {
      min_share = std::atof(f);
    } else if (argv[i][0] == '-') {
      std::fputs(kUsage, std::strcmp(argv[i], "--help") ? stderr : stdout);
      return std::strcmp(argv[i], "--help") ? 2 : 0;
    } else {
      shapes.push_back(argv[i]);
    }
  }
  if (shapes.empty()) {
    shapes = cold ? std::vector<const char*>{"1x4096x4096", "4x4096x4096", "16x4096x4096"}
                  : std::vector<const char*>{"512x512x512", "1024x1024x1024", "2048x2048x2048"};
  }
  const Result<CpuInfo> cpu = CpuFromSpec(spec);
  if (!cpu.ok()) return std::fprintf(stderr, "%s\n", cpu.status().message().c_str()), 2;
  if (const Status can = CheckCanRun(*cpu); !can.ok()) return std::fprintf(stderr, "%s\n", can.message().c_str()), 2;
  std::printf("cpu %s on %s, %d %s\n", cpu->name.c_str(), HostCpu().model.c_str(), threads,
              threads == 1 ? "thread" : "threads");
  bool reached = true;
  for (const char* shape : shapes) {
    size_t m = 0, n = 0, k = 0;
    if (std::sscanf(shape, "%zux%zux%zu", &m, &n, &k) != 3) return std::fprintf(stderr, "'%s' is no MxNxK\n", shape), 2;
    Result<GemmCase> made = GemmCase::Make(*cpu, types, m, n, k, row, cold ? ColdBytes(threads) : 0, threads);
    if (!made.ok()) return std::fprintf(stderr, "%s\n", made.status().message().c_str()), 2;
    GemmCase& c = *made;
    const double work = (cold ? c.rhs_bytes() : c.operations()) / 1e9;
    const auto measure = [&] { return c.Slice(seconds) * work; };
    const ukernel::PeakKernel* own = fma_peak ? nullptr : PeakOf(c.row(), cpu->facts());
    const ukernel::PeakKernel& loop = own ? *own : WidestFma(cpu->facts());
    const auto limit = [&] {
      return cold ? c.ReadSlice(seconds / 2) * work : MeasureSlice(loop, seconds / 2, c.threads());
    };
    c.Run();
    c.Run();
    std::vector<double> shares;
    double speed = 0, peak = 0;
    for (int r = 0; r < rounds; ++r) {
      // The order changes from round to round, so that neither always follows the other.
      const double first = r % 2 ? measure() : limit();
      const double second = r % 2 ? limit() : measure();
      speed = std::max(speed, r % 2 ? first : second);
      peak = std::max(peak, r % 2 ? second : first);
      shares.push_back(r % 2 ? first / second : second / first);
    }
    const GemmPlan& p = c.plan().gemm;
    const std::string beside = cold ? "reading" : PeakName(loop) + (own || fma_peak ? "" : ", as none is of its own");
    std::printf("%-16s %7.1f %s of %7.1f  %5.1f %%  median %5.1f %%  %s (k block %zu, n block %zu, m block %zu; %s)\n",
                shape, speed, cold ? "GB/s" : loop.unit, peak, 100 * speed / peak, 100 * Median(shares),
                c.row_name().c_str(), p.k_block, p.n_block, p.m_block, beside.c_str());
    if (speed < min_share * peak) {
      std::printf("%s is below the share of %.1f %%\n", shape, 100 * min_share);
      reached = false;
    }
  }
  return reached ? 0 : 1;
}

}  // namespace
}  // namespace quern::kernels

int main(int argc, char** argv) { return quern::kernels::Main(argc, argv); }
