// int8 units of Arm's layouts from row-major int8 and uint8 (less 128), either way round, on NEON.
#include "ukernel/layouts_arm.h"
#include "ukernel/pack.h"

#if QUERN_ISA_HERE
#include <arm_neon.h>
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
constexpr size_t kColumns = 8;  // at once: units are multiples of them

void Clear(char* p, size_t bytes) {
  const int8x16_t zero = vdupq_n_s8(0);
  for (; bytes >= 16; bytes -= 16, p += 16) vst1q_s8(reinterpret_cast<int8_t*>(p), zero);
  for (; bytes; --bytes) *p++ = 0;
}

// What is added to uint8, whose top bits are turned over.
template <bool kTurn>
constexpr char kZero = static_cast<char>(kTurn ? 128 : 0);

// Groups of kGroup k of 8 columns, from kGroup rows of the source.
template <size_t kGroup, bool kTurn>
void Interleave(const char* from, ptrdiff_t stride, char* to) {
  const auto pair = [&](size_t k) {
    const auto row = [&](size_t i) {
      return veor_s8(vld1_s8(reinterpret_cast<const int8_t*>(from + static_cast<ptrdiff_t>(i) * stride)),
                     vdup_n_s8(kZero<kTurn>));
    };
    const int8x8x2_t z = vzip_s8(row(k), row(k + 1));
    return vreinterpretq_s16_s8(vcombine_s8(z.val[0], z.val[1]));
  };
  auto* out = reinterpret_cast<int16_t*>(to);
  if constexpr (kGroup == 4) {
    const int16x8x2_t all = {{pair(0), pair(2)}};
    vst2q_s16(out, all);
  } else {
    const int16x8x4_t all = {{pair(0), pair(2), pair(4), pair(6)}};
    vst4q_s16(out, all);
  }
}

// `columns` of 8 columns of a segment, the others zero. `to` is at the first of them.
template <size_t kGroup, bool kTurn>
void PackFromKN(const char* from, ptrdiff_t k_stride, size_t k, size_t columns, char* to, size_t group_stride) {
  size_t i = 0;
  for (; columns == kColumns && i + kGroup <= k; i += kGroup, from += kGroup * k_stride, to += group_stride) {
    Interleave<kGroup, kTurn>(from, k_stride, to);
  }
  for (; i < k; i += kGroup, to += group_stride) {
    char block[kGroup][kColumns];
    __builtin_memset(block, kZero<kTurn>, sizeof(block));
    for (size_t r = 0; r < kGroup && i + r < k; ++r, from += k_stride) {
      for (size_t c = 0; c < columns; ++c) block[r][c] = from[c];
    }
    Interleave<kGroup, kTurn>(block[0], kColumns, to);
  }
}

template <size_t kGroup, bool kTurn>
void PackFromNK(const char* from, ptrdiff_t n_stride, size_t k, size_t columns, char* to, size_t group_stride) {
  typedef char Group __attribute__((vector_size(kGroup)));
  const auto put = [](const char* group, char* out) {
    Group x;
    __builtin_memcpy(&x, group, kGroup);
    x ^= Group{} + kZero<kTurn>;
    __builtin_memcpy(out, &x, kGroup);
  };
  for (size_t c = 0; c < kColumns; ++c, to += kGroup) {
    char* out = to;
    const char* row = from + static_cast<ptrdiff_t>(c) * n_stride;
    size_t i = 0;
    for (; c < columns && i + kGroup <= k; i += kGroup, out += group_stride) put(row + i, out);
    for (; i < k; i += kGroup, out += group_stride) {
      char group[kGroup];
      for (size_t j = 0; j < kGroup; ++j) group[j] = c < columns && i + j < k ? row[i + j] : kZero<kTurn>;
      put(group, out);
    }
  }
}

