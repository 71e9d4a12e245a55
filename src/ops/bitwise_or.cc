// BitwiseOr: a | b for each pair of integers, bit by bit.
#include "ops/common/bitwise.h"

namespace quern {
namespace {

struct BitOr {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};

}  // namespace

extern constinit const OpDefinition kOpBitwiseOr = {"", "BitwiseOr", kBitwiseVersions<BitOr>};

}  // namespace quern
