// Added convolutions of the same input: which become one, and which stay.
#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

TEST(MergeParallelConvs, SumTheirWeights) {
  EXPECT_EQ(After({"merge_parallel_convs", "eliminate_dead_code"},
                  "  input %x: f32[1,1,4]\n"
                  "  const %w = f32[1,1,3] {1.0, 2.0, 3.0}\n"
                  "  const %v = f32[1,1,1] {0.5}\n"
                  "  const %b = f32[1] {4.0}\n"
                  "  %a: f32[1,1,4] = Conv(%x, %v, %b) @point\n"
                  "  %c: f32[1,1,4] = Conv(%x, %w) {pads = [1, 1]} @wide\n"
                  "  %y: f32[1,1,4] = Add(%a, %c)\n"
                  "  return %y\n"),
            "  input %x: f32[1,1,4]\n"
            "  const %b = f32[1] {4.0}\n"
            "  const %w_sum = f32[1,1,3] {1.0, 2.5, 3.0}\n"
            "  %y: f32[1,1,4] = Conv(%x, %w_sum, %b) {pads = [1, 1]} @wide\n"
            "  return %y\n");
}

// A constant of numbers that are not alike.
std::string Constant(const std::string& name, const std::string& shape, int count, int seed) {
  std::string numbers;
  for (int i = 0; i < count; ++i) {
    numbers += (i ? ", " : "") + std::to_string(0.25 * ((i * 7 + seed * 5) % 11) - 1.25);
  }
  return "  const %" + name + " = f32[" + shape + "] {" + numbers + "}\n";
}

std::string Constants() {
  return Constant("w3", "4,2,3,3", 72, 1) + Constant("v3", "4,2,3,3", 72, 2) + Constant("w1", "4,2,1,1", 8, 3) +
         Constant("w13", "4,2,1,3", 24, 4) + Constant("w31", "4,2,3,1", 24, 5) + Constant("w2", "4,2,2,2", 32, 6) +
         Constant("half", "4,1,3,3", 36, 7) + Constant("half1", "4,1,1,1", 4, 8) + Constant("b", "4", 4, 9) +
         Constant("c", "4", 4, 10) + Constant("s3", "4,4,3,3", 144, 11) + Constant("s1", "4,4,1,1", 16, 12);
}

int Merged(const std::string& lines, const std::set<std::string>& skip = {}, const std::string& counted = "Conv") {
  const std::string text = "  input %x: f32[2,2,6,7]\n" + Constants() + lines + "  return %y\n";
  return CountAfterAll(text, {DrawNormal(Shape{2, 2, 6, 7}, 1)}, counted, skip);
}

TEST(MergeParallelConvs, GiveTheSameResults) {
  const std::string wide = "  %a = Conv(%x, %w3, %b) {pads = [1, 1, 1, 1]}\n";
  for (const std::string& lines : {
           wide + "  %d = Conv(%x, %v3, %c) {pads = [1, 1, 1, 1]}\n  %y = Add(%a, %d)\n",
           wide + "  %d = Conv(%x, %w1)\n  %y = Add(%d, %a)\n",
           wide + "  %d = Conv(%x, %w1, %c)\n  %e = Add(%d, %a)\n  %f = Conv(%x, %w13) {pads = [0, 1, 0, 1]}\n" +
               "  %g = Add(%f, %e)\n  %h = Conv(%x, %w31) {pads = [1, 0, 1, 0]}\n  %y = Add(%g, %h)\n",
           // With something else between.
           std::string("  %a = Conv(%x, %w3, %b) {pads = [1, 1, 1, 1]}\n  %n = Relu(%a)\n") +
               "  %i = Add(%n, %n)\n  %j = Conv(%i, %s3) {pads = [1, 1, 1, 1]}\n  %e = Add(%j, %i)\n" +
               "  %f = Conv(%i, %s1)\n  %y = Add(%f, %e)\n",
           // The inner kernel at a corner, and on the taps of a dilated one.
           wide + "  %d = Conv(%x, %w2) {pads = [1, 0, 0, 1]}\n  %y = Add(%a, %d)\n",
           std::string("  %a = Conv(%x, %w3) {pads = [2, 2, 2, 2], dilations = [2, 2]}\n  %d = Conv(%x, %w1)\n") +
               "  %y = Add(%a, %d)\n",
           std::string("  %a = Conv(%x, %w3) {pads = [1, 1, 1, 1], strides = [2, 2]}\n") +
               "  %d = Conv(%x, %w1) {strides = [2, 2]}\n  %y = Add(%a, %d)\n",
           std::string("  %a = Conv(%x, %half) {pads = [1, 1, 1, 1], group = 2}\n") +
               "  %d = Conv(%x, %half1) {group = 2}\n  %y = Add(%a, %d)\n",
       }) {
    SCOPED_TRACE(lines);
    const int apart = lines.find("%s3") != std::string::npos ? 1 : 0;  // convolutions of another input
    EXPECT_EQ(Merged(lines), 1 + apart);
    EXPECT_GT(Merged(lines, {"merge_parallel_convs"}), 1 + apart);
  }
}

