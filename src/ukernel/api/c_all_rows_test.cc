// Every row that runs here through the C interface alone: packing in parts, blocks cut along M, N and K, taps, tile by
// tile. Small integers compare exactly, cuts between tiles give the same bits, buffers end at guard pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/api/c_types.h"
#include "ukernel/convert.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/pack.h"
#include "ukernel/quantize.h"
#include "ukernel/row_runner.h"

namespace quern::ukernel {
namespace {

quern_cpu Host() {
  quern_cpu cpu;
  quern_cpu_init(&cpu);
  EXPECT_EQ(quern_cpu_detect(&cpu), 0);
  return cpu;
}

std::vector<const GemmKernel*> Rows() {
  std::vector<const GemmKernel*> rows;
  for (const auto& table : {AllGemmKernels(), EmulatedGemmKernels()}) {
    for (const auto* list : table) {
      for (size_t i = 0; i < list->count; ++i) {
        if (RowRunner::WhyNot(list->rows[i], HostCpu().facts()).empty()) rows.push_back(&list->rows[i]);
      }
    }
  }
  return rows;
}

struct Part {
  size_t begin, end;
};

// [0, all) in `parts` parts at multiples of `unit`, the first the longest.
std::vector<Part> Cut(size_t all, size_t unit, size_t parts) {
  std::vector<Part> cut;
  const size_t step = std::max(unit, RoundUp(CeilDiv(all, parts), unit));
  for (size_t at = 0; at < all; at += step) cut.push_back({at, std::min(all, at + step)});
  return cut;
}

class Product {
 public:
  Product(const GemmKernel& row, size_t layout, size_t m, size_t n, size_t k, size_t segments, bool normal)
      : row_(row), layout_(row.layouts[layout]), m_(m), n_(n), k_(k), segments_(segments), normal_(normal) {}

  // Finds what the row multiplies with weights in this layout; false if the C interface has no way to it.
  bool Plan() {
    const quern_cpu cpu = Host();
    quern_ukernel_problem_init(&problem_);
    problem_.n = n_;
    problem_.k = k_;
    problem_.segments = segments_;
    problem_.precision = row_.precision == Precision::kFp16 ? QUERN_UKERNEL_FP16 : QUERN_UKERNEL_BF16_INPUTS;
    problem_.channel_scales = layout_.channel_scales;
    problem_.allow_expansion = 1;
    problem_.lhs_form = segments_ > 1 ? QUERN_UKERNEL_LHS_TAPS : QUERN_UKERNEL_LHS_ROWS;
    if (layout_.scale != Format::kNone) {
      problem_.block = std::max<size_t>(32, row_.block_divisor);
      problem_.scale = ToC(layout_.scale);
      problem_.zero_point = ToC(layout_.offset);
    }
    const quern_ukernel_layout layout = ToC(layout_);
    for (Format lhs : {row_.lhs, LhsSourceFormat(row_)}) {
      for (Format rhs : {row_.rhs, Format::kU4, Format::kU2, Format::kU8, Format::kI8, Format::kF32}) {
        problem_.lhs = ToC(lhs);
        problem_.rhs = ToC(rhs);
        quern_ukernel_plan_init(&plan_);
        if (quern_ukernel_make_plan(ToC(&row_), &layout, &problem_, &cpu, &plan_) == QUERN_UKERNEL_OK) return true;
      }
    }
    return false;
  }

  void Make() {
    MakeRhs();
    MakeLhs();
    bias_.resize(n_);
    for (size_t n = 0; n < n_; ++n) bias_[n] = static_cast<float>(n % 5) - 2;
    const size_t element = FormatBytes(row_.dst);
    dst_stride_ = (n_ + 3) * element;
    dst_ = std::make_unique<GuardedBuffer>((m_ - 1) * dst_stride_ + n_ * element);
    acc_ = std::make_unique<GuardedBuffer>((m_ - 1) * dst_stride_ + n_ * element);
  }

