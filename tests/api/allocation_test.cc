// Repeated runs through the C ABI with all outputs given allocate nothing: operator new is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "quern/quern.hpp"

// The thread sanitizer brings an operator new of its own.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QUERN_TEST_NO_ALLOCATION_COUNT
#endif
#elif defined(__SANITIZE_THREAD__)
#define QUERN_TEST_NO_ALLOCATION_COUNT
#endif

namespace {
std::atomic<bool> g_counting{false};
std::atomic<int> g_allocations{0};

#ifndef QUERN_TEST_NO_ALLOCATION_COUNT
void* CountedAllocate(std::size_t size, std::size_t alignment) {
  if (g_counting) ++g_allocations;
  void* p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (!p) throw std::bad_alloc();
  return p;
}
#endif
}  // namespace

#ifndef QUERN_TEST_NO_ALLOCATION_COUNT
void* operator new(std::size_t size) { return CountedAllocate(size ? size : 1, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t a) {
  return CountedAllocate(size ? size : 1, static_cast<std::size_t>(a));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return CountedAllocate(size ? size : 1, alignof(std::max_align_t));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
#endif

namespace {

TEST(ApiAllocation, ASecondRunOfTheSameShapesAllocatesNothing) {
#ifdef QUERN_TEST_NO_ALLOCATION_COUNT
  GTEST_SKIP() << "the thread sanitizer brings an operator new of its own";
#endif
  for (const int threads : {1, 2}) {
    quern::SessionOptions options;
    options.threads = threads;
    quern::Session session(quern::Model::Load(QUERN_TEST_MODELS "/digits.onnx"), options);
    std::vector<float> x(3 * 64, 0.5f), y(30);
    const quern::Value input = quern::Value::Wrap({3, 1, 8, 8}, x.data());
    quern::Value output = quern::Value::Wrap({3, 10}, y.data());
    const quern_value* inputs[1] = {input.get()};
    quern_value* outputs[1] = {output.get()};
    ASSERT_EQ(quern_session_run(session.get(), inputs, outputs, nullptr), QUERN_OK) << quern_error_message();
    g_allocations = 0;
    g_counting = true;
    const quern_status status = quern_session_run(session.get(), inputs, outputs, nullptr);
    g_counting = false;
    EXPECT_EQ(status, QUERN_OK);
    EXPECT_EQ(g_allocations, 0) << threads << " threads";
    EXPECT_NEAR(y[0] + y[1] + y[2] + y[3] + y[4] + y[5] + y[6] + y[7] + y[8] + y[9], 1, 1e-5);
  }
}

}  // namespace
