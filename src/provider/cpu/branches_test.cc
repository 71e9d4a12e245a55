// Which nodes run side by side: on made-up graphs with made-up costs.
#include "provider/cpu/branches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace quern::cpu {
namespace {

using Nodes = std::vector<BranchNode>;

// A chain of nodes that start from node `from` (-1: from outside), each of `micros`; returns its last.
int AddChain(Nodes& nodes, int from, int length, double micros) {
  for (int i = 0; i < length; ++i) {
    BranchNode node{.micros = micros, .reads = {}};
    if (from >= 0) node.reads = {from};
    from = static_cast<int>(nodes.size());
    nodes.push_back(node);
  }
  return from;
}
int AddJoin(Nodes& nodes, std::vector<int> reads, double micros = 1) {
  nodes.push_back({.micros = micros, .reads = std::move(reads)});
  return static_cast<int>(nodes.size()) - 1;
}

std::vector<int> Range(int first, int last) {
  std::vector<int> list;
  for (int n = first; n <= last; ++n) list.push_back(n);
  return list;
}

TEST(Branches, TwoChainsOfSmallNodes) {
  Nodes nodes;
  const int fork = AddChain(nodes, -1, 1, 200);
  const int a = AddChain(nodes, fork, 4, 12);
  const int b = AddChain(nodes, fork, 4, 12);
  AddJoin(nodes, {a, b});
  const std::vector<BranchGroup> groups = FindBranches(nodes, 2);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].first, 1);
  EXPECT_EQ(groups[0].last, 8);
  ASSERT_EQ(groups[0].workers.size(), 2u);
  auto lists = groups[0].workers;
  std::sort(lists.begin(), lists.end());
  EXPECT_EQ(lists[0], Range(1, 4));
  EXPECT_EQ(lists[1], Range(5, 8));
  EXPECT_TRUE(FindBranches(nodes, 1).empty());
}

TEST(Branches, NothingWithoutAClearGain) {
  const auto two_chains = [](int length, double micros) {
    Nodes nodes;
    const int a = AddChain(nodes, -1, length, micros);
    const int b = AddChain(nodes, -1, length, micros);
    AddJoin(nodes, {a, b});
    return nodes;
  };
  EXPECT_FALSE(FindBranches(two_chains(3, 10), 2).empty());
  // Little to do; nodes that all threads work on together; one after another by nature.
  EXPECT_TRUE(FindBranches(two_chains(3, 2), 2).empty());
  EXPECT_TRUE(FindBranches(two_chains(3, 100), 2).empty());
  Nodes chain;
  AddChain(chain, -1, 40, 10);
  EXPECT_TRUE(FindBranches(chain, 2).empty());
  // One long branch beside a short one.
  Nodes uneven;
  const int longer = AddChain(uneven, -1, 10, 12), shorter = AddChain(uneven, -1, 1, 12);
  AddJoin(uneven, {longer, shorter});
  EXPECT_TRUE(FindBranches(uneven, 2).empty());
}

TEST(Branches, EachForkOfASequenceIsAGroup) {
  Nodes nodes;
  int from = AddChain(nodes, -1, 1, 1);
  for (int module = 0; module < 5; ++module) {
    std::vector<int> towers;
    for (int t = 0; t < 4; ++t) towers.push_back(AddChain(nodes, from, 2, 10));
    from = AddJoin(nodes, towers);
  }
  for (const int concurrency : {2, 4, 16}) {
    const std::vector<BranchGroup> groups = FindBranches(nodes, concurrency);
    ASSERT_EQ(groups.size(), 5u) << concurrency;
    for (size_t g = 0; g < groups.size(); ++g) {
      EXPECT_EQ(groups[g].first, 1 + 9 * static_cast<int>(g));
      EXPECT_EQ(groups[g].last, 8 + 9 * static_cast<int>(g));
      EXPECT_EQ(groups[g].workers.size(), static_cast<size_t>(std::min(concurrency, 4)));
      for (const std::vector<int>& worker : groups[g].workers) {
        EXPECT_EQ(worker.size(), concurrency == 2 ? 4u : 2u);
      }
    }
  }
}