  // The results of blocks cut so, with a bias and a clamp behind them.
  std::vector<double> Run(size_t m_parts, size_t n_parts, size_t k_parts) {
    std::memset(dst_->data(), 0x7e, dst_->bytes());
    quern_ukernel_op ops[kOps];
    Ops(ops);
    const std::vector<Part> ks = k_parts == 1 ? std::vector<Part>{{0, 0}} : Cut(k_, plan_.k_step, k_parts);
    for (const Part& k : ks) {
      for (const Part& n : Cut(n_, plan_.n_step, n_parts)) {
        for (const Part& m : Cut(m_, plan_.m_step, m_parts)) {
          quern_ukernel_block b = Block();
          b.m_begin = m.begin;
          b.m_end = m.end;
          b.n_begin = n.begin;
          b.n_end = n.end;
          b.k_begin = k.begin;
          b.k_end = k.end;
          b.ops = ops;
          b.op_count = op_count();
          const GuardedBuffer workspace(RoundUp(quern_ukernel_workspace_bytes(&plan_, &b), 64));
          quern_ukernel_run_block(&plan_, &b, workspace.data());
        }
      }
    }
    return Results();
  }

  // The same tile by tile, as docs/ukernel-api.md does it.
  std::vector<double> RunTiles() {
    std::memset(dst_->data(), 0x7e, dst_->bytes());
    quern_ukernel_op ops[3 + kOps];
    size_t count =
        quern_ukernel_dynamic_ops(&plan_, packed_lhs_ ? packed_lhs_->data() : nullptr, m_, packed_rhs_->data(), ops);
    Ops(ops + count);
    count += op_count();
    const size_t fused = quern_ukernel_fused_ops(plan_.kernel, ops, count);
    const size_t n_step = plan_.whole_panel && !plan_.transforms ? n_ : plan_.n_step;
    const GuardedBuffer scratch(RoundUp(plan_.scratch_bytes, 64));
    const GuardedBuffer panel(quern_ukernel_panel_bytes(&plan_, n_step, 0));
    quern_ukernel_enter(plan_.kernel);
    for (size_t n = 0; n < n_; n += n_step) {
      quern_ukernel_block b = Block();
      b.m_end = m_;
      b.n_end = std::min(n_, n + n_step);
      b.ops = ops;
      b.op_count = fused;
      b.scratch = scratch.data();
      b.panel = panel.data();
      b.panel_n = n;
      quern_ukernel_transform(&plan_, b.rhs, n, b.n_end, 0, 0, panel.data());
      quern_ukernel_args args;
      for (size_t m = 0; m < m_; m += args.m) {
        quern_ukernel_tile(&plan_, &b, m, n, &args);
        quern_ukernel_run(plan_.kernel, &args);
        if (fused == count) continue;
        quern_ukernel_apply_ops(&plan_, ops + fused, count - fused, m, args.m, n, args.n, args.dst, args.dst_row_stride,
                                quern_ukernel_result_format(plan_.acc, ops, fused), args.dst, args.dst_row_stride);
      }
    }
    quern_ukernel_leave(plan_.kernel);
    return Results();
  }

  // In float64 from the numbers that are stored; `magnitude` gets a bound of the terms' sum.
  std::vector<double> Expected(std::vector<double>* magnitude) const {
    std::vector<double> c(m_ * n_), w(segments_ * k_ * n_);
    magnitude->assign(m_ * n_, 0.0);
    const PlanState& s = StateOf(plan_);
    for (size_t i = 0; i < segments_ * k_; ++i) {
      for (size_t n = 0; n < n_; ++n) {
        w[i * n_ + n] = static_cast<double>(UnpackRhsElement(layout_, s.rhs, packed_rhs_->data(), i, n));
      }
    }
    for (size_t m = 0; m < m_; ++m) {
      const std::vector<double> x = RowOf(m);
      for (size_t i = 0; i < segments_ * k_; ++i) {
        for (size_t n = 0; n < n_; ++n) {
          c[m * n_ + n] += x[i] * w[i * n_ + n];
          (*magnitude)[m * n_ + n] += std::fabs(x[i] * w[i * n_ + n]);
        }
      }
      for (size_t n = 0; n < n_; ++n) {
        if (op_count() == 0) break;
        double& y = c[m * n_ + n];
        if (layout_.channel_scales && plan_.dynamic) y *= static_cast<double>(scales_[n]);
        y = std::clamp(y * 0.5 + static_cast<double>(bias_[n]), -kClamp, kClamp);
      }
    }
    return c;
  }

