// A few float32 rows by block-quantized weights on x86: the weights are read once, as they lie in memory, become
// float32 in registers, and the results of all rows stay there along K. For kernel files only: everything has internal
// linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/block_accumulators.h"
#include "ukernel/gemm/prefetch.h"
#include "ukernel/gemm/tile_blocks_few.h"
#include "ukernel/gemm/tile_f32_blocks.h"
#include "ukernel/pin_order.h"

namespace quern::ukernel {
namespace {

[[maybe_unused]] constexpr size_t kFewChunk = 1024;            // k
[[maybe_unused]] constexpr size_t kFewStage = 8 * kFewChunk;   // k, of up to two rows
[[maybe_unused]] constexpr size_t kFewPitch = kFewChunk + 32;  // floats between copied rows

// The scratch of a call with R rows, less the accumulators.
template <int R>
struct FewScratch {
  // Rows that are a power of two apart fall into the same sets of L1, which takes turns for more than two: such are
  // copied, kStage of K at once. Else a stage is what the sums of rows have room for.
  static constexpr bool kCopies = R > 2;
  static constexpr size_t kStage = kCopies ? kFewChunk : kFewStage;
  float row_sums[R * kStage / 16];
  float rest[R * 32];
  float rows[kCopies ? R * kFewPitch : 1];
};

// The sum of kPiece elements.
template <size_t kPiece>
float SumOf(const float* x) {
  typedef float Four __attribute__((vector_size(16)));
  Four part[kPiece / 4];
  __builtin_memcpy(part, x, sizeof(part));
  QUERN_UNROLL for (size_t n = kPiece / 8; n > 0; n /= 2) {
    QUERN_UNROLL for (size_t i = 0; i < n; ++i) part[i] += part[i + n];
  }
  return (part[0][0] + part[0][2]) + (part[0][1] + part[0][3]);
}

// acc = acc + scale * (sum of x * (q - zero)) for each piece of 32 k (16 where blocks are no multiple of 32), then
// + minimum * (sum of x) where the weights have float offsets; sums by FMA in several parts.
//
// W: what the numbers of a line, 32 bits of each column, are as weights (numbers_*.h):
//   V                            float32 and int32 lanes
//   kElement, kZeros
//   kSums                        vectors of sums that there are registers for
//   kInOrder                     registers are few: nothing is begun before it is needed, results wait in L1
//   W(int32 lanes of the block's zero points), W() where they are constant or minima
//   Get<i>(line)                 the weights of its i-th k
template <class W, int NR, int R>
struct F32BlocksFew {
  using V = typename W::V;
  using Int = typename V::Int;
  using Reg = typename V::Reg;

  static constexpr BlockZero kZeros = W::kZeros;
  static constexpr size_t kUnit = V::kUnit;
  static constexpr size_t kPerLine = 32 / FormatBits(W::kElement), kLine = kUnit * 4;
  static constexpr size_t kOffset = kUnit * (kZeros == BlockZero::kMinimum ? sizeof(float) : 1);  // bytes of a block
  // Sums of a piece, as additions wait for each other; pieces worked on at once. As many as registers hold.
  static constexpr int kTogether = R * 4 <= W::kSums && !W::kInOrder ? 2 : 1;
  static constexpr int kSets = R * kTogether * 4 <= W::kSums ? 4 : 2;
  using Scratch = FewScratch<R>;
  static constexpr bool kCopies = Scratch::kCopies;
  static constexpr size_t kStage = Scratch::kStage, kPitch = kFewPitch;
  static constexpr size_t kAhead = 8192;  // bytes of weights, of which memory is asked for so early

  // Pieces of one vector of columns.
  struct Chunk {
    const char* weights;
    const char* scales;
    const char* offsets;
    const float* lhs[R];
    const float* row_sums;  // kStage / 16 apart
    float* floats;          // NR apart
    size_t pieces;
    size_t in_block, block;  // pieces of which all have the same scale
    Format scale;
    size_t scale_bytes;  // of a block of the unit
    // What memory is asked for lies so far ahead of what is worked on; from the piece `turn` on it is the next unit's,
    // which is farther by the gaps.
    ptrdiff_t ahead, scales_ahead;
    ptrdiff_t gap, scales_gap;
    size_t turn;
    bool into_l1;  // GemmArgs::stream_into_l1
  };

