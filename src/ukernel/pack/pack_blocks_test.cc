// Fast packers of blocks and of 4-bit channels: the bytes of the generic packer.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "ukernel/convert.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/pack.h"
#include "ukernel/test_depth.h"

namespace quern::ukernel {
namespace {

// Blocks of MatMulNBits and GGUF to every layout that keeps them, the vectors after the units too.
TEST(PackBlocks, FastPackersGiveTheGenericBytes) {
  const bool brief = Depth() == TestDepth::kBrief;
  std::vector<std::pair<const PackKernel*, RhsShape>> cases;
  for (const auto* list : AllPackKernels()) {
    for (size_t r = 0; r < list->count; ++r) {
      const PackKernel& row = list->rows[r];
      if (!row.run || !row.blocks || !IsaRunsOn(row.isa, HostCpu().facts())) continue;
      for (size_t n : {1u, 16u, 37u}) {
        for (size_t k : {32u, 64u, 100u, 256u, 1184u}) {
          if (brief && (n == 16 || k == 64 || k == 256 || (k == 1184 && n != 1))) continue;
          for (size_t block : {16u, 32u, 128u}) {
            if (brief && block == 16) continue;
            if (block != 32 && IsGguf(row.source)) continue;
            cases.push_back({&row, {.k = k, .n = n, .block = block, .vector_bytes = 16}});
          }
        }
      }
      if (row.layout.n_scale != VectorScale::kFixed) {
        for (size_t vector : {32u, 64u, 256u}) {
          if (brief && vector != 64) continue;
          cases.push_back({&row, {.k = 192, .n = vector / 2 + 5, .block = 32, .vector_bytes = vector}});
        }
      }
      // What goes past the caches: more than 4 MB with float32 scales and offsets, with AVX.
      const bool past = HostCpu().facts().arch == Arch::kX86_64 && std::string_view(row.isa.name) != "portable";
      if (past) cases.push_back({&row, {.k = 5632, .n = 1033, .block = IsGguf(row.source) ? 32u : 16u}});
    }
  }
  ASSERT_FALSE(cases.empty());
  size_t checked = 0;
  for (const auto& [row, shape] : cases) {
    const bool gguf = IsGguf(row->source);
    const size_t bits = FormatBits(row->source), blocks = CeilDiv(shape.k, shape.block);
    const size_t header = row->source == Format::kQ4_1 ? 4 : gguf ? 2 : 0;
    const size_t bytes = shape.block * bits / 8 + header, zero_bytes = CeilDiv(blocks * bits, 8);
    std::mt19937 rng(2);
    GuardedBuffer data(shape.n * blocks * bytes), zeros(shape.n * zero_bytes);
    for (size_t i = 0; i < data.bytes(); ++i) data.data()[i] = static_cast<char>(rng());
    for (size_t i = 0; i < zeros.bytes(); ++i) zeros.data()[i] = static_cast<char>(rng());
    for (size_t i = 0; gguf && i < shape.n * blocks; ++i) {
      StoreFloat(Format::kF16, data.data() + i * bytes, 0.5f + static_cast<float>(rng() % 64) / 64.0f);
      if (header == 4) StoreFloat(Format::kF16, data.data() + i * bytes + 2, static_cast<float>(rng() % 64) - 32.0f);
    }
    std::vector<float> scales(shape.n * blocks), float_zeros(shape.n * blocks);
    for (float& x : scales) x = 0.01f + static_cast<float>(rng() % 64) / 64.0f;
    std::vector<uint16_t> half_scales(scales.size());
    for (size_t i = 0; i < scales.size(); ++i) half_scales[i] = F32ToF16Bits(scales[i]);
    for (float& x : float_zeros) x = static_cast<float>(rng() % 64) / 8.0f;
    for (const int kind : {0, 1, 2}) {  // without zero points, with packed ones, with floats
      if (gguf && kind) continue;
      RhsSource s{.format = row->source,
                  .data = data.data(),
                  .n_stride = static_cast<ptrdiff_t>(blocks * bytes),
                  .block_stride = static_cast<ptrdiff_t>(bytes)};
      if (!gguf) {
        const bool half = kind == 1;  // scales of float16, else float32
        s.scales = half ? static_cast<const void*>(half_scales.data()) : scales.data();
        s.scale_format = half ? Format::kF16 : Format::kF32;
        s.scale_block_stride = half ? 2 : 4;
        s.scale_n_stride = static_cast<ptrdiff_t>(blocks) * s.scale_block_stride;
        s.zero_points = kind == 0 ? nullptr : kind == 1 ? static_cast<const void*>(zeros.data()) : float_zeros.data();
        s.zero_point_format = kind == 2 ? Format::kF32 : row->source;
        s.zero_point_n_stride = static_cast<ptrdiff_t>(kind == 2 ? blocks * 4 : zero_bytes);
      }
      for (Format scale : {Format::kNone, Format::kF32, Format::kF16, Format::kBf16}) {
        for (Format offset : {Format::kNone, Format::kU8, Format::kF32}) {
          PackLayout layout = row->layout;
          layout.scale = scale;
          layout.offset = offset;
          if (!CanPackRhs(layout, s) || (layout.element == Format::kI8 && offset != Format::kNone)) continue;
          const bool with_offsets = layout.element == Format::kI8 || offset == Format::kF32;
          if (shape.n > 1000 && (kind == 2 || scale != Format::kF32 || !with_offsets)) continue;
          const RhsGeometry g = DescribeRhs(layout, shape);
          GuardedBuffer want(g.total_bytes), got(g.total_bytes);
          std::memset(want.data(), 0, want.bytes());
          std::memset(got.data(), 0x33, got.bytes());
          std::memset(got.data() + g.sums_offset, 0, got.bytes() - g.sums_offset);
          PackRhs(layout, shape, s, 0, g.units, want.data());
          row->run(layout, shape, s, 0, g.units, got.data());
          ASSERT_EQ(std::memcmp(want.data(), got.data(), g.total_bytes), 0)
              << row->isa.name << " " << FormatName(row->source) << " n=" << shape.n << " k=" << shape.k
              << " block=" << shape.block << " scales " << FormatName(scale) << " offsets " << FormatName(offset);
          ++checked;
        }
      }
    }
  }
  EXPECT_GT(checked, 100u);
}

// The elements of all units, their sums and their channels' scales.
TEST(PackFourBits, FastPackersGiveTheGenericBytes) {
  size_t checked = 0;
  for (const auto* list : AllPackKernels()) {
    for (size_t r = 0; r < list->count; ++r) {
      const PackKernel& row = list->rows[r];
      if (!row.run || row.blocks || FormatBits(row.source) != 4 || !IsaRunsOn(row.isa, HostCpu().facts())) continue;
      std::vector<RhsShape> shapes;
      for (size_t n : {1u, 16u, 37u}) {
        for (size_t k : {1u, 2u, 15u, 16u, 31u, 32u, 33u, 64u, 127u, 200u}) {
          shapes.push_back({.k = k, .n = n, .vector_bytes = 16});
        }
      }
      if (row.layout.n_scale != VectorScale::kFixed) {
        for (size_t vector : {32u, 64u, 256u}) shapes.push_back({.k = 99, .n = vector + 5, .vector_bytes = vector});
      }
      // Past the caches: more than 4 MB.
      if (row.layout.n_scale == VectorScale::kFixed) shapes.push_back({.k = 8225, .n = 1033, .vector_bytes = 16});
      for (const RhsShape& shape : shapes) {
        const size_t row_bytes = CeilDiv(shape.k, 2);
        GuardedBuffer data(shape.n * row_bytes);
        std::mt19937 rng(3);
        for (size_t i = 0; i < data.bytes(); ++i) data.data()[i] = static_cast<char>(rng());
        std::vector<float> scales(shape.n);
        for (float& x : scales) x = static_cast<float>(rng() % 512) / 64.0f;
        const RhsSource s{.format = row.source,
                          .data = data.data(),
                          .n_stride = static_cast<ptrdiff_t>(row_bytes),
                          .channel_scales = shape.k % 2 ? scales.data() : nullptr};
        ASSERT_TRUE(CanPackRhs(row.layout, s));
        const RhsGeometry g = DescribeRhs(row.layout, shape);
        GuardedBuffer want(g.total_bytes), got(g.total_bytes);
        std::memset(got.data(), 0x33, got.bytes());
        PackRhs(row.layout, shape, s, 0, g.units, want.data());
        row.run(row.layout, shape, s, g.units / 2, g.units, got.data());
        row.run(row.layout, shape, s, 0, g.units / 2, got.data());
        const size_t columns = g.units * g.n_unit;
        for (const auto& [at, bytes] : {std::pair{size_t{0}, g.units * g.unit_stride},
                                        {g.sums_offset, columns * 4},
                                        {g.channel_scales_offset, columns * 4}}) {
          ASSERT_EQ(std::memcmp(want.data() + at, got.data() + at, bytes), 0)
              << list->stem << " row " << r << " n=" << shape.n << " k=" << shape.k << " vectors of "
              << shape.vector_bytes << " at " << at;
        }
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 0u);
}

}  // namespace
}  // namespace quern::ukernel
