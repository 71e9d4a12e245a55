// Selection: that it follows M, N, the CPU and the precision, that it says why, and that no row is out of its reach.
#include "kernels/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "base/cpu.h"
#include "ukernel/transform.h"

namespace quern::kernels {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::StartsWith;

// "x86" is an x86-64 CPU with nothing optional ("generic" is that on such hosts only), "vnni-int8" one with AVX2 and
// AVX-VNNI-INT8, "amxfp16" has Granite Rapids' addition to Sapphire Rapids.
SelectOptions On(std::string_view cpu) {
  SelectOptions o;
  const bool vnni_int8 = cpu == "vnni-int8", amx_fp16 = cpu == "amxfp16";
  o.cpu = CpuFromSpec(cpu == "x86" ? "generic"
                      : vnni_int8  ? "haswell"
                      : amx_fp16   ? "sapphirerapids"
                                   : cpu)
              .value()
              .facts();
  if (vnni_int8) o.cpu.features.Set(CpuFeature::kAvxVnniInt8);
  if (amx_fp16) o.cpu.features.Set(CpuFeature::kAmxFp16);
  if (cpu == "x86") {
    o.cpu.arch = Arch::kX86_64;
    o.cpu.features = {};
  }
  o.ignore_missing_bodies = true;
  return o;
}

// The row that both stages come to.
std::string Choose(const char* cpu, GemmProblem p, size_t m) {
  const SelectOptions options = On(cpu);
  const Result<LayoutChoice> layout = SelectLayout(p, options);
  if (!layout.ok()) return layout.status().message();
  const std::vector<const GemmKernel*> rows = EligibleRows(p, options, *layout);
  return ukernel::Name(*SelectRow(rows, p, options.cpu, layout->layout, m)).text;
}

TEST(Select, FollowsTheCpu) {
  const GemmProblem p{.n = 512, .k = 512};
  EXPECT_THAT(Choose("sapphirerapids", p, 128), HasSubstr("bf16x3_f32_f32_32x32x32_amx"));
  EXPECT_THAT(Choose("sapphirerapids", p, 4), HasSubstr("avx512"));
  EXPECT_THAT(Choose("sapphirerapids,-amx", p, 128), HasSubstr("avx512"));
  EXPECT_THAT(Choose("haswell", p, 128), HasSubstr("avx2"));
  EXPECT_THAT(Choose("graviton3", p, 128), HasSubstr("sve"));
  EXPECT_THAT(Choose("graviton3,-sve", p, 128), HasSubstr("neon"));
  GemmProblem many = p;
  many.expected_m = 1024;
  EXPECT_THAT(Choose("apple-m4", many, 1024), HasSubstr("sme2"));
  GemmProblem one = p;
  one.expected_m = 1;
  EXPECT_THAT(Choose("apple-m4", one, 1), HasSubstr("neon"));
  for (Format format : {Format::kBf16, Format::kF16}) {  // one copy of the weights serves many rows and one
    many.lhs = many.rhs = format;
    EXPECT_THAT(Choose("apple-m4", many, 1024), HasSubstr("sme2"));
    EXPECT_THAT(Choose("apple-m4", many, 1), HasSubstr("2vx1_neon"));
  }
  EXPECT_THAT(Choose("sapphirerapids,-avx512", p, 128), HasSubstr("avx2"));
}

TEST(Select, TakesLongVectorsForWeightsThatStayInCaches) {
  GemmProblem p{.n = 2048, .k = 512, .expected_m = 1};
  EXPECT_THAT(Choose("zen4", p, 1), HasSubstr("avx2"));  // as fast by the estimate, and out of memory in fact
  p.weights_stay = true;
  EXPECT_THAT(Choose("zen4", p, 1), HasSubstr("avx512"));
  EXPECT_THAT(Choose("haswell", p, 1), HasSubstr("avx2"));
}

TEST(Select, FollowsTheInt8InstructionsOfTheCpu) {
  for (const Format lhs : {Format::kI8, Format::kU8, Format::kI8d}) {
    const GemmProblem p{.lhs = lhs, .rhs = Format::kI8, .n = 512, .k = 512};
    EXPECT_THAT(Choose("x86", p, 512), HasSubstr("portable"));
    EXPECT_THAT(Choose("haswell", p, 512), HasSubstr("avx2"));
    EXPECT_THAT(Choose("vnni-int8", p, 512), HasSubstr("avxvnniint8"));
    EXPECT_THAT(Choose("sapphirerapids,-avx512,-amx", p, 512), testing::EndsWith("avxvnni"));
    EXPECT_THAT(Choose("icelake", p, 512), HasSubstr("avx512vnni"));
    EXPECT_THAT(Choose("sapphirerapids", p, 512), HasSubstr("amxint8"));
    EXPECT_THAT(Choose("sapphirerapids", p, 16), HasSubstr("amxint8"));
    GemmProblem one = p;
    one.expected_m = 1;
    EXPECT_THAT(Choose("sapphirerapids", one, 1), HasSubstr("avx512vnni"));
  }
}

// Half as many 512-bit units make a multiply-add of 64 bytes as fast as two of 32: AVX-512 stays ahead by its fewer
// loads.
TEST(Select, FollowsThePortsOfTheCpu) {
  GemmProblem p{.n = 1024, .k = 1024, .expected_m = 1024};
  SelectOptions options = On("icelake");
  const auto cycles = [&] {
    const LayoutChoice layout = SelectLayout(p, options).value();
    const GemmKernel* row = SelectRow(EligibleRows(p, options, layout), p, options.cpu, layout.layout, 1024);
    EXPECT_THAT(std::string(ukernel::Name(*row).text), HasSubstr("avx512"));
    return EstimateCycles(*row, p, options.cpu, layout.layout, 1024);
  };
  const double two = cycles();
  options.cpu.fma512_ports = 1;
  EXPECT_GT(cycles(), 1.6 * two);
}

// Half a vector of columns takes half of the time where vectors are computed in halves, in the calls that have a body
// for it.
TEST(Select, CountsNarrowUnits) {
  const auto cycles = [](const char* cpu, const char* name, size_t m, size_t n) {
    SelectOptions options = On(cpu);
    options.force_row = name;
    const GemmProblem p{.n = n, .k = 96, .expected_m = m};
    const LayoutChoice layout = SelectLayout(p, options).value();
    const GemmKernel* row = SelectRow(EligibleRows(p, options, layout), p, options.cpu, layout.layout, m);
    return GemmTileCycles(*row, options.cpu, m, n, p.k);
  };
  const char* const tile = "gemm_f32_f32_f32_8x48x1_avx512";
  EXPECT_LT(cycles("zen4", tile, 8, 24), cycles("zen4", tile, 8, 25));
  EXPECT_EQ(cycles("zen4", tile, 8, 40), cycles("zen4", tile, 8, 41)) << "three units";
  EXPECT_EQ(cycles("zen4", tile, 7, 24), cycles("zen4", tile, 7, 25)) << "not all rows";
  EXPECT_EQ(cycles("skylake-avx512", tile, 8, 24), cycles("skylake-avx512", tile, 8, 25)) << "whole vectors";
  EXPECT_LT(cycles("zen4", "gemm_f32_f32_f32_6x64x1_avx512", 6, 40),
            cycles("zen4", "gemm_f32_f32_f32_6x64x1_avx512", 6, 41));
  EXPECT_LT(cycles("zen4", "gemm_f32_f32_f32_16x16x1_avx512", 16, 8),
            cycles("zen4", "gemm_f32_f32_f32_16x16x1_avx512", 16, 9));
}

TEST(Select, FollowsMAndN) {
  const GemmProblem wide{.n = 4096, .k = 1024};
  EXPECT_NE(Choose("haswell", wide, 1), Choose("haswell", wide, 1024));
  GemmProblem narrow = wide;
  narrow.n = 16;
  EXPECT_NE(Choose("sapphirerapids", wide, 1024), Choose("sapphirerapids", narrow, 1024));
}

TEST(Select, FollowsThePrecision) {
  GemmProblem p{.n = 1024, .k = 1024, .expected_m = 1024};
  EXPECT_THAT(Choose("sapphirerapids", p, 1024), HasSubstr("bf16x3"));
  p.precision = Precision::kFp32Fast;
  EXPECT_THAT(Choose("sapphirerapids", p, 1024), HasSubstr("bf16x2"));
  EXPECT_THAT(Choose("haswell", p, 1024), HasSubstr("f32_f32_f32"));
}

// The numbers of 16-bit floats are the operands: an engine of them serves fp32 where its sums are float32.
TEST(Select, TakesSixteenBitFloatsAsTheyAre) {
  GemmProblem bf16{.lhs = Format::kBf16, .rhs = Format::kBf16, .n = 1024, .k = 1024};
  EXPECT_THAT(Choose("sapphirerapids", bf16, 1024), HasSubstr("bf16_bf16_f32_32x32x32_amxbf16"));
  EXPECT_THAT(Choose("sapphirerapids,-amx", bf16, 1024), HasSubstr("avx512bf16"));
  EXPECT_THAT(Choose("icelake", bf16, 1024), HasSubstr("8x48x1_avx512"));
  EXPECT_THAT(Choose("haswell", bf16, 1), HasSubstr("2x32x2_avx2"));
  GemmProblem f16{.lhs = Format::kF16, .rhs = Format::kF16, .n = 1024, .k = 1024};
  EXPECT_THAT(Choose("amxfp16", f16, 1024), HasSubstr("amxfp16"));
  EXPECT_THAT(Choose("sapphirerapids", f16, 1024), HasSubstr("8x48x1_avx512"));
  f16.precision = Precision::kFp16;
  EXPECT_THAT(Choose("sapphirerapids", f16, 1024), HasSubstr("avx512fp16"));
  // Nor do float32 rows, but for that precision.
  GemmProblem by_f16{.rhs = Format::kF16, .n = 1024, .k = 1024, .precision = Precision::kFp16};
  EXPECT_THAT(Choose("sapphirerapids,-amx", by_f16, 1024), AllOf(HasSubstr("f32_f16_f32"), HasSubstr("avx512fp16")));
  EXPECT_THAT(Choose("amxfp16", by_f16, 1024), HasSubstr("amxfp16"));
  for (Precision precision : {Precision::kFp32, Precision::kFp32Fast, Precision::kBf16}) {
    by_f16.precision = precision;
    EXPECT_THAT(Choose("amxfp16", by_f16, 1024), testing::Not(HasSubstr("fp16")));
  }
  // Weights of many rows and of one stay f16 in memory.
  by_f16.precision = Precision::kFp32;
  EXPECT_THAT(Choose("apple-m4", by_f16, 1024), HasSubstr("f32_f16_f32_2vx2vx1_sme2"));
  EXPECT_THAT(Choose("apple-m4", by_f16, 1), HasSubstr("f32_f16_f32_4x2vx1_neon"));
  // float32 weights do not become f16, whatever the precision.
  GemmProblem f32{.n = 64, .k = 64, .precision = Precision::kBf16};
  EXPECT_THAT(Choose("haswell", f32, 1), HasSubstr("f32_f32_f32"));
}

TEST(Select, SaysWhyNot) {
  SelectOptions options = On("sapphirerapids");
  const GemmProblem p{.n = 512, .k = 512};
  SelectionReport report;
  ASSERT_TRUE(SelectLayout(p, options, &report).ok());
  ASSERT_FALSE(report.layouts.empty());
  ASSERT_FALSE(report.rows.empty());
  EXPECT_EQ(report.layouts[0].reason, "");
  EXPECT_EQ(report.layouts[0].name, "f32 [N/16][K][16]");
  EXPECT_EQ(report.rows[0].reason, "");
  for (size_t i = 1; i < report.rows.size(); ++i) EXPECT_NE(report.rows[i].reason, "") << report.rows[i].name;
  const auto row = [](const char* name, const char* reason) {
    return Contains(
        AllOf(Field(&RowCandidate::name, HasSubstr(name)), Field(&RowCandidate::reason, StartsWith(reason))));
  };
  EXPECT_THAT(report.rows, row("f32_f32_f32", "cost "));
  EXPECT_THAT(report.rows, row("neon", "for aarch64"));
  EXPECT_THAT(report.rows, row("amx", "precision fp32-fast not allowed"));
  EXPECT_THAT(report.rows, row("i8_i8_i32", "left side i8"));

  options = On("graviton3");
  ASSERT_TRUE(SelectLayout(p, options, &report).ok());
  EXPECT_THAT(report.rows, row("sme2", "needs sme"));
  EXPECT_THAT(report.rows, row("portable", "layout f32 [N/2v][K][2v]"));

  options.ignore_missing_bodies = false;
  if (HostArch() != Arch::kAArch64) {
    EXPECT_THAT(RejectionReason(*options.rows[0]->rows, p, options, nullptr), testing::Not(testing::IsEmpty()));
    SelectionReport empty;
    const Result<LayoutChoice> host = SelectLayout(p, options, &empty);
    ASSERT_TRUE(host.ok());  // the portable row
    EXPECT_THAT(empty.rows, row("neon", "no body in this build"));
  }

  options = On("sapphirerapids,-avx512f");
  ASSERT_TRUE(SelectLayout(p, options, &report).ok());
  EXPECT_THAT(report.rows, row("avx512", "needs avx512f"));
  EXPECT_THAT(report.rows[0].name, HasSubstr("avx2"));

  GemmKernel steps;
  for (const auto* table : options.rows) {
    if (std::string_view(table->stem) == "gemm_f32_f32_f32_portable") steps = table->rows[0];
  }
  steps.k_divisor = 32;
  const ukernel::KernelList<GemmKernel> list{&steps, 1, "steps"};
  const ukernel::KernelList<GemmKernel>* const table[] = {&list};
  options.rows = table;
  GemmProblem odd{.lhs = ukernel::LhsSourceFormat(steps), .rhs = steps.rhs, .n = 64, .k = 40};
  odd.precision = Precision::kBf16;
  options.cpu = On("sapphirerapids").cpu;
  EXPECT_EQ(RejectionReason(steps, odd, options, nullptr), "K % 32 != 0");
}

TEST(Select, LeavesOutWhatIsSwitchedOff) {
  const GemmProblem p{.n = 512, .k = 512, .expected_m = 512};
  EXPECT_THAT(Choose("icelake", p, 512), HasSubstr("avx512"));
  EXPECT_THAT(Choose("icelake,-vector512", p, 512), HasSubstr("avx2"));
  EXPECT_THAT(Choose("icelake,-gemm", p, 512), HasSubstr("portable"));
  EXPECT_THAT(Choose("apple-m4", p, 512), HasSubstr("sme2"));
  EXPECT_THAT(Choose("apple-m4,-matrix", p, 512), HasSubstr("neon"));
  EXPECT_THAT(Choose("icelake,-pack,-winograd", p, 512), HasSubstr("avx512"));
  SelectionReport report;
  ASSERT_TRUE(SelectLayout(p, On("icelake,-vector512"), &report).ok());
  EXPECT_THAT(report.rows, Contains(AllOf(Field(&RowCandidate::name, HasSubstr("f32_f32_f32_6x64x1_avx512")),
                                          Field(&RowCandidate::reason, "vector512 is switched off"))));

  // Of the other families, portable rows remain.
  const CpuFacts all = On("icelake").cpu;
  const auto without = [](const char* family) { return On(std::string("icelake,-") + family).cpu; };
  const ukernel::PackLayout& f32 = ukernel::kF32x16;
  const ukernel::TransformKernel* fast = nullptr;
  for (const auto* list : ukernel::AllTransformKernels()) {
    const ukernel::TransformKernel& t = list->rows[0];
    if (t.isa.name == std::string("avx512")) fast = &t;
  }
  ASSERT_NE(fast, nullptr);
  const auto transform = [&](const CpuFacts& cpu) {
    return std::string(ukernel::FindTransformKernel(fast->from, fast->to, cpu, ukernel::Lookup::kCost)->isa.name);
  };
  EXPECT_EQ(transform(all), "avx512");
  EXPECT_EQ(transform(without("pack")), "avx512");
  EXPECT_EQ(transform(without("transform")), "portable");
  ukernel::RhsSource source{.k_stride = 4 * 512, .n_stride = 4};
  source.format = Format::kF32;
  const auto pack = [&](const CpuFacts& cpu) {
    const ukernel::PackKernel* row = ukernel::FindPackKernel(f32, source, cpu, ukernel::Lookup::kCost);
    return row ? std::string(row->isa.name) : "";
  };
  EXPECT_EQ(pack(all), "avx2");
  EXPECT_EQ(pack(without("pack")), "portable");
}

TEST(Select, BlocksStayBlocksUnlessAllowed) {
  GemmProblem p{.lhs = Format::kF32, .rhs = Format::kU4, .n = 64, .k = 128, .block = 8, .scale = Format::kBf16};
  const Result<LayoutChoice> refused = SelectLayout(p, On("haswell"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.status().message(), HasSubstr("would expand the blocks"));
  p.allow_expansion = true;
  EXPECT_TRUE(SelectLayout(p, On("haswell")).ok());
  p.allow_expansion = false;
  p.block = 32;
  for (const Format lhs : {Format::kF32, Format::kI8d, Format::kI8b}) {
    p.lhs = lhs;
    const Result<LayoutChoice> layout = SelectLayout(p, On("haswell"));
    ASSERT_TRUE(layout.ok()) << layout.status().message();
    EXPECT_EQ(layout->layout.element, Format::kU4);
  }
}

TEST(Select, CostReasonsTell) {
  EXPECT_EQ(CostReason(180, 100), "cost 1.8x of best");
  EXPECT_EQ(CostReason(1042, 100), "cost 10.4x of best");
  EXPECT_EQ(CostReason(104, 100), "cost 1.04x of best");
  EXPECT_EQ(CostReason(100.3, 100), "cost 1.003x of best");
  EXPECT_EQ(CostReason(100, 100), "cost equal to best");
}

// Choices and their cycles are functions of problem, CPU and rows: the same numbers on every host that runs this.
TEST(Select, ChoosesTheSameOnEveryHost) {
  struct Case {
    const char* cpu;
    GemmProblem problem;
    size_t m;
    const char* want;  // "<layout> | <row> | <cycles>"
  };
  const GemmProblem f32{.n = 256, .k = 512};
  GemmProblem run_time = f32, columns = f32, fast = f32;
  run_time.rhs_constant = columns.rhs_constant = false;
  run_time.rhs_contiguous = true;
  fast.precision = Precision::kFp32Fast;
  const GemmProblem i8{.lhs = Format::kU8, .rhs = Format::kI8, .n = 256, .k = 512};
  const GemmProblem i8d{.lhs = Format::kI8d, .rhs = Format::kI8, .n = 256, .k = 512, .channel_scales = true};
  const GemmProblem blocks{
      .lhs = Format::kI8d, .rhs = Format::kU4, .n = 256, .k = 512, .block = 32, .scale = Format::kBf16};
  const Case cases[] = {
      {"x86", f32, 100, "f32 [N/16][K][16] | gemm_f32_f32_f32_3x16x1_portable | 4965706"},
      {"x86", blocks, 100, "qb4w [N/16][K/8][16][8] bf16 scales, sums | gemm_i8d_qb4w_f32_8x16x16_portable | 3090794"},
      {"haswell", f32, 100, "f32 [N/16][K][16] | gemm_f32_f32_f32_6x16x1_avx2 | 970533"},
      {"haswell", run_time, 100, "f32 [N/16][K][16] | gemm_f32_f32_f32_6x16x1_avx2 | 1019050"},
      {"haswell", columns, 100, "f32 [N/16][K][16] | gemm_f32_f32_f32_6x16x1_avx2 | 1051818"},
      {"haswell", i8d, 100, "i8 [N/16][K/4][16][4], sums, channel scales | gemm_i8d_i8_i32_4x256x4_avx2 | 594991"},
      {"haswell", blocks, 100, "qb4w [N/16][K/8][16][8] bf16 scales, sums | gemm_i8d_qb4w_f32_16x32x16_avx2 | 526474"},
      {"haswell", i8, 4, "i8 [N/16][K/4][16][4], sums | gemm_u8_i8_i32_4x256x4_avx2 | 23029"},
      {"icelake", f32, 100, "f32 [N/16][K][16] | gemm_f32_f32_f32_6x64x1_avx512 | 469842"},
      {"icelake", i8d, 100,
       "i8 [N/16][K/4][16][4], sums, channel scales | gemm_i8d_i8_i32_12x256x4_avx512vnni | 134789"},
      {"icelake", blocks, 100,
       "qb4w [N/16][K/8][16][8] bf16 scales, sums | gemm_i8d_qb4w_f32_16x64x16_avx512vnni | 179554"},
      {"icelake", i8, 4, "i8 [N/16][K/4][16][4], sums | gemm_u8_i8_i32_12x256x4_avx512vnni | 5260"},
      {"sapphirerapids", columns, 100, "f32 [N/16][K][16] | gemm_bf16x3_f32_f32_32x32x32_amxbf16 | 498135"},
      {"graviton3", f32, 100, "f32 [N/2v][K][2v] | gemm_f32_f32_f32_6x4vx1_sve | 819477"},
      {"graviton3", columns, 100, "f32 [N/2v][K][2v] | gemm_f32_f32_f32_6x4vx1_sve | 953191"},
      {"graviton3", i8d, 100, "i8 [N/2v][K/8][2v][8], sums, channel scales | gemm_i8d_i8_i32_8x2vx8_svei8mm | 180867"},
      {"graviton3,-sve", i8, 100, "i8 [N/8][K/8][8][8], sums | gemm_u8_i8_i32_4x16x8_neoni8mm | 160419"},
      {"graviton3,-sve", blocks, 100,
       "qb4w [N/8][K/16][8][16] bf16 scales, sums | gemm_i8d_qb4w_f32_64x8x16_neoni8mm | 286954"},
      {"graviton3,-sve,-i8mm", i8, 1, "i8 [N/8][K/4][8][4], sums | gemm_u8_i8_i32_4x16x4_neondot | 6371"},
      {"graviton3,-sve,-dotprod", i8, 100, "i8 [N/8][K/4][8][4], sums | gemm_u8_i8_i32_2x16x4_neon | 946659"},
      {"apple-m4", i8, 1000, "i8 [N/2v][K/4][2v][4], sums | gemm_u8_i8_i32_2vx2vx4_sme2 | 282814"},
      {"apple-m4", f32, 100, "f32 [N/2v][K][2v] | gemm_f32_f32_f32_2vx2vx1_sme2 | 109832"},
      {"apple-m4", run_time, 100, "f32 [N/2v][K][2v] | gemm_f32_f32_f32_2vx2vx1_sme2 | 180286"},
      {"sapphirerapids", fast, 1000, "f32 [N/16][K][16] | gemm_bf16x2_f32_f32_32x32x32_amxbf16 | 1590941"},
      {"haswell", f32, 1, "f32 [N/16][K][16] | gemm_f32_f32_f32_2x32x1_avx2 | 53726"},
  };
  for (const Case& c : cases) {
    const SelectOptions options = On(c.cpu);
    const Result<LayoutChoice> layout = SelectLayout(c.problem, options);
    ASSERT_TRUE(layout.ok()) << layout.status().message();
    const GemmKernel* row =
        SelectRow(EligibleRows(c.problem, options, *layout), c.problem, options.cpu, layout->layout, c.m);
    ASSERT_NE(row, nullptr);
    const double cycles = EstimateCycles(*row, c.problem, options.cpu, layout->layout, c.m);
    EXPECT_EQ(
        LayoutName(layout->layout) + " | " + ukernel::Name(*row).text + " | " + std::to_string(std::lround(cycles)),
        c.want)
        << c.cpu << " m=" << c.m;
  }
}

// Every row that selection may take by itself is taken for some shape, CPU, type and precision.
TEST(Select, ReachesEveryRow) {
  std::vector<GemmProblem> kinds;
  for (Precision precision : {Precision::kFp32, Precision::kFp32Fast, Precision::kBf16}) {
    kinds.push_back({.precision = precision});
  }
  for (size_t segments : {1, 9}) {
    kinds.push_back({.lhs = Format::kBf16, .rhs = Format::kBf16, .segments = segments});
    for (Precision precision : {Precision::kFp32, Precision::kFp16}) {
      kinds.push_back({.lhs = Format::kF32, .rhs = Format::kF16, .segments = segments, .precision = precision});
      kinds.push_back({.lhs = Format::kF16, .rhs = Format::kF16, .segments = segments, .precision = precision});
    }
  }
  for (const Format f : {Format::kF32, Format::kF64}) {
    kinds.push_back({.lhs = f, .rhs = f, .rhs_constant = false, .rhs_contiguous = true});
  }
  kinds.push_back({.lhs = Format::kF64, .rhs = Format::kF64});
  kinds.push_back({.lhs = Format::kI8, .rhs = Format::kI8});
  kinds.push_back({.lhs = Format::kU8, .rhs = Format::kI8});
  kinds.push_back({.lhs = Format::kI8d, .rhs = Format::kI8});
  kinds.push_back({.lhs = Format::kI8d, .rhs = Format::kI8, .channel_scales = true});
  kinds.push_back({.lhs = Format::kI8d, .rhs = Format::kU4, .block = 32, .scale = Format::kBf16});
  kinds.push_back(
      {.lhs = Format::kI8d, .rhs = Format::kU4, .block = 64, .scale = Format::kF32, .zero_point = Format::kU8});
  kinds.push_back({.lhs = Format::kI8d, .rhs = Format::kQ4_0, .scale = Format::kF16});
  kinds.push_back({.lhs = Format::kI8d, .rhs = Format::kQ4_1, .scale = Format::kF16, .zero_point = Format::kF32});
  for (const Format lhs : {Format::kF32, Format::kI8d}) {
    kinds.push_back({.lhs = lhs, .rhs = Format::kU2, .block = 32, .scale = Format::kF32});
    kinds.push_back({.lhs = lhs, .rhs = Format::kU4, .block = 32, .scale = Format::kF32});
    kinds.push_back({.lhs = lhs, .rhs = Format::kU8, .block = 32, .scale = Format::kF32, .zero_point = Format::kU8});
    kinds.push_back({.lhs = lhs, .rhs = Format::kQ8_0, .scale = Format::kF16});
  }
  for (const Format rhs : {Format::kQ4_0, Format::kQ8_0}) {
    kinds.push_back({.lhs = Format::kI8b, .rhs = rhs, .scale = Format::kF16});
  }
  kinds.push_back({.lhs = Format::kI8d, .rhs = Format::kI4, .channel_scales = true});
  std::set<const GemmKernel*> reached;
  for (const char* cpu : {"x86", "haswell", "icelake", "sapphirerapids", "sapphirerapids,-amx",
                          "sapphirerapids,-avx512,-amx", "amxfp16", "vnni-int8", "graviton3", "graviton3,-i8mm",
                          "graviton3,-sve", "graviton3,-sve,-i8mm", "graviton3,-sve,-dotprod",
                          "graviton3,-sve,-bf16,-fhm", "apple-m4", "apple-m4,-sme2", "apple-m4,-sme2,-dotprod"}) {
    const SelectOptions options = On(cpu);
    for (GemmProblem p : kinds) {
      for (size_t n : {8, 16, 32, 48, 64, 256, 4096}) {
        for (size_t k : {64, 1024}) {
          p.n = n;
          p.k = k;
          for (size_t expected : {0, 1, 1024}) {
            p.expected_m = expected;
            const Result<LayoutChoice> layout = SelectLayout(p, options);
            if (!layout.ok()) continue;
            const std::vector<const GemmKernel*> rows = EligibleRows(p, options, *layout);
            for (size_t m : {1, 2, 4, 8, 16, 128, 1024}) {
              reached.insert(SelectRow(rows, p, options.cpu, layout->layout, m));
            }
          }
        }
      }
    }
  }
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      EXPECT_TRUE(row.only_forced || reached.count(&row)) << ukernel::Name(row).text << " is never selected";
    }
  }
}

