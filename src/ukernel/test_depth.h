// How many shapes the tests by construction take.
#pragma once

#include <cstdlib>

namespace quern::ukernel {

// kBrief: under emulators of other architectures and sanitizers, the fewest that still reach each loop; kFull: with
// ./test.sh --full.
enum class TestDepth { kBrief, kUsual, kFull };

inline TestDepth Depth() {
  if (std::getenv("QUERN_TEST_FULL") != nullptr) return TestDepth::kFull;
  return std::getenv("QUERN_TEST_BRIEF") != nullptr ? TestDepth::kBrief : TestDepth::kUsual;
}

}  // namespace quern::ukernel
