// Softmax of every row that has one (vector: float32, elementwise: float64) against the formula in a wider type;
// operands end at guard pages.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "base/cpu.h"
#include "ukernel/elementwise.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

template <typename T>
void CheckSoftmax(const char* name, void (*softmax)(const SoftmaxLines<T>&), SoftmaxLines<T> args, bool in_place) {
  using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
  std::mt19937 random(11);
  std::normal_distribution<T> normal(0, 4);
  const size_t n = args.width * args.count;
  GuardedBuffer x(n * sizeof(T)), y(n * sizeof(T));
  auto* from = reinterpret_cast<T*>(x.data());
  std::vector<T> operand(n);
  for (T& v : operand) v = normal(random);
  std::memcpy(from, operand.data(), n * sizeof(T));
  args.x = from;
  args.y = in_place ? from : reinterpret_cast<T*>(y.data());
  args.stride = static_cast<ptrdiff_t>(args.width);
  softmax(args);
  for (size_t w = 0; w < args.width; ++w) {
    Wide largest = operand[w], sum = 0;
    for (size_t k = 0; k < args.count; ++k) {
      largest = std::max(largest, static_cast<Wide>(operand[k * args.width + w]));
    }
    for (size_t k = 0; k < args.count; ++k) sum += std::exp(operand[k * args.width + w] - largest);
    for (size_t k = 0; k < args.count; ++k) {
      const Wide d = operand[k * args.width + w] - largest;
      const auto expected = static_cast<double>(args.log ? d - std::log(sum) : std::exp(d) / sum);
      // The exponent is rounded, the sum with each element, and what follows a few times more.
      const double steps = 8 + static_cast<double>(args.count) / 32 - static_cast<double>(d);
      const double error = std::numeric_limits<T>::epsilon() * steps;
      ASSERT_NEAR(args.y[k * args.width + w], expected, error * (args.log ? 1 : expected))
          << name << " " << args.count << " elements, line " << w << " of " << args.width;
    }
  }
}

template <typename T>
void CheckSoftmaxRow(const char* name, void (*softmax)(const SoftmaxLines<T>&)) {
  for (const bool log : {false, true}) {
    for (const size_t width : {1, 5, 70}) {
      for (const size_t count : {1, 3, 300}) {
        for (const bool in_place : {false, true}) {
          ASSERT_NO_FATAL_FAILURE(
              CheckSoftmax<T>(name, softmax, {.count = count, .width = width, .log = log}, in_place));
        }
      }
    }
  }
}

TEST(SoftmaxRows, FollowTheFormula) {
  const CpuFacts cpu = HostCpu().facts();
  for (const KernelList<VectorKernel>* list : AllVectorKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const VectorKernel& row = list->rows[i];
      if (row.softmax && IsaRunsOn(row.isa, cpu)) CheckSoftmaxRow<float>(Name(row).text, row.softmax);
    }
  }
  for (const KernelList<ElementwiseKernel>* list : AllElementwiseKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const ElementwiseKernel& row = list->rows[i];
      if (row.softmax && IsaRunsOn(row.isa, cpu)) CheckSoftmaxRow<double>(Name(row).text, row.softmax);
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