  const quern_ukernel_plan& plan() const { return plan_; }

 private:
  static constexpr double kClamp = 700;
  static constexpr size_t kOps = 3;
  size_t op_count() const { return row_.dst == Format::kF64 ? 0 : kOps; }
  // Of results: operations leave float32.
  Format result() const { return row_.dst == Format::kF64 ? Format::kF64 : Format::kF32; }

  // x * 0.5 + bias[n], clamped; the first makes floats of integers.
  void Ops(quern_ukernel_op* ops) const {
    quern_ukernel_op_init(&ops[0], QUERN_UKERNEL_OP_MUL_SCALAR);
    ops[0].a = 0.5f;
    quern_ukernel_op_init(&ops[1], QUERN_UKERNEL_OP_ADD_VECTOR_N);
    ops[1].data = bias_.data();
    quern_ukernel_op_init(&ops[2], QUERN_UKERNEL_OP_CLAMP);
    ops[2].a = -static_cast<float>(kClamp);
    ops[2].b = static_cast<float>(kClamp);
  }

  quern_ukernel_block Block() const {
    quern_ukernel_block b;
    quern_ukernel_block_init(&b);
    b.m = m_;
    b.lhs = plan_.packs_lhs ? packed_lhs_->data() : lhs_->data();
    b.lhs_row_stride = static_cast<ptrdiff_t>(lhs_stride_);
    b.lhs_form = problem_.lhs_form;
    b.taps = taps_.data();
    b.rhs = packed_rhs_->data();
    b.dst = dst_->data();
    b.dst_row_stride = dst_stride_;
    b.acc = acc_->data();
    b.acc_row_stride = dst_stride_;
    return b;
  }

  std::vector<double> Results() const {
    std::vector<double> c(m_ * n_);
    for (size_t m = 0; m < m_; ++m) {
      for (size_t n = 0; n < n_; ++n) {
        c[m * n_ + n] = LoadNumber(result(), dst_->data() + m * dst_stride_ + n * FormatBytes(result()));
      }
    }
    return c;
  }

  float Draw(std::mt19937& rng, Format f) const {
    if (f == Format::kU8) return static_cast<float>(rng() % 7);
    if (f == Format::kI8 || !normal_) return static_cast<float>(static_cast<int>(rng() % 7) - 3);
    return NormalNumbers<float>()(rng);
  }
  static void Put(Format f, char* p, float x) {
    if (IsInt8(f)) {
      *p = static_cast<char>(static_cast<int>(x));
    } else {
      StoreNumber(f, p, double{x});
    }
  }

  void MakeLhs() {
    std::mt19937 rng(5);
    ASSERT_TRUE(FromC(plan_.lhs_source, &source_));
    const size_t element = FormatBytes(source_);
    lhs_stride_ = (k_ + 3) * element;
    const size_t rows = m_ + segments_ - 1;  // row m of segment s is row m + s
    lhs_ = std::make_unique<GuardedBuffer>((rows - 1) * lhs_stride_ + k_ * element);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t k = 0; k < k_; ++k) Put(source_, lhs_->data() + r * lhs_stride_ + k * element, Draw(rng, source_));
    }
    for (size_t s = 0; s < segments_; ++s) {
      taps_.push_back({static_cast<ptrdiff_t>(s * lhs_stride_), quern_ukernel_rhs_tap_offset(&plan_, s)});
    }
    if (!plan_.packs_lhs) return;
    size_t bytes = 0;
    ASSERT_EQ(quern_ukernel_lhs_bytes(&plan_, m_, &bytes), QUERN_UKERNEL_OK);
    packed_lhs_ = std::make_unique<GuardedBuffer>(bytes);
    quern_ukernel_lhs_source source;
    quern_ukernel_lhs_source_init(&source);
    source.form = problem_.lhs_form;
    source.data = lhs_->data();
    source.row_stride = static_cast<ptrdiff_t>(lhs_stride_);
    source.taps = taps_.data();
    for (const Part& part : Cut(m_, plan_.m_unit, 3)) {
      ASSERT_EQ(quern_ukernel_pack_lhs(&plan_, m_, &source, part.begin, part.end, packed_lhs_->data(), nullptr),
                QUERN_UKERNEL_OK);
    }
  }

