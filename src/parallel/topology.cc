#include "parallel/topology.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <utility>

#include "base/sme_units.h"

namespace quern {
namespace {

// Files of /proc and /sys are small; more than this is not one of them.
constexpr size_t kMaxFileBytes = 1 << 20;

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text(4096, '\0');
  size_t size = 0;
  while (in.read(text.data() + size, static_cast<std::streamsize>(text.size() - size)), in.gcount() > 0) {
    size += static_cast<size_t>(in.gcount());
    if (size >= kMaxFileBytes) break;
    if (size == text.size()) text.resize(2 * size);
  }
  text.resize(size);
  return text;
}

std::string_view Trim(std::string_view s) {
  const auto space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  while (!s.empty() && space(s.front())) s.remove_prefix(1);
  while (!s.empty() && space(s.back())) s.remove_suffix(1);
  return s;
}

std::optional<int64_t> ParseInt(std::string_view s) {
  s = Trim(s);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return value;
}

int ReadInt(const std::string& path, int otherwise) {
  const std::optional<std::string> text = ReadText(path);
  const std::optional<int64_t> value = text ? ParseInt(*text) : std::nullopt;
  return value && *value >= INT32_MIN && *value <= INT32_MAX ? static_cast<int>(*value) : otherwise;
}

// The next part of s up to the separator, which is taken off too.
std::string_view Next(std::string_view& s, char separator) {
  const size_t at = std::min(s.find(separator), s.size());
  const std::string_view part = s.substr(0, at);
  s.remove_prefix(std::min(at + 1, s.size()));
  return part;
}

bool HasWord(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (Next(list, ',') == word) return true;
  }
  return false;
}

// A mounted cgroup hierarchy with the cpu controller.
struct CgroupMount {
  bool v2 = false;
  std::string root;   // which folder of the hierarchy is mounted: "/" or a container's
  std::string point;  // where
};

