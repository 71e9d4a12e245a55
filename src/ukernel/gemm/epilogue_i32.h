// Fused epilogues of register tiles that accumulate in int32: integer operations, then float32, then the store. For
// kernel files only: everything has internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/byte_range.h"
#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

[[maybe_unused]] constexpr uint32_t kFusedI32 =
    kFusedF32 | EpilogueBit(EpilogueKind::kAddOuterScalar) | EpilogueBit(EpilogueKind::kRequantize);

// The list of most quantized products: what columns add to a sum, then kRequantize. Read once for all columns of a
// call.
struct ByteEnding {
  bool serves = false;             // else the list is another one
  const int32_t* added = nullptr;  // at the call's first column, or null
  const int32_t* times = nullptr;  // likewise; `factor` times
  int32_t factor = 0;
  const float* scales = nullptr;  // likewise; else `scale`
  float scale = 1;
  ByteRange range;

  ByteEnding(const EpilogueOp* ops, size_t count, size_t n0) {
    if (!count) return;
    const EpilogueOp& last = ops[count - 1];
    for (const EpilogueOp* op = ops; op != &last; ++op) {
      if (op->kind == EpilogueKind::kAddVectorN && !added) {
        added = static_cast<const int32_t*>(op->data) + n0;
      } else if (op->kind == EpilogueKind::kAddOuterScalar && !times) {
        times = static_cast<const int32_t*>(op->data2) + n0;
        factor = op->integer;
      } else {
        return;
      }
    }
    if (last.kind != EpilogueKind::kRequantize) return;
    if (last.data) scales = static_cast<const float*>(last.data) + n0;
    scale = last.scale;
    range = ByteRange(last);
    serves = true;
  }
};

// Vectors that store bytes of two rows at once, in units of two vectors.
template <class V>
concept HasByteRows =
    requires(void* p, typename V::Int x, const ByteRange& range) { V::StoreByteRows(p, p, x, x, x, x, range); };

// V has what TileEpilogue needs and int32 lanes: Int, ZeroInt, Set1Int, LoadInt, LoadMaskInt, StoreInt, StoreMaskInt,
// AddInt, MulInt (both wrap), ToFloat, and either Round (ties to even) and StoreBytes, or StoreByteRows and
// RoundToByte: the integer next to a number, ties to even, where a byte less its zero point may be it; else one beyond
// that on its side, of NaN on the lower one.
template <class V, int MR, int NU>
struct TileEpilogueI32 : TileEpilogue<V, MR, NU> {
  using Base = TileEpilogue<V, MR, NU>;
  using Base::kVectors;
  using typename Base::Mask;
  using typename Base::Reg;
  using typename Base::Tail;
  using Int = typename V::Int;
  using IntAcc = Int[MR][kVectors];
  static constexpr size_t kColumns = size_t{NU} * V::kUnit;

  static Int LoadIntN(const int32_t* p, int v, const Tail& t) {
    return v == t.vectors - 1 ? V::LoadMaskInt(p + v * V::kLanes, t.mask)
           : Base::In(t, v)   ? V::LoadInt(p + v * V::kLanes)
                              : V::ZeroInt();
  }