  void MakeRhs() {
    std::mt19937 rng(6);
    Format f = Format::kNone;
    ASSERT_TRUE(FromC(problem_.rhs, &f));
    quern_ukernel_rhs_source s;
    quern_ukernel_rhs_source_init(&s);
    s.format = problem_.rhs;
    std::vector<char> data, scales, zeros;
    if (layout_.scale == Format::kNone && FormatBits(f) < 8) {  // rows of packed numbers
      const size_t row = CeilDiv(k_, 2);
      data.resize(n_ * row);
      for (char& c : data) c = static_cast<char>(rng());
      s.n_stride = static_cast<ptrdiff_t>(row);
    } else if (layout_.scale == Format::kNone) {
      const size_t element = FormatBytes(f);
      data.resize(segments_ * k_ * n_ * element);
      for (size_t i = 0; i < segments_ * k_ * n_; ++i) Put(f, data.data() + i * element, Draw(rng, f));
      s.n_stride = static_cast<ptrdiff_t>(element);
      s.k_stride = static_cast<ptrdiff_t>(n_ * element);
      s.segment_stride = static_cast<ptrdiff_t>(k_ * n_ * element);
    } else {
      const size_t blocks = CeilDiv(k_, problem_.block), bits = FormatBits(f);
      const size_t bytes = problem_.block * bits / 8, element = FormatBytes(layout_.scale);
      data.resize(n_ * blocks * bytes);
      for (char& c : data) c = static_cast<char>(rng());
      s.block_stride = static_cast<ptrdiff_t>(bytes);
      s.n_stride = static_cast<ptrdiff_t>(blocks * bytes);
      scales.resize(n_ * blocks * element);
      for (size_t i = 0; i < n_ * blocks; ++i) {
        StoreFloat(layout_.scale, scales.data() + i * element, normal_ ? 0.01f : std::ldexp(1.0f, -int(rng() % 3)));
      }
      s.scales = scales.data();
      s.scale_format = problem_.scale;
      s.scale_n_stride = static_cast<ptrdiff_t>(blocks * element);
      s.scale_block_stride = static_cast<ptrdiff_t>(element);
      if (layout_.offset != Format::kNone) {
        const bool floats = layout_.offset == Format::kF32;
        const size_t row = floats ? blocks * 4 : CeilDiv(blocks * bits, 8);
        zeros.resize(n_ * row);
        for (size_t i = 0; i < zeros.size(); ++i) zeros[i] = static_cast<char>(rng());
        for (size_t i = 0; floats && i < n_ * blocks; ++i) StoreAs(zeros.data() + i * 4, static_cast<float>(rng() % 4));
        s.zero_points = zeros.data();
        s.zero_point_format = floats ? QUERN_UKERNEL_F32 : problem_.rhs;
        s.zero_point_n_stride = static_cast<ptrdiff_t>(row);
      }
    }
    s.data = data.data();
    scales_.resize(n_);
    for (size_t n = 0; n < n_; ++n) scales_[n] = 0.5f + static_cast<float>(n % 3);
    s.channel_scales = scales_.data();
    packed_rhs_ = std::make_unique<GuardedBuffer>(plan_.rhs_bytes);
    std::memset(packed_rhs_->data(), 0x55, packed_rhs_->bytes());
    for (const Part& part : Cut(n_, plan_.n_unit, 2)) {
      ASSERT_EQ(quern_ukernel_pack_rhs(&plan_, &s, part.begin, part.end, packed_rhs_->data(), nullptr),
                QUERN_UKERNEL_OK);
    }
  }

