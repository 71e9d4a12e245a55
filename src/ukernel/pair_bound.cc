#include "ukernel/pair_bound.h"

#include "ukernel/convert.h"
#include "ukernel/format.h"
#include "ukernel/gemm.h"

namespace quern::ukernel {
namespace {

// The greatest magnitude of the sum of each of `pairs` neighbours.
int GreatestSum(const char* p, size_t pairs) {
  int16_t least = 0, most = 0;
  for (size_t i = 0; i < pairs; ++i) {
    const auto both = LoadAs<uint16_t>(p + 2 * i);
    const auto low = static_cast<int16_t>(static_cast<int16_t>(both << 8) >> 8);
    const auto sum = static_cast<int16_t>(low + (static_cast<int16_t>(both) >> 8));
    least = sum < least ? sum : least;
    most = sum > most ? sum : most;
  }
  return -least > most ? -least : most;
}

// f(unit, bytes from its beginning, magnitude of its widest pair) for each group of 4 k.
template <class F>
void ForEachGroup(const PackLayout& layout, const RhsGeometry& geometry, const void* packed, F f) {
  const size_t bytes = RhsElementBytes(layout, geometry.n_unit, geometry.padded_k);
  const size_t group = RhsElementBytes(layout, geometry.n_unit, 4);
  for (size_t u = 0; u < geometry.units; ++u) {
    const char* unit = static_cast<const char*>(packed) + geometry.UnitOffset(u);
    for (size_t i = 0; i < bytes; i += group) f(u, i, static_cast<unsigned>(GreatestSum(unit + i, group / 2)));
  }
}

bool HasPairs(const PackLayout& layout) { return layout.element == Format::kI8 && layout.k_interleave % 2 == 0; }

}  // namespace

uint16_t FindPairBound(const PackLayout& layout, const RhsGeometry& geometry, const void* packed, PairCounts* counts) {
  if (layout.element == Format::kU4 && layout.scale == Format::kNone) return 16;  // of -8 to 7
  if (!HasPairs(layout)) return 0;
  unsigned bound = 0;
  ForEachGroup(layout, geometry, packed, [&](size_t, size_t, unsigned sum) {
    bound = sum > bound ? sum : bound;
    if (counts) ++(*counts)[sum];
  });
  return static_cast<uint16_t>(bound);
}

size_t ListWideGroups(const PackLayout& layout, const RhsGeometry& geometry, const void* packed, unsigned narrow,
                      uint32_t* begin, uint32_t* at, size_t most, size_t first) {
  size_t wide = 0, begun = 0;  // units
  if (HasPairs(layout)) {
    ForEachGroup(layout, geometry, packed, [&](size_t unit, size_t place, unsigned sum) {
      for (; begun <= unit; ++begun) begin[begun] = static_cast<uint32_t>(first + wide);
      if (sum <= narrow) return;
      if (wide < most) at[wide] = static_cast<uint32_t>(place);
      ++wide;
    });
  }
  for (; begun <= geometry.units; ++begun) begin[begun] = static_cast<uint32_t>(first + wide);
  return wide;
}

}  // namespace quern::ukernel
