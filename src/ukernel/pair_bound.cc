#include "ukernel/pair_bound.h"

#include "ukernel/format.h"

namespace quern::ukernel {

uint16_t PairBound(const PackLayout& layout, const RhsGeometry& geometry, const void* packed) {
  if (layout.element != Format::kI8 || layout.k_interleave % 2 != 0) return 0;
  const size_t bytes = RhsElementBytes(layout, geometry.n_unit, geometry.padded_k);
  int16_t least = 0, most = 0;
  for (size_t u = 0; u < geometry.units; ++u) {
    const auto* unit = static_cast<const int8_t*>(packed) + geometry.UnitOffset(u);
    for (size_t i = 0; i < bytes; i += 2) {
      const auto sum = static_cast<int16_t>(unit[i] + unit[i + 1]);
      least = sum < least ? sum : least;
      most = sum > most ? sum : most;
    }
  }
  const int below = -least;
  return static_cast<uint16_t>(below > most ? below : most);
}

}  // namespace quern::ukernel
