// Runs any GEMM row on a problem given only its descriptor: makes operands, packs, transforms, loops over tiles and
// K blocks. The tests and benchmarks of all rows are made of it; the real driver is in src/kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/random_numbers.h"
#include "ukernel/convert.h"
#include "ukernel/gemm.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/number_kinds.h"
#include "ukernel/pack.h"
#include "ukernel/pair_bound.h"
#include "ukernel/quantize.h"
#include "ukernel/transform.h"

namespace quern::ukernel {

// kScaled: normal, each times a power of two from a range that the format bears.
enum class Fill : uint8_t { kSmallIntegers, kNormal, kScaled };

struct RowProblem {
  size_t m = 1, n = 1, k = 1;  // k per tap
  size_t taps = 1;
  size_t block = 32;        // of layouts with scales
  LhsForm form = kLhsRows;  // how the operator has the left side
  bool many_tiles = false;  // calls of all whole tiles of rows, of rows that take them
  size_t k_block = 0;       // 0: the whole K in one call; else calls of about this many k (single tap)
  size_t layout = 0;        // index into the row's layouts
  size_t lhs_row_gap = 3;   // elements between rows: odd strides
  size_t dst_row_gap = 5;
  Fill fill = Fill::kSmallIntegers;
  bool rhs_in_place = false;
  bool stream_into_l1 = false;  // GemmArgs::stream_into_l1
  uint32_t seed = 1;
  const NumberKind* kind = nullptr;  // of dense float operands, instead of the fill
  bool special = false;              // SpecialLhs in the first rows of float left sides
};

// Row 0 has an infinity at k 2, row 1 a NaN at k 3, row 2 only denormals, row 3 a number near the largest at k 1.
inline double SpecialLhs(Format f, size_t m, size_t k, double x) {
  const bool half = f == Format::kF16, wide = f == Format::kF64;
  if (m == 0 && k == 2) return HUGE_VAL;
  if (m == 1 && k == 3) return std::nan("");
  if (m == 2) return std::ldexp(1.0, half ? -20 : f == Format::kBf16 ? -130 : wide ? -1050 : -140);
  if (m == 3 && k == 1) return std::ldexp(1.0, half ? 13 : wide ? 1021 : 125);
  return x;
}

class RowRunner {
 public:
  RowRunner(const GemmKernel& row, const CpuFacts& cpu, const RowProblem& p)
      : row_(row),
        cpu_(cpu),
        p_(p),
        layout_(row.layouts[p.layout]),
        tile_m_(TileM(row, cpu)),
        tile_n_(TileN(row, cpu)),
        vector_bytes_(RowVectorBytes(row, cpu)) {}

  // Why the row cannot be run here at all; empty if it can.
  static std::string WhyNot(const GemmKernel& row, const CpuFacts& host) {
    if (!row.isa.any_arch && row.isa.arch != host.arch) return std::string("is for ") + ArchName(row.isa.arch);
    const CpuFeature missing = host.features.FirstMissing(row.isa.needs);
    if (missing != CpuFeature::kCount) return std::string("needs ") + CpuFeatureName(missing);
    if (!row.run) return "this compiler has no body for it";
    return "";
  }

  // Whether the row takes problems of this kind.
  bool Accepts() const {
    if (p_.k % row_.k_divisor) return false;
    if (layout_.scale != Format::kNone && (p_.block % row_.block_divisor || p_.taps > 1)) return false;
    if (FormatBits(layout_.element) < 8 && p_.taps > 1) return false;
    if (p_.rhs_in_place && !row_.rhs_in_place) return false;
    if (IsPrepared()) return p_.form == kLhsRows || p_.form == kLhsTaps;
    return (row_.lhs_forms & p_.form) != 0;
  }

