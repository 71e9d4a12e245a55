// Peaks: that every loop of the host is there, on one thread and on several.
#include "kernels/peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "ukernel/peak.h"

namespace quern::kernels {
namespace {

std::set<std::string> Names(const std::vector<Peak>& peaks) {
  std::set<std::string> names;
  for (const Peak& p : peaks) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_GT(p.value, 0) << p.name;
    EXPECT_GE(p.best, p.value) << p.name;
    EXPECT_EQ(p.unit == "GB/s", p.name.rfind("read ", 0) == 0 || p.name.rfind("copy ", 0) == 0) << p.name;
  }
  return names;
}

TEST(Peaks, AreOfEveryEngineAndLevel) {
  const CpuInfo& host = HostCpu();
  const std::set<std::string> one = Names(MeasurePeaks(host, {.rounds = 1, .seconds_per_round = 1e-4}));
  for (const auto* list : ukernel::AllPeakKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const ukernel::PeakKernel& row = list->rows[i];
      if (!row.run) continue;
      const std::string name = std::string(row.engine) + " " + row.isa.name;
      EXPECT_EQ(one.count(name) == 1, IsaRunsOn(row.isa, host.facts())) << name;
    }
  }
  EXPECT_TRUE(one.count("read memory"));
  EXPECT_TRUE(one.count("copy memory"));
  EXPECT_EQ(one.count("read l1") == 1, host.l1d.bytes != 0);
  EXPECT_EQ(one.count("copy l2") == 1, host.l2.bytes != 0);
  EXPECT_EQ(Names(MeasurePeaks(host, {.rounds = 2, .seconds_per_round = 1e-4, .threads = 2})), one);
}

TEST(Peaks, FollowTheCpuAskedFor) {
  const PeakOptions quick{.rounds = 1, .seconds_per_round = 1e-4, .bandwidth = false};
  EXPECT_THAT(Names(MeasurePeaks(CpuFromSpec("generic").value(), quick)),
              testing::IsSubsetOf({"fma portable", "fma64 portable", "fma neon", "fma64 neon"}));
}

// The loops are those of the rows' own instructions: on this host, and for all rows of the build by what loops say.
TEST(Peaks, BelongToRows) {
  using ukernel::Format;
  const CpuFacts host = HostCpu().facts();
  int served = 0;
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const ukernel::GemmKernel& row = list->rows[i];
      if (!row.run || !IsaRunsOn(row.isa, host)) continue;
      SCOPED_TRACE(ukernel::Name(row).text);
      const ukernel::PeakKernel* loop = PeakOf(row, host);
      EXPECT_EQ(PeakNameOf(ukernel::Name(row).text), loop ? PeakName(*loop) : "");
      const bool integers = FormatBits(row.lhs) == 8;
      if (!loop) {
        EXPECT_TRUE(integers && (row.isa.any_arch || std::string(row.isa.name) == "neon")) << "floats have an FMA loop";
        continue;
      }
      ++served;
      EXPECT_EQ(loop->multiplies == Format::kI8, integers);
      EXPECT_GT(MeasureSlice(*loop, 1e-5), 0);
      EXPECT_TRUE(!loop->half_sums || row.precision == ukernel::Precision::kFp16);
    }
  }
  EXPECT_GE(served, 1);
  EXPECT_EQ(PeakNameOf("winograd_4x3_avx2"), "");
}

TEST(Peaks, OfRowsByName) {
  // Stem of a file, and the loop of its rows where the host runs them.
  const struct {
    const char *stem, *loop;
  } cases[] = {
      {"gemm_f64_f64_f64_avx2", "fma64 avx2"},
      {"gemm_f32_f32_f32_avx2", "fma avx2"},
      {"gemm_f32_qb4w_f32_avx512", "fma avx512"},
      {"gemm_bf16_bf16_f32_avx512", "fma avx512"},
      {"gemm_bf16_bf16_f32_avx512bf16", "bf16 avx512bf16"},
      {"gemm_f16_f16_f32_avx512fp16", "fma16 avx512fp16"},
      {"gemm_f32_f16_f32_amxfp16", "amx amxfp16"},
      {"gemm_bf16x3_f32_f32_amxbf16", "amx amxbf16"},
      {"gemm_i8_i8_i32_avx2", "madd avx2"},
      {"gemm_i8d_qb4w_f32_avx512vnni", "vnni avx512vnni"},
      {"gemm_i8_i8_i32_amxint8", "amx amxint8"},
      {"gemm_f16_f16_f32_neon", "fma neon"},
      {"gemm_f16_f16_f32_neonfp16", "fma16 neonfp16"},
      {"gemm_f16_f16_f32_neonfhm", "fmlal neonfhm"},
      {"gemm_i8_i8_i32_neondot", "dot neondot"},
      {"gemm_i8_i8_i32_neoni8mm", "mmla neoni8mm"},
      {"gemm_f16_f16_f32_sve", "fma sve"},
      {"gemm_i8b_i8_f32_sve", "dot sve"},
      {"gemm_i8_i8_i32_svei8mm", "mmla svei8mm"},
      {"gemm_bf16_bf16_f32_svebf16", "mmla svebf16"},
      {"gemm_f32_f32_f32_sme", "mopa sme"},
      {"gemm_f32_f16_f32_sme2", "mopa sme"},
      {"gemm_bf16_bf16_f32_sme2", "mopa_bf16 sme"},
      {"gemm_f16_f16_f32_sme2", "mopa_f16 sme"},
      {"gemm_i8d_i8_i32_sme2", "mopa_i8 sme"},
  };
  const CpuFacts host = HostCpu().facts();
  int seen = 0;
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (const auto& c : cases) {
      if (list->stem != std::string_view(c.stem)) continue;
      for (size_t i = 0; i < list->count; ++i) {
        const ukernel::GemmKernel& row = list->rows[i];
        if (!row.run || !IsaRunsOn(row.isa, host)) continue;
        ++seen;
        EXPECT_EQ(PeakNameOf(ukernel::Name(row).text), c.loop) << ukernel::Name(row).text;
      }
    }
  }
  EXPECT_GE(seen, 1);
}

}  // namespace
}  // namespace quern::kernels
