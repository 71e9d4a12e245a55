#include "base/denormals.h"

#include <gtest/gtest.h>

#include <limits>

namespace quern {
namespace {

// x / 4 as the CPU computes it.
template <class T>
T Quarter(T x) {
  volatile T kept = x;
  kept = kept / T{4};
  return kept;
}

template <class T>
class Denormals : public testing::Test {
 protected:
  static constexpr T kSmallestNormal = std::numeric_limits<T>::min();
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Denormals, Types);

TYPED_TEST(Denormals, AreFlushedInTheScopeOnly) {
  if (kFlushBits == 0) GTEST_SKIP() << "this CPU's control word is not known";
  const TypeParam kept = Quarter(this->kSmallestNormal);
  EXPECT_GT(kept, TypeParam{0});
  {
    const DenormalFlushScope flush;
    EXPECT_EQ(Quarter(this->kSmallestNormal), TypeParam{0});
    {
      const DenormalFlushScope again;
      EXPECT_EQ(Quarter(this->kSmallestNormal), TypeParam{0});
    }
    EXPECT_EQ(Quarter(this->kSmallestNormal), TypeParam{0}) << "after a scope inside";
    EXPECT_EQ(Quarter(8 * this->kSmallestNormal), 2 * this->kSmallestNormal) << "a normal number";
  }
  EXPECT_EQ(Quarter(this->kSmallestNormal), kept);
}

TYPED_TEST(Denormals, AreToldOnce) {
  if (kFlushBits == 0) GTEST_SKIP() << "this CPU's control word is not known";
  // Its last digit is lost in a quarter of it.
  constexpr TypeParam kLong = std::numeric_limits<TypeParam>::min() * (1 + std::numeric_limits<TypeParam>::epsilon());
  TakeDenormalsMet();
  Quarter(TypeParam{3});
  EXPECT_FALSE(TakeDenormalsMet());
  Quarter(kLong);
  EXPECT_TRUE(TakeDenormalsMet());
  EXPECT_FALSE(TakeDenormalsMet());
  const DenormalFlushScope flush;
  Quarter(this->kSmallestNormal);
  EXPECT_FALSE(TakeDenormalsMet()) << "flushed ones cost nothing";
}

}  // namespace
}  // namespace quern
