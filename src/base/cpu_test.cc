#include "base/cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace quern {
namespace {

using F = CpuFeature;
using testing::HasSubstr;

CpuInfo Cpu(std::string_view spec) {
  Result<CpuInfo> cpu = CpuFromSpec(spec);
  EXPECT_TRUE(cpu.ok()) << cpu.status().message();
  return cpu.ok() ? *cpu : CpuInfo{};
}

TEST(HostCpu, IsPlausible) {
  const CpuInfo& host = HostCpu();
  EXPECT_EQ(host.arch, HostArch());
  EXPECT_EQ(host.name, "native");
  EXPECT_FALSE(host.model.empty());
  EXPECT_EQ(CloseFeatures(host.features), host.features);
  EXPECT_EQ(host.features.Has(F::kNeon), host.arch == Arch::kAArch64);
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const F f = static_cast<F>(i);
    EXPECT_TRUE(!host.features.Has(f) || CpuFeatureArch(f) == host.arch) << CpuFeatureName(f);
    EXPECT_EQ(AbsentReason(host, f).empty(), host.features.Has(f)) << CpuFeatureName(f);
  }
  EXPECT_EQ(host.sve_vector_bytes != 0, host.features.Has(F::kSve));
  EXPECT_EQ(host.sme_vector_bytes != 0, host.features.Has(F::kSme));
  EXPECT_TRUE(CanRun(host));
}

#if defined(__x86_64__)
// The compiler's own detection is the second opinion on what cpuid and xgetbv say.
TEST(HostCpu, AgreesWithTheCompilersRuntime) {
#if defined(QUERN_EMULATE_AVX512)
  GTEST_SKIP() << "this build has AVX-512 in AVX2 code";
#endif
  __builtin_cpu_init();
  const CpuFeatures& f = HostCpu().features;
  EXPECT_EQ(f.Has(F::kSse41), !!__builtin_cpu_supports("sse4.1"));
  EXPECT_EQ(f.Has(F::kPopcnt), !!__builtin_cpu_supports("popcnt"));
  EXPECT_EQ(f.Has(F::kAvx2), !!__builtin_cpu_supports("avx2"));
  EXPECT_EQ(f.Has(F::kFma), !!__builtin_cpu_supports("fma"));
  EXPECT_EQ(f.Has(F::kBmi2), !!__builtin_cpu_supports("bmi2"));
  EXPECT_EQ(f.Has(F::kAvx512F), !!__builtin_cpu_supports("avx512f"));
  EXPECT_EQ(f.Has(F::kAvx512Bw), !!__builtin_cpu_supports("avx512bw"));
  EXPECT_EQ(f.Has(F::kAvx512Vl), !!__builtin_cpu_supports("avx512vl"));
  EXPECT_EQ(f.Has(F::kAvx512Dq), !!__builtin_cpu_supports("avx512dq"));
  EXPECT_EQ(f.Has(F::kAvx512Vbmi), !!__builtin_cpu_supports("avx512vbmi"));
  EXPECT_EQ(f.Has(F::kAvx512Vbmi2), !!__builtin_cpu_supports("avx512vbmi2"));
  EXPECT_EQ(f.Has(F::kAvx512Vnni), !!__builtin_cpu_supports("avx512vnni"));
  EXPECT_EQ(f.Has(F::kAvx512Bf16), !!__builtin_cpu_supports("avx512bf16"));
}
#endif

