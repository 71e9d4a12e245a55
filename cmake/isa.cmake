# One row per instruction set of the micro-kernels:
#   quern_isa(<token> <arch> [FEATURES f...] [FLAGS f...] [EMULATE [EMULATED_FEATURES f...] [EMULATED_FLAGS f...]])
#   token    last part of a kernel file's stem
#   arch     kX86_64, kAArch64, or any
#   FEATURES enumerators of CpuFeature that a CPU must have
#   FLAGS    compiler flags of the bodies
#   EMULATE  headers have the ISA's own instructions in plain C++ too (QUERN_ISA_EMULATED): its files are compiled a
#            second time so, for tests. That build needs EMULATED_FEATURES and is compiled with EMULATED_FLAGS; without
#            them it is C++ for the baseline of the target. An ISA without EMULATE has no such build.
set(QUERN_ISAS "")
macro(quern_isa token arch)
  cmake_parse_arguments(_isa "EMULATE" "" "FEATURES;FLAGS;EMULATED_FEATURES;EMULATED_FLAGS" ${ARGN})
  list(APPEND QUERN_ISAS ${token})
  set(QUERN_ISA_${token}_ARCH ${arch})
  set(QUERN_ISA_${token}_FEATURES ${_isa_FEATURES})
  set(QUERN_ISA_${token}_FLAGS ${_isa_FLAGS})
  set(QUERN_ISA_${token}_EMULATE ${_isa_EMULATE})
  set(QUERN_ISA_${token}_EMULATED_FEATURES ${_isa_EMULATED_FEATURES})
  set(QUERN_ISA_${token}_EMULATED_FLAGS ${_isa_EMULATED_FLAGS})
endmacro()

set(_avx2 -mavx -mavx2 -mfma -mf16c -mbmi -mbmi2)
set(_avx2_features kAvx kAvx2 kFma kF16c kBmi2)
set(_avx512 ${_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512cd -mprefer-vector-width=512)
# Gather instructions take up to twice the time of single loads (Zen 4; Intel's cores with their later microcode).
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND _avx512 -mno-gather)
endif()
set(_avx512_base ${_avx512})  # what the emulated builds of its extensions are compiled with
set(_avx512_vnni ${_avx512} -mavx512vnni)
if(QUERN_EMULATE_AVX512)
  set(_avx512_base ${_avx2} -Wno-psabi -include ukernel/avx512_emulated.h)
  set(_avx512_vnni ${_avx512_base} -DQUERN_EMULATE_AVX512VNNI)
endif()
set(_avx512_features ${_avx2_features} kAvx512F kAvx512Bw kAvx512Vl kAvx512Dq kAvx512Cd)

quern_isa(portable any)
quern_isa(avx2 kX86_64 FEATURES ${_avx2_features} FLAGS ${_avx2})
quern_isa(avxvnni kX86_64 FEATURES ${_avx2_features} kAvxVnni FLAGS ${_avx2} -mavxvnni
          EMULATE EMULATED_FEATURES ${_avx2_features} EMULATED_FLAGS ${_avx2})
quern_isa(avxvnniint8 kX86_64 FEATURES ${_avx2_features} kAvxVnniInt8 FLAGS ${_avx2} -mavxvnniint8
          EMULATE EMULATED_FEATURES ${_avx2_features} EMULATED_FLAGS ${_avx2})
quern_isa(avx512 kX86_64 FEATURES ${_avx512_features} FLAGS ${_avx512_base})
quern_isa(avx512vnni kX86_64 FEATURES ${_avx512_features} kAvx512Vnni FLAGS ${_avx512_vnni})
quern_isa(avx512bf16 kX86_64 FEATURES ${_avx512_features} kAvx512Bf16 FLAGS ${_avx512} -mavx512bf16
          EMULATE EMULATED_FEATURES ${_avx512_features} EMULATED_FLAGS ${_avx512_base})
quern_isa(avx512fp16 kX86_64 FEATURES ${_avx512_features} kAvx512Fp16 FLAGS ${_avx512} -mavx512fp16
          EMULATE EMULATED_FEATURES ${_avx512_features} EMULATED_FLAGS ${_avx512_base})
# AMX instructions come from ukernel/amx_tile.h as inline assembly, so no compiler flag is needed for them; the emulated
# build is plain C++ for the baseline.
quern_isa(amxbf16 kX86_64 FEATURES ${_avx512_features} kAvx512Bf16 kAmxTile kAmxBf16
          FLAGS ${_avx512} -mavx512bf16 EMULATE)
quern_isa(amxint8 kX86_64 FEATURES ${_avx512_features} kAvx512Vnni kAmxTile kAmxInt8
          FLAGS ${_avx512} -mavx512vnni EMULATE)
quern_isa(amxfp16 kX86_64 FEATURES ${_avx512_features} kAvx512Fp16 kAmxTile kAmxFp16
          FLAGS ${_avx512} EMULATE)
quern_isa(neon kAArch64 FEATURES kNeon)
quern_isa(neonfp16 kAArch64 FEATURES kNeon kFp16 FLAGS -march=armv8.2-a+fp16)
quern_isa(neonfhm kAArch64 FEATURES kNeon kFp16 kFhm FLAGS -march=armv8.2-a+fp16+fp16fml)
quern_isa(neondot kAArch64 FEATURES kNeon kDotProd FLAGS -march=armv8.2-a+dotprod)
quern_isa(neoni8mm kAArch64 FEATURES kNeon kDotProd kI8mm FLAGS -march=armv8.2-a+dotprod+i8mm)
quern_isa(neonbf16 kAArch64 FEATURES kNeon kBf16 FLAGS -march=armv8.2-a+bf16)
quern_isa(sve kAArch64 FEATURES kNeon kSve FLAGS -march=armv8.2-a+sve)
quern_isa(svei8mm kAArch64 FEATURES kNeon kSve kSveI8mm FLAGS -march=armv8.2-a+sve+i8mm)
quern_isa(svebf16 kAArch64 FEATURES kNeon kSve kSveBf16 FLAGS -march=armv8.2-a+sve+bf16)
# Without SVE in the flags (clang would read the vector length outside of streaming mode), without builtins (loops would
# become calls of streaming-incompatible library functions).
quern_isa(sme kAArch64 FEATURES kSme FLAGS -march=armv8.6-a+sme -fno-builtin)
quern_isa(sme2 kAArch64 FEATURES kSme kSme2 FLAGS -march=armv8.6-a+sme2 -fno-builtin)
