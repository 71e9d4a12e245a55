// Which elementwise nodes become one, and which stay apart.
#include <gtest/gtest.h>

#include <string>

#include "graph/text.h"
#include "ops/infer.h"
#include "provider/cpu/passes/cpu_passes.h"

namespace quern::cpu {
namespace {

// The lines that the pass makes of these.
std::string Fused(const std::string& lines, int opset = 17) {
  const std::string head = "graph opset(\"\": " + std::to_string(opset) + ") {\n";
  Result<std::unique_ptr<Graph>> graph = ParseGraph(head + lines + "}\n");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return {};
  EXPECT_TRUE(InferShapes(**graph).ok());
  const CpuPassContext context{{.cpu = HostCpu()}, nullptr};
  PassOptions options;
  options.context = &context;
  const Result<std::vector<PassReport>> reports = RunPasses(**graph, CpuLastPasses(), options);
  EXPECT_TRUE(reports.ok()) << reports.status().message();
  const std::string text = PrintGraph(**graph, {.full_constants = true});
  return text.substr(head.size(), text.size() - head.size() - 2);
}
void ExpectApart(const std::string& lines, int opset = 17) {
  EXPECT_EQ(Fused(lines, opset).find("quern.cpu"), std::string::npos) << Fused(lines, opset);
}

TEST(FuseChains, OneNodeWithNumbersAndBroadcastOperands) {
  EXPECT_EQ(Fused("  input %x: f32[n,8]\n  input %s: f32[8]\n  const %k = f32[1] {0.5}\n"
                  "  %a = Mul(%x, %s)\n  %b = Sub(%k, %a)\n  %y = Clip(%b, %k)\n  return %y\n"),
            "  input %x: f32[n,8]\n  input %s: f32[8]\n  const %k = f32[1] {0.5}\n"
            "  %y_cpu: f32[n,8] = quern.cpu::Elementwise#1(%x, %s) {functions = [\"Mul\", \"Sub\", \"Clip\"], "
            "numbers = [0.5], operands = [0, 1, 2, 3, 4], parameters = [0.0, 0.0, 0.0, 0.0, 0.5, inf]}\n"
            "  return %y_cpu\n");
}

// Members are read more than once, by each other.
TEST(FuseChains, DiamondsAndOperatorsOfSeveralOperands) {
  EXPECT_EQ(Fused("  input %x: f32[4]\n  input %z: f32[4]\n  %a = Sigmoid(%x)\n  %b = Mul(%a, %z)\n"
                  "  %c = Mul(%a, %b)\n  %y = Mean(%a, %b, %c)\n  return %y\n"),
            "  input %x: f32[4]\n  input %z: f32[4]\n"
            "  %y_cpu: f32[4] = quern.cpu::Elementwise#1(%x, %z) {functions = [\"Sigmoid\", \"Mul\", \"Mul\", "
            "\"Add\", \"Add\", \"Div\"], numbers = [3.0], operands = [0, 3, 1, 3, 4, 3, 4, 6, 5, 7, 2], "
            "parameters = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]}\n  return %y_cpu\n");
}

TEST(FuseChains, ConditionsAndChoices) {
  EXPECT_EQ(Fused("  input %x: f32[2,3]\n  input %m: bool[3]\n  const %low = f32[] {-10000.0}\n"
                  "  %g = Greater(%x, %low)\n  %p = And(%g, %m)\n  %y = Where(%p, %x, %low)\n  return %y\n"),
            "  input %x: f32[2,3]\n  input %m: bool[3]\n  const %low = f32[] {-10000.0}\n"
            "  %y_cpu: f32[2,3] = quern.cpu::Elementwise#1(%x, %m) {functions = [\"Less\", \"And\", \"Where\"], "
            "numbers = [-10000.0], operands = [2, 0, 3, 1, 4, 0, 2], parameters = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]}\n"
            "  return %y_cpu\n");
}

// What is read outside, as a result or by another node, is computed by a node of its own; two chains begin there.
TEST(FuseChains, ValuesThatOthersReadEndAChain) {
  for (const char* reader : {"", "  %o = ReduceSum(%b)\n"}) {
    const std::string text =
        Fused(std::string("  input %x: f32[2,3]\n  %a = Neg(%x)\n  %b = Exp(%a)\n  %c = Neg(%b)\n  %y = Tanh(%c)\n") +
              reader + "  return %y, " + (*reader ? "%o" : "%b") + "\n");
    EXPECT_NE(text.find("quern.cpu::Elementwise#1(%x) {functions = [\"Neg\", \"Exp\"]"), std::string::npos) << text;
    EXPECT_NE(text.find("quern.cpu::Elementwise#1(%b_cpu) {functions = [\"Neg\", \"Tanh\"]"), std::string::npos)
        << text;
  }
}

TEST(FuseChains, QuantizedBytes) {
  EXPECT_EQ(
      Fused("  input %x: u8[n,8]\n  input %z: i8[8]\n  const %s = f32[] {0.5}\n  const %t = f32[] {0.25}\n"
            "  const %p = u8[] {200}\n  %a = DequantizeLinear(%x, %s, %p)\n  %b = DequantizeLinear(%z, %t)\n"
            "  %c = Add(%a, %b)\n  %d = Relu(%c)\n  %y = QuantizeLinear(%d, %t, %p)\n  return %y\n"),
      "  input %x: u8[n,8]\n  input %z: i8[8]\n  const %s = f32[] {0.5}\n  const %t = f32[] {0.25}\n"
      "  const %p = u8[] {200}\n"
      "  %b: f32[8] = DequantizeLinear(%z, %t)\n"
      "  %y_cpu: u8[n,8] = quern.cpu::Elementwise#1(%x, %b) {functions = [\"DequantizeU8\", \"Add\", "
      "\"Relu\", \"QuantizeU8\"], numbers = floats [], operands = [0, 2, 1, 3, 4], parameters = [0.5, 200.0, 0.0, 0.0, "
      "0.0, 0.0, 0.25, 200.0]}\n  return %y_cpu\n");
}

// Each chain dequantizes bytes for itself, but quantizes none that others read.
TEST(FuseChains, BytesThatSeveralChainsRead) {
  const std::string numbers = "  const %s = f32[] {0.5}\n  const %p = i8[] {3}\n";
  const std::string text =
      Fused("  input %x: f32[9]\n" + numbers +
            "  %a = Neg(%x)\n  %q = QuantizeLinear(%a, %s, %p)\n  %d = DequantizeLinear(%q, %s, %p)\n  %y = Tanh(%d)\n"
            "  %z = Exp(%d)\n  return %y, %z\n");
  for (const char* chain : {"[\"Neg\", \"QuantizeI8\"]", "(%q_cpu) {functions = [\"DequantizeI8\", \"Tanh\"]",
                            "(%q_cpu) {functions = [\"DequantizeI8\", \"Exp\"]"}) {
    EXPECT_NE(text.find(chain), std::string::npos) << text;
  }
  EXPECT_EQ(text.find("DequantizeLinear"), std::string::npos) << text;
  // One of them by an operator of its own, and scales of channels.
  ExpectApart("  input %x: i8[9]\n" + numbers +
              "  %d = DequantizeLinear(%x, %s, %p)\n  %y = Tanh(%d)\n  %z = ReduceSum(%d)\n  return %y, %z\n");
  ExpectApart(
      "  input %x: i8[2,3]\n  const %s = f32[3] {1, 2, 3}\n"
      "  %d = DequantizeLinear(%x, %s) {axis = 1}\n  %y = Tanh(%d)\n  return %y\n");
}

// A value that broadcasts would be computed again for each result.
TEST(FuseChains, SmallerValuesStayApart) {
  ExpectApart("  input %x: f32[2,3]\n  input %v: f32[2,1]\n  %s = Sqrt(%v)\n  %y = Div(%x, %s)\n  return %y\n");
  ExpectApart("  input %x: f32[n,3]\n  input %v: f32[m,3]\n  %s = Sqrt(%v)\n  %y = Div(%x, %s)\n  return %y\n");
}

TEST(FuseChains, OtherTypesAndFormsStayApart) {
  ExpectApart("  input %x: f64[3]\n  %a = Neg(%x)\n  %y = Exp(%a)\n  return %y\n");
  ExpectApart("  input %x: f32[3]\n  %a = Neg(%x)\n  %y = Sin(%a)\n  return %y\n");
  ExpectApart("  input %x: f32[3]\n  input %k: f32[]\n  %a = Neg(%x)\n  %y = Clip(%a, %k)\n  return %y\n");
  ExpectApart(
      "  input %x: f32[2,3]\n  input %b: f32[2]\n  %a = Neg(%x)\n"
      "  %y = Add(%a, %b) {axis = 0, broadcast = 1}\n  return %y\n",
      6);
  // The number has a rank that no operand has.
  ExpectApart("  input %x: f32[3]\n  const %k = f32[1,1] {0.5}\n  %a = Mul(%x, %k)\n  %y = Neg(%a)\n  return %y\n");
}

// A chain has at most eight inputs and sixteen functions; what is beyond them is a chain of its own.
TEST(FuseChains, AreOfBoundedSize) {
  std::string sum = "  input %x0: f32[3]\n", neg = sum;
  for (int i = 1; i < 12; ++i) sum += "  input %x" + std::to_string(i) + ": f32[3]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string n = std::to_string(i);
    sum += "  %y" + n + " = Add(" + (i > 1 ? "%y" + std::to_string(i - 1) : "%x0") + ", %x" + n + ")\n";
  }
  const std::string sums = Fused(sum + "  return %y11\n");
  EXPECT_NE(sums.find("(%y4_cpu, %x5, %x6, %x7, %x8, %x9, %x10, %x11)"), std::string::npos) << sums;
  EXPECT_NE(sums.find("(%x0, %x1, %x2, %x3, %x4)"), std::string::npos) << sums;
  for (int i = 1; i < 21; ++i) {
    neg += "  %y" + std::to_string(i) + " = Neg(%" + (i > 1 ? "y" : "x") + std::to_string(i - 1) + ")\n";
  }
  const std::string negations = Fused(neg + "  return %y20\n");
  EXPECT_NE(negations.find("(%y4_cpu)"), std::string::npos) << negations;
}

}  // namespace
}  // namespace quern::cpu
