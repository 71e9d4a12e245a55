// Instance and group normalization in the forms that exporters give, and forms that are something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

constexpr char kInputs[] =
    "  input %x: f32[n,6,3,4]\n  const %two = f32[] {2.0}\n  const %one = f32[] {1.0}\n  const %eps = f32[] {0.001}\n"
    "  const %g = f32[6,1,1] {1.0, 2.0, -1.0, 0.5, 3.0, 0.25}\n"
    "  const %b = f32[1,6,1,1] {0.5, 0.0, 1.0, -2.0, 1.0, 4.0}\n"
    "  const %spatial = i64[2] {2, 3}\n  const %back = i64[4] {0, 6, 3, 4}\n  const %groups = i64[3] {0, 3, -1}\n"
    "  const %ones = f32[3] splat 1.0\n  const %zeros = f32[3] splat 0.0\n  const %row = f32[4] splat 0.5\n";
constexpr char kQuotient[] =
    "  %m = ReduceMean(%x) {axes = [2, 3]}\n  %d = Sub(%x, %m)\n  %p = Pow(%d, %two)\n"
    "  %v = ReduceMean(%p) {axes = [-2, -1]}\n  %e = Add(%v, %eps)\n  %s = Sqrt(%e)\n";
constexpr char kApart[] = "  %r = Reshape(%x, %groups)\n";

std::vector<Value> Images() { return {DrawNormal(Shape{2, 6, 3, 4}, 1)}; }

int Count(const std::string& lines, const char* op_type, const std::set<std::string>& skip = {}) {
  return CountAfterAll(kInputs + lines + "  return %y\n", Images(), op_type, skip);
}

TEST(FuseInstanceNorm, BecomesOneNode) {
  EXPECT_EQ(After({"fuse_instance_norm"},
                  "  input %x: f32[n,2,h,w]\n"
                  "  const %two = f32[] {2.0}\n"
                  "  const %eps = f32[] {0.5}\n"
                  "  const %g = f32[2,1,1] {1.0, 2.0}\n"
                  "  const %b = f32[1,2,1,1] {3.0, 4.0}\n"
                  "  %m: f32[n,2,1,1] = ReduceMean(%x) {axes = [2, 3]}\n"
                  "  %d: f32[n,2,h,w] = Sub(%x, %m)\n"
                  "  %p: f32[n,2,h,w] = Pow(%d, %two)\n"
                  "  %v: f32[n,2,1,1] = ReduceMean(%p) {axes = [2, 3]}\n"
                  "  %e: f32[n,2,1,1] = Add(%v, %eps)\n"
                  "  %s: f32[n,2,1,1] = Sqrt(%e)\n"
                  "  %q: f32[n,2,h,w] = Div(%d, %s)\n"
                  "  %k: f32[n,2,h,w] = Mul(%q, %g)\n"
                  "  %y: f32[n,2,h,w] = Add(%k, %b)\n"
                  "  return %y\n"),
            "  input %x: f32[n,2,h,w]\n"
            "  const %y_scale = f32[2] {1.0, 2.0}\n"
            "  const %y_bias = f32[2] {3.0, 4.0}\n"
            "  %y: f32[n,2,h,w] = InstanceNormalization#6(%x, %y_scale, %y_bias) {epsilon = 0.5}\n"
            "  return %y\n");
}

TEST(FuseInstanceNorm, InAnyOrderOfProducts) {
  for (const char* rest : {
           "  %q = Div(%d, %s)\n  %k = Mul(%g, %q)\n  %y = Add(%b, %k)\n",
           "  %q = Div(%d, %s)\n  %y = Mul(%q, %g)\n",
           "  %q = Div(%d, %s)\n  %y = Add(%q, %b)\n",
           "  %i = Reciprocal(%s)\n  %q = Mul(%i, %d)\n  %k = Mul(%q, %b)\n  %y = Add(%k, %g)\n",
           "  %i = Div(%one, %s)\n  %q = Mul(%d, %i)\n  %k = Mul(%q, %g)\n  %y = Add(%k, %b)\n",
       }) {
    SCOPED_TRACE(rest);
    const std::string lines = std::string(kQuotient) + rest;
    EXPECT_EQ(Count(lines, "InstanceNormalization"), 1);
    for (const char* part : {"Sqrt", "Mul", "Add", "ReduceMean", "LayerNormalization"})
      EXPECT_EQ(Count(lines, part), 0);
    EXPECT_EQ(Count(lines, "InstanceNormalization", {"fuse_instance_norm"}), 0);
  }
}

