// Who gets a node, and how neighbours of one provider become clusters.
#include "partition/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/text.h"

namespace quern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kInternal = 8;

// Offers nodes of some operators one by one, or neighbouring pairs of them; says no to all others.
struct Claimer {
  std::set<std::string> operators;
  double cost = 0;
  bool pairs = false;

  static int32_t Claim(void* self, const quern_graph_view* graph, quern_claim_sink* sink) {
    const auto& claimer = *static_cast<const Claimer*>(self);
    const quern_host_api& host = *HostApi();
    for (int32_t i = 0; i < host.num_nodes(graph); ++i) {
      quern_node_info node;
      quern_node_info_init(&node);
      host.node(graph, i, &node);
      if (!claimer.operators.contains(node.op_type)) {
        host.reject(sink, i, (std::string("no ") + node.op_type).c_str());
        continue;
      }
      const int32_t set[] = {i, i + 1};
      host.claim(sink, set, claimer.pairs ? 2 : 1, claimer.cost);
      i += claimer.pairs;
    }
    return 0;
  }
  std::shared_ptr<Provider> Make(const char* name) {
    quern_provider p{};
    p.struct_size = sizeof p;
    p.abi_version = QUERN_PROVIDER_ABI_VERSION;
    p.self = this;
    p.name = name;
    p.claim = Claim;
    // Partitioning calls none of these.
    p.compile = [](void*, const quern_graph_view*, const char*, void**) { return kInternal; };
    p.destroy_executable = [](void*, void*) {};
    p.plan = [](void*, void*, const quern_plan_args*, quern_plan_sink*, void**) { return kInternal; };
    p.destroy_plan = [](void*, void*) {};
    p.run = [](void*, void*, const quern_run_args*, void**) { return kInternal; };
    return Provider::Create(p).value();
  }
};

std::unique_ptr<Graph> Parse(const char* text) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(graph).value() : nullptr;
}

constexpr char kChain[] = R"(graph opset("": 17) {
  input %x: f32[2]
  %a = Neg(%x) @n1
  %b = Abs(%a) @n2
  %c = Abs(%b) @n3
  %y = Neg(%c) @n4
  return %y
})";

TEST(Partition, TheFirstProviderWinsAndNeighboursCluster) {
  Claimer first{.operators = {"Abs"}}, all{.operators = {"Abs", "Neg"}};
  const std::unique_ptr<Graph> graph = Parse(kChain);
  const std::vector<std::shared_ptr<Provider>> providers = {first.Make("first"), all.Make("all")};
  const Result<Partition> p = PartitionGraph(*graph, providers);
  ASSERT_TRUE(p.ok()) << p.status().message();
  ASSERT_EQ(p->clusters.size(), 3u);
  EXPECT_EQ(p->clusters[0].provider, 1);
  EXPECT_EQ(p->clusters[1].provider, 0);
  EXPECT_EQ(p->clusters[1].nodes.size(), 2u);
  ASSERT_EQ(p->clusters[1].inputs.size(), 1u);
  EXPECT_EQ(p->clusters[1].inputs[0]->name(), "a");
  ASSERT_EQ(p->clusters[1].outputs.size(), 1u);
  EXPECT_EQ(p->clusters[1].outputs[0]->name(), "c");
  EXPECT_EQ(p->clusters[1].graph->num_nodes(), 2);
  ASSERT_EQ(p->assignments[0].rejections.size(), 1u);
  EXPECT_EQ(p->assignments[0].rejections[0].second, "no Neg");
  EXPECT_TRUE(p->assignments[1].rejections.empty());
}

TEST(Partition, TheCheaperOfferWinsWhereCostsAreStated) {
  Claimer dear{.operators = {"Abs", "Neg"}, .cost = 2}, cheap{.operators = {"Abs"}, .cost = 1};
  const std::unique_ptr<Graph> graph = Parse(kChain);
  const Result<Partition> p = PartitionGraph(*graph, std::vector{dear.Make("dear"), cheap.Make("cheap")});
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->assignments[0].provider, 0);
  EXPECT_EQ(p->assignments[1].provider, 1);
  cheap.cost = 0;  // not known: no reason to change
  const Result<Partition> unknown = PartitionGraph(*graph, std::vector{dear.Make("dear"), cheap.Make("cheap")});
  ASSERT_TRUE(unknown.ok());
  EXPECT_EQ(unknown->assignments[1].provider, 0);
}

