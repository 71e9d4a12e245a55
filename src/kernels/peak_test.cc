// Peaks: that every loop of the host is there, on one thread and on several.
#include "kernels/peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ukernel/peak.h"

namespace quern::kernels {
namespace {

std::set<std::string> Names(const std::vector<Peak>& peaks) {
  std::set<std::string> names;
  for (const Peak& p : peaks) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_GT(p.value, 0) << p.name;
    EXPECT_GE(p.best, p.value) << p.name;
    EXPECT_EQ(p.unit == "GB/s", p.name.rfind("read ", 0) == 0 || p.name.rfind("copy ", 0) == 0) << p.name;
  }
  return names;
}

TEST(Peaks, AreOfEveryEngineAndLevel) {
  const CpuInfo& host = HostCpu();
  const std::set<std::string> one = Names(MeasurePeaks(host, {.rounds = 1, .seconds_per_round = 1e-4}));
  for (const auto* list : ukernel::AllPeakKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const ukernel::PeakKernel& row = list->rows[i];
      if (!row.run) continue;
      const std::string name = std::string(row.engine) + " " + row.isa.name;
      EXPECT_EQ(one.count(name) == 1, IsaRunsOn(row.isa, host.facts())) << name;
    }
  }
  EXPECT_TRUE(one.count("read memory"));
  EXPECT_TRUE(one.count("copy memory"));
  EXPECT_EQ(one.count("read l1") == 1, host.l1d.bytes != 0);
  EXPECT_EQ(one.count("copy l2") == 1, host.l2.bytes != 0);
  EXPECT_EQ(Names(MeasurePeaks(host, {.rounds = 2, .seconds_per_round = 1e-4, .threads = 2})), one);
}

TEST(Peaks, FollowTheCpuAskedFor) {
  const PeakOptions quick{.rounds = 1, .seconds_per_round = 1e-4, .bandwidth = false};
  EXPECT_THAT(Names(MeasurePeaks(CpuFromSpec("generic").value(), quick)),
              testing::IsSubsetOf({"fma portable", "fma neon"}));
}

}  // namespace
}  // namespace quern::kernels
