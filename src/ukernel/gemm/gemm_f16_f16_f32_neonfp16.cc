// float16 products on NEON in float16 arithmetic: sums over at most 32 k, which are then added in float32.
#include "ukernel/gemm/rows_f32_neon.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/operands_f16_neon.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
constexpr size_t kChunk = 32;  // k summed in float16
constexpr size_t kBlock = 8;   // k loaded at once from each row

template <int MR, int NU>
struct TileF16 : TileEpilogue<Vector, MR, NU> {
  using Base = TileEpilogue<Vector, MR, NU>;
  using Sums = float16x8_t[MR][NU];

  template <int I>
  QUERN_INLINE static void LaneSteps(Sums& sum, const float16x8_t (&x)[MR], const char* rhs, size_t unit_stride) {
    if constexpr (I < kBlock) {
      QUERN_UNROLL for (int u = 0; u < NU; ++u) {
        const auto* p = reinterpret_cast<const float16_t*>(rhs + static_cast<size_t>(u) * unit_stride);
        const float16x8_t w = vld1q_f16(p + I * Vector::kUnit);
        QUERN_UNROLL for (int r = 0; r < MR; ++r) sum[r][u] = vfmaq_laneq_f16(sum[r][u], w, x[r], I);
      }
      LaneSteps<I + 1>(sum, x, rhs, unit_stride);
    }
  }

  // At most kChunk k, added to the tile's float32 sums.
  QUERN_INLINE static void Chunk(typename Base::Acc& acc, const float16_t* const (&row)[MR], const char* rhs,
                                 size_t unit_stride, size_t k_count) {
    Sums sum;
    QUERN_UNROLL for (int r = 0; r < MR; ++r) { QUERN_UNROLL for (int u = 0; u < NU; ++u) sum[r][u] = vdupq_n_f16(0); }
    size_t k = 0;
    for (; k + kBlock <= k_count; k += kBlock, rhs += kBlock * Vector::kUnit * sizeof(float16_t)) {
      float16x8_t x[MR];
      QUERN_UNROLL for (int r = 0; r < MR; ++r) x[r] = vld1q_f16(row[r] + k);
      LaneSteps<0>(sum, x, rhs, unit_stride);
    }
    for (; k < k_count; ++k, rhs += Vector::kUnit * sizeof(float16_t)) {
      QUERN_UNROLL for (int u = 0; u < NU; ++u) {
        const float16x8_t w = vld1q_f16(reinterpret_cast<const float16_t*>(rhs + static_cast<size_t>(u) * unit_stride));
        QUERN_UNROLL for (int r = 0; r < MR; ++r) sum[r][u] = vfmaq_f16(sum[r][u], w, vdupq_n_f16(row[r][k]));
      }
    }
    Base::Each([&](int r, int v) { acc[r][v] = vaddq_f32(acc[r][v], Halves(sum[r][v / 2], v % 2)); });
  }

  static void Run(const GemmArgs& a) {
    typename Base::Acc acc;
    const typename Base::Tail tail = Base::MakeTail(a.n);
    if (a.first_k) {
      Base::Each([&](int r, int v) { acc[r][v] = Vector::Zero(); });
    } else {
      Base::Read(a.acc, a.acc_row_stride, acc, tail);
    }
    EachTap<float16_t, MR>(a, [&](const float16_t* const(&row)[MR], const char* rhs) __attribute__((always_inline)) {
      for (size_t k = 0; k < a.k; k += kChunk) {
        const float16_t* at[MR];
        QUERN_UNROLL for (int r = 0; r < MR; ++r) at[r] = row[r] + k;
        Chunk(acc, at, rhs + k * Vector::kUnit * sizeof(float16_t), a.rhs_unit_stride,
              a.k - k < kChunk ? a.k - k : kChunk);
      }
    });
    if (a.last_k) {
      Base::Apply(a, a.ops, a.ops + a.op_count, acc, tail);
      Base::Write(a.dst, a.dst_row_stride, acc, tail);
    } else {
      Base::Write(a.acc, a.acc_row_stride, acc, tail);
    }
  }
};

template <int MR, int NU>
void Dispatch(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * Vector::kUnit)) return Dispatch<MR, NU - 1>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return Dispatch<MR - 1, NU>(a);
  }
  TileF16<MR, NU>::Run(a);
}

static constexpr GemmRun kRun = Dispatch<8, 2>;
#else
static constexpr GemmRun kRun = nullptr;
#endif

constexpr GemmKernel Row() {
  GemmKernel row = NeonTile(Format::kF16, kF16x8, 8, 16, 0.6f, kRun);  // eight lanes, and the float32 sums
  row.precision = Precision::kFp16;
  return row;
}

static constexpr GemmKernel kRows[] = {Row()};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
