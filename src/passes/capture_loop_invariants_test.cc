#include "passes/pass_tester.h"

namespace quern {
namespace {

// Of the states %h changes; %v and %u are handed on, of which %u is what is captured already.
const std::string kLoop =
    "  input %m: i64[]\n"
    "  input %go: bool[]\n"
    "  input %h0: f32[2]\n"
    "  input %w: f32[2]\n"
    "  input %x: f32[2]\n"
    "  %w2: f32[2] = Neg(%w)\n"
    "  %x2: f32[2] = Neg(%x)\n"
    "  %a: f32[2], %b: f32[2], %c: f32[2], %all: f32[n,2] = Loop(%m, %go, %w2, %h0, %x2) captures(%x2) {body = graph "
    "{\n"
    "    input %i: i64[]\n"
    "    input %on: bool[]\n"
    "    input %v: f32[2]\n"
    "    input %h: f32[2]\n"
    "    input %u: f32[2]\n"
    "    input %k: f32[2]\n"
    "    %p: f32[2] = Mul(%h, %v)\n"
    "    %q: f32[2] = Add(%p, %u)\n"
    "    %r: f32[2] = Add(%q, %k)\n"
    "    return %on, %v, %r, %u, %v\n"
    "  }}\n"
    "  %y: f32[2] = Add(%a, %c)\n"
    "  return %y, %b, %all\n";

TEST(CaptureLoopInvariants, Golden) {
  EXPECT_EQ(After({"capture_loop_invariants"}, kLoop),
            "  input %m: i64[]\n"
            "  input %go: bool[]\n"
            "  input %h0: f32[2]\n"
            "  input %w: f32[2]\n"
            "  input %x: f32[2]\n"
            "  %w2: f32[2] = Neg(%w)\n"
            "  %x2: f32[2] = Neg(%x)\n"
            "  %b: f32[2], %all: f32[n,2] = Loop(%m, %go, %h0) captures(%x2, %w2) {\n"
            "    body = graph {\n"
            "      input %i: i64[]\n"
            "      input %on: bool[]\n"
            "      input %h: f32[2]\n"
            "      input %k: f32[2]\n"
            "      input %v_invariant: f32[2]\n"
            "      %p: f32[2] = Mul(%h, %v_invariant)\n"
            "      %q: f32[2] = Add(%p, %k)\n"
            "      %r: f32[2] = Add(%q, %k)\n"
            "      return %on, %r, %v_invariant\n"
            "    }\n"
            "  }\n"
            "  %y: f32[2] = Add(%w2, %x2)\n"
            "  return %y, %b, %all\n");
}

TEST(CaptureLoopInvariants, ResultsStay) {
  for (const int64_t trips : {0, 1, 4}) {
    const std::vector<Value> inputs = {Tensor::Scalar<int64_t>(trips), Tensor::Scalar<bool>(true),
                                       DrawNormal(Shape{2}, 1), DrawNormal(Shape{2}, 2), DrawNormal(Shape{2}, 3)};
    EXPECT_EQ(CountAfterAll(kLoop, inputs, "Loop"), 1) << trips << " trips";
  }
}

// Nothing is left to run, and outputs of the graph keep their names or their node.
TEST(CaptureLoopInvariants, OfAllStates) {
  const std::string body =
      " {body = graph {\n    input %i: i64[]\n    input %on: bool[]\n    input %v: f32[2]\n"
      "    return %on, %v\n  }}\n";
  const std::string inputs = "  input %m: i64[]\n  input %go: bool[]\n  input %w: f32[2]\n";
  EXPECT_EQ(After({"capture_loop_invariants"},
                  inputs + "  %w2: f32[2] = Neg(%w)\n" + "  %a: f32[2] = Loop(%m, %go, %w2)" + body + "  return %a\n"),
            inputs + "  %a: f32[2] = Neg(%w)\n  return %a\n");
  const std::string kept =
      After({"capture_loop_invariants"}, inputs + "  %a: f32[2] = Loop(%m, %go, %w)" + body + "  return %a\n");
  EXPECT_NE(kept.find("%a: f32[2] = Loop(%m, %go, %w)"), std::string::npos) << kept;
}

}  // namespace
}  // namespace quern
