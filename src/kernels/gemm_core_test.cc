// The loops of products, with blocking made small: block transforms once per panel and K block, blocks of prepared
// rows, modes, reductions over rows. The oracle of the numbers is in matmul_test.
#include "kernels/gemm_core.h"
#include "base/random_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <random>

#include "base/cpu.h"
#include "kernels/matmul.h"
#include "kernels/packed_rhs.h"
#include "kernels/row_table.h"
#include "parallel/hostile_executor.h"
#include "parallel/thread_pool.h"
#include "ukernel/convert.h"
#include "ukernel/test_depth.h"

namespace quern::kernels {
namespace {

using ukernel::CeilDiv;
using ukernel::EpilogueKind;
using ukernel::GuardedBuffer;

// A CPU like this host but for caches so small that little products have several blocks of K and N.
CpuFacts SmallCaches() {
  CpuFacts cpu = HostCpu().facts();
  cpu.l1d_bytes = 1 << 10;
  cpu.l2_bytes = 32 << 10;
  return cpu;
}

// A product by any row, from random operands of its formats.
class Product {
 public:
  Product(const GemmKernel& row, size_t layout, size_t m, size_t n, size_t k, const CpuFacts& cpu = SmallCaches())
      : row_(row), cpu_(cpu), m_(m) {
    choice_.layout = row.layouts[layout];
    choice_.vector_bytes = ukernel::RowVectorBytes(row, cpu);
    const PackLayout& l = choice_.layout;
    const bool blocks = l.scale != Format::kNone;
    problem_ = {.lhs = IsDynamic(row.lhs) ? row.lhs : ukernel::LhsSourceFormat(row),
                .rhs = l.element == Format::kU4 && !blocks ? Format::kI4
                       : blocks && row.rhs == Format::kI8  ? Format::kQ8_0
                                                           : row.rhs,
                .n = n,
                .k = k,
                .block = blocks ? size_t{32} : size_t{0},
                .scale = l.scale,
                .zero_point = l.offset == Format::kNone ? Format::kNone : Format::kU8,
                .channel_scales = l.channel_scales,
                .precision = row.precision};
    std::mt19937 rng(3);
    lhs_.resize(m * k * lhs_element());
    Fill(rng, ukernel::LhsSourceFormat(row), lhs_.data(), m * k);
    MakeRhs(rng, n, k, blocks);
  }

  // Results are column-major from now on; Run returns them as before.
  void StoreColumns() { column_major_ = true; }
  // Runs take the columns from the last ones on.
  void TurnRound() { backwards_ = true; }
  // Each run is followed by the same product from now on.
  void Repeats() { repeats_ = true; }

  float& LhsAt(size_t m, size_t k) { return reinterpret_cast<float*>(lhs_.data())[m * problem_.k + k]; }

  GemmPlan Plan(const std::vector<EpilogueOp>& ops, int concurrency, size_t prepared_bytes = kPreparedBytes) const {
    const GemmKernel* fallback = nullptr;
    if (ComputesOnTerms(row_)) {
      SelectOptions all;
      all.cpu = cpu_;
      all.rows = TestRows();
      fallback = SelectSplitFallback(EligibleRows(problem_, all, choice_), problem_, cpu_, choice_.layout, m_);
    }
    return PlanGemm(problem_, cpu_, choice_, row_, fallback,
                    {.m = m_,
                     .column_major = column_major_,
                     .ops = ops.data(),
                     .op_count = ops.size(),
                     .prepared_bytes = prepared_bytes},
                    concurrency);
  }

  // The result's bytes, [m][n] of accumulators.
  std::vector<char> Run(const GemmPlan& plan, const std::vector<EpilogueOp>& ops, Executor* executor,
                        DriverCounters* counters = nullptr) const {
    const size_t element = plan.acc_bytes(), dst_row = problem_.n * element;
    std::vector<char> dst(m_ * dst_row);
    GuardedBuffer workspace(plan.workspace_bytes);
    std::memset(workspace.data(), 0x55, plan.workspace_bytes);
    const GemmOperands operands{.lhs = lhs_.data(),
                                .lhs_row_stride = static_cast<ptrdiff_t>(problem_.k * lhs_element()),
                                .rhs = packed_.data(),
                                .next_rhs = repeats_ ? packed_.data() : nullptr,
                                .dst = dst.data(),
                                .dst_row_stride = column_major_ ? element : dst_row,
                                .dst_column_stride = column_major_ ? m_ * element : 0,
                                .ops = ops.data(),
                                .op_count = ops.size(),
                                .backwards = backwards_};
    const Status status = RunGemm(plan, operands,
                                  {.executor = executor,
                                   .workspace = workspace.data(),
                                   .workspace_bytes = plan.workspace_bytes,
                                   .counters = counters});
    EXPECT_TRUE(status.ok()) << status.message();
    if (!column_major_) return dst;
    std::vector<char> rows(dst.size());
    for (size_t i = 0; i < m_ * problem_.n; ++i) {
      std::memcpy(&rows[i * element], &dst[(i % problem_.n * m_ + i / problem_.n) * element], element);
    }
    return rows;
  }

