// Selection: that it follows M, N, the CPU and the precision, that it says why, and that no row is out of its reach.
#include "kernels/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/cpu.h"
#include "ukernel/transform.h"

namespace quern::kernels {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::StartsWith;

// "x86" is an x86-64 CPU with nothing optional; "generic" is that on such hosts only.
SelectOptions On(std::string_view cpu) {
  SelectOptions o;
  o.cpu = CpuFromSpec(cpu == "x86" ? "generic" : cpu).value().facts();
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
  EXPECT_THAT(Choose("sapphirerapids", p, 128), HasSubstr("avx512"));
  EXPECT_THAT(Choose("haswell", p, 128), HasSubstr("avx2"));
  EXPECT_THAT(Choose("graviton3", p, 128), HasSubstr("neon"));
  GemmProblem many = p;
  many.expected_m = 1024;
  EXPECT_THAT(Choose("apple-m4", many, 1024), HasSubstr("sme2"));
  GemmProblem one = p;
  one.expected_m = 1;
  EXPECT_THAT(Choose("apple-m4", one, 1), HasSubstr("neon"));
  EXPECT_THAT(Choose("sapphirerapids,-avx512", p, 128), HasSubstr("avx2"));
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

TEST(Select, FollowsMAndN) {
  const GemmProblem wide{.n = 4096, .k = 1024};
  EXPECT_NE(Choose("haswell", wide, 1), Choose("haswell", wide, 1024));
  GemmProblem narrow = wide;
  narrow.n = 16;
  EXPECT_NE(Choose("sapphirerapids", wide, 1024), Choose("sapphirerapids", narrow, 1024));
}

TEST(Select, FollowsThePrecision) {
  GemmProblem p{.n = 1024, .k = 1024, .expected_m = 1024};
  EXPECT_THAT(Choose("sapphirerapids", p, 1024), HasSubstr("f32_f32_f32"));
  p.precision = Precision::kFp32Fast;
  EXPECT_THAT(Choose("sapphirerapids", p, 1024), HasSubstr("amx"));
  EXPECT_THAT(Choose("haswell", p, 1024), HasSubstr("f32_f32_f32"));
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
  EXPECT_THAT(report.rows, row("portable", "layout f32 [N/8][K][8]"));

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

  GemmKernel steps = options.rows[0]->rows[0];
  steps.k_divisor = 32;
  const ukernel::KernelList<GemmKernel> list{&steps, 1, "steps"};
  const ukernel::KernelList<GemmKernel>* const table[] = {&list};
  options.rows = table;
  GemmProblem odd{.lhs = ukernel::LhsSourceFormat(steps), .rhs = steps.rhs, .n = 64, .k = 40};
  odd.precision = Precision::kBf16;
  options.cpu = On("sapphirerapids").cpu;
  EXPECT_EQ(RejectionReason(steps, odd, options, nullptr), "K % 32 != 0");
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
      {"haswell", run_time, 100, "f32 [N/16][K][16] | gemm_f32_f32_f32_6x16x1_avx2 | 1003301"},
      {"haswell", columns, 100, "f32 [N/16][K][16] | gemm_f32_f32_f32_6x16x1_avx2 | 2019109"},
      {"haswell", i8d, 100, "i8 [N/16][K/4][16][4], sums, channel scales | gemm_i8d_i8_i32_4x16x4_avx2 | 754301"},
      {"haswell", blocks, 100, "qb4w [N/16][K/8][16][8] bf16 scales, sums | gemm_i8d_qb4w_f32_16x32x16_avx2 | 526474"},
      {"haswell", i8, 4, "i8 [N/16][K/4][16][4], sums | gemm_u8_i8_i32_4x16x4_avx2 | 29402"},
      {"icelake", f32, 100, "f32 [N/16][K][16] | gemm_f32_f32_f32_6x64x1_avx512 | 469842"},
      {"icelake", i8d, 100,
       "i8 [N/16][K/4][16][4], sums, channel scales | gemm_i8d_i8_i32_12x32x4_avx512vnni | 150979"},
      {"icelake", blocks, 100,
       "qb4w [N/16][K/8][16][8] bf16 scales, sums | gemm_i8d_qb4w_f32_16x64x16_avx512vnni | 194914"},
      {"icelake", i8, 4, "i8 [N/16][K/4][16][4], sums | gemm_u8_i8_i32_12x32x4_avx512vnni | 5517"},
      {"sapphirerapids", columns, 100, "f32 [N/16][K][16] | gemm_f32_f32_f32_6x64x1_avx512 | 1518418"},
      {"graviton3", f32, 100, "f32 [N/8][K][8] | gemm_f32_f32_f32_6x16x1_neon | 850863"},
      {"graviton3", columns, 100, "f32 [N/8][K][8] | gemm_f32_f32_f32_6x16x1_neon | 1899439"},
      {"graviton3", i8d, 100,
       "i8 [N/16][K/4][16][4], sums, channel scales | gemm_i8d_i8_i32_2x16x4_portable | 2282019"},
      {"apple-m4", f32, 100, "f32 [N/2v][K][2v] | gemm_f32_f32_f32_2vx2vx1_sme2 | 109832"},
      {"apple-m4", run_time, 100, "f32 [N/8][K][8] | gemm_f32_f32_f32_6x16x1_neon | 912781"},
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
  for (const char* cpu :
       {"x86", "haswell", "icelake", "sapphirerapids", "sapphirerapids,-avx512f", "graviton3", "apple-m4"}) {
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

TEST(Select, NamesLayouts) {
  EXPECT_EQ(LayoutName(ukernel::kF32x16), "f32 [N/16][K][16]");
  EXPECT_EQ(LayoutName(ukernel::kI8x16), "i8 [N/16][K/4][16][4], sums");
  EXPECT_EQ(LayoutName(ukernel::Blocks4x16(Format::kBf16)), "qb4w [N/16][K/8][16][8] bf16 scales, sums");
  EXPECT_EQ(LayoutName(ukernel::kF32Sme), "f32 [N/2v][K][2v]");
}

}  // namespace
}  // namespace quern::kernels
