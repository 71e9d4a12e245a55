// The contract of matrix-product micro-kernels: arguments, descriptor, cost and name. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu_features.h"
#include "ukernel/epilogue.h"
#include "ukernel/format.h"
#include "ukernel/isa.h"
#include "ukernel/layout.h"

namespace quern::ukernel {

// How the left side is addressed; descriptors hold a mask of these bits. In every form the k elements of a row are
// contiguous (but for kLhsPacked), and kernels read nothing outside of them.
enum LhsForm : uint8_t {
  kLhsRows = 1,         // lhs + row*lhs_row_stride
  kLhsTaps = 2,         // lhs + taps[t].lhs_offset + row*lhs_row_stride, against the K range at taps[t].rhs_offset
  kLhsRowPointers = 4,  // row_pointers[t*row_pointer_pitch + row], plus row_pointer_offset unless it is zero_row
  kLhsPacked = 8,       // panels of the descriptor's LhsLayout; m tiles start at multiples of its m_unit
};

// One segment of K: a kernel position of a convolution, or one product of a batch-reduce. Taps that a border drops
// are left out of the list (their weights are skipped through rhs_offset).
struct Tap {
  ptrdiff_t lhs_offset = 0;  // bytes
  size_t rhs_offset = 0;     // bytes from GemmArgs::rhs within each unit
};

enum class RhsForm : uint8_t {
  kPacked,   // units of the consumed layout
  kInPlace,  // a run-time matrix with contiguous columns: element (k, n) at rhs + k*rhs_k_stride + n*element size
};

// GemmArgs::ahead: lines of 64 bytes for each kAheadK k. Where few calls share a panel, each asks for more of the next.
static constexpr size_t kAheadK = 4, kAheadLines = 1, kAheadLinesOfFewRows = 8;

// What a row asks L2 for by GemmArgs::ahead. kPanel is for narrow tiles, whose panels come out of L2 anyway: a block of
// rows passes by each panel, whatever its length, and brings the next one.
enum class AsksAhead : uint8_t {
  kNothing,
  kBlock,  // what comes after the columns that stay in L2
  kPanel,  // the next tile of columns
};

// Of int8 weights, where neighbours of K (2i and 2i + 1, of one column) add up to more than rhs_pair_bound, or to less
// than its negative. 255 times a sum of at most kMostOfNarrowPair fits 16 bits.
static constexpr int kMostOfNarrowPair = 128;
struct WideGroups {
  // Of each unit its first place in `at`, and behind the last unit the end. Null: none, if there is a bound.
  const uint32_t* begin = nullptr;
  const uint32_t* at = nullptr;  // groups of 4 k that have such a pair, bytes from their unit's beginning
};

// One call. It computes acc[m][n] (+)= sum over taps and k of lhs * rhs for an m x n tile; with last_k it then runs the
// fused epilogue and writes dst. lhs is the stored number (for kI8d the int8 q, not x), rhs the number that the
// resident layout stands for: block scales and offsets applied, channel scales not. Pointers have no alignment beyond
// their element's, but for packed operands (kPackAlignment). Operands in a layout (packed right sides, left sides
// prepared as `lhs_layout` says) may be read up to the next multiple of their k_multiple, where they hold zeros.
// Nothing may alias dst or acc, except that acc may be dst when both have the accumulator's format.
struct GemmArgs {
  size_t m = 0;  // 1..mr (any number for rows with `whole_panel`; see `many_tiles`)
  size_t n = 0;  // 1..nr (any number for rows with `whole_panel`)
  size_t k = 0;  // elements per tap; 0 is allowed (the result is the accumulator, or zero)

  LhsForm lhs_form = kLhsRows;
  const void* lhs = nullptr;         // first row (kLhsPacked: first panel) at the block's first k
  ptrdiff_t lhs_row_stride = 0;      // bytes between rows; kLhsPacked: between panels
  const void* lhs_scales = nullptr;  // kI8b: float32 scales of the first row's (panel's) blocks from the block's first
                                     // k on, the same row stride
  const Tap* taps = nullptr;         // kLhsTaps
  size_t tap_count = 1;              // kLhsTaps and kLhsRowPointers; 1 otherwise
  const void* const* row_pointers = nullptr;
  size_t row_pointer_pitch = 0;      // pointers between taps
  ptrdiff_t row_pointer_offset = 0;  // bytes, moves one indirection table from image to image
  const void* zero_row = nullptr;    // the row of padding (zeros, or the zero point), never moved

