#include "partition/partition.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

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

// The cluster's nodes as a graph; names are kept, so values correspond by name.
std::unique_ptr<Graph> BuildClusterGraph(const Graph& graph, const Cluster& cluster) {
  auto g = std::make_unique<Graph>();
  g->name = graph.name;
  g->opset_imports = graph.opset_imports;
  g->keep_alive = graph.keep_alive;
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

  Partition result;
  std::vector<int> level(count, 0);
  std::map<std::pair<int, int>, std::vector<size_t>> groups;  // (level, provider) -> nodes
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
    ForEachRead(node, [&](const GraphValue* v) {
      if (const Node* producer = v->producer()) {
        const int32_t j = view.IndexOf(producer);
        level[i] = std::max(level[i], level[j] + (owner[j] != owner[i]));
      }
    });
    groups[{level[i], owner[i]}].push_back(i);
  }

  std::vector<int> cluster_of(count, -1);
  for (const auto& [key, members] : groups) {
    Cluster c;
    c.provider = key.second;
    for (size_t i : members) {
      c.nodes.push_back(view.nodes[i].node);
      cluster_of[i] = static_cast<int>(result.clusters.size());
    }
    result.clusters.push_back(std::move(c));
  }
  for (size_t i = 0; i < count; ++i) {
    Cluster& c = result.clusters[cluster_of[i]];
    Node& node = *view.nodes[i].node;
    ForEachRead(node, [&](GraphValue* v) {
      const bool inside = v->producer() && cluster_of[view.IndexOf(v->producer())] == cluster_of[i];
      if (v->is_constant() || inside) return;
      if (std::find(c.inputs.begin(), c.inputs.end(), v) == c.inputs.end()) c.inputs.push_back(v);
    });
    for (GraphValue* v : node.outputs()) {
      if (!v) continue;
      const bool outside = std::any_of(v->uses().begin(), v->uses().end(), [&](const Use& u) {
        return u.node == nullptr || cluster_of[view.IndexOf(u.node)] != cluster_of[i];
      });
      if (outside) c.outputs.push_back(v);
    }
    Assignment a{view.nodes[i].node, owner[i], cluster_of[i], {}};
    for (size_t p = 0; p < providers.size(); ++p) {
      if (static_cast<int>(p) != owner[i] && !sinks[p].rejections[i].empty()) {
        a.rejections.emplace_back(static_cast<int>(p), std::move(sinks[p].rejections[i]));
      }
    }
    result.assignments.push_back(std::move(a));
  }
  for (Cluster& c : result.clusters) c.graph = BuildClusterGraph(graph, c);
  return result;
}

}  // namespace quern
