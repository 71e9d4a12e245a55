// The bound of neighbouring weights, and the rows that go by it: exact on both sides of what 16 bits hold.
#include "ukernel/pair_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "ukernel/gemm.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/pack.h"

namespace quern::ukernel {
namespace {

// Weights [taps * k][n], packed as a row takes them.
struct Weights {
  Weights(const PackLayout& layout, size_t taps, size_t k, size_t n, std::vector<int8_t> values)
      : shape{.k = k, .n = n, .segments = taps},
        geometry(DescribeRhs(layout, shape)),
        w(std::move(values)),
        packed(geometry.total_bytes) {
    const auto stride = static_cast<ptrdiff_t>(n);
    const RhsSource source{.format = Format::kI8,
                           .data = w.data(),
                           .k_stride = stride,
                           .n_stride = 1,
                           .segment_stride = stride * static_cast<ptrdiff_t>(k)};
    PackRhs(layout, shape, source, 0, geometry.units, packed.data());
    bound = FindPairBound(layout, geometry, packed.data());
    ListBeyond(kMostOfNarrowPair);
  }
  void ListBeyond(unsigned narrow) {
    begin.resize(geometry.units + 1);
    at.resize(packed.bytes() / 64);
    at.resize(ListWideGroups(kI8x16, geometry, packed.data(), narrow, begin.data(), at.data(), at.size()));
  }
  WideGroups wide() const { return {begin.data(), at.data()}; }

