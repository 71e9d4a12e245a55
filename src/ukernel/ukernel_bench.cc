// Every row of every family that this host can run, on cached operands: operations, elements or bytes per second, and
// the peaks to compare with. New rows are benchmarked without a change here: --benchmark_filter=<part of a name>.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/dwconv.h"
#include "ukernel/elementwise.h"
#include "ukernel/fold.h"
#include "ukernel/peak.h"
#include "ukernel/row_runner.h"
#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

const CpuFacts& Host() {
  static const CpuFacts facts = HostCpu().facts();
  return facts;
}

// Of scaled units: portable rows of streaming layouts run on hosts without such vectors too.
size_t VectorBytes(VectorScale s) {
  const size_t bytes = s == VectorScale::kSme ? Host().sme_vector_bytes : Host().sve_vector_bytes;
  return s == VectorScale::kFixed ? 0 : bytes ? bytes : 64;
}

std::vector<float> RandomFloats(size_t count) {
  std::mt19937 rng(1);
  NormalNumbers<float> normal;
  std::vector<float> x(count);
  for (float& v : x) v = normal(rng);
  return x;
}

// Runs f() and reports `count` things of that name per second.
template <class F>
void Measure(benchmark::State& state, const char* things, double count, F f) {
  for (auto _ : state) {
    f();
    benchmark::ClobberMemory();
  }
  state.counters[things] = benchmark::Counter(count * static_cast<double>(state.iterations()),
                                              benchmark::Counter::kIsRate, benchmark::Counter::OneK::kIs1000);
}

template <class F>
void Add(const std::string& name, F f) {
  benchmark::RegisterBenchmark(name.c_str(), f);
}

// f(row, stem of its file) for the rows of a family whose code the host runs.
template <class Kernel, class F>
void EachRow(std::span<const KernelList<Kernel>* const> lists, F f) {
  for (const KernelList<Kernel>* list : lists) {
    for (size_t i = 0; i < list->count; ++i) {
      if (IsaRunsOn(list->rows[i].isa, Host())) f(list->rows[i], std::string(list->stem));
    }
  }
}

void BenchGemm(benchmark::State& state, const GemmKernel& row, const RowProblem& problem) {
  RowRunner runner(row, Host(), problem);
  runner.Prepare();
  if (row.enter_mode) row.enter_mode(row.mode_config);
  Measure(state, "ops", 2.0 * static_cast<double>(problem.m * problem.n * problem.k),
          [&] { runner.ComputeInMode({}); });
  if (row.leave_mode) row.leave_mode();
}

void AddGemm() {
  EachRow(AllGemmKernels(), [](const GemmKernel& row, const std::string&) {
    if (!row.run) return;
    const size_t mr = TileM(row, Host()), nr = TileN(row, Host());
    const struct {
      const char* what;
      size_t m, n, k;
    } shapes[] = {
        {"tile_k256", mr, nr, 256}, {"row_k1024", 1, nr, 1024}, {"block", 96, 2 * nr, 384}, {"square", 512, 512, 512}};
    for (size_t layout = 0; layout < kMaxLayouts && row.layouts[layout].element != Format::kNone; ++layout) {
      for (const auto& s : shapes) {
        const RowProblem p{.m = s.m,
                           .n = s.n,
                           .k = RoundUp(s.k, row.k_divisor),
                           .layout = layout,
                           .lhs_row_gap = 0,
                           .dst_row_gap = 0,
                           .fill = Fill::kNormal};
        const std::string which = layout ? "/layout" + std::to_string(layout) : "";
        Add(Name(row).text + which + "/" + s.what, [&row, p](benchmark::State& state) { BenchGemm(state, row, p); });
      }
    }
  });
}

constexpr size_t kPackN = 256, kPackK = 512, kPackBlock = 32, kPackLarge = 4096, kPastBytes = size_t{48} << 20;

