// How many SME units a machine has: cores may share one.
#pragma once

#include <string>
#include <vector>

namespace quern {

struct SmeUnits {
  int count = 1;       // units that the CPUs can use at once
  bool known = false;  // the CPUs tell (SMIDR_EL1); else a guess, one per cluster
};

// Of `cpus` (the kernel's numbers), those with at least half of the fastest one's capacity: a slow core's share of a
// unit adds little. Reads <root>/sys/devices/system/cpu/cpu*/{regs/identification/smidr_el1,topology,cpu_capacity}.
SmeUnits ReadSmeUnits(const std::string& root, const std::vector<int>& cpus);

}  // namespace quern