TEST(CpuFromSpec, NamedCpusHaveTheirTrueFeatures) {
  const CpuInfo haswell = Cpu("haswell");
  EXPECT_EQ(haswell.arch, Arch::kX86_64);
  EXPECT_TRUE(haswell.features.ContainsAll(CpuFeatures(F::kAvx2, F::kFma, F::kF16c, F::kBmi2)));
  EXPECT_FALSE(haswell.features.Has(F::kAvx512F));
  EXPECT_FALSE(haswell.features.Has(F::kAvxVnni));

  const CpuInfo icelake = Cpu("icelake");
  EXPECT_TRUE(icelake.features.ContainsAll(haswell.features));
  EXPECT_TRUE(icelake.features.Has(F::kAvx512Vnni));
  EXPECT_FALSE(icelake.features.Has(F::kAvx512Bf16));
  EXPECT_FALSE(icelake.features.Has(F::kAmxTile));

  const CpuInfo rapids = Cpu("sapphirerapids");
  EXPECT_TRUE(rapids.features.ContainsAll(icelake.features));
  EXPECT_TRUE(rapids.features.ContainsAll(CpuFeatures(F::kAmxBf16, F::kAmxInt8, F::kAvx512Fp16, F::kAvxVnni)));
  EXPECT_FALSE(rapids.features.Has(F::kAmxFp16));

  const CpuInfo graviton = Cpu("graviton3");
  EXPECT_EQ(graviton.arch, Arch::kAArch64);
  EXPECT_TRUE(graviton.features.ContainsAll(CpuFeatures(F::kSve, F::kBf16, F::kI8mm, F::kSveBf16, F::kDotProd)));
  EXPECT_FALSE(graviton.features.Has(F::kSve2));
  EXPECT_FALSE(graviton.features.Has(F::kSme));
  EXPECT_EQ(graviton.sve_vector_bytes, 32u);

  const CpuInfo apple = Cpu("apple-m4");
  EXPECT_TRUE(apple.features.ContainsAll(CpuFeatures(F::kSme, F::kSme2, F::kBf16, F::kI8mm, F::kFp16)));
  EXPECT_FALSE(apple.features.Has(F::kSve));
  EXPECT_FALSE(apple.features.Has(F::kSve2));
  EXPECT_FALSE(apple.features.Has(F::kSmeFa64));
  EXPECT_EQ(apple.sve_vector_bytes, 0u);
  EXPECT_EQ(apple.sme_vector_bytes, 64u);
  EXPECT_EQ(apple.facts().l2_bytes, 4u << 20);  // 16 MiB shared by four cores

  // Units and vector lengths that costs follow.
  EXPECT_EQ(icelake.fma512_ports, 2);
  EXPECT_EQ(Cpu("rocketlake").fma512_ports, 1);
  EXPECT_EQ(Cpu("zen4").fma512_ports, 1);
  EXPECT_EQ(Cpu("zen5").fma512_ports, 2);
  EXPECT_GT(Cpu("zen5").l1d_misses, Cpu("zen4").l1d_misses);
  EXPECT_EQ(Cpu("zen5").facts().l1d_misses, Cpu("zen5").l1d_misses);
  EXPECT_EQ(Cpu("alderlake").fma512_ports, 0);
  EXPECT_EQ(Cpu("sierra-forest").fma_ports, 1);
  EXPECT_EQ(Cpu("graviton4").sve_vector_bytes, 16u);
  EXPECT_EQ(Cpu("sme2-256").sme_vector_bytes, 32u);
  EXPECT_EQ(Cpu("apple-m4").facts().sme_units, 1);
  EXPECT_EQ(Cpu("apple-m4,-sme2").facts().sme_units, 1);
  EXPECT_EQ(Cpu("apple-m4,-sme").facts().sme_units, 0);

  struct Case {
    const char* name;
    CpuFeatures has, lacks;
  };
  const Case cases[] = {
      {"skylake-avx512", CpuFeatures(F::kAvx512Bw), CpuFeatures(F::kAvx512Vnni)},
      {"cascadelake", CpuFeatures(F::kAvx512Vnni), CpuFeatures(F::kAvx512Vbmi)},
      {"granite-rapids", CpuFeatures(F::kAmxFp16, F::kAvx10_1), CpuFeatures(F::kAvx10_2, F::kAvxVnniInt8)},
      {"diamond-rapids", CpuFeatures(F::kAvx10_2, F::kAmxFp8, F::kAvxVnniInt8), {}},
      {"alderlake", CpuFeatures(F::kAvxVnni), CpuFeatures(F::kAvx512F, F::kAvxVnniInt8)},
      {"sierra-forest", CpuFeatures(F::kAvxVnniInt8), CpuFeatures(F::kAvx512F, F::kAvxVnniInt16)},
      {"lunar-lake", CpuFeatures(F::kAvxVnniInt16), CpuFeatures(F::kAvx512F)},
      {"zen3", CpuFeatures(F::kFma), CpuFeatures(F::kAvx512F, F::kAvxVnni)},
      {"zen4", CpuFeatures(F::kAvx512Bf16, F::kAvx512Vnni), CpuFeatures(F::kAvxVnni, F::kAvx512Fp16)},
      {"zen5", CpuFeatures(F::kAvxVnni, F::kAvx512Bf16), CpuFeatures(F::kAvx512Fp16, F::kAvxVnniInt8)},
      {"cortex-a53", CpuFeatures(F::kNeon), CpuFeatures(F::kFp16, F::kDotProd)},
      {"graviton2", CpuFeatures(F::kFp16, F::kDotProd), CpuFeatures(F::kI8mm, F::kSve)},
      {"graviton4", CpuFeatures(F::kSve2, F::kSveBf16), CpuFeatures(F::kSme)},
      {"grace", CpuFeatures(F::kSve2, F::kSveI8mm), CpuFeatures(F::kSme)},
      {"tensor-g3", CpuFeatures(F::kSve2, F::kI8mm), CpuFeatures(F::kBf16)},
      {"snapdragon-8-gen1", CpuFeatures(F::kI8mm, F::kFhm), CpuFeatures(F::kSve, F::kBf16)},
      {"apple-m1", CpuFeatures(F::kDotProd, F::kFhm), CpuFeatures(F::kI8mm, F::kBf16)},
      {"apple-m2", CpuFeatures(F::kI8mm, F::kBf16), CpuFeatures(F::kSve, F::kSme)},
      {"sme2-128", CpuFeatures(F::kSme2, F::kSve2), CpuFeatures(F::kSmeI16i64, F::kSmeFa64)},
  };
  for (const Case& c : cases) {
    const CpuFeatures features = Cpu(c.name).features;
    EXPECT_TRUE(features.ContainsAll(c.has)) << c.name;
    EXPECT_EQ(features.Without(c.lacks), features) << c.name;
  }

  const CpuInfo generic = Cpu("generic");
  EXPECT_EQ(generic.arch, HostArch());
  EXPECT_TRUE(CanRun(generic));
}