  RhsForm rhs_form = RhsForm::kPacked;
  const void* rhs = nullptr;          // first unit's elements at the block's first k
  size_t rhs_unit_stride = 0;         // bytes between units (kPacked)
  size_t rhs_k_stride = 0;            // bytes between k (kInPlace)
  size_t rhs_tap_stride = 0;          // bytes within a unit from tap to tap (kLhsRowPointers; kLhsTaps has its own)
  const void* rhs_scales = nullptr;   // first unit's scales at the block's first k: [block][n_unit], same unit stride
  const void* rhs_offsets = nullptr;  // likewise
  Format rhs_scale = Format::kNone;   // of rhs_scales: rows take every format that their layouts have
  Format rhs_offset = Format::kNone;  // likewise; kNone: unsigned weights have the zero point 2^(bits-1)
  size_t block = 0;                   // elements along K per scale
  // Packed weights of a later call, which rows with `asks_ahead` bring to L2: so many lines for each kAheadK k of each
  // tap; kAheadLinesOfFewRows only with kLhsRows and kPacked. Null: none.
  const void* ahead = nullptr;
  size_t ahead_lines = kAheadLines;
  const void* rhs_sums = nullptr;  // at the tile's first column: sums over the whole K (rows with `uses_sums`)
  // Rows with `uses_pairs`: no two neighbours of K (2i and 2i + 1, of int8 weights of one column) add up to more, or to
  // less than its negative, but for those of rhs_wide_groups; 0: not known.
  uint16_t rhs_pair_bound = 0;

  bool first_k = true;        // start from zero; else from acc
  bool last_k = true;         // run ops and write dst; else write acc
  void* acc = nullptr;        // [m][n] of the accumulator's format; unused when first_k and last_k
  size_t acc_row_stride = 0;  // bytes
  void* dst = nullptr;        // [m][n] of EpilogueFormat(acc format, ops, op_count)
  size_t dst_row_stride = 0;  // bytes

  const EpilogueOp* ops = nullptr;  // only ops that the row fuses
  size_t op_count = 0;
  size_t m0 = 0, n0 = 0;  // position of the tile for the ops' operands

  size_t vector_bytes = 0;      // SVE or streaming vector length that the operands were packed for
  bool stream_into_l1 = false;  // few rows ask for weights ahead into L1, not L2 (StreamsIntoL1)
  void* scratch = nullptr;      // `scratch_bytes` of the descriptor, 64-byte aligned, contents undefined

  // Few rows read these: behind what all do.
  WideGroups rhs_wide_groups;  // rows with `uses_pairs`; `begin` is that of the first unit
  size_t rhs_unit_offset = 0;  // bytes from its beginning to rhs
};

// Whether weights that come from memory are better asked for into L1: it must wait for as many lines at once as
// memory's rate needs (40 GB/s by 80 ns are 50). Where it cannot (24 on Zen 4), asking L1 halves what memory gives;
// where it can (Zen 5), asking L2 costs up to a fifth.
static constexpr bool StreamsIntoL1(const CpuFacts& cpu) { return cpu.l1d_misses >= 48; }

// What the result may differ by (numerics.md); kExact is integer arithmetic, the same bits everywhere. kFp64 is as
// kFp32, of float64.
// kFp16 rows take float32 rows as float16, or sum products of float16 in float16 over at most 32 k, and those sums in
// float32.
enum class Precision : uint8_t { kExact, kFp64, kFp32, kFp32Fast, kFp16, kBf16 };

static constexpr const char* PrecisionName(Precision p) {
  switch (p) {
    case Precision::kExact:
      return "exact";
    case Precision::kFp64:
      return "fp64";
    case Precision::kFp32:
      return "fp32";
    case Precision::kFp32Fast:
      return "fp32-fast";
    case Precision::kFp16:
      return "fp16";
    case Precision::kBf16:
      return "bf16";
  }
  return "?";
}

// The execution resource that bounds a row, by which cost terms follow the CPU.
enum class Engine : uint8_t {
  kScalar,  // compiled for the baseline
  kVector,  // 256-bit (x86) or 128-bit (Arm) multiply-add ports
  kVector512,
  kMatrix,  // AMX, SME: one unit per core (or shared)
};

// Cycles of one call, for full-speed caches:
//   call + share*m*row + tile + steps * max(share*step_min, m * (share*step_row + step_load))
// where a step is kr elements of K, m is counted in whole units of m_grain, and the share is of nr, what the whole
// units of n columns have; for step_row without the half of a narrow unit. With a scaled mr, a vector of rows counts as
// one in the steps and the grain; with a scaled nr alone, the steps are per lane.
struct GemmCost {
  Engine engine = Engine::kVector;
  float step_row = 0;    // per row of the tile and K step: the engine's, longer where a CPU has less of it
  float step_load = 0;   // per row of the tile and K step: loads of the left side, the same on any CPU
  float step_min = 0;    // per K step: loads of the right side, latency of few accumulators
  float row = 0;         // per row: first load, epilogue, store
  float tile = 0;        // per tile
  float call = 20;       // per call: entering, mode changes
  float read = 32;       // bytes per cycle of the right side at most, out of L2
  uint16_t m_grain = 1;  // rows are computed in multiples of this
};

using GemmRun = void (*)(const GemmArgs&);

constexpr size_t kMaxLayouts = 9;

// In which order products are added up; sum_order.h has their texts.
enum class SumOrder : uint8_t {
  kOfItsKind,  // of the row's ISA and types: SumOrderOf in sum_order.h
  kExact,
  kIntegerBlocks,
  kInOrder,
  kInterleaved,
  kPairs,
  kChains,
  kOddFirstChains,
  kApartChains,
  kHalfChains,
  kHalves,
  kOtherPairs,
  kThirtyTwo,
  kBlocks,
  kPieces,
  kTermBlocks,
  kSplitBlocks,
  kCount,
};

struct GemmKernel {
  Isa isa{};
  Format lhs = Format::kNone;         // the numbers that the kernel multiplies
  Format lhs_source = Format::kNone;  // as the operator has it; kNone: the same
  Format rhs = Format::kNone;         // as it is resident
  Format dst = Format::kF32;          // accumulator: kF32, kI32 or kF64
  Precision precision = Precision::kFp32;

