#include "base/sme_units.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <tuple>

namespace quern {
namespace {

// A decimal or 0x number; nothing where the file is not there or holds something else.
std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  if (!std::getline(in, text) || text.empty()) return std::nullopt;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 0);
  return end == text.c_str() + text.size() ? std::optional<uint64_t>(value) : std::nullopt;
}

// Which unit a CPU uses; CPUs with equal keys share it.
struct UnitKey {
  uint64_t kind = 0, first = 0, second = 0;
  bool operator<(const UnitKey& o) const { return std::tie(kind, first, second) < std::tie(o.kind, o.first, o.second); }
};

// SMIDR_EL1 (Arm Architecture Reference Manual): SH in bits 14:13 is 2 for a unit of the core's own, 3 for a shared
// one, 0 on cores that tell by the affinity alone, zero there being a unit of their own. {Affinity2 51:32,
// Affinity 11:0} names a shared unit.
UnitKey KeyOf(uint64_t smidr, int cpu) {
  const uint64_t sharing = (smidr >> 13) & 3;
  const uint64_t low = smidr & 0xfff, high = (smidr >> 32) & 0xfffff;
  const bool shared = sharing == 3 || (sharing == 0 && (low | high) != 0);
  return shared ? UnitKey{0, high, low} : UnitKey{1, static_cast<uint64_t>(cpu), 0};
}

}  // namespace

SmeUnits ReadSmeUnits(const std::string& root, const std::vector<int>& cpus) {
  const auto folder = [&](int cpu) { return root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/"; };
  constexpr uint64_t kFullCapacity = 1024;
  std::vector<uint64_t> capacities;
  uint64_t fastest = 0;
  for (int cpu : cpus) {
    capacities.push_back(ReadNumber(folder(cpu) + "cpu_capacity").value_or(kFullCapacity));
    fastest = std::max(fastest, capacities.back());
  }
  std::set<UnitKey> units, clusters;
  bool known = true;
  for (size_t i = 0; i < cpus.size(); ++i) {
    if (2 * capacities[i] < fastest) continue;
    const std::string cpu = folder(cpus[i]);
    const std::optional<uint64_t> smidr = ReadNumber(cpu + "regs/identification/smidr_el1");
    known = known && smidr.has_value();
    if (smidr) units.insert(KeyOf(*smidr, cpus[i]));
    clusters.insert({2, ReadNumber(cpu + "topology/physical_package_id").value_or(0),
                     ReadNumber(cpu + "topology/cluster_id").value_or(0)});
  }
  const size_t count = known ? units.size() : clusters.size();
  return {std::max(1, static_cast<int>(count)), known && !units.empty()};
}

}  // namespace quern
