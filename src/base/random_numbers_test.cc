// Distances of drawn numbers' distributions from the true ones.
#include "base/random_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace quern {
namespace {

// The largest distance of the distribution of `count` numbers from `share`, the part of all numbers below one
// (Kolmogorov-Smirnov), times the root of `count`; beyond 2.2 once in 8000 times where the distributions are the same.
template <typename T, typename Numbers, typename Share>
double Distance(const Numbers& numbers, auto engine, const Share& share) {
  constexpr int kCount = 20000;
  std::vector<T> x(kCount);
  for (T& v : x) v = numbers(engine);
  std::sort(x.begin(), x.end());
  double distance = 0;
  for (int i = 0; i < kCount; ++i) {
    const double at = share(static_cast<double>(x[static_cast<size_t>(i)]));
    distance =
        std::max({distance, std::fabs(at - static_cast<double>(i) / kCount), std::fabs(at - (i + 1.0) / kCount)});
  }
  return distance * std::sqrt(double{kCount});
}

template <typename T>
class RandomNumbers : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(RandomNumbers, FloatTypes);

TYPED_TEST(RandomNumbers, AreUniform) {
  const auto share = [](double x) { return x < -3 ? -1.0 : x > 5 ? 2.0 : (x + 3) / 8; };
  EXPECT_LT(Distance<TypeParam>(UniformNumbers<TypeParam>(-3, 5), std::mt19937(1), share), 2.2);
  EXPECT_LT(Distance<TypeParam>(UniformNumbers<TypeParam>(-3, 5), std::mt19937_64(1), share), 2.2);
}

TYPED_TEST(RandomNumbers, AreNormal) {
  const auto share = [](double x) { return std::erfc((0.5 - x) / 4 / std::sqrt(2.0)) / 2; };
  EXPECT_LT(Distance<TypeParam>(NormalNumbers<TypeParam>(0.5, 4), std::mt19937(1), share), 2.2);
  EXPECT_LT(Distance<TypeParam>(NormalNumbers<TypeParam>(0.5, 4), std::mt19937_64(1), share), 2.2);
}

}  // namespace
}  // namespace quern
