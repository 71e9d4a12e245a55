#include "tensor/memory_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace quern {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

TEST(MemoryPool, KeepsNoMoreThanWasInUse) {
  MemoryPool pool;
  MemoryPool::Block a = pool.Take(kMegabyte).value(), b = pool.Take(3 * kMegabyte).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
  const void *const first = a.data(), *const second = b.data();
  pool.GiveBack(std::move(a));
  pool.GiveBack(std::move(b));
  const size_t most = pool.kept_bytes();
  EXPECT_GE(most, 4 * kMegabyte);
  EXPECT_LT(most, 5 * kMegabyte);
  // The same blocks for sizes that fit them, somewhat larger ones too.
  b = pool.Take(3 * kMegabyte + 1000).value();
  EXPECT_EQ(b.data(), second);
  a = pool.Take(kMegabyte - 5).value();
  EXPECT_EQ(a.data(), first);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  pool.GiveBack(std::move(a));
  pool.GiveBack(std::move(b));
  // A new one in the place of an old one.
  MemoryPool::Block large = pool.Take(4 * kMegabyte).value();
  EXPECT_LE(pool.kept_bytes(), kMegabyte);
  pool.GiveBack(std::move(large));
  EXPECT_LE(pool.kept_bytes(), most + kMegabyte / 2);
}

TEST(MemoryPool, LeavesSmallAndMuchLargerBlocks) {
  MemoryPool pool;
  MemoryPool::Block small = pool.Take(100).value();
  std::memset(small.data(), 1, 128);
  pool.GiveBack(std::move(small));
  EXPECT_EQ(pool.kept_bytes(), 0u);
  EXPECT_TRUE(pool.Take(0).value().data());
  pool.GiveBack(pool.Take(8 * kMegabyte).value());
  const size_t kept = pool.kept_bytes();
  const MemoryPool::Block third = pool.Take(kMegabyte).value();
  EXPECT_LE(pool.kept_bytes() + kMegabyte, kept) << "memory of eight times the size is not for it";
}

TEST(MemoryPool, SaysWhatThereIsNoMemoryFor) {
  MemoryPool pool;
  pool.GiveBack(pool.Take(kMegabyte).value());
  const auto none = pool.Take(size_t{1} << 60);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(none.status().message().find("1152921504606846976 bytes"), std::string::npos) << none.status().message();
}

}  // namespace
}  // namespace quern
