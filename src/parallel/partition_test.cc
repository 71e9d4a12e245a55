#include "parallel/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace quern {
namespace {

TEST(Partition, EvenNotGreedy) {
  for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(EvenPart(49, 7, i), (IndexRange{7 * i, 7 * i + 7}));
  EXPECT_EQ(EvenBlock(49, 8), 7);
  EXPECT_EQ(EvenBlock(100, 48, 16), 48);
  EXPECT_EQ(EvenBlock(64, 48, 16), 32);
  EXPECT_EQ(EvenBlock(0, 8), 0);
  EXPECT_EQ(EvenBlock(5, 8), 5);
  EXPECT_EQ(EvenBlock(5, 16, 16), 16);
}

TEST(Partition, PartsCoverAllAndKeepToUnits) {
  for (int64_t total : {0, 1, 5, 16, 17, 49, 100, 1000}) {
    for (int64_t parts : {1, 2, 3, 7, 64}) {
      for (int64_t unit : {1, 3, 16}) {
        int64_t at = 0, smallest = INT64_MAX, largest = 0;
        for (int64_t i = 0; i < parts; ++i) {
          const IndexRange r = EvenPart(total, parts, i, unit);
          ASSERT_EQ(r.begin, at);
          ASSERT_LE(r.begin, r.end);
          ASSERT_TRUE(r.end % unit == 0 || r.end == total);
          smallest = std::min(smallest, CeilDiv(r.size(), unit));
          largest = std::max(largest, CeilDiv(r.size(), unit));
          at = r.end;
        }
        ASSERT_EQ(at, total);
        ASSERT_LE(largest - smallest, 1) << total << " in " << parts << " by " << unit;
      }
    }
  }
}

TEST(Partition, EvenBlocksFitAndAreFew) {
  for (int64_t total = 1; total < 300; ++total) {
    for (int64_t max_block : {16, 48, 64}) {
      const int64_t block = EvenBlock(total, max_block, 16);
      ASSERT_EQ(block % 16, 0);
      ASSERT_LE(block, max_block);
      ASSERT_EQ(CeilDiv(total, block), CeilDiv(total, max_block));
    }
  }
}

TEST(Partition, NoOverflowAtTheEnds) {
  const int64_t most = INT64_MAX;
  EXPECT_EQ(CeilDiv(most, most), 1);
  EXPECT_EQ(CeilDiv(most, 2), int64_t{1} << 62);
  EXPECT_EQ(EvenPart(most, 3, 2).end, most);
  EXPECT_EQ(EvenPart(most, 2, 1, most - 1), (IndexRange{most - 1, most}));
}

}  // namespace
}  // namespace quern