  void Prepare() {
    MakeLhs();
    MakeRhs();
    const size_t out = result_bytes();
    dst_stride_ = (p_.n + p_.dst_row_gap) * out;
    dst_ = std::make_unique<GuardedBuffer>(p_.m ? (p_.m - 1) * dst_stride_ + p_.n * out : 0);
    acc_stride_ = (p_.n + 1) * out;
    acc_ = std::make_unique<GuardedBuffer>(p_.m ? (p_.m - 1) * acc_stride_ + p_.n * out : 0);
    FillResults();
    if (row_.scratch_bytes) scratch_ = std::make_unique<GuardedBuffer>(RoundUp(row_.scratch_bytes, kPackAlignment));
  }

  // The prepared operands again, by other calls: see RowProblem. Results of before are gone.
  void CallBy(size_t k_block, bool stream_into_l1) {
    p_.k_block = k_block;
    p_.stream_into_l1 = stream_into_l1;
    FillResults();
  }

  // The product with `ops` (all fused by the row) into dst.
  void Compute(const std::vector<EpilogueOp>& ops = {}) {
    if (row_.enter_mode) row_.enter_mode(row_.mode_config);
    ComputeInMode(ops);
    if (row_.leave_mode) row_.leave_mode();
  }

  void ComputeInMode(const std::vector<EpilogueOp>& ops) {
    const RhsGeometry g = DescribeRhs(layout_, shape_);
    const size_t k_all = p_.k;
    const size_t grain = std::max({RhsGroup(layout_), RhsGroup(row_.consumed), static_cast<size_t>(row_.kr),
                                   layout_.scale != Format::kNone ? p_.block : size_t{1}});
    const size_t k_step = p_.k_block && p_.taps == 1 ? RoundUp(p_.k_block, grain) : std::max<size_t>(k_all, 1);
    const bool transformed = !(row_.consumed == layout_) && !SameElements(layout_, row_.consumed);
    const TransformKernel* transform =
        transformed ? FindTransformKernel(layout_, row_.consumed, cpu_, Lookup::kRun) : nullptr;
    const size_t n_step = row_.whole_panel ? std::max<size_t>(p_.n, 1) : tile_n_;
    const size_t tiles = p_.many_tiles && row_.many_tiles ? std::max<size_t>(p_.m / tile_m_, 1) : 1;
    const size_t m_step = row_.whole_panel ? std::max<size_t>(p_.m, 1) : tiles * tile_m_;
    for (size_t n0 = 0; n0 < p_.n; n0 += n_step) {
      const size_t n = std::min(n_step, p_.n - n0);
      for (size_t k0 = 0; k0 == 0 || k0 < k_all; k0 += k_step) {
        const size_t k = std::min(k_step, k_all - k0);
        GemmArgs a;
        a.n = n;
        a.k = k;
        a.block = shape_.block;
        a.vector_bytes = vector_bytes_;
        a.first_k = k0 == 0;
        a.last_k = k0 + k >= k_all;
        a.acc_row_stride = acc_stride_;
        a.dst_row_stride = dst_stride_;
        a.ops = ops.data();
        a.op_count = a.last_k ? ops.size() : 0;
        a.n0 = n0;
        a.scratch = scratch_ ? scratch_->data() : nullptr;
        a.tap_count = p_.taps;
        a.stream_into_l1 = p_.stream_into_l1;
        SetRhs(a, g, n0, n, k0, k, transform);
        for (size_t m0 = 0; m0 < p_.m; m0 += m_step) {
          a.m = std::min(m_step, p_.m - m0);
          a.m0 = m0;
          a.acc = acc_->data() + m0 * acc_stride_ + n0 * result_bytes();
          a.dst = dst_->data() + m0 * dst_stride_ + n0 * result_bytes();
          SetLhs(a, m0, k0);
          row_.run(a);
        }
      }
    }
  }

