// Tables between the numbers of the C interface and the enums of this folder.
#include "ukernel/api/c_types.h"

#include "base/c_cpu.h"

namespace quern::ukernel {
namespace {

// By quern_ukernel_format.
constexpr Format kFormats[] = {Format::kNone, Format::kF32,  Format::kF16,  Format::kBf16,   Format::kI8,
                               Format::kU8,   Format::kI32,  Format::kU4,   Format::kI4,     Format::kU2,
                               Format::kQ4_0, Format::kQ4_1, Format::kQ8_0, Format::kBf16x2, Format::kBf16x3,
                               Format::kI8d,  Format::kI8b,  Format::kF64};
static_assert(kFormats[QUERN_UKERNEL_I32] == Format::kI32 && kFormats[QUERN_UKERNEL_F64] == Format::kF64);

// By quern_ukernel_precision.
constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kFp32Fast, Precision::kFp16,
                                     Precision::kBf16, Precision::kExact,    Precision::kFp64};

// By quern_ukernel_op_kind.
using K = EpilogueKind;
constexpr EpilogueKind kKinds[] = {
    K::kAddVectorN,  K::kMulVectorN, K::kAddVectorM, K::kMulVectorM, K::kDivVectorM, K::kAddOuter,  K::kAddOuterScalar,
    K::kAddMatrix,   K::kMulMatrix,  K::kAddScalar,  K::kMulScalar,  K::kClamp,      K::kLeakyRelu, K::kPrelu,
    K::kHardSigmoid, K::kHardSwish,  K::kSigmoid,    K::kSilu,       K::kTanh,       K::kElu,       K::kGelu,
    K::kGeluTanh,    K::kSoftplus,   K::kExp,        K::kRequantize, K::kConvert,    K::kRowMinMax, K::kRowSumSquares};
constexpr size_t kKindCount = sizeof(kKinds) / sizeof(kKinds[0]);
static_assert(kKindCount == static_cast<size_t>(K::kCount));
static_assert(kKinds[QUERN_UKERNEL_OP_CLAMP] == K::kClamp &&
              kKinds[QUERN_UKERNEL_OP_ROW_SUM_SQUARES] == K::kRowSumSquares);

template <class T, size_t N>
int32_t IndexIn(const T (&table)[N], T value) {
  for (size_t i = 0; i < N; ++i) {
    if (table[i] == value) return static_cast<int32_t>(i);
  }
  return 0;
}

constexpr size_t kLargest = SIZE_MAX / 2;

// a * b in *product; false when it is too large.
bool Multiply(size_t a, size_t b, size_t* product) {
  return !__builtin_mul_overflow(a, b, product) && *product < kLargest;
}
bool Add(size_t a, size_t b, size_t* sum) { return !__builtin_add_overflow(a, b, sum) && *sum < kLargest; }

// A bound of everything that is computed from the problem's extents: no element takes more than 16 bytes with its
// scales, and what is padded is less than kPad.
bool Fits(const GemmProblem& p) {
  constexpr size_t kPad = size_t{1} << 17, kBytes = 16;
  size_t k = 0, n = 0, bytes = 0;
  return Add(p.k, kPad, &k) && Add(k, p.block, &k) && Multiply(k, p.segments, &k) && Add(p.n, kPad, &n) &&
         Multiply(k, n, &bytes) && Multiply(bytes, kBytes, &bytes);
}

}  // namespace

bool FromC(int32_t format, Format* out) {
  if (format < 0 || static_cast<size_t>(format) >= sizeof(kFormats) / sizeof(kFormats[0])) return false;
  *out = kFormats[format];
  return true;
}
int32_t ToC(Format format) { return IndexIn(kFormats, format); }
int32_t ToC(Precision precision) { return IndexIn(kPrecisions, precision); }

EpilogueKind KindFromC(int32_t kind) {
  return kind >= 0 && static_cast<size_t>(kind) < kKindCount ? kKinds[kind] : EpilogueKind::kCount;
}
int32_t ToC(EpilogueKind kind) { return IndexIn(kKinds, kind); }

uint32_t MaskToC(uint32_t fused) {
  uint32_t mask = 0;
  for (size_t i = 0; i < kKindCount; ++i) {
    if (fused & EpilogueBit(kKinds[i])) mask |= uint32_t{1} << i;
  }
  return mask;
}

bool FromC(const quern_ukernel_layout& c, PackLayout* l) {
  for (const uint16_t x : c.reserved) {
    if (x) return false;
  }
  if (!c.n_unit || !c.k_interleave || !c.k_multiple || c.n_scale > QUERN_UKERNEL_SME_LANES || c.channel_scales > 1) {
    return false;
  }
  *l = {};
  l->n_unit = c.n_unit;
  l->n_scale = static_cast<VectorScale>(c.n_scale);
  l->k_interleave = c.k_interleave;
  l->k_multiple = c.k_multiple;
  l->channel_scales = c.channel_scales != 0;
  return FromC(c.element, &l->element) && l->element != Format::kNone && FromC(c.scale, &l->scale) &&
         FromC(c.offset, &l->offset) && FromC(c.sums, &l->sums) && FromC(c.bias, &l->bias);
}

quern_ukernel_layout ToC(const PackLayout& l) {
  quern_ukernel_layout c = {};
  c.element = static_cast<uint16_t>(ToC(l.element));
  c.n_unit = l.n_unit;
  c.n_scale = static_cast<uint16_t>(l.n_scale);
  c.k_interleave = l.k_interleave;
  c.k_multiple = l.k_multiple;
  c.scale = static_cast<uint16_t>(ToC(l.scale));
  c.offset = static_cast<uint16_t>(ToC(l.offset));
  c.sums = static_cast<uint16_t>(ToC(l.sums));
  c.channel_scales = l.channel_scales ? 1 : 0;
  c.bias = static_cast<uint16_t>(ToC(l.bias));
  return c;
}
static_assert(static_cast<int>(VectorScale::kSve) == QUERN_UKERNEL_SVE_LANES &&
              static_cast<int>(VectorScale::kSme) == QUERN_UKERNEL_SME_LANES);