TEST(CpuFromSpec, NamedSetsAreClosed) {
  for (std::string_view name : CpuNames()) {
    const CpuInfo cpu = Cpu(name);
    EXPECT_EQ(cpu.name, name);
    EXPECT_EQ(CloseFeatures(cpu.features), cpu.features) << name;
    EXPECT_GT(cpu.facts().l1d_bytes, 0u);
  }
}

TEST(CpuFromSpec, TakingAFeatureAwayTakesItsDependants) {
  const CpuInfo cpu = Cpu("sapphirerapids,-avx512f");
  for (F f :
       {F::kAvx512F, F::kAvx512Bw, F::kAvx512Vl, F::kAvx512Vbmi2, F::kAvx512Vnni, F::kAvx512Bf16, F::kAvx512Fp16}) {
    EXPECT_FALSE(cpu.features.Has(f)) << CpuFeatureName(f);
  }
  EXPECT_TRUE(cpu.features.ContainsAll(CpuFeatures(F::kAvx2, F::kAvxVnni, F::kAmxTile)));
  EXPECT_EQ(AbsentReason(cpu, F::kAvx512F), "switched off by '-avx512f'");
  EXPECT_EQ(AbsentReason(cpu, F::kAvx512Vnni), "needs avx512f");
  EXPECT_EQ(AbsentReason(cpu, F::kAmxFp16), "the CPU lacks it");
  EXPECT_EQ(AbsentReason(cpu, F::kSve), "a feature of aarch64");
  EXPECT_EQ(AbsentReason(cpu, F::kAvx2), "");
  EXPECT_EQ(cpu.fma512_ports, 0);
  EXPECT_EQ(cpu.name, "sapphirerapids,-avx512f");

  // Down a chain of several links.
  EXPECT_EQ(Cpu("sapphirerapids,-sse4").features.bits(),
            CpuFeatures(F::kPopcnt, F::kBmi2, F::kAmxTile, F::kAmxInt8, F::kAmxBf16).bits());
  EXPECT_EQ(Cpu("apple-m4,-sme").sme_vector_bytes, 0u);
  EXPECT_FALSE(Cpu("apple-m4,-sme").features.Has(F::kSme2));
  EXPECT_EQ(Cpu("graviton3,-sve").sve_vector_bytes, 0u);
  EXPECT_FALSE(Cpu("graviton3,-i8mm").features.Has(F::kSveI8mm));
}

