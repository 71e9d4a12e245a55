// The generic packer and unpacker of the right side: every layout, every source, element by element.
#include "ukernel/pack.h"

#include <cmath>

#include "ukernel/convert.h"
#include "ukernel/split_flags.h"

namespace quern::ukernel {
namespace {

// Sources whose elements are integers with a scale per block along K.
bool IsBlockSource(const RhsSource& s) { return IsGguf(s.format) || s.scales != nullptr; }

// Sources of 4-bit numbers in rows along K, and the layouts that keep them, stored plus kFour.
bool IsFourBitSource(const RhsSource& s) { return (s.format == Format::kU4 || s.format == Format::kI4) && !s.scales; }
bool KeepsFourBits(const PackLayout& l) { return l.element == Format::kU4 && l.scale == Format::kNone; }
constexpr int kFour = 8;

// A block-quantized element as w = scale * (q - zero) + minimum.
struct BlockElement {
  int q = 0;
  float scale = 1;
  float zero = 0;
  float minimum = 0;
};

int LoadBits(const uint8_t* p, size_t bits, size_t index) {
  const size_t bit = index * bits;
  return (p[bit / 8] >> (bit % 8)) & ((1 << bits) - 1);
}

BlockElement LoadBlockElement(const RhsSource& s, size_t block, size_t k, size_t n) {
  BlockElement e;
  const size_t b = k / block;
  const size_t i = k % block;
  const auto* p = static_cast<const uint8_t*>(s.data) + static_cast<ptrdiff_t>(n) * s.n_stride +
                  static_cast<ptrdiff_t>(b) * s.block_stride;
  switch (s.format) {
    case Format::kQ4_0:
    case Format::kQ4_1: {
      const size_t header = s.format == Format::kQ4_0 ? 2 : 4;
      e.scale = F16BitsToF32(LoadAs<uint16_t>(p));
      if (s.format == Format::kQ4_1) {
        e.minimum = F16BitsToF32(LoadAs<uint16_t>(p + 2));
      } else {
        e.zero = 8;
      }
      const uint8_t byte = p[header + i % 16];
      e.q = i < 16 ? byte & 15 : byte >> 4;
      return e;
    }
    case Format::kQ8_0:
      e.scale = F16BitsToF32(LoadAs<uint16_t>(p));
      e.q = LoadAs<int8_t>(p + 2 + i);
      return e;
    default:
      break;
  }
  const size_t bits = FormatBits(s.format);
  e.q = LoadBits(p, bits, i);
  e.scale =
      LoadFloat(s.scale_format, static_cast<const char*>(s.scales) + static_cast<ptrdiff_t>(n) * s.scale_n_stride +
                                    static_cast<ptrdiff_t>(b) * s.scale_block_stride);
  e.zero = static_cast<float>(1 << (bits - 1));
  if (s.zero_points) {
    const auto* z = static_cast<const uint8_t*>(s.zero_points) + static_cast<ptrdiff_t>(n) * s.zero_point_n_stride;
    if (IsFloatFormat(s.zero_point_format)) {
      e.zero = LoadFloat(s.zero_point_format, z + b * FormatBytes(s.zero_point_format));
    } else {
      e.zero = static_cast<float>(LoadBits(z, FormatBits(s.zero_point_format), b));
    }
  }
  return e;
}

float BlockValue(const BlockElement& e) { return e.scale * (static_cast<float>(e.q) - e.zero) + e.minimum; }

// Where element (padded k, column) of a unit is stored.
struct Position {
  size_t byte;
  unsigned shift;
};

Position FindElement(const PackLayout& l, size_t n_unit, size_t k, size_t column, size_t term) {
  const size_t il = l.k_interleave;
  const size_t bits = FormatBits(l.element);
  if (bits < 8) {
    const size_t groups = 8 / bits;
    return {(k / (il * groups) * n_unit + column) * il + k % il, static_cast<unsigned>(k / il % groups * bits)};
  }
  const size_t terms = FormatTerms(l.element);
  const size_t chunk = terms > 1 ? RhsGroup(l) : 0;
  const size_t base = chunk ? (k / chunk * terms + term) * chunk * n_unit : 0;
  const size_t rest = chunk ? k % chunk : k;
  return {(base + (rest / il * n_unit + column) * il + rest % il) * (bits / 8), 0};
}

void PutInteger(const PackLayout& l, size_t n_unit, char* unit, size_t k, size_t column, int q) {
  const Position at = FindElement(l, n_unit, k, column, 0);
  if (FormatBits(l.element) == 8) {
    unit[at.byte] = static_cast<char>(q);
  } else {
    const unsigned mask = (1u << FormatBits(l.element)) - 1u;
    unit[at.byte] =
        static_cast<char>(static_cast<uint8_t>(unit[at.byte]) | ((static_cast<unsigned>(q) & mask) << at.shift));
  }
}

void PutFloat(const PackLayout& l, size_t n_unit, char* unit, size_t k, size_t column, float x) {
  const size_t terms = FormatTerms(l.element);
  if (terms == 1) {
    StoreFloat(l.element, unit + FindElement(l, n_unit, k, column, 0).byte, x);
    return;
  }
  uint16_t term[3];
  SplitBf16(x, terms, term);
  for (size_t t = 0; t < terms; ++t) StoreAs(unit + FindElement(l, n_unit, k, column, t).byte, term[t]);
}

const char* DenseElement(const RhsSource& s, size_t segment, size_t k, size_t n) {
  return static_cast<const char*>(s.data) + static_cast<ptrdiff_t>(segment) * s.segment_stride +
         static_cast<ptrdiff_t>(k) * s.k_stride + static_cast<ptrdiff_t>(n) * s.n_stride;
}

// Integer blocks stay integers: elements, then scale and offset per block.
void PackBlockColumn(const PackLayout& l, const RhsShape& shape, const RhsGeometry& g, const RhsSource& s, size_t n,
                     size_t column, char* unit, float* sum) {
  for (size_t b = 0; b < g.blocks; ++b) {
    const size_t begin = b * shape.block;
    const size_t end = begin + shape.block < shape.k ? begin + shape.block : shape.k;
    const BlockElement first = LoadBlockElement(s, shape.block, begin, n);
    StoreFloat(l.scale, unit + g.scales_offset + (b * g.n_unit + column) * FormatBytes(l.scale), first.scale);
    const bool keep_zero = l.element != Format::kI8;  // int8 elements have the zero point removed
    char* offset = unit + g.offsets_offset + (b * g.n_unit + column) * FormatBytes(l.offset);
    if (l.offset == Format::kU8) {
      *offset = static_cast<char>(keep_zero ? static_cast<int>(first.zero) : 0);
    } else if (l.offset == Format::kF32) {
      StoreAs(offset, first.minimum - (keep_zero ? first.scale * first.zero : 0.0f));
    }
    int total = 0;
    for (size_t k = begin; k < end; ++k) {
      const int q = LoadBlockElement(s, shape.block, k, n).q;
      PutInteger(l, g.n_unit, unit, k, column, keep_zero ? q : q - static_cast<int>(first.zero));
      total += q;
    }
    const float count = static_cast<float>(end - begin);
    *sum += first.scale * (static_cast<float>(total) - first.zero * count) + first.minimum * count;
    // The rest of the last block stands for zero weights.
    if (keep_zero) {
      for (size_t k = end; k < begin + shape.block; ++k) {
        PutInteger(l, g.n_unit, unit, k, column, static_cast<int>(first.zero));
      }
    }
  }
}

}  // namespace

bool CanPackRhs(const PackLayout& l, const RhsSource& s) {
  if (l.scale != Format::kNone) {
    if (!IsBlockSource(s)) return false;
    const bool has_minimum = s.format == Format::kQ4_1;
    const bool float_zero = s.zero_points && IsFloatFormat(s.zero_point_format);
    const size_t bits = FormatBits(s.format);
    if (l.element == Format::kI8) {
      return !has_minimum && !float_zero && (bits == 4 || bits == 2 || s.format == Format::kQ8_0);
    }
    if (s.format == Format::kQ8_0 || FormatBits(l.element) != bits) return false;
    if (has_minimum || float_zero) return l.offset == Format::kF32;
    return !s.zero_points || l.offset != Format::kNone;
  }
  if (KeepsFourBits(l)) return IsFourBitSource(s);
  if (l.element == Format::kF64) return s.format == Format::kF64;
  if (IsFloatFormat(l.element)) return IsFloatFormat(s.format) || IsBlockSource(s);
  if (l.element == Format::kI8) return !s.scales && (s.format == Format::kI8 || s.format == Format::kU8);
  return l.element == Format::kU8 && s.format == Format::kU8 && !s.scales;
}

uint32_t PackRhs(const PackLayout& l, const RhsShape& shape, const RhsSource& s, size_t unit_begin, size_t unit_end,
                 void* packed) {
  const RhsGeometry g = DescribeRhs(l, shape);
  char* base = static_cast<char*>(packed);
  uint32_t flags = kPackFine;
  for (size_t u = unit_begin; u < unit_end; ++u) {
    char* unit = base + g.UnitOffset(u);
    std::memset(unit, 0, g.unit_stride);
    for (size_t column = 0; column < g.n_unit; ++column) {
      const size_t n = u * g.n_unit + column;
      const bool real = n < shape.n;
      float float_sum = 0;
      int32_t int_sum = 0;
      if (real && l.scale != Format::kNone) {
        PackBlockColumn(l, shape, g, s, n, column, unit, &float_sum);
      } else if (real) {
        const auto value = [&](size_t segment, size_t k) {
          return IsBlockSource(s) ? BlockValue(LoadBlockElement(s, shape.block, k, n))
                                  : LoadFloat(s.format, DenseElement(s, segment, k, n));
        };
        if (FormatTerms(l.element) > 1) {
          flags |= SplitFlags(FormatTerms(l.element), shape.segments * shape.k,
                              [&](size_t i) { return value(i / shape.k, i % shape.k); });
        }
        for (size_t segment = 0; segment < shape.segments; ++segment) {
          for (size_t k = 0; k < shape.k; ++k) {
            const size_t at = segment * g.segment_k + k;
            if (IsFloatFormat(l.element)) {
              const float x = value(segment, k);
              PutFloat(l, g.n_unit, unit, at, column, x);
              float_sum += x;
            } else if (l.element == Format::kF64) {
              StoreAs(unit + FindElement(l, g.n_unit, at, column, 0).byte,
                      LoadAs<double>(DenseElement(s, segment, k, n)));
            } else if (KeepsFourBits(l)) {
              const auto* row = static_cast<const uint8_t*>(s.data) + static_cast<ptrdiff_t>(n) * s.n_stride;
              const int q = LoadBits(row, 4, k) ^ (s.format == Format::kI4 ? kFour : 0);
              PutInteger(l, g.n_unit, unit, at, column, q);
              int_sum += q - kFour;
            } else {
              const char* p = DenseElement(s, segment, k, n);
              int q = s.format == Format::kI8 ? LoadAs<int8_t>(p) : LoadAs<uint8_t>(p);
              if (s.format == Format::kU8 && l.element == Format::kI8) q -= 128;
              PutInteger(l, g.n_unit, unit, at, column, q);
              int_sum += q;
            }
          }
        }
      }
      if (KeepsFourBits(l)) {  // pads stand for zero
        for (size_t k = real ? shape.k : 0; k < g.padded_k; ++k) PutInteger(l, g.n_unit, unit, k, column, kFour);
      }
      if (l.sums == Format::kI32) StoreAs(base + g.sums_offset + n * 4, int_sum);
      if (l.sums == Format::kF32) StoreAs(base + g.sums_offset + n * 4, float_sum);
      if (l.channel_scales) {
        StoreAs(base + g.channel_scales_offset + n * 4, real && s.channel_scales ? s.channel_scales[n] : 1.0f);
      }
      if (l.bias != Format::kNone) {
        int32_t bits = 0;
        if (real && s.bias) std::memcpy(&bits, static_cast<const char*>(s.bias) + n * 4, 4);
        StoreAs(base + g.bias_offset + n * 4, bits);
      }
    }
  }
  return flags;
}

float UnpackRhsElement(const PackLayout& l, const RhsShape& shape, const void* packed, size_t k, size_t n) {
  const RhsGeometry g = DescribeRhs(l, shape);
  const size_t column = n % g.n_unit;
  const char* unit = static_cast<const char*>(packed) + g.UnitOffset(n / g.n_unit);
  const size_t segment = shape.k ? k / shape.k : 0;
  const size_t at = segment * g.segment_k + (k - segment * shape.k);
  if (l.element == Format::kF64) {
    return static_cast<float>(LoadAs<double>(unit + FindElement(l, g.n_unit, at, column, 0).byte));
  }
  float x = 0;
  if (IsFloatFormat(l.element)) {
    const Format f = FormatTerms(l.element) > 1 ? Format::kBf16 : l.element;
    for (size_t t = 0; t < FormatTerms(l.element); ++t) {
      x += LoadFloat(f, unit + FindElement(l, g.n_unit, at, column, t).byte);
    }
  } else {
    const Position p = FindElement(l, g.n_unit, at, column, 0);
    const uint8_t byte = static_cast<uint8_t>(unit[p.byte]);
    if (l.element == Format::kI8) {
      x = static_cast<float>(static_cast<int8_t>(byte));
    } else {
      x = static_cast<float>((byte >> p.shift) & ((1u << FormatBits(l.element)) - 1u));
    }
  }
  if (l.scale == Format::kNone) return KeepsFourBits(l) ? x - kFour : x;
  const size_t b = k / shape.block;
  const float scale = LoadFloat(l.scale, unit + g.scales_offset + (b * g.n_unit + column) * FormatBytes(l.scale));
  const char* offset = unit + g.offsets_offset + (b * g.n_unit + column) * FormatBytes(l.offset);
  if (l.offset == Format::kF32) return scale * x + LoadAs<float>(offset);
  if (l.offset == Format::kU8) return scale * (x - static_cast<float>(LoadAs<uint8_t>(offset)));
  if (l.element == Format::kI8) return scale * x;
  return scale * (x - static_cast<float>(1u << (FormatBits(l.element) - 1)));
}

void UnpackRhs(const PackLayout& l, const RhsShape& shape, const void* packed, float* dst,
               size_t dst_row_stride_bytes) {
  for (size_t k = 0; k < shape.k * shape.segments; ++k) {
    float* row = reinterpret_cast<float*>(reinterpret_cast<char*>(dst) + k * dst_row_stride_bytes);
    for (size_t n = 0; n < shape.n; ++n) row[n] = UnpackRhsElement(l, shape, packed, k, n);
  }
}

namespace {

// Rows of blocks take every format of scales and offsets.
bool PacksLayout(const PackKernel& row, PackLayout layout) {
  if (row.blocks) {
    layout.scale = row.layout.scale;
    layout.offset = row.layout.offset;
  }
  return row.layout == layout;
}

}  // namespace

const PackKernel* FindPackKernel(const PackLayout& layout, const RhsSource& source, const CpuFacts& cpu,
                                 Lookup lookup) {
  const PackKernel* best = nullptr;
  const ptrdiff_t element = static_cast<ptrdiff_t>(FormatBytes(source.format));
  for (const KernelList<PackKernel>* list : AllPackKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const PackKernel& row = list->rows[i];
      if (row.source != source.format || row.blocks != IsBlockSource(source) || !PacksLayout(row, layout)) continue;
      if (!RowRunsOn(row.isa, KernelGroup::kPack, cpu) || (lookup == Lookup::kRun && !row.run)) continue;
      if (row.contiguous_n && source.n_stride != element) continue;
      if (row.contiguous_k && source.k_stride != element) continue;
      if (!best || row.cycles_per_element < best->cycles_per_element) best = &row;
    }
  }
  return best;
}

}  // namespace quern::ukernel
