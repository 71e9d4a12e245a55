// Padding that convolutions and pools take over, and padding that means something else to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

TEST(FusePad, MovesIntoTheConvolution) {
  EXPECT_EQ(After({"fuse_pad"},
                  "  input %x: f32[n,2,h,w]\n"
                  "  const %p = i64[8] {0, 0, 1, 2, 0, 0, 3, 4}\n"
                  "  const %k = f32[4,2,3,3] splat 0.5\n"
                  "  %a: f32[n,2,h + 4,w + 6] = Pad(%x, %p)\n"
                  "  %y: f32[n,4,h + 4,w + 6] = Conv(%a, %k) {auto_pad = \"NOTSET\", pads = [1, 1, 1, 1]}\n"
                  "  return %y\n"),
            "  input %x: f32[n,2,h,w]\n"
            "  const %k = f32[4,2,3,3] splat 0.5\n"
            "  %y: f32[n,4,h + 4,w + 6] = Conv(%x, %k) {pads = [2, 3, 4, 5]}\n"
            "  return %y\n");
}

constexpr char kStart[] =
    "  input %x: f32[2,2,6,7]\n  const %k = f32[3,2,3,3] splat 0.5\n  const %p = i64[8] {0, 0, 1, 2, 0, 0, 2, 1}\n"
    "  const %two = i64[4] {1, 2, 2, 1}\n  const %spatial = i64[2] {2, -1}\n  const %zero = f32[] {0.0}\n"
    "  const %one = f32[] {1.0}\n  const %channels = i64[8] {0, 1, 1, 1, 0, 1, 1, 1}\n"
    "  const %crop = i64[8] {0, 0, -1, 1, 0, 0, 1, 1}\n  const %deep = f32[3,4,3,3] splat 0.5\n"
    "  const %wide = i64[8] {0, 0, 3, 3, 0, 0, 3, 3}\n";

std::vector<Value> Images() { return {DrawNormal(Shape{2, 2, 6, 7}, 1)}; }

int CountPads(const std::string& lines, const std::set<std::string>& skip = {}) {
  return CountAfterAll(kStart + lines + "  return %y\n", Images(), "Pad", skip);
}

TEST(FusePad, WhereTheOperatorPadsAlike) {
  for (const char* lines : {
           "  %a = Pad(%x, %p)\n  %y = Conv(%a, %k)\n",
           "  %a = Pad(%x, %p, %zero) {mode = \"constant\"}\n  %y = Conv(%a, %k) {auto_pad = \"VALID\", pads = [0, 0, "
           "0, "
           "0], strides = [2, 2]}\n",
           "  %a = Pad#18(%x, %two, _, %spatial)\n  %y = Conv(%a, %k) {dilations = [2, 1], pads = [0, 1, 1, 0]}\n",
           "  %a = Pad#2(%x) {pads = [0, 0, 1, 2, 0, 0, 2, 1]}\n  %y = Conv(%a, %k)\n",
           "  %a = Pad(%x, %p)\n  %y = AveragePool(%a) {kernel_shape = [3, 3], strides = [2, 2]}\n",
           "  %a = Pad(%x, %p)\n  %y = AveragePool(%a) {kernel_shape = [4, 4], pads = [1, 1, 1, 1], "
           "count_include_pad = 1}\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountPads(lines), 0);
    EXPECT_EQ(CountPads(lines, {"fuse_pad"}), 1);
  }
}

TEST(FusePad, StaysWhereItMeansSomethingElse) {
  for (const char* lines : {
           // another fill, or another mode; channels; less than there is; another reader; pads that follow from shapes
           "  %a = Pad(%x, %p, %one)\n  %y = Conv(%a, %k)\n",
           "  %a = Pad(%x, %p) {mode = \"edge\"}\n  %y = Conv(%a, %k)\n",
           "  %a = Pad(%x, %channels)\n  %y = Conv(%a, %deep)\n",
           "  %a = Pad(%x, %crop)\n  %y = Conv(%a, %k)\n",
           "  %a = Pad(%x, %p)\n  %c = Conv(%a, %k)\n  %m = ReduceMax(%a)\n  %y = Add(%c, %m)\n",
           "  %a = Pad(%x, %p)\n  %y = Conv(%a, %k) {auto_pad = \"SAME_UPPER\", strides = [2, 2]}\n",
           // pools: of other elements, of windows that hold none, with windows behind the input
           "  %a = Pad(%x, %p)\n  %y = MaxPool(%a) {kernel_shape = [3, 3]}\n",
           "  %a = Pad(%x, %p)\n  %y = AveragePool(%a) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n",
           "  %a = Pad(%x, %wide)\n  %y = AveragePool(%a) {kernel_shape = [3, 3]}\n",
           "  %a = Pad(%x, %p)\n  %y = AveragePool(%a) {kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1}\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountPads(lines), 1);
  }
}

TEST(FusePad, OfInfinityIntoTheLargest) {
  const std::string start = "  const %o = f32[] {-inf}\n  %a = Pad(%x, %p, %o)\n";
  EXPECT_EQ(CountPads(start + "  %y = MaxPool(%a) {kernel_shape = [3, 3], strides = [2, 2]}\n"), 0);
  EXPECT_EQ(CountPads(start + "  %m = MaxPool(%a) {kernel_shape = [2, 2]}\n  %y = Relu(%m)\n"), 1);
  EXPECT_EQ(CountPads(start +
                      "  %m, %i = MaxPool(%a) {kernel_shape = [3, 3]}\n  %f = Cast(%i) {to = 1}\n  %y = Add(%m, %f)\n"),
            1);
}

// Bytes stand for 0 where they are the zero point.
TEST(FusePad, OfZeroPointsIntoIntegers) {
  const auto convolved = [](const char* number) {
    return After({"fuse_pad"}, std::string("  input %x: u8[1,1,4,4]\n"
                                           "  const %p = i64[8] {0, 0, 1, 1, 0, 0, 1, 1}\n"
                                           "  const %z = u8[] {3}\n"
                                           "  const %n = u8[] {") +
                                   number +
                                   "}\n"
                                   "  const %k = u8[1,1,3,3] splat 2\n"
                                   "  %a: u8[1,1,6,6] = Pad(%x, %p, %n)\n"
                                   "  %y: i32[1,1,4,4] = ConvInteger(%a, %k, %z)\n"
                                   "  return %y\n");
  };
  EXPECT_THAT(convolved("3"), ::testing::HasSubstr("ConvInteger(%x, %k, %z) {pads = [1, 1, 1, 1]}"));
  EXPECT_THAT(convolved("0"), ::testing::HasSubstr("ConvInteger(%a, %k, %z)\n"));
}

}  // namespace
}  // namespace quern