  double LhsValue(size_t m, size_t tap, size_t k) const {
    if (row_.lhs == Format::kI8d) {
      return static_cast<double>(QuantizeDynamic(SourceValue(m, tap, k), row_params_[m]));
    }
    if (row_.lhs == Format::kI8b) {  // as numerics.md has it
      double largest = 0;
      for (size_t i = k / 32 * 32; i < std::min(k / 32 * 32 + 32, p_.k); ++i) {
        largest = std::max(largest, std::fabs(static_cast<double>(SourceValue(m, tap, i))));
      }
      const float d = static_cast<float>(largest) / 127.0f;
      const double q = d > 0 ? std::round(static_cast<double>(SourceValue(m, tap, k) * (1.0f / d))) : 0.0;
      return q * static_cast<double>(F16BitsToF32(F32ToF16Bits(d)));
    }
    if (source_format_ == Format::kF64) return LoadAs<double>(SourceRow(m, tap) + k * sizeof(double));
    const float x = SourceValue(m, tap, k);
    return static_cast<double>(Numbers() == Format::kF16 ? F16BitsToF32(F32ToF16Bits(x)) : x);
  }
  double RhsValue(size_t tap, size_t k, size_t n) const { return rhs_values_[(tap * p_.k + k) * p_.n + n]; }

  // What the accumulators must be, [m][n], and (if asked for) the sums of absolute products. In float64, of float64
  // with what its products and sums lose added up beside it (Ogita, Rump, Oishi: Accurate sum and dot product, 2005).
  std::vector<double> Reference(std::vector<double>* magnitude = nullptr) const {
    const bool compensated = row_.dst == Format::kF64;
    std::vector<double> c(p_.m * p_.n), lost(compensated ? p_.m * p_.n : 0);
    if (magnitude) magnitude->assign(p_.m * p_.n, 0.0);
    for (size_t m = 0; m < p_.m; ++m) {
      for (size_t t = 0; t < p_.taps; ++t) {
        for (size_t k = 0; k < p_.k; ++k) {
          const double x = LhsValue(m, t, k);
          for (size_t n = 0; n < p_.n; ++n) {
            const double w = RhsValue(t, k, n), y = x * w;
            double& sum = c[m * p_.n + n];
            const double before = sum;
            sum += y;
            if (compensated) {
              const double added = sum - before;
              lost[m * p_.n + n] += (before - (sum - added)) + (y - added) + std::fma(x, w, -y);
            }
            if (magnitude) (*magnitude)[m * p_.n + n] += std::fabs(y);
          }
        }
      }
    }
    for (size_t i = 0; i < lost.size(); ++i) c[i] += lost[i];
    return c;
  }

  // dst as float64; gaps between rows must still hold the fill byte.
  double Result(size_t m, size_t n) const {
    const char* p = dst_->data() + m * dst_stride_ + n * result_bytes();
    return row_.dst == Format::kI32 ? static_cast<double>(LoadAs<int32_t>(p)) : LoadNumber(row_.dst, p);
  }
  bool GapsUntouched() const {
    for (size_t m = 0; m + 1 < p_.m; ++m) {
      for (size_t i = p_.n * result_bytes(); i < dst_stride_; ++i) {
        if (dst_->data()[m * dst_stride_ + i] != 0x7e) return false;
      }
    }
    return true;
  }

  // What packing and transforming reported: a driver runs this product on multiply-add instead.
  bool FallsBack() const {
    return ((lhs_flags_ | rhs_flags_) & kPackSplitUnsafe) || (lhs_flags_ & rhs_flags_ & kPackSplitFew);
  }

  size_t result_bytes() const { return FormatBytes(row_.dst); }
  char* dst() const { return dst_->data(); }
  size_t dst_stride() const { return dst_stride_; }
  bool IsPrepared() const { return row_.lhs_layout.element != Format::kNone; }
  const PackLayout& layout() const { return layout_; }
  std::string Describe() const {
    return std::string(Name(row_).text) + " m=" + std::to_string(p_.m) + " n=" + std::to_string(p_.n) +
           " k=" + std::to_string(p_.k) + " taps=" + std::to_string(p_.taps) + " form=" + std::to_string(p_.form) +
           " k_block=" + std::to_string(p_.k_block) + " layout=" + std::to_string(p_.layout) +
           " block=" + std::to_string(p_.block);
  }

