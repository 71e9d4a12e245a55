// quern_attention_bench: attention of one thread beside the FMA peak, in alternation.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/aligned_buffer.h"
#include "base/random_numbers.h"
#include "kernels/attention.h"
#include "kernels/peak.h"
#include "kernels/run_time_drivers.h"
#include "ukernel/convert.h"

namespace quern::kernels {
namespace {

constexpr char kUsage[] =
    "quern_attention_bench [--types Q,KV,Y] [--cpu NAME] [--causal] [--rounds N] [--seconds S] [QxKxSIZE[xHEADS]...]\n"
    "Q queries by K keys in heads of SIZE elements (8 heads), dense, on one thread, beside the FMA loop of the same "
    "run:\n"
    "the fastest round of each; bytes of keys and values a second; bytes of workspace.\n"
    "--types: f32,f32,f32 (default), f16,f16,f16, bf16,bf16,bf16, f32,f16,f32.\n";

struct Case {
  AttentionSizes sizes;
  Attention attention;
  AlignedBuffer q, k, v, y, workspace;

  class Rules final : public ScoreRules {
   public:
    explicit Rules(const AttentionSizes& s) : sizes_(s) {}
    Row RowOf(int64_t, int64_t, int64_t i, const Keys&, float*) const override {
      return {.first = 0, .end = std::min(sizes_.keys, sizes_.reach + i + 1)};
    }

   private:
    const AttentionSizes& sizes_;
  };

  void Run() const {
    InlineExecutor executor;
    const Status status = attention.Run(
        {.q = q.data(), .k = k.data(), .v = v.data(), .y = const_cast<std::byte*>(y.data())}, Rules(sizes),
        {.executor = &executor,
         .workspace = const_cast<std::byte*>(workspace.data()),
         .workspace_bytes = attention.workspace_bytes()});
    if (!status.ok()) std::abort();
  }
  // Runs a second of processor time.
  double Slice(double seconds) const {
    const double begin = ThreadSeconds();
    double now = begin;
    int runs = 0;
    for (; now - begin < seconds; now = ThreadSeconds(), ++runs) Run();
    return runs / (now - begin);
  }
};

AlignedBuffer Random(Format f, int64_t n, unsigned seed) {
  AlignedBuffer b = AlignedBuffer::Allocate(static_cast<size_t>(n) * FormatBytes(f)).value();
  std::mt19937 random(seed);
  NormalNumbers<float> normal;
  for (int64_t i = 0; i < n; ++i) {
    ukernel::StoreFloat(f, reinterpret_cast<char*>(b.data()) + static_cast<size_t>(i) * FormatBytes(f), normal(random));
  }
  return b;
}

bool ParseTypes(const char* text, AttentionTypes* types) {
  char names[3][8] = {};
  if (std::sscanf(text, "%7[^,],%7[^,],%7s", names[0], names[1], names[2]) != 3) return false;
  Format* to[] = {&types->q, &types->kv, &types->y};
  for (int i = 0; i < 3; ++i) {
    bool known = false;
    for (const Format f : {Format::kF32, Format::kF16, Format::kBf16}) {
      if (std::strcmp(names[i], FormatName(f)) == 0) *to[i] = f, known = true;
    }
    if (!known) return false;
  }
  return true;
}

int Main(int argc, char** argv) {
  std::string spec = std::getenv("QUERN_CPU") ? std::getenv("QUERN_CPU") : "native";
  AttentionTypes types;
  bool causal = false;
  int rounds = 15;
  double seconds = 0.1;
  std::vector<const char*> shapes;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&](const char* name) {
      return !std::strcmp(argv[i], name) && i + 1 < argc ? argv[++i] : nullptr;
    };
    if (const char* c = value("--cpu")) {
      spec = c;
    } else if (const char* t = value("--types")) {
      if (!ParseTypes(t, &types)) return std::fprintf(stderr, "'%s' are no types\n", t), 2;
    } else if (!std::strcmp(argv[i], "--causal")) {
      causal = true;
    } else if (const char* n = value("--rounds")) {
      rounds = std::max(1, std::atoi(n));
    } else if (const char* s = value("--seconds")) {
      seconds = std::atof(s);
    } else if (argv[i][0] == '-') {
      std::fputs(kUsage, std::strcmp(argv[i], "--help") ? stderr : stdout);
      return std::strcmp(argv[i], "--help") ? 2 : 0;
    } else {
      shapes.push_back(argv[i]);
    }
  }
  if (shapes.empty()) shapes = {"128x128x64", "32x4096x64", "32x16384x128", "1x4096x64", "1x16384x128", "1024x4096x64"};
  const Result<CpuInfo> cpu = CpuFromSpec(spec);
  if (!cpu.ok()) return std::fprintf(stderr, "%s\n", cpu.status().message().c_str()), 2;
  if (const Status can = CheckCanRun(*cpu); !can.ok()) return std::fprintf(stderr, "%s\n", can.message().c_str()), 2;
  std::printf("cpu %s on %s, peak loop fma %s, one thread\n", cpu->name.c_str(), HostCpu().model.c_str(),
              WidestFma(cpu->facts()).isa.name);
  for (const char* shape : shapes) {
    Case c;
    AttentionSizes& s = c.sizes;
    long long q = 0, k = 0, size = 0, heads = 8;
    if (std::sscanf(shape, "%lldx%lldx%lldx%lld", &q, &k, &size, &heads) < 3) {
      return std::fprintf(stderr, "'%s' is no QxKxSIZE\n", shape), 2;
    }
    s.batch = 1;
    s.heads = s.kv_heads = heads;
    s.queries = q;
    s.keys = k;
    s.size = s.value_size = size;
    s.q = s.y = {heads * q * size, q * size, size, 1};
    s.k = s.v = {heads * k * size, k * size, size, 1};
    s.types = types;
    s.scale = 0.125f;
    if (causal) s.reach = std::max<int64_t>(0, k - q);
    SelectOptions options;
    options.cpu = cpu->facts();
    RunTimeDrivers drivers(options);
    Result<Attention> made = Attention::Create(s, drivers, Precision::kFp32, 1);
    if (!made.ok()) return std::fprintf(stderr, "%s\n", made.status().message().c_str()), 2;
    c.attention = std::move(*made);
    c.q = Random(types.q, heads * q * size, 1);
    c.k = Random(types.kv, heads * k * size, 2);
    c.v = Random(types.kv, heads * k * size, 3);
    c.y = Random(types.y, heads * q * size, 4);
    c.workspace = AlignedBuffer::Allocate(c.attention.workspace_bytes()).value();
    const double work = 4e-9 * static_cast<double>(heads * q * k * size) * (causal ? 0.5 : 1.0);
    const double bytes = 2e-9 * static_cast<double>(heads * k * size) * static_cast<double>(FormatBytes(types.kv));
    c.Run();
    double runs = 0, peak = 0;
    for (int r = 0; r < rounds; ++r) {
      peak = std::max(peak, MeasureSlice(WidestFma(cpu->facts()), seconds / 2));
      runs = std::max(runs, c.Slice(seconds));
    }
    std::printf(
        "%-16s %8.3f ms  %7.1f GFLOP/s of %7.1f  %5.1f %%  %6.1f GB/s of keys and values, %zu KB of workspace\n", shape,
        1e3 / runs, runs * work, peak, 100 * runs * work / peak, runs * bytes, c.attention.workspace_bytes() >> 10);
  }
  return 0;
}

}  // namespace
}  // namespace quern::kernels

int main(int argc, char** argv) { return quern::kernels::Main(argc, argv); }
