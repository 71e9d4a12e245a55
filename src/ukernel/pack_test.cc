// Packing of both sides: every layout in use round trips through the generic packer, and every fast packer gives its
// bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/row_runner.h"
#include "ukernel/test_depth.h"

namespace quern::ukernel {
namespace {

CpuFacts Host() { return HostCpu().facts(); }

// The layouts of all rows and those that this folder names.
std::vector<PackLayout> Layouts() {
  std::vector<PackLayout> all = {kF32x16,
                                 kF32x8,
                                 kBf16Terms2x16,
                                 {.element = Format::kBf16, .n_unit = 16, .k_interleave = 2, .k_multiple = 32},
                                 {.element = Format::kBf16x3, .n_unit = 16, .k_interleave = 2, .k_multiple = 32},
                                 kI8x16,
                                 kI8Channels16,
                                 Blocks4x16(Format::kF32),
                                 Blocks4x16(Format::kBf16, Format::kU8),
                                 Blocks4x16(Format::kF16, Format::kF32),
                                 Blocks8x16(Format::kF32),
                                 {.element = Format::kU2,
                                  .n_unit = 4,
                                  .k_interleave = 4,
                                  .k_multiple = 16,
                                  .scale = Format::kF32,
                                  .offset = Format::kU8,
                                  .sums = Format::kF32},
                                 {.element = Format::kF16, .n_unit = 8, .bias = Format::kF32},
                                 {.element = Format::kF32, .n_unit = 4, .n_scale = VectorScale::kSve}};
  for (const auto* list : AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      for (const PackLayout& l : list->rows[i].layouts) {
        if (l.element != Format::kNone && std::find(all.begin(), all.end(), l) == all.end()) all.push_back(l);
      }
    }
  }
  return all;
}

std::vector<float> RandomFloats(size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  NormalNumbers<float> normal;
  std::vector<float> x(count);
  for (float& v : x) v = normal(rng);
  return x;
}

TEST(PackRhs, DenseLayoutsRoundTrip) {
  for (const PackLayout& l : Layouts()) {
    if (l.scale != Format::kNone || FormatBits(l.element) < 8) continue;
    const bool doubles = l.element == Format::kF64, floats = doubles || IsFloatFormat(l.element);
    for (size_t n : {1u, 15u, 16u, 17u, 50u}) {
      for (size_t k : {0u, 1u, 3u, 64u, 67u}) {
        for (size_t segments : {1u, 3u}) {
          const RhsShape shape{.k = k, .n = n, .segments = segments, .vector_bytes = 32};
          const RhsGeometry g = DescribeRhs(l, shape);
          const std::vector<float> x = RandomFloats(segments * k * n, 3);
          std::vector<double> wide(x.begin(), x.end());
          for (double& v : wide) v += 0x1p-40;  // more than float32 holds
          std::vector<int8_t> q(segments * k * n);
          for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<int8_t>(i * 37 + 11);
          const std::vector<float> bias = RandomFloats(n, 4);
          RhsSource s;
          const ptrdiff_t element = doubles ? 8 : floats ? 4 : 1;
          s.format = doubles ? Format::kF64 : floats ? Format::kF32 : Format::kI8;
          if (l.element == Format::kU8) s.format = Format::kU8;
          s.data = doubles  ? static_cast<const void*>(wide.data())
                   : floats ? static_cast<const void*>(x.data())
                            : q.data();
          s.k_stride = element;  // K contiguous
          s.n_stride = static_cast<ptrdiff_t>(k) * element;
          s.segment_stride = static_cast<ptrdiff_t>(k * n) * element;
          s.bias = bias.data();
          ASSERT_TRUE(CanPackRhs(l, s));
          GuardedBuffer packed(g.total_bytes);
          std::memset(packed.data(), 0x55, packed.bytes());
          // In two parts: callers split the work along N.
          const size_t half = g.units / 2;
          PackRhs(l, shape, s, half, g.units, packed.data());
          PackRhs(l, shape, s, 0, half, packed.data());
          std::vector<float> back(segments * k * n);
          UnpackRhs(l, shape, packed.data(), back.data(), n * sizeof(float));
          for (size_t t = 0; t < segments; ++t) {
            for (size_t i = 0; i < k; ++i) {
              for (size_t c = 0; c < n; ++c) {
                const size_t at = t * k * n + c * k + i;
                const float got = back[(t * k + i) * n + c];
                if (!floats) {
                  ASSERT_EQ(got, l.element == Format::kU8 ? static_cast<float>(static_cast<uint8_t>(q[at]))
                                                          : static_cast<float>(q[at]));
                } else if (doubles) {
                  ASSERT_EQ(got, static_cast<float>(wide[at]));
                  const char* unit = packed.data() + g.UnitOffset(c / g.n_unit);
                  const size_t place = (t * g.segment_k + i) * g.n_unit + c % g.n_unit;
                  ASSERT_EQ(LoadAs<double>(unit + place * sizeof(double)), wide[at]);
                } else if (l.element == Format::kF32) {
                  ASSERT_EQ(got, x[at]);
                } else {
                  // 8 bits of precision per bf16 term, 11 of f16.
                  const double bits =
                      l.element == Format::kF16 ? 11 : 8.0 * static_cast<double>(FormatTerms(l.element));
                  ASSERT_NEAR(got, x[at], std::fabs(x[at]) * std::exp2(-bits) + 1e-7);
                }
              }
            }
          }
          for (size_t c = 0; c < g.units * g.n_unit; ++c) {
            if (l.sums == Format::kI32) {
              int want = 0;
              for (size_t t = 0; c < n && t < segments; ++t) {
                for (size_t i = 0; i < k; ++i) want += q[t * k * n + c * k + i];
              }
              ASSERT_EQ(LoadAs<int32_t>(packed.data() + g.sums_offset + c * 4), want);
            }
            if (l.bias == Format::kF32) {
              ASSERT_EQ(LoadAs<float>(packed.data() + g.bias_offset + c * 4), c < n ? bias[c] : 0.0f);
            }
          }
        }
      }
    }
  }
}

TEST(PackRhs, UnitsAreWhereTheLayoutSays) {
  // int8 [N/16][K/4][16][4]: what VNNI and AMX load.
  std::vector<int8_t> q(20 * 10);
  for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<int8_t>(i);
  const RhsShape shape{.k = 10, .n = 20};
  const RhsGeometry g = DescribeRhs(kI8x16, shape);
  EXPECT_EQ(g.padded_k, 64u);
  std::vector<int8_t> packed(g.total_bytes);
  PackRhs(kI8x16, shape, {.format = Format::kI8, .data = q.data(), .k_stride = 20, .n_stride = 1}, 0, g.units,
          packed.data());
  for (size_t k = 0; k < 64; ++k) {
    for (size_t n = 0; n < 32; ++n) {
      const int8_t want = k < 10 && n < 20 ? q[k * 20 + n] : int8_t{0};
      ASSERT_EQ(packed[n / 16 * g.unit_stride + (k / 4 * 16 + n % 16) * 4 + k % 4], want) << k << " " << n;
    }
  }
  // 4-bit: byte j of eight K values holds byte j of the first int8 group low and of the second high.
  const std::vector<uint8_t> nibbles(16 * 16, 0x10);  // even k: 0, odd k: 1
  const std::vector<float> scales(16, 1.0f);
  const RhsShape blocks{.k = 32, .n = 16, .block = 32};
  const PackLayout l = Blocks4x16(Format::kF32);
  const RhsGeometry b = DescribeRhs(l, blocks);
  std::vector<uint8_t> out(b.total_bytes);
  PackRhs(l, blocks,
          {.format = Format::kU4,
           .data = nibbles.data(),
           .n_stride = 16,
           .block_stride = 16,
           .scales = scales.data(),
           .scale_n_stride = 4,
           .scale_block_stride = 4},
          0, 1, out.data());
  for (size_t i = 0; i < 256; ++i) ASSERT_EQ(out[i], i % 2 ? 0x11 : 0x00) << i;
}

float DequantizeMatMulNBits(const std::vector<uint8_t>& data, size_t bits, size_t block, size_t k_total, size_t n,
                            size_t k, const std::vector<float>& scales, const std::vector<uint8_t>* zeros) {
  const size_t blocks = (k_total + block - 1) / block, row = blocks * block * bits / 8;
  const size_t bit = k * bits;
  const int q = (data[n * row + bit / 8] >> (bit % 8)) & ((1 << bits) - 1);
  int zero = 1 << (bits - 1);
  if (zeros) {
    const size_t zero_row = (blocks * bits + 7) / 8, zero_bit = k / block * bits;
    zero = ((*zeros)[n * zero_row + zero_bit / 8] >> (zero_bit % 8)) & ((1 << bits) - 1);
  }
  return scales[n * blocks + k / block] * static_cast<float>(q - zero);
}

TEST(PackRhs, BlockLayoutsRoundTrip) {
  std::mt19937 rng(5);
  for (const PackLayout& l : Layouts()) {
    if (l.scale == Format::kNone) continue;
    const size_t bits = l.element == Format::kI8 ? 4 : FormatBits(l.element);
    for (size_t block : {16u, 32u, 128u}) {
      for (size_t k : {32u, 128u, 144u}) {
        for (size_t n : {1u, 17u}) {
          for (bool has_zeros : {false, true}) {
            if (has_zeros && l.offset == Format::kNone && l.element != Format::kI8) continue;
            const size_t blocks = (k + block - 1) / block;
            std::vector<uint8_t> data(n * blocks * block * bits / 8), zeros(n * ((blocks * bits + 7) / 8));
            for (uint8_t& x : data) x = static_cast<uint8_t>(rng());
            for (uint8_t& x : zeros) x = static_cast<uint8_t>(rng());
            std::vector<float> scales(n * blocks);
            for (float& x : scales) x = std::ldexp(1.0f, static_cast<int>(rng() % 5) - 3);
            RhsSource s;
            s.format = bits == 8 ? Format::kU8 : bits == 4 ? Format::kU4 : Format::kU2;
            s.data = data.data();
            s.n_stride = static_cast<ptrdiff_t>(blocks * block * bits / 8);
            s.block_stride = static_cast<ptrdiff_t>(block * bits / 8);
            s.scales = scales.data();
            s.scale_n_stride = static_cast<ptrdiff_t>(blocks * 4);
            s.scale_block_stride = 4;
            if (has_zeros) {
              s.zero_points = zeros.data();
              s.zero_point_format = s.format;
              s.zero_point_n_stride = static_cast<ptrdiff_t>((blocks * bits + 7) / 8);
            }
            ASSERT_TRUE(CanPackRhs(l, s));
            const RhsShape shape{.k = k, .n = n, .block = block, .vector_bytes = 32};
            const RhsGeometry g = DescribeRhs(l, shape);
            GuardedBuffer packed(g.total_bytes);
            PackRhs(l, shape, s, 0, g.units, packed.data());
            for (size_t c = 0; c < n; ++c) {
              double sum = 0;
              for (size_t i = 0; i < k; ++i) {
                const float want =
                    DequantizeMatMulNBits(data, bits, block, k, c, i, scales, has_zeros ? &zeros : nullptr);
                ASSERT_EQ(UnpackRhsElement(l, shape, packed.data(), i, c), want) << k << " " << i << " " << c;
                sum += want;
              }
              if (l.sums == Format::kF32) {
                ASSERT_EQ(LoadAs<float>(packed.data() + g.sums_offset + c * 4), sum);
              }
            }
          }
        }
      }
    }
  }
}

TEST(PackRhs, GgufBlocks) {
  // Q4_0: w[i] low nibble, w[i + 16] high nibble of byte i, d*(q - 8); Q8_0: d*q.
  std::mt19937 rng(8);
  const size_t n = 18, k = 96, blocks = 3;
  for (Format f : {Format::kQ4_0, Format::kQ4_1, Format::kQ8_0}) {
    const size_t bytes = f == Format::kQ4_0 ? 18 : f == Format::kQ4_1 ? 20 : 34;
    std::vector<uint8_t> data(n * blocks * bytes);
    for (uint8_t& x : data) x = static_cast<uint8_t>(rng());
    for (size_t b = 0; b < n * blocks; ++b) {
      StoreAs(data.data() + b * bytes, F32ToF16Bits(0.25f * static_cast<float>(b % 7 + 1)));
      if (f == Format::kQ4_1) StoreAs(data.data() + b * bytes + 2, F32ToF16Bits(0.5f * static_cast<float>(b % 5)));
    }
    const RhsSource s{.format = f,
                      .data = data.data(),
                      .n_stride = static_cast<ptrdiff_t>(blocks * bytes),
                      .block_stride = static_cast<ptrdiff_t>(bytes)};
    std::vector<PackLayout> layouts = {kF32x16};
    if (f == Format::kQ4_0) layouts.push_back(Blocks4x16(Format::kF16));
    if (f == Format::kQ4_1) layouts.push_back(Blocks4x16(Format::kF16, Format::kF32));
    if (f == Format::kQ8_0) layouts.push_back(Blocks8x16(Format::kF16));
    for (const PackLayout& l : layouts) {
      ASSERT_TRUE(CanPackRhs(l, s));
      const RhsShape shape{.k = k, .n = n, .block = 32};
      const RhsGeometry g = DescribeRhs(l, shape);
      std::vector<char> packed(g.total_bytes);
      PackRhs(l, shape, s, 0, g.units, packed.data());
      for (size_t c = 0; c < n; ++c) {
        for (size_t i = 0; i < k; ++i) {
          const uint8_t* b = data.data() + (c * blocks + i / 32) * bytes;
          const float d = F16BitsToF32(LoadAs<uint16_t>(b));
          const size_t j = i % 32;
          float want = 0;
          if (f == Format::kQ8_0) {
            want = d * static_cast<float>(LoadAs<int8_t>(b + 2 + j));
          } else {
            const uint8_t byte = b[(f == Format::kQ4_0 ? 2 : 4) + j % 16];
            const float q = static_cast<float>(j < 16 ? byte & 15 : byte >> 4);
            want = f == Format::kQ4_0 ? d * (q - 8) : d * q + F16BitsToF32(LoadAs<uint16_t>(b + 2));
          }
          ASSERT_EQ(UnpackRhsElement(l, shape, packed.data(), i, c), want) << FormatName(f) << " " << i << " " << c;
        }
      }
    }
  }
}

TEST(PackRhs, ReportsValuesThatDoNotSplit) {
  std::vector<float> x(16, 1.0f);
  const RhsShape shape{.k = 1, .n = 16};
  const RhsGeometry g = DescribeRhs(kBf16Terms2x16, shape);
  std::vector<char> packed(g.total_bytes);
  const RhsSource s{.format = Format::kF32, .data = x.data(), .k_stride = 64, .n_stride = 4};
  EXPECT_EQ(PackRhs(kBf16Terms2x16, shape, s, 0, 1, packed.data()), kPackFine);
  for (float bad : {INFINITY, std::nanf(""), 3.4e38f, 1e-38f}) {
    x[3] = bad;
    EXPECT_EQ(PackRhs(kBf16Terms2x16, shape, s, 0, 1, packed.data()), kPackSplitUnsafe) << bad;
  }
}

TEST(PackRhs, FastPackersGiveTheGenericBytes) {
  size_t checked = 0;
  for (const auto* list : AllPackKernels()) {
    for (size_t r = 0; r < list->count; ++r) {
      const PackKernel& row = list->rows[r];
      // pack_blocks_test.cc has blocks and numbers of less than a byte.
      if (!row.run || row.blocks || FormatBits(row.source) < 8 || !IsaRunsOn(row.isa, Host())) continue;
      const size_t element = FormatBytes(row.source);
      std::vector<RhsShape> shapes;
      for (size_t n : {1u, 16u, 31u, 200u}) {
        for (size_t k : {1u, 7u, 8u, 64u, 97u, 261u}) {
          if (Depth() == TestDepth::kBrief && (n == 31 || k == 7 || k == 64)) continue;
          for (size_t segments : {1u, 2u}) shapes.push_back({.k = k, .n = n, .segments = segments, .vector_bytes = 16});
        }
      }
      if (row.layout.n_scale != VectorScale::kFixed) {
        for (size_t vector : {32u, 64u, 256u}) {
          if (Depth() == TestDepth::kBrief && vector != 64) continue;
          for (size_t n : {9u, 200u}) shapes.push_back({.k = 99, .n = n, .segments = 2, .vector_bytes = vector});
        }
      }
      // What goes past the caches: more than 4 MB, with AVX.
      const bool past = Host().arch == Arch::kX86_64 && std::string_view(row.isa.name) != "portable";
      if (past && !row.layout.channel_scales) {
        shapes.push_back({.k = 4165 / FormatBytes(row.layout.element), .n = 1033});
      }
      for (const RhsShape& shape : shapes) {
        const size_t k = shape.k, n = shape.n, segments = shape.segments;
        const size_t gap = 3;
        const size_t line = (row.contiguous_n ? n : k) + gap, lines = row.contiguous_n ? k : n;
        GuardedBuffer source(((segments * lines - 1) * line + line - gap) * element);
        std::mt19937 rng(2);
        for (size_t i = 0; i + element <= source.bytes(); i += element) {
          if (IsFloatFormat(row.source) && rng() % 16) {
            StoreFloat(row.source, source.data() + i, static_cast<float>(rng() % 4096) / 64.0f - 30.0f);
          } else {  // of floats any bits: infinities, denormals and NaN (quiet: those that are not pass unchanged)
            for (size_t b = 0; b < element; ++b) source.data()[i + b] = static_cast<char>(rng());
            StoreFloat(row.source, source.data() + i, LoadFloat(row.source, source.data() + i));
          }
        }
        RhsSource s{.format = row.source, .data = source.data()};
        const auto along = static_cast<ptrdiff_t>(element), across = static_cast<ptrdiff_t>(line * element);
        s.k_stride = row.contiguous_n ? across : along;
        s.n_stride = row.contiguous_n ? along : across;
        s.segment_stride = static_cast<ptrdiff_t>(lines * line * element);
        const std::vector<float> scales = RandomFloats(n, 9);
        if (row.layout.channel_scales && k % 2) s.channel_scales = scales.data();  // else ones
        const RhsGeometry g = DescribeRhs(row.layout, shape);
        GuardedBuffer want(g.total_bytes), got(g.total_bytes);
        std::memset(got.data(), 0x33, got.bytes());
        PackRhs(row.layout, shape, s, 0, g.units, want.data());
        // In two parts, the vectors behind the units too.
        row.run(row.layout, shape, s, g.units / 2, g.units, got.data());
        row.run(row.layout, shape, s, 0, g.units / 2, got.data());
        ASSERT_EQ(std::memcmp(want.data(), got.data(), g.units * g.unit_stride), 0)
            << list->stem << " row " << r << " n=" << n << " k=" << k << " segments=" << segments << " vectors of "
            << shape.vector_bytes;
        const size_t columns = g.units * g.n_unit;
        const auto same = [&](size_t at) { return !std::memcmp(want.data() + at, got.data() + at, columns * 4); };
        EXPECT_TRUE(row.layout.sums == Format::kNone || same(g.sums_offset)) << list->stem << " row " << r;
        EXPECT_TRUE(!row.layout.channel_scales || same(g.channel_scales_offset)) << list->stem << " row " << r;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 0u);
}

// Every number of 16 bits: what the packers convert with instructions of their own.
TEST(PackRhs, FastPackersConvertEveryHalfAlike) {
  constexpr size_t kK = 512, kN = 128;
  size_t checked = 0;
  for (const auto* list : AllPackKernels()) {
    for (size_t r = 0; r < list->count; ++r) {
      const PackKernel& row = list->rows[r];
      if (!row.run || row.blocks || !IsaRunsOn(row.isa, Host())) continue;
      if (row.source != Format::kF16 && row.source != Format::kBf16) continue;
      GuardedBuffer source(kK * kN * 2);
      for (size_t i = 0; i < kK * kN; ++i) {
        StoreAs(source.data() + 2 * i, static_cast<uint16_t>(i));
        StoreFloat(row.source, source.data() + 2 * i, LoadFloat(row.source, source.data() + 2 * i));  // NaN quiet
      }
      RhsSource s{.format = row.source, .data = source.data()};
      s.k_stride = row.contiguous_k ? 2 : static_cast<ptrdiff_t>(kN * 2);
      s.n_stride = row.contiguous_k ? static_cast<ptrdiff_t>(kK * 2) : 2;
      const RhsShape shape{.k = kK, .n = kN, .vector_bytes = 16};
      const RhsGeometry g = DescribeRhs(row.layout, shape);
      GuardedBuffer want(g.total_bytes), got(g.total_bytes);
      PackRhs(row.layout, shape, s, 0, g.units, want.data());
      row.run(row.layout, shape, s, 0, g.units, got.data());
      ASSERT_EQ(std::memcmp(want.data(), got.data(), g.units * g.unit_stride), 0) << list->stem << " row " << r;
      ++checked;
    }
  }
  EXPECT_GT(checked, 0u);
}

// numerics.md's formula in double precision; rows whose values fall on a rounding boundary in float32 are not drawn.
TEST(PackLhs, DynamicRowsFollowTheFormula) {
  const size_t m = 7, k = 100;
  std::vector<float> x = RandomFloats(m * k, 6);
  for (size_t i = 0; i < k; ++i) {
    x[k + i] = std::fabs(x[k + i]);  // all positive: the range starts at 0
    x[2 * k + i] = 0;                // empty range
    x[3 * k + i] = -std::fabs(x[3 * k + i]);
  }
  const LhsShape shape{.m = m, .k = k};
  const LhsGeometry g = DescribeLhs(kI8dRows, shape);
  EXPECT_EQ(g.panel_stride % 64, 0u);
  std::vector<char> packed(g.total_bytes);
  PackLhs(kI8dRows, shape, {.format = Format::kF32, .data = x.data(), .row_stride = k * 4}, 0, m, packed.data());
  for (size_t r = 0; r < m; ++r) {
    double lo = 0, hi = 0;
    for (size_t i = 0; i < k; ++i) {
      lo = std::min<double>(lo, x[r * k + i]);
      hi = std::max<double>(hi, x[r * k + i]);
    }
    const double s = lo == hi ? 1 : 255 / (hi - lo);
    const double zmin = -128 + lo * s, zmax = 127 + hi * s;
    const double zp = std::nearbyint(std::min(127.0, std::max(-128.0, zmin + zmax > 0 ? -128 - lo * s : 127 - hi * s)));
    const float scale = LoadAs<float>(packed.data() + g.scales_offset + r * 4);
    EXPECT_NEAR(scale, s, s * 1e-6);
    EXPECT_NEAR(LoadAs<float>(packed.data() + g.zero_points_offset + r * 4), zp, 0);
    EXPECT_EQ(LoadAs<float>(packed.data() + g.negated_zero_points_offset + r * 4), -zp);
    for (size_t i = 0; i < k; ++i) {
      const int q = LoadAs<int8_t>(packed.data() + r * g.panel_stride + i);
      const double exact = x[r * k + i] * s;
      if (std::fabs(std::fabs(exact - std::floor(exact)) - 0.5) < 1e-4) continue;
      EXPECT_EQ(q, std::min(127.0, std::max(-128.0, std::round(exact) + zp))) << r << " " << i;
    }
    for (size_t i = k; i < g.panel_stride; ++i) EXPECT_EQ(packed[r * g.panel_stride + i], 0);
  }
}

TEST(PackLhs, PanelsAndTerms) {
  const size_t m = 5, k = 40;
  const std::vector<float> x = RandomFloats(m * k, 12);
  const LhsLayout l{.element = Format::kBf16x2, .m_unit = 4, .k_interleave = 2, .k_multiple = 32};
  const LhsShape shape{.m = m, .k = k};
  const LhsGeometry g = DescribeLhs(l, shape);
  EXPECT_EQ(g.panels, 2u);
  EXPECT_EQ(g.padded_k, 64u);
  std::vector<char> packed(g.total_bytes);
  PackLhs(l, shape, {.format = Format::kF32, .data = x.data(), .row_stride = k * 4}, 0, g.panels, packed.data());
  for (size_t r = 0; r < 8; ++r) {
    for (size_t i = 0; i < 64; ++i) {
      float sum = 0;
      for (size_t t = 0; t < 2; ++t) {
        const size_t element = (i / 32 * 2 + t) * 32 * 4 + (i % 32 / 2 * 4 + r % 4) * 2 + i % 2;
        sum += Bf16BitsToF32(LoadAs<uint16_t>(packed.data() + r / 4 * g.panel_stride + element * 2));
      }
      const float want = r < m && i < k ? x[r * k + i] : 0.0f;
      ASSERT_NEAR(sum, want, std::fabs(want) * std::exp2(-16.0)) << r << " " << i;
    }
  }
}

void ExpectGenericBytes(const LhsPackKernel& row, const char* stem, const LhsShape& shape, const LhsSource& s) {
  SCOPED_TRACE(std::string(stem) + " m=" + std::to_string(shape.m) + " k=" + std::to_string(shape.k) +
               " taps=" + std::to_string(shape.segments));
  const LhsGeometry g = DescribeLhs(row.layout, shape);
  GuardedBuffer want(g.total_bytes), got(g.total_bytes);
  std::memset(got.data(), 0x44, got.bytes());
  const uint32_t flags = PackLhs(row.layout, shape, s, 0, g.panels, want.data());
  EXPECT_EQ(row.run(row.layout, shape, s, 0, g.panels, got.data()), flags);
  ASSERT_EQ(std::memcmp(want.data(), got.data(), g.panels * g.panel_stride), 0);
  for (const size_t v : {g.scales_offset, g.zero_points_offset, g.negated_zero_points_offset}) {
    if (row.layout.row_params) {
      ASSERT_EQ(std::memcmp(want.data() + v, got.data() + v, shape.m * 4), 0);
    }
  }
}

TEST(PackLhs, FastPackersGiveTheGenericBytes) {
  size_t checked = 0;
  for (const auto* list : AllLhsPackKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const LhsPackKernel& row = list->rows[i];
      if (!row.run || !IsaRunsOn(row.isa, Host())) continue;
      const size_t element = FormatBytes(row.source);
      for (size_t m : {1u, 5u, 33u}) {
        for (size_t k : {1u, 15u, 64u, 131u}) {
          for (size_t taps : {1u, 3u}) {
            if (taps > 1 && !(row.forms & kLhsTaps)) continue;
            GuardedBuffer source((m + taps) * k * element);
            std::mt19937 rng(static_cast<unsigned>(m * k));
            for (size_t j = 0; j < (m + taps) * k; ++j) {
              if (IsFloatFormat(row.source)) {
                StoreFloat(row.source, source.data() + j * element, static_cast<float>(rng() % 2048) / 8.0f - 100.0f);
              } else {
                source.data()[j] = static_cast<char>(rng());
              }
            }
            const Tap list_of_taps[] = {
                {0, 0}, {static_cast<ptrdiff_t>(k * element), 0}, {static_cast<ptrdiff_t>(2 * k * element), 0}};
            LhsSource s{.format = row.source,
                        .form = taps > 1 ? kLhsTaps : kLhsRows,
                        .data = source.data(),
                        .row_stride = static_cast<ptrdiff_t>(k * element),
                        .taps = list_of_taps};
            const size_t align = row.layout.k_interleave == 8 ? 8 : 4;
            const LhsShape shape{.m = m, .k = k, .segments = taps, .segment_align = align, .vector_bytes = 16};
            ASSERT_NO_FATAL_FAILURE(ExpectGenericBytes(row, list->stem, shape, s));
            ++checked;
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 0u);
}

// Exact halves at a scale of 1, what is next to them, numbers that are none, and what does not fit.
TEST(PackLhs, FastPackersRoundAndBoundAlike) {
  const float rows[][16] = {
      {-100, 155, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, 0.49999997f, -0.49999997f, 1e-42f, -0.0f, NAN, 126.5f, -99.5f, 99, 7},
      {-INFINITY, 1, 2, 3, NAN, -1, 0.5f, 2.5f, 4, 5, 6, 7, 8, 9, 10, 11},
      {3.4e38f, -3.4e38f, 1, 0, NAN, -NAN, 1e38f, 2, 3, 4, 5, 6, 7, 8, 9, 10},
      {}};
  constexpr size_t kRows = std::size(rows), kK = 83;
  std::vector<float> x(kRows * kK);
  for (size_t i = 0; i < x.size(); ++i) x[i] = rows[i / kK][i % kK % 16];
  const LhsSource s{.format = Format::kF32, .data = x.data(), .row_stride = kK * 4};
  size_t checked = 0;
  for (const auto* list : AllLhsPackKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const LhsPackKernel& row = list->rows[i];
      if (!row.run || !IsaRunsOn(row.isa, Host()) || row.layout.element != Format::kI8d) continue;
      const LhsShape shape{.m = kRows, .k = kK, .segment_align = 8, .vector_bytes = 16};
      ASSERT_NO_FATAL_FAILURE(ExpectGenericBytes(row, list->stem, shape, s));
      ++checked;
    }
  }
  EXPECT_GT(checked, 0u);
}

}  // namespace
}  // namespace quern::ukernel