// Sums over K of 8 packed columns.
template <size_t kGroup>
void Sum(const char* packed, size_t groups, size_t group_stride, int32_t* sums) {
  constexpr int kVectors = kGroup / 2;
  int32x4_t sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = vdupq_n_s32(0);
  for (; groups; --groups, packed += group_stride) {
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = vpadalq_s16(sum[v], vpaddlq_s8(vld1q_s8(reinterpret_cast<const int8_t*>(packed + 16 * v))));
    }
  }
  if constexpr (kGroup == 4) {
    vst1q_s32(sums, sum[0]);
    vst1q_s32(sums + 4, sum[1]);
  } else {
    vst1q_s32(sums, vpaddq_s32(sum[0], sum[1]));
    vst1q_s32(sums + 4, vpaddq_s32(sum[2], sum[3]));
  }
}

template <size_t kGroup, bool kContiguousN, bool kTurn>
uint32_t Run(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin, size_t unit_end,
             void* packed) {
  const RhsGeometry g = DescribeRhs(layout, shape);
  char* base = static_cast<char*>(packed);
  const size_t group_stride = g.n_unit * kGroup;
  for (size_t u = unit_begin; u < unit_end; ++u) {
    char* unit = base + g.UnitOffset(u);
    const size_t used = (shape.segments - 1) * g.segment_k * g.n_unit + RoundUp(shape.k, kGroup) * g.n_unit;
    Clear(unit + used, g.unit_stride - used);
    for (size_t c = 0; c < g.n_unit; c += kColumns) {
      const size_t n = u * g.n_unit + c;
      const size_t left = n < shape.n ? shape.n - n : 0, columns = left < kColumns ? left : kColumns;
      for (size_t segment = 0; segment < shape.segments; ++segment) {
        const char* from = static_cast<const char*>(s.data) + static_cast<ptrdiff_t>(segment) * s.segment_stride +
                           static_cast<ptrdiff_t>(n) * s.n_stride;
        char* to = unit + segment * g.segment_k * g.n_unit + c * kGroup;
        if constexpr (kContiguousN) {
          PackFromKN<kGroup, kTurn>(from, s.k_stride, shape.k, columns, to, group_stride);
        } else {
          PackFromNK<kGroup, kTurn>(from, s.n_stride, shape.k, columns, to, group_stride);
        }
      }
      Sum<kGroup>(unit + c * kGroup, g.padded_k / kGroup, group_stride,
                  reinterpret_cast<int32_t*>(base + g.sums_offset) + n);
      if (layout.channel_scales) {
        auto* scales = reinterpret_cast<float*>(base + g.channel_scales_offset) + n;
        for (size_t i = 0; i < kColumns; ++i) scales[i] = i < columns && s.channel_scales ? s.channel_scales[n + i] : 1;
      }
    }
  }
  return kPackFine;
}

template <bool kContiguousN, bool kTurn>
constexpr decltype(PackKernel::run) RunOf(const PackLayout& l) {
  return l.k_interleave == 4 ? Run<4, kContiguousN, kTurn> : Run<8, kContiguousN, kTurn>;
}
#else
template <bool kContiguousN, bool kTurn>
constexpr decltype(PackKernel::run) RunOf(const PackLayout&) {
  return nullptr;
}
#endif

struct Rows {
  PackKernel rows[40];
};
template <bool kContiguousN, bool kTurn>
constexpr PackKernel Row(const PackLayout& l) {
  return {.isa = kIsa,
          .layout = l,
          .source = kTurn ? Format::kU8 : Format::kI8,
          .contiguous_n = kContiguousN,
          .contiguous_k = !kContiguousN,
          .cycles_per_element = kContiguousN ? 0.3f : 0.6f,
          .run = RunOf<kContiguousN, kTurn>(l)};
}
constexpr Rows MakeRows() {
  Rows all;
  size_t i = 0;
  for (const PackLayout& of : {kI8x8Dot4, kI8x8Dot8, kI8SveDot4, kI8SveDot8, kI8Sme}) {
    for (const PackLayout& l : {of, WithChannelScales(of)}) {
      all.rows[i++] = Row<true, false>(l);
      all.rows[i++] = Row<false, false>(l);
      all.rows[i++] = Row<true, true>(l);
      all.rows[i++] = Row<false, true>(l);
    }
  }
  return all;
}
static constexpr Rows kRows = MakeRows();

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