TEST(CpuFromSpec, FamilyNamesAndSeveralFeatures) {
  const CpuInfo cpu = Cpu("sapphirerapids,-amx,-avx512vnni");
  EXPECT_FALSE(cpu.features.Has(F::kAmxTile));
  EXPECT_FALSE(cpu.features.Has(F::kAmxInt8));
  EXPECT_FALSE(cpu.features.Has(F::kAvx512Vnni));
  EXPECT_TRUE(cpu.features.Has(F::kAvx512Bf16));
  EXPECT_EQ(Cpu("sapphirerapids,-avx512").features, Cpu("sapphirerapids,-avx512f").features);
  // Taking away what is not there changes nothing but the name.
  EXPECT_EQ(Cpu("haswell,-amx").features, Cpu("haswell").features);
}

TEST(CpuFromSpec, SwitchesOffKernels) {
  EXPECT_EQ(Cpu("haswell").facts().disabled, 0);
  const CpuInfo cpu = Cpu("haswell,-winograd,-f16c,-matrix");
  EXPECT_EQ(cpu.name, "haswell,-winograd,-f16c,-matrix");
  for (size_t i = 0; i < static_cast<size_t>(KernelGroup::kCount); ++i) {
    const auto group = static_cast<KernelGroup>(i);
    EXPECT_EQ(cpu.facts().IsDisabled(group), group == KernelGroup::kWinograd || group == KernelGroup::kMatrix)
        << KernelGroupName(group);
  }
  EXPECT_FALSE(cpu.features.Has(F::kF16c));
  EXPECT_THAT(CpuFromSpec("haswell,-pooling").status().message(), HasSubstr("winograd"));
}

TEST(CpuFromSpec, ErrorsListWhatIsKnown) {
  const Result<CpuInfo> name = CpuFromSpec("pentium");
  EXPECT_EQ(name.status().code(), StatusCode::kInvalidArgument);
  for (std::string_view known : CpuNames()) EXPECT_THAT(name.status().message(), HasSubstr(std::string(known)));
  EXPECT_THAT(CpuFromSpec("haswell,-sve").status().message(), HasSubstr("avx2"));
  EXPECT_THAT(CpuFromSpec("graviton3,-avx2").status().message(), HasSubstr("i8mm"));
  for (const char* bad : {"", ",", "haswell,", "haswell,avx2", "haswell,-", "haswell,,-avx2", "Haswell", " haswell"}) {
    EXPECT_FALSE(CpuFromSpec(bad).ok()) << "'" << bad << "'";
  }
}

