// float32 products as three products of bf16 terms in portable C++: what the AMX row computes, from the same operands.
// Multiplying the float32 numbers themselves is faster and closer where there is no such engine.
#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/gemm/vector_f32_portable.h"

namespace quern::ukernel {
namespace {

constexpr size_t kPanelRows = 16;
constexpr size_t kTermBytes = 1024;  // of 32 k in a panel: [16 rows][32], and in a unit: [16 pairs of k][16][2]

typedef uint32_t Bits __attribute__((vector_size(16)));

template <int MR>
struct Tile : TileEpilogue<Vector, MR, 1> {
  using Base = TileEpilogue<Vector, MR, 1>;
  using typename Base::Acc;

  // A pair of k of one term of each side.
  static void Pair(const char* lhs, const char* rhs, Acc& acc) {
    QUERN_UNROLL for (int v = 0; v < Base::kVectors; ++v) {
      Bits w;
      __builtin_memcpy(&w, rhs + v * sizeof(w), sizeof(w));
      const Vector::Reg even = (Vector::Reg)(w << 16), odd = (Vector::Reg)(w & 0xffff0000u);
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        uint32_t x;
        __builtin_memcpy(&x, lhs + r * 64, sizeof(x));
        const Bits both = {x, x, x, x};
        acc[r][v] += (Vector::Reg)(both << 16) * even;
        acc[r][v] += (Vector::Reg)(both & 0xffff0000u) * odd;
      }
    }
  }

  static void Run(const GemmArgs& a) {
    const typename Base::Tail tail = Base::MakeTail(a.n);
    Acc acc;
    if (a.first_k) {
      Base::Each([&](int r, int v) { acc[r][v] = Vector::Zero(); });
    } else {
      Base::Read(a.acc, a.acc_row_stride, acc, tail);
    }
    const char* lhs = static_cast<const char*>(a.lhs);
    const char* rhs = static_cast<const char*>(a.rhs);
    for (size_t k = 0; k < a.k; k += 32, lhs += 2 * kTermBytes, rhs += 2 * kTermBytes) {
      for (size_t pair = 0; pair < 16; ++pair) {
        const char *x = lhs + pair * 4, *w = rhs + pair * 64;
        Pair(x + kTermBytes, w, acc);
        Pair(x, w + kTermBytes, acc);
        Pair(x, w, acc);
      }
    }
    if (a.last_k) {
      Base::Apply(a, a.ops, a.ops + a.op_count, acc, tail);
      Base::Write(a.dst, a.dst_row_stride, acc, tail);
    } else {
      Base::Write(a.acc, a.acc_row_stride, acc, tail);
    }
  }
};

// The rows of a panel, a few at a time.
void Run(const GemmArgs& a) {
  constexpr int kRowsAtOnce = 2;
  GemmArgs part = a;
  for (size_t r = 0; r < a.m;) {
    const size_t rows = a.m - r < kRowsAtOnce ? 1 : kRowsAtOnce;
    part.m0 = a.m0 + r;
    part.lhs = static_cast<const char*>(a.lhs) + r * 64;
    part.acc = static_cast<char*>(a.acc) + r * a.acc_row_stride;
    part.dst = static_cast<char*>(a.dst) + r * a.dst_row_stride;
    rows == 1 ? Tile<1>::Run(part) : Tile<kRowsAtOnce>::Run(part);
    r += rows;
  }
}

static constexpr GemmKernel kRows[] = {
    {.isa = kIsa,
     .lhs = Format::kBf16x2,
     .lhs_source = Format::kF32,
     .rhs = Format::kF32,
     .dst = Format::kF32,
     .precision = Precision::kFp32Fast,
     .mr = kPanelRows,
     .nr = 16,
     .kr = 32,
     .lhs_forms = kLhsPacked,
     .lhs_layout = kBf16Terms2Panels,
     .consumed = kBf16Terms2x16,
     .layouts = {kF32x16},
     .only_forced = true,
     .fused = kFusedProductF32,
     .cost = {.engine = Engine::kScalar, .step_row = 600, .row = 10, .tile = 40},
     .run = Run},
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
