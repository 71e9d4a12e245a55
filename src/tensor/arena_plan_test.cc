#include "tensor/arena_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace quern {
namespace {

bool Meet(const ArenaBuffer& a, const ArenaBuffer& b) { return a.first <= b.last && b.first <= a.last; }

// The most bytes that are alive in one step: no plan needs less.
size_t BytesAtOnce(const std::vector<ArenaBuffer>& buffers) {
  size_t most = 0;
  for (const ArenaBuffer& at : buffers) {  // a maximum is reached where some buffer begins
    size_t sum = 0;
    for (const ArenaBuffer& b : buffers) {
      if (b.first <= at.first && at.first <= b.last) sum += b.bytes;
    }
    most = std::max(most, sum);
  }
  return most;
}

// What holds for every plan.
void CheckPlan(const std::vector<ArenaBuffer>& buffers, size_t arena) {
  EXPECT_GE(arena, BytesAtOnce(buffers));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const ArenaBuffer& a = buffers[i];
    EXPECT_EQ(a.offset % 64, 0u) << i;
    EXPECT_LE(a.offset + a.bytes, arena) << i;
    if (a.bytes >= 4096) {
      EXPECT_NE(a.offset % 4096, 0u) << i;
    }
    for (size_t j = 0; j < i; ++j) {
      const ArenaBuffer& b = buffers[j];
      if (!Meet(a, b)) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << i << " over " << j;
      EXPECT_NE(a.offset, b.offset) << i << " and " << j;
      if (a.bytes >= 4096 && b.bytes >= 4096) {
        EXPECT_NE(a.offset % 4096, b.offset % 4096) << i << " and " << j;
      }
    }
  }
}

TEST(PlanArena, NothingTakesNothing) { EXPECT_EQ(PlanArena({}), 0u); }

TEST(PlanArena, RandomLifetimes) {
  std::mt19937 rng(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaBuffer> buffers(1 + rng() % 60);
    size_t sum = 0;
    for (ArenaBuffer& b : buffers) {
      switch (rng() % 4) {
        case 0:
          b.bytes = rng() % 3;  // empty ones too
          break;
        case 1:
          b.bytes = 4096 * (1 + rng() % 8);  // whole pages
          break;
        default:
          b.bytes = rng() % 100'000;
      }
      b.first = static_cast<int>(rng() % 40);
      const int longest = rng() % 2 ? 3 : 40;
      b.last = b.first + static_cast<int>(rng() % 1000) % longest;
      sum += (b.bytes / 64 + 1) * 64 + 4096;
    }
    const size_t arena = PlanArena(buffers);
    CheckPlan(buffers, arena);
    EXPECT_LE(arena, sum);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(PlanArena, LifetimesApartShareMemory) {
  // A chain: each step reads one buffer and writes the next, so two of them at a time are enough.
  std::vector<ArenaBuffer> chain;
  for (int i = 0; i < 20; ++i) chain.push_back({.bytes = 1 << 20, .first = i, .last = i + 1});
  const size_t arena = PlanArena(chain);
  CheckPlan(chain, arena);
  EXPECT_LE(arena, (2u << 20) + 4096);
}

TEST(PlanArena, FillsTheLowestGap) {
  std::vector<ArenaBuffer> buffers = {{.bytes = 1024, .first = 0, .last = 9},
                                      {.bytes = 640, .first = 0, .last = 3},
                                      {.bytes = 512, .first = 0, .last = 9},
                                      {.bytes = 448, .first = 4, .last = 9}};
  EXPECT_EQ(PlanArena(buffers), 1024u + 640 + 512);
  CheckPlan(buffers, 1024 + 640 + 512);
  EXPECT_EQ(buffers[3].offset, buffers[1].offset);  // the second is over when it begins
}

TEST(PlanArena, EmptyBuffersAliveTogetherHaveAddressesOfTheirOwn) {
  std::vector<ArenaBuffer> buffers(3, {.bytes = 0, .first = 1, .last = 1});
  CheckPlan(buffers, PlanArena(buffers));
}

TEST(PlanArena, MoreLargeBuffersThanLinesInAPage) {
  std::vector<ArenaBuffer> buffers(100, {.bytes = 8192, .first = 0, .last = 0});
  const size_t arena = PlanArena(buffers);
  EXPECT_LE(arena, 100u * (8192 + 4096));
  std::sort(buffers.begin(), buffers.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_NE(buffers[i].offset % 4096, 0u);
    if (i > 0) {
      EXPECT_GE(buffers[i].offset, buffers[i - 1].offset + 8192);
    }
  }
}

}  // namespace
}  // namespace quern
