// Packed forms of the right side on Arm. A 128-bit vector of integers holds four columns of 4 k for dot products, two
// of 8 k for matrix multiply-accumulates; of bf16, two columns of 4 k. Units of SVE and SME are two vectors of 32-bit
// lanes wide. Kernel-safe.
#pragma once

#include "ukernel/layout.h"

namespace quern::ukernel {

[[maybe_unused]] static constexpr PackLayout kI8x8Dot4{
    .element = Format::kI8, .n_unit = 8, .k_interleave = 4, .k_multiple = 16, .sums = Format::kI32};
[[maybe_unused]] static constexpr PackLayout kI8x8Dot8{
    .element = Format::kI8, .n_unit = 8, .k_interleave = 8, .k_multiple = 16, .sums = Format::kI32};
[[maybe_unused]] static constexpr PackLayout kBf16x8Quads{
    .element = Format::kBf16, .n_unit = 8, .k_interleave = 4, .k_multiple = 4};
[[maybe_unused]] static constexpr PackLayout kF16x8{.element = Format::kF16, .n_unit = 8};

[[maybe_unused]] static constexpr PackLayout kF32Sve{
    .element = Format::kF32, .n_unit = 2, .n_scale = VectorScale::kSve};
[[maybe_unused]] static constexpr PackLayout kI8SveDot4{.element = Format::kI8,
                                                        .n_unit = 2,
                                                        .n_scale = VectorScale::kSve,
                                                        .k_interleave = 4,
                                                        .k_multiple = 16,
                                                        .sums = Format::kI32};
[[maybe_unused]] static constexpr PackLayout kI8SveDot8{.element = Format::kI8,
                                                        .n_unit = 2,
                                                        .n_scale = VectorScale::kSve,
                                                        .k_interleave = 8,
                                                        .k_multiple = 16,
                                                        .sums = Format::kI32};
[[maybe_unused]] static constexpr PackLayout kBf16SveQuads{
    .element = Format::kBf16, .n_unit = 2, .n_scale = VectorScale::kSve, .k_interleave = 4, .k_multiple = 4};
[[maybe_unused]] static constexpr PackLayout kF16Sve{
    .element = Format::kF16, .n_unit = 2, .n_scale = VectorScale::kSve};

[[maybe_unused]] static constexpr PackLayout kI8Sme{.element = Format::kI8,
                                                    .n_unit = 2,
                                                    .n_scale = VectorScale::kSme,
                                                    .k_interleave = 4,
                                                    .k_multiple = 4,
                                                    .sums = Format::kI32};
[[maybe_unused]] static constexpr PackLayout kBf16Sme{
    .element = Format::kBf16, .n_unit = 2, .n_scale = VectorScale::kSme, .k_interleave = 2, .k_multiple = 2};
[[maybe_unused]] static constexpr PackLayout kF16Sme{
    .element = Format::kF16, .n_unit = 2, .n_scale = VectorScale::kSme, .k_interleave = 2, .k_multiple = 2};
// float16 that becomes kF32Sme.
[[maybe_unused]] static constexpr PackLayout kF16SmeLines{
    .element = Format::kF16, .n_unit = 2, .n_scale = VectorScale::kSme};

// Blocks along K: elements of 2, 4 or 8 bits as stored, or int8 without zero points; whole 16 k are read at once.
[[maybe_unused]] static constexpr PackLayout ArmBlocks(Format element, uint16_t k_interleave, Format scale,
                                                       Format offset = Format::kNone) {
  return {.element = element,
          .n_unit = 8,
          .k_interleave = k_interleave,
          .k_multiple = 16,
          .scale = scale,
          .offset = offset,
          .sums = Format::kF32};
}

// The same in units of SVE and SME.
[[maybe_unused]] static constexpr PackLayout ScaledBlocks(VectorScale n_scale, Format element, uint16_t k_interleave,
                                                          Format scale, Format offset = Format::kNone) {
  PackLayout l = ArmBlocks(element, k_interleave, scale, offset);
  l.n_unit = 2;
  l.n_scale = n_scale;
  return l;
}
// 4-bit weights with a scale per channel, stored plus 8.
[[maybe_unused]] static constexpr PackLayout U4Channels(VectorScale n_scale, uint16_t n_unit, uint16_t k_interleave) {
  return {.element = Format::kU4,
          .n_unit = n_unit,
          .n_scale = n_scale,
          .k_interleave = k_interleave,
          .k_multiple = 16,
          .sums = Format::kI32,
          .channel_scales = true};
}

// Panels of two streaming vectors of rows, groups of 4 k: the left side of kI8Sme. Dynamic rows have their parameters.
[[maybe_unused]] static constexpr LhsLayout I8SmePanels(Format element) {
  return {.element = element,
          .m_unit = 2,
          .m_scale = VectorScale::kSme,
          .k_interleave = 4,
          .k_multiple = 4,
          .row_params = element == Format::kI8d};
}

// The left side of blocks on SME: whole 16 k, or whole blocks of 32.
[[maybe_unused]] static constexpr LhsLayout I8SmeBlockPanels(Format element) {
  LhsLayout l = I8SmePanels(element);
  l.k_multiple = element == Format::kI8b ? 32 : 16;
  l.block = element == Format::kI8b ? 32 : 0;
  return l;
}

// Dynamic rows in pairs, 8 k of both together: what int8 matrix instructions multiply.
[[maybe_unused]] static constexpr LhsLayout kI8dPairs{
    .element = Format::kI8d, .m_unit = 2, .k_interleave = 8, .k_multiple = 32, .row_params = true};
// The same of rows in blocks, with both rows' scales side by side.
[[maybe_unused]] static constexpr LhsLayout kI8bPairs{
    .element = Format::kI8b, .m_unit = 2, .k_interleave = 8, .k_multiple = 32, .block = 32};

// Weights of a dynamically quantized product: one float32 scale per output channel.
[[maybe_unused]] static constexpr PackLayout WithChannelScales(PackLayout l) {
  l.channel_scales = true;
  return l;
}

// Left sides of 16-bit floats: panels of two streaming vectors, as kF32SmePanels; of four rows by quads of k.
[[maybe_unused]] static constexpr LhsLayout kBf16SmePanels{
    .element = Format::kBf16, .m_unit = 2, .m_scale = VectorScale::kSme, .k_interleave = 2, .k_multiple = 2};
[[maybe_unused]] static constexpr LhsLayout kF16SmePanels{
    .element = Format::kF16, .m_unit = 2, .m_scale = VectorScale::kSme, .k_interleave = 2, .k_multiple = 2};
[[maybe_unused]] static constexpr LhsLayout kBf16QuadPanels{
    .element = Format::kBf16, .m_unit = 4, .k_interleave = 4, .k_multiple = 4};

}  // namespace quern::ukernel
