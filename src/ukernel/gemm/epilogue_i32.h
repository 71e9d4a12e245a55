// Fused epilogues of register tiles that accumulate in int32: integer operations, then float32, then the store. For
// kernel files only: everything has internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

[[maybe_unused]] constexpr uint32_t kFusedI32 =
    kFusedF32 | EpilogueBit(EpilogueKind::kAddOuterScalar) | EpilogueBit(EpilogueKind::kRequantize);

// V has what TileEpilogue needs and int32 lanes: Int, ZeroInt, Set1Int, LoadInt, LoadMaskInt, StoreInt, StoreMaskInt,
// AddInt, MulInt (both wrap), ToFloat, Round (ties to even), StoreBytes; StoreByteRows where it has two vectors a unit.
template <class V, int MR, int NU>
struct TileEpilogueI32 : TileEpilogue<V, MR, NU> {
  using Base = TileEpilogue<V, MR, NU>;
  using Base::kVectors;
  using typename Base::Mask;
  using typename Base::Reg;
  using typename Base::Tail;
  using Int = typename V::Int;
  using IntAcc = Int[MR][kVectors];

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
    float low = op.format == Format::kI8 ? -128.0f : 0.0f, high = op.format == Format::kI8 ? 127.0f : 255.0f;
    if (op.a < op.b) {
      low = op.a > low ? (op.a < high ? op.a : high) : low;
      high = op.b > low ? (op.b < high ? op.b : high) : low;
    }
    // Bounds are integers here, so that they may come before rounding and the zero point.
    const auto bound = [&](float x) { return V::Set1(static_cast<float>(static_cast<int32_t>(x) - op.integer)); };
    const Reg lo = bound(low), hi = bound(high);
    const auto* scales = static_cast<const float*>(op.data);
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const Reg s = scales ? Base::LoadN(scales + a.n0, v, t) : V::Set1(op.scale);
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {  // NaN becomes the lowest value
        x[r][v] = V::Round(V::Min(V::Max(V::Mul(x[r][v], s), lo), hi));
      }
    }
    if constexpr (kVectors == 2 && requires(void* p, Reg y) { V::StoreByteRows(p, p, y, y, y, y, 0); }) {
      if (t.whole) {
        QUERN_UNROLL for (int r = 0; r < MR; r += 2) {
          auto* p = static_cast<char*>(a.dst) + r * a.dst_row_stride;
          const int s = r + 1 < MR ? r + 1 : r;
          V::StoreByteRows(p, p + (s - r) * a.dst_row_stride, x[r][0], x[r][1], x[s][0], x[s][1], op.integer);
        }
        return;
      }
    }
    const Reg zero = V::Set1(static_cast<float>(op.integer));
    Base::Each([&](int r, int v) { x[r][v] = V::Add(x[r][v], zero); });
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
