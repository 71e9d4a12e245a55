// 4-bit blocks to int8 blocks: zero points removed, scales as float32; loops that compilers vectorize.
#include "ukernel/convert.h"
#include "ukernel/transform.h"

namespace quern::ukernel {
namespace {

constexpr size_t kUnit = 16;
constexpr size_t kGroupBytes = kUnit * 4;  // 4 k of a unit: [16][4]

// Two groups of 4 k from the low and the high nibbles of `count` groups' bytes.
void Expand(const uint8_t* from, size_t count, const int8_t* zero, int8_t* to) {
  for (; count; --count, from += kGroupBytes, to += 2 * kGroupBytes) {
    for (size_t i = 0; i < kGroupBytes; ++i) {
      to[i] = static_cast<int8_t>((from[i] & 15) - zero[i]);
      to[kGroupBytes + i] = static_cast<int8_t>((from[i] >> 4) - zero[i]);
    }
  }
}

uint32_t Run(const TransformArgs& a) {
  const size_t scale_bytes = FormatBytes(a.src_scale);
  for (size_t u = 0; u < a.units; ++u) {
    const auto* from = static_cast<const uint8_t*>(a.src) + u * a.src_unit_stride;
    const auto* scales = static_cast<const char*>(a.src_scales) + u * a.src_unit_stride;
    const auto* offsets = static_cast<const uint8_t*>(a.src_offsets) + u * a.src_unit_stride;
    char* unit = static_cast<char*>(a.dst) + u * a.dst_unit_stride;
    for (size_t k = 0, b = 0; k < a.k; k += a.block, ++b) {
      const size_t count = a.k - k < a.block ? a.k - k : a.block;
      int8_t zero[kGroupBytes];
      for (size_t i = 0; i < kGroupBytes; ++i) {
        zero[i] = a.src_offset == Format::kU8 ? static_cast<int8_t>(offsets[b * kUnit + i / 4]) : int8_t{8};
      }
      Expand(from + k / 2 * kUnit, (count + 7) / 8, zero, reinterpret_cast<int8_t*>(unit) + k * kUnit);
      for (size_t c = 0; c < kUnit; ++c) {
        const float scale = LoadFloat(a.src_scale, scales + (b * kUnit + c) * scale_bytes);
        StoreAs(unit + a.dst_scales_offset + (b * kUnit + c) * sizeof(float), scale);
      }
    }
  }
  return kPackFine;
}

static constexpr TransformKernel kRows[] = {
    {.isa = kIsa,
     .from = Blocks4x16(Format::kF32),
     .to = Blocks8x16(Format::kF32),
     .cycles_per_element = 0.3f,
     .run = Run},
};

}  // namespace

extern const KernelList<TransformKernel> QUERN_KERNEL_LIST;
constinit const KernelList<TransformKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                              QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
