#include "parallel/topology.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "parallel/thread_pool.h"

namespace quern {
namespace {

// A root folder with the parts of /proc and /sys that a test writes.
class FakeRoot {
 public:
  FakeRoot() : root_(std::filesystem::path(testing::TempDir()) / ("quern_root_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~FakeRoot() { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root_.string() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void Cpu(int id, const std::string& file, const std::string& text) const {
    Write("/sys/devices/system/cpu/cpu" + std::to_string(id) + "/" + file, text + "\n");
  }
  std::string path() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

TEST(ParseCpuList, KernelLists) {
  using Ids = std::vector<int>;
  EXPECT_EQ(ParseCpuList("0-3,8,10-11\n"), (Ids{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(ParseCpuList("5"), (Ids{5}));
  EXPECT_EQ(ParseCpuList(""), Ids{});
  EXPECT_EQ(ParseCpuList("\n"), Ids{});
  EXPECT_EQ(ParseCpuList("1,x,3"), (Ids{1}));
  EXPECT_EQ(ParseCpuList("3-1"), Ids{});
  EXPECT_EQ(ParseCpuList("0-4000000000"), Ids{});
}

TEST(ParseQuota, BothVersions) {
  EXPECT_EQ(ParseCpuMax("max 100000\n"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("150000 100000\n"), 1.5);
  EXPECT_EQ(ParseCpuMax("50000\n"), 0.5);
  EXPECT_EQ(ParseCpuMax(""), std::nullopt);
  EXPECT_EQ(ParseCpuMax("1000 0"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("99999999999999999999 100000"), std::nullopt);
  EXPECT_EQ(ParseCfsQuota("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(ParseCfsQuota("400000\n", "100000\n"), 4.0);
  EXPECT_EQ(ParseCfsQuota("x", "100000"), std::nullopt);
}

TEST(ReadCgroupQuota, Version2TakesTheSmallestOnThePath) {
  const FakeRoot root;
  root.Write("/proc/self/cgroup", "0::/user.slice/job.scope\n");
  root.Write("/proc/self/mountinfo",
             "22 1 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
             "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), std::nullopt);
  root.Write("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), std::nullopt);
  root.Write("/sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), 2.5);
  root.Write("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "300000 100000\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), 2.5);
  root.Write("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "30000 100000\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), 0.3);
  root.Write("/sys/fs/cgroup/cpu.max", "10000 100000\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), 0.1);
}

TEST(ReadCgroupQuota, Version2InAContainer) {
  const FakeRoot root;
  // With a cgroup namespace the path is "/"; without one it is the host's, below the mount's root.
  root.Write("/proc/self/cgroup", "0::/\n");
  root.Write("/proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  root.Write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), 2.0);
  root.Write("/proc/self/cgroup", "0::/docker/abc/inner\n");
  root.Write("/proc/self/mountinfo", "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  root.Write("/sys/fs/cgroup/inner/cpu.max", "100000 100000\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), 1.0);
  // A path that only begins with the same letters is elsewhere.
  root.Write("/proc/self/cgroup", "0::/docker/abcdef/inner\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), 2.0);
}

TEST(ReadCgroupQuota, Version1) {
  const FakeRoot root;
  root.Write("/proc/self/cgroup",
             "12:memory:/docker/x\n5:cpu,cpuacct:/docker/x\n3:cpuset:/docker/x\n1:name=systemd:/docker/x\n");
  root.Write("/proc/self/mountinfo",
             "33 31 0:30 /docker/x /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
             "34 31 0:31 /docker/x /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n");
  root.Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), std::nullopt);
  root.Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "120000\n");
  EXPECT_EQ(ReadCgroupQuota(root.path()), 1.2);
}

TEST(ReadCgroupQuota, NothingThere) { EXPECT_EQ(ReadCgroupQuota("/nowhere/at/all"), std::nullopt); }

TEST(ReadTopology, SiblingsShareACore) {
  const FakeRoot root;
  for (int id = 0; id < 8; ++id) {
    root.Cpu(id, "topology/physical_package_id", id < 4 ? "0" : "1");
    root.Cpu(id, "topology/core_id", std::to_string(id % 2));
  }
  Topology t = ReadTopology({.root = root.path(), .affinity = {0, 1, 2, 3, 4, 5, 6, 7}});
  EXPECT_EQ(t.cpus.size(), 8u);
  EXPECT_EQ(t.physical_cores, 4);
  EXPECT_EQ(t.default_threads, 4);
  EXPECT_EQ(t.running_cpus, 8);
  EXPECT_EQ(t.sme_units, 0);
  t = ReadTopology({.root = root.path(), .affinity = {2, 0, 5}});  // 0 and 2 are siblings
  EXPECT_EQ(t.physical_cores, 2);
  EXPECT_EQ(t.cpus[1].id, 2);
}

TEST(ReadTopology, QuotaCapsTheThreads) {  // and beyond it nobody spins
  const FakeRoot root;
  root.Write("/proc/self/cgroup", "0::/\n");
  root.Write("/proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  const auto threads = [&](const char* quota) {
    root.Write("/sys/fs/cgroup/cpu.max", quota);
    const Topology t = ReadTopology({.root = root.path(), .affinity = {0, 1, 2, 3}});
    EXPECT_EQ(t.running_cpus, t.default_threads);
    const int64_t within = ThreadPool({.threads = t.running_cpus, .spin_ns = 77}, t).spin_ns();
    const int64_t beyond = ThreadPool({.threads = t.running_cpus + 1, .spin_ns = 77}, t).spin_ns();
    EXPECT_EQ(within, 77);
    EXPECT_EQ(beyond, 0);
    return t.default_threads;
  };
  EXPECT_EQ(threads("max 100000"), 4);
  EXPECT_EQ(threads("800000 100000"), 4);
  EXPECT_EQ(threads("200000 100000"), 2);
  EXPECT_EQ(threads("150000 100000"), 2);
  EXPECT_EQ(threads("20000 100000"), 1);
  EXPECT_EQ(threads("900000000000000000 1"), 4);
}

TEST(ReadTopology, HybridCores) {
  const FakeRoot arm;  // 1 large, 3 middle, 4 small cores
  for (int id = 0; id < 8; ++id) {
    arm.Cpu(id, "cpu_capacity", id < 4 ? "320" : id < 7 ? "800" : "1024");
    arm.Cpu(id, "topology/cluster_id", id < 4 ? "0" : "1");
  }
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7};
  Topology t = ReadTopology({.root = arm.path(), .affinity = all, .has_sme = true});
  EXPECT_EQ(t.physical_cores, 8);
  EXPECT_EQ(t.fast_cores, 4);
  EXPECT_EQ(t.default_threads, 4);
  EXPECT_EQ(t.sme_units, 1);
  EXPECT_FALSE(t.sme_units_known);
  for (int id = 0; id < 8; ++id) {  // the middle cores share a unit, the large one has its own
    arm.Cpu(id, "regs/identification/smidr_el1", id < 4 ? "0x0000000041006001" : id < 7 ? "0x41006002" : "0x41004000");
  }
  t = ReadTopology({.root = arm.path(), .affinity = all, .has_sme = true});
  EXPECT_EQ(t.sme_units, 2);
  EXPECT_TRUE(t.sme_units_known);
  // Bound to the small cores, they are the fast ones.
  t = ReadTopology({.root = arm.path(), .affinity = {0, 1, 2, 3}});
  EXPECT_EQ(t.default_threads, 4);

  const FakeRoot intel;
  intel.Write("/sys/devices/cpu_core/cpus", "0-3\n");
  intel.Write("/sys/devices/cpu_atom/cpus", "4-7\n");
  t = ReadTopology({.root = intel.path(), .affinity = all});
  EXPECT_EQ(t.cpus[0].capacity, 1024u);
  EXPECT_LT(t.cpus[4].capacity, 1024u);
  EXPECT_EQ(t.default_threads, 8);
}

TEST(HostTopology, FollowsTheAffinityOfTheThread) {
  const Topology whole = HostTopology();
  ASSERT_FALSE(whole.cpus.empty());
  EXPECT_GE(whole.default_threads, 1);
  EXPECT_LE(whole.default_threads, static_cast<int>(whole.cpus.size()));
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(whole.cpus.back().id), &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) return;  // a sandbox may forbid it
    EXPECT_EQ(UsableCpus(), std::vector<int>{whole.cpus.back().id});
    EXPECT_EQ(DefaultThreadCount(), 1);
  }).join();
}

}  // namespace
}  // namespace quern
