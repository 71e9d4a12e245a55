/* cpu.h: facts about CPUs as the micro-kernels of quern/ukernel.h take them (C99). */
#ifndef QUERN_CPU_H_
#define QUERN_CPU_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define QUERN_UKERNEL_API __attribute__((visibility("default")))
#else
#define QUERN_UKERNEL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum quern_cpu_arch {
  QUERN_CPU_ANY_ARCH = 0, /* in quern_cpu: that of this build */
  QUERN_CPU_X86_64 = 1,
  QUERN_CPU_AARCH64 = 2
} quern_cpu_arch;

/* Bit numbers of quern_cpu.features. A feature counts only where the OS saves its registers and permits its use. */
typedef enum quern_cpu_x86_feature {
  QUERN_X86_SSE41 = 0,
  QUERN_X86_SSE42 = 1,
  QUERN_X86_POPCNT = 2,
  QUERN_X86_AVX = 3,
  QUERN_X86_AVX2 = 4,
  QUERN_X86_FMA = 5,
  QUERN_X86_F16C = 6,
  QUERN_X86_BMI2 = 7,
  QUERN_X86_AVXVNNI = 8,
  QUERN_X86_AVXVNNIINT8 = 9,
  QUERN_X86_AVXVNNIINT16 = 10,
  QUERN_X86_AVXIFMA = 11,
  QUERN_X86_AVXNECONVERT = 12,
  QUERN_X86_AVX512F = 13,
  QUERN_X86_AVX512BW = 14,
  QUERN_X86_AVX512VL = 15,
  QUERN_X86_AVX512DQ = 16,
  QUERN_X86_AVX512CD = 17,
  QUERN_X86_AVX512VBMI = 18,
  QUERN_X86_AVX512VBMI2 = 19,
  QUERN_X86_AVX512VNNI = 20,
  QUERN_X86_AVX512BF16 = 21,
  QUERN_X86_AVX512FP16 = 22,
  QUERN_X86_AVX10_1 = 23,
  QUERN_X86_AVX10_2 = 24,
  QUERN_X86_AMX_TILE = 25,
  QUERN_X86_AMX_INT8 = 26,
  QUERN_X86_AMX_BF16 = 27,
  QUERN_X86_AMX_FP16 = 28,
  QUERN_X86_AMX_FP8 = 29,
  QUERN_X86_AMX_AVX512 = 30
} quern_cpu_x86_feature;

typedef enum quern_cpu_arm_feature {
  QUERN_ARM_NEON = 0,
  QUERN_ARM_FP16 = 1,
  QUERN_ARM_FHM = 2,
  QUERN_ARM_DOTPROD = 3,
  QUERN_ARM_I8MM = 4,
  QUERN_ARM_BF16 = 5,
  QUERN_ARM_SVE = 6,
  QUERN_ARM_SVEI8MM = 7,
  QUERN_ARM_SVEBF16 = 8,
  QUERN_ARM_SVE2 = 9,
  QUERN_ARM_SVE2P1 = 10,
  QUERN_ARM_SME = 11,
  QUERN_ARM_SME_FA64 = 12,
  QUERN_ARM_SME2 = 13,
  QUERN_ARM_SME2P1 = 14,
  QUERN_ARM_SME_F16F16 = 15,
  QUERN_ARM_SME_I16I64 = 16,
  QUERN_ARM_SME_F64F64 = 17
} quern_cpu_arm_feature;

/* What kernels and the choice among them depend on. A host may fill it itself; what it leaves 0 gets the default. */
typedef struct quern_cpu {
  size_t struct_size;
  int32_t arch;              /* quern_cpu_arch */
  uint32_t fma_ports;        /* 256-bit (x86-64) or 128-bit (Arm) multiply-add units of a core; 2 */
  uint64_t features;         /* 1 << QUERN_X86_... or 1 << QUERN_ARM_..., by arch */
  uint32_t l1d_bytes;        /* per core; 32 KiB */
  uint32_t l2_bytes;         /* per core; 512 KiB */
  uint32_t l3_bytes;         /* that one core may count on; none */
  uint32_t sve_vector_bytes; /* of SVE outside of streaming mode; none */
  uint32_t sme_vector_bytes; /* of streaming mode; none */
  uint32_t fma512_ports;     /* 512-bit multiply-add units of a core; 2 */
  uint32_t l1d_misses;       /* cache lines that a core's L1 waits for at once; 16 */
} quern_cpu;
static inline void quern_cpu_init(quern_cpu* cpu) {
  memset(cpu, 0, sizeof *cpu);
  cpu->struct_size = sizeof *cpu;
}
/* The CPU that the calling thread runs on. The only function that asks the OS: it reads /sys for caches and asks Linux
 * for permission to use AMX tiles, for the whole process (absent features if refused). Nothing else in the library
 * refers to its object, which is not linked where it is not called. 0, or 1 where cpu is NULL or has no size. */
QUERN_UKERNEL_API int32_t quern_cpu_detect(quern_cpu* cpu);
/* "avx512f", "sme2"; NULL for numbers without a feature. */
QUERN_UKERNEL_API const char* quern_cpu_feature_name(int32_t arch, int32_t feature);

#ifdef __cplusplus
}
#endif

#endif /* QUERN_CPU_H_ */
