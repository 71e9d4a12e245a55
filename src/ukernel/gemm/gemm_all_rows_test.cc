// Every GEMM row of this build, native and emulated, against float64: tails, strides, K blocks, left-side forms, fused
// epilogues. A new kernel file is tested without a change here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <limits>
#include <set>

#include "base/cpu.h"
#include "ukernel/row_runner.h"
#include "ukernel/test_depth.h"

namespace quern::ukernel {
namespace {

const CpuFacts& Host() {
  static const CpuFacts facts = HostCpu().facts();
  return facts;
}

std::vector<const GemmKernel*> Rows(bool runnable) {
  std::vector<const GemmKernel*> rows;
  for (auto lists : {AllGemmKernels(), EmulatedGemmKernels()}) {
    for (const auto* list : lists) {
      for (size_t i = 0; i < list->count; ++i) {
        if (RowRunner::WhyNot(list->rows[i], Host()).empty() == runnable) rows.push_back(&list->rows[i]);
      }
    }
  }
  return rows;
}

size_t LayoutCount(const GemmKernel& row) {
  size_t count = 0;
  while (count < kMaxLayouts && row.layouts[count].element != Format::kNone) ++count;
  return count;
}

// Emulated instructions are slow, and layouts differ in what is loaded beside the elements: those after the first are
// tested with fewer shapes, but for --full.
bool IsThinned(const GemmKernel& row, size_t layout) {
  return row.isa.emulated && layout > 0 && Depth() != TestDepth::kFull;
}

bool IsExact(const GemmKernel& row) { return row.dst == Format::kI32; }

class AllRows : public testing::TestWithParam<const GemmKernel*> {
 protected:
  const GemmKernel& row() const { return *GetParam(); }

  void SetUp() override {
    for (size_t i = 0; i < LayoutCount(row()); ++i) {
      const PackLayout& l = row().layouts[i];
      if (SameElements(l, row().consumed)) continue;
      const TransformKernel* t = FindTransformKernel(l, row().consumed, Host(), Lookup::kRun);
      ASSERT_NE(t, nullptr) << Name(row()).text << ": no block transform for its layout " << i;
    }
  }

  static constexpr size_t kKBlockSteps = 2;  // of the K blocks that tails are tested with

  size_t m_tile() const { return TileM(row(), Host()); }
  size_t n_tile() const { return TileN(row(), Host()); }

  std::vector<size_t> Ks(size_t layout) const {
    const size_t kr = row().kr, d = row().k_divisor;
    if (IsThinned(row(), layout)) return {RoundUp(4 * kr + 3, d)};
    // Up to a step and one more, and one beyond one and two of the K blocks of TilesAndTails, which have two steps.
    std::vector<size_t> ks = {2 * kr - 1, kKBlockSteps * kr + 1, 4 * kr, 2 * kKBlockSteps * kr + 1, 97};
    const bool all = Depth() == TestDepth::kFull || (Depth() == TestDepth::kUsual && layout == 0);
    for (size_t k = 0; k <= kr + 1; ++k) {
      if (all || k <= 3 || k == kr / 2 || k + 1 >= kr) ks.push_back(k);
    }
    std::set<size_t> set;
    for (const size_t k : ks) set.insert(RoundUp(k, d));
    return {set.begin(), set.end()};
  }

  // Runs a problem and compares; `in_k_blocks_too`: also by calls of kKBlockSteps, streaming into L1.
  void Check(const RowProblem& p, bool in_k_blocks_too = false) {
    RowRunner runner(row(), Host(), p);
    if (!runner.Accepts()) return;
    runner.Prepare();
    std::vector<double> magnitude;
    const std::vector<double> want = runner.Reference(&magnitude);
    runner.Compute();
    Compare(p, runner, want, magnitude);
    if (!in_k_blocks_too || HasFatalFailure()) return;
    runner.CallBy(kKBlockSteps * row().kr, true);
    runner.Compute();
    Compare(p, runner, want, magnitude);
  }

