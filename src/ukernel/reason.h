// Why a row or a resident layout does not serve a product: codes, and their words in a buffer. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"
#include "ukernel/format.h"
#include "ukernel/gemm.h"
#include "ukernel/layout.h"

namespace quern::ukernel {

// A member of Rejection in brackets says what the words name.
enum class Reason : uint8_t {
  kNone,
  // Of a row, whatever the layout.
  kLhs,           // reads another left side [format]
  kArch,          // for another architecture [arch]
  kFeature,       // the CPU lacks one [feature]
  kDisabled,      // its family or engine is switched off [group]
  kNotForced,     // another row was asked for by name
  kOnlyForced,    // taken by name alone
  kNoBody,        // this build has none
  kPrecision,     // less than the problem's [precision]
  kKDivisor,      // K is no multiple [number]
  kBlockDivisor,  // the block is no multiple [number]
  kLhsForm,       // cannot address rows so
  kInPlaceOnly,   // the right side cannot be read in place
  // Of a row and a layout.
  kLayout,             // takes others [layout]
  kSegmentsTransform,  // a block transform would mix segments
  kNoTransform,        // no row of that family makes what the row consumes [layout]
  kNoLayout,           // the row takes none
  // Of a layout.
  kSource,            // the weights cannot be packed so [format]
  kExpandsBlocks,     // blocks would become floats
  kWidensBlocks,      // blocks would grow
  kScaleFormat,       // the weights' scales are of another [format]
  kNoBlockScales,     // the weights have none
  kNoZeroPoints,      // the weights have none
  kBlockSegments,     // blocks, or less than bytes, with several segments
  kNarrow,            // rounds the weights [format]
  kHalfRange,         // float16 lacks their range
  kTermsOnly,         // no float32 left where a split is unsafe
  kNoSums,            // lacks what the left side needs
  kNoChannelScales,   // lacks those of the weights
  kHasChannelScales,  // the weights lack them
  kNoRow,             // no row of the CPU takes it
};

struct Rejection {
  Reason reason = Reason::kNone;
  Format format = Format::kNone;
  Arch arch = Arch::kX86_64;
  CpuFeature feature = CpuFeature::kCount;
  KernelGroup group = KernelGroup::kCount;
  Precision precision = Precision::kExact;
  uint16_t number = 0;
  PackLayout layout{};

  explicit constexpr operator bool() const { return reason != Reason::kNone; }
};

// Enough for every layout's name and every reason, with the closing zero.
constexpr size_t kReasonBytes = 192;

// "f32 [N/16][K][16]", "qb4w [N/16][K/8][16][8] bf16 scales, sums"; scaled units as "4v". Writes at most `bytes`, the
// closing zero among them, and returns the whole length.
size_t LayoutText(const PackLayout& layout, char* text, size_t bytes);

// "needs sme2", "no body in this build", "K % 32 != 0", "layout f32 [N/8][K][8]"; likewise. Empty for kNone.
size_t ReasonText(const Rejection& rejection, char* text, size_t bytes);

// Why something that would serve was not chosen: "cost 1.8x of best", with as many digits as tell the two apart, or
// "cost equal to best" (then the order of the table or the memory decided); likewise.
size_t CostText(double cycles, double best, char* text, size_t bytes);

}  // namespace quern::ukernel