TEST(FuseInstanceNorm, LeavesOtherFormulas) {
  for (const std::string& lines : {
           // no parameter of channels; a value in between that is read; other dimensions; no mean
           std::string(kQuotient) + "  %y = Div(%d, %s)\n",
           std::string(kQuotient) + "  %q = Div(%d, %s)\n  %y = Mul(%q, %row)\n",
           std::string(kQuotient) + "  %q = Div(%d, %s)\n  %k = Mul(%q, %g)\n  %y = Add(%k, %s)\n",
           std::string(kQuotient) + "  %q = Div(%d, %s)\n  %k = Mul(%q, %g)\n  %y = Add(%k, %q)\n",
           std::string("  %m = ReduceMean(%x) {axes = [3]}\n  %d = Sub(%x, %m)\n  %p = Mul(%d, %d)\n"
                       "  %v = ReduceMean(%p) {axes = [3]}\n  %e = Add(%v, %eps)\n  %s = Sqrt(%e)\n"
                       "  %q = Div(%d, %s)\n  %y = Mul(%q, %g)\n"),
           std::string("  %p = Mul(%x, %x)\n  %v = ReduceMean(%p) {axes = [2, 3]}\n  %e = Add(%v, %eps)\n"
                       "  %s = Sqrt(%e)\n  %q = Div(%x, %s)\n  %y = Mul(%q, %g)\n"),
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(Count(lines, "InstanceNormalization"), 0);
  }
}

TEST(FuseGroupNorm, BecomesOneNode) {
  EXPECT_EQ(After({"fuse_group_norm"},
                  "  input %x: f32[n,4,h,w]\n"
                  "  const %groups = i64[3] {0, 2, -1}\n"
                  "  const %ones = f32[2] splat 1.0\n"
                  "  const %zeros = f32[2] splat 0.0\n"
                  "  const %g = f32[4,1,1] {1.0, 2.0, 3.0, 4.0}\n"
                  "  const %b = f32[4,1,1] {0.0, 1.0, 2.0, 3.0}\n"
                  "  %r: f32[n,2,2*h*w] = Reshape(%x, %groups)\n"
                  "  %i: f32[n,2,2*h*w] = InstanceNormalization(%r, %ones, %zeros) {epsilon = 0.5}\n"
                  "  %s: i64[4] = Shape(%x)\n"
                  "  %q: f32[n,4,h,w] = Reshape(%i, %s)\n"
                  "  %k: f32[n,4,h,w] = Mul(%q, %g)\n"
                  "  %y: f32[n,4,h,w] = Add(%k, %b)\n"
                  "  return %y\n"),
            "  input %x: f32[n,4,h,w]\n"
            "  const %y_scale = f32[4] {1.0, 2.0, 3.0, 4.0}\n"
            "  const %y_bias = f32[4] {0.0, 1.0, 2.0, 3.0}\n"
            "  %y: f32[n,4,h,w] = GroupNormalization#21(%x, %y_scale, %y_bias) {epsilon = 0.5, num_groups = 2}\n"
            "  return %y\n");
}

TEST(FuseGroupNorm, InAnyForm) {
  const std::string written =
      "  %m = ReduceMean(%r) {axes = [-1]}\n  %d = Sub(%r, %m)\n  %p = Mul(%d, %d)\n  %v = ReduceMean(%p) {axes = "
      "[2]}\n"
      "  %e = Add(%v, %eps)\n  %s = Sqrt(%e)\n  %i = Div(%d, %s)\n";
  const std::string apart = "  const %five = i64[5] {0, 3, 2, 3, 4}\n  %r = Reshape(%x, %five)\n";
  const std::string written5 =
      "  %m = ReduceMean(%r) {axes = [2, 3, 4]}\n  %d = Sub(%r, %m)\n  %p = Mul(%d, %d)\n"
      "  %v = ReduceMean(%p) {axes = [2, 3, 4]}\n  %e = Add(%v, %eps)\n  %s = Sqrt(%e)\n  %i = Div(%d, %s)\n";
  const std::string instances = "  %i = InstanceNormalization(%r, %ones, %zeros) {epsilon = 0.001}\n";
  for (const std::string& normalized : {kApart + instances, kApart + written, apart + written5}) {
    for (const char* rest : {
             "  %y = Reshape(%i, %back)\n",
             "  %q = Reshape(%i, %back)\n  %y = Mul(%q, %g)\n",
             "  %q = Reshape(%i, %back)\n  %y = Add(%b, %q)\n",
             "  %q = Reshape(%i, %back)\n  %k = Mul(%g, %q)\n  %y = Add(%k, %b)\n",
         }) {
      SCOPED_TRACE(normalized + rest);
      EXPECT_EQ(Count(normalized + rest, "GroupNormalization"), 1);
      for (const char* part : {"Reshape", "Mul", "Add", "InstanceNormalization", "LayerNormalization"}) {
        EXPECT_EQ(Count(normalized + rest, part), 0) << part;
      }
      EXPECT_EQ(Count(normalized + rest, "GroupNormalization", {"fuse_group_norm"}), 0);
    }
  }
}

TEST(FuseGroupNorm, LeavesOtherFormulas) {
  const std::string instances = "  %i = InstanceNormalization(%r, %ones, %zeros)\n";
  for (const std::string& lines : {
           // parameters of groups; another shape behind; groups across images; a value in between that is read
           kApart + std::string("  %i = InstanceNormalization(%r, %ones, %ones)\n  %y = Reshape(%i, %back)\n"),
           kApart + instances + "  const %other = i64[4] {0, 6, 4, 3}\n  %y = Reshape(%i, %other)\n",
           "  const %across = i64[3] {1, 3, -1}\n  const %whole = i64[4] {-1, 6, 3, 4}\n  %r = Reshape(%x, %across)\n" +
               instances + "  %y = Reshape(%i, %whole)\n",
           kApart + instances +
               "  %q = Reshape(%i, %back)\n  %z = Reshape(%i, %back)\n  %k = Mul(%q, %g)\n"
               "  %n = ReduceMax(%i)\n  %y = Add(%k, %n)\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(Count(lines, "GroupNormalization"), 0);
  }
  // A part that is read elsewhere stays; what it comes from is still one node.
  EXPECT_EQ(Count(kApart + instances + "  %q = Reshape(%i, %back)\n  %k = Mul(%q, %g)\n  %y = Add(%k, %q)\n", "Mul"),
            1);
}

}  // namespace
}  // namespace quern
