// Names and sets of CPU features, for x86-64 and Arm at once, so that any host can reason about any CPU. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern {

enum class Arch : uint8_t { kX86_64, kAArch64 };

constexpr Arch HostArch() {
#if defined(__aarch64__)
  return Arch::kAArch64;
#else
  return Arch::kX86_64;
#endif
}

constexpr const char* ArchName(Arch a) { return a == Arch::kX86_64 ? "x86-64" : "aarch64"; }

// Everything that a micro-kernel row may require. A feature counts as present only if the OS permits its use.
enum class CpuFeature : uint8_t {
  // x86-64
  kSse41,
  kSse42,
  kPopcnt,
  kAvx,
  kAvx2,
  kFma,
  kF16c,
  kBmi2,
  kAvxVnni,
  kAvxVnniInt8,
  kAvxVnniInt16,
  kAvxIfma,
  kAvxNeConvert,
  kAvx512F,
  kAvx512Bw,
  kAvx512Vl,
  kAvx512Dq,
  kAvx512Cd,
  kAvx512Vbmi,
  kAvx512Vbmi2,
  kAvx512Vnni,
  kAvx512Bf16,
  kAvx512Fp16,
  kAvx10_1,
  kAvx10_2,
  kAmxTile,
  kAmxInt8,
  kAmxBf16,
  kAmxFp16,
  kAmxFp8,
  kAmxAvx512,
  // Arm
  kNeon,
  kFp16,
  kFhm,
  kDotProd,
  kI8mm,
  kBf16,
  kSve,
  kSveI8mm,
  kSveBf16,
  kSve2,
  kSve2p1,
  kSme,
  kSmeFa64,
  kSme2,
  kSme2p1,
  kSmeF16f16,
  kSmeI16i64,
  kSmeF64f64,
  kCount,
};

constexpr size_t kCpuFeatureCount = static_cast<size_t>(CpuFeature::kCount);

// The name used in `--cpu NAME,-feature`, in reports and in reasons.
constexpr const char* CpuFeatureName(CpuFeature f) {
  switch (f) {
    case CpuFeature::kSse41:
      return "sse4.1";
    case CpuFeature::kSse42:
      return "sse4.2";
    case CpuFeature::kPopcnt:
      return "popcnt";
    case CpuFeature::kAvx:
      return "avx";
    case CpuFeature::kAvx2:
      return "avx2";
    case CpuFeature::kFma:
      return "fma";
    case CpuFeature::kF16c:
      return "f16c";
    case CpuFeature::kBmi2:
      return "bmi2";
    case CpuFeature::kAvxVnni:
      return "avxvnni";
    case CpuFeature::kAvxVnniInt8:
      return "avxvnniint8";
    case CpuFeature::kAvxVnniInt16:
      return "avxvnniint16";
    case CpuFeature::kAvxIfma:
      return "avxifma";
    case CpuFeature::kAvxNeConvert:
      return "avxneconvert";
    case CpuFeature::kAvx512F:
      return "avx512f";
    case CpuFeature::kAvx512Bw:
      return "avx512bw";
    case CpuFeature::kAvx512Vl:
      return "avx512vl";
    case CpuFeature::kAvx512Dq:
      return "avx512dq";
    case CpuFeature::kAvx512Cd:
      return "avx512cd";
    case CpuFeature::kAvx512Vbmi:
      return "avx512vbmi";
    case CpuFeature::kAvx512Vbmi2:
      return "avx512vbmi2";
    case CpuFeature::kAvx512Vnni:
      return "avx512vnni";
    case CpuFeature::kAvx512Bf16:
      return "avx512bf16";
    case CpuFeature::kAvx512Fp16:
      return "avx512fp16";
    case CpuFeature::kAvx10_1:
      return "avx10.1";
    case CpuFeature::kAvx10_2:
      return "avx10.2";
    case CpuFeature::kAmxTile:
      return "amx_tile";
    case CpuFeature::kAmxInt8:
      return "amx_int8";
    case CpuFeature::kAmxBf16:
      return "amx_bf16";
    case CpuFeature::kAmxFp16:
      return "amx_fp16";
    case CpuFeature::kAmxFp8:
      return "amx_fp8";
    case CpuFeature::kAmxAvx512:
      return "amx_avx512";
    case CpuFeature::kNeon:
      return "neon";
    case CpuFeature::kFp16:
      return "fp16";
    case CpuFeature::kFhm:
      return "fhm";
    case CpuFeature::kDotProd:
      return "dotprod";
    case CpuFeature::kI8mm:
      return "i8mm";
    case CpuFeature::kBf16:
      return "bf16";
    case CpuFeature::kSve:
      return "sve";
    case CpuFeature::kSveI8mm:
      return "svei8mm";
    case CpuFeature::kSveBf16:
      return "svebf16";
    case CpuFeature::kSve2:
      return "sve2";
    case CpuFeature::kSve2p1:
      return "sve2p1";
    case CpuFeature::kSme:
      return "sme";
    case CpuFeature::kSmeFa64:
      return "sme_fa64";
    case CpuFeature::kSme2:
      return "sme2";
    case CpuFeature::kSme2p1:
      return "sme2p1";
    case CpuFeature::kSmeF16f16:
      return "sme_f16f16";
    case CpuFeature::kSmeI16i64:
      return "sme_i16i64";
    case CpuFeature::kSmeF64f64:
      return "sme_f64f64";
    case CpuFeature::kCount:
      break;
  }
  return "unknown";
}