  // P pieces, of which `apart` says how many blocks are from one to the next.
  template <int P, size_t kPiece>
  QUERN_INLINE static void Pieces(const Chunk& c, size_t apart, Reg (&acc)[R]) {
    constexpr size_t kLines = kPiece / kPerLine, kBytes = kLines * kLine;
    W weights[P];
    Reg sum[P][kSets][R];
    QUERN_UNROLL for (int p = 0; p < P; ++p) {
      if constexpr (kZeros == BlockZero::kInteger) weights[p] = W(V::LoadZeros(c.offsets + p * apart * kOffset));
    }
    QUERN_UNROLL for (size_t l = 0; l < kLines; ++l) {
      Int line[P];
      QUERN_UNROLL for (int p = 0; p < P; ++p) {
        PrefetchStream(c.weights + c.ahead + p * kBytes + l * kLine, c.into_l1);
        line[p] = V::LoadInt(reinterpret_cast<const int32_t*>(c.weights + p * kBytes + l * kLine));
      }
      Steps<0, P, kPiece>(sum, weights, line, c.lhs, l * kPerLine);
    }
    QUERN_UNROLL for (int p = 0; p < P; ++p) {
      const char* scales = c.scales + p * apart * c.scale_bytes;
      PrefetchStream(scales + c.scales_ahead, c.into_l1);
      const Reg scale = V::LoadScale(scales, c.scale);
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        QUERN_UNROLL for (int s = kSets / 2; s > 0; s /= 2) {
          QUERN_UNROLL for (int t = 0; t < s; ++t) sum[p][t][r] = V::Add(sum[p][t][r], sum[p][t + s][r]);
        }
        if constexpr (W::kInOrder) acc[r] = V::Load(c.floats + r * NR);
        acc[r] = V::Fma(sum[p][0][r], scale, acc[r]);
        if constexpr (kZeros == BlockZero::kMinimum) {
          const Reg minimum = V::Load(reinterpret_cast<const float*>(c.offsets + p * apart * kOffset));
          acc[r] = V::Fma(V::Broadcast(c.row_sums + r * (kStage / 16) + p), minimum, acc[r]);
        }
        if constexpr (W::kInOrder) V::Store(c.floats + r * NR, acc[r]);
      }
    }
  }

  // The k of a line from the kStep-th on, in the order of their places.
  template <int kStep, int P, size_t kPiece>
  QUERN_INLINE static void Steps(Reg (&sum)[P][kSets][R], const W (&weights)[P], const Int (&line)[P],
                                 const float* const (&lhs)[R], size_t k) {
    if constexpr (kStep < static_cast<int>(kPerLine)) {
      constexpr int kPerByte = static_cast<int>(kPerLine) / 4, kAt = kStep % kPerByte * 4 + kStep / kPerByte;
      constexpr int kSet = kStep % kSets;
      QUERN_UNROLL for (int p = 0; p < P; ++p) {
        const Reg w = weights[p].template Get<kAt>(line[p]);
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          const Reg x = V::Broadcast(lhs[r] + p * kPiece + k + kAt);
          sum[p][kSet][r] = k == 0 && kStep < kSets ? V::Mul(x, w) : V::Fma(x, w, sum[p][kSet][r]);
          if constexpr (W::kInOrder) PinOrder(sum[p][kSet][r]);
        }
      }
      Steps<kStep + 1, P, kPiece>(sum, weights, line, lhs, k);
    }
  }

  // After P pieces.
  template <int P, size_t kPiece>
  QUERN_INLINE static void Advance(Chunk& c, size_t apart) {
    constexpr size_t kBytes = P * kPiece / kPerLine * kLine;
    c.weights += kBytes;
    QUERN_UNROLL for (int r = 0; r < R; ++r) c.lhs[r] += P * kPiece;
    c.row_sums += P;
    c.in_block += P;
    if (c.in_block >= c.block) {
      const size_t blocks = apart ? P : 1;
      c.in_block = 0;
      c.scales += blocks * c.scale_bytes;
      c.offsets += blocks * kOffset;
    }
  }

