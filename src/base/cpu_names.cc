// The table of named CPUs. Features are those of LLVM's and GCC's processor definitions; of phones, what their kernels
// tell programs (/proc/cpuinfo), which may be less than the cores have. Caches and units are those of a common member,
// from the vendors' optimization manuals, data sheets and uops.info.
#include "base/cpu_names.h"

namespace quern {
namespace {

using F = CpuFeature;

constexpr CpuFeatures kHaswell(F::kSse41, F::kSse42, F::kPopcnt, F::kAvx, F::kAvx2, F::kFma, F::kF16c, F::kBmi2);
constexpr CpuFeatures kSkylakeServer =
    kHaswell.With(CpuFeatures(F::kAvx512F, F::kAvx512Bw, F::kAvx512Vl, F::kAvx512Dq, F::kAvx512Cd));
constexpr CpuFeatures kCascadeLake = kSkylakeServer.With(F::kAvx512Vnni);
constexpr CpuFeatures kIceLake = kCascadeLake.With(CpuFeatures(F::kAvx512Vbmi, F::kAvx512Vbmi2));
constexpr CpuFeatures kSapphireRapids =
    kIceLake.With(CpuFeatures(F::kAvxVnni, F::kAvx512Bf16, F::kAvx512Fp16, F::kAmxTile, F::kAmxInt8, F::kAmxBf16));
constexpr CpuFeatures kGraniteRapids = kSapphireRapids.With(CpuFeatures(F::kAmxFp16, F::kAvx10_1));
constexpr CpuFeatures kAlderLake = kHaswell.With(F::kAvxVnni);
constexpr CpuFeatures kSierraForest = kAlderLake.With(CpuFeatures(F::kAvxVnniInt8, F::kAvxIfma, F::kAvxNeConvert));
constexpr CpuFeatures kLunarLake = kSierraForest.With(F::kAvxVnniInt16);
constexpr CpuFeatures kDiamondRapids =
    kGraniteRapids.With(kLunarLake).With(CpuFeatures(F::kAvx10_2, F::kAmxFp8, F::kAmxAvx512));
constexpr CpuFeatures kZen4 = kIceLake.With(F::kAvx512Bf16);
constexpr CpuFeatures kZen5 = kZen4.With(F::kAvxVnni);

constexpr CpuFeatures kCortexA53(F::kNeon);
constexpr CpuFeatures kCortexA76(F::kNeon, F::kFp16, F::kDotProd);  // and Neoverse N1
constexpr CpuFeatures kAppleM1 = kCortexA76.With(F::kFhm);
constexpr CpuFeatures kArmV86 = kAppleM1.With(CpuFeatures(F::kI8mm, F::kBf16));
// Neoverse V1 implements Armv8.4 with SVE, bf16 and i8mm; no SVE2.
constexpr CpuFeatures kNeoverseV1 = kArmV86.With(CpuFeatures(F::kSve, F::kSveI8mm, F::kSveBf16));
constexpr CpuFeatures kArmV9 = kNeoverseV1.With(F::kSve2);  // Neoverse N2 and V2, Cortex-X2 and X3; none has SME
// Kernels take bf16 from programs on phones with Cortex-A510 up to r1p1, whose products may be wrong (erratum 2658417).
constexpr CpuFeatures kPhoneV9 = kArmV9.Without(CpuFeatures(F::kBf16, F::kSveBf16));
// Qualcomm's firmware hides SVE, too.
constexpr CpuFeatures kPhoneWithoutSve = kPhoneV9.Without(CpuFeatures(F::kSve, F::kSve2, F::kSveI8mm));
// Apple M4 implements SME2 with 512-bit streaming vectors and neither non-streaming SVE nor FA64, SME2.1 or F16F16.
constexpr CpuFeatures kAppleM4 = kArmV86.With(CpuFeatures(F::kSme, F::kSme2, F::kSmeI16i64, F::kSmeF64f64));
// Arm's own cores with SME2 (C1) have SVE2, too; no FA64, I16I64 or F64F64.
constexpr CpuFeatures kArmSme2 = kArmV9.With(CpuFeatures(F::kSme, F::kSme2));

constexpr CacheInfo Kib(uint64_t kib, uint32_t ways, uint32_t shared_by = 1, uint32_t line_bytes = 64) {
  return {kib << 10, line_bytes, ways, shared_by};
}
constexpr CacheInfo Mib(uint64_t mib, uint32_t ways, uint32_t shared_by, uint32_t line_bytes = 64) {
  return Kib(mib << 10, ways, shared_by, line_bytes);
}

struct Row {
  std::string_view name;
  const char* model;
  CpuFeatures features;
  CacheInfo l1d, l2, l3;  // size, ways, logical CPUs that share it
  uint8_t fma_ports;      // 256-bit (x86) or 128-bit (Arm); halves that make up a whole count as one
  uint8_t fma512_ports;   // x86
  uint8_t sve_bytes = 0;  // Arm
  uint8_t sme_bytes = 0;
  uint8_t sme_units = 0;  // of the fast cores
  uint8_t l1d_misses = CpuFacts{}.l1d_misses;
  float l3_read = CpuFacts{}.l3_read;
};

constexpr Row kRows[] = {
    {"haswell", "Haswell (AVX2, FMA)", kHaswell, Kib(32, 8, 2), Kib(256, 8, 2), Mib(8, 16, 8), 2, 0},
    {"skylake-avx512", "Skylake server (AVX-512)", kSkylakeServer, Kib(32, 8, 2), Mib(1, 16, 2), Kib(39424, 11, 56), 2,
     2},
    {"cascadelake", "Cascade Lake (AVX-512, VNNI)", kCascadeLake, Kib(32, 8, 2), Mib(1, 16, 2), Kib(39424, 11, 56), 2,
     2},
    {"icelake", "Ice Lake server (AVX-512, VNNI)", kIceLake, Kib(48, 12, 2), Kib(1280, 20, 2), Mib(48, 12, 64), 2, 2},
    {"rocketlake", "Rocket Lake (AVX-512, VNNI, one 512-bit unit)", kIceLake, Kib(48, 12, 2), Kib(512, 8, 2),
     Mib(16, 16, 16), 2, 1},
    {"sapphirerapids", "Sapphire Rapids (AVX-512, AMX)", kSapphireRapids, Kib(48, 12, 2), Mib(2, 16, 2),
     Mib(105, 15, 112), 2, 2},
    {"granite-rapids", "Granite Rapids (AVX-512, AMX with fp16)", kGraniteRapids, Kib(48, 12, 2), Mib(2, 16, 2),
     Mib(504, 16, 256), 2, 2},
    // Sizes of caches are not published: those of Granite Rapids.
    {"diamond-rapids", "Diamond Rapids (AVX10.2, AMX with fp8)", kDiamondRapids, Kib(48, 12, 2), Mib(2, 16, 2),
     Mib(504, 16, 256), 2, 2},
    {"alderlake", "Alder Lake, fast cores (AVX-VNNI)", kAlderLake, Kib(48, 12, 2), Kib(1280, 10, 2), Mib(30, 12, 24), 2,
     0},
    // Two 128-bit units of multiply-add.
    {"sierra-forest", "Sierra Forest (AVX-VNNI-INT8)", kSierraForest, Kib(32, 8), Mib(4, 16, 4), Mib(108, 12, 144), 1,
     0},
    {"lunar-lake", "Lunar Lake, fast cores (AVX-VNNI-INT8)", kLunarLake, Kib(48, 12), Kib(2560, 10), Mib(12, 12, 4), 2,
     0},
    {"arrow-lake", "Arrow Lake, fast cores (AVX-VNNI-INT8)", kSierraForest, Kib(48, 12), Mib(3, 12, 1), Mib(36, 12, 24),
     2, 0},
    {"zen2", "Zen 2 (AVX2, FMA)", kHaswell, Kib(32, 8, 2), Kib(512, 8, 2), Mib(16, 16, 8), 2, 0, 0, 0, 0, 24, 20},
    {"zen3", "Zen 3 (AVX2, FMA)", kHaswell, Kib(32, 8, 2), Kib(512, 8, 2), Mib(32, 16, 16), 2, 0, 0, 0, 0, 24, 20},
    // Each 256-bit unit works twice for 512 bits.
    {"zen4", "Zen 4 (AVX-512 by halves, BF16)", kZen4, Kib(32, 8, 2), Mib(1, 8, 2), Mib(32, 16, 16), 2, 1, 0, 0, 0, 24,
     20},
    {"zen5", "Zen 5 (AVX-512, BF16)", kZen5, Kib(48, 12, 2), Mib(1, 16, 2), Mib(32, 16, 16), 2, 2, 0, 0, 0, 124, 20},

    {"cortex-a53", "Cortex-A53 (NEON)", kCortexA53, Kib(32, 4), Kib(512, 16, 4), {}, 1, 0},
    {"cortex-a76", "Cortex-A76 (fp16, dot product)", kCortexA76, Kib(64, 4), Kib(512, 8), Mib(4, 16, 8), 2, 0},
    {"graviton2", "AWS Graviton2 (Neoverse N1)", kCortexA76, Kib(64, 4), Mib(1, 8, 1), Mib(32, 16, 64), 2, 0},
    {"ampere-altra", "Ampere Altra (Neoverse N1)", kCortexA76, Kib(64, 4), Mib(1, 8, 1), Mib(32, 16, 80), 2, 0},
    {"graviton3", "AWS Graviton3 (Neoverse V1, SVE 256)", kNeoverseV1, Kib(64, 4), Mib(1, 8, 1), Mib(32, 16, 64), 4, 0,
     32},
    {"graviton4", "AWS Graviton4 (Neoverse V2, SVE2 128)", kArmV9, Kib(64, 4), Mib(2, 8, 1), Mib(36, 12, 96), 4, 0, 16},
    {"grace", "NVIDIA Grace (Neoverse V2, SVE2 128)", kArmV9, Kib(64, 4), Mib(1, 8, 1), Mib(114, 12, 72), 4, 0, 16},
    {"yitian710", "Alibaba Yitian 710 (Neoverse N2, SVE2 128)", kArmV9, Kib(64, 4), Mib(1, 8, 1), Mib(64, 16, 128), 2,
     0, 16},
    {"tensor-g3", "Google Tensor G3 (Cortex-X3, SVE2 128)", kPhoneV9, Kib(64, 4), Mib(1, 8, 1), Mib(4, 16, 9), 4, 0,
     16},
    {"snapdragon-8-gen1", "Snapdragon 8 Gen 1 (Cortex-X2, SVE hidden)", kPhoneWithoutSve, Kib(64, 4), Mib(1, 8, 1),
     Mib(6, 12, 8), 4, 0},
    {"dimensity-9000", "Dimensity 9000 (Cortex-X2, SVE2 128)", kPhoneV9, Kib(64, 4), Mib(1, 8, 1), Mib(8, 16, 8), 4, 0,
     16},
    {"apple-m1", "Apple M1 (NEON, fp16, dot product)", kAppleM1, Kib(128, 8, 1, 128), Mib(12, 12, 4, 128), {}, 4, 0},
    {"apple-m2", "Apple M2 (NEON, bf16, i8mm)", kArmV86, Kib(128, 8, 1, 128), Mib(16, 16, 4, 128), {}, 4, 0},
    {"apple-m4",
     "Apple M4 (NEON, SME2, streaming vectors of 512 bits)",
     kAppleM4,
     Kib(128, 8, 1, 128),
     Mib(16, 0, 4, 128),
     {},
     4,
     0,
     0,
     64,
     1},
    // Any core with SME2, by its streaming vectors.
    {"sme2-128", "Armv9.3 core with SME2, streaming vectors of 128 bits", kArmSme2, Kib(64, 4), Mib(2, 8, 1),
     Mib(16, 16, 8), 4, 0, 16, 16, 1},
    {"sme2-256", "Armv9.3 core with SME2, streaming vectors of 256 bits", kArmSme2, Kib(64, 4), Mib(2, 8, 1),
     Mib(16, 16, 8), 4, 0, 16, 32, 1},
    {"sme2-512", "Armv9.3 core with SME2, streaming vectors of 512 bits", kArmSme2, Kib(64, 4), Mib(2, 8, 1),
     Mib(16, 16, 8), 4, 0, 16, 64, 1},
};

}  // namespace

std::optional<CpuInfo> NamedCpu(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name != name) continue;
    CpuInfo cpu;
    cpu.arch = r.features.Has(F::kNeon) ? Arch::kAArch64 : Arch::kX86_64;
    cpu.name = r.name;
    cpu.model = r.model;
    cpu.features = r.features;
    cpu.l1d = r.l1d;
    cpu.l2 = r.l2;
    cpu.l3 = r.l3;
    cpu.sve_vector_bytes = r.sve_bytes;
    cpu.sme_vector_bytes = r.sme_bytes;
    cpu.sme_units = r.sme_units;
    cpu.fma_ports = r.fma_ports;
    cpu.fma512_ports = r.fma512_ports;
    cpu.l1d_misses = r.l1d_misses;
    cpu.l3_read = r.l3_read;
    return cpu;
  }
  return std::nullopt;
}

std::vector<std::string_view> NamedCpuNames() {
  std::vector<std::string_view> names;
  for (const Row& r : kRows) names.push_back(r.name);
  return names;
}

}  // namespace quern