// The architecture that a feature belongs to.
constexpr Arch CpuFeatureArch(CpuFeature f) { return f < CpuFeature::kNeon ? Arch::kX86_64 : Arch::kAArch64; }

// A set of features, a literal type.
class CpuFeatures {
 public:
  constexpr CpuFeatures() = default;
  template <class... F>
  explicit constexpr CpuFeatures(CpuFeature first, F... rest) {
    Set(first);
    (Set(rest), ...);
  }

  constexpr bool Has(CpuFeature f) const { return (bits_ >> static_cast<unsigned>(f)) & 1; }
  constexpr bool ContainsAll(const CpuFeatures& other) const { return (other.bits_ & ~bits_) == 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr uint64_t bits() const { return bits_; }

  [[nodiscard]] constexpr CpuFeatures With(CpuFeature f) const { return CpuFeatures(bits_ | Bit(f)); }
  [[nodiscard]] constexpr CpuFeatures Without(CpuFeature f) const { return CpuFeatures(bits_ & ~Bit(f)); }
  [[nodiscard]] constexpr CpuFeatures With(const CpuFeatures& o) const { return CpuFeatures(bits_ | o.bits_); }
  [[nodiscard]] constexpr CpuFeatures Without(const CpuFeatures& o) const { return CpuFeatures(bits_ & ~o.bits_); }
  constexpr void Set(CpuFeature f) { bits_ |= Bit(f); }
  constexpr void Clear(CpuFeature f) { bits_ &= ~Bit(f); }

  friend constexpr bool operator==(const CpuFeatures&, const CpuFeatures&) = default;

  // The first feature of `needed` that this set lacks, kCount if none: the "needs ..." of a rejection.
  constexpr CpuFeature FirstMissing(const CpuFeatures& needed) const {
    for (size_t i = 0; i < kCpuFeatureCount; ++i) {
      const CpuFeature f = static_cast<CpuFeature>(i);
      if (needed.Has(f) && !Has(f)) return f;
    }
    return CpuFeature::kCount;
  }

 private:
  explicit constexpr CpuFeatures(uint64_t bits) : bits_(bits) {}
  static constexpr uint64_t Bit(CpuFeature f) { return uint64_t{1} << static_cast<unsigned>(f); }

  uint64_t bits_ = 0;
};

static_assert(kCpuFeatureCount <= 64);

// What can be switched off by name as features can ("native,-winograd"): of a family of micro-kernels, all rows but the
// portable ones (of winograd, those too); of an engine, the products that it computes.
enum class KernelGroup : uint8_t {
  kGemm,
  kDwConv,
  kWinograd,
  kVector,
  kElementwise,
  kFold,
  kAffine,
  kFourier,
  kPack,
  kTransform,
  kQuantize,
  kVector512,  // 512-bit multiply-add units
  kMatrix,     // AMX, SME
  kCount,
};

constexpr const char* KernelGroupName(KernelGroup g) {
  constexpr const char* kNames[] = {"gemm",    "dwconv", "winograd",  "vector",   "elementwise", "fold",  "affine",
                                    "fourier", "pack",   "transform", "quantize", "vector512",   "matrix"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(KernelGroup::kCount));
  return g < KernelGroup::kCount ? kNames[static_cast<size_t>(g)] : "unknown";
}

// What micro-kernels' cost terms and tiles depend on; base/cpu.h fills it from a CpuInfo. Zeroes mean "not there".
struct CpuFacts {
  Arch arch = HostArch();
  CpuFeatures features;
  uint32_t l1d_bytes = 32 << 10;  // per core
  uint32_t l2_bytes = 512 << 10;  // per core
  uint32_t l3_bytes = 0;          // seen by one core
  uint32_t sve_vector_bytes = 0;  // non-streaming SVE vector length
  uint32_t sme_vector_bytes = 0;  // streaming vector length (SVL)
  uint16_t sme_units = 0;         // that can work at once: cores share them
  // Full-width multiply-add instructions per cycle and core, by engine width; they scale the cost terms.
  uint8_t fma_ports = 2;     // 256-bit (x86) or 128-bit (Arm) FMA units
  uint8_t fma512_ports = 2;  // 512-bit FMA units, 1 on client and early server cores
  uint8_t l1d_misses = 16;   // cache lines that a core's L1 waits for at once
  uint16_t disabled = 0;     // bits by KernelGroup
  // Bytes per cycle that one core reads from L2, L3 (about twice what memory gives) and memory (15 GB/s at 3 GHz).
  float l2_read = 32, l3_read = 10, memory_read = 5;

  constexpr bool IsDisabled(KernelGroup g) const { return (disabled >> static_cast<unsigned>(g)) & 1; }
};

}  // namespace quern
