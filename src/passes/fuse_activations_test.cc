// Activations that are written out, in the forms that exporters give, and formulas that are something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

TEST(FuseActivations, BecomeOneNode) {
  EXPECT_EQ(After({"fuse_activations"},
                  "  input %x: f32[n,4]\n"
                  "  const %k = f32[] {1.5}\n"
                  "  const %three = f32[] {3.0}\n"
                  "  const %zero = f32[] {0.0}\n"
                  "  const %six = f32[] {6.0}\n"
                  "  %m: f32[n,4] = Mul(%x, %k)\n"
                  "  %s: f32[n,4] = Sigmoid(%m)\n"
                  "  %a: f32[n,4] = Mul(%x, %s)\n"
                  "  %t: f32[n,4] = Add(%a, %three)\n"
                  "  %c: f32[n,4] = Clip(%t, %zero, %six)\n"
                  "  %h: f32[n,4] = Mul(%a, %c)\n"
                  "  %b: f32[n,4] = Div(%h, %six)\n"
                  "  %p: f32[n,4] = Softplus(%b)\n"
                  "  %q: f32[n,4] = Tanh(%p)\n"
                  "  %y: f32[n,4] = Mul(%q, %b)\n"
                  "  return %y\n"),
            "  input %x: f32[n,4]\n"
            "  %a: f32[n,4] = Swish#24(%x) {alpha = 1.5}\n"
            "  %b: f32[n,4] = HardSwish#14(%a)\n"
            "  %y: f32[n,4] = Mish#18(%b)\n"
            "  return %y\n");
}

TEST(FuseActivations, BoundsBecomeClip) {
  EXPECT_EQ(After({"fuse_activations"},
                  "  input %x: f32[n,4]\n"
                  "  const %low = f32[] {-1.0}\n"
                  "  const %zero = f32[1] {0.0}\n"
                  "  const %six = f32[] {6.0}\n"
                  "  %a: f32[n,4] = Min(%six, %x)\n"
                  "  %b: f32[n,4] = Max(%a, %low)\n"
                  "  %y: f32[n,4] = Max(%zero, %b)\n"
                  "  return %y\n"),
            "  input %x: f32[n,4]\n"
            "  const %y_low = f32[] {0.0}\n"
            "  const %y_high = f32[] {6.0}\n"
            "  %y: f32[n,4] = Clip#13(%x, %y_low, %y_high)\n"
            "  return %y\n");
}

constexpr char kNumbers[] =
    "  input %x: f32[2,30]\n  const %zero = f32[] {0.0}\n  const %one = f32[] {1.0}\n  const %three = f32[1] {3.0}\n"
    "  const %six = f32[] {6.0}\n  const %sixth = f32[] {0.16666667}\n  const %half = f32[] {0.5}\n"
    "  const %fifth = f32[] {0.2}\n  const %k = f32[] {1.702}\n  const %row = f32[30] splat 0.25\n"
    "  const %wide = f32[1,1,1] {1.0}\n";

// Numbers on both sides of all bounds.
std::vector<Value> Wide() {
  Tensor t = DrawNormal(Shape{2, 30}, 1);
  for (float& v : t.values<float>()) v *= 4;
  return {t};
}

struct FormulaCase {
  const char* op_type;
  const char* lines;
};

void ExpectOne(const FormulaCase& c) {
  SCOPED_TRACE(c.lines);
  const std::string lines = std::string(kNumbers) + c.lines + "  return %y\n";
  EXPECT_EQ(CountAfterAll(lines, Wide(), c.op_type), 1);
  for (const char* part : {"Mul", "Div", "Add", "Sub", "Max", "Min", "Tanh", "Exp", "Sigmoid"}) {
    EXPECT_EQ(CountAfterAll(lines, Wide(), part), 0) << part;
  }
}

TEST(FuseActivations, SmoothOnesInAnyForm) {
  for (const FormulaCase& c : std::initializer_list<FormulaCase>{
           {"Swish", "  %s = Sigmoid(%x)\n  %y = Mul(%x, %s)\n"},
           {"Swish", "  %m = Mul(%k, %x)\n  %s = Sigmoid(%m)\n  %y = Mul(%s, %x)\n"},
           {"Swish", "  %m = Neg(%x)\n  %s = Sigmoid(%m)\n  %y = Mul(%s, %x)\n"},
           {"Softplus", "  %e = Exp(%x)\n  %a = Add(%one, %e)\n  %y = Log(%a)\n"},
           {"Mish", "  %e = Exp(%x)\n  %a = Add(%e, %one)\n  %l = Log(%a)\n  %t = Tanh(%l)\n  %y = Mul(%x, %t)\n"},
           {"Mish", "  %l = Softplus(%x)\n  %t = Tanh(%l)\n  %y = Mul(%t, %x)\n"},
       }) {
    ExpectOne(c);
  }
}

