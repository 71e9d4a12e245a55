// The micro-kernel that the facts name is the one that runs, and it follows the CPU.
#include <gmock/gmock.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "session/test_graphs.h"
#include "ukernel/gemm.h"

namespace quern {
namespace {

using testing::HasSubstr;
using ukernel::GemmKernel;
using ukernel::KernelList;

std::atomic<int64_t> g_calls{0};
ukernel::GemmRun g_counted = nullptr;

void CountAndRun(const ukernel::GemmArgs& args) {
  g_calls.fetch_add(1, std::memory_order_relaxed);
  g_counted(args);
}

std::unique_ptr<Graph> Dense() {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {24, 40});
  return g.Finish({g.Op("MatMul", {x, g.Const("w", DrawFloats(Shape{40, 48}, 1))}, "y")});
}

std::string PlannedKernel(const Session& session) {
  const Result<std::string> facts = session.Facts("plan");
  EXPECT_TRUE(facts.ok()) << facts.status().message();
  const nlohmann::json document = nlohmann::json::parse(*facts);
  for (const auto& cluster : document["plan"]["steps"]) {
    for (const auto& step : cluster["steps"]) {
      if (step["op"] == "MatMul") return step["kernel"];
    }
  }
  ADD_FAILURE() << *facts;
  return "none";
}

TEST(KernelChoice, TheKernelOfThePlanIsTheOneThatRuns) {
  const std::string name = PlannedKernel(*MakeSession(Dense()));
  // The build's rows, the named one counting its calls.
  std::vector<std::vector<GemmKernel>> rows;
  std::vector<KernelList<GemmKernel>> lists;
  int found = 0;
  for (const KernelList<GemmKernel>* list : ukernel::AllGemmKernels()) {
    rows.emplace_back(list->rows, list->rows + list->count);
    for (GemmKernel& row : rows.back()) {
      if (name != ukernel::Name(row).text) continue;
      ++found;
      ASSERT_NE(row.run, nullptr);
      g_counted = row.run;
      row.run = CountAndRun;
    }
    lists.push_back({nullptr, list->count, list->stem});
  }
  ASSERT_EQ(found, 1) << name;
  std::vector<const KernelList<GemmKernel>*> table;
  for (size_t i = 0; i < lists.size(); ++i) {
    lists[i].rows = rows[i].data();
    table.push_back(&lists[i]);
  }

  SessionOptions options;
  options.gemm_rows = kernels::RowTable(table);
  const std::unique_ptr<Session> session = MakeSession(Dense(), options);
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(PlannedKernel(*session), name);
  g_calls = 0;
  const Tensor x = DrawFloats(Shape{24, 40}, 2);
  std::vector<Value> in = {x}, out(1);
  ASSERT_TRUE(session->Run(in, out).ok());
  EXPECT_GT(g_calls, 0);
  ExpectNear(out[0], Product(x, DrawFloats(Shape{40, 48}, 1)));
}

TEST(KernelChoice, FollowsTheCpu) {
  const auto kernel_on = [](const char* cpu) {
    SessionOptions options;
    const Result<CpuInfo> info = CpuFromSpec(cpu);
    if (!info.ok() || !CheckCanRun(*info).ok()) return std::string();
    options.cpu = *info;
    const std::unique_ptr<Session> session = MakeSession(Dense(), options);
    const Tensor x = DrawFloats(Shape{24, 40}, 2);
    std::vector<Value> in = {x}, out(1);
    EXPECT_TRUE(session->Run(in, out).ok());
    ExpectNear(out[0], Product(x, DrawFloats(Shape{40, 48}, 1)));
    return PlannedKernel(*session);
  };
#if defined(__aarch64__)
  EXPECT_THAT(kernel_on("generic"), HasSubstr("_neon"));  // every aarch64 CPU has it
#else
  EXPECT_THAT(kernel_on("generic"), HasSubstr("portable"));
#endif
  const std::string haswell = kernel_on("haswell"), icelake = kernel_on("icelake");
  if (!haswell.empty()) EXPECT_THAT(haswell, HasSubstr("_avx2"));
  if (!icelake.empty()) EXPECT_THAT(icelake, HasSubstr("_avx512"));
  if (haswell.empty() && icelake.empty()) GTEST_SKIP() << "the host runs none of the CPUs that have vectors here";
}

// A pass of the CPU provider is left out by its name, as a neutral one is.
TEST(KernelChoice, ChainsAreLeftOutByName) {
  for (const bool fused : {true, false}) {
    GraphMaker g;
    GraphValue* x = g.In("x", DType::kF32, {24, 40});
    SessionOptions options;
    if (!fused) options.skip_passes = {"cpu_fuse_elementwise"};
    const std::unique_ptr<Session> session =
        MakeSession(g.Finish({g.Op("Exp", {g.Op("Neg", {x}, "negative")}, "y")}), options);
    ASSERT_NE(session, nullptr);
    const std::string facts = session->Facts("compiled").value();
    EXPECT_EQ(facts.find("Neg, Exp in one pass") != std::string::npos, fused) << facts;
  }
}

}  // namespace
}  // namespace quern