  // Row m as the kernel multiplies it, all segments.
  std::vector<double> RowOf(size_t m) const {
    std::vector<double> x;
    double lo = 0, hi = 0;
    for (size_t s = 0; s < segments_; ++s) {
      for (size_t k = 0; k < k_; ++k) {
        x.push_back(LoadNumber(source_, lhs_->data() + (m + s) * lhs_stride_ + k * FormatBytes(source_)));
        lo = std::min(lo, x.back());
        hi = std::max(hi, x.back());
      }
    }
    if (row_.lhs == Format::kI8b) {
      const size_t block = row_.lhs_layout.block;
      for (size_t k = 0; k < x.size(); k += block) {
        double largest = 0;
        const size_t end = std::min(x.size(), k + block);
        for (size_t i = k; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
        const DynamicBlock b = DynamicBlockParams(static_cast<float>(largest));
        for (size_t i = k; i < end; ++i) {
          x[i] = QuantizeDynamic(static_cast<float>(x[i]), {b.times, 0}) * static_cast<double>(b.scale);
        }
      }
    }
    if (row_.lhs != Format::kI8d) return x;
    const DynamicRow p = DynamicRowParams(static_cast<float>(lo), static_cast<float>(hi));
    for (double& v : x) {
      const int q = QuantizeDynamic(static_cast<float>(v), p);
      v = (q - static_cast<double>(p.zero_point)) / static_cast<double>(p.scale);
    }
    return x;
  }

  const GemmKernel& row_;
  const PackLayout layout_;
  const size_t m_, n_, k_, segments_;
  const bool normal_;
  quern_ukernel_problem problem_;
  quern_ukernel_plan plan_;
  Format source_ = Format::kF32;
  size_t lhs_stride_ = 0, dst_stride_ = 0;
  std::unique_ptr<GuardedBuffer> lhs_, packed_lhs_, packed_rhs_, dst_, acc_;
  std::vector<quern_ukernel_tap> taps_;
  std::vector<float> scales_, bias_;
};

class CAllRows : public testing::TestWithParam<const GemmKernel*> {};

size_t LayoutCount(const GemmKernel& r) {
  size_t count = 0;
  while (count < kMaxLayouts && r.layouts[count].element != Format::kNone) ++count;
  return count;
}

bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

void Check(const GemmKernel& row, size_t layout, size_t m, size_t n, size_t k, size_t segments, bool normal) {
  Product p(row, layout, m, n, k, segments, normal);
  char text[kReasonBytes];
  LayoutText(row.layouts[layout], text, sizeof(text));
  SCOPED_TRACE(std::string(text) + " m=" + std::to_string(m) + " n=" + std::to_string(n) + " k=" + std::to_string(k) +
               " segments=" + std::to_string(segments));
  if (!p.Plan()) {
    const bool transforms = !SameElements(row.layouts[layout], row.consumed);
    const bool bytes = FormatBits(row.layouts[layout].element) >= 8;
    const bool taps = bytes && (IsPrepared(row) || ((row.lhs_forms & kLhsTaps) && !transforms));
    ASSERT_TRUE(segments > 1 && !taps) << "no plan";
    return;
  }
  p.Make();
  if (testing::Test::HasFatalFailure()) return;
  const std::vector<double> whole = p.Run(1, 1, 1);
  std::vector<double> magnitude;
  const std::vector<double> expected = p.Expected(&magnitude);
  // Integers are exact but for the division by a dynamic row's scale.
  const bool exact = !normal && row.lhs == LhsSourceFormat(row);
  const double error = exact                                   ? 0
                       : row.precision == Precision::kFp64     ? 1e-14
                       : row.precision == Precision::kFp32Fast ? 1e-4
                       : row.precision > Precision::kFp32Fast  ? 3e-2
                                                               : 1e-5;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_LE(std::fabs(whole[i] - expected[i]), error * (magnitude[i] + 1))
        << "row " << i / n << " column " << i % n << ": " << whole[i] << " for " << expected[i];
  }
  EXPECT_TRUE(SameBits(p.Run(1, 3, 1), whole)) << "cut along N";
  EXPECT_TRUE(SameBits(p.Run(2, 1, 1), whole)) << "cut along M";
  EXPECT_TRUE(SameBits(p.Run(3, 2, 1), whole)) << "cut along both";
  EXPECT_TRUE(SameBits(p.RunTiles(), whole)) << "tile by tile";
  if (segments == 1 && p.plan().k_step < k) {
    const std::vector<double> blocks = p.Run(1, 2, 3);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_LE(std::fabs(blocks[i] - expected[i]), error * (magnitude[i] + 1)) << "K blocks";
    }
  }
}

