#include "ukernel/pair_bound.h"

#include "ukernel/convert.h"
#include "ukernel/format.h"

namespace quern::ukernel {

uint16_t PairBound(const PackLayout& layout, const RhsGeometry& geometry, const void* packed) {
  if (layout.element != Format::kI8 || layout.k_interleave % 2 != 0) return 0;
  const size_t pairs = RhsElementBytes(layout, geometry.n_unit, geometry.padded_k) / 2;
  int16_t least = 0, most = 0;
  for (size_t u = 0; u < geometry.units; ++u) {
    const auto* unit = static_cast<const char*>(packed) + geometry.UnitOffset(u);
    for (size_t i = 0; i < pairs; ++i) {
      const auto both = LoadAs<uint16_t>(unit + 2 * i);
      const auto low = static_cast<int16_t>(static_cast<int16_t>(both << 8) >> 8);
      const auto sum = static_cast<int16_t>(low + (static_cast<int16_t>(both) >> 8));
      least = sum < least ? sum : least;
      most = sum > most ? sum : most;
    }
  }
  const int below = -least;
  return static_cast<uint16_t>(below > most ? below : most);
}

}  // namespace quern::ukernel
