#include "ops/common/sorted_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace quern {
namespace {

// By insertion, by merging and by digits; keys of which some, or most, are equal.
TEST(SortByKey, IsStable) {
  std::mt19937_64 random(3);
  for (const int64_t n : {0, 1, 2, 31, 32, 33, 48, 65, 200, 256, 257, 511, 513, 3000}) {
    for (const int bytes : {1, 2, 4, 8}) {
      for (const uint64_t largest : {uint64_t{3}, ~uint64_t{0} >> (64 - 8 * bytes)}) {
        std::vector<KeyedIndex> entries, spare(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) entries.push_back({random() & largest, i});
        std::vector<KeyedIndex> expected = entries;
        std::sort(expected.begin(), expected.end(),
                  [](auto& a, auto& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; });
        SortByKey(entries.data(), spare.data(), n, bytes);
        for (size_t i = 0; i < entries.size(); ++i) {
          ASSERT_EQ(entries[i].key, expected[i].key) << n << " entries, " << bytes << " bytes, place " << i;
          ASSERT_EQ(entries[i].index, expected[i].index) << n << " entries, " << bytes << " bytes, place " << i;
        }
      }
    }
  }
}

TEST(SortByKey, KeysAreOrderedAsNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float rising[] = {-kInfinity, -1e30f, -1, -1e-40f, 0, 1e-40f, 1, 1e30f, kInfinity, NAN};
  for (size_t i = 1; i < std::size(rising); ++i) EXPECT_LT(OrderedKey(rising[i - 1]), OrderedKey(rising[i])) << i;
  EXPECT_EQ(OrderedKey(0.0f), OrderedKey(-0.0f));
  EXPECT_EQ(OrderedKey(std::nan("1")), OrderedKey(-std::nan("")));
  EXPECT_LT(OrderedKey(std::numeric_limits<int64_t>::min()), OrderedKey(int64_t{-1}));
  EXPECT_LT(OrderedKey(int64_t{-1}), OrderedKey(int64_t{0}));
  EXPECT_LT(OrderedKey(uint8_t{127}), OrderedKey(uint8_t{128}));
}

}  // namespace
}  // namespace quern