 private:
  size_t lhs_element() const { return FormatBytes(ukernel::LhsSourceFormat(row_)); }

  static void Fill(std::mt19937& rng, Format f, char* to, size_t count) {
    NormalNumbers<float> normal;
    for (size_t i = 0; i < count; ++i) {
      if (IsInt8(f)) {
        to[i] = static_cast<char>(rng());
      } else {
        ukernel::StoreNumber(f, to + i * FormatBytes(f), double{normal(rng)});
      }
    }
  }

  void MakeRhs(std::mt19937& rng, size_t n, size_t k, bool blocks) {
    ukernel::RhsSource s;
    std::vector<char> data, scales, zeros;
    std::vector<float> channels(n, 0.01f);
    if (problem_.rhs == Format::kQ8_0) {
      const size_t count = CeilDiv(k, ukernel::kGgufBlock), bytes = 2 + ukernel::kGgufBlock;
      data.resize(n * count * bytes);
      for (char& c : data) c = static_cast<char>(rng());
      for (size_t i = 0; i < n * count; ++i) ukernel::StoreFloat(Format::kF16, data.data() + i * bytes, 0.01f);
      s.format = problem_.rhs;
      s.data = data.data();
      s.block_stride = static_cast<ptrdiff_t>(bytes);
      s.n_stride = static_cast<ptrdiff_t>(count * bytes);
    } else if (blocks) {
      const size_t count = CeilDiv(k, problem_.block), bytes = problem_.block * FormatBits(row_.rhs) / 8;
      data.resize(n * count * bytes);
      for (char& c : data) c = static_cast<char>(rng());
      scales.resize(n * count * FormatBytes(problem_.scale));
      for (size_t i = 0; i < n * count; ++i) {
        ukernel::StoreFloat(problem_.scale, scales.data() + i * FormatBytes(problem_.scale),
                            0.01f + 0.001f * static_cast<float>(rng() % 40));
      }
      const size_t zero_bytes = CeilDiv(count * FormatBits(row_.rhs), 8);
      zeros.resize(n * zero_bytes, 0x37);
      s.format = row_.rhs;
      s.data = data.data();
      s.block_stride = static_cast<ptrdiff_t>(bytes);
      s.n_stride = static_cast<ptrdiff_t>(count * bytes);
      s.scales = scales.data();
      s.scale_format = problem_.scale;
      s.scale_block_stride = static_cast<ptrdiff_t>(FormatBytes(problem_.scale));
      s.scale_n_stride = static_cast<ptrdiff_t>(count) * s.scale_block_stride;
      if (problem_.zero_point != Format::kNone) {
        s.zero_points = zeros.data();
        s.zero_point_format = row_.rhs;
        s.zero_point_n_stride = static_cast<ptrdiff_t>(zero_bytes);
      }
    } else if (problem_.rhs == Format::kI4) {
      const size_t row_bytes = CeilDiv(k, 2);
      data.resize(n * row_bytes);
      for (char& c : data) c = static_cast<char>(rng());
      s.format = problem_.rhs;
      s.data = data.data();
      s.n_stride = static_cast<ptrdiff_t>(row_bytes);
      s.channel_scales = channels.data();
    } else {
      const size_t element = FormatBytes(row_.rhs);
      data.resize(n * k * element);
      Fill(rng, row_.rhs, data.data(), n * k);
      s.format = row_.rhs;
      s.data = data.data();
      s.n_stride = static_cast<ptrdiff_t>(element);
      s.k_stride = static_cast<ptrdiff_t>(n * element);
      s.channel_scales = channels.data();
    }
    InlineExecutor executor;
    Result<PackedRhs> packed = PackedRhs::Pack(problem_, choice_, s, executor, cpu_);
    EXPECT_TRUE(packed.ok()) << ukernel::Name(row_).text;
    if (packed.ok()) packed_ = std::move(*packed);
  }

