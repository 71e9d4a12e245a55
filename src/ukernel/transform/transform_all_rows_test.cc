// Every block transform of this build: the panel it writes stands for the resident numbers, and what cannot be split is
// reported.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/convert.h"
#include "ukernel/row_runner.h"
#include "ukernel/rows_that_run.h"
#include "ukernel/transform.h"

namespace quern::ukernel {
namespace {

std::vector<const TransformKernel*> Rows() {
  return RowsThatRun(AllTransformKernels(), &TransformKernel::run, HostCpu().facts());
}

// A packed right side, and the transform of a K block of it.
struct Panel {
  PackLayout from, to;
  RhsShape shape, block;
  std::vector<float> values;  // [k][n] of dense sources
  std::unique_ptr<GuardedBuffer> packed, panel;
  uint32_t flags = 0;
};

Panel Transform(const TransformKernel& row, const PackLayout& from, size_t k, size_t n, size_t block, size_t k0,
                float special = 0) {
  Panel p;
  p.from = from;
  p.to = row.to;
  p.to.sums = Format::kNone;
  p.shape = {.k = k, .n = n, .block = from.scale == Format::kNone ? 0 : block, .vector_bytes = 32};
  std::mt19937 rng(5);
  std::vector<uint8_t> bytes, zeros;
  std::vector<char> scales;
  RhsSource s;
  const size_t bits = FormatBits(from.element);
  if (from.element == Format::kU4 && from.scale == Format::kNone) {
    bytes.resize(n * CeilDiv(k, 2));
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng());
    s = {.format = Format::kI4, .data = bytes.data(), .n_stride = static_cast<ptrdiff_t>(CeilDiv(k, 2))};
  } else if (from.scale == Format::kNone) {
    for (size_t i = 0; i < k * n; ++i) p.values.push_back(NormalNumbers<float>()(rng));
    if (special != 0) p.values[(k - 1) * n] = special;
    s = {.format = Format::kF32, .data = p.values.data(), .k_stride = static_cast<ptrdiff_t>(n * 4), .n_stride = 4};
  } else {
    const size_t blocks = CeilDiv(k, block), element = FormatBytes(from.scale);
    bytes.resize(n * blocks * block * bits / 8);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng());
    scales.resize(n * blocks * element);
    for (size_t i = 0; i < n * blocks; ++i) {
      StoreFloat(from.scale, scales.data() + i * element, 0.25f + static_cast<float>(rng() % 32) / 16);
    }
    s = {.format = from.element == Format::kI8 ? Format::kU8 : from.element,
         .data = bytes.data(),
         .n_stride = static_cast<ptrdiff_t>(blocks * block * bits / 8),
         .block_stride = static_cast<ptrdiff_t>(block * bits / 8),
         .scales = scales.data(),
         .scale_format = from.scale,
         .scale_n_stride = static_cast<ptrdiff_t>(blocks * element),
         .scale_block_stride = static_cast<ptrdiff_t>(element)};
    if (from.offset != Format::kNone) {
      const size_t zero_bytes = CeilDiv(blocks * bits, 8);
      zeros.resize(n * zero_bytes);
      for (uint8_t& z : zeros) z = static_cast<uint8_t>(rng());
      s.zero_points = zeros.data();
      s.zero_point_format = from.element;
      s.zero_point_n_stride = static_cast<ptrdiff_t>(zero_bytes);
    }
  }
  const RhsGeometry g = DescribeRhs(from, p.shape);
  p.packed = std::make_unique<GuardedBuffer>(g.total_bytes);
  PackRhs(from, p.shape, s, 0, g.units, p.packed->data());
  const size_t count = std::min(RoundUp(k - k0, RhsGroup(from)), g.padded_k - k0);
  p.block = {.k = count, .n = g.units * g.n_unit, .block = p.shape.block, .vector_bytes = p.shape.vector_bytes};
  const RhsGeometry t = DescribeRhs(p.to, p.block);
  p.panel = std::make_unique<GuardedBuffer>(t.total_bytes);
  const size_t b0 = block ? k0 / block : 0;
  TransformArgs a;
  a.src = p.packed->data() + RhsElementBytes(from, g.n_unit, k0);
  a.src_unit_stride = g.unit_stride;
  a.src_scales = p.packed->data() + g.scales_offset + b0 * g.n_unit * FormatBytes(from.scale);
  a.src_offsets = p.packed->data() + g.offsets_offset + b0 * g.n_unit * FormatBytes(from.offset);
  a.src_scale = from.scale;
  a.src_offset = from.offset;
  a.dst = p.panel->data();
  a.dst_unit_stride = t.unit_stride;
  a.dst_scales_offset = t.scales_offset;
  a.k = count;
  a.units = g.units;
  a.n_unit = g.n_unit;
  a.block = p.shape.block;
  p.flags = row.run(a);
  return p;
}

class AllTransforms : public testing::TestWithParam<const TransformKernel*> {};

TEST_P(AllTransforms, PanelsStandForTheResidentNumbers) {
  const TransformKernel& row = *GetParam();
  std::vector<PackLayout> layouts = {row.from};
  if (row.from.scale != Format::kNone) {
    layouts.clear();
    for (Format scale : {Format::kF32, Format::kF16, Format::kBf16}) {
      for (Format offset : {Format::kNone, Format::kU8, Format::kF32}) {
        if (row.from.element == Format::kI8 && offset != Format::kNone) continue;
        layouts.push_back(row.from);
        layouts.back().scale = scale;
        layouts.back().offset = offset;
      }
    }
  }
  for (const PackLayout& from : layouts) {
    for (size_t k : {32u, 64u, 65u, 96u, 200u}) {
      for (size_t n : {1u, 16u, 37u}) {
        for (size_t k0 : {0u, 32u}) {
          if (k0 >= k) continue;
          const Panel p = Transform(row, from, k, n, 32, k0);
          EXPECT_EQ(p.flags, kPackFine);
          for (size_t i = k0; i < k; ++i) {
            for (size_t c = 0; c < n; ++c) {
              const float want = UnpackRhsElement(p.from, p.shape, p.packed->data(), i, c);
              const float got = UnpackRhsElement(p.to, p.block, p.panel->data(), i - k0, c);
              const float slack = FormatTerms(p.to.element) == 2 ? std::ldexp(std::fabs(want), -16) : 0.0f;
              ASSERT_NEAR(got, want, slack) << row.isa.name << " k=" << i << " n=" << c;
            }
          }
        }
      }
    }
  }
}

TEST_P(AllTransforms, SplitsThatAreUnsafeAreReported) {
  const TransformKernel& row = *GetParam();
  if (FormatTerms(row.to.element) == 1) return;
  // One number among ordinary ones.
  for (float x : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf(""), 3e38f,
                  -1e30f}) {
    EXPECT_EQ(Transform(row, row.from, 33, 17, 0, 0, x).flags, kPackSplitUnsafe) << x;
  }
  for (float x : {1e-20f, -1e-35f, 1e-40f, -1e5f}) {
    EXPECT_EQ(Transform(row, row.from, 33, 17, 0, 0, x).flags, kPackFine) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Transform, AllTransforms, testing::ValuesIn(Rows()));

}  // namespace
}  // namespace quern::ukernel
