// The rules of provider.h that the host keeps: what a provider must have, one call at a time, messages, constants.
#include "provider/host.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

namespace quern {
namespace {

using testing::HasSubstr;

constexpr int32_t kInternal = 8;

// All that is required and nothing more; every call fails.
quern_provider Least() {
  quern_provider p{};
  p.struct_size = sizeof p;
  p.abi_version = QUERN_PROVIDER_ABI_VERSION;
  p.name = "least";
  p.claim = [](void*, const quern_graph_view*, quern_claim_sink*) { return kInternal; };
  p.compile = [](void*, const quern_graph_view*, const char*, void**) { return kInternal; };
  p.destroy_executable = [](void*, void*) {};
  p.plan = [](void*, void*, const quern_plan_args*, quern_plan_sink*, void**) { return kInternal; };
  p.destroy_plan = [](void*, void*) {};
  p.run = [](void*, void*, const quern_run_args*, void**) { return kInternal; };
  return p;
}

std::string WhyNot(const quern_provider& p) {
  const Result<std::shared_ptr<Provider>> provider = Provider::Create(p);
  return provider.ok() ? "" : provider.status().message();
}

TEST(Provider, LacksAreNamed) {
  EXPECT_EQ(WhyNot(Least()), "");
  quern_provider p = Least();
  p.run = nullptr;
  p.destroy_plan = nullptr;
  EXPECT_EQ(WhyNot(p), "lacks destroy_plan, run");
  p = Least();
  p.abi_version = 77;
  EXPECT_THAT(WhyNot(p), HasSubstr("ABI 77"));

  quern_memory_kind memory{};
  memory.struct_size = sizeof memory;
  p = Least();
  p.memory = &memory;
  EXPECT_EQ(WhyNot(p), "lacks memory->allocate, memory->release, memory->copy_from_host, memory->copy_to_host");
  memory.host_accessible = 1;
  EXPECT_EQ(WhyNot(p), "lacks memory->allocate, memory->release");
}

TEST(Provider, ATicketThatNobodyCanWaitForIsAnError) {
  quern_provider p = Least();
  p.run = [](void*, void* plan, const quern_run_args*, void** ticket) {
    *ticket = plan;
    return 0;
  };
  const std::shared_ptr<Provider> provider = Provider::Create(p).value();
  int plan = 0;
  void* ticket = nullptr;
  const Status status = provider->Run(&plan, {}, &ticket);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("wait"));
  EXPECT_EQ(ticket, nullptr);
}

TEST(Provider, AMessageThatNobodyTookIsNotTheNextFailures) {
  const std::shared_ptr<Provider> provider = Provider::Create(Least()).value();
  HostApi()->set_error("a message from long ago");
  void* ticket = nullptr;
  EXPECT_EQ(provider->Run(nullptr, {}, &ticket).message(), "provider 'least': run failed without a message");
}

TEST(Provider, SetsThatMakeNoSenseAreRefused) {
  quern_provider p = Least();
  p.claim = [](void*, const quern_graph_view*, quern_claim_sink* sink) {
    const int32_t node = 0;
    HostApi()->claim(sink, &node, -1, 0);
    return 0;
  };
  const std::shared_ptr<Provider> provider = Provider::Create(p).value();
  const Graph graph;
  const quern_graph_view view(graph);
  quern_claim_sink sink;
  EXPECT_THAT(provider->Claim(view, sink).message(), HasSubstr("provider 'least' offers a set of -1 nodes"));
}

TEST(Provider, PlansOneAtATime) {
  struct Counts {
    std::atomic<int> inside{0}, most{0};
  } counts;
  quern_provider p = Least();
  p.self = &counts;
  p.plan = [](void* self, void*, const quern_plan_args*, quern_plan_sink*, void**) {
    auto& c = *static_cast<Counts*>(self);
    const int now = ++c.inside;
    if (now > c.most) c.most = now;
    for (int i = 0; i < 20000 && c.inside < 2; ++i) std::this_thread::yield();  // time for another to come in
    if (c.inside > c.most) c.most = c.inside.load();
    --c.inside;
    return 0;
  };
  const std::shared_ptr<Provider> provider = Provider::Create(p).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      quern_plan_sink sink;
      void* plan = nullptr;
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(provider->Plan(nullptr, {}, sink, &plan).ok());
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counts.most, 1);
}

TEST(Provider, AConstantOutlivesItsGraph) {
  quern_constant* kept = nullptr;
  const float* data = nullptr;
  std::weak_ptr<const void> memory;
  {
    Graph graph;
    auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
    memory = owner;
    data = owner->data();
    graph.AddConstant("w", Value(Tensor::Wrap(DType::kF32, Shape{3}, owner->data())));
    graph.keep_alive.push_back(std::move(owner));
    graph.AddInput("x", ValueType::Tensor(DType::kF32, Dims{3}));
    const quern_graph_view view(graph);
    EXPECT_NE(HostApi()->retain_constant(&view, view.IndexOf(graph.FindValue("x")), &kept), 0);
    EXPECT_THAT(TakeProviderError(), HasSubstr("no constant tensor"));
    EXPECT_NE(HostApi()->retain_constant(&view, 99, &kept), 0);
    ASSERT_EQ(HostApi()->retain_constant(&view, view.IndexOf(graph.FindValue("w")), &kept), 0);
  }
  ASSERT_FALSE(memory.expired());
  EXPECT_EQ(data[2], 3);
  HostApi()->release_constant(kept);
  EXPECT_TRUE(memory.expired());
}

}  // namespace
}  // namespace quern