  const GemmKernel& row_;
  const CpuFacts cpu_;
  const size_t m_;
  bool column_major_ = false, repeats_ = false, backwards_ = false;
  LayoutChoice choice_;
  GemmProblem problem_;
  std::vector<char> lhs_;
  PackedRhs packed_;
};

bool Any(const GemmKernel&) { return true; }
bool IsPortable(const GemmKernel& r) {
  return r.isa.any_arch && r.lhs == Format::kF32 && r.lhs_layout.element == Format::kNone;
}

class GemmRows : public testing::TestWithParam<const GemmKernel*> {};

// Layouts of the row that need a block transform.
std::vector<size_t> TransformedLayouts(const GemmKernel& row) {
  std::vector<size_t> found;
  for (size_t i = 0; i < ukernel::kMaxLayouts && row.layouts[i].element != Format::kNone; ++i) {
    if (!ukernel::SameElements(row.layouts[i], row.consumed)) found.push_back(i);
  }
  return found;
}

TEST_P(GemmRows, TransformsRunOncePerPanelAndKBlockWhateverM) {
  const GemmKernel& row = *GetParam();
  const std::vector<size_t> layouts = TransformedLayouts(row);
  if (layouts.empty()) GTEST_SKIP() << "needs no block transform";
  // Two tiles of columns, whose panels take less than the rows.
  const size_t tile_n = ukernel::TileN(row, HostCpu().facts());
  const size_t n = std::max<size_t>(96, tile_n + 32), most_m = std::max<size_t>(150, tile_n * 5 / 2);
  const size_t k = FormatBits(row.consumed.element) <= 8 ? 2560 : 1024;  // several blocks of K
  const size_t lhs_bytes = Product(row, layouts[0], most_m, n, k).Plan({}, 1).lhs_geometry.total_bytes;
  // Room for all rows; for most of them and the panels of all columns; for few rows and few columns.
  const size_t some = lhs_bytes * 9 / 10, few = lhs_bytes / 4;
  const bool brief = ukernel::Depth() == ukernel::TestDepth::kBrief;
  for (size_t layout : layouts) {
    if (brief && layout != layouts.front() && layout != layouts.back()) continue;
    for (size_t m : {size_t{1}, size_t{40}, most_m}) {
      if (brief && m == 40) continue;
      Product product(row, layout, m, n, k);
      std::vector<char> want;
      for (size_t prepared : {kPreparedBytes, some, few}) {
        if (brief && prepared != few && (m != most_m || prepared != kPreparedBytes)) continue;
        for (int threads : {1, 2}) {
          if (brief && threads != 2) continue;
          ThreadPool pool({.threads = threads});
          DriverCounters counters;
          const GemmPlan plan = product.Plan({}, threads, prepared);
          const std::vector<char> got = product.Run(plan, {}, &pool, &counters);
          ASSERT_GT(plan.k_block_count, 1u);
          EXPECT_EQ(counters.transforms, CeilDiv(n, plan.main.tile_n) * plan.k_block_count)
              << ukernel::Name(row).text << " layout " << layout << " m=" << m << " prepared " << prepared;
          if (want.empty()) want = got;
          EXPECT_EQ(got, want) << ukernel::Name(row).text << " layout " << layout << " m=" << m;
          if (m == most_m && plan.prepared) {
            EXPECT_EQ(plan.lhs_block < m, prepared != kPreparedBytes);
            EXPECT_EQ(plan.n_group < n, prepared == few);
          }
        }
      }
    }
  }
}

// What the transform found unsafe is remembered with the panels that are kept.
TEST_P(GemmRows, UnsafeSplitsSurviveBlocksOfRows) {
  const GemmKernel& row = *GetParam();
  if (!ComputesOnTerms(row)) GTEST_SKIP() << "does not compute on bf16 terms";
  const size_t m = 100, n = 96, k = 512;
  Product product(row, 0, m, n, k);
  product.LhsAt(m - 1, 7) = std::numeric_limits<float>::infinity();
  ThreadPool pool({.threads = 2});
  DriverCounters all, some;
  const std::vector<char> want = product.Run(product.Plan({}, 2), {}, &pool, &all);
  const GemmPlan plan = product.Plan({}, 2, 100 << 10);
  ASSERT_LT(plan.lhs_block, m);
  EXPECT_EQ(product.Run(plan, {}, &pool, &some), want);
  EXPECT_GT(all.split_fallbacks, 0u);
  EXPECT_EQ(some.split_fallbacks, all.split_fallbacks);
}

// Also where some of the gathered rows are left out, to be computed again.
TEST_P(GemmRows, ColumnMajorResultsHaveTheSameBits) {
  const GemmKernel& row = *GetParam();
  // More rows than are gathered at once, and a K of several blocks.
  const bool brief = ukernel::Depth() == ukernel::TestDepth::kBrief;
  const size_t m = brief ? 52 : 130, n = brief ? 20 : 70, k = 512;
  Product product(row, 0, m, n, k);
  if (ComputesOnTerms(row)) product.LhsAt(m / 2, 7) = std::numeric_limits<float>::infinity();
  ThreadPool pool({.threads = 2});
  DriverCounters counters;
  const std::vector<char> want = product.Run(product.Plan({}, 1), {}, &pool);
  product.StoreColumns();
  for (const int threads : {1, 2}) {
    EXPECT_EQ(product.Run(product.Plan({}, threads), {}, &pool, &counters), want) << ukernel::Name(row).text;
  }
  EXPECT_EQ(counters.split_fallbacks > 0, ComputesOnTerms(row));
}

// In every layout: scales, offsets and sums move with the tiles, as do panels of a block transform.
TEST_P(GemmRows, BackwardsTheResultsHaveTheSameBits) {
  const GemmKernel& row = *GetParam();
  const size_t n = 2 * ukernel::TileN(row, HostCpu().facts()) + 3;
  InlineExecutor executor;
  for (size_t i = 0; i < ukernel::kMaxLayouts && row.layouts[i].element != Format::kNone; ++i) {
    Product product(row, i, 3, n, 96);
    if (ComputesOnTerms(row)) product.LhsAt(1, 7) = std::numeric_limits<float>::infinity();
    const std::vector<char> want = product.Run(product.Plan({}, 1), {}, &executor);
    product.TurnRound();
    EXPECT_EQ(product.Run(product.Plan({}, 1), {}, &executor), want) << ukernel::Name(row).text << " layout " << i;
  }
}

// A K of several blocks, which are longer the fewer columns a tile has.
size_t SeveralBlocks(const GemmKernel& row) {
  const size_t bits = FormatBits(row.consumed.element), narrow = ukernel::TileN(row, HostCpu().facts()) < 16 ? 2 : 1;
  return narrow * (bits < 4 ? 5120 : bits < 8 ? 2560 : bits <= 16 ? 1280 : 320);
}

// Ranges and sums of squares of rows come out with the product, fused or not, for the next layer's quantization or
// norm.
TEST_P(GemmRows, ReducesRows) {
  const GemmKernel& row = *GetParam();
  if (row.dst == Format::kF64) GTEST_SKIP() << "takes no epilogue";
  const bool brief = ukernel::Depth() == ukernel::TestDepth::kBrief;
  const size_t n = std::max<size_t>(200, ukernel::TileN(row, HostCpu().facts()) + 44), k = SeveralBlocks(row);
  for (size_t m : {size_t{1}, size_t{70}}) {
    Product product(row, 0, m, n, k);
    std::vector<float> range, sums;
    std::vector<char> first;
    std::vector<float> first_sums;
    for (int threads : {1, 3}) {
      for (bool hostile : {false, true}) {
        if (brief && hostile != (threads > 1)) continue;
        range.assign(2 * m, 0.0f);
        sums.assign(m, 0.0f);
        std::vector<EpilogueOp> ops = {{.kind = EpilogueKind::kMulScalar, .a = 0.125f},
                                       {.kind = EpilogueKind::kRowMinMax, .out = range.data()},
                                       {.kind = EpilogueKind::kRowSumSquares, .out = sums.data()}};
        const GemmPlan plan = product.Plan(ops, threads);
        if (m > 1 && !row.whole_panel) {
          ASSERT_GT(plan.k_block_count, 1u);
          // Several blocks of columns, or where all pass by a block of rows, of those.
          ASSERT_LT(plan.panels_ahead ? plan.m_block : plan.n_block, plan.panels_ahead ? m : n);
        }
        ThreadPool pool({.threads = threads});
        HostileExecutor random(9, threads);
        const std::vector<char> dst =
            product.Run(plan, ops, hostile ? static_cast<Executor*>(&random) : static_cast<Executor*>(&pool));
        for (size_t r = 0; r < m; ++r) {
          float lo = 0, hi = 0;
          double sum = 0;
          for (size_t c = 0; c < n; ++c) {
            const float x = ukernel::LoadAs<float>(dst.data() + (r * n + c) * 4);
            lo = std::min(lo, x);
            hi = std::max(hi, x);
            sum += static_cast<double>(x) * static_cast<double>(x);
          }
          ASSERT_LT(lo, 0);
          ASSERT_GT(hi, 0);
          ASSERT_EQ(range[2 * r], lo) << ukernel::Name(row).text << " row " << r;
          ASSERT_EQ(range[2 * r + 1], hi) << ukernel::Name(row).text << " row " << r;
          ASSERT_NEAR(sums[r], sum, 1e-5 * sum) << ukernel::Name(row).text << " row " << r;
        }
        if (first.empty()) {
          first = dst;
          first_sums = sums;
        }
        EXPECT_EQ(dst, first);
        EXPECT_EQ(sums, first_sums) << "the order of sums depends on threads";
      }
    }
  }
}

// Calls of a row of whole panels: one for each panel of columns, block of rows and block of K.
uint64_t PanelCalls(const GemmPlan& plan, size_t m, size_t n) {
  size_t blocks = 0;
  for (size_t m0 = 0; m0 < m; m0 += plan.m_super) blocks += CeilDiv(std::min(plan.m_super, m - m0), plan.m_block);
  return blocks * CeilDiv(n, plan.n_block) * plan.k_block_count;
}

// A tile configuration is loaded once for all calls of a product; streaming mode, which a call enters and leaves by
// itself, as often as there are panels and blocks of K.
TEST_P(GemmRows, ModesAreEnteredOncePerProductOrPanel) {
  const GemmKernel& row = *GetParam();
  if (!row.enter_mode && !row.whole_panel) GTEST_SKIP() << "has no mode";
  const size_t m = 70, n = 200, k = SeveralBlocks(row);
  const bool brief = ukernel::Depth() == ukernel::TestDepth::kBrief;
  Product product(row, 0, m, n, k);
  for (int threads : {1, 2}) {
    if (brief && threads != (row.enter_mode ? 2 : 1)) continue;
    ThreadPool pool({.threads = threads});
    DriverCounters counters;
    const GemmPlan plan = product.Plan({}, threads);
    product.Run(plan, {}, &pool, &counters);
    ASSERT_GT(plan.k_block_count, 1u);
    ASSERT_EQ(counters.split_fallbacks, 0u);
    if (row.enter_mode) {
      EXPECT_GT(counters.kernel_calls, plan.k_block_count);
      EXPECT_THAT(counters.modes_entered.load(), testing::AllOf(testing::Ge(1u), testing::Le(plan.slots)));
    } else if (threads == 1) {
      EXPECT_EQ(counters.kernel_calls, PanelCalls(plan, m, n));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, GemmRows, testing::ValuesIn(RunnableRows(Any)), RowTestName);

// ---- modes

ukernel::GemmRun g_run = nullptr;
std::atomic<uint64_t> g_entered{0}, g_left{0}, g_outside{0}, g_nested{0};
thread_local int t_mode = 0;
constexpr int kConfig = 42;

void Enter(const void* config) {
  if (config != &kConfig || t_mode != 0) ++g_nested;
  ++t_mode;
  ++g_entered;
}
void Leave() {
  --t_mode;
  ++g_left;
}
void AddMode(GemmKernel& row) {
  row.mode_config = &kConfig;
  row.enter_mode = Enter;
  row.leave_mode = Leave;
}
void RunInMode(const ukernel::GemmArgs& a) {
  if (t_mode != 1) ++g_outside;
  g_run(a);
}

// A row with a mode, made from one without, counts: no worker enters it twice in a region.
TEST(Gemm, WorkersEnterAModeOncePerRegion) {
  GemmKernel row = *RunnableRows(IsPortable).at(0);
  g_run = row.run;
  row.run = RunInMode;
  AddMode(row);
  Product product(row, 0, 120, 400, 400);
  for (int threads : {1, 2, 4}) {
    ThreadPool pool({.threads = threads});
    HostileExecutor hostile(5, threads);
    for (Executor* executor : {static_cast<Executor*>(&pool), static_cast<Executor*>(&hostile)}) {
      g_entered = g_left = g_outside = g_nested = 0;
      DriverCounters counters;
      GemmPlan plan = product.Plan({}, threads);
      plan.m_parts = 4;
      plan.n_parts = 3;
      product.Run(plan, {}, executor, &counters);
      EXPECT_EQ(g_outside, 0u);
      EXPECT_EQ(g_nested, 0u);
      EXPECT_EQ(g_left, g_entered);
      EXPECT_EQ(counters.modes_entered, g_entered);
      EXPECT_GE(counters.modes_entered, 1u);
      EXPECT_LE(counters.modes_entered, static_cast<uint64_t>(plan.slots));
    }
  }
}

// A row that takes whole panels, made from one of tiles, counts its calls: each stands for an entry of streaming mode.
void RunPanel(const ukernel::GemmArgs& a) {
  ++g_entered;
  constexpr size_t kTileM = 3, kUnit = 16;
  ukernel::GemmArgs tile = a;
  for (size_t n = 0; n < a.n; n += kUnit) {
    for (size_t m = 0; m < a.m; m += kTileM) {
      const auto at = [&](void* p, size_t stride) { return p ? static_cast<char*>(p) + m * stride + n * 4 : nullptr; };
      tile.m = std::min(kTileM, a.m - m);
      tile.n = std::min(kUnit, a.n - n);
      tile.lhs = static_cast<const char*>(a.lhs) + static_cast<ptrdiff_t>(m) * a.lhs_row_stride;
      tile.rhs = static_cast<const char*>(a.rhs) + n / kUnit * a.rhs_unit_stride;
      tile.acc = at(a.acc, a.acc_row_stride);
      tile.dst = at(a.dst, a.dst_row_stride);
      tile.m0 = a.m0 + m;
      tile.n0 = a.n0 + n;
      g_run(tile);
    }
  }
}

TEST(Gemm, WholePanelsAreOneCallEach) {
  const auto plain = [](const GemmKernel& r) { return IsPortable(r) && r.layouts[0] == ukernel::kF32x16; };
  GemmKernel tiles = *RunnableRows(plain).at(0), row = tiles;
  g_run = row.run;
  row.run = RunPanel;
  row.whole_panel = true;
  const size_t m = 120, n = 400, k = 400;
  Product product(row, 0, m, n, k), by_tiles(tiles, 0, m, n, k);
  InlineExecutor executor;
  const std::vector<char> want = by_tiles.Run(by_tiles.Plan({}, 1), {}, &executor);
  g_entered = 0;
  const GemmPlan plan = product.Plan({}, 1);
  ASSERT_GT(plan.k_block_count, 1u);
  ASSERT_LT(plan.n_block, n);
  EXPECT_EQ(product.Run(plan, {}, &executor), want);
  EXPECT_EQ(g_entered, PanelCalls(plan, m, n));
}

// A row of many tiles has a call for all whole tiles of a block of rows and one for what is left of it, but one for
// each tile where the contract asks for that.
TEST(Gemm, TilesShareCalls) {
  const auto plain = [](const GemmKernel& r) { return IsPortable(r) && r.layouts[0] == ukernel::kF32x16; };
  GemmKernel tiles = *RunnableRows(plain).at(0), row = tiles;
  g_run = row.run;
  row.run = [](const ukernel::GemmArgs& a) {
    GemmKernel many;
    many.many_tiles = true;
    EXPECT_TRUE(a.m <= 3 || (a.m % 3 == 0 && TakesManyTiles(many, a)));
    RunPanel(a);
  };
  row.many_tiles = true;
  ASSERT_EQ(row.mr, 3u);
  CpuFacts cpu = SmallCaches();
  cpu.l1d_bytes = 4 << 10;  // a quarter of which holds results of five tiles
  const size_t n = 400;
  const float bias[n] = {1, 2, 3};
  const EpilogueOp add{.kind = EpilogueKind::kAddVectorN, .data = bias};
  const EpilogueOp gelu{.kind = EpilogueKind::kGelu};
  InlineExecutor executor;
  for (size_t m : {60, 61}) {
    for (size_t k : {20, 800}) {
      for (bool columns : {false, true}) {
        for (const std::vector<EpilogueOp>& ops : {std::vector{add}, std::vector{add, gelu}}) {
          Product product(row, 0, m, n, k, cpu), by_tiles(tiles, 0, m, n, k, cpu);
          if (columns) product.StoreColumns();
          const std::vector<char> want = by_tiles.Run(by_tiles.Plan(ops, 1), ops, &executor);
          const GemmPlan plan = product.Plan(ops, 1);
          g_entered = 0;
          EXPECT_EQ(product.Run(plan, ops, &executor), want);
          size_t calls = 0;
          const bool joins = plan.k_block_count == 1 && !columns;
          const size_t most = !joins ? 1 : ops.size() == 1 ? m : 5;
          ASSERT_EQ(plan.k_block_count > 1, k == 800);
          for (size_t m0 = 0; m0 < m; m0 += plan.m_block) {
            const size_t rows = std::min(plan.m_block, m - m0);
            calls += CeilDiv(rows / 3, most) + (rows % 3 != 0);
          }
          EXPECT_EQ(g_entered, calls * CeilDiv(n, 16) * plan.k_block_count);
        }
      }
    }
  }
  // Several blocks of rows without elements, of which no line is asked for.
  const size_t many = 40000;
  Product empty(row, 0, many, 16, 0);
  const GemmPlan plan = empty.Plan({}, 1);
  ASSERT_LT(plan.m_block, many);
  EXPECT_EQ(empty.Run(plan, {}, &executor), std::vector<char>(many * 16 * sizeof(float)));
}

// A row that asks ahead finds each panel of weights but the first asked for by the calls of the one before it, and
// the first one by those of the product before.
std::vector<std::pair<const char*, const char*>> g_asked;
size_t g_unasked = 0;
bool g_asks = false;  // the last call did
void RunAsking(const ukernel::GemmArgs& a) {
  constexpr size_t kUnitBytes = 64;  // of one k
  const char* at = static_cast<const char*>(a.rhs);
  for (const auto& [begin, end] : g_asked) at = begin <= at && at < end ? end : at;  // chunks of a unit in their order
  g_unasked += at < static_cast<const char*>(a.rhs) + a.k * kUnitBytes;
  g_asks = a.ahead;
  const char* ahead = static_cast<const char*>(a.ahead);
  if (ahead) g_asked.emplace_back(ahead, ahead + a.k * a.ahead_lines * 64 / ukernel::kAheadK);
  g_run(a);
}

class GemmAsksAhead : public testing::TestWithParam<ukernel::AsksAhead> {};
TEST_P(GemmAsksAhead, Panels) {
  const auto plain = [](const GemmKernel& r) { return IsPortable(r) && r.layouts[0] == ukernel::kF32x16; };
  GemmKernel silent = *RunnableRows(plain).at(0), row = silent;
  g_run = row.run;
  row.run = RunAsking;
  row.asks_ahead = GetParam();
  const bool by_panel = GetParam() == ukernel::AsksAhead::kPanel;
  CpuFacts cpu = SmallCaches();
  if (by_panel) cpu.l2_bytes *= 2;  // a quarter of which holds a panel
  const size_t n = 400;
  InlineExecutor executor;
  // Many rows, whose calls ask for a quarter of a unit each, and few, whose calls ask for two; one and several K
  // blocks.
  for (const size_t m : {120, 20}) {
    for (const size_t k : {200, 800}) {
      SCOPED_TRACE(testing::Message() << m << " rows, " << k << " k");
      Product product(row, 0, m, n, k, cpu), without(silent, 0, m, n, k);
      const std::vector<char> want = without.Run(without.Plan({}, 1), {}, &executor);
      const GemmPlan plan = product.Plan({}, 1);
      ASSERT_EQ(plan.k_block_count > 1, k == 800);
      ASSERT_EQ(plan.panels_ahead, by_panel);
      ASSERT_EQ(plan.n_block < n, !by_panel);
      ASSERT_EQ(plan.m_block < m, !by_panel || m == 120);
      ASSERT_EQ(k % plan.k_block, 0u);
      ASSERT_EQ(plan.k_block % ukernel::kAheadK, 0u);
      g_asked.clear();
      g_unasked = 0;
      // The calls of the first panel, of as many rows and columns as pass by it before the next.
      const size_t first = by_panel ? CeilDiv(std::min(m, plan.m_block), plan.main.tile_m)
                                    : CeilDiv(m, plan.main.tile_m) * CeilDiv(plan.n_block, plan.main.tile_n);
      EXPECT_EQ(product.Run(plan, {}, &executor), want);
      EXPECT_EQ(g_unasked, first);
      EXPECT_FALSE(g_asks);  // nothing comes after the last one
      product.Repeats();
      EXPECT_EQ(product.Run(plan, {}, &executor), want);
      g_unasked = 0;
      EXPECT_EQ(product.Run(plan, {}, &executor), want);
      EXPECT_EQ(g_unasked, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, GemmAsksAhead, testing::Values(ukernel::AsksAhead::kBlock, ukernel::AsksAhead::kPanel),
                         [](const auto& info) {
                           return std::string(info.param == ukernel::AsksAhead::kPanel ? "Panel" : "Block");
                         });

// Cores share SME units: a region has no more slots than there are units, and rows of other engines all of them.
TEST(Gemm, ThreadsOfSmeRowsAreCappedToTheUnits) {
  SelectOptions options;
  options.cpu = CpuFromSpec("apple-m4").value().facts();
  options.ignore_missing_bodies = true;
  const GemmProblem problem{.n = 2048, .k = 1024, .expected_m = 1024};
  const LayoutChoice layout = SelectLayout(problem, options).value();
  const MatMul matmul = MatMul::Create(problem, options, layout).value();
  const GemmKernel& row = *matmul.RowFor(1024);
  ASSERT_EQ(row.cost.engine, ukernel::Engine::kMatrix) << ukernel::Name(row).text;
  const GemmKernel* other = nullptr;
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& r = list->rows[i];
      if (r.rhs == Format::kF32 && r.isa.name == std::string("neon")) other = &r;
    }
  }
  ASSERT_NE(other, nullptr);
  const PackedRhs packed = PackedRhs::Describe(problem, layout);
  MatMulArgs many{.m = 1024, .lhs_row_stride = 4096, .packed_rhs = &packed, .dst_row_stride = 8192};
  const BatchDim batch[] = {{.count = 1000, .lhs = 1 << 24, .dst = 1 << 24}};
  many.batch = batch;
  for (uint16_t units : {1, 2, 3}) {
    CpuFacts cpu = options.cpu;
    cpu.sme_units = units;
    EXPECT_EQ(PlanGemm(problem, cpu, layout, row, nullptr, {.m = 1024}, 8).slots, units);
    EXPECT_EQ(PlanGemm(problem, cpu, layout, row, nullptr, {.m = 1024}, 1).slots, 1);
    EXPECT_EQ(PlanGemm(problem, cpu, {other->layouts[0], 0}, *other, nullptr, {.m = 1024}, 8).slots, 8);
    options.cpu = cpu;
    const MatMulPlan plan = MatMul::Create(problem, options, layout)->Plan(many, 8);
    EXPECT_EQ(plan.slots, units);
    EXPECT_EQ(plan.parallel_batches, units > 1);
  }
}

TEST(Gemm, ModesAreLeftWhenCancelled) {
  static CancelToken token;
  token.Reset();
  GemmKernel row = *RunnableRows(IsPortable).at(0);
  g_run = row.run;
  row.run = [](const ukernel::GemmArgs& a) {
    token.Cancel();
    RunInMode(a);
  };
  AddMode(row);
  g_entered = g_left = g_outside = 0;
  Product product(row, 0, 120, 400, 400);
  const GemmPlan plan = product.Plan({}, 2);
  std::vector<float> lhs(120 * 400), dst(120 * 400);
  std::vector<std::byte> rhs(plan.rhs_geometry.total_bytes);
  GuardedBuffer workspace(plan.workspace_bytes);
  ThreadPool pool({.threads = 2});
  DriverCounters counters;
  const GemmOperands operands{
      .lhs = lhs.data(), .lhs_row_stride = 1600, .rhs = rhs.data(), .dst = dst.data(), .dst_row_stride = 1600};
  const Status status = RunGemm(plan, operands,
                                {.executor = &pool,
                                 .cancel = &token,
                                 .workspace = workspace.data(),
                                 .workspace_bytes = plan.workspace_bytes,
                                 .counters = &counters});
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(g_left, g_entered);
  EXPECT_LE(counters.modes_entered, 2u);
}

}  // namespace
}  // namespace quern::kernels
