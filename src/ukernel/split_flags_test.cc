// Which rows and columns packers report as not to be split in bf16 terms.
#include "ukernel/split_flags.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/cpu.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/number_kinds.h"
#include "ukernel/quantize.h"
#include "ukernel/transform.h"

namespace quern::ukernel {
namespace {

uint32_t Flags(const std::vector<float>& line, size_t terms = 3) {
  return SplitFlags(terms, line.size(), [&](size_t i) { return line[i]; });
}

// A line of k numbers, `count` of them `x`, the others `rest`.
std::vector<float> Line(size_t k, size_t count, float x, float rest) {
  std::vector<float> line(k, rest);
  for (size_t i = 0; i < count; ++i) line[i * k / count] = x;
  return line;
}

TEST(SplitFlags, LargestNumberNearTheEndsOfTheRange) {
  for (size_t terms : {size_t{2}, size_t{3}}) {
    EXPECT_EQ(Flags(std::vector<float>(40, 0.0f), terms), kPackFine);
    for (float x : {HUGE_VALF, -HUGE_VALF, std::nanf(""), 3e38f, -1e20f}) {
      EXPECT_EQ(Flags(Line(40, 1, x, 0.3f), terms), kPackSplitUnsafe) << x;
    }
    for (float x : {1e-16f, -1e-30f, 1e-40f}) {
      EXPECT_EQ(Flags(std::vector<float>(40, x), terms), kPackSplitUnsafe) << x;
      EXPECT_EQ(Flags(Line(40, 20, x, 0.3f), terms), kPackFine) << x;
    }
    for (float x : {1e-14f, -1e16f}) EXPECT_EQ(Flags(std::vector<float>(40, x), terms), kPackFine) << x;
  }
}

TEST(SplitFlags, FewNumbersThatCount) {
  EXPECT_EQ(Flags({0.3f}), kPackSplitUnsafe);
  EXPECT_EQ(Flags({0.5f}), kPackFine) << "is a bf16: nothing is left out";
  EXPECT_EQ(Flags({0.3f, 0.7f}), kPackFine);
  for (float rest : {0.0f, 1e-9f}) {
    EXPECT_EQ(Flags(Line(1024, 1, 0.3f, rest)), kPackSplitUnsafe);
    EXPECT_EQ(Flags(Line(1024, 1, 1.0f, rest)), kPackSplitFew);
    EXPECT_EQ(Flags(Line(1024, 2, 0.3f, rest)), kPackSplitUnsafe) << "one for each K block";
    EXPECT_EQ(Flags(Line(1024, 3, 0.3f, rest)), kPackSplitFew);
    EXPECT_EQ(Flags(Line(1024, 64, 0.3f, rest)), kPackSplitFew);
    EXPECT_EQ(Flags(Line(1024, 65, 0.3f, rest)), kPackFine);
    EXPECT_EQ(Flags(Line(1024, 1, 0.3f, rest), 2), kPackFine) << "two terms promise less";
  }
  EXPECT_EQ(Flags(Line(1024, 1, 300.0f, 0.3f)), kPackFine) << "an outlier beside which others count";
}

// The flags and kinds of numbers below, as the packers see them: [lines][k].
std::vector<float> Numbers(const Side& side, size_t lines, size_t k) {
  std::mt19937 rng(7);
  std::vector<float> x;
  for (size_t line = 0; line < lines; ++line) {
    for (size_t i = 0; i < k; ++i) x.push_back(side.Draw(rng, line, i, k));
  }
  return x;
}

uint32_t Expected(const std::vector<float>& x, size_t k, size_t terms) {
  uint32_t flags = kPackFine;
  for (size_t at = 0; at < x.size(); at += k) {
    flags |= SplitFlags(terms, k, [&](size_t i) { return x[at + i]; });
  }
  return flags;
}

// Flags of a block; few numbers do not matter where it is unsafe anyway.
uint32_t Told(uint32_t flags) { return flags & kPackSplitUnsafe ? uint32_t{kPackSplitUnsafe} : flags; }

TEST(SplitFlags, PackersOfRowsTellThem) {
  size_t checked = 0;
  for (const LhsLayout& layout : {kBf16Terms2Panels, kBf16Terms3Panels}) {
    const size_t terms = FormatTerms(layout.element);
    for (const NumberKind& kind : kNumberKinds) {
      for (size_t segments : {size_t{1}, size_t{3}}) {
        const size_t m = 21, k = 1023;
        const std::vector<float> x = Numbers(kind.lhs, m, k);
        const uint32_t want = Told(Expected(x, k, terms));
        const ptrdiff_t tap = static_cast<ptrdiff_t>(k / segments * 4);
        const Tap taps[] = {{0, 0}, {tap, 0}, {2 * tap, 0}};
        const LhsSource s{.format = Format::kF32,
                          .form = segments > 1 ? kLhsTaps : kLhsRows,
                          .data = x.data(),
                          .row_stride = static_cast<ptrdiff_t>(k * 4),
                          .taps = taps};
        const LhsShape shape{.m = m, .k = k / segments, .segments = segments};
        const LhsGeometry g = DescribeLhs(layout, shape);
        GuardedBuffer packed(g.total_bytes);
        EXPECT_EQ(Told(PackLhs(layout, shape, s, 0, g.panels, packed.data())), want) << kind.name;
        const LhsPackKernel* fast = FindLhsPackKernel(layout, s, HostCpu().facts(), Lookup::kRun);
        if (!fast) continue;
        EXPECT_EQ(Told(fast->run(layout, shape, s, 0, g.panels, packed.data())), want) << kind.name;
        ++checked;
      }
    }
  }
  if (checked == 0) GTEST_SKIP() << "no fast packer of terms for this CPU";
}

TEST(SplitFlags, TransformsOfColumnsTellThem) {
  const size_t k = 1023, units = 2, unit = 16;
  size_t checked = 0;
  for (const auto* list : AllTransformKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const TransformKernel& row = list->rows[i];
      const size_t terms = FormatTerms(row.to.element);
      if (terms == 1 || !row.run || HostCpu().facts().features.FirstMissing(row.isa.needs) != CpuFeature::kCount) {
        continue;
      }
      for (const NumberKind& kind : kNumberKinds) {
        const std::vector<float> x = Numbers(kind.rhs, units * unit, k);
        GuardedBuffer source(units * unit * k * 4);
        for (size_t n = 0; n < units * unit; ++n) {
          for (size_t j = 0; j < k; ++j) {
            StoreAs(source.data() + ((n / unit * k + j) * unit + n % unit) * 4, x[n * k + j]);
          }
        }
        const size_t unit_bytes = RoundUp(k, 32) * unit * 2 * terms;
        GuardedBuffer panel(units * unit_bytes);
        TransformArgs a;
        a.src = source.data();
        a.src_unit_stride = k * unit * 4;
        a.dst = panel.data();
        a.dst_unit_stride = unit_bytes;
        a.k = k;
        a.units = units;
        a.n_unit = unit;
        EXPECT_EQ(Told(row.run(a)), Told(Expected(x, k, terms))) << list->stem << ": " << kind.name;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 0u);
}

// What networks compute with does not leave the fast way.
TEST(SplitFlags, OrdinaryNumbersAreSafe) {
  for (const NumberKind& kind : kNumberKinds) {
    if (!kind.ordinary) continue;
    for (size_t k : {size_t{32}, size_t{100}, size_t{512}, size_t{1024}, size_t{4096}}) {
      if (kind.lhs.every * 8 > k) continue;
      const uint32_t lhs = Expected(Numbers(kind.lhs, 32, k), k, 3), rhs = Expected(Numbers(kind.rhs, 32, k), k, 3);
      EXPECT_FALSE(((lhs | rhs) & kPackSplitUnsafe) || (lhs & rhs & kPackSplitFew)) << kind.name << " k=" << k;
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
