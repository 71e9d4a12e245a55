// The words of reasons and layouts.
#include "ukernel/reason.h"

#include <cstdio>
#include <cstdlib>

#include "ukernel/text_writer.h"

namespace quern::ukernel {
namespace {

void WriteLayout(TextWriter& w, const PackLayout& l) {
  const char* vectors = l.n_scale == VectorScale::kFixed ? "" : "v";
  const size_t group = FormatBits(l.element) < 8 && FormatBits(l.element) > 0
                           ? l.k_interleave * (8 / FormatBits(l.element))
                           : l.k_interleave;
  w.Text(FormatName(l.element)).Text(" [N/").Number(l.n_unit).Text(vectors).Text("]");
  if (group > 1) {
    w.Text("[K/").Number(group).Text("][").Number(l.n_unit).Text(vectors).Text("][").Number(group).Text("]");
  } else {
    w.Text("[K][").Number(l.n_unit).Text(vectors).Text("]");
  }
  if (l.scale != Format::kNone) w.Text(" ").Text(FormatName(l.scale)).Text(" scales");
  if (l.offset != Format::kNone) w.Text(l.offset == Format::kU8 ? ", zero points" : ", offsets");
  if (l.sums != Format::kNone) w.Text(", sums");
  if (l.channel_scales) w.Text(", channel scales");
}

void WriteReason(TextWriter& w, const Rejection& r) {
  switch (r.reason) {
    case Reason::kNone:
      break;
    case Reason::kLhs:
      w.Text("left side ").Text(FormatName(r.format));
      break;
    case Reason::kArch:
      w.Text("for ").Text(ArchName(r.arch));
      break;
    case Reason::kFeature:
      w.Text("needs ").Text(CpuFeatureName(r.feature));
      break;
    case Reason::kDisabled:
      w.Text(KernelGroupName(r.group)).Text(" is switched off");
      break;
    case Reason::kNotForced:
      w.Text("another row is forced");
      break;
    case Reason::kOnlyForced:
      w.Text("taken only when forced");
      break;
    case Reason::kNoBody:
      w.Text("no body in this build");
      break;
    case Reason::kPrecision:
      w.Text("precision ").Text(PrecisionName(r.precision)).Text(" not allowed");
      break;
    case Reason::kKDivisor:
      w.Text("K % ").Number(r.number).Text(" != 0");
      break;
    case Reason::kBlockDivisor:
      w.Text("block % ").Number(r.number).Text(" != 0");
      break;
    case Reason::kLhsForm:
      w.Text("cannot address rows by pointers");
      break;
    case Reason::kInPlaceOnly:
      w.Text("for matrices that are read in place");
      break;
    case Reason::kLayout:
      w.Text("layout ");
      WriteLayout(w, r.layout);
      break;
    case Reason::kSegmentsTransform:
      w.Text("transforms do not keep segments apart");
      break;
    case Reason::kNoTransform:
      w.Text("no block transform from ");
      WriteLayout(w, r.layout);
      break;
    case Reason::kNoLayout:
      w.Text("no layout");
      break;
    case Reason::kSource:
      w.Text(FormatName(r.format)).Text(" weights cannot be packed so");
      break;
    case Reason::kExpandsBlocks:
      w.Text("would expand the blocks to floats");
      break;
    case Reason::kWidensBlocks:
      w.Text("would widen the blocks in memory");
      break;
    case Reason::kScaleFormat:
      w.Text("scales are ").Text(FormatName(r.format));
      break;
    case Reason::kNoBlockScales:
      w.Text("weights have no block scales");
      break;
    case Reason::kNoZeroPoints:
      w.Text("keeps zero points that the weights lack");
      break;
    case Reason::kBlockSegments:
      w.Text("blocks and 4-bit numbers do not go with several segments");
      break;
    case Reason::kNarrow:
      w.Text("precision bf16 not allowed: ").Text(FormatName(r.format)).Text(" weights");
      break;
    case Reason::kHalfRange:
      w.Text("f16 lacks the range of the weights");
      break;
    case Reason::kTermsOnly:
      w.Text("no float32 left where a split is unsafe");
      break;
    case Reason::kNoSums:
      w.Text("has no column sums");
      break;
    case Reason::kNoChannelScales:
      w.Text("has no channel scales");
      break;
    case Reason::kHasChannelScales:
      w.Text("has channel scales");
      break;
    case Reason::kNoRow:
      w.Text("no row of this CPU takes it");
      break;
  }
}

}  // namespace

size_t LayoutText(const PackLayout& layout, char* text, size_t bytes) {
  TextWriter w(text, bytes);
  WriteLayout(w, layout);
  return w.length();
}

size_t ReasonText(const Rejection& rejection, char* text, size_t bytes) {
  TextWriter w(text, bytes);
  WriteReason(w, rejection);
  return w.length();
}

size_t CostText(double cycles, double best, char* text, size_t bytes) {
  const double ratio = best > 0 ? cycles / best : 1.0;
  TextWriter w(text, bytes);
  // The fewest digits that show more than 1.
  constexpr int kMostDigits = 5;
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    char number[48];
    std::snprintf(number, sizeof(number), "%.*f", digits, ratio);
    if (std::strtod(number, nullptr) > 1) return w.Text("cost ").Text(number).Text("x of best").length();
  }
  return w.Text("cost equal to best").length();
}

}  // namespace quern::ukernel
