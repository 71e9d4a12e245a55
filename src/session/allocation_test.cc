// A second run with the same shapes and given outputs allocates nothing. Counts every way into the C library's heap.
#include <cerrno>
#include <cstdlib>

#include <atomic>

#include "session/test_graphs.h"

// Sanitizers have an allocator of their own (the build does not say QUERN_PLAIN_HEAP then), and other C libraries no
// such second names.
#if defined(QUERN_PLAIN_HEAP) && defined(__x86_64__) && defined(__GLIBC__)
#define QUERN_COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<int64_t> g_allocations{0};
}

#ifdef QUERN_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) noexcept {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) noexcept {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* data, size_t bytes) noexcept {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(data, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  void* data = memalign(alignment, bytes);
  if (data) *out = data;
  return data ? 0 : ENOMEM;
}
}
#endif

namespace quern {
namespace {

// Convolution with bias and activation, pooling, product with a constant, with a run-time operand, a chain of
// elementwise nodes that broadcast, softmax.
std::unique_ptr<Graph> Network() {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n"), 3, 16, 16});
  GraphValue* w = g.Const("w", DrawFloats(Shape{8, 3, 3, 3}, 1));
  GraphValue* b = g.Const("b", DrawFloats(Shape{8}, 2));
  GraphValue* c = g.Op("Conv", {x, w, b}, "conv", {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  GraphValue* r = g.Op("Relu", {c}, "relu");
  GraphValue* p = g.Op("MaxPool", {r}, "pool",
                       {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  GraphValue* f = g.Op("Flatten", {p}, "flat");
  GraphValue* m = g.Op("MatMul", {f, g.Const("wm", DrawFloats(Shape{512, 24}, 3))}, "product");
  GraphValue* t = g.Op("Transpose", {m}, "turned", {{"perm", std::vector<int64_t>{1, 0}}});
  GraphValue* q = g.Op("MatMul", {m, t}, "gram");
  GraphValue* mean = g.Op("ReduceMean", {q}, "mean", {{"axes", std::vector<int64_t>{-1}}});
  GraphValue* e = g.Op("Tanh", {g.Op("Sub", {q, mean}, "centered")}, "bounded");
  return g.Finish({g.Op("Softmax", {e}, "probability", {{"axis", int64_t{-1}}})});
}

class AllocationOfRuns : public testing::TestWithParam<int> {};

TEST_P(AllocationOfRuns, NoneInASecondRun) {
#ifndef QUERN_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "the heap cannot be counted in this build";
#endif
  SessionOptions options;
  options.threads = GetParam();
  const std::unique_ptr<Session> session = MakeSession(Network(), options);
  ASSERT_NE(session, nullptr);
  std::vector<std::vector<Value>> inputs, outputs;
  for (int64_t n : {2, 3}) {
    inputs.push_back({DrawFloats(Shape{n, 3, 16, 16}, 9)});
    outputs.push_back({Zeros(Shape{n, n})});
    for (int run = 0; run < 2; ++run) ASSERT_TRUE(session->Run(inputs.back(), outputs.back()).ok());
  }
  const std::vector<float> first(outputs[1][0].tensor().values<float>().begin(),
                                 outputs[1][0].tensor().values<float>().end());
  bool ok = true;
  const int64_t before = g_allocations.load();
  for (int run = 0; run < 10; ++run) {
    for (size_t i = 0; i < inputs.size(); ++i) ok = ok && session->Run(inputs[i], outputs[i]).ok();
  }
  const int64_t after = g_allocations.load();
  EXPECT_TRUE(ok);
  EXPECT_EQ(after - before, 0);
  EXPECT_GT(before, 0) << "the counter counts nothing";
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(outputs[1][0].tensor().data<float>()[i], first[i]);
}

TEST(Allocation, NoneInASecondRunOfBranchesSideBySide) {
#ifndef QUERN_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "the heap cannot be counted in this build";
#endif
  SessionOptions options;
  options.threads = 2;
  options.cpu = CpuFromSpec("generic").value();
  const std::unique_ptr<Session> session = MakeSession(Towers(), options);
  ASSERT_NE(session, nullptr);
  const std::vector<Value> inputs = {DrawFloats(Shape{1, 16, 7, 7}, 9)};
  std::vector<Value> outputs = {Zeros(Shape{1, 16, 1, 1})};
  bool ok = true;
  for (int run = 0; run < 2; ++run) ok = ok && session->Run(inputs, outputs).ok();
  ASSERT_NE(session->Facts("plan").value().find("side_by_side"), std::string::npos);
  const int64_t before = g_allocations.load();
  for (int run = 0; run < 10; ++run) ok = ok && session->Run(inputs, outputs).ok();
  EXPECT_EQ(g_allocations.load() - before, 0);
  EXPECT_TRUE(ok);
}

// Recurrent state: the old and the new one change places.
TEST(Allocation, NoneInASecondRunWithState) {
#ifndef QUERN_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "the heap cannot be counted in this build";
#endif
  GraphMaker g;
  GraphValue* h = g.In("h", DType::kF32, {1, 64});
  GraphValue* next = g.Op("Add", {h, g.Const("step", DrawFloats(Shape{1, 64}, 3))}, "next");
  const std::unique_ptr<Session> session = MakeSession(g.Finish({next, g.Op("Neg", {next}, "y")}));
  ASSERT_NE(session, nullptr);
  Result<SessionState> state = session->CreateState({{.input = "h", .output = "next", .buffer = Zeros(Shape{1, 64})}});
  ASSERT_TRUE(state.ok()) << state.status().message();
  std::vector<Value> inputs(1), outputs = {Value(), Zeros(Shape{1, 64})};
  bool ok = true;
  for (int run = 0; run < 2; ++run) ok = ok && session->RunWithState(*state, inputs, outputs).ok();
  const void* const places[] = {state->bindings[0].spec.buffer.raw_data(), state->bindings[0].spare.raw_data()};
  const int64_t before = g_allocations.load();
  for (int run = 0; run < 11; ++run) ok = ok && session->RunWithState(*state, inputs, outputs).ok();
  EXPECT_EQ(g_allocations.load() - before, 0);
  EXPECT_TRUE(ok);
  EXPECT_EQ(state->bindings[0].spec.buffer.raw_data(), places[1]);
  EXPECT_EQ(state->bindings[0].spare.raw_data(), places[0]);
}

INSTANTIATE_TEST_SUITE_P(Threads, AllocationOfRuns, testing::Values(1, 2));

}  // namespace
}  // namespace quern