TEST(FuseActivations, HardOnesInAnyForm) {
  const std::string shifted = "  %a = Add(%x, %three)\n";
  for (const FormulaCase& c : std::initializer_list<FormulaCase>{
           {"HardSigmoid", "  %a = Add(%x, %three)\n  %c = Clip(%a, %zero, %six)\n  %y = Div(%c, %six)\n"},
           {"HardSigmoid",
            "  %a = Add(%three, %x)\n  %c = Clip#6(%a) {max = 6.0, min = 0.0}\n  %y = Mul(%sixth, %c)\n"},
           {"HardSigmoid",
            "  %a = Add(%x, %three)\n  %m = Max(%a, %zero)\n  %c = Min(%six, %m)\n  %y = Div(%c, %six)\n"},
           {"HardSigmoid", "  %a = Add(%x, %three)\n  %m = Min(%a, %six)\n  %c = Relu(%m)\n  %y = Div(%c, %six)\n"},
           {"HardSigmoid", "  %a = Add(%x, %three)\n  %m = Relu(%a)\n  %c = Clip(%m, _, %six)\n  %y = Div(%c, %six)\n"},
           {"HardSigmoid", "  %m = Mul(%x, %fifth)\n  %a = Add(%m, %half)\n  %y = Clip(%a, %zero, %one)\n"},
           {"HardSigmoid", "  %m = Div(%x, %six)\n  %a = Sub(%m, %half)\n  %r = Min(%a, %one)\n  %y = Relu(%r)\n"},
           {"HardSwish", "  %h = HardSigmoid(%x) {alpha = 0.16666667, beta = 0.5}\n  %y = Mul(%x, %h)\n"},
           {"HardSwish",
            "  %a = Add(%x, %three)\n  %c = Clip(%a, %zero, %six)\n  %d = Div(%c, %six)\n  %y = Mul(%x, %d)\n"},
           {"HardSwish",
            "  %a = Add(%x, %three)\n  %c = Clip(%a, %zero, %six)\n  %d = Mul(%c, %x)\n  %y = Mul(%d, %sixth)\n"},
           {"HardSwish",
            "  %a = Add(%x, %three)\n  %c = Clip(%a, %zero, %six)\n  %d = Div(%x, %six)\n  %y = Mul(%d, %c)\n"},
           {"LeakyRelu", "  %m = Mul(%x, %fifth)\n  %y = Max(%x, %m)\n"},
           {"LeakyRelu", "  %m = Mul(%fifth, %x)\n  %y = Max(%m, %x)\n"},
           {"LeakyRelu", "  %y = PRelu(%x, %three)\n"},
           {"LeakyRelu", "  %m = Mul(%x, %k)\n  %l = Less(%x, %zero)\n  %y = Where(%l, %m, %x)\n"},
           {"LeakyRelu", "  %m = Mul(%k, %x)\n  %l = GreaterOrEqual(%x, %zero)\n  %y = Where(%l, %x, %m)\n"},
           {"Relu", "  %y = Max(%x, %zero)\n"},
           {"Clip", "  %r = Relu(%x)\n  %y = Min(%r, %six)\n"},
       }) {
    ExpectOne(c);
  }
}