TEST(Branches, InterleavedBranchesAndLoads) {
  // Branches of 40, 12 and 28 us, their nodes in turn: the two shorter ones are as long as the longest.
  Nodes nodes;
  std::vector<int> last(3, -1);
  const std::vector<double> micros = {10, 3, 7};
  for (int i = 0; i < 4; ++i) {
    for (int b = 0; b < 3; ++b) last[b] = AddChain(nodes, last[b], 1, micros[b]);
  }
  AddJoin(nodes, last);
  const std::vector<BranchGroup> groups = FindBranches(nodes, 2);
  ASSERT_EQ(groups.size(), 1u);
  ASSERT_EQ(groups[0].workers.size(), 2u);
  EXPECT_EQ(groups[0].workers[0], (std::vector<int>{0, 3, 6, 9}));
  EXPECT_EQ(groups[0].workers[1], (std::vector<int>{2, 5, 8, 11, 1, 4, 7, 10}));
}

TEST(Branches, NodesThatRunAloneEndAGroup) {
  Nodes nodes;
  for (int half = 0; half < 2; ++half) {
    AddChain(nodes, -1, 3, 12);
    AddChain(nodes, -1, 3, 12);
    if (half == 0) nodes.push_back({.micros = 1, .alone = true, .reads = {}});
  }
  const std::vector<BranchGroup> groups = FindBranches(nodes, 2);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].last, 5);
  EXPECT_EQ(groups[1].first, 7);
}

// Whatever the graph: groups do not overlap, hold each of their nodes once, and what a node reads within its group is
// run by the same worker before it.
TEST(Branches, RandomGraphsKeepTheirOrder) {
  std::mt19937 random(11);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    Nodes nodes(static_cast<size_t>(draw(1, 150)));
    const int far = draw(2, 20);
    for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
      nodes[n].micros = draw(0, 9) == 0 ? 0 : draw(1, 20);
      nodes[n].alone = draw(0, 40) == 0;
      for (int k = draw(0, 2); k > 0 && n > 0; --k) nodes[n].reads.push_back(std::max(0, n - draw(1, far)));
    }
    const int concurrency = draw(2, 8);
    int end = 0;
    for (const BranchGroup& g : FindBranches(nodes, concurrency)) {
      ++found;
      ASSERT_GE(g.first, end);
      end = g.last + 1;
      ASSERT_GE(g.workers.size(), 2u);
      ASSERT_LE(g.workers.size(), static_cast<size_t>(concurrency));
      std::vector<int> worker_of(nodes.size(), -1), place(nodes.size(), -1);
      size_t members = 0;
      for (size_t w = 0; w < g.workers.size(); ++w) {
        for (size_t i = 0; i < g.workers[w].size(); ++i) {
          const int n = g.workers[w][i];
          ASSERT_TRUE(n >= g.first && n <= g.last && worker_of[n] < 0 && !nodes[n].alone);
          worker_of[n] = static_cast<int>(w);
          place[n] = static_cast<int>(i);
          ++members;
        }
      }
      ASSERT_EQ(members, static_cast<size_t>(g.last - g.first + 1));
      for (int n = g.first; n <= g.last; ++n) {
        for (const int from : nodes[n].reads) {
          if (from < g.first) continue;
          ASSERT_EQ(worker_of[from], worker_of[n]);
          ASSERT_LT(place[from], place[n]);
        }
      }
    }
  }
  EXPECT_GT(found, 100);
}

TEST(Branches, RatesFollowVectorUnits) {
  CpuFacts plain, avx2, avx512;
  plain.arch = avx2.arch = avx512.arch = Arch::kX86_64;
  plain.features = avx2.features = avx512.features = {};
  for (CpuFacts* f : {&avx2, &avx512}) f->features.Set(CpuFeature::kFma);
  avx512.features.Set(CpuFeature::kAvx512F);
  const NodeWork products{.operations = 1e7, .bytes = 1000}, copies{.operations = 0, .bytes = 1e6};
  EXPECT_GT(NominalRates(plain).Micros(products), NominalRates(avx2).Micros(products));
  EXPECT_GT(NominalRates(avx2).Micros(products), NominalRates(avx512).Micros(products));
  EXPECT_EQ(NominalRates(plain).Micros(copies), NominalRates(avx512).Micros(copies));
}

}  // namespace
}  // namespace quern::cpu
