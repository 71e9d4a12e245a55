#include "profile.h"

#include <algorithm>
#include <set>

namespace quern_tool {
namespace {

double Number(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : 0;
}

const Json& Member(const Json& object, const char* key) {
  static const Json none = Json::array();
  const auto it = object.find(key);
  return it != object.end() ? *it : none;
}

// Element i of an earlier document's list, which may be shorter: what was not there then has run 0 times.
const Json& Earlier(const Json& list, std::size_t i) {
  static const Json none = Json::object();
  return i < list.size() ? list[i] : none;
}

// "gemm_u8_i8_i32_6x64x4_avx512vnni" -> {"gemm", "u8", ..., "avx512vnni"}.
std::vector<std::string> Words(const std::string& kernel) {
  std::vector<std::string> words(1);
  for (const char c : kernel) {
    if (c == '_') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

struct Peak {
  std::string name;
  double per_second = 0;
};

Peak PeakNamed(const Machine& machine, const std::string& name) {
  for (const Json& p : Member(machine.cpu, "peaks")) {
    if (Text(p, "name") == name) return {name, Number(p, "value") * 1e9};
  }
  return {};
}

// The fastest loop whose name begins so and that counts in `unit`.
Peak BestPeak(const Machine& machine, const std::string& begin, const char* unit) {
  Peak best;
  for (const Json& p : Member(machine.cpu, "peaks")) {
    const double value = Number(p, "value") * 1e9;
    if (Text(p, "unit") == unit && Text(p, "name").rfind(begin, 0) == 0 && value > best.per_second) {
      best = {Text(p, "name"), value};
    }
  }
  return best;
}

// Of the arithmetic that the micro-kernel is made of: `own`, or, where the session names none, integers or float32.
Peak ArithmeticPeak(const Machine& machine, const std::string& own, const std::string& kernel) {
  if (const Peak peak = PeakNamed(machine, own); peak.per_second > 0) return peak;
  const std::vector<std::string> words = Words(kernel);
  const bool integers =
      words.size() > 2 && std::any_of(words.begin() + 1, words.begin() + 3, [](const std::string& type) {
        return type == "i8" || type == "u8" || type == "i8d";
      });
  if (integers) return BestPeak(machine, "", "GOP/s");
  return BestPeak(machine, "fma ", "GFLOP/s");
}

// Bytes that fit in the second-level caches of the threads are taken to come from there.
Peak BandwidthPeak(const Machine& machine, double bytes_per_run) {
  const auto caches = machine.cpu.find("caches");
  const double l2 = caches != machine.cpu.end() ? Number(Member(*caches, "l2"), "bytes") : 0;
  const Peak near = PeakNamed(machine, "read l2");
  return bytes_per_run <= l2 * machine.threads && near.per_second > 0 ? near : PeakNamed(machine, "read memory");
}

// `own`: the peak that bounds the kernel's arithmetic, or "".
void FindLimit(const Machine& machine, const std::string& own, NodeRow& row) {
  const auto consider = [&](const Peak& peak, double amount) {
    if (peak.per_second <= 0 || amount <= 0) return;
    const double seconds = amount / (peak.per_second * machine.threads);
    if (seconds <= row.limit_seconds) return;
    row.limit = peak.name;
    row.limit_seconds = seconds;
  };
  consider(BandwidthPeak(machine, row.runs > 0 ? row.bytes / row.runs : 0), row.bytes);
  consider(ArithmeticPeak(machine, own, row.kernel), row.operations);
}

class Rows {
 public:
  Rows(double runs, const Machine& machine) : runs_(runs), machine_(machine) {}

  // Of a graph and of the subgraphs in it.
  void AddGraph(const Json& before, const Json& after, const std::string& inside) {
    const Json &old = Member(before, "profile"), &now = Member(after, "profile");
    const Json &old_nodes = Member(old, "nodes"), &nodes = Member(now, "nodes");
    const Json &old_clusters = Member(old, "clusters"), &clusters = Member(now, "clusters");
    const Json &old_subgraphs = Member(before, "subgraphs"), &subgraphs = Member(after, "subgraphs");
    std::set<std::string> owners;
    for (const Json& s : subgraphs) owners.insert(NodeName(s));
    std::vector<bool> told(clusters.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      NodeRow row;
      row.name = NodeName(nodes[i]);
      row.op = Operator(nodes[i]);
      row.inside = inside;
      row.provider = Text(nodes[i], "provider");
      row.kernel = Text(nodes[i], "kernel");
      const bool owner = owners.count(row.name) > 0;
      Add(Earlier(old_nodes, i), nodes[i], std::move(row), owner);
      const auto cluster = static_cast<std::size_t>(Number(nodes[i], "cluster"));
      if (cluster < told.size()) told[cluster] = true;
    }
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      if (told[i]) continue;
      NodeRow row;
      row.name = "cluster " + std::to_string(i);
      row.op = Text(clusters[i], "nodes") + " nodes";
      row.inside = inside;
      row.provider = Text(clusters[i], "provider");
      Add(Earlier(old_clusters, i), clusters[i], std::move(row), false);
    }
    for (std::size_t i = 0; i < subgraphs.size(); ++i) {
      const std::string name = NodeName(subgraphs[i]) + "." + Text(subgraphs[i], "attribute");
      AddGraph(Earlier(old_subgraphs, i), subgraphs[i], inside.empty() ? name : inside + "/" + name);
    }
  }

  std::vector<NodeRow> Take() {
    double total = 0;
    for (const NodeRow& row : rows_) total += row.inside.empty() ? row.seconds : 0;
    for (NodeRow& row : rows_) row.share = total > 0 ? row.seconds / total : 0;
    return std::move(rows_);
  }

 private:
  // `owner`: of a subgraph, whose nodes say what binds them.
  void Add(const Json& before, const Json& after, NodeRow row, bool owner) {
    const auto between = [&](const char* key) { return (Number(after, key) - Number(before, key)) / runs_; };
    row.runs = between("runs");
    if (row.runs <= 0) return;
    row.seconds = between("seconds");
    row.operations = between("operations");
    row.bytes = between("bytes");
    row.denormal_runs = between("denormal_runs");
    if (!owner) FindLimit(machine_, Text(after, "peak"), row);
    rows_.push_back(std::move(row));
  }

  double runs_;
  const Machine& machine_;
  std::vector<NodeRow> rows_;
};

}  // namespace

std::vector<NodeRow> NodeRows(const Profile& profile, const Machine& machine) {
  Rows rows(profile.runs, machine);
  rows.AddGraph(profile.before, profile.after, "");
  return rows.Take();
}

Json JsonOf(const std::vector<NodeRow>& rows) {
  Json list = Json::array();
  for (const NodeRow& r : rows) {
    Json node = {{"name", r.name}, {"op", r.op}};
    if (!r.inside.empty()) node["inside"] = r.inside;
    node["provider"] = r.provider;
    node["kernel"] = r.kernel;
    node["runs"] = r.runs;
    node["seconds"] = r.seconds;
    node["share"] = r.share;
    node["operations"] = r.operations;
    node["operations_per_second"] = r.operations_per_second();
    node["bytes"] = r.bytes;
    node["bytes_per_second"] = r.bytes_per_second();
    node["denormal_runs"] = r.denormal_runs;
    if (!r.limit.empty()) {
      node["limit"] = r.limit;
      node["reached"] = r.reached();
    }
    list.push_back(std::move(node));
  }
  return list;
}

}  // namespace quern_tool