TEST(Partition, ASetIsNotTornApart) {
  Claimer pairs{.operators = {"Abs", "Neg"}, .cost = 2, .pairs = true}, cheap{.operators = {"Abs"}, .cost = 0.1};
  const std::unique_ptr<Graph> graph = Parse(kChain);
  const Result<Partition> p = PartitionGraph(*graph, std::vector{pairs.Make("pairs"), cheap.Make("cheap")});
  ASSERT_TRUE(p.ok());
  for (const Assignment& a : p->assignments) EXPECT_EQ(a.provider, 0) << a.node->name();
}

// Abs of both branches would be one cluster by connection, but one of them needs what the other gives to Neg.
TEST(Partition, ClustersHaveNoCycle) {
  Claimer abs{.operators = {"Abs", "Add"}}, neg{.operators = {"Neg"}};
  const std::unique_ptr<Graph> graph = Parse(R"(graph opset("": 17) {
    input %x: f32[2]
    %a = Abs(%x)
    %b = Neg(%a)
    %c = Abs(%a)
    %y = Add(%b, %c)
    return %y
  })");
  const Result<Partition> p = PartitionGraph(*graph, std::vector{abs.Make("abs"), neg.Make("neg")});
  ASSERT_TRUE(p.ok());
  std::set<std::string> made = {"x"};
  size_t nodes = 0;
  for (const Cluster& cluster : p->clusters) {
    for (const GraphValue* v : cluster.inputs)
      EXPECT_TRUE(made.contains(v->name())) << v->name() << " is not there yet";
    for (const GraphValue* v : cluster.outputs) made.insert(v->name());
    nodes += cluster.nodes.size();
  }
  EXPECT_EQ(nodes, 4u);
  EXPECT_EQ(p->clusters.size(), 3u);
}

// Weights that are computed from constants are known to whoever compiles the cluster that reads them.
TEST(Partition, ConstantExpressionsAreCopiedToTheirReaders) {
  constexpr char kText[] = R"(graph opset("": 17) {
    input %x: f32[2]
    const %c = f32[2] {1.0, 2.0}
    %w = Abs(%c)
    %a = Add(%x, %w)
    %b = Neg(%a)
    %y = Add(%b, %w)
    return %y
  })";
  Claimer abs{.operators = {"Abs"}}, add{.operators = {"Abs", "Add"}}, neg{.operators = {"Neg"}};
  const std::unique_ptr<Graph> graph = Parse(kText);
  const Result<Partition> p = PartitionGraph(*graph, std::vector{abs.Make("abs"), add.Make("add"), neg.Make("neg")});
  ASSERT_TRUE(p.ok()) << p.status().message();
  ASSERT_EQ(p->clusters.size(), 3u) << "the first provider's offer of Abs is not needed";
  for (const int i : {0, 2}) {
    EXPECT_EQ(p->clusters[i].nodes.size(), 2u);
    ASSERT_EQ(p->clusters[i].inputs.size(), 1u);
    EXPECT_NE(p->clusters[i].inputs[0]->name(), "w");
    ASSERT_EQ(p->clusters[i].outputs.size(), 1u);
    EXPECT_NE(p->clusters[i].outputs[0]->name(), "w");
  }

  // A reader whose provider does not claim it gets the value itself.
  Claimer only_add{.operators = {"Add"}};
  const Result<Partition> q =
      PartitionGraph(*graph, std::vector{abs.Make("abs"), only_add.Make("add"), neg.Make("neg")});
  ASSERT_TRUE(q.ok()) << q.status().message();
  ASSERT_EQ(q->clusters.size(), 4u);
  EXPECT_EQ(q->clusters[0].outputs[0]->name(), "w");
  EXPECT_EQ(q->clusters[1].inputs.size(), 2u);
}

TEST(Partition, ANodeThatNobodyTakesIsNamedWithAllReasons) {
  Claimer one{.operators = {"Abs"}}, other{.operators = {}};
  const std::unique_ptr<Graph> graph = Parse(kChain);
  const Status status = PartitionGraph(*graph, std::vector{one.Make("one"), other.Make("other")}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("n1"), HasSubstr("one: no Neg"), HasSubstr("other: no Neg")));
}

TEST(Partition, ANodeTwiceInOneSetIsAnError) {
  quern_provider p = Claimer().Make("twice")->abi();
  p.claim = [](void*, const quern_graph_view*, quern_claim_sink* sink) {
    const int32_t set[] = {1, 0, 1};
    HostApi()->claim(sink, set, 3, 0);
    return 0;
  };
  const std::unique_ptr<Graph> graph = Parse(kChain);
  const Status status = PartitionGraph(*graph, std::vector{Provider::Create(p).value()}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("'twice'"), HasSubstr("a node twice")));
}

}  // namespace
}  // namespace quern
