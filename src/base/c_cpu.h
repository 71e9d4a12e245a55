// CPU features as the C interface of the micro-kernels numbers them. Kernel-safe.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "quern/cpu.h"

namespace quern {

constexpr int32_t CArch(Arch a) { return a == Arch::kX86_64 ? QUERN_CPU_X86_64 : QUERN_CPU_AARCH64; }

// The bit of quern_cpu.features, among those of the feature's architecture.
constexpr int CFeature(CpuFeature f) {
  switch (f) {
    case CpuFeature::kSse41:
      return QUERN_X86_SSE41;
    case CpuFeature::kSse42:
      return QUERN_X86_SSE42;
    case CpuFeature::kPopcnt:
      return QUERN_X86_POPCNT;
    case CpuFeature::kAvx:
      return QUERN_X86_AVX;
    case CpuFeature::kAvx2:
      return QUERN_X86_AVX2;
    case CpuFeature::kFma:
      return QUERN_X86_FMA;
    case CpuFeature::kF16c:
      return QUERN_X86_F16C;
    case CpuFeature::kBmi2:
      return QUERN_X86_BMI2;
    case CpuFeature::kAvxVnni:
      return QUERN_X86_AVXVNNI;
    case CpuFeature::kAvxVnniInt8:
      return QUERN_X86_AVXVNNIINT8;
    case CpuFeature::kAvxVnniInt16:
      return QUERN_X86_AVXVNNIINT16;
    case CpuFeature::kAvxIfma:
      return QUERN_X86_AVXIFMA;
    case CpuFeature::kAvxNeConvert:
      return QUERN_X86_AVXNECONVERT;
    case CpuFeature::kAvx512F:
      return QUERN_X86_AVX512F;
    case CpuFeature::kAvx512Bw:
      return QUERN_X86_AVX512BW;
    case CpuFeature::kAvx512Vl:
      return QUERN_X86_AVX512VL;
    case CpuFeature::kAvx512Dq:
      return QUERN_X86_AVX512DQ;
    case CpuFeature::kAvx512Cd:
      return QUERN_X86_AVX512CD;
    case CpuFeature::kAvx512Vbmi:
      return QUERN_X86_AVX512VBMI;
    case CpuFeature::kAvx512Vbmi2:
      return QUERN_X86_AVX512VBMI2;
    case CpuFeature::kAvx512Vnni:
      return QUERN_X86_AVX512VNNI;
    case CpuFeature::kAvx512Bf16:
      return QUERN_X86_AVX512BF16;
    case CpuFeature::kAvx512Fp16:
      return QUERN_X86_AVX512FP16;
    case CpuFeature::kAvx10_1:
      return QUERN_X86_AVX10_1;
    case CpuFeature::kAvx10_2:
      return QUERN_X86_AVX10_2;
    case CpuFeature::kAmxTile:
      return QUERN_X86_AMX_TILE;
    case CpuFeature::kAmxInt8:
      return QUERN_X86_AMX_INT8;
    case CpuFeature::kAmxBf16:
      return QUERN_X86_AMX_BF16;
    case CpuFeature::kAmxFp16:
      return QUERN_X86_AMX_FP16;
    case CpuFeature::kAmxFp8:
      return QUERN_X86_AMX_FP8;
    case CpuFeature::kAmxAvx512:
      return QUERN_X86_AMX_AVX512;
    case CpuFeature::kNeon:
      return QUERN_ARM_NEON;
    case CpuFeature::kFp16:
      return QUERN_ARM_FP16;
    case CpuFeature::kFhm:
      return QUERN_ARM_FHM;
    case CpuFeature::kDotProd:
      return QUERN_ARM_DOTPROD;
    case CpuFeature::kI8mm:
      return QUERN_ARM_I8MM;
    case CpuFeature::kBf16:
      return QUERN_ARM_BF16;
    case CpuFeature::kSve:
      return QUERN_ARM_SVE;
    case CpuFeature::kSveI8mm:
      return QUERN_ARM_SVEI8MM;
    case CpuFeature::kSveBf16:
      return QUERN_ARM_SVEBF16;
    case CpuFeature::kSve2:
      return QUERN_ARM_SVE2;
    case CpuFeature::kSve2p1:
      return QUERN_ARM_SVE2P1;
    case CpuFeature::kSme:
      return QUERN_ARM_SME;
    case CpuFeature::kSmeFa64:
      return QUERN_ARM_SME_FA64;
    case CpuFeature::kSme2:
      return QUERN_ARM_SME2;
    case CpuFeature::kSme2p1:
      return QUERN_ARM_SME2P1;
    case CpuFeature::kSmeF16f16:
      return QUERN_ARM_SME_F16F16;
    case CpuFeature::kSmeI16i64:
      return QUERN_ARM_SME_I16I64;
    case CpuFeature::kSmeF64f64:
      return QUERN_ARM_SME_F64F64;
    case CpuFeature::kCount:
      break;
  }
  return -1;
}

}  // namespace quern