  uint16_t mr = 1, nr = 16, kr = 1;  // tile, K step; mr and nr times the vector's lanes if scaled
  VectorScale mr_scale = VectorScale::kFixed;
  VectorScale nr_scale = VectorScale::kFixed;
  bool whole_panel = false;  // takes any m and n in one call and loops inside (streaming mode)
  // Also takes any multiple of mr rows, tile after tile, in calls with first_k and last_k, kLhsRows or kLhsTaps,
  // kPacked, and without `ahead`.
  bool many_tiles = false;

  uint8_t lhs_forms = kLhsRows;       // mask of LhsForm
  LhsLayout lhs_layout{};             // how rows must be prepared: for kLhsPacked, when lhs != lhs_source, or widened
  bool rhs_in_place = false;          // also takes RhsForm::kInPlace
  bool only_in_place = false;         // made for that form: taken for others by name alone
  PackLayout consumed{};              // the right side as the kernel reads it
  PackLayout layouts[kMaxLayouts]{};  // resident layouts accepted; one whose elements differ from those of `consumed`
                                      // (SameElements) needs a block transform from it. Ends at element kNone.
  uint16_t k_divisor = 1;             // K (per tap) must be a multiple of this
  uint16_t block_divisor = 1;         // the block length must be a multiple of this
  AsksAhead asks_ahead = AsksAhead::kNothing;
  // Calls of mr rows and up to this many units compute the last unit as half of one where it has no more columns.
  uint8_t narrow_units = 0;
  bool one_tile = false;    // of rows: where there are more, weights would be read and unpacked once for each
  bool uses_sums = false;   // reads rhs_sums: all taps must then be in the calls from first_k to last_k
  bool uses_pairs = false;  // faster where rhs_pair_bound is small, or rhs_wide_groups are few
  SumOrder sum_order = SumOrder::kOfItsKind;

  // The numbers of another row, in portable C++: what tests compare that row's with where the CPU lacks its ISA, and
  // what its emulation is measured against. Too slow to serve, so that selection takes it by name alone.
  bool only_forced = false;

  uint32_t fused = 0;  // mask of EpilogueBit that the kernel fuses
  GemmCost cost{};
  uint32_t scratch_bytes = 0;  // GemmArgs::scratch

  // Modes, null where not needed: a worker enters at most once in each parallel region of a product, around all its
  // calls there, and leaves on the same thread.
  const void* mode_config = nullptr;  // 64-byte AMX tile configuration
  void (*enter_mode)(const void* mode_config) = nullptr;
  void (*leave_mode)() = nullptr;

