// Which CPUs this process may use, and how many threads make sense: affinity, cgroup quota, SMT, hybrid cores, SME
// units.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"

namespace quern {

struct LogicalCpu {
  int id = 0;  // the kernel's number
  int package = 0;
  int core = 0;              // logical CPUs with the same package and core share a physical core
  uint32_t capacity = 1024;  // relative speed, 1024 for the fastest kind of core
};

struct Topology {
  std::vector<LogicalCpu> cpus;  // those in the affinity mask, by id; at least one
  double quota_cpus = 0;         // CPUs' worth of time that cgroups allow; 0 without a quota
  int physical_cores = 1;        // distinct cores among cpus
  int fast_cores = 1;            // physical cores with at least half of the fastest one's capacity
  int sme_units = 0;             // that the fast cores can use at once; 0 without SME
  bool sme_units_known = false;  // told by the CPUs; else a guess, one per cluster
  int running_cpus = 1;          // how many of cpus can run at once: all, or the quota rounded up if that is less
  int default_threads = 1;       // fast_cores, or the quota rounded up if that is less
};

// Where to read; a test gives folders of its own. `root` stands before every absolute path.
struct TopologySource {
  std::string root;
  std::vector<int> affinity;  // ids; empty: sched_getaffinity of the calling thread
  bool has_sme = false;
};

// Reads anew on each call, because affinity and quota may change. What cannot be read gets a safe guess.
Topology ReadTopology(const TopologySource& source);
// Of this machine, as the calling thread sees it.
Topology HostTopology();

// default_threads of HostTopology().
int DefaultThreadCount();

// "0-3,8,10-11" as the kernel writes lists of CPUs; what does not parse ends the list.
std::vector<int> ParseCpuList(std::string_view text);
// cgroup v2's cpu.max: "max 100000" (none) or "150000 100000" (1.5 CPUs).
std::optional<double> ParseCpuMax(std::string_view text);
// cgroup v1's cpu.cfs_quota_us (-1: none) and cpu.cfs_period_us.
std::optional<double> ParseCfsQuota(std::string_view quota, std::string_view period);
// The smallest quota on the path from this process's cgroup to the root, v1 and v2, by /proc/self/{cgroup,mountinfo}
// below root; nothing when there is none.
std::optional<double> ReadCgroupQuota(const std::string& root = "");

}  // namespace quern
