// quern_gemm_bench: products of floats of one thread beside a peak of the same run, in alternation.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "kernels/bench/gemm_case.h"
#include "kernels/peak.h"

namespace quern::kernels {
namespace {

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// "bf16,bf16,f32"; false for what is no list of three float formats.
bool ParseTypes(std::string_view text, GemmTypes* types) {
  for (Format* f : {&types->lhs, &types->rhs, &types->dst}) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const Format formats[] = {Format::kF32, Format::kBf16, Format::kF16};
    const Format* found = std::find_if(formats, std::end(formats), [&](Format x) { return word == FormatName(x); });
    if (found == std::end(formats)) return false;
    *f = *found;
  }
  return text.empty();
}

bool ParsePrecision(std::string_view text, Precision* precision) {
  for (Precision p : {Precision::kFp32, Precision::kFp32Fast, Precision::kFp16, Precision::kBf16}) {
    if (text != PrecisionName(p)) continue;
    *precision = p;
    return true;
  }
  return false;
}

constexpr char kUsage[] =
    "quern_gemm_bench [--cpu NAME] [--row NAME] [--types LHS,RHS,DST] [--precision P] [--rounds N] [--seconds S]\n"
    "                 [--min-share F] [MxNxK...]\n"
    "Products of f32 (the default), bf16 or f16 on one thread beside the FMA peak of the same run: GFLOP/s and share "
    "of the fastest round of\n"
    "each (what else the machine runs only slows), and the median of the rounds' shares.\n"
    "Exits with 1 when a shape's share of the fastest is below --min-share (0.8: 80 %).\n"
    "Default shapes: 512, 1024 and 2048 squared. QUERN_CPU sets the CPU where --cpu does not.\n";

int Main(int argc, char** argv) {
  std::string spec = std::getenv("QUERN_CPU") ? std::getenv("QUERN_CPU") : "native";
  std::string row;
  GemmTypes types;
  Precision precision = Precision::kFp32;
  int rounds = 25;
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
      if (!ParseTypes(t, &types)) return std::fputs(kUsage, stderr), 2;
    } else if (const char* p = value("--precision")) {
      if (!ParsePrecision(p, &precision)) return std::fputs(kUsage, stderr), 2;
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
  if (shapes.empty()) shapes = {"512x512x512", "1024x1024x1024", "2048x2048x2048"};
  const Result<CpuInfo> cpu = CpuFromSpec(spec);
  if (!cpu.ok()) return std::fprintf(stderr, "%s\n", cpu.status().message().c_str()), 2;
  if (const Status can = CheckCanRun(*cpu); !can.ok()) return std::fprintf(stderr, "%s\n", can.message().c_str()), 2;
  std::printf("cpu %s on %s, peak loop fma %s, one thread\n", cpu->name.c_str(), HostCpu().model.c_str(),
              FmaSliceName(cpu->facts()));
  bool reached = true;
  for (const char* shape : shapes) {
    size_t m = 0, n = 0, k = 0;
    if (std::sscanf(shape, "%zux%zux%zu", &m, &n, &k) != 3) return std::fprintf(stderr, "'%s' is no MxNxK\n", shape), 2;
    Result<GemmCase> made = GemmCase::Make(*cpu, m, n, k, row, types, precision);
    if (!made.ok()) return std::fprintf(stderr, "%s\n", made.status().message().c_str()), 2;
    GemmCase& c = *made;
    c.Run();
    c.Run();
    std::vector<double> shares;
    double speed = 0, peak = 0;
    for (int r = 0; r < rounds; ++r) {
      // The order changes from round to round, so that neither always follows the other.
      const double first = r % 2 ? c.Slice(seconds) : MeasureFmaSlice(cpu->facts(), seconds / 2);
      const double second = r % 2 ? MeasureFmaSlice(cpu->facts(), seconds / 2) : c.Slice(seconds);
      speed = std::max(speed, r % 2 ? first : second);
      peak = std::max(peak, r % 2 ? second : first);
      shares.push_back(r % 2 ? first / second : second / first);
    }
    const GemmPlan& p = c.plan().gemm;
    std::printf("%-16s %7.1f GFLOP/s of %7.1f  %5.1f %%  median %5.1f %%  %s (k block %zu, n block %zu, m block %zu)\n",
                shape, speed, peak, 100 * speed / peak, 100 * Median(shares), c.row_name().c_str(), p.k_block,
                p.n_block, p.m_block);
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