 private:
  const char* SourceRow(size_t m, size_t tap) const {
    if (p_.form == kLhsRowPointers) return static_cast<const char*>(pointers_[tap * p_.m + m]);
    return lhs_->data() + m * lhs_stride_ + static_cast<ptrdiff_t>(tap) * static_cast<ptrdiff_t>(lhs_stride_);
  }
  float SourceValue(size_t m, size_t tap, size_t k) const {
    return LoadFloat(source_format_, SourceRow(m, tap) + k * FormatBytes(source_format_));
  }

  // What dense left sides are multiplied as: float32 rows may be narrowed.
  Format Numbers() const { return row_.lhs_layout.element == Format::kF16 ? Format::kF16 : source_format_; }

  double Draw(std::mt19937& rng, Format f, const Side NumberKind::* side, size_t line, size_t k) const {
    if (p_.kind) return static_cast<double>((p_.kind->*side).Draw(rng, line, k, p_.k));
    if (f == Format::kU8) return static_cast<double>(rng() % 256);
    if (f == Format::kI8) return static_cast<int>(rng() % 256) - 128;
    if (p_.fill == Fill::kSmallIntegers) return static_cast<int>(rng() % 7) - 3;
    const double x = f == Format::kF64 ? NormalNumbers<double>()(rng) : double{NormalNumbers<float>()(rng)};
    if (p_.fill == Fill::kNormal) return x;
    const int reach = f == Format::kF16 ? 5 : 12;
    return std::ldexp(x, static_cast<int>(rng() % static_cast<unsigned>(2 * reach + 1)) - reach);
  }
  static void Put(Format f, char* p, double x) {
    if (f == Format::kU8 || f == Format::kI8) {
      *p = static_cast<char>(static_cast<int>(x));
    } else {
      StoreNumber(f, p, x);
    }
  }

  void FillResults() {
    std::memset(dst_->data(), 0x7e, dst_->bytes());
    std::memset(acc_->data(), 0x7d, acc_->bytes());
  }