// What scales each channel is a convolution too.
TEST(MergeParallelConvs, TakeScalesOfChannels) {
  const std::string numbers =
      "  const %f = f32[4] {1.5, -0.5, 2.0, 0.75}\n  const %z = f32[4] {0.1, 0.2, -0.3, 0.4}\n"
      "  const %d3 = f32[4,1,3,3] splat 0.25\n  const %g3 = f32[4,2,3,3] splat 0.125\n"
      "  const %u = f32[4] splat 1.5\n  %i = Conv(%x, %w3) {pads = [1, 1, 1, 1]}\n"
      "  %r = Relu(%i)\n";
  const std::string norm = "  %n = BatchNormalization(%r, %f, %z, %c, %u)\n";
  const std::string deep = "  %a = Conv(%r, %d3) {pads = [1, 1, 1, 1], group = 4}\n";
  for (const std::string& lines : {
           norm + deep + "  %y = Add(%a, %n)\n",
           norm + "  %a = Conv(%r, %d3, %b) {pads = [2, 2, 2, 2], dilations = [2, 2], group = 4}\n  %y = Add(%n, %a)\n",
           norm + "  %a = Conv(%r, %s3, %b) {pads = [1, 1, 1, 1]}\n  %y = Add(%n, %a)\n",
           norm + "  %a = Conv(%r, %s1)\n  %y = Add(%n, %a)\n",
           norm + "  %a = Conv(%r, %g3) {pads = [1, 1, 1, 1], group = 2}\n  %y = Add(%n, %a)\n",
           norm + "  %a = Conv(%r, %s3) {pads = [1, 1, 1, 1]}\n  %e = Conv(%r, %s1)\n  %h = Add(%n, %a)\n" +
               "  %y = Add(%e, %h)\n",
           deep + "  %y = Add(%r, %a)\n",
           // With something else between.
           deep + "  %e = Neg(%r)\n  %h = Add(%r, %e)\n  %y = Add(%a, %h)\n",
       }) {
    SCOPED_TRACE(lines);
    const int others = lines.find("Neg") != std::string::npos ? 1 : 0;
    EXPECT_EQ(Merged(numbers + lines), 2);
    EXPECT_EQ(Merged(numbers + lines, {}, "BatchNormalization"), 0);
    EXPECT_EQ(Merged(numbers + lines, {}, "Add"), others);
    EXPECT_GT(Merged(numbers + lines, {"merge_parallel_convs"}, "Add"), others);
  }
  // Of another input, of strided places, read elsewhere; of all channels, where the input itself is no sum of taps.
  for (const std::string& lines : {
           "  %n = BatchNormalization(%i, %f, %z, %c, %u)\n" + deep + "  %y = Add(%a, %n)\n",
           norm + "  %a = Conv(%r, %d3) {pads = [3, 4, 4, 4], strides = [2, 2], group = 4}\n  %y = Add(%a, %n)\n",
           norm + deep + "  %e = Add(%a, %n)\n  %y = Mul(%e, %n)\n",
           std::string("  %a = Conv(%r, %s3) {pads = [1, 1, 1, 1]}\n  %y = Add(%a, %r)\n"),
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(Merged(numbers + lines, {}, "Add"), 1);
  }
}

TEST(MergeParallelConvs, KeepsWhatItMust) {
  const std::string wide = "  %a = Conv(%x, %w3) {pads = [1, 1, 1, 1]}\n";
  for (const std::string& lines : {
           // Other inputs, strides, groups; places between the taps; kernels of which neither holds the other.
           wide + "  %n = Neg(%x)\n  %d = Conv(%n, %w1)\n  %y = Add(%a, %d)\n",
           wide + "  %d = Conv(%x, %half1) {group = 2}\n  %y = Add(%a, %d)\n",
           std::string("  %a = Conv(%x, %w3) {pads = [1, 1, 1, 1], strides = [2, 2]}\n") +
               "  %d = Conv(%x, %w2) {strides = [2, 2], pads = [0, 0, 0, 1]}\n  %y = Add(%a, %d)\n",
           std::string("  %a = Conv(%x, %w3) {pads = [2, 2, 2, 2], dilations = [2, 2]}\n") +
               "  %d = Conv(%x, %w2) {pads = [1, 1, 0, 0]}\n  %y = Add(%a, %d)\n",
           std::string("  %a = Conv(%x, %w13) {pads = [0, 1, 0, 1]}\n") +
               "  %d = Conv(%x, %w31) {pads = [1, 0, 1, 0]}\n  %y = Add(%a, %d)\n",
           // A result that something else reads.
           wide + "  %d = Conv(%x, %w1)\n  %s = Add(%a, %d)\n  %y = Mul(%s, %a)\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(Merged(lines), 2);
  }
}

}  // namespace
}  // namespace quern
