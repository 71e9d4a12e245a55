#include "kernels/run_time_drivers.h"

#include <gtest/gtest.h>

#include "base/cpu.h"

namespace quern::kernels {
namespace {

SelectOptions HostOptions() {
  SelectOptions options;
  options.cpu = HostCpu().facts();
  return options;
}

GemmProblem Problem(size_t n) {
  return {.n = n, .k = 64, .expected_m = 3, .rhs_constant = false, .rhs_contiguous = true};
}

TEST(RunTimeDrivers, MakesEachProductOnce) {
  RunTimeDrivers drivers(HostOptions());
  const auto first = drivers.FindProduct(Problem(100)).value();
  EXPECT_EQ(drivers.FindProduct(Problem(100)).value(), first);
  const auto other = drivers.FindProduct(Problem(101)).value();
  EXPECT_NE(other, first);
  EXPECT_EQ(other->problem(), Problem(101));
  EXPECT_EQ(first->layout(), SelectLayout(Problem(100), HostOptions()).value());
}

TEST(RunTimeDrivers, MakesEachAttentionOnce) {
  RunTimeDrivers drivers(HostOptions());
  AttentionSizes sizes;
  sizes.batch = 1;
  sizes.heads = 2;
  sizes.queries = 3;
  sizes.keys = 50;
  sizes.size = sizes.value_size = 8;
  sizes.q = sizes.k = sizes.v = sizes.y = {.batch = 800, .head = 400, .row = 8};
  const auto find = [&](int concurrency) {
    return drivers.FindAttention(sizes, Precision::kFp32, concurrency).value();
  };
  const auto first = find(1);
  EXPECT_EQ(find(1), first);
  EXPECT_NE(find(2), first);
  sizes.keys = 51;
  EXPECT_NE(find(1), first);
  EXPECT_EQ(find(1), find(1));
}

TEST(RunTimeDrivers, KeepsTheMostRecent) {
  RunTimeDrivers drivers(HostOptions());
  const auto used = drivers.FindProduct(Problem(1)).value(), unused = drivers.FindProduct(Problem(2)).value();
  for (size_t n = 3; n < 500; ++n) {
    ASSERT_TRUE(drivers.FindProduct(Problem(n)).ok());
    EXPECT_EQ(drivers.FindProduct(Problem(1)).value(), used) << n;
  }
  EXPECT_NE(drivers.FindProduct(Problem(2)).value(), unused);
}

TEST(RunTimeDrivers, SaysWhyThereIsNone) {
  RunTimeDrivers drivers(HostOptions());
  GemmProblem problem = Problem(4);
  problem.lhs = Format::kF16;
  problem.rhs = Format::kBf16;
  const auto result = drivers.FindProduct(problem);
  EXPECT_EQ(result.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(result.status().message(), SelectLayout(problem, HostOptions()).status().message());
}

}  // namespace
}  // namespace quern::kernels
