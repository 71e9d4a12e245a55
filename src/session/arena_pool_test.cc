#include "session/arena_pool.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(ArenaPool, GivesTheSmallestThatIsLargeEnough) {
  ArenaPool pool;
  AlignedBuffer small = pool.Take(1000).value(), large = pool.Take(9000).value();
  const std::byte *first = small.data(), *second = large.data();
  pool.GiveBack(std::move(large));
  pool.GiveBack(std::move(small));
  AlignedBuffer taken = pool.Take(500).value();
  EXPECT_EQ(taken.data(), first);
  EXPECT_EQ(taken.size_bytes(), 1000u);
  AlignedBuffer other = pool.Take(500).value();
  EXPECT_EQ(other.data(), second);
}

// Whoever needs more has a smaller one go.
TEST(ArenaPool, GrowsInPlaceOfASmallerOne) {
  ArenaPool pool;
  for (const size_t bytes : {1000, 2000, 3000}) pool.GiveBack(pool.Take(bytes).value());
  AlignedBuffer arena = pool.Take(1).value();
  EXPECT_EQ(arena.size_bytes(), 3000u);
  EXPECT_EQ(pool.Take(1).value().size_bytes(), 1u) << "there is only one";
}

TEST(ArenaPool, NoMemoryIsAnError) {
  ArenaPool pool;
  EXPECT_EQ(pool.Take(size_t{1} << 60).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace quern