  // Small integers: exactly; else within the row's precision.
  void Compare(const RowProblem& p, const RowRunner& runner, const std::vector<double>& want,
               const std::vector<double>& magnitude) {
    ++checked_;
    double error = 0, norm = 0;
    for (size_t m = 0; m < p.m; ++m) {
      for (size_t n = 0; n < p.n; ++n) {
        const double x = runner.Result(m, n), y = want[m * p.n + n];
        if (IsExact(row())) {
          ASSERT_EQ(x, y) << runner.Describe() << " at " << m << "," << n;
        } else if (p.fill == Fill::kSmallIntegers) {
          // Sums below 2^24 of integers are exact in float32 in any order.
          const double slack = magnitude[m * p.n + n] < 16777216.0 ? 0.0 : magnitude[m * p.n + n] * 1e-6;
          ASSERT_NEAR(x, y, slack) << runner.Describe() << " at " << m << "," << n;
        }
        error += (x - y) * (x - y);
        // A few elements may cancel: at least what a sum of that many terms of random sign comes to.
        const double terms = static_cast<double>(std::max<size_t>(1, p.k * p.taps));
        norm += std::max(y * y, magnitude[m * p.n + n] * magnitude[m * p.n + n] / terms);
      }
    }
    ASSERT_TRUE(runner.GapsUntouched()) << runner.Describe();
    double allowed = 1e-6;
    if (row().precision == Precision::kFp64) allowed = 2e-15;
    if (row().precision == Precision::kFp32Fast) allowed = 1e-5;
    if (row().precision == Precision::kFp16) allowed = 3e-3;
    if (row().precision == Precision::kBf16) allowed = 5e-3;
    ASSERT_LE(std::sqrt(error), allowed * std::sqrt(norm)) << runner.Describe();
  }