  QUERN_INLINE static void ReadInt(const void* base, size_t row_stride, IntAcc& acc, const Tail& t) {
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      const auto* p = reinterpret_cast<const int32_t*>(static_cast<const char*>(base) + r * row_stride);
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = LoadIntN(p, v, t);
    }
  }

  QUERN_INLINE static void WriteInt(void* base, size_t row_stride, const IntAcc& acc, const Tail& t) {
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      auto* p = reinterpret_cast<int32_t*>(static_cast<char*>(base) + r * row_stride);
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        if (v == t.vectors - 1) {
          V::StoreMaskInt(p + v * V::kLanes, acc[r][v], t.mask);
        } else if (Base::In(t, v)) {
          V::StoreInt(p + v * V::kLanes, acc[r][v]);
        }
      }
    }
  }

  QUERN_INLINE static void ApplyInt(const GemmArgs& a, const EpilogueOp& op, IntAcc& acc, const Tail& t) {
    const auto* over_m = static_cast<const int32_t*>(op.data) + a.m0;
    switch (op.kind) {
      case EpilogueKind::kAddVectorN: {
        const auto* p = static_cast<const int32_t*>(op.data) + a.n0;
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
          const Int x = LoadIntN(p, v, t);
          QUERN_UNROLL for (int r = 0; r < MR; ++r) acc[r][v] = V::AddInt(acc[r][v], x);
        }
        break;
      }
      case EpilogueKind::kAddVectorM:
        Base::Each([&](int r, int v) { acc[r][v] = V::AddInt(acc[r][v], V::Set1Int(over_m[r])); });
        break;
      case EpilogueKind::kAddScalar:
        Base::Each([&](int r, int v) { acc[r][v] = V::AddInt(acc[r][v], V::Set1Int(op.integer)); });
        break;
      case EpilogueKind::kAddOuter:
      case EpilogueKind::kAddOuterScalar: {
        const auto* p = static_cast<const int32_t*>(op.data2) + a.n0;
        const bool scalar = op.kind == EpilogueKind::kAddOuterScalar;
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
          const Int x = LoadIntN(p, v, t);
          QUERN_UNROLL for (int r = 0; r < MR; ++r) {
            const Int y = V::Set1Int(scalar ? op.integer : over_m[r]);
            acc[r][v] = V::AddInt(acc[r][v], V::MulInt(x, y));
          }
        }
        break;
      }
      default:
        break;
    }
  }

  QUERN_INLINE static void Requantize(const GemmArgs& a, const EpilogueOp& op, typename Base::Acc& x, const Tail& t) {
    const auto* scales = static_cast<const float*>(op.data);
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const Reg s = scales ? Base::LoadN(scales + a.n0, v, t) : V::Set1(op.scale);
      QUERN_UNROLL for (int r = 0; r < MR; ++r) x[r][v] = V::Mul(x[r][v], s);
    }
    if constexpr (HasByteRows<V>) {
      StoreByteTile(a.dst, a.dst_row_stride, x, ByteRange(op), a.n);
    } else {
      StoreBounded(a, op, x, t);
    }
  }

  // Vector v of `columns` numbers.
  QUERN_INLINE static Int LoadColumns(const int32_t* p, size_t columns, int v) {
    return columns == kColumns ? V::LoadInt(p + v * V::kLanes) : LoadIntN(p, v, Base::MakeTail(columns));
  }

  // What the columns [n, n + columns) add in a call that ends as `e` says.
  QUERN_INLINE static Int ColumnSum(const ByteEnding& e, size_t n, size_t columns, int v) {
    Int sum = e.added ? LoadColumns(e.added + n, columns, v) : V::ZeroInt();
    if (e.times) sum = V::AddInt(sum, V::MulInt(LoadColumns(e.times + n, columns, v), V::Set1Int(e.factor)));
    return sum;
  }
  // The rest of that ending, of those columns; their results are at `dst`.
  QUERN_INLINE static void FinishBytes(const ByteEnding& e, size_t n, size_t columns, const IntAcc& acc, void* dst,
                                       size_t row_stride) {
    typename Base::Acc x;
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const Reg s = !e.scales             ? V::Set1(e.scale)
                    : columns == kColumns ? V::Load(e.scales + n + v * V::kLanes)
                                          : Base::LoadN(e.scales + n, v, Base::MakeTail(columns));
      QUERN_UNROLL for (int r = 0; r < MR; ++r) x[r][v] = V::Mul(V::ToFloat(acc[r][v]), s);
    }
    StoreByteTile(dst, row_stride, x, e.range, columns);
  }

  // Of numbers times their scale; `n` columns.
  QUERN_INLINE static void StoreByteTile(void* dst, size_t row_stride, const typename Base::Acc& x,
                                         const ByteRange& range, size_t n) {
    static_assert(Base::kPerUnit == 2);
    QUERN_UNROLL for (int v = 0; v < kVectors; v += 2) {
      const size_t before = static_cast<size_t>(v * V::kLanes), columns = n < before ? 0 : n - before;
      QUERN_UNROLL for (int r = 0; r < MR; r += 2) {
        const int s = r + 1 < MR ? r + 1 : r;
        const auto store = [&](char* p, char* q) __attribute__((always_inline)) {
          V::StoreByteRows(p, q, V::RoundToByte(x[r][v]), V::RoundToByte(x[r][v + 1]), V::RoundToByte(x[s][v]),
                           V::RoundToByte(x[s][v + 1]), range);
        };
        char* p = static_cast<char*>(dst) + static_cast<size_t>(r) * row_stride + before;
        char* q = static_cast<char*>(dst) + static_cast<size_t>(s) * row_stride + before;
        if (columns >= size_t{V::kUnit}) {
          store(p, q);
        } else {
          char rows[2][V::kUnit];
          store(rows[0], rows[1]);
          CopyBytes(p, rows[0], columns);
          CopyBytes(q, rows[1], columns);
        }
      }
    }
  }
  QUERN_INLINE static void CopyBytes(char* to, const char* from, size_t n) {
    if (n == size_t{V::kLanes}) {
      __builtin_memcpy(to, from, V::kLanes);
    } else {
      for (size_t i = 0; i < n; ++i) to[i] = from[i];
    }
  }

  QUERN_INLINE static void StoreBounded(const GemmArgs& a, const EpilogueOp& op, typename Base::Acc& x, const Tail& t) {
    float low = op.format == Format::kI8 ? -128.0f : 0.0f, high = op.format == Format::kI8 ? 127.0f : 255.0f;
    if (op.a < op.b) {
      low = op.a > low ? (op.a < high ? op.a : high) : low;
      high = op.b > low ? (op.b < high ? op.b : high) : low;
    }
    // Bounds are integers here, so that they may come before rounding and the zero point.
    const auto bound = [&](float y) { return V::Set1(static_cast<float>(static_cast<int32_t>(y) - op.integer)); };
    const Reg lo = bound(low), hi = bound(high), zero = V::Set1(static_cast<float>(op.integer));
    Base::Each([&](int r, int v) {  // NaN becomes the lowest value
      x[r][v] = V::Add(V::Round(V::Min(V::Max(x[r][v], lo), hi)), zero);
    });
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      auto* p = static_cast<char*>(a.dst) + r * a.dst_row_stride;
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        if (Base::In(t, v)) {
          V::StoreBytes(p + v * V::kLanes, x[r][v], v == t.vectors - 1 ? t.mask : V::MakeMask(V::kLanes));
        }
      }
    }
  }

  // The whole list and the store of the result.
  QUERN_INLINE static void Finish(const GemmArgs& a, IntAcc& acc, const Tail& t) {
    const EpilogueOp *op = a.ops, *end = a.ops + a.op_count;
    for (; op != end && IsIntegerOp(op->kind); ++op) ApplyInt(a, *op, acc, t);
    if (op == end) return WriteInt(a.dst, a.dst_row_stride, acc, t);
    typename Base::Acc x;
    Base::Each([&](int r, int v) { x[r][v] = V::ToFloat(acc[r][v]); });
    const bool narrow = end[-1].kind == EpilogueKind::kRequantize;
    Base::Apply(a, op, narrow ? end - 1 : end, x, t);
    if (narrow) {
      Requantize(a, end[-1], x, t);
    } else {
      Base::Write(a.dst, a.dst_row_stride, x, t);
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