  template <size_t kPiece>
  __attribute__((noinline)) static void Work(const Chunk& chunk) {
    Chunk c = chunk;
    Reg acc[R];
    QUERN_UNROLL for (int r = 0; r < R; ++r) acc[r] = V::Load(c.floats + r * NR);
    const bool together = kTogether > 1 && (c.block == 1 || c.block % kTogether == 0);
    const size_t apart = c.block == 1 ? 1 : 0;
    for (size_t part = c.turn, left = c.pieces; left > 0; part = left) {
      left -= part;
      for (; together && part >= kTogether; part -= kTogether) {
        Pieces<kTogether, kPiece>(c, apart, acc);
        Advance<kTogether, kPiece>(c, apart);
      }
      for (; part > 0; --part) {
        Pieces<1, kPiece>(c, 0, acc);
        Advance<1, kPiece>(c, 0);
      }
      c.ahead += c.gap;
      c.scales_ahead += c.scales_gap;
    }
    if constexpr (W::kInOrder) return;
    QUERN_UNROLL for (int r = 0; r < R; ++r) V::Store(c.floats + r * NR, acc[r]);
  }

  // What is staged of K, [k0, k0 + count).
  struct Stage {
    size_t k0, count;
    const float* lhs;  // `stride` apart
    size_t stride;
  };

  // The unit at n against [k, k + pieces * kPiece), whose rows are at `lhs`.
  template <size_t kPiece>
  __attribute__((noinline)) static void Unit(const GemmArgs& a, Scratch& s, float* floats, const Stage& stage, size_t n,
                                             size_t k, size_t pieces, const float* lhs, size_t stride) {
    constexpr size_t kBytes = kPiece / kPerLine * kLine;
    const size_t unit = n / kUnit * a.rhs_unit_stride, block = k / a.block;
    const size_t staged = stage.count / kPiece, done = (k - stage.k0) / kPiece;
    const size_t blocks = CeilDiv(stage.k0 + stage.count, a.block) - stage.k0 / a.block;
    Chunk c;
    c.scale = a.rhs_scale;
    c.scale_bytes = kUnit * FormatBytes(a.rhs_scale);
    c.pieces = pieces;
    c.block = a.block / kPiece;
    c.into_l1 = a.stream_into_l1;
    // Not beyond the next unit.
    const size_t far = kAhead / kBytes < staged ? kAhead / kBytes : staged;
    const size_t turn = (staged - far) / kTogether * kTogether;
    c.ahead = static_cast<ptrdiff_t>(far * kBytes);
    c.scales_ahead = static_cast<ptrdiff_t>(far / c.block * c.scale_bytes);
    c.gap = static_cast<ptrdiff_t>(a.rhs_unit_stride - staged * kBytes);
    c.scales_gap = static_cast<ptrdiff_t>(a.rhs_unit_stride - blocks * c.scale_bytes);
    c.turn = turn < done ? 0 : turn - done < pieces ? turn - done : pieces;
    for (size_t r = 0; r < R; ++r) c.lhs[r] = lhs + r * stride;
    c.row_sums = s.row_sums + done;
    for (size_t v = 0; v < kUnit; v += V::kLanes) {
      c.weights = static_cast<const char*>(a.rhs) + unit + k / kPerLine * kLine + v * 4;
      c.scales = static_cast<const char*>(a.rhs_scales) + unit + block * c.scale_bytes + v * FormatBytes(a.rhs_scale);
      c.offsets = static_cast<const char*>(a.rhs_offsets) + unit + block * kOffset + v * (kOffset / kUnit);
      c.floats = floats + n + v;
      c.in_block = k % a.block / kPiece;
      Work<kPiece>(c);
    }
  }

