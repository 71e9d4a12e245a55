// BitwiseXor: a ^ b for each pair of integers, bit by bit.
#include "ops/common/bitwise.h"

namespace quern {
namespace {

struct BitXor {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace

extern constinit const OpDefinition kOpBitwiseXor = {"", "BitwiseXor", kBitwiseVersions<BitXor>};

}  // namespace quern