TEST(FuseActivations, LeaveOtherFormulas) {
  for (const FormulaCase& c : std::initializer_list<FormulaCase>{
           // a value in between that is read; another argument; another number; a gate of each column
           {"Swish", "  %s = Sigmoid(%x)\n  %m = Mul(%x, %s)\n  %y = Add(%m, %s)\n"},
           {"Swish", "  %n = Abs(%x)\n  %s = Sigmoid(%n)\n  %y = Mul(%x, %s)\n"},
           {"Swish", "  %s = Sigmoid(%x)\n  %m = Mul(%x, %half)\n  %y = Mul(%m, %s)\n"},
           {"Swish", "  %n = Mul(%x, %row)\n  %s = Sigmoid(%n)\n  %y = Mul(%x, %s)\n"},
           {"Mish", "  %l = Softplus(%x)\n  %t = Tanh(%l)\n  %m = Mul(%t, %x)\n  %y = Add(%m, %l)\n"},
           {"Mish", "  %n = Neg(%x)\n  %l = Softplus(%n)\n  %t = Tanh(%l)\n  %y = Mul(%t, %x)\n"},
           {"Softplus", "  %e = Exp(%x)\n  %a = Add(%e, %half)\n  %y = Log(%a)\n"},
           {"HardSigmoid", "  %a = Add(%x, %three)\n  %c = Clip(%a, %one, %six)\n  %y = Div(%c, %six)\n"},
           {"HardSigmoid", "  %a = Add(%x, %three)\n  %c = Clip(%a, %zero, %six)\n  %y = Mul(%c, %half)\n"},
           {"HardSigmoid",
            "  %a = Add(%x, %three)\n  %c = Clip(%a, %zero, %six)\n  %d = Div(%c, %six)\n  %y = Add(%d, %c)\n"},
           {"HardSwish", "  %h = HardSigmoid(%x)\n  %y = Mul(%x, %h)\n"},
           {"HardSwish",
            "  %n = Neg(%x)\n  %h = HardSigmoid(%n) {alpha = 0.16666667, beta = 0.5}\n  %y = Mul(%x, %h)\n"},
           {"LeakyRelu", "  %m = Mul(%x, %k)\n  %y = Max(%x, %m)\n"},
           {"LeakyRelu", "  %y = PRelu(%x, %row)\n"},
           {"LeakyRelu", "  %m = Mul(%x, %k)\n  %l = Less(%x, %one)\n  %y = Where(%l, %m, %x)\n"},
           {"LeakyRelu", "  %m = Mul(%x, %k)\n  %l = Less(%x, %zero)\n  %y = Where(%l, %x, %m)\n"},
           {"Clip", "  %y = Min(%x, %row)\n"},
       }) {
    SCOPED_TRACE(c.lines);
    EXPECT_EQ(CountAfterAll(std::string(kNumbers) + c.lines + "  return %y\n", Wide(), c.op_type), 0);
  }
}

// The weights of channels of an excitation end in the activation of the convolution that makes them.
TEST(FuseActivations, OfAnExcitation) {
  const std::string lines =
      "  input %x: f32[1,4,5,5]\n  const %w = f32[4,4,1,1] splat 0.25\n  const %three = f32[] {3.0}\n"
      "  const %zero = f32[] {0.0}\n  const %six = f32[] {6.0}\n  %g = GlobalAveragePool(%x)\n  %c = Conv(%g, %w)\n"
      "  %a = Add(%c, %three)\n  %b = Clip(%a, %zero, %six)\n  %d = Div(%b, %six)\n  %y = Mul(%x, %d)\n"
      "  return %y\n";
  const std::vector<Value> x = {DrawNormal(Shape{1, 4, 5, 5}, 1)};
  EXPECT_EQ(CountAfterAll(lines, x, "HardSigmoid"), 1);
  EXPECT_EQ(CountAfterAll(lines, x, "Mul"), 1);
  for (const char* part : {"Add", "Clip", "Div"}) EXPECT_EQ(CountAfterAll(lines, x, part), 0);
}

// A number of more dimensions than the value gives its shape to the result.
TEST(FuseActivations, KeepTheRank) {
  const std::string lines = std::string(kNumbers) + "  %e = Exp(%x)\n  %a = Add(%e, %wide)\n  %y = Log(%a)\n";
  EXPECT_EQ(CountAfterAll(lines + "  return %y\n", Wide(), "Softplus"), 0);
}

// Attributes are float32: numbers of float64 would lose digits. A bound that is no number makes all elements none.
TEST(FuseActivations, KeepTheDigits) {
  for (const char* lines :
       {"  input %x: f64[4]\n  const %k = f64[] {1.702}\n  %m: f64[4] = Mul(%x, %k)\n"
        "  %s: f64[4] = Sigmoid(%m)\n  %y: f64[4] = Mul(%x, %s)\n  return %y\n",
        "  input %x: f32[4]\n  const %k = f32[] {nan}\n  %y: f32[4] = Max(%x, %k)\n  return %y\n"}) {
    EXPECT_EQ(After({"fuse_activations"}, lines), lines);
  }
}

// Where a file that is written allows no newer operators, formulas stay.
TEST(FuseActivations, FollowTheOperatorSet) {
  const std::unique_ptr<Graph> graph =
      Parse(WithHeader(std::string(kNumbers) + "  %s = Sigmoid(%x)\n  %a = Mul(%x, %s)\n  %l = Softplus(%a)\n"
                                               "  %t = Tanh(%l)\n  %y = Mul(%a, %t)\n  return %y\n"));
  ASSERT_TRUE(InferShapes(*graph).ok());
  const NeutralPassContext context{.newest_opset = 18};
  EXPECT_EQ(FindNeutralPass("fuse_activations")->run(*graph, &context).value(), 1);
  EXPECT_EQ(graph->last_node()->op_type(), "Mish");
}

}  // namespace
}  // namespace quern