  GemmRun run = nullptr;  // null where this build has no body
};

// Whether the call may have several tiles of rows.
static constexpr bool TakesManyTiles(const GemmKernel& r, const GemmArgs& a) {
  return r.many_tiles && a.first_k && a.last_k && !a.ahead && a.rhs_form == RhsForm::kPacked &&
         (a.lhs_form == kLhsRows || a.lhs_form == kLhsTaps);
}

static constexpr Format LhsSourceFormat(const GemmKernel& r) {
  return r.lhs_source == Format::kNone ? r.lhs : r.lhs_source;
}
static constexpr size_t TileM(const GemmKernel& r, const CpuFacts& c) {
  return r.mr * ScaleLanes(r.mr_scale, r.mr_scale == VectorScale::kSme ? c.sme_vector_bytes : c.sve_vector_bytes);
}
static constexpr size_t TileN(const GemmKernel& r, const CpuFacts& c) {
  return r.nr * ScaleLanes(r.nr_scale, r.nr_scale == VectorScale::kSme ? c.sme_vector_bytes : c.sve_vector_bytes);
}
// Vector length that the row's operands are packed for; 0 for rows of fixed size.
static constexpr size_t RowVectorBytes(const GemmKernel& r, const CpuFacts& c) {
  const VectorScale s = r.consumed.n_scale != VectorScale::kFixed ? r.consumed.n_scale : r.nr_scale;
  return s == VectorScale::kFixed ? 0 : s == VectorScale::kSme ? c.sme_vector_bytes : c.sve_vector_bytes;
}
static constexpr bool AcceptsLayout(const GemmKernel& r, const PackLayout& l) {
  for (const PackLayout& x : r.layouts) {
    if (x.element != Format::kNone && x == l) return true;
  }
  return false;
}

// How much longer the row's engine takes on a CPU than on the one its terms were written for (two ports).
static constexpr float EngineScale(Engine e, const CpuFacts& c) {
  if (e == Engine::kVector) return 2.0f / (c.fma_ports ? c.fma_ports : 1);
  if (e == Engine::kVector512) return 2.0f / (c.fma512_ports ? c.fma512_ports : 1);
  return 1.0f;
}

// Cycles of one call on an m x n tile over `k` elements, operands in cache. Tiles compute whole units of their columns.
static constexpr float GemmTileCycles(const GemmKernel& r, const CpuFacts& c, size_t m, size_t n, size_t k) {
  const GemmCost& t = r.cost;
  const size_t unit = r.consumed.n_unit * ScaleLanes(r.consumed.n_scale, RowVectorBytes(r, c));
  const float share = static_cast<float>(RoundUp(n, unit)) / static_cast<float>(TileN(r, c));
  // Half a vector takes half of the time on cores that compute vectors in halves (on Intel's with one unit all of it).
  const bool narrow = c.fma512_ports == 1 && m == TileM(r, c) && n % unit != 0 && n % unit <= unit / 2 &&
                      CeilDiv(n, unit) <= r.narrow_units;
  const float computed = narrow ? share - static_cast<float>(unit / 2) / static_cast<float>(TileN(r, c)) : share;
  const size_t m_lanes = TileM(r, c) / r.mr;
  const float width = r.mr_scale == VectorScale::kFixed ? static_cast<float>(TileN(r, c) / r.nr) : 1.0f;
  const float rows = static_cast<float>(RoundUp(m, t.m_grain * (m_lanes ? m_lanes : 1)));
  const float vectors = m_lanes > 1 ? rows / static_cast<float>(m_lanes) : rows;
  const float steps = static_cast<float>(CeilDiv(k, r.kr)) * width;
  const float by_row = vectors * (computed * t.step_row * EngineScale(t.engine, c) + t.step_load);
  const float least = share * t.step_min;
  return t.call + t.tile + rows * share * t.row + steps * (by_row > least ? by_row : least);
}

// A name, in place: no allocation.
struct KernelName {
  char text[96] = {};
};

// `gemm_<lhs>_<rhs>_<dst>_<mr>x<nr>x<kr>_<isa>`; scaled extents carry a `v`: `1vx4vx1`.
KernelName Name(const GemmKernel& row);

// All rows of this build, whatever the CPU, in the order of their files' names.
std::span<const KernelList<GemmKernel>* const> AllGemmKernels();

// The rows whose ISA has an emulation (`isa.emulated`), built with it; in the library ukernel_emulated, for tests only.
std::span<const KernelList<GemmKernel>* const> EmulatedGemmKernels();

}  // namespace quern::ukernel
