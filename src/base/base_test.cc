// The small headers of base: status, checks, checked arithmetic, types, buffers, log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "base/dtype.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/status.h"

namespace quern {
namespace {

Result<int> Half(int x) {
  if (x % 2) return InvalidArgument(std::to_string(x) + " is odd");
  return x / 2;
}

Result<int> Quarter(int x) {
  QUERN_ASSIGN_OR_RETURN(const int half, Half(x));
  QUERN_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status CheckQuarter(int x) {
  QUERN_RETURN_IF_ERROR(Quarter(x).status());
  return OkStatus();
}

TEST(Status, ValuesAndErrorsGoUp) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
  EXPECT_EQ(Quarter(6).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(CheckQuarter(8).ok());
  EXPECT_FALSE(CheckQuarter(9).ok());
  EXPECT_EQ(CheckQuarter(9).WithContext("node 'a'").message(), "node 'a': 9 is odd");
  EXPECT_TRUE(OkStatus().WithContext("x").ok());
  Result<std::unique_ptr<int>> moved = std::make_unique<int>(4);
  EXPECT_EQ(*std::move(moved).value(), 4);
}

TEST(StatusDeathTest, TakingTheValueOfAnErrorAborts) { EXPECT_DEATH((void)*Half(3), "3 is odd"); }

TEST(CheckedMath, FindsOverflow) {
  EXPECT_EQ(CheckedMul<int64_t>(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(CheckedMul<int64_t>(int64_t{1} << 32, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(CheckedAdd<uint8_t>(200, 55), 255);
  EXPECT_EQ(CheckedAdd<uint8_t>(200, 56), std::nullopt);
  const auto product = [](std::vector<int64_t> dims) { return CheckedProduct(dims); };
  EXPECT_EQ(product({}), 1);
  EXPECT_EQ(product({2, 3, 4}), 24);
  EXPECT_EQ(product({2, -1}), std::nullopt);
  EXPECT_EQ(product({0, -1}), std::nullopt);
  EXPECT_EQ(product({int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(product({int64_t{1} << 40, 0, 7}), 0);
}

TEST(DType, Facts) {
  EXPECT_STREQ(DTypeName(DType::kF32), "f32");
  EXPECT_EQ(DTypeBytes(DType::kBF16), 2u);
  EXPECT_EQ(DTypeBytes(DType::kI4), 0u);
  EXPECT_EQ(DTypeBytes(DType::kString), 0u);
  EXPECT_EQ(GetDTypeInfo(DType::kQ4_0).block_bytes, 18);
  EXPECT_EQ(GetDTypeInfo(DType::kQ4_1).block_elements, 32);
  EXPECT_TRUE(IsBlockType(DType::kQ8_0));
  EXPECT_FALSE(IsBlockType(DType::kI2));
  EXPECT_TRUE(IsFloatType(DType::kF8E8M0));
  EXPECT_FALSE(IsFloatType(DType::kBool));
  EXPECT_TRUE(IsIntegerType(DType::kU4));
  EXPECT_FALSE(IsIntegerType(DType::kF16));
  EXPECT_STREQ(DTypeName(static_cast<DType>(200)), "undefined");
}

TEST(AlignedBuffer, AlignsZeroesAndMoves) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{100001}}) {
    Result<AlignedBuffer> made = AlignedBuffer::Allocate(bytes, {.zero = true});
    ASSERT_TRUE(made.ok());
    AlignedBuffer buffer = std::move(made).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.size_bytes(), bytes);
    // The whole last line is the buffer's (the address sanitizer would object).
    const size_t padded = (bytes + 63) / 64 * 64;
    for (size_t i = 0; i < padded; ++i) ASSERT_EQ(buffer.as<uint8_t>()[i], 0);
  }
  AlignedBuffer a = AlignedBuffer::Allocate(128).value();
  const std::byte* data = a.data();
  AlignedBuffer b = std::move(a);
  EXPECT_EQ(b.data(), data);
  AlignedBuffer c;
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size_bytes(), 128u);
}

TEST(AlignedBuffer, HugePagesAndLargeAlignments) {
  Result<AlignedBuffer> huge = AlignedBuffer::Allocate(kHugePageBytes + 5, {.huge_pages = true, .zero = true});
  ASSERT_TRUE(huge.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(huge->data()) % kHugePageBytes, 0u);
  EXPECT_EQ(huge->as<uint8_t>()[kHugePageBytes + 4], 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(AlignedBuffer::Allocate(10, {.alignment = 4096})->data()) % 4096, 0u);
}

TEST(AlignedBuffer, ImpossibleSizesAreErrors) {
  EXPECT_EQ(AlignedBuffer::Allocate(SIZE_MAX).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(AlignedBuffer::Allocate(SIZE_MAX - 100).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(AlignedBuffer::Allocate(size_t{1} << 60, {.huge_pages = true}).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(Log, SinkGetsWhatTheLevelLetsThrough) {
  using Lines = std::vector<std::string>;
  Lines lines;
  Logger logger(LogLevel::kWarning);
  logger.SetSink(
      [](void* context, LogLevel level, std::string_view message) {
        static_cast<Lines*>(context)->push_back(std::string(LogLevelName(level)) + "|" + std::string(message));
      },
      &lines);
  logger.Log(LogLevel::kInfo, "no");
  logger.Log(LogLevel::kError, "yes");
  logger.SetLevel(LogLevel::kVerbose);
  logger.Log(LogLevel::kVerbose, "now");
  logger.SetLevel(LogLevel::kOff);
  logger.Log(LogLevel::kError, "never");
  logger.Log(LogLevel::kOff, "never");
  EXPECT_EQ(lines, (Lines{"error|yes", "verbose|now"}));
  EXPECT_FALSE(logger.Enabled(LogLevel::kError));
}

TEST(Log, DefaultSinkWritesOneLine) {
  Logger logger;
  testing::internal::CaptureStderr();
  logger.Log(LogLevel::kWarning, "careful");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "quern: warning: careful\n");
}

TEST(Log, ManyThreadsDoNotOverlapInTheSink) {
  struct Counter {
    int calls = 0;  // not atomic: the logger serialises
  } counter;
  Logger logger(LogLevel::kInfo);
  logger.SetSink([](void* context, LogLevel, std::string_view) { ++static_cast<Counter*>(context)->calls; }, &counter);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) logger.Log(LogLevel::kInfo, "x");
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counter.calls, 2000);
}

TEST(Limits, DefaultsAreUsable) {
  const Limits limits;
  EXPECT_GT(limits.model_bytes, int64_t{4} << 30);
  EXPECT_EQ(limits.memory_bytes, PhysicalMemoryBytes());
  EXPECT_GT(limits.memory_bytes, int64_t{64} << 20);
  EXPECT_GE(limits.rank, 8);
}

}  // namespace
}  // namespace quern
