// Scales and zero points of blocks as scalable vectors, one lane per column. QUERN_SVE_MODE says where it runs. For
// kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/gemm/epilogue_sve.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
// Block `block` of the weights as it stands in the first unit.
struct BlockColumns {
  const char* scales;
  const char* offsets;
};
QUERN_SVE_INLINE BlockColumns ColumnsOfBlock(const GemmArgs& a, size_t block) QUERN_SVE_MODE {
  const size_t at = block * 2 * svcntw();
  // FormatBytes of those that there are, in fewer instructions.
  const size_t scale_bytes = a.rhs_scale == Format::kF32 ? 4 : 2;
  const size_t offset_bytes = a.rhs_offset == Format::kF32 ? 4 : a.rhs_offset == Format::kU8;
  return {static_cast<const char*>(a.rhs_scales) + at * scale_bytes,
          static_cast<const char*>(a.rhs_offsets) + at * offset_bytes};
}

// Vector `vector` of the columns: scales as float32, zero points as int32.
QUERN_SVE_INLINE svfloat32_t LoadScale(const char* p, Format format, int64_t vector) QUERN_SVE_MODE {
  const svbool_t all = svptrue_b32();
  if (format == Format::kF32) return svld1_vnum(all, reinterpret_cast<const float*>(p), vector);
  const svuint32_t x = svld1uh_vnum_u32(all, reinterpret_cast<const uint16_t*>(p), vector);
  if (format == Format::kF16) return svcvt_f32_x(all, svreinterpret_f16(x));
  return svreinterpret_f32(svlsl_x(all, x, 16));
}
QUERN_SVE_INLINE svint32_t LoadZeroPoints(const char* p, int64_t vector) QUERN_SVE_MODE {
  return svld1ub_vnum_s32(svptrue_b32(), reinterpret_cast<const uint8_t*>(p), vector);
}
#endif

}  // namespace
}  // namespace quern::ukernel
