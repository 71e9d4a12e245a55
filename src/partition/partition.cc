#include "partition/partition.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "ops/op.h"

namespace quern {
namespace {

struct Offer {
  int provider;
  double cost;
  std::vector<int32_t> nodes;
};

// Reads and captures of a node: everything it depends on.
template <typename F>
void ForEachRead(const Node& node, F&& f) {
  for (GraphValue* v : node.inputs()) {
    if (v) f(v);
  }
  for (GraphValue* v : node.captures()) f(v);
}

// A node on constants alone (a DequantizeLinear of weights), whose result is the same wherever it is computed.
bool IsConstantExpression(const Node& node) {
  if (node.num_inputs() == 0 || !node.captures().empty() || !node.subgraphs().empty()) return false;
  const OpDefinition* op = FindOp(node.domain(), node.op_type());
  return op && op->deterministic && std::all_of(node.inputs().begin(), node.inputs().end(), [](const GraphValue* v) {
           return !v || v->is_constant();
         });
}

// The cluster's nodes as a graph; names are kept, so values correspond by name.
std::unique_ptr<Graph> BuildClusterGraph(const Graph& graph, const Cluster& cluster) {
  auto g = std::make_unique<Graph>();
  g->name = graph.name;
  g->opset_imports = graph.opset_imports;
  g->keep_alive = graph.keep_alive;
  g->mapped_files = graph.mapped_files;
  std::unordered_map<const GraphValue*, GraphValue*> map;
  for (GraphValue* v : cluster.inputs) {
    GraphValue* in = g->AddInput(v->name(), v->type());
    in->set_data(v->data());
    map[v] = in;
  }
  auto mapped = [&](GraphValue* v) -> GraphValue* {
    if (!v) return nullptr;
    auto [it, fresh] = map.emplace(v, nullptr);
    if (fresh) {
      QUERN_CHECK(v->is_constant(), "a cluster reads a value that it neither makes nor takes in");
      it->second = g->AddConstant(v->name(), *v->constant());
      it->second->set_type(v->type());
      it->second->set_data(v->data());
    }
    return it->second;
  };
  for (const Node* n : cluster.nodes) {
    NodeSpec spec{.name = n->name(),
                  .domain = n->domain(),
                  .op_type = n->op_type(),
                  .opset = n->opset(),
                  .inputs = {},
                  .outputs = {},
                  .attributes = n->attributes(),
                  .captures = {}};
    for (GraphValue* v : n->inputs()) spec.inputs.push_back(mapped(v));
    for (GraphValue* v : n->captures()) spec.captures.push_back(mapped(v));
    for (const GraphValue* v : n->outputs()) spec.outputs.push_back(v ? v->name() : "");
    Node* copy = g->AddNode(std::move(spec));
    for (int i = 0; i < n->num_outputs(); ++i) {
      if (GraphValue* v = n->output(i)) {
        copy->output(i)->set_type(v->type());
        copy->output(i)->set_data(v->data());
        map[v] = copy->output(i);
      }
    }
  }
  for (GraphValue* v : cluster.outputs) g->AddOutput(map.at(v));
  return g;
}

}  // namespace

Result<Partition> PartitionGraph(const Graph& graph, std::span<const std::shared_ptr<Provider>> providers) {
  const quern_graph_view view(graph);
  const size_t count = view.nodes.size();
  std::vector<quern_claim_sink> sinks(providers.size());
  std::vector<Offer> offers;
  for (size_t p = 0; p < providers.size(); ++p) {
    sinks[p].rejections.resize(count);
    QUERN_RETURN_IF_ERROR(providers[p]->Claim(view, sinks[p]));
    for (auto& offer : sinks[p].offers) {
      const std::set<int32_t> distinct(offer.nodes.begin(), offer.nodes.end());
      if (*distinct.begin() < 0 || *distinct.rbegin() >= static_cast<int32_t>(count)) {
        return InvalidArgument(std::string("provider '") + providers[p]->name() +
                               "' claims a node that does not exist");
      }
      if (distinct.size() != offer.nodes.size()) {
        return InvalidArgument(std::string("provider '") + providers[p]->name() + "' claims a node twice in one set");
      }
      offers.push_back({static_cast<int>(p), offer.cost, std::move(offer.nodes)});
    }
  }
  // In provider order; a later offer takes nodes over only when costs are stated on both sides, its own per node is
  // lower, and no earlier offer would be left with a part of its nodes.
  std::vector<int> holder(count, -1);  // offer that holds a node
  std::vector<size_t> held(offers.size(), 0);
  for (size_t o = 0; o < offers.size(); ++o) {
    const std::vector<int32_t>& nodes = offers[o].nodes;
    const double cost = offers[o].cost / static_cast<double>(std::max<size_t>(nodes.size(), 1));
    std::map<int, size_t> displaced;
    bool taken = true;
    for (int32_t n : nodes) {
      if (holder[n] < 0) continue;
      const Offer& other = offers[holder[n]];
      const double other_cost = other.cost / static_cast<double>(other.nodes.size());
      taken = taken && cost > 0 && other_cost > 0 && cost < other_cost;
      ++displaced[holder[n]];
    }
    for (const auto& [other, parts] : displaced) taken = taken && parts == held[other];
    if (!taken) continue;
    for (const auto& [other, parts] : displaced) held[other] = 0;
    for (int32_t n : nodes) holder[n] = static_cast<int>(o);
    held[o] = nodes.size();
  }
  std::vector<int> owner(count, -1);
  for (size_t i = 0; i < count; ++i) owner[i] = holder[i] < 0 ? -1 : offers[holder[i]].provider;

  // A constant expression is computed beside each reader whose provider would run it, too: providers fold weights
  // that they make themselves.
  std::vector<std::set<int>> offered(count);
  for (const Offer& o : offers) {
    for (int32_t n : o.nodes) offered[n].insert(o.provider);
  }
  std::vector<bool> travels(count);
  for (size_t i = 0; i < count; ++i) travels[i] = IsConstantExpression(*view.nodes[i].node);
  const auto copies = [&](int32_t reader, int32_t producer) {
    return travels[producer] && offered[producer].contains(owner[reader]);
  };
  // Calls f for each use of the node's outputs; true if it holds for any.
  const auto any_use = [&](size_t i, auto f) {
    const std::vector<GraphValue*>& made = view.nodes[i].node->outputs();
    return std::any_of(made.begin(), made.end(),
                       [&](const GraphValue* v) { return v && std::any_of(v->uses().begin(), v->uses().end(), f); });
  };

  Partition result;
  std::vector<int> level(count, 0);
  std::map<std::pair<int, int>, std::set<size_t>> groups;  // (level, provider) -> nodes
  for (size_t i = 0; i < count; ++i) {
    const Node& node = *view.nodes[i].node;
    if (owner[i] < 0) {
      std::string reasons;
      for (size_t p = 0; p < providers.size(); ++p) {
        if (sinks[p].rejections[i].empty()) continue;
        reasons += reasons.empty() ? "" : "; ";
        reasons += std::string(providers[p]->name()) + ": " + sinks[p].rejections[i];
      }
      return Unsupported(node.Describe() + ": no provider takes it (" +
                         (reasons.empty() ? "no reason given" : reasons) + ")");
    }
    const int32_t self = static_cast<int32_t>(i);
    std::vector<size_t> members = {i};
    ForEachRead(node, [&](const GraphValue* v) {
      if (!v->producer()) return;
      const int32_t j = view.IndexOf(v->producer());
      if (copies(self, j)) {
        members.push_back(static_cast<size_t>(j));
      } else {
        level[i] = std::max(level[i], level[j] + (owner[j] != owner[i]));
      }
    });
    const bool elsewhere = travels[i] && any_use(i, [](const Use&) { return true; }) &&
                           !any_use(i, [&](const Use& u) { return !u.node || !copies(view.IndexOf(u.node), self); });
    if (!elsewhere) groups[{level[i], owner[i]}].insert(members.begin(), members.end());
  }

  std::vector<std::vector<int>> clusters_of(count);  // more than one for constant expressions only
  for (const auto& [key, members] : groups) {
    Cluster c;
    c.provider = key.second;
    for (size_t i : members) {
      c.nodes.push_back(view.nodes[i].node);
      clusters_of[i].push_back(static_cast<int>(result.clusters.size()));
    }
    result.clusters.push_back(std::move(c));
  }
  const auto makes = [&](int cluster, int32_t node) {
    return std::find(clusters_of[node].begin(), clusters_of[node].end(), cluster) != clusters_of[node].end();
  };
  for (size_t i = 0; i < count; ++i) {
    Node& node = *view.nodes[i].node;
    const int home = clusters_of[i].front();
    for (int k : clusters_of[i]) {
      Cluster& c = result.clusters[k];
      ForEachRead(node, [&](GraphValue* v) {
        if (v->is_constant() || (v->producer() && makes(k, view.IndexOf(v->producer())))) return;
        if (std::find(c.inputs.begin(), c.inputs.end(), v) == c.inputs.end()) c.inputs.push_back(v);
      });
    }
    for (GraphValue* v : node.outputs()) {
      if (!v) continue;
      const bool outside = std::any_of(v->uses().begin(), v->uses().end(), [&](const Use& u) {
        return u.node == nullptr || !makes(clusters_of[view.IndexOf(u.node)].front(), static_cast<int32_t>(i));
      });
      if (outside) result.clusters[home].outputs.push_back(v);
    }
    Assignment a{view.nodes[i].node, result.clusters[home].provider, home, {}};
    for (size_t p = 0; p < providers.size(); ++p) {
      if (static_cast<int>(p) != a.provider && !sinks[p].rejections[i].empty()) {
        a.rejections.emplace_back(static_cast<int>(p), std::move(sinks[p].rejections[i]));
      }
    }
    result.assignments.push_back(std::move(a));
  }
  for (Cluster& c : result.clusters) c.graph = BuildClusterGraph(graph, c);
  return result;
}

}  // namespace quern
