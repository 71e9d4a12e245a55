// GroupNormalization before and since operator set 21: scale and bias per group, then per channel.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::HasSubstr;

// Two groups of two channels, one pixel each: every pair normalizes to -1 and 1 (up to epsilon).
const std::vector<float> kPixels = {1, 3, 10, 30};
constexpr float kSmall = 1.0f / 1.000005f;  // of the first pair: 1 / sqrt(1 + 1e-5)

std::vector<float> Normalize(OpTester& op) {
  op.Attr("num_groups", int64_t{2});
  const Result<std::vector<Value>> out = op.Run();
  EXPECT_TRUE(out.ok()) << out.status().message();
  if (!out.ok()) return {};
  const auto values = (*out)[0].tensor().values<float>();
  return {values.begin(), values.end()};
}

TEST(GroupNormalization, PerGroupBefore21) {
  for (const int opset : {18, 20}) {
    OpTester op("GroupNormalization", opset);
    op.Input<float>({1, 4, 1}, kPixels).Input<float>({2}, {2, 5}).Input<float>({2}, {100, 200});
    const std::vector<float> y = Normalize(op);
    ASSERT_EQ(y.size(), 4u);
    EXPECT_NEAR(y[0], 100 - 2 * kSmall, 1e-4);
    EXPECT_NEAR(y[1], 100 + 2 * kSmall, 1e-4);
    EXPECT_NEAR(y[2], 200 - 5, 1e-4);
    EXPECT_NEAR(y[3], 200 + 5, 1e-4);
  }
  OpTester wrong("GroupNormalization", 18);
  wrong.Input<float>({1, 4, 1}, kPixels).Input<float>({4}, {1, 1, 1, 1}).Input<float>({4}, {0, 0, 0, 0});
  EXPECT_FALSE(wrong.Attr("num_groups", int64_t{2}).Run().ok());
}

TEST(GroupNormalization, PerChannelSince21) {
  OpTester op("GroupNormalization", 21);
  op.Input<float>({1, 4, 1}, kPixels).Input<float>({4}, {2, 3, 5, 7}).Input<float>({4}, {100, 200, 300, 400});
  const std::vector<float> y = Normalize(op);
  ASSERT_EQ(y.size(), 4u);
  EXPECT_NEAR(y[0], 100 - 2 * kSmall, 1e-4);
  EXPECT_NEAR(y[1], 200 + 3 * kSmall, 1e-4);
  EXPECT_NEAR(y[2], 300 - 5, 1e-4);
  EXPECT_NEAR(y[3], 400 + 7, 1e-4);
  OpTester old("GroupNormalization", 17);
  old.Input<float>({1, 4, 1}, kPixels).Input<float>({2}, {1, 1}).Input<float>({2}, {0, 0});
  const auto refused = old.Attr("num_groups", int64_t{2}).Run();
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("18"));
}

}  // namespace
}  // namespace quern