TEST(CpuFromEnvironment, ReadsQuernCpu) {
  ::setenv("QUERN_CPU", "icelake,-avx512vnni", 1);
  const Result<CpuInfo> set = CpuFromEnvironment();
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->features, Cpu("icelake,-avx512vnni").features);
  ::setenv("QUERN_CPU", "nonsense", 1);
  EXPECT_THAT(CpuFromEnvironment().status().message(), HasSubstr("QUERN_CPU"));
  ::setenv("QUERN_CPU", "", 1);
  EXPECT_EQ(CpuFromEnvironment()->features, HostCpu().features);
  ::unsetenv("QUERN_CPU");
  EXPECT_EQ(CpuFromEnvironment()->features, HostCpu().features);
}

TEST(CheckCanRun, NamesWhatIsMissing) {
  const CpuInfo haswell = Cpu("haswell"), rapids = Cpu("sapphirerapids"), apple = Cpu("apple-m4");
  EXPECT_TRUE(CheckCanRun(haswell, rapids).ok());
  const Status up = CheckCanRun(rapids, haswell);
  EXPECT_EQ(up.code(), StatusCode::kUnsupported);
  EXPECT_THAT(up.message(), HasSubstr("amx_int8 (the CPU lacks it)"));
  EXPECT_THAT(CheckCanRun(rapids, Cpu("sapphirerapids,-amx")).message(), HasSubstr("switched off by '-amx'"));
  EXPECT_THAT(CheckCanRun(apple, haswell).message(), HasSubstr("aarch64"));
  CpuInfo longer = Cpu("graviton3");
  longer.sve_vector_bytes = 64;
  EXPECT_THAT(CheckCanRun(Cpu("graviton3"), longer).message(), HasSubstr("32 bytes"));
  EXPECT_TRUE(CheckCanRun(Cpu("graviton3,-sve"), longer).ok());
}

TEST(CpuInfo, FactsKeepDefaultsForUnknownCaches) {
  CpuInfo cpu;
  EXPECT_EQ(cpu.facts().l1d_bytes, CpuFacts{}.l1d_bytes);
  EXPECT_EQ(cpu.facts().l2_bytes, CpuFacts{}.l2_bytes);
  EXPECT_EQ(cpu.facts().l3_bytes, 0u);
  cpu.l1d = {48 << 10, 64, 12, 2};
  cpu.l2 = {2 << 20, 64, 16, 2};  // two threads of one core
  cpu.l3 = {uint64_t{8} << 30, 64, 16, 64};
  EXPECT_EQ(cpu.facts().l2_bytes, 2u << 20);
  EXPECT_EQ(cpu.facts().l3_bytes, UINT32_MAX);
}

TEST(ReadSysfsCaches, ReadsAFolder) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "quern_sysfs_caches";
  std::filesystem::remove_all(root);
  const auto cache = [&](int index, const char* level, const char* type, const char* size, const char* shared) {
    const std::filesystem::path folder = root / ("index" + std::to_string(index));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "level") << level << "\n";
    std::ofstream(folder / "type") << type << "\n";
    std::ofstream(folder / "size") << size << "\n";
    std::ofstream(folder / "coherency_line_size") << "64\n";
    std::ofstream(folder / "ways_of_associativity") << "8\n";
    std::ofstream(folder / "shared_cpu_list") << shared << "\n";
  };
  cache(0, "1", "Data", "64K", "0");
  cache(1, "1", "Instruction", "32K", "0");
  cache(2, "2", "Unified", "1024K", "0-3");
  cache(3, "3", "Unified", "36M", "0-3,8,10-11");
  const CacheSet set = ReadSysfsCaches(root.c_str());
  EXPECT_EQ(set.l1d.bytes, 64u << 10);
  EXPECT_EQ(set.l1d.shared_by, 1u);
  EXPECT_EQ(set.l2.bytes, 1u << 20);
  EXPECT_EQ(set.l2.shared_by, 4u);
  EXPECT_EQ(set.l3.bytes, 36u << 20);
  EXPECT_EQ(set.l3.shared_by, 7u);
  EXPECT_EQ(set.l3.line_bytes, 64u);
  EXPECT_EQ(ReadSysfsCaches((root / "nothing").c_str()).l1d.bytes, 0u);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace quern
