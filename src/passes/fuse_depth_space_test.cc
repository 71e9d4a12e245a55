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
    EXPECT_EQ(CountAfterAll(lines + "\n", x, "SpaceToDepth", {"fuse_space_to_depth"}), 1);
    EXPECT_EQ(CountAfterAll(lines + "\n", x, "Slice"), 0);
    EXPECT_EQ(CountAfterAll(lines + "\n", x, "Slice", {"fuse_focus"}), 6);
    EXPECT_EQ(CountAfterAll(lines + ", %k\n", x, "SpaceToDepth", {"fuse_space_to_depth"}), 0);
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
    EXPECT_EQ(CountAfterAll(Convolved(concat) + "\n", x, "SpaceToDepth", {"fuse_space_to_depth"}), 0);
  }
}

// Blocks of `block` x `block` pixels of an image, and a convolution of them whose weights all differ.
std::string ConvolvedBlocks(int channels, int block, int kh, int kw, const std::string& attributes,
                            const std::string& image = "b,2,6,12") {
  std::string weights;
  const int in = channels * block * block;
  for (int i = 0; i < 3 * in * kh * kw; ++i)
    weights += (i == 0 ? "" : ", ") + std::to_string(i * 37 % 101 * 0.01 - 0.5);
  return "  input %x: f32[" + image + "]\n  %k = SpaceToDepth(%x) {blocksize = " + std::to_string(block) +
         "}\n  const %w = f32[3," + std::to_string(in) + "," + std::to_string(kh) + "," + std::to_string(kw) + "] {" +
         weights + "}\n  const %bias = f32[3] {1.0, 2.0, 3.0}\n  %y = Conv(%k, %w, %bias)" + attributes +
         "\n  return %y";
}

TEST(FuseSpaceToDepth, ReadsThePixels) {
  EXPECT_EQ(After({"fuse_space_to_depth"},
                  "  input %x: f32[b,1,4,6]\n  const %w = f32[1,4,1,2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}\n"
                  "  %k: f32[b,4,2,3] = SpaceToDepth(%x) {blocksize = 2}\n"
                  "  %y: f32[b,1,1,2] = Conv(%k, %w) {pads = [0, 1, 0, 0], strides = [2, 3]}\n  return %y\n"),
            "  input %x: f32[b,1,4,6]\n"
            "  const %y_weights = f32[1,1,2,4] {1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0}\n"
            "  %y: f32[b,1,1,2] = Conv(%x, %y_weights) {kernel_shape = [2, 4], pads = [0, 2, 0, 0], strides = [4, 6]}\n"
            "  return %y\n");
}

TEST(FuseSpaceToDepth, InAllForms) {
  const std::vector<Value> x = {DrawNormal(Shape{2, 2, 6, 12}, 1)};
  struct {
    int block, kh, kw;
    const char* attributes;
  } const cases[] = {{2, 3, 3, " {pads = [1, 1, 1, 1]}"},
                     {3, 2, 3, " {pads = [0, 1, 1, 2], strides = [1, 2]}"},
                     {2, 1, 2, ""},
                     {3, 1, 1, " {kernel_shape = [1, 1]}"},
                     {2, 2, 2, " {auto_pad = \"VALID\", dilations = [1, 1]}"}};
  for (const auto& c : cases) {
    const std::string lines = ConvolvedBlocks(2, c.block, c.kh, c.kw, c.attributes);
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountAfterAll(lines + "\n", x, "SpaceToDepth"), 0);
    EXPECT_EQ(CountAfterAll(lines + "\n", x, "SpaceToDepth", {"fuse_space_to_depth"}), 1);
    EXPECT_EQ(CountAfterAll(lines + ", %k\n", x, "SpaceToDepth"), 1);
  }
  // A convolution of single pixels takes any number of channels.
  const std::vector<Value> many = {DrawNormal(Shape{2, 20, 6, 12}, 1)};
  EXPECT_EQ(CountAfterAll(ConvolvedBlocks(20, 2, 1, 1, "", "b,20,6,12") + "\n", many, "SpaceToDepth"), 0);
}

TEST(FuseSpaceToDepth, LeavesOtherConvolutions) {
  const std::vector<Value> x = {DrawNormal(Shape{2, 2, 6, 12}, 1)}, many = {DrawNormal(Shape{2, 20, 6, 12}, 1)};
  for (const char* attributes : {" {dilations = [1, 2], pads = [1, 2, 1, 2]}", " {auto_pad = \"SAME_UPPER\"}"}) {
    EXPECT_EQ(CountAfterAll(ConvolvedBlocks(2, 2, 3, 3, attributes) + "\n", x, "SpaceToDepth"), 1) << attributes;
  }
  EXPECT_EQ(CountAfterAll(ConvolvedBlocks(2, 2, 3, 3, "", "b,2,h,w") + "\n", x, "SpaceToDepth"), 1)
      << "sides not known";
  EXPECT_EQ(CountAfterAll(ConvolvedBlocks(20, 2, 3, 3, "", "b,20,6,12") + "\n", many, "SpaceToDepth"), 1);
}

}  // namespace
}  // namespace quern
