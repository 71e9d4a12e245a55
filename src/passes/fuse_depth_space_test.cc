// Moves between blocks of pixels and channels: the chains and slices that become one operator, and those that do not.
#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

TEST(FuseDepthSpace, BecomesOneNode) {
  EXPECT_EQ(After({"fuse_depth_space"},
                  "  input %x: f32[n,12,h,w]\n"
                  "  const %s = i64[6] {0, 2, 2, 3, 0, 0}\n"
                  "  const %r = i64[4] {0, 3, 0, 0}\n"
                  "  %a: f32[n,2,2,3,h,w] = Reshape(%x, %s)\n"
                  "  %t: f32[n,3,h,2,w,2] = Transpose(%a) {perm = [0, 3, 4, 1, 5, 2]}\n"
                  "  %y: f32[n,3,2*h,2*w] = Reshape(%t, %r)\n"
                  "  return %y\n"),
            "  input %x: f32[n,12,h,w]\n"
            "  %y: f32[n,3,2*h,2*w] = DepthToSpace(%x) {blocksize = 2, mode = \"DCR\"}\n"
            "  return %y\n");
}

std::string Chain(const std::string& x, const std::string& six, const std::string& perm, const std::string& y) {
  return "  input %x: f32[" + x + "]\n  const %s = i64[6] {" + six + "}\n  const %r = i64[4] {" + y +
         "}\n  %a = Reshape(%x, %s)\n  %t = Transpose(%a) {perm = [" + perm + "]}\n  %y = Reshape(%t, %r)\n";
}

TEST(FuseDepthSpace, InAllForms) {
  const std::vector<Value> deep = {DrawNormal(Shape{2, 12, 3, 5}, 1)}, wide = {DrawNormal(Shape{2, 3, 4, 6}, 1)};
  const std::string end = "  return %y\n";
  const std::string dcr = Chain("b,12,3,5", "-1, 2, 2, 3, 3, 5", "0, 3, 4, 1, 5, 2", "-1, 3, 6, 10");
  const std::string crd = Chain("b,12,3,5", "-1, 3, 2, 2, 3, 5", "0, 1, 4, 2, 5, 3", "-1, 3, 6, 10");
  const std::string to_depth = Chain("b,3,4,6", "-1, 3, 2, 2, 3, 2", "0, 3, 5, 1, 2, 4", "-1, 12, 2, 3");
  for (const std::string& lines : {dcr, crd}) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountAfterAll(lines + end, deep, "DepthToSpace"), 1);
    EXPECT_EQ(CountAfterAll(lines + end, deep, "Transpose"), 0);
    EXPECT_EQ(CountAfterAll(lines + end, deep, "DepthToSpace", {"fuse_depth_space"}), 0);
    EXPECT_EQ(CountAfterAll(lines + "  return %y, %t\n", deep, "DepthToSpace"), 0);
  }
  EXPECT_EQ(CountAfterAll(to_depth + end, wide, "SpaceToDepth"), 1);
}

TEST(FuseDepthSpace, LeavesOtherMoves) {
  const std::vector<Value> deep = {DrawNormal(Shape{2, 12, 3, 5}, 1)};
  for (const std::string& lines : {
           // another order; blocks that are no squares; other shapes than the form's behind and before
           Chain("b,12,3,5", "-1, 2, 2, 3, 3, 5", "0, 3, 4, 2, 5, 1", "-1, 3, 6, 10"),
           Chain("b,12,3,5", "-1, 3, 4, 1, 3, 5", "0, 3, 4, 1, 5, 2", "-1, 1, 9, 20"),
           Chain("b,12,3,5", "-1, 2, 2, 3, 3, 5", "0, 3, 4, 1, 5, 2", "-1, 6, 3, 10"),
           Chain("b,12,3,5", "-1, 2, 2, 3, 5, 3", "0, 3, 4, 1, 5, 2", "-1, 3, 10, 6"),
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountAfterAll(lines + "  return %y\n", deep, "DepthToSpace"), 0);
  }
}

// The channels of one place after the other: [0::2, 0::2], [1::2, 0::2], [0::2, 1::2], [1::2, 1::2].
constexpr char kFocus[] =
    "  input %x: f32[b,3,4,6]\n  const %zero = i64[1] {0}\n  const %one = i64[1] {1}\n  const %two = i64[1] {2}\n"
    "  const %three = i64[1] {3}\n  const %end = i64[1] {9223372036854775807}\n  const %zeros = i64[2] {0, 1}\n"
    "  const %ends = i64[2] {4, 6}\n  const %axes = i64[2] {-2, -1}\n  const %twos = i64[2] {2, 2}\n"
    "  %r0 = Slice(%x, %zero, %end, %two, %two)\n  %r1 = Slice(%x, %one, %end, %two, %two)\n"
    "  %a = Slice(%r0, %zero, %end, %three, %two)\n  %c = Slice(%r1, %zero, %end, %three, %two)\n"
    "  %d = Slice(%x, %zeros, %ends, %axes, %twos)\n  %e = Slice(%r1, %one, %end, %three, %two)\n";

// A convolution whose weights differ in every channel.
std::string Convolved(const std::string& concat) {
  std::string weights;
  for (int i = 0; i < 24; ++i) weights += (i == 0 ? "" : ", ") + std::to_string(0.1 * i * i - i);
  return kFocus + concat + "  const %w = f32[2,12,1,1] {" + weights +
         "}\n  const %bias = f32[2] {1.0, 2.0}\n"
         "  %y = Conv(%k, %w, %bias)\n  return %y";
}

TEST(FuseFocus, BecomesOneMove) {
  const std::vector<Value> x = {DrawNormal(Shape{2, 3, 4, 6}, 1)};
  for (const char* order : {"%a, %c, %d, %e", "%e, %a, %c, %d", "%a, %d, %c, %e"}) {
    SCOPED_TRACE(order);
    const std::string lines = Convolved("  %k = Concat(" + std::string(order) + ") {axis = 1}\n");
    EXPECT_EQ(CountAfterAll(lines + "\n", x, "SpaceToDepth"), 1);
    EXPECT_EQ(CountAfterAll(lines + "\n", x, "Slice"), 0);
    EXPECT_EQ(CountAfterAll(lines + "\n", x, "SpaceToDepth", {"fuse_focus"}), 0);
    EXPECT_EQ(CountAfterAll(lines + ", %k\n", x, "SpaceToDepth"), 0);
  }
}

TEST(FuseFocus, LeavesOtherSlices) {
  const std::vector<Value> x = {DrawNormal(Shape{2, 3, 4, 6}, 1)};
  for (const char* concat : {
           // a place twice; another value; a part that ends early
           "  %k = Concat(%a, %c, %d, %a) {axis = 1}\n",
           "  %z = Neg(%x)\n  %z1 = Slice(%z, %zeros, %ends, %axes, %twos)\n  %k = Concat(%a, %c, %z1, %e) {axis = "
           "1}\n",
           "  const %five = i64[2] {4, 5}\n  const %from = i64[2] {0, 0}\n"
           "  %early = Slice(%x, %from, %five, %axes, %twos)\n  %k = Concat(%early, %c, %d, %e) {axis = 1}\n",
       }) {
    SCOPED_TRACE(concat);
    EXPECT_EQ(CountAfterAll(Convolved(concat) + "\n", x, "SpaceToDepth"), 0);
  }
}

}  // namespace
}  // namespace quern
