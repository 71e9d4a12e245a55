// Every peak loop that this host can run, or emulate, computes what it says: the sums depend on data and steps.
#include "ukernel/peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <string>

#include "base/cpu.h"
#include "ukernel/convert.h"

namespace quern::ukernel {
namespace {

struct Data {
  alignas(64) uint8_t bytes[kPeakDataBytes];
  explicit Data(uint32_t seed) {
    std::mt19937 random(seed);
    for (uint8_t& x : bytes) x = static_cast<uint8_t>(random());
  }
};

TEST(PeakRows, DependOnDataAndSteps) {
  const Data first(1), second(2);
  int run = 0;
  for (auto lists : {AllPeakKernels(), EmulatedPeakKernels()}) {
    for (const auto* list : lists) {
      for (size_t i = 0; i < list->count; ++i) {
        const PeakKernel& row = list->rows[i];
        if (!row.run || !IsaRunsOn(row.isa, HostCpu().facts())) continue;
        SCOPED_TRACE(std::string(row.engine) + " " + row.isa.name);
        ++run;
        EXPECT_GT(PeakOperations(row, HostCpu().facts()), 0);
        EXPECT_NE(row.multiplies, Format::kNone);
        EXPECT_EQ(row.run(3, first.bytes), row.run(3, first.bytes));
        EXPECT_NE(row.run(3, first.bytes), row.run(3, second.bytes));
        EXPECT_NE(row.run(3, first.bytes), row.run(4, first.bytes));
      }
    }
  }
  EXPECT_GE(run, 2);  // the portable loop and one of the host's own
}

// Each product of ones adds one to a sum of 32 bits, so that sums tell how many a step has.
TEST(PeakRows, IntegersCountTheirOperations) {
  Data ones(1);
  std::fill(std::begin(ones.bytes), std::end(ones.bytes), 1);
  int run = 0;
  for (auto lists : {AllPeakKernels(), EmulatedPeakKernels()}) {
    for (const auto* list : lists) {
      for (size_t i = 0; i < list->count; ++i) {
        const PeakKernel& row = list->rows[i];
        if (!row.run || row.multiplies != Format::kI8 || !IsaRunsOn(row.isa, HostCpu().facts())) continue;
        if (row.engine == std::string("madd")) continue;  // sums are the next factors
        SCOPED_TRACE(std::string(row.engine) + " " + row.isa.name);
        ++run;
        const auto products = static_cast<double>(row.run(9, ones.bytes) - row.run(4, ones.bytes)) / 5;
        EXPECT_EQ(PeakOperations(row, HostCpu().facts()), 2 * products);
      }
    }
  }
#if defined(__x86_64__)
  EXPECT_GE(run, 1);
#else
  if (!run) GTEST_SKIP() << "no int8 instruction here";
#endif
}

// Tiles' sums begin with zero: those of ones are steps times the products of a sum.
TEST(PeakRows, MatrixUnitsOfFloatsCountTheirOperations) {
  constexpr size_t kSteps = 5;
  const CpuFacts host = HostCpu().facts();
  int run = 0;
  for (auto lists : {AllPeakKernels(), EmulatedPeakKernels()}) {
    for (const auto* list : lists) {
      for (size_t i = 0; i < list->count; ++i) {
        const PeakKernel& row = list->rows[i];
        const std::string engine = row.engine;
        if (!row.run || row.multiplies == Format::kI8 || !IsaRunsOn(row.isa, host)) continue;
        if (engine != "amx" && engine.rfind("mopa", 0) != 0) continue;
        SCOPED_TRACE(engine + " " + row.isa.name);
        ++run;
        const size_t size = FormatBytes(row.multiplies), lanes = host.sme_vector_bytes / 4;
        Data ones(1);
        for (size_t at = 0; at < kPeakDataBytes; at += size) {
          StoreFloat(row.multiplies, ones.bytes + at, 1);
        }
        const size_t sums = engine == "amx" ? 6 * 16 * 16 : 4 * lanes * lanes;
        const size_t products = engine == "amx" ? 64 / size : 4 / size;
        EXPECT_EQ(PeakOperations(row, host), 2.0 * static_cast<double>(sums * products));
        const auto sum = static_cast<float>(kSteps * products);
        uint32_t bits;
        std::memcpy(&bits, &sum, sizeof(bits));
        EXPECT_EQ(row.run(kSteps, ones.bytes), sums * uint64_t{bits});
      }
    }
  }
#if defined(__x86_64__)
  EXPECT_GE(run, 2);
#else
  if (!run) GTEST_SKIP() << "no matrix unit here";
#endif
}

TEST(PeakRows, MemoryIsReadAndCopied) {
  constexpr size_t kWords = 4 * kPeakMemoryGrain / 8, kMost = 3 * kPeakMemoryGrain / 8;
  alignas(64) uint64_t from[kWords], to[kWords];
  std::mt19937_64 random(5);
  for (uint64_t& x : from) x = random();
  int run = 0;
  for (const auto* list : AllPeakKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const PeakKernel& row = list->rows[i];
      EXPECT_EQ(row.read == nullptr, row.copy == nullptr);
      if (!row.read || !IsaRunsOn(row.isa, HostCpu().facts())) continue;
      SCOPED_TRACE(row.isa.name);
      ++run;
      for (size_t words = 0; words <= kMost; words += kPeakMemoryGrain / 8) {
        uint64_t all = 0;
        for (size_t w = 0; w < words; ++w) all ^= from[w];
        EXPECT_EQ(row.read(from, words * 8), all);
        std::fill(std::begin(to), std::end(to), 7);
        row.copy(to, from, words * 8);
        for (size_t w = 0; w < kWords; ++w) ASSERT_EQ(to[w], w < words ? from[w] : 7) << w;
      }
    }
  }
  EXPECT_GE(run, 1);
}

// Six tiles hold the same sums: word (m, n) is the product of row m of the first operand, 64 bytes, with column n of
// the second, whose rows hold 4 bytes of each column.
TEST(PeakRows, AmxMultipliesTiles) {
  const Data data(3);
  const size_t steps = 5;
  int run = 0;
  for (auto lists : {AllPeakKernels(), EmulatedPeakKernels()}) {
    for (const auto* list : lists) {
      for (size_t i = 0; i < list->count; ++i) {
        const PeakKernel& row = list->rows[i];
        if (!row.run || row.engine != std::string("amx") || row.unit != std::string("GOP/s")) continue;
        if (!IsaRunsOn(row.isa, HostCpu().facts())) continue;
        ++run;
        EXPECT_EQ(row.operations, 6 * 2.0 * 16 * 16 * 64);
        uint64_t expected = 0;
        for (int m = 0; m < 16; ++m) {
          for (int n = 0; n < 16; ++n) {
            int32_t sum = 0;
            for (int k = 0; k < 64; ++k) {
              sum += static_cast<int8_t>(data.bytes[64 * m + k]) *
                     static_cast<int8_t>(data.bytes[1024 + 64 * (k / 4) + 4 * n + k % 4]);
            }
            expected += 6 * uint64_t{static_cast<uint32_t>(sum * static_cast<int32_t>(steps))};
          }
        }
        EXPECT_EQ(row.run(steps, data.bytes), expected);
      }
    }
  }
#if defined(__x86_64__)
  EXPECT_GE(run, 1);
#else
  if (!run) GTEST_SKIP() << "AMX is x86-64 only";
#endif
}

}  // namespace
}  // namespace quern::ukernel