bool FromC(const quern_cpu* given, CpuFacts* out) {
  quern_cpu c;
  if (!ReadStruct(given, &c) || c.arch < QUERN_CPU_ANY_ARCH || c.arch > QUERN_CPU_AARCH64) return false;
  CpuFacts f;
  f.arch = c.arch == QUERN_CPU_ANY_ARCH ? HostArch() : c.arch == QUERN_CPU_X86_64 ? Arch::kX86_64 : Arch::kAArch64;
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const auto feature = static_cast<CpuFeature>(i);
    if (CpuFeatureArch(feature) == f.arch && ((c.features >> CFeature(feature)) & 1)) f.features.Set(feature);
  }
  const auto count = [](uint32_t given_count, uint8_t otherwise) {
    return given_count == 0 ? otherwise : static_cast<uint8_t>(given_count < 255 ? given_count : 255);
  };
  if (c.l1d_bytes) f.l1d_bytes = c.l1d_bytes;
  if (c.l2_bytes) f.l2_bytes = c.l2_bytes;
  f.l3_bytes = c.l3_bytes;
  f.sve_vector_bytes = c.sve_vector_bytes;
  f.sme_vector_bytes = c.sme_vector_bytes;
  f.fma_ports = count(c.fma_ports, f.fma_ports);
  f.fma512_ports = count(c.fma512_ports, f.fma512_ports);
  f.l1d_misses = count(c.l1d_misses, f.l1d_misses);
  *out = f;
  return true;
}

quern_ukernel_status FromC(const quern_ukernel_problem* given, const quern_cpu* cpu, GemmProblem* out,
                           SelectOptions* options) {
  quern_ukernel_problem c;
  GemmProblem p;
  if (!ReadStruct(given, &c) || !FromC(cpu, &options->cpu)) return QUERN_UKERNEL_INVALID_ARGUMENT;
  const bool formats =
      FromC(c.lhs, &p.lhs) && FromC(c.rhs, &p.rhs) && FromC(c.scale, &p.scale) && FromC(c.zero_point, &p.zero_point);
  if (!formats || p.lhs == Format::kNone || p.rhs == Format::kNone) return QUERN_UKERNEL_INVALID_ARGUMENT;
  if (c.precision < 0 || c.precision > QUERN_UKERNEL_FP64) return QUERN_UKERNEL_INVALID_ARGUMENT;
  const int32_t form = c.lhs_form ? c.lhs_form : QUERN_UKERNEL_LHS_ROWS;
  const bool one_form =
      form == QUERN_UKERNEL_LHS_ROWS || form == QUERN_UKERNEL_LHS_TAPS || form == QUERN_UKERNEL_LHS_ROW_POINTERS;
  const bool plain_block = c.block != 0 && !IsGguf(p.rhs);
  if (!one_form || (plain_block && p.scale == Format::kNone)) return QUERN_UKERNEL_INVALID_ARGUMENT;
  p.n = c.n;
  p.k = c.k;
  p.segments = c.segments ? c.segments : 1;
  p.block = c.block;
  p.channel_scales = c.channel_scales != 0;
  p.precision = kPrecisions[c.precision];
  p.expected_m = c.expected_m;
  p.rhs_constant = c.rhs_at_run_time == 0;
  p.lhs_form = static_cast<LhsForm>(form);
  p.allow_expansion = c.allow_expansion != 0;
  if (!Fits(p)) return QUERN_UKERNEL_TOO_LARGE;
  options->ignore_missing_bodies = c.any_host != 0;
  *out = p;
  return QUERN_UKERNEL_OK;
}
static_assert(int{kLhsRows} == int{QUERN_UKERNEL_LHS_ROWS} && int{kLhsTaps} == int{QUERN_UKERNEL_LHS_TAPS} &&
              int{kLhsRowPointers} == int{QUERN_UKERNEL_LHS_ROW_POINTERS} &&
              int{kLhsPacked} == int{QUERN_UKERNEL_LHS_PACKED});

EpilogueOp FromC(const quern_ukernel_op& c) {
  EpilogueOp op;
  op.kind = KindFromC(c.kind);
  if (!FromC(c.format, &op.format)) op.format = Format::kNone;
  op.data = c.data;
  op.data2 = c.data2;
  op.row_stride = c.row_stride;
  op.a = c.a;
  op.b = c.b;
  op.scale = c.scale;
  op.integer = c.integer;
  op.out = c.out;
  return op;
}

quern_ukernel_op ToC(const EpilogueOp& op) {
  quern_ukernel_op c;
  quern_ukernel_op_init(&c, ToC(op.kind));
  c.format = ToC(op.format);
  c.data = op.data;
  c.data2 = op.data2;
  c.row_stride = op.row_stride;
  c.a = op.a;
  c.b = op.b;
  c.scale = op.scale;
  c.integer = op.integer;
  c.out = op.out;
  return c;
}

size_t FromC(const quern_ukernel_op* ops, size_t count, EpilogueOp* out) {
  const size_t kept = count < kMostOps ? count : kMostOps;
  for (size_t i = 0; i < kept; ++i) out[i] = FromC(ops[i]);
  return kept;
}

}  // namespace quern::ukernel