// Lines of /proc/self/mountinfo: id parent device root point options [tags...] - type source super-options.
std::vector<CgroupMount> CgroupMounts(std::string_view text) {
  std::vector<CgroupMount> mounts;
  while (!text.empty()) {
    std::string_view line = Next(text, '\n');
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view right = line.substr(dash + 3);
    const std::string_view type = Next(right, ' ');
    Next(right, ' ');
    const bool v2 = type == "cgroup2";
    if (!v2 && !(type == "cgroup" && HasWord(Trim(right), "cpu"))) continue;
    for (int i = 0; i < 3; ++i) Next(line, ' ');
    CgroupMount mount;
    mount.v2 = v2;
    mount.root = Next(line, ' ');
    mount.point = Next(line, ' ');
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::optional<double> QuotaOfFolder(const std::string& folder, bool v2) {
  if (v2) {
    const auto text = ReadText(folder + "/cpu.max");
    return text ? ParseCpuMax(*text) : std::nullopt;
  }
  const auto quota = ReadText(folder + "/cpu.cfs_quota_us");
  const auto period = ReadText(folder + "/cpu.cfs_period_us");
  return quota && period ? ParseCfsQuota(*quota, *period) : std::nullopt;
}

// The path of a cgroup below a mount's point: "" for the mounted folder itself.
std::string BelowMount(const std::string& path, const std::string& mount_root) {
  if (mount_root == "/" || mount_root.empty()) return path == "/" ? "" : path;
  const bool below = path.compare(0, mount_root.size(), mount_root) == 0 &&
                     (path.size() == mount_root.size() || path[mount_root.size()] == '/');
  // Outside of the mounted part (a container that sees its host's paths): the mounted folder is the best there is.
  return below ? path.substr(mount_root.size()) : "";
}

}  // namespace

std::vector<int> ParseCpuList(std::string_view text) {
  constexpr int64_t kMaxCpus = 1 << 16;
  std::vector<int> ids;
  text = Trim(text);
  while (!text.empty()) {
    std::string_view range = Next(text, ',');
    const std::optional<int64_t> first = ParseInt(Next(range, '-'));
    const std::optional<int64_t> last = range.empty() ? first : ParseInt(range);
    if (!first || !last || *first < 0 || *last < *first || *last >= kMaxCpus) break;
    for (int64_t id = *first; id <= *last; ++id) ids.push_back(static_cast<int>(id));
  }
  return ids;
}

std::optional<double> ParseCfsQuota(std::string_view quota, std::string_view period) {
  const std::optional<int64_t> q = ParseInt(quota);
  const std::optional<int64_t> p = ParseInt(period);
  if (!q || !p || *q <= 0 || *p <= 0) return std::nullopt;
  return static_cast<double>(*q) / static_cast<double>(*p);
}

std::optional<double> ParseCpuMax(std::string_view text) {
  text = Trim(text);
  const std::string_view quota = Next(text, ' ');
  return ParseCfsQuota(quota, text.empty() ? "100000" : text);
}

std::optional<double> ReadCgroupQuota(const std::string& root) {
  const std::optional<std::string> cgroup = ReadText(root + "/proc/self/cgroup");
  const std::optional<std::string> mountinfo = ReadText(root + "/proc/self/mountinfo");
  if (!cgroup || !mountinfo) return std::nullopt;
  const std::vector<CgroupMount> mounts = CgroupMounts(*mountinfo);
  std::optional<double> smallest;
  // Lines are hierarchy:controllers:path; v2 is "0::path".
  for (std::string_view text = *cgroup; !text.empty();) {
    std::string_view line = Next(text, '\n');
    const std::string_view hierarchy = Next(line, ':');
    const std::string_view controllers = Next(line, ':');
    const bool v2 = hierarchy == "0" && controllers.empty();
    if (!v2 && !HasWord(controllers, "cpu")) continue;
    const std::string path(line);
    for (const CgroupMount& mount : mounts) {
      if (mount.v2 != v2) continue;
      // A limit on any folder above holds too.
      for (std::string below = BelowMount(path, mount.root);; below.resize(below.rfind('/'))) {
        const std::optional<double> quota = QuotaOfFolder(root + mount.point + below, v2);
        if (quota && (!smallest || *quota < *smallest)) smallest = quota;
        if (below.empty() || below.rfind('/') == std::string::npos) break;
      }
    }
  }
  return smallest;
}

Topology ReadTopology(const TopologySource& source) {
  const std::string devices = source.root + "/sys/devices/";
  Topology t;
  // Intel's hybrid CPUs list their small cores; Arm's kernels give each CPU a capacity.
  std::vector<int> small;
  if (const auto text = ReadText(devices + "cpu_atom/cpus")) small = ParseCpuList(*text);
  constexpr int kSmallCoreCapacity = 600;  // an efficiency core's vector throughput, about
  std::vector<int> ids = source.affinity.empty() ? UsableCpus() : source.affinity;
  std::sort(ids.begin(), ids.end());
  for (int id : ids) {
    const std::string folder = devices + "system/cpu/cpu" + std::to_string(id) + "/";
    LogicalCpu cpu;
    cpu.id = id;
    cpu.package = ReadInt(folder + "topology/physical_package_id", 0);
    cpu.core = ReadInt(folder + "topology/core_id", id);
    const bool is_small = std::find(small.begin(), small.end(), id) != small.end();
    cpu.capacity = static_cast<uint32_t>(
        std::clamp(ReadInt(folder + "cpu_capacity", is_small ? kSmallCoreCapacity : 1024), 1, 1 << 20));
    t.cpus.push_back(cpu);
  }

  uint32_t fastest = 1;
  for (const LogicalCpu& c : t.cpus) fastest = std::max(fastest, c.capacity);
  std::set<std::pair<int, int>> cores, fast;
  for (const LogicalCpu& c : t.cpus) {
    cores.insert({c.package, c.core});
    if (2 * c.capacity < fastest) continue;
    fast.insert({c.package, c.core});
  }
  t.physical_cores = static_cast<int>(cores.size());
  t.fast_cores = static_cast<int>(fast.size());
  if (source.has_sme) {
    const SmeUnits units = ReadSmeUnits(source.root, ids);
    t.sme_units = units.count;
    t.sme_units_known = units.known;
  }
  t.quota_cpus = ReadCgroupQuota(source.root).value_or(0);
  const int quota = t.quota_cpus > 0 ? static_cast<int>(std::min(std::ceil(t.quota_cpus), 1e6)) : INT32_MAX;
  t.running_cpus = std::min(static_cast<int>(t.cpus.size()), quota);
  t.default_threads = std::clamp(t.fast_cores, 1, quota);
  return t;
}

Topology HostTopology() {
  TopologySource source;
  source.has_sme = HostCpu().features.Has(CpuFeature::kSme);
  return ReadTopology(source);
}

int DefaultThreadCount() { return HostTopology().default_threads; }

}  // namespace quern