  // Taps read shifted rows: row m of tap t is row m + t of the buffer. Row pointers visit the rows in a scrambled
  // order, some of them the zero row.
  void MakeLhs() {
    std::mt19937 rng(p_.seed);
    source_format_ = LhsSourceFormat(row_);
    const size_t element = FormatBytes(source_format_);
    lhs_stride_ = (p_.k + p_.lhs_row_gap) * element;
    const size_t rows = p_.m + (p_.form == kLhsTaps ? p_.taps - 1 : 0);
    lhs_ = std::make_unique<GuardedBuffer>(rows && p_.k ? (rows - 1) * lhs_stride_ + p_.k * element : 0);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t k = 0; k < p_.k; ++k) {
        double x = Draw(rng, source_format_, &NumberKind::lhs, r, k);
        // Blocks whose scales are powers of two: exact.
        if (row_.lhs == Format::kI8b && p_.fill == Fill::kSmallIntegers && k % 32 == 0) {
          x = std::ldexp(127.0, static_cast<int>(rng() % 3));
        }
        Put(source_format_, lhs_->data() + r * lhs_stride_ + k * element,
            p_.special ? SpecialLhs(Numbers(), r, k, x) : x);
      }
    }
    zero_ = std::make_unique<GuardedBuffer>(p_.k * element);
    std::memset(zero_->data(), 0, zero_->bytes());
    if (p_.form == kLhsRowPointers) {
      for (size_t t = 0; t < p_.taps; ++t) {
        for (size_t m = 0; m < p_.m; ++m) {
          const bool zero = (t * 5 + m * 3) % 7 == 3;
          pointers_.push_back(zero ? zero_->data() : lhs_->data() + (m * 7 + t * 3) % p_.m * lhs_stride_);
        }
      }
      // The kernel is to add the offset to all but the zero row.
      moved_ = pointers_;
      for (const void*& p : moved_) {
        if (p != zero_->data()) p = static_cast<const char*>(p) - kPointerOffset;
      }
    }
    for (size_t t = 0; t < p_.taps; ++t) {
      taps_.push_back({static_cast<ptrdiff_t>(t * lhs_stride_), 0});
    }
    if (!IsPrepared()) return;
    LhsSource source;
    source.format = source_format_;
    source.form = p_.form;
    source.data = lhs_->data();
    source.row_stride = static_cast<ptrdiff_t>(lhs_stride_);
    source.taps = taps_.data();
    lhs_shape_ = {.m = p_.m,
                  .k = p_.k,
                  .segments = p_.taps,
                  .segment_align = layout_.k_interleave,
                  .vector_bytes = vector_bytes_};
    lhs_geometry_ = DescribeLhs(row_.lhs_layout, lhs_shape_);
    packed_lhs_ = std::make_unique<GuardedBuffer>(lhs_geometry_.total_bytes);
    const LhsPackKernel* fast = FindLhsPackKernel(row_.lhs_layout, source, cpu_, Lookup::kRun);
    lhs_flags_ =
        (fast ? fast->run : PackLhs)(row_.lhs_layout, lhs_shape_, source, 0, lhs_geometry_.panels, packed_lhs_->data());
    if (row_.lhs == Format::kI8d) {
      for (size_t m = 0; m < p_.m; ++m) {
        row_params_.push_back({LoadAs<float>(packed_lhs_->data() + lhs_geometry_.scales_offset + m * 4),
                               LoadAs<float>(packed_lhs_->data() + lhs_geometry_.zero_points_offset + m * 4)});
      }
    }
  }

  void MakeRhs() {
    std::mt19937 rng(p_.seed + 77);
    const bool blocks = layout_.scale != Format::kNone;
    const bool fours = layout_.element == Format::kU4 && !blocks;
    shape_ = {.k = p_.k, .n = p_.n, .segments = p_.taps, .block = blocks ? p_.block : 0, .vector_bytes = vector_bytes_};
    RhsSource s;
    std::vector<char> data, scales, zeros;
    if (blocks) {
      const size_t count = CeilDiv(p_.k, p_.block);
      const size_t bits = FormatBits(row_.rhs);
      const size_t bytes = p_.block * bits / 8;
      data.resize(p_.n * count * bytes);
      for (char& c : data) c = static_cast<char>(rng());
      s.format = row_.rhs;
      s.data = data.data();
      s.block_stride = static_cast<ptrdiff_t>(bytes);
      s.n_stride = static_cast<ptrdiff_t>(count * bytes);
      s.scale_format = layout_.scale;
      const size_t element = FormatBytes(layout_.scale);
      scales.resize(p_.n * count * element);
      for (size_t i = 0; i < p_.n * count; ++i) {
        const float x = p_.fill == Fill::kSmallIntegers ? std::ldexp(1.0f, static_cast<int>(rng() % 3))
                                                        : 0.01f + 0.001f * static_cast<float>(rng() % 64);
        StoreFloat(layout_.scale, scales.data() + i * element, x);
      }
      s.scales = scales.data();
      s.scale_n_stride = static_cast<ptrdiff_t>(count * element);
      s.scale_block_stride = static_cast<ptrdiff_t>(element);
      if (layout_.offset != Format::kNone) {
        const size_t row_bytes = CeilDiv(count * bits, 8);
        zeros.resize(p_.n * row_bytes);
        for (char& c : zeros) c = static_cast<char>(rng());
        s.zero_points = zeros.data();
        s.zero_point_format = row_.rhs;
        s.zero_point_n_stride = static_cast<ptrdiff_t>(row_bytes);
      }
    } else if (fours) {  // two's complement
      const size_t row_bytes = CeilDiv(p_.k, 2);
      data.resize(p_.n * row_bytes);
      for (char& c : data) c = static_cast<char>(rng());
      s.format = Format::kI4;
      s.data = data.data();
      s.n_stride = static_cast<ptrdiff_t>(row_bytes);
    } else {
      const Format f = FormatTerms(row_.rhs) > 1 ? Format::kF32 : row_.rhs;
      const size_t element = FormatBytes(f);
      data.resize(p_.taps * p_.k * p_.n * element);
      for (size_t i = 0; i < p_.taps * p_.k * p_.n; ++i) {
        Put(f, data.data() + i * element, Draw(rng, f, &NumberKind::rhs, i % p_.n, i / p_.n % p_.k));
      }
      s.format = f;
      s.data = data.data();
      s.n_stride = static_cast<ptrdiff_t>(element);
      s.k_stride = static_cast<ptrdiff_t>(p_.n * element);
      s.segment_stride = static_cast<ptrdiff_t>(p_.k * p_.n * element);
    }
    const RhsGeometry g = DescribeRhs(layout_, shape_);
    packed_ = std::make_unique<GuardedBuffer>(g.total_bytes);
    const PackKernel* fast = FindPackKernel(layout_, s, cpu_, Lookup::kRun);
    (fast ? fast->run : PackRhs)(layout_, shape_, s, 0, g.units, packed_->data());
    rhs_values_.resize(p_.taps * p_.k * p_.n);
    for (size_t t = 0; t < p_.taps; ++t) {
      for (size_t k = 0; k < p_.k; ++k) {
        for (size_t n = 0; n < p_.n; ++n) {
          const size_t i = (t * p_.k + k) * p_.n + n;
          // Dense sources are what was drawn; blocks are read back through the unpacker.
          if (fours) {
            const int q = data[n * CeilDiv(p_.k, 2) + k / 2] >> (k % 2 * 4) & 15;
            rhs_values_[i] = q < 8 ? q : q - 16;
            continue;
          }
          rhs_values_[i] = blocks ? static_cast<double>(UnpackRhsElement(layout_, shape_, packed_->data(), k, n))
                                  : LoadNumber(s.format, data.data() + i * FormatBytes(s.format));
        }
      }
    }
    for (size_t t = 0; t < p_.taps; ++t)
      taps_[t].rhs_offset = RhsElementBytes(row_.consumed, g.n_unit, t * g.segment_k);
    if (p_.rhs_in_place) {
      in_place_ = std::make_unique<GuardedBuffer>(data.size());
      std::memcpy(in_place_->data(), data.data(), data.size());
    }
  }

  void SetRhs(GemmArgs& a, const RhsGeometry& g, size_t n0, size_t n, size_t k0, size_t k,
              const TransformKernel* transform) {
    const size_t unit = n0 / g.n_unit;
    char* first = packed_->data() + g.UnitOffset(unit);
    const size_t block0 = shape_.block ? k0 / shape_.block : 0;
    a.rhs = first + RhsElementBytes(layout_, g.n_unit, k0);
    a.rhs_unit_stride = g.unit_stride;
    a.rhs_tap_stride = RhsElementBytes(row_.consumed, g.n_unit, g.segment_k);
    a.rhs_scales = first + g.scales_offset + block0 * g.n_unit * FormatBytes(layout_.scale);
    a.rhs_offsets = first + g.offsets_offset + block0 * g.n_unit * FormatBytes(layout_.offset);
    a.rhs_scale = layout_.scale;
    a.rhs_offset = layout_.offset;
    a.rhs_sums = packed_->data() + g.sums_offset + n0 * 4;
    if (row_.uses_pairs && !transform) a.rhs_pair_bound = FindPairBound(layout_, g, packed_->data());
    if (p_.rhs_in_place) {
      a.rhs_form = RhsForm::kInPlace;
      a.rhs_k_stride = p_.n * FormatBytes(row_.rhs);
      a.rhs = in_place_->data() + k0 * a.rhs_k_stride + n0 * FormatBytes(row_.rhs);
      return;
    }
    if (!transform) return;
    const size_t units = CeilDiv(n, g.n_unit);
    // All taps of a transformed right side are one K range.
    const size_t k_range = p_.taps > 1 ? g.padded_k : std::min(RoundUp(k, RhsGroup(layout_)), g.padded_k - k0);
    const RhsShape block{.k = k_range, .n = units * g.n_unit, .block = shape_.block, .vector_bytes = vector_bytes_};
    PackLayout to = row_.consumed;
    to.sums = to.bias = Format::kNone;
    to.channel_scales = false;
    const RhsGeometry t = DescribeRhs(to, block);
    if (!panel_ || panel_->bytes() != t.total_bytes) panel_ = std::make_unique<GuardedBuffer>(t.total_bytes);
    TransformArgs args;
    args.src = a.rhs;
    args.src_unit_stride = g.unit_stride;
    args.src_scales = a.rhs_scales;
    args.src_offsets = a.rhs_offsets;
    args.src_scale = layout_.scale;
    args.src_offset = layout_.offset;
    args.dst = panel_->data();
    args.dst_unit_stride = t.unit_stride;
    args.dst_scales_offset = t.scales_offset;
    args.k = k_range;
    args.units = units;
    args.n_unit = g.n_unit;
    args.block = shape_.block;
    rhs_flags_ |= transform->run(args);
    a.rhs = panel_->data();
    a.rhs_unit_stride = t.unit_stride;
    a.rhs_scales = panel_->data() + t.scales_offset;
    a.rhs_offsets = nullptr;
    a.rhs_scale = to.scale;
    a.rhs_offset = to.offset;
  }

  void SetLhs(GemmArgs& a, size_t m0, size_t k0) {
    if (IsPrepared()) {
      const size_t panel = m0 / lhs_geometry_.m_unit;
      a.lhs = packed_lhs_->data() + panel * lhs_geometry_.panel_stride +
              LhsElementBytes(row_.lhs_layout, lhs_geometry_.m_unit, k0);
      a.lhs_row_stride = static_cast<ptrdiff_t>(lhs_geometry_.panel_stride);
      a.lhs_form = (row_.lhs_forms & kLhsPacked) ? kLhsPacked : kLhsRows;
      if (row_.lhs_layout.block) {
        a.lhs_scales = packed_lhs_->data() + panel * lhs_geometry_.panel_stride + lhs_geometry_.block_scales_offset +
                       k0 / row_.lhs_layout.block * lhs_geometry_.m_unit * sizeof(float);
      }
      // Segments lie one after another in a prepared row.
      if (p_.taps > 1) {
        a.k = lhs_geometry_.segment_k * p_.taps;
        a.tap_count = 1;
      }
      return;
    }
    a.lhs_form = p_.form;
    a.lhs = lhs_->data() + m0 * lhs_stride_ + k0 * FormatBytes(source_format_);
    a.lhs_row_stride = static_cast<ptrdiff_t>(lhs_stride_);
    a.taps = taps_.data();
    if (p_.form == kLhsRowPointers) {
      a.row_pointers = moved_.data() + m0;
      a.row_pointer_pitch = p_.m;
      a.row_pointer_offset = kPointerOffset;
      a.zero_row = zero_->data();
      if (k0) {  // a later K block starts further on in every row, also in the zero row
        block_pointers_ = moved_;
        for (const void*& q : block_pointers_) {
          q = static_cast<const char*>(q) + k0 * FormatBytes(source_format_);
        }
        a.row_pointers = block_pointers_.data() + m0;
        a.zero_row = zero_->data() + k0 * FormatBytes(source_format_);
      }
    }
  }

  static constexpr ptrdiff_t kPointerOffset = 48;

  const GemmKernel& row_;
  const CpuFacts cpu_;
  RowProblem p_;
  const PackLayout layout_;
  const size_t tile_m_, tile_n_, vector_bytes_;
  Format source_format_ = Format::kF32;
  RhsShape shape_;
  LhsShape lhs_shape_;
  LhsGeometry lhs_geometry_;
  size_t lhs_stride_ = 0, dst_stride_ = 0, acc_stride_ = 0;
  std::unique_ptr<GuardedBuffer> lhs_, zero_, packed_lhs_, packed_, panel_, in_place_, dst_, acc_, scratch_;
  std::vector<const void*> pointers_, moved_, block_pointers_;
  std::vector<Tap> taps_;
  std::vector<double> rhs_values_;
  std::vector<DynamicRow> row_params_;
  uint32_t lhs_flags_ = kPackFine, rhs_flags_ = kPackFine;
};

}  // namespace quern::ukernel