double Seconds(auto f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// In turn with a copy of as many bytes as are read and written, half of them each; "of_copy" is the quotient of the
// fastest times, in per cent.
void BenchPack(benchmark::State& state, const PackKernel& row, size_t n, size_t k) {
  RhsShape shape{.k = k, .n = n, .vector_bytes = VectorBytes(row.layout.n_scale)};
  if (row.blocks) shape.block = kPackBlock;
  const RhsGeometry g = DescribeRhs(row.layout, shape);
  const size_t blocks = row.blocks ? k / kPackBlock : 0;
  const size_t block_bytes = kPackBlock * FormatBits(row.source) / 8 + (row.source == Format::kQ4_1 ? 4
                                                                        : IsGguf(row.source)        ? size_t{2}
                                                                                                    : size_t{0});
  const size_t read = row.blocks ? n * blocks * block_bytes : n * k * FormatBits(row.source) / 8;
  const size_t scales_read = row.blocks && !IsGguf(row.source) ? n * blocks * sizeof(float) : 0;
  const std::vector<float> random = RandomFloats(kPackK * kPackN);
  std::vector<float> x(CeilDiv(read, sizeof(float))), scales(scales_read / sizeof(float), 0.01f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = random[i % random.size()];  // rows of formats up to 4 bytes
  const ptrdiff_t element = static_cast<ptrdiff_t>(FormatBytes(row.source));
  RhsSource s{.format = row.source, .data = x.data()};
  s.k_stride = row.contiguous_k ? element : element * static_cast<ptrdiff_t>(n);
  s.n_stride = row.contiguous_k ? element * static_cast<ptrdiff_t>(k) : element;
  if (FormatBits(row.source) < 8) s.n_stride = static_cast<ptrdiff_t>(k * FormatBits(row.source) / 8);
  if (row.blocks) {
    s.block_stride = static_cast<ptrdiff_t>(block_bytes);
    s.n_stride = s.block_stride * static_cast<ptrdiff_t>(blocks);
    s.scales = scales.data();
    s.scale_block_stride = sizeof(float);
    s.scale_n_stride = static_cast<ptrdiff_t>(blocks * sizeof(float));
  }
  GuardedBuffer packed(g.total_bytes);
  std::vector<char> from((read + scales_read + g.total_bytes) / 2, 1), to(from.size());
  const auto pack = [&] { row.run(row.layout, shape, s, 0, g.units, packed.data()); };
  pack();  // its pages are there, as the copy's are
  double best = 1e9, best_copy = 1e9;
  for (auto _ : state) {
    const double time = Seconds(pack);
    best = std::min(best, time);
    best_copy = std::min(best_copy, Seconds([&] { std::memcpy(to.data(), from.data(), from.size()); }));
    state.SetIterationTime(time);
  }
  state.counters["bytes"] = benchmark::Counter(static_cast<double>(read + scales_read) / best);
  state.counters["copy"] = benchmark::Counter(static_cast<double>(from.size()) / best_copy);
  state.counters["of_copy"] = 100 * best_copy / best;
}

void BenchTransform(benchmark::State& state, const TransformKernel& row) {
  const bool blocks = row.from.scale != Format::kNone;
  const std::vector<float> x = RandomFloats(kPackK * kPackN), scales(kPackN * kPackK / kPackBlock, 0.01f);
  RhsSource s{.format = Format::kF32, .data = x.data(), .k_stride = kPackN * 4, .n_stride = 4};
  if (blocks) {  // any bits are 4-bit numbers
    s = {.format = row.from.element, .data = x.data()};
    s.block_stride = static_cast<ptrdiff_t>(kPackBlock * FormatBits(s.format) / 8);
    s.n_stride = s.block_stride * static_cast<ptrdiff_t>(kPackK / kPackBlock);
    s.scales = scales.data();
    s.scale_block_stride = 4;
    s.scale_n_stride = static_cast<ptrdiff_t>(kPackK / kPackBlock * 4);
  }
  if (row.from.element == Format::kU4 && !blocks) s = {.format = Format::kI4, .data = x.data(), .n_stride = kPackK / 2};
  const RhsShape shape{.k = kPackK, .n = kPackN, .block = blocks ? kPackBlock : size_t{0}};
  const RhsGeometry from = DescribeRhs(row.from, shape), to = DescribeRhs(row.to, shape);
  GuardedBuffer packed(from.total_bytes), panel(to.total_bytes);
  PackRhs(row.from, shape, s, 0, from.units, packed.data());
  TransformArgs a;
  a.src = packed.data();
  a.src_unit_stride = from.unit_stride;
  a.src_scales = packed.data() + from.scales_offset;
  a.src_offsets = packed.data() + from.offsets_offset;
  a.src_scale = row.from.scale;
  a.src_offset = row.from.offset;
  a.dst = panel.data();
  a.dst_unit_stride = to.unit_stride;
  a.dst_scales_offset = to.scales_offset;
  a.k = kPackK;
  a.units = from.units;
  a.n_unit = from.n_unit;
  a.block = shape.block;
  Measure(state, "elements", static_cast<double>(kPackK * kPackN), [&] { row.run(a); });
}

void BenchQuantize(benchmark::State& state, const LhsPackKernel& row) {
  const LhsShape shape{.m = 64, .k = 1024, .vector_bytes = VectorBytes(row.layout.m_scale)};
  const LhsGeometry g = DescribeLhs(row.layout, shape);
  const std::vector<float> x = RandomFloats(shape.m * shape.k);
  const LhsSource s{
      .format = row.source, .data = x.data(), .row_stride = static_cast<ptrdiff_t>(shape.k * FormatBytes(row.source))};
  GuardedBuffer packed(g.total_bytes);
  Measure(state, "elements", static_cast<double>(shape.m * shape.k),
          [&] { row.run(row.layout, shape, s, 0, g.panels, packed.data()); });
}

void AddPreparation() {
  EachRow(AllPackKernels(), [](const PackKernel& row, const std::string& stem) {
    if (!row.run) return;
    const std::string order = row.blocks || FormatBits(row.source) < 8 ? "" : row.contiguous_k ? "_nk" : "_kn";
    const std::string unit = "/" + std::string(FormatName(row.layout.element)) + "x" +
                             std::to_string(row.layout.n_unit) + (row.layout.channel_scales ? "_channels" : "") +
                             "_from_" + FormatName(row.source) + order;
    // In L2, in the last cache, and past it.
    const size_t past = RoundUp(kPastBytes * 8 / FormatBits(row.source) / kPackLarge, kPackLarge);
    const std::pair<const char*, size_t> sizes[] = {{"", kPackN}, {"/large", kPackLarge}, {"/past", past}};
    for (const auto& [size, n] : sizes) {
      const size_t k = n == kPackN ? kPackK : kPackLarge;
      benchmark::RegisterBenchmark((stem + unit + size).c_str(), [&row, n, k](benchmark::State& state) {
        BenchPack(state, row, n, k);
      })->UseManualTime();
    }
  });
  EachRow(AllTransformKernels(), [](const TransformKernel& row, const std::string& stem) {
    if (row.run) Add(stem, [&row](benchmark::State& state) { BenchTransform(state, row); });
  });
  EachRow(AllLhsPackKernels(), [](const LhsPackKernel& row, const std::string& stem) {
    const std::string form = std::string("/") + std::to_string(row.layout.m_unit) + "_from_" + FormatName(row.source);
    if (row.run && (row.forms & kLhsRows))
      Add(stem + form, [&row](benchmark::State& state) { BenchQuantize(state, row); });
  });
}

// A line of 3x3 convolution, of grouped rows over groups of four.
void BenchDwConv(benchmark::State& state, const DwConvKernel& row) {
  constexpr size_t kPixels = 56, kChannels = 64, kTaps = 9, kWidth = kPixels + 2;
  const size_t units = CeilDiv(kChannels, size_t{row.lanes}), group = row.group_vector ? 4 : 1;
  const std::vector<float> x = RandomFloats(3 * kWidth * kChannels);
  GuardedBuffer src(x.size() * 4), weights(units * kTaps * group * row.lanes * 4),
      dst(kPixels * kChannels * 4);  // whole lines
  std::memcpy(src.data(), x.data(), src.bytes());
  std::memcpy(weights.data(), x.data(), std::min(weights.bytes(), src.bytes()));
  DwConvArgs a;
  a.pixels = kPixels;
  a.channels = kChannels;
  a.src = src.data();
  a.src_pixel_stride = static_cast<ptrdiff_t>(kChannels * FormatBytes(row.src));
  a.dst_pixel_stride = kChannels * 4;
  a.src_row_stride = kWidth * a.src_pixel_stride;
  a.group = group;
  a.in_h = a.kernel_h = a.kernel_w = 3;
  a.in_w = kWidth;
  a.weights = weights.data();
  a.dst = dst.data();
  Measure(state, "ops", 2.0 * kPixels * kChannels * kTaps * static_cast<double>(group), [&] { row.run(a); });
}

void AddVectorRow(const VectorKernel& row, const std::string& stem) {
  constexpr size_t kCount = 4096;
  static const std::vector<float> x = RandomFloats(kCount), z = RandomFloats(kCount);
  static std::vector<float> y(kCount);
  const auto add = [&](const char* what, auto f) {
    Add(stem + "/" + what, [f](benchmark::State& state) { Measure(state, "elements", kCount, f); });
  };
  for (const auto& [name, kind] : {std::pair("relu", UnaryKind::kRelu),
                                   {"exp", UnaryKind::kExp},
                                   {"tanh", UnaryKind::kTanh},
                                   {"gelu", UnaryKind::kGelu},
                                   {"silu", UnaryKind::kSilu}}) {
    add(name, [&row, kind = kind] { row.unary({.kind = kind, .n = kCount, .x = x.data(), .y = y.data()}); });
  }
  add("add", [&row] { row.binary({.n = kCount, .x = x.data(), .z = z.data(), .y = y.data()}); });
  add("sum", [&row] { benchmark::DoNotOptimize(row.fold({.n = kCount, .x = x.data()})); });
  add("sum_rows",
      [&row] { row.fold_rows({.rows = 8, .n = kCount / 8, .x = x.data(), .row_stride = kCount / 8, .y = y.data()}); });
  add("softmax", [&row] { row.softmax({.count = kCount, .x = x.data(), .y = y.data()}); });
  add("normalize", [&row] { row.normalize({.n = kCount, .x = x.data(), .y = y.data(), .gamma = z.data()}); });
  add("blend", [&row] {
    static constexpr ptrdiff_t kOffsets[] = {0, 1};
    static constexpr float kWeights[] = {0.25f, 0.75f};
    row.blend({.taps = 2, .n = kCount - 1, .x = x.data(), .offsets = kOffsets, .weights = kWeights, .y = y.data()});
  });
}

void AddFoldRow(const FoldKernel& row, const std::string& stem) {
  constexpr size_t kCount = 4096, kRows = 8;
  static const std::vector<double> x(kCount, 1.5);
  static const std::vector<float> floats = RandomFloats(kCount);
  static std::vector<double> y(kCount);
  static std::vector<int64_t> places(kCount);
  const auto add = [&](const char* what, auto f) {
    Add(stem + "/" + what, [f](benchmark::State& state) { Measure(state, "elements", kCount, f); });
  };
  constexpr auto kStride = static_cast<ptrdiff_t>(kCount / kRows);
  add("sum_f64", [&row] { benchmark::DoNotOptimize(row.f64.fold({.n = kCount, .x = x.data()})); });
  add("sum_rows_f64", [&row] {
    row.f64.fold_rows({.rows = kRows, .n = kCount / kRows, .x = x.data(), .row_stride = kStride, .y = y.data()});
  });
  add("arg_f32", [&row] { benchmark::DoNotOptimize(row.f32.arg({.which = {}, .n = kCount, .x = floats.data()})); });
  add("arg_rows_f32", [&row] {
    row.f32.arg_rows({.which = {},
                      .rows = kRows,
                      .n = kCount / kRows,
                      .x = floats.data(),
                      .row_stride = kStride,
                      .y = places.data()});
  });
  add("running_sum_f64", [&row] {
    row.f64.running_sum({.rows = kRows, .n = kCount / kRows, .x = x.data(), .y = y.data(), .row_stride = kStride});
  });
}

// Elements between 1 and 100 of any type; results of the row are not looked at.
void AddElementwiseRow(const ElementwiseKernel& row, const std::string& stem) {
  constexpr size_t kCount = 4096;
  static std::vector<std::vector<char>> operands;  // alive as long as the benchmarks
  static char result[kCount * 8];
  const auto numbers = [](DType t) {
    const size_t bytes = DTypeBytes(t);
    std::vector<char> x(kCount * bytes);
    for (size_t i = 0; i < kCount; ++i) {
      const int64_t whole = static_cast<int64_t>(i % 100 + 1);
      const double d = static_cast<double>(whole);
      const float f = static_cast<float>(whole);
      const void* from = &whole;
      if (t == DType::kF64) from = &d;
      if (t == DType::kF32) from = &f;
      std::memcpy(&x[i * bytes], from, t == DType::kBool ? 0 : bytes);
    }
    operands.push_back(std::move(x));
    return static_cast<const void*>(operands.back().data());
  };
  const auto add = [&](const char* what, auto f) {
    Add(stem + "/" + what, [f](benchmark::State& state) { Measure(state, "elements", kCount, f); });
  };
  const struct {
    const char* name;
    UnaryKind kind;
    DType from, to;
  } unary[] = {{"f64_exp", UnaryKind::kExp, DType::kF64, DType::kF64},
               {"f64_log", UnaryKind::kLog, DType::kF64, DType::kF64},
               {"f64_sin", UnaryKind::kSin, DType::kF64, DType::kF64},
               {"f64_tanh", UnaryKind::kTanh, DType::kF64, DType::kF64},
               {"f64_erf", UnaryKind::kErf, DType::kF64, DType::kF64},
               {"f32_sin", UnaryKind::kSin, DType::kF32, DType::kF32},
               {"f32_asinh", UnaryKind::kAsinh, DType::kF32, DType::kF32},
               {"u8_to_f32", UnaryKind::kConvert, DType::kU8, DType::kF32},
               {"f32_to_i8", UnaryKind::kConvert, DType::kF32, DType::kI8},
               {"i64_to_f32", UnaryKind::kConvert, DType::kI64, DType::kF32},
               {"f32_to_i64", UnaryKind::kConvert, DType::kF32, DType::kI64},
               {"f32_to_f16", UnaryKind::kConvert, DType::kF32, DType::kF16}};
  for (const auto& u : unary) {
    add(u.name, [run = row.unary(u.kind, u.from, u.to), x = numbers(u.from)] { run(kCount, x, result, {}); });
  }
  const struct {
    const char* name;
    BinaryKind kind;
    DType type;
  } binary[] = {{"f64_add", BinaryKind::kAdd, DType::kF64},    {"i64_add", BinaryKind::kAdd, DType::kI64},
                {"i32_div", BinaryKind::kDiv, DType::kI32},    {"i64_div", BinaryKind::kDiv, DType::kI64},
                {"u8_mod", BinaryKind::kMod, DType::kU8},      {"f32_mod", BinaryKind::kMod, DType::kF32},
                {"f32_pow", BinaryKind::kPow, DType::kF32},    {"f32_less", BinaryKind::kLess, DType::kF32},
                {"i64_equal", BinaryKind::kEqual, DType::kI64}};
  for (const auto& b : binary) {
    const void *x = numbers(b.type), *z = numbers(b.type);
    add(b.name, [run = row.binary(b.kind, b.type, b.type), x, z] { run(kCount, x, z, result); });
  }
  const void *choice = numbers(DType::kBool), *x = numbers(DType::kF32), *z = numbers(DType::kF32);
  add("f32_where", [run = row.choose(4), choice, x, z] { run(kCount, choice, x, z, result); });
}

void BenchPeak(benchmark::State& state, const PeakKernel& row) {
  GuardedBuffer data(kPeakDataBytes);
  std::mt19937 rng(1);
  for (size_t i = 0; i < kPeakDataBytes; ++i) data.data()[i] = static_cast<char>(rng());
  constexpr size_t kSteps = 10000;
  Measure(state, "ops", PeakOperations(row, HostCpu().facts()) * kSteps,
          [&] { benchmark::DoNotOptimize(row.run(kSteps, data.data())); });
}

[[maybe_unused]] const bool kRegistered = [] {
  EachRow(AllPeakKernels(), [](const PeakKernel& row, const std::string&) {
    const std::string name = std::string("peak_") + row.engine + "_" + row.isa.name;
    if (row.run) Add(name, [&row](benchmark::State& state) { BenchPeak(state, row); });
  });
  AddGemm();
  AddPreparation();
  EachRow(AllDwConvKernels(), [](const DwConvKernel& row, const std::string&) {
    if (row.run) Add(Name(row).text, [&row](benchmark::State& state) { BenchDwConv(state, row); });
  });
  EachRow(AllVectorKernels(), [](const VectorKernel& row, const std::string& stem) {
    if (row.unary) AddVectorRow(row, stem);
  });
  EachRow(AllFoldKernels(), [](const FoldKernel& row, const std::string& stem) {
    if (row.f64.fold) AddFoldRow(row, stem);
  });
  EachRow(AllElementwiseKernels(), [](const ElementwiseKernel& row, const std::string& stem) {
    if (row.unary) AddElementwiseRow(row, stem);
  });
  return true;
}();

}  // namespace
}  // namespace quern::ukernel