  size_t checked_ = 0;
};

TEST_P(AllRows, TilesAndTails) {
  const size_t mr = m_tile(), nr = n_tile();
  const bool full = Depth() == TestDepth::kFull, brief = Depth() == TestDepth::kBrief;
  for (size_t layout = 0; layout < LayoutCount(row()); ++layout) {
    std::set<size_t> ms = {1, mr > 1 ? mr - 1 : 1, mr, mr + 1}, ns = {1, nr > 1 ? nr - 1 : 1, nr, nr + 1, 2 * nr};
    if (layout > 0 && !full) {  // the same tiles with other scales and offsets
      ms = {1, mr + 1};
      ns = {nr - 1, nr + 1};
    }
    for (size_t k : Ks(layout)) {
      for (size_t m : ms) {
        for (size_t n : ns) {
          if (layout > 0 && brief && (m == 1) != (n == nr + 1)) continue;
          Check({.m = m,
                 .n = n,
                 .k = k,
                 .block = row().block_divisor > 32u ? row().block_divisor : 32u,
                 .form = kLhsRows,
                 .layout = layout},
                true);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(checked_, 0u);
}

TEST_P(AllRows, EveryTileOfARow) {
  for (size_t m = 1; m <= std::min<size_t>(m_tile(), 16); ++m) {
    const size_t step = Depth() == TestDepth::kBrief ? 5 : 1;
    for (size_t n = 1; n <= std::min<size_t>(n_tile(), 64); n += n < 20 ? step : 7) {
      Check({.m = m,
             .n = n,
             .k = RoundUp(37, row().k_divisor),
             .fill = Fill::kNormal,
             .stream_into_l1 = (m + n) % 2 == 0,
             .seed = 5});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(AllRows, ZeroSizes) {
  Check({.m = 0, .n = n_tile(), .k = row().k_divisor});
  Check({.m = m_tile(), .n = 0, .k = row().k_divisor});
  Check({.m = m_tile(), .n = n_tile(), .k = 0});
}

TEST_P(AllRows, Taps) {
  for (size_t taps : {1u, 2u, 9u}) {
    for (size_t k : {size_t{1}, size_t{3}, size_t{row().kr}, size_t{row().kr} + 1}) {
      for (size_t m : {size_t{1}, m_tile(), m_tile() + 1}) {
        for (LhsForm form : {kLhsTaps, kLhsRowPointers}) {
          Check({.m = m, .n = n_tile() + 3, .k = RoundUp(k, row().k_divisor), .taps = taps, .form = form});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Tiles of rows in one call, and one that is left.
TEST_P(AllRows, ManyTiles) {
  if (!row().many_tiles) return;
  const size_t mr = m_tile(), nr = n_tile();
  for (size_t m : {2 * mr, 3 * mr + 1}) {
    for (size_t n : {size_t{1}, nr / 2, nr / 2 + 1, nr, 2 * nr + 3}) {
      for (size_t k : {0, 1, 2, 3, 4, 7, 16, 37}) Check({.m = m, .n = n, .k = k, .many_tiles = true});
      for (size_t taps : {1, 2, 9}) {
        for (size_t k : {1, 3, 4, 9}) {
          Check({.m = m, .n = n, .k = k, .taps = taps, .form = kLhsTaps, .many_tiles = true});
        }
      }
      Check({.m = m, .n = n, .k = 301, .many_tiles = true, .fill = Fill::kNormal, .seed = 8});
      if (HasFatalFailure()) return;
    }
  }
}

// K of several pieces of what a tile stages, in one call, and taps of which not all are staged together.
TEST_P(AllRows, LongRows) {
  if (!IsExact(row())) return;
  for (size_t m : {size_t{1}, size_t{2}, m_tile()}) {
    for (const bool into_l1 : {false, true}) {
      const size_t k = RoundUp(2115, row().k_divisor);
      Check({.m = m, .n = n_tile() + 3, .k = k, .stream_into_l1 = into_l1});
      Check({.m = m, .n = n_tile() + 3, .k = k, .k_block = 1088, .stream_into_l1 = into_l1});
    }
    for (LhsForm form : {kLhsTaps, kLhsRowPointers}) {
      Check({.m = m, .n = n_tile() + 3, .k = RoundUp(150, row().k_divisor), .taps = 9, .form = form});
      Check({.m = m, .n = n_tile() + 3, .k = RoundUp(1030, row().k_divisor), .taps = 3, .form = form});
    }
    if (HasFatalFailure()) return;
  }
}

TEST_P(AllRows, RandomWithinPrecision) {
  for (size_t layout = 0; layout < LayoutCount(row()); ++layout) {
    // Later layouts: the same tiles with other scales and offsets.
    const bool thin = Depth() == TestDepth::kBrief || (layout > 0 && Depth() != TestDepth::kFull);
    const size_t k = RoundUp(thin ? 384 : 1024, row().k_divisor);
    for (size_t block : {32u, 16u, 64u, 96u, 128u, 512u, 768u}) {
      if (thin && block != 16 && block != 96) continue;
      for (size_t k_block : {size_t{0}, size_t{256}}) {
        if (thin && k_block == 0) continue;
        Check({.m = m_tile() + 1,
               .n = n_tile() + 1,
               .k = k,
               .block = block,
               .k_block = k_block,
               .layout = layout,
               .fill = Fill::kNormal,
               .seed = 9});
        if (HasFatalFailure()) return;
      }
      if (row().layouts[layout].scale == Format::kNone) break;
    }
  }
}

// The same numbers, whatever the unit.
bool SameFormats(const PackLayout& a, const PackLayout& b) {
  return a.element == b.element && a.scale == b.scale && a.offset == b.offset && a.channel_scales == b.channel_scales;
}

// Rows that sum integers give the same bits whatever the ISA and the tiles, in float32 results too: as the portable row
// of the same formats does.
TEST_P(AllRows, IntegerProductsAreTheSameEverywhere) {
  if (row().lhs != Format::kI8 && row().lhs != Format::kU8 && !IsDynamic(row().lhs)) return;
  const GemmKernel* portable = nullptr;
  for (const GemmKernel* other : Rows(true)) {
    // Weights of 4 bits per channel have a portable row that reads them as int8.
    const bool same = other->rhs == row().rhs || (row().rhs == Format::kI4 && other->rhs == Format::kI8);
    if (other->isa.any_arch && other->lhs == row().lhs && same && other->dst == row().dst) {
      portable = other;
    }
  }
  ASSERT_NE(portable, nullptr);
  size_t compared = 0;
  for (size_t layout = 0; layout < LayoutCount(row()); ++layout) {
    const std::span<const PackLayout> others(portable->layouts, LayoutCount(*portable));
    const auto same = std::find_if(others.begin(), others.end(),
                                   [&](const PackLayout& l) { return SameFormats(l, row().layouts[layout]); });
    if (same == others.end()) continue;
    ++compared;
    RowProblem p{.m = 13, .n = 70, .k = 480, .block = 96, .layout = layout, .fill = Fill::kNormal, .seed = 21};
    RowRunner here(row(), Host(), p);
    ASSERT_TRUE(here.Accepts());
    p.layout = static_cast<size_t>(same - others.begin());
    p.k_block = 192;  // K blocks must not matter either
    RowRunner there(*portable, Host(), p);
    here.Prepare();
    there.Prepare();
    here.Compute();
    there.Compute();
    for (size_t m = 0; m < p.m; ++m) {
      const size_t at = m * here.dst_stride();
      ASSERT_EQ(std::memcmp(here.dst() + at, there.dst() + at, p.n * 4), 0) << here.Describe() << " row " << m;
    }
  }
  EXPECT_GT(compared, 0u);
}

// The emulation computes what the processor does.
TEST_P(AllRows, EmulatedIsNative) {
  if (!row().isa.emulated) return;
  std::string name = Name(row()).text;
  name.resize(name.rfind("_emulated"));
  for (const GemmKernel* native : Rows(true)) {
    if (Name(*native).text != name) continue;
    for (size_t k : {64u, 250u}) {
      const RowProblem p{.m = 45, .n = 37, .k = k, .k_block = 96, .fill = Fill::kNormal, .seed = 31};
      RowRunner here(row(), Host(), p), there(*native, Host(), p);
      here.Prepare();
      there.Prepare();
      here.Compute();
      there.Compute();
      for (size_t m = 0; m < p.m; ++m) {
        const size_t at = m * here.dst_stride();
        ASSERT_EQ(std::memcmp(here.dst() + at, there.dst() + at, p.n * 4), 0) << here.Describe() << " row " << m;
      }
    }
    return;
  }
  GTEST_SKIP() << "this host has no " << row().isa.name;
}

TEST_P(AllRows, RightSideInPlace) {
  if (!row().rhs_in_place) return;
  for (size_t n : {size_t{1}, n_tile() - 1, n_tile(), n_tile() + 5}) {
    for (size_t k : {1u, 7u, 64u}) {
      Check({.m = m_tile(), .n = n, .k = k, .rhs_in_place = true});
      Check({.m = 1, .n = n, .k = k, .rhs_in_place = true});
      Check({.m = 2 * m_tile() + 1, .n = n, .k = k, .k_block = 24, .rhs_in_place = true});
    }
  }
  EXPECT_GT(checked_, 0u);
}

TEST_P(AllRows, SpecialValues) {
  const Format lhs = LhsSourceFormat(row());
  const bool wide = lhs == Format::kF64;
  if ((!IsFloatFormat(lhs) && !wide) || IsDynamic(row().lhs)) return;
  if (IsSplit(row().lhs)) return;  // what cannot be split is computed by another row
  RowRunner runner(row(), Host(), {.m = m_tile(), .n = n_tile(), .k = 5, .special = true});
  runner.Prepare();
  runner.Compute();
  const double infinity = std::numeric_limits<double>::infinity();
  // The dot products of bf16 count denormals as zero.
  const std::string isa = row().isa.name;
  const bool flushed = lhs == Format::kBf16 && (isa.find("bf16") != isa.npos || isa.starts_with("sme"));
  const double rounding = wide ? 1e-15 : row().precision == Precision::kFp16 ? 2e-3 : 4e-4;
  const double largest =
      wide ? std::numeric_limits<double>::max() : static_cast<double>(std::numeric_limits<float>::max());
  for (size_t n = 0; n < n_tile(); ++n) {
    const double w = runner.RhsValue(0, 2, n);
    const double x = runner.Result(0, n);
    if (w == 0) {
      EXPECT_TRUE(std::isnan(x)) << n;
    } else {
      EXPECT_EQ(x, w > 0 ? infinity : -infinity) << n;
    }
    if (m_tile() > 1) {
      EXPECT_TRUE(std::isnan(runner.Result(1, n))) << n;
    }
    if (m_tile() > 2) {
      double sum = 0;
      for (size_t k = 0; k < 5; ++k) sum += runner.RhsValue(0, k, n) * runner.LhsValue(2, 0, k);
      EXPECT_EQ(runner.Result(2, n), flushed ? 0 : sum) << "denormals, column " << n;
    }
    if (m_tile() > 3) {
      double sum = 0;
      for (size_t k = 0; k < 5; ++k) sum += runner.RhsValue(0, k, n) * runner.LhsValue(3, 0, k);
      if (std::fabs(sum) > largest) {
        EXPECT_EQ(runner.Result(3, n), sum > 0 ? infinity : -infinity) << "beyond the largest, column " << n;
      } else {
        EXPECT_NEAR(runner.Result(3, n), sum, rounding * std::fabs(sum)) << "near the largest, column " << n;
      }
    }
  }
}

// The list of operations is run by the kernel and, on the accumulators that the kernel gives without it, by
// ApplyEpilogue; the bits must agree.
void CheckOps(const GemmKernel& row, const std::vector<EpilogueOp>& ops, size_t m, size_t n, const char* what) {
  ASSERT_EQ(FusedPrefix(row.fused, ops.data(), ops.size()), ops.size()) << what;
  RowProblem p{.m = m, .n = n, .k = RoundUp(9, row.k_divisor), .fill = Fill::kNormal, .seed = 3};
  RowRunner plain(row, Host(), p);
  p.many_tiles = true;
  RowRunner fused(row, Host(), p);
  if (!plain.Accepts()) return;
  plain.Prepare();
  plain.Compute();
  fused.Prepare();
  fused.Compute(ops);
  const Format out = EpilogueFormat(row.dst, ops.data(), ops.size());
  const size_t bytes = FormatBytes(out);
  std::vector<char> want(m * n * bytes);
  ApplyEpilogue(ops.data(), ops.size(),
                {.m = m,
                 .n = n,
                 .src = plain.dst(),
                 .src_row_stride = plain.dst_stride(),
                 .src_format = row.dst,
                 .dst = want.data(),
                 .dst_row_stride = n * bytes});
  // The tiles of narrow outputs lie where those of 4 bytes would: compare the first tile only.
  const size_t columns = bytes == 4 ? n : std::min(n, TileN(row, Host()));
  for (size_t r = 0; r < m; ++r) {
    ASSERT_EQ(std::memcmp(fused.dst() + r * fused.dst_stride(), want.data() + r * n * bytes, columns * bytes), 0)
        << Name(row).text << " " << what << " row " << r << " m=" << m << " n=" << n;
  }
}

TEST_P(AllRows, FusedEpilogue) {
  if (row().fused == 0) return;
  const size_t ms[] = {1, m_tile(), (row().many_tiles ? 2 : 1) * m_tile() + 1};
  const size_t ns[] = {1, n_tile() > 1 ? n_tile() - 1 : 1, n_tile(), n_tile() + 3};
  for (size_t m : ms) {
    for (size_t n : ns) {
      std::mt19937 rng(11);
      const bool integer = row().dst == Format::kI32;
      auto vector = [&](size_t count, bool ints) {
        auto buffer = std::make_unique<GuardedBuffer>(count * 4);
        for (size_t i = 0; i < count; ++i) {
          const int x = static_cast<int>(rng() % 200) - 100;
          if (ints) {
            StoreAs<int32_t>(buffer->data() + i * 4, x * 7);
          } else {
            StoreAs<float>(buffer->data() + i * 4, static_cast<float>(x) * 0.03125f + 0.01f);
          }
        }
        return buffer;
      };
      const auto over_n = vector(n, false), over_m = vector(m, false), matrix = vector(m * n, false);
      const auto int_n = vector(n, true), int_m = vector(m, true);
      auto make = [&](EpilogueKind kind, bool ints) {
        EpilogueOp op;
        op.kind = kind;
        op.a = -0.75f;
        op.b = 1.5f;
        op.integer = 3;
        op.row_stride = n * 4;
        switch (kind) {
          case EpilogueKind::kAddVectorM:
          case EpilogueKind::kMulVectorM:
          case EpilogueKind::kDivVectorM:
            op.data = (ints ? int_m : over_m)->data();
            break;
          case EpilogueKind::kAddMatrix:
          case EpilogueKind::kMulMatrix:
            op.data = matrix->data();
            break;
          case EpilogueKind::kAddOuter:
            op.data = (ints ? int_m : over_m)->data();
            op.data2 = (ints ? int_n : over_n)->data();
            break;
          case EpilogueKind::kAddOuterScalar:
            op.data2 = (ints ? int_n : over_n)->data();
            break;
          default:
            op.data = (ints ? int_n : over_n)->data();
        }
        if (kind == EpilogueKind::kRequantize) {
          op.data = over_n->data();
          op.format = Format::kI8;
          op.a = op.b = 0;
        }
        if (kind == EpilogueKind::kConvert) op.format = Format::kF16;
        return op;
      };
      std::vector<EpilogueOp> chain;
      for (unsigned i = 0; i < static_cast<unsigned>(EpilogueKind::kCount); ++i) {
        const EpilogueKind kind = static_cast<EpilogueKind>(i);
        if (!(row().fused & EpilogueBit(kind))) continue;
        if (IsReduction(kind)) continue;  // below
        const EpilogueOp op = make(kind, integer && IsIntegerOp(kind));
        const std::string what = "op kind " + std::to_string(i);
        CheckOps(row(), {op}, m, n, what.c_str());
        if (HasFatalFailure()) return;
        const bool stays = !integer || IsIntegerOp(kind);
        if (stays && kind != EpilogueKind::kConvert && kind != EpilogueKind::kRequantize && chain.size() < 4) {
          chain.push_back(op);
        }
      }
      if (integer && (row().fused & EpilogueBit(EpilogueKind::kRequantize))) {
        chain.push_back(make(EpilogueKind::kRequantize, false));
        CheckOps(row(), chain, m, n, "chain ending in requantize");
        chain.back().format = Format::kU8;
        chain.back().data = nullptr;
        chain.back().scale = 0.007f;
        chain.back().a = 5;
        chain.back().b = 77;
      }
      CheckOps(row(), chain, m, n, "chain");
      if (row().fused & EpilogueBit(EpilogueKind::kClamp)) {
        EpilogueOp relu = make(EpilogueKind::kClamp, integer);
        relu.a = 0;
        relu.b = std::numeric_limits<float>::infinity();
        CheckOps(row(), {relu}, m, n, "relu");
      }
      if (HasFatalFailure()) return;
    }
  }
}

// Sums of bytes that end in bytes: what columns add, bounds, and scales whose products leave the range of int32.
TEST_P(AllRows, BytesFromBytes) {
  if (row().dst != Format::kI32 || !(row().fused & EpilogueBit(EpilogueKind::kRequantize))) return;
  const float infinity = std::numeric_limits<float>::infinity();
  const float kinds[] = {0.01f, -0.002f, 1e30f, 0.0007f, -3e38f, std::nanf(""), 0.0f, infinity, 0.5f};
  for (size_t m = 1; m <= m_tile(); m = m < 4 || m == m_tile() ? m + 1 : m_tile()) {
    for (size_t n : {size_t{5}, size_t{8}, size_t{16}, size_t{27}, size_t{40}}) {
      GuardedBuffer scales(n * 4), added(n * 4), times(n * 4);
      for (size_t i = 0; i < n; ++i) {
        StoreAs<float>(scales.data() + i * 4, kinds[i % 9]);
        StoreAs<int32_t>(added.data() + i * 4, static_cast<int32_t>(i * 7919 % 20000) - 10000);
        StoreAs<int32_t>(times.data() + i * 4, static_cast<int32_t>(i * 331 % 700) - 350);
      }
      const EpilogueOp add{.kind = EpilogueKind::kAddVectorN, .data = added.data()};
      const EpilogueOp outer{.kind = EpilogueKind::kAddOuterScalar, .data2 = times.data(), .integer = -77};
      for (int form = 0; form < 16; ++form) {
        EpilogueOp bytes{.kind = EpilogueKind::kRequantize,
                         .format = form & 1 ? Format::kI8 : Format::kU8,
                         .data = form & 2 ? scales.data() : nullptr,
                         .a = form & 4 ? -20.0f : 0.0f,
                         .b = form & 4 ? 99.0f : 0.0f,
                         .scale = 0.003f,
                         .integer = form & 1 ? -11 : 140};
        std::vector<EpilogueOp> ops;
        if (form & 8) ops = {outer, add};
        if (form == 8 + 4) ops = {add};
        if (form == 8 + 2) ops = {add, outer, add};
        ops.push_back(bytes);
        CheckOps(row(), ops, m, n, ("form " + std::to_string(form)).c_str());
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(AllRows, FusedReductions) {
  const bool min_max = row().fused & EpilogueBit(EpilogueKind::kRowMinMax);
  const bool squares = row().fused & EpilogueBit(EpilogueKind::kRowSumSquares);
  if (!min_max && !squares) return;
  const size_t m = 2 * m_tile() + 1, n = n_tile() + 3, k = RoundUp(9, row().k_divisor);
  RowRunner runner(row(), Host(), {.m = m, .n = n, .k = k, .many_tiles = true, .fill = Fill::kNormal});
  runner.Prepare();
  std::vector<float> range(2 * m, 0.0f), sums(m, 0.0f);
  std::vector<EpilogueOp> ops;
  if (min_max) ops.push_back({.kind = EpilogueKind::kRowMinMax, .out = range.data()});
  if (squares) ops.push_back({.kind = EpilogueKind::kRowSumSquares, .out = sums.data()});
  runner.Compute(ops);
  for (size_t r = 0; r < m; ++r) {
    double lo = 0, hi = 0, sum = 0;
    for (size_t c = 0; c < n; ++c) {
      const double x = runner.Result(r, c);
      lo = std::min(lo, x);
      hi = std::max(hi, x);
      sum += x * x;
    }
    if (min_max) {
      EXPECT_EQ(range[2 * r], lo) << r;
      EXPECT_EQ(range[2 * r + 1], hi) << r;
    }
    if (squares) {
      EXPECT_NEAR(sums[r], sum, 1e-5 * sum) << r;
    }
  }
}

std::string ParamName(const testing::TestParamInfo<const GemmKernel*>& info) {
  std::string s = Name(*info.param).text;
  for (char& c : s) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return s;
}

INSTANTIATE_TEST_SUITE_P(Gemm, AllRows, testing::ValuesIn(Rows(true)), ParamName);

// One line for each row that this host cannot run, with the reason.
class RowsNotRun : public testing::TestWithParam<const GemmKernel*> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RowsNotRun);
TEST_P(RowsNotRun, Reason) { GTEST_SKIP() << Name(*GetParam()).text << ": " << RowRunner::WhyNot(*GetParam(), Host()); }
INSTANTIATE_TEST_SUITE_P(Gemm, RowsNotRun, testing::ValuesIn(Rows(false)), ParamName);

TEST(GemmTable, NamesAreUniqueAndBeginWithTheirFiles) {
  std::set<std::string> names;
  for (const auto* list : AllGemmKernels()) {
    EXPECT_GT(list->count, 0u) << list->stem;
    for (size_t i = 0; i < list->count; ++i) {
      const std::string name = Name(list->rows[i]).text;
      EXPECT_TRUE(names.insert(name).second) << name << " twice";
      // gemm_<lhs>_<rhs>_<dst>_: what a file's name has before its ISA tells files of the same types apart.
      const GemmKernel& row = list->rows[i];
      const std::string stem = list->stem;
      const std::string types =
          std::string("gemm_") + FormatName(row.lhs) + "_" + FormatName(row.rhs) + "_" + FormatName(row.dst) + "_";
      EXPECT_THAT(stem, testing::StartsWith(types));
      EXPECT_THAT(name, testing::StartsWith(types));
      const std::string isa = stem.substr(stem.rfind('_'));
      EXPECT_THAT(name, testing::EndsWith(isa));
    }
  }
}

// Emulators ignore options that they do not know: a run that means to test a vector length says which, in bits, in the
// variable of the environment.
void CheckVectorLength(const char* variable, VectorScale scale, uint32_t bytes) {
  const char* bits = std::getenv(variable);
  if (!bits) GTEST_SKIP() << variable << " is not set";
  EXPECT_EQ(std::to_string(bytes * 8), bits);
  size_t rows = 0;
  for (const GemmKernel* row : Rows(true)) rows += row->nr_scale == scale;
  EXPECT_GT(rows, 0u) << "no row of scaled vectors runs";
}
TEST(Sme, StreamingVectorsAreAsLongAsExpected) {
  CheckVectorLength("QUERN_EXPECT_SVL", VectorScale::kSme, Host().sme_vector_bytes);
}
TEST(Sve, VectorsAreAsLongAsExpected) {
  CheckVectorLength("QUERN_EXPECT_SVE", VectorScale::kSve, Host().sve_vector_bytes);
}

#ifdef __aarch64__
// SVCR: bit 0 streaming mode, bit 1 ZA.
TEST(Sme, RowsLeaveStreamingModeAndZaOff) {
  if (!Host().features.Has(CpuFeature::kSme)) GTEST_SKIP() << "this host has no SME";
  size_t checked = 0;
  for (const GemmKernel* row : Rows(true)) {
    if (row->mr_scale != VectorScale::kSme) continue;
    RowRunner runner(*row, Host(), {.m = 3, .n = 5, .k = RoundUp(9, row->k_divisor)});
    runner.Prepare();
    runner.Compute();
    uint64_t svcr = ~uint64_t{0};
    asm volatile("mrs %0, S3_3_C4_C2_2" : "=r"(svcr));
    EXPECT_EQ(svcr, 0u) << Name(*row).text;
    ++checked;
  }
  EXPECT_GT(checked, 0u);
}
#endif

TEST(GemmTable, HasBodiesForThisArchitecture) {
  size_t bodies = 0;
  for (const auto* list : AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      if (row.isa.any_arch) {
        EXPECT_NE(row.run, nullptr) << Name(row).text;
      }
      if (!row.isa.any_arch && row.isa.arch != HostArch()) {
        EXPECT_EQ(row.run, nullptr) << Name(row).text;
      }
      bodies += row.run != nullptr;
    }
  }
  EXPECT_GT(bodies, 0u);
}

TEST(GemmTable, DescriptorsAreSound) {
  for (const auto* list : AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      SCOPED_TRACE(Name(row).text);
      EXPECT_NE(row.consumed.element, Format::kNone);
      EXPECT_NE(row.layouts[0].element, Format::kNone);
      EXPECT_NE(row.lhs_forms, 0);
      EXPECT_TRUE(row.dst == Format::kF32 || row.dst == Format::kI32 || row.dst == Format::kF64);
      EXPECT_GT(row.cost.step_row, 0);
      if (row.consumed.n_scale == VectorScale::kFixed) {
        EXPECT_EQ(row.nr % row.consumed.n_unit, 0);
      }
      if (LhsSourceFormat(row) != row.lhs) {
        EXPECT_NE(row.lhs_layout.element, Format::kNone);
      }
      EXPECT_EQ((row.lhs_forms & kLhsPacked) != 0 && row.lhs_layout.element == Format::kNone, false);
      EXPECT_EQ(row.enter_mode == nullptr, row.leave_mode == nullptr);
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