TEST(Select, HasRoomForTheRowsOfALeftSide) {
  std::map<std::pair<Format, Arch>, size_t> counts;
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      const Format lhs = ukernel::IsDynamic(row.lhs) ? row.lhs : ukernel::LhsSourceFormat(row);
      for (const Arch arch : {Arch::kX86_64, Arch::kAArch64}) {
        if (row.isa.any_arch || row.isa.arch == arch) ++counts[{lhs, arch}];
      }
    }
  }
  for (const auto& [key, count] : counts) EXPECT_LT(count, ukernel::kMaxPossibleRows) << FormatName(key.first);
}

TEST(Select, HasRoomForEveryLayout) {
  std::vector<PackLayout> layouts;
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      for (const PackLayout& l : list->rows[i].layouts) {
        if (std::find(layouts.begin(), layouts.end(), l) == layouts.end()) layouts.push_back(l);
      }
    }
  }
  EXPECT_LE(layouts.size(), ukernel::kMaxLayoutScores);
}

TEST(Select, NamesLayouts) {
  EXPECT_EQ(LayoutName(ukernel::kF32x16), "f32 [N/16][K][16]");
  EXPECT_EQ(LayoutName(ukernel::kI8x16), "i8 [N/16][K/4][16][4], sums");
  EXPECT_EQ(LayoutName(ukernel::Blocks4x16(Format::kBf16)), "qb4w [N/16][K/8][16][8] bf16 scales, sums");
  EXPECT_EQ(LayoutName(ukernel::kF32Sme), "f32 [N/2v][K][2v]");
}

}  // namespace
}  // namespace quern::kernels