  template <size_t kPiece>
  static void Product(const GemmArgs& a, Scratch& s, float* floats) {
    const auto* lhs = static_cast<const float*>(a.lhs);
    const size_t stride = static_cast<size_t>(a.lhs_row_stride) / sizeof(float);
    for (size_t k0 = 0; k0 < a.k; k0 += kStage) {
      const size_t count = a.k - k0 < kStage ? a.k - k0 : kStage, whole = count / kPiece * kPiece;
      Stage stage{k0, RoundUp(count, kPiece), lhs + k0, stride};
      if constexpr (kCopies) {
        for (size_t r = 0; r < R; ++r) {
          __builtin_memcpy(s.rows + r * kPitch, stage.lhs + r * stride, count * sizeof(float));
        }
        stage.lhs = s.rows;
        stage.stride = kPitch;
      }
      for (size_t i = 0; whole < count && i < R * kPiece; ++i) {  // rows end here
        const size_t k = whole + i % kPiece;
        s.rest[i] = k < count ? stage.lhs[i / kPiece * stage.stride + k] : 0;
      }
      for (size_t r = 0; kZeros == BlockZero::kMinimum && r < R; ++r) {
        float* sums = s.row_sums + r * (kStage / 16);
        for (size_t k = 0; k < whole; k += kPiece) *sums++ = SumOf<kPiece>(stage.lhs + r * stage.stride + k);
        if (whole < count) *sums = SumOf<kPiece>(s.rest + r * kPiece);
      }
      for (size_t n = 0; n < a.n; n += kUnit) {
        // Several vectors of a unit read the same lines, out of L1.
        const size_t chunk = kUnit > V::kLanes ? kFewChunk : kStage;
        for (size_t k = 0; k < whole; k += chunk) {
          const size_t length = whole - k < chunk ? whole - k : chunk;
          Unit<kPiece>(a, s, floats, stage, n, k0 + k, length / kPiece, stage.lhs + k, stage.stride);
        }
        if (whole < count) Unit<kPiece>(a, s, floats, stage, n, k0 + whole, 1, s.rest, kPiece);
      }
    }
  }

  __attribute__((noinline)) static void Run(const GemmArgs& a, float* floats, void* scratch) {
    auto& s = *static_cast<Scratch*>(scratch);
    a.block % 32 == 0 ? Product<32>(a, s, floats) : Product<16>(a, s, floats);
  }
};

// The body for the call's m and kind of zeros. Numbers<element, zeros> is what F32BlocksFew takes.
template <template <Format, BlockZero> class Numbers, Format kElement, int NR, int R>
void F32BlocksFewRows(const GemmArgs& a, float* floats, void* scratch) {
  if constexpr (R > 1) {
    if (a.m < static_cast<size_t>(R)) return F32BlocksFewRows<Numbers, kElement, NR, R - 1>(a, floats, scratch);
  }
  if constexpr (kElement != Format::kI8) {
    if (a.rhs_offset == Format::kF32) {
      return F32BlocksFew<Numbers<kElement, BlockZero::kMinimum>, NR, R>::Run(a, floats, scratch);
    }
    if (a.rhs_offset == Format::kU8) {
      return F32BlocksFew<Numbers<kElement, BlockZero::kInteger>, NR, R>::Run(a, floats, scratch);
    }
  }
  F32BlocksFew<Numbers<kElement, BlockZero::kConstant>, NR, R>::Run(a, floats, scratch);
}

template <template <Format, BlockZero> class Numbers, Format kElement, int MR, int NR>
void RunF32BlocksFew(const GemmArgs& a) {
  using V = typename Numbers<kElement, BlockZero::kConstant>::V;
  using Accumulators = BlockAccumulators<V, false, MR, NR>;
  auto* acc = static_cast<int32_t*>(a.scratch);
  PrefetchColumnOperands(a);
  Accumulators::Start(a, acc);
  F32BlocksFewRows<Numbers, kElement, NR, MR>(a, reinterpret_cast<float*>(acc), acc + MR * NR);
  Accumulators::Finish(a, acc);
}

// The descriptor of such a row.
template <int MR, int NR>
constexpr GemmKernel F32BlocksFewRow(Format rhs, GemmCost cost, GemmRun run) {
  GemmKernel row = F32BlocksRow(rhs, MR, NR, false, cost, run);
  constexpr size_t kOfTwo = sizeof(FewScratch<2>), kOfAll = sizeof(FewScratch<MR>);
  row.scratch_bytes = static_cast<uint32_t>(RoundUp(MR * NR * 4 + (kOfTwo > kOfAll ? kOfTwo : kOfAll), 64));
  return row;
}

}  // namespace
}  // namespace quern::ukernel