TEST_P(CAllRows, ComputesWhateverTheCuts) {
  const GemmKernel& row = *GetParam();
  const CpuFacts cpu = HostCpu().facts();
  const size_t m = std::min<size_t>(2 * TileM(row, cpu) + 1, 45);
  const size_t n = std::min<size_t>(2 * TileN(row, cpu) + 5, 150);
  const size_t k = RoundUp(100, row.k_divisor);
  for (size_t l = 0; l < LayoutCount(row); ++l) {
    Check(row, l, m, n, k, 1, false);
    Check(row, l, 1, 1, RoundUp(1, row.k_divisor), 1, false);
    if (HasFatalFailure()) return;
  }
  Check(row, 0, m, n, k, 1, true);
  if (row.layouts[0].scale == Format::kNone) Check(row, 0, m, n, RoundUp(20, row.k_divisor), 3, false);
}

INSTANTIATE_TEST_SUITE_P(All, CAllRows, testing::ValuesIn(Rows()),
                         [](const testing::TestParamInfo<const GemmKernel*>& info) {
                           return std::string(Name(*info.param).text);
                         });

// The numbers of the C interface cover what the library has.
TEST(CTypes, EveryEnumeratorHasANumber) {
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const auto f = static_cast<CpuFeature>(i);
    const int32_t arch = CpuFeatureArch(f) == Arch::kX86_64 ? QUERN_CPU_X86_64 : QUERN_CPU_AARCH64;
    bool found = false;
    for (int32_t bit = 0; bit < 64; ++bit) {
      const char* name = quern_cpu_feature_name(arch, bit);
      found = found || (name && std::strcmp(name, CpuFeatureName(f)) == 0);
    }
    EXPECT_TRUE(found) << CpuFeatureName(f);
  }
  for (int f = 1; std::strcmp(FormatName(static_cast<Format>(f)), "?") != 0; ++f) {
    EXPECT_STREQ(quern_ukernel_format_name(ToC(static_cast<Format>(f))), FormatName(static_cast<Format>(f)));
  }
  for (size_t i = 0; i < static_cast<size_t>(EpilogueKind::kCount); ++i) {
    const auto kind = static_cast<EpilogueKind>(i);
    EXPECT_STREQ(quern_ukernel_op_name(ToC(kind)), EpilogueName(kind));
  }
}

TEST(CTypes, LayoutsGoBothWays) {
  for (size_t i = 0; i < quern_ukernel_count(); ++i) {
    const GemmKernel& row = *FromC(quern_ukernel_at(i));
    for (size_t l = 0; l < LayoutCount(row); ++l) {
      PackLayout back;
      ASSERT_TRUE(FromC(ToC(row.layouts[l]), &back)) << Name(row).text;
      EXPECT_EQ(back, row.layouts[l]) << Name(row).text;
    }
  }
}

// Detection through the C interface finds what base/cpu.h finds.
TEST(CTypes, DetectsTheHost) {
  const quern_cpu cpu = Host();
  CpuFacts facts;
  ASSERT_TRUE(FromC(&cpu, &facts));
  const CpuFacts host = HostCpu().facts();
  EXPECT_EQ(facts.arch, host.arch);
  EXPECT_TRUE(facts.features.ContainsAll(host.features));
  EXPECT_EQ(facts.l1d_bytes, host.l1d_bytes);
  EXPECT_EQ(facts.l2_bytes, host.l2_bytes);
  EXPECT_EQ(facts.sve_vector_bytes, host.sve_vector_bytes);
  EXPECT_EQ(facts.sme_vector_bytes, host.sme_vector_bytes);
  EXPECT_EQ(facts.fma_ports, host.fma_ports);
}

}  // namespace
}  // namespace quern::ukernel
