// Values over their norms in the forms that exporters give, and quotients that are something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

TEST(FuseLpNorm, BecomesOneNode) {
  EXPECT_EQ(After({"fuse_lp_norm"},
                  "  input %x: f32[n,4]\n"
                  "  %l: f32[n,1] = ReduceL2(%x) {axes = [-1], keepdims = 1}\n"
                  "  %y: f32[n,4] = Div(%x, %l)\n"
                  "  return %y\n"),
            "  input %x: f32[n,4]\n"
            "  %y: f32[n,4] = LpNormalization#1(%x) {axis = 1, p = 2}\n"
            "  return %y\n");
}

constexpr char kStart[] =
    "  input %x: f32[2,3,4]\n  const %two = f32[] {2.0}\n  const %axis = i64[1] {1}\n  const %eps = f32[] {0.001}\n"
    "  const %both = i64[2] {1, 2}\n  %s = Shape(%x)\n";

int Count(const std::string& lines, const std::set<std::string>& skip = {}) {
  return CountAfterAll(kStart + lines + "  return %y\n", {DrawNormal(Shape{2, 3, 4}, 1)}, "LpNormalization", skip);
}

TEST(FuseLpNorm, InAnyForm) {
  for (const char* lines : {
           "  %l = ReduceL1(%x) {axes = [1]}\n  %y = Div(%x, %l)\n",
           "  %l = ReduceL2#18(%x, %axis)\n  %e = Expand(%l, %s)\n  %y = Div(%x, %e)\n",
           "  %q = ReduceSumSquare(%x) {axes = [0]}\n  %l = Sqrt(%q)\n  %y = Div(%x, %l)\n",
           "  %p = Pow(%x, %two)\n  %q = ReduceSum(%p, %axis)\n  %l = Sqrt(%q)\n  %y = Div(%x, %l)\n",
           "  %p = Mul(%x, %x)\n  %q = ReduceSum#11(%p) {axes = [2]}\n  %l = Sqrt(%q)\n  %y = Div(%x, %l)\n",
           "  %p = Abs(%x)\n  %l = ReduceSum(%p, %axis)\n  %y = Div(%x, %l)\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(Count(lines), 1);
    EXPECT_EQ(Count(lines, {"fuse_lp_norm"}), 0);
  }
}

TEST(FuseLpNorm, LeavesOtherFormulas) {
  for (const char* lines : {
           // of two dimensions, of all; with a bound; of another value; read elsewhere; another quotient
           "  %l = ReduceL2#18(%x, %both)\n  %y = Div(%x, %l)\n",
           "  %l = ReduceL2(%x)\n  %y = Div(%x, %l)\n",
           "  %l = ReduceL2(%x) {axes = [1]}\n  %c = Clip(%l, %eps)\n  %y = Div(%x, %c)\n",
           "  %n = Exp(%x)\n  %l = ReduceL2(%n) {axes = [1]}\n  %y = Div(%x, %l)\n",
           "  %l = ReduceL2(%x) {axes = [1]}\n  %d = Div(%x, %l)\n  %y = Add(%d, %l)\n",
           "  %l = ReduceL2(%x) {axes = [1]}\n  %y = Div(%l, %x)\n",
           "  %p = Mul(%x, %x)\n  %l = ReduceSum(%p, %axis)\n  %y = Div(%x, %l)\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(Count(lines), 0);
  }
}

}  // namespace
}  // namespace quern