  RhsShape shape;
  RhsGeometry geometry;
  std::vector<int8_t> w;
  GuardedBuffer packed;
  uint16_t bound = 0;
  std::vector<uint32_t> begin, at;
};

TEST(PairBound, GreatestSumOfNeighbours) {
  const auto bound = [](std::vector<int8_t> column, size_t taps) {
    const size_t k = column.size() / taps;
    return Weights(kI8x16, taps, k, 1, std::move(column)).bound;
  };
  EXPECT_EQ(bound({3, 4, 5, -9, 127}, 1), 127);
  EXPECT_EQ(bound({100, 27, -100, -29}, 1), 129);
  EXPECT_EQ(bound({-128, -128, 127, 127}, 1), 256);
  EXPECT_EQ(bound({127, -128, -128, 127}, 1), 1) << "each product of two of different signs fits alone";
  EXPECT_EQ(bound({50, 60, 70, 80, 90, 100}, 2), 170) << "taps are padded: 70 and 80 are no neighbours";
  EXPECT_EQ(FindPairBound(kF32x16, DescribeRhs(kF32x16, {.k = 4, .n = 4}), nullptr), 0);
  EXPECT_EQ(FindPairBound(kU4Channels16, DescribeRhs(kU4Channels16, {.k = 4, .n = 4}), nullptr), 16);
}

TEST(PairBound, GroupsOfWidePairs) {
  constexpr size_t kTaps = 2, kK = 37, kN = 40;
  std::vector<int8_t> values(kTaps * kK * kN, 64);  // 128 is not wide yet
  const auto at = [&](size_t tap, size_t k, size_t n) -> int8_t& { return values[(tap * kK + k) * kN + n]; };
  at(1, 6, 17) = 65;
  at(0, 0, 39) = at(0, 1, 39) = -64;
  at(0, 9, 39) = -65;  // with 64: apart each fits
  at(1, 36, 39) = 127;
  at(1, 12, 32) = at(1, 13, 32) = -65;
  const Weights w(kI8x16, kTaps, kK, kN, values);
  const size_t tap = RhsElementBytes(kI8x16, 16, w.geometry.segment_k);
  const std::vector<uint32_t> places = {static_cast<uint32_t>(tap + 64), static_cast<uint32_t>(tap + 3 * 64)};
  EXPECT_EQ(w.at, places);
  EXPECT_EQ(w.begin, (std::vector<uint32_t>{0, 0, 1, 2}));
  std::vector<uint32_t> begin(4), two(2);
  const auto found = [&](size_t most, size_t first) {
    return ListWideGroups(kI8x16, w.geometry, w.packed.data(), kMostOfNarrowPair, begin.data(), two.data(), most,
                          first);
  };
  EXPECT_EQ(found(1, 0), 2u);
  EXPECT_EQ(two[1], 0u) << "written beyond the most";
  EXPECT_EQ(found(2, 7), 2u);
  EXPECT_EQ(two, places);
  EXPECT_EQ(begin, (std::vector<uint32_t>{7, 7, 8, 9}));
}

struct PairRow {
  const GemmKernel* row;
  bool is_signed;
};

std::vector<PairRow> PairRows() {
  std::vector<PairRow> rows;
  for (const auto* list : AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      if (row.uses_pairs && row.run && RowRunsOn(row.isa, KernelGroup::kGemm, HostCpu().facts())) {
        rows.push_back({&row, row.lhs != Format::kU8});
      }
    }
  }
  return rows;
}

// The product of `m` rows of bytes, [taps][m][k], on a row; `bound` as the caller gives it.
std::vector<int32_t> Product(const GemmKernel& row, size_t m, const std::vector<uint8_t>& x, const Weights& w,
                             uint16_t bound, WideGroups wide = {}) {
  const size_t k = w.shape.k, n = w.shape.n, taps = w.shape.segments;
  GuardedBuffer lhs(x.size()), dst(m * n * sizeof(int32_t)), scratch(row.scratch_bytes);
  std::memcpy(lhs.data(), x.data(), x.size());
  std::vector<Tap> tap(taps);
  for (size_t t = 0; t < taps; ++t) {
    tap[t] = {static_cast<ptrdiff_t>(t * m * k),
              RhsElementBytes(row.consumed, w.geometry.n_unit, t * w.geometry.segment_k)};
  }
  GemmArgs a{.m = m, .n = n, .k = k};
  a.lhs_form = taps > 1 ? kLhsTaps : kLhsRows;
  a.lhs = lhs.data();
  a.lhs_row_stride = static_cast<ptrdiff_t>(k);
  a.taps = tap.data();
  a.tap_count = taps;
  a.rhs = w.packed.data();
  a.rhs_unit_stride = w.geometry.unit_stride;
  a.rhs_sums = w.packed.data() + w.geometry.sums_offset;
  a.rhs_pair_bound = bound;
  a.rhs_wide_groups = wide;
  a.dst = dst.data();
  a.dst_row_stride = n * sizeof(int32_t);
  a.scratch = scratch.data();
  row.run(a);
  std::vector<int32_t> result(m * n);
  std::memcpy(result.data(), dst.data(), result.size() * sizeof(int32_t));
  return result;
}

std::vector<int32_t> Exact(bool is_signed, size_t m, const std::vector<uint8_t>& x, const Weights& w) {
  const size_t k = w.shape.k, n = w.shape.n;
  std::vector<int32_t> sums(m * n);
  for (size_t t = 0; t < w.shape.segments; ++t) {
    for (size_t r = 0; r < m; ++r) {
      for (size_t i = 0; i < k; ++i) {
        const uint8_t byte = x[(t * m + r) * k + i];
        const int left = is_signed ? static_cast<int8_t>(byte) : byte;
        for (size_t c = 0; c < n; ++c) sums[r * n + c] += left * w.w[(t * k + i) * n + c];
      }
    }
  }
  return sums;
}

// Bytes of the left side that a row takes as `level` of 0..255.
uint8_t ByteOf(bool is_signed, int level) { return static_cast<uint8_t>(is_signed ? level - 128 : level); }

TEST(PairBound, RowsAreExactOnBothSidesOfIt) {
  if (PairRows().empty()) GTEST_SKIP() << "this host runs no row that goes by it";
  struct Case {
    int even, odd, level;
  };
  // 255 * 128, 255 * 129, 127 * 256, 128 * 256, and what a single weight gives.
  const Case cases[] = {{64, 64, 255},     {65, 64, 255},     {-128, -128, 127}, {-128, -128, 128},
                        {-128, -128, 255}, {127, -128, 255},  {-128, 127, 254},  {127, 127, 129},
                        {127, 127, 130},   {-100, -100, 164}, {-64, -64, 255}};
  for (const auto& [row, is_signed] : PairRows()) {
    for (const Case& c : cases) {
      for (size_t n : {size_t{3}, size_t{16}, size_t{40}}) {
        // One column after the other has the pair: k of odd lengths end in a pair with nothing.
        const size_t k = 37;
        std::vector<int8_t> values(k * n);
        for (size_t i = 0; i < k; ++i) {
          for (size_t j = 0; j < n; ++j) values[i * n + j] = static_cast<int8_t>(i % 2 ? c.odd : c.even);
        }
        const Weights w(row->consumed, 1, k, n, values);
        const std::vector<uint8_t> x(4 * k, ByteOf(is_signed, c.level));
        for (uint16_t bound : {w.bound, uint16_t{0}}) {
          EXPECT_EQ(Product(*row, 4, x, w, bound), Exact(is_signed, 4, x, w))
              << Name(*row).text << ": " << c.even << ", " << c.odd << " by " << c.level << ", bound " << bound;
        }
      }
    }
  }
}

TEST(PairBound, RowsGoByIt) {
  if (PairRows().empty()) GTEST_SKIP() << "this host runs no row that goes by it";
  for (const auto& [row, is_signed] : PairRows()) {
    const size_t k = 64, n = 16;
    const Weights w(row->consumed, 1, k, n, std::vector<int8_t>(k * n, 127));
    const std::vector<uint8_t> x(4 * k, ByteOf(is_signed, 255));
    EXPECT_NE(Product(*row, 4, x, w, 1), Exact(is_signed, 4, x, w))
        << Name(*row).text << ": sums of a bound that is too low must saturate, or it is not gone by";
    const uint32_t none[] = {0, 0};
    EXPECT_NE(Product(*row, 4, x, w, kMostOfNarrowPair, {none, none}), Exact(is_signed, 4, x, w))
        << Name(*row).text << ": the same of wide groups that are not told";
    EXPECT_EQ(Product(*row, 4, x, w, kMostOfNarrowPair, w.wide()), Exact(is_signed, 4, x, w)) << Name(*row).text;
  }
}

// The left side may have few bytes beyond a range that no pair of these weights saturates with.
TEST(PairBound, BytesBeyondARange) {
  if (PairRows().empty()) GTEST_SKIP() << "this host runs no row that goes by it";
  struct Shape {
    size_t taps, k;
  };
  const Shape shapes[] = {{1, 5}, {1, 64}, {1, 203}, {1, 1000}, {1, 2048}, {1, 2100}, {9, 24}, {3, 64}, {3, 700}};
  std::mt19937 random(4);
  for (const auto& [row, is_signed] : PairRows()) {
    for (const auto& [taps, k] : shapes) {
      if (taps > 1 && !(row->lhs_forms & kLhsTaps)) continue;
      const size_t n = 40;
      std::vector<int8_t> values(taps * k * n);
      for (int8_t& v : values) v = static_cast<int8_t>(random());
      for (size_t i = 0; i < n; ++i) values[i] = values[n + i] = i % 2 ? 127 : -128;
      const Weights w(row->consumed, taps, k, n, values);
      ASSERT_GE(w.bound, 254);
      for (int middle : {0, 40, 128, 190, 255}) {
        for (unsigned one_of : {0u, 200u, 40u, 3u}) {  // beyond it
          for (size_t m : {size_t{3}, size_t{4}}) {
            std::vector<uint8_t> x(taps * m * k);
            for (uint8_t& byte : x) {
              const int near = std::clamp(middle + static_cast<int>(random() % 120) - 60, 0, 255);
              byte = ByteOf(is_signed, one_of && random() % one_of == 0 ? static_cast<int>(random() % 256) : near);
            }
            x[0] = ByteOf(is_signed, 255);
            x[1] = ByteOf(is_signed, 0);
            EXPECT_EQ(Product(*row, m, x, w, w.bound), Exact(is_signed, m, x, w))
                << Name(*row).text << ": " << taps << " taps of " << k << ", rows " << m << " around " << middle
                << ", one of " << one_of << " beyond";
          }
        }
      }
    }
  }
}

TEST(PairBound, RowsGoByARange) {
  if (PairRows().empty()) GTEST_SKIP() << "this host runs no row that goes by it";
  for (const auto& [row, is_signed] : PairRows()) {
    const size_t k = 256, n = 16, m = 4;
    Weights w(row->consumed, 1, k, n, std::vector<int8_t>(k * n, 127));
    std::vector<uint8_t> x(m * k, ByteOf(is_signed, 250));
    const auto with_zeros = [&, &row = row, &is_signed = is_signed](size_t groups) {
      std::vector<uint8_t> y = x;
      for (size_t i = 0; i < groups; ++i) y[i * 4] = ByteOf(is_signed, 0);
      return std::pair(Product(*row, m, y, w, 129), Exact(is_signed, m, y, w));  // a range from 1 to 255
    };
    const auto [few, few_exact] = with_zeros(4);
    EXPECT_NE(few, few_exact) << Name(*row).text << ": sums of a bound that is too low must saturate";
    const auto [many, many_exact] = with_zeros(k / 4 / 2);
    EXPECT_EQ(many, many_exact) << Name(*row).text << ": half of the groups are summed otherwise";

    x.assign(m * k, ByteOf(is_signed, 140));
    EXPECT_EQ(Product(*row, m, x, w, w.bound), Exact(is_signed, m, x, w));
    std::memset(w.packed.data() + w.geometry.sums_offset, 0, n * sizeof(int32_t));
    EXPECT_NE(Product(*row, m, x, w, w.bound), Exact(is_signed, m, x, w))
        << Name(*row).text << ": bytes around their mean take the sums of columns";
  }
}

TEST(PairBound, TapsAndPiecesOfK) {
  if (PairRows().empty()) GTEST_SKIP() << "this host runs no row that goes by it";
  std::mt19937 random(3);
  std::vector<std::pair<size_t, size_t>> shapes = {{9, 3}, {9, 30}, {3, 64}, {40, 64}, {3, 700}, {3, 2100}, {1, 5000}};
  for (size_t k = 1; k <= 40; ++k) shapes.emplace_back(2, k);  // every end of a row
  for (const auto& [row, is_signed] : PairRows()) {
    for (const auto& [taps, k] : shapes) {
      if (taps > 1 && !(row->lhs_forms & kLhsTaps)) continue;
      const size_t n = 24, m = 4;
      std::vector<int8_t> values(taps * k * n);
      for (int8_t& v : values) v = static_cast<int8_t>(static_cast<int>(random() % 121) - 60);
      const Weights w(row->consumed, taps, k, n, values);
      std::vector<uint8_t> x(taps * m * k);
      // Some pieces of K have bytes that are too large, some have not.
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = ByteOf(is_signed, static_cast<int>(random() % (i < x.size() / 2 ? 256 : 201)));
      }
      EXPECT_EQ(Product(*row, m, x, w, w.bound), Exact(is_signed, m, x, w))
          << Name(*row).text << ": " << taps << " taps of " << k;
      for (int8_t& v : values) {
        if (random() % 100 == 0) v = random() % 2 ? 127 : -128;
      }
      const Weights few(row->consumed, taps, k, n, values);
      for (uint8_t& byte : x) byte = random() % 4 ? byte : ByteOf(is_signed, 255);
      for (size_t rows = 1; rows <= m; ++rows) {
        std::vector<uint8_t> first(taps * rows * k);
        for (size_t t = 0; t < taps; ++t) {
          for (size_t i = 0; i < rows * k; ++i) first[t * rows * k + i] = x[t * m * k + i];
        }
        EXPECT_EQ(Product(*row, rows, first, few, kMostOfNarrowPair, few.wide()), Exact(is_signed, rows, first, few))
            << Name(*row).text << ": " << taps << " taps of " << k << ", few wide groups, rows " << rows;
      }
      // A bound in between, which few groups and, where `beyond`, few bytes are beyond.
      Weights between(row->consumed, taps, k, n, values);
      between.ListBeyond(170);
      for (const unsigned beyond : {0u, 40u}) {
        std::vector<uint8_t> near(taps * m * k);
        for (uint8_t& byte : near) {
          byte = ByteOf(is_signed, beyond && random() % beyond == 0 ? 255 : static_cast<int>(random() % 193));
        }
        EXPECT_EQ(Product(*row, m, near, between, 170, between.wide()), Exact(is_signed, m, near, between))
            << Name(*row).text << ": " << taps << " taps of " << k << ", one of " << beyond << " bytes beyond";
      }
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
