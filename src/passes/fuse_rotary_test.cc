// Rotary embeddings in the forms that exporters give, and forms whose angles are not known to be alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

TEST(FuseRotary, BecomesOneNode) {
  EXPECT_EQ(After({"fuse_rotary", "eliminate_common_subexpressions", "eliminate_dead_code"},
                  "  input %x: f32[b,3,n,8]\n"
                  "  input %f: f32[b,n,4]\n"
                  "  const %zero = i64[1] {0}\n"
                  "  const %four = i64[1] {4}\n"
                  "  const %end = i64[1] {9223372036854775807}\n"
                  "  const %three = i64[1] {3}\n"
                  "  const %one = i64[1] {1}\n"
                  "  %e: f32[b,n,8] = Concat(%f, %f) {axis = -1}\n"
                  "  %c: f32[b,n,8] = Cos(%e)\n"
                  "  %s: f32[b,n,8] = Sin(%e)\n"
                  "  %c1: f32[b,1,n,8] = Unsqueeze(%c, %one)\n"
                  "  %s1: f32[b,1,n,8] = Unsqueeze(%s, %one)\n"
                  "  %p: f32[b,3,n,8] = Mul(%x, %c1)\n"
                  "  %l: f32[b,3,n,4] = Slice(%x, %zero, %four, %three)\n"
                  "  %r: f32[b,3,n,4] = Slice(%x, %four, %end, %three)\n"
                  "  %g: f32[b,3,n,4] = Neg(%r)\n"
                  "  %h: f32[b,3,n,8] = Concat(%g, %l) {axis = -1}\n"
                  "  %q: f32[b,3,n,8] = Mul(%h, %s1)\n"
                  "  %y: f32[b,3,n,8] = Add(%p, %q)\n"
                  "  return %y\n"),
            "  input %x: f32[b,3,n,8]\n"
            "  input %f: f32[b,n,4]\n"
            "  const %y_numbers = i64[1] {0}\n"
            "  const %y_numbers_0 = i64[1] {4}\n"
            "  const %y_numbers_1 = i64[1] {-1}\n"
            "  const %y_numbers_2 = i64[1] {1}\n"
            "  %e: f32[b,n,8] = Concat(%f, %f) {axis = -1}\n"
            "  %c: f32[b,n,8] = Cos(%e)\n"
            "  %s: f32[b,n,8] = Sin(%e)\n"
            "  %y_part: f32[b,n,4] = Slice#13(%c, %y_numbers, %y_numbers_0, %y_numbers_1, %y_numbers_2)\n"
            "  %y_part_7: f32[b,n,4] = Slice#13(%s, %y_numbers, %y_numbers_0, %y_numbers_1, %y_numbers_2)\n"
            "  %y: f32[b,3,n,8] = RotaryEmbedding#23(%x, %y_part, %y_part_7) {interleaved = 0}\n"
            "  return %y\n");
}

constexpr char kStart[] =
    "  input %x: f32[b,3,n,8]\n  input %f: f32[b,n,4]\n  input %f1: f32[1,n,4]\n  input %w: f32[b,n,8]\n"
    "  const %zero = i64[1] {0}\n  const %four = i64[1] {4}\n  const %end = i64[1] {9223372036854775807}\n"
    "  const %last = i64[1] {-1}\n  const %one = i64[1] {1}\n  const %two = i64[1] {2}\n  const %k = f32[] {0.5}\n"
    "  const %row = f32[8] {1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0}\n"
    "  const %other = f32[8] {1.0, 2.0, 3.0, 4.0, 5.0, 2.0, 3.0, 4.0}\n"
    "  const %halves = f32[3,8] {1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 5.0, 6.0, 7.0, 8.0, "
    "9.0, 8.0, 7.0, 6.0, 9.0, 8.0, 7.0, 6.0}\n  input %at: i64[b,n]\n";
constexpr char kTurned[] =
    "  %l = Slice(%x, %zero, %four, %last)\n  %r = Slice(%x, %four, %end, %last, %one)\n  %g = Neg(%r)\n"
    "  %h = Concat(%g, %l) {axis = 3}\n";
constexpr char kSum[] = "  %p = Mul(%x, %c)\n  %q = Mul(%h, %s)\n  %y = Add(%p, %q)\n";

std::vector<Value> Draws() {
  const Tensor at = Tensor::FromValues<int64_t>(Shape{2, 5}, std::vector<int64_t>{0, 1, 2, 1, 0, 2, 2, 1, 0, 1});
  return {DrawNormal(Shape{2, 3, 5, 8}, 1), DrawNormal(Shape{2, 5, 4}, 2), DrawNormal(Shape{1, 5, 4}, 3),
          DrawNormal(Shape{2, 5, 8}, 4), at};
}

int Count(const std::string& lines, const char* op_type = "RotaryEmbedding", const std::set<std::string>& skip = {}) {
  return CountAfterAll(kStart + lines + "  return %y\n", Draws(), op_type, skip);
}

TEST(FuseRotary, WithAnglesOfAnyOrigin) {
  for (const char* angles : {
           "  %e = Concat(%f, %f) {axis = 2}\n  %c0 = Cos(%e)\n  %c = Unsqueeze(%c0, %one)\n  %s0 = Sin(%e)\n"
           "  %s1 = Mul(%s0, %k)\n  %s = Unsqueeze(%s1, %one)\n",
           // of one image; before the heads are a dimension; of a row for all positions
           "  %e0 = Concat(%f1, %f1) {axis = -1}\n  %e = Unsqueeze(%e0, %zero)\n  %c = Cos(%e)\n  %s = Sin(%e)\n",
           "  %e0 = Concat(%f1, %f1) {axis = -1}\n  %e = Mul(%e0, %row)\n  %c = Cos(%e)\n  %s = Sin(%e)\n",
           "  %e0 = Concat(%f1, %f1) {axis = -1}\n  %e = Squeeze(%e0, %zero)\n  %c = Cos(%e)\n  %s = Sin(%e)\n",
           // rows of a table
           "  %e0 = Gather(%halves, %at)\n  %e = Unsqueeze(%e0, %one)\n  %c = Cos(%e)\n  %s = Sin(%e)\n",
       }) {
    SCOPED_TRACE(angles);
    const std::string lines = std::string(angles) + kTurned + kSum;
    EXPECT_EQ(Count(lines), 1);
    EXPECT_EQ(Count(lines, "Neg"), 0);
    EXPECT_EQ(Count(lines, "RotaryEmbedding", {"fuse_rotary"}), 0);
  }
}

// The halves turned one by one, by angles that are no more than they are.
TEST(FuseRotary, OfHalvesApart) {
  const std::string parts =
      "  %c = Cos(%e)\n  %s = Sin(%e)\n  %l, %r = Split(%x) {axis = -1}\n  %a = Mul(%l, %c)\n  %b = Mul(%r, %s)\n"
      "  %p = Sub(%a, %b)\n  %d = Mul(%c, %r)\n  %g = Mul(%s, %l)\n";
  const std::string sum = "  %q = Add(%g, %d)\n  %y = Concat(%p, %q) {axis = -1}\n";
  for (const char* angles :
       {"  %e = Unsqueeze(%f, %one)\n", "  %e = Unsqueeze(%f1, %zero)\n", "  %e = Add(%f1, %k)\n"}) {
    SCOPED_TRACE(angles);
    EXPECT_EQ(Count(angles + parts + sum), 1);
    EXPECT_EQ(Count(angles + parts + sum, "Mul"), 0);
  }
  const std::string start = "  %e = Unsqueeze(%f, %one)\n" + parts;
  EXPECT_EQ(Count(start + "  %q = Sub(%d, %g)\n  %y = Concat(%p, %q) {axis = -1}\n"), 0);
  EXPECT_EQ(Count(start + "  %q = Add(%d, %g)\n  %y = Concat(%q, %p) {axis = -1}\n"), 0);
}

// [batch, length, heads, size]
TEST(FuseRotary, OfLengthBeforeHeads) {
  const std::string start =
      "  input %x: f32[b,n,3,8]\n  input %f: f32[b,n,4]\n  input %f1: f32[n,4]\n  const %zero = i64[1] {0}\n"
      "  const %four = i64[1] {4}\n  const %end = i64[1] {99}\n  const %last = i64[1] {-1}\n  const %one = i64[1] {1}\n"
      "  const %two = i64[1] {2}\n";
  const std::string turned = std::string("  %c = Cos(%e)\n  %s = Sin(%e)\n") + kTurned + kSum + "  return %y\n";
  const std::vector<Value> inputs = {DrawNormal(Shape{2, 5, 3, 8}, 1), DrawNormal(Shape{2, 5, 4}, 2),
                                     DrawNormal(Shape{5, 4}, 3)};
  for (const char* angles : {"  %e0 = Concat(%f, %f) {axis = 2}\n  %e = Unsqueeze(%e0, %two)\n",
                             "  %e0 = Unsqueeze(%f, %two)\n  %e = Concat(%e0, %e0) {axis = 3}\n",
                             "  %e0 = Unsqueeze(%f1, %one)\n  %e = Concat(%e0, %e0) {axis = 2}\n"}) {
    SCOPED_TRACE(angles);
    EXPECT_EQ(CountAfterAll(start + angles + turned, inputs, "RotaryEmbedding"), 1);
    EXPECT_EQ(CountAfterAll(start + angles + turned, inputs, "Neg"), 0);
  }
  // Other angles for each head.
  const std::string of_heads = "  input %f2: f32[n,3,4]\n  %e = Concat(%f2, %f2) {axis = 2}\n";
  std::vector<Value> more = inputs;
  more.push_back(DrawNormal(Shape{5, 3, 4}, 4));
  EXPECT_EQ(CountAfterAll(start + of_heads + turned, more, "Neg"), 1);
}

constexpr char kAngles[] =
    "  %e0 = Concat(%f, %f) {axis = 2}\n  %e = Unsqueeze(%e0, %one)\n  %c = Cos(%e)\n  %s = Sin(%e)\n";

TEST(FuseRotary, InAnyOrder) {
  for (const char* rest : {
           "  %l, %r = Split(%x) {axis = -1}\n  %g = Neg(%r)\n  %h = Concat(%g, %l) {axis = -1}\n"
           "  %p = Mul(%c, %x)\n  %q = Mul(%s, %h)\n  %y = Add(%q, %p)\n",
           "  %m4 = Neg(%four)\n  %l = Slice(%x, %zero, %m4, %last)\n  %r = Slice(%x, %m4, %end, %last)\n"
           "  %g = Neg(%r)\n  %h = Concat(%g, %l) {axis = -1}\n"
           "  %p = Mul(%x, %c)\n  %q = Mul(%s, %h)\n  %y = Add(%p, %q)\n",
       }) {
    SCOPED_TRACE(rest);
    EXPECT_EQ(Count(std::string(kAngles) + rest), 1);
  }
}

TEST(FuseRotary, LeavesOtherFormulas) {
  const std::string angles = kAngles, turned = kTurned, sum = kSum;
  for (const std::string& lines : {
           // angles of any values; of other halves; constants that differ
           "  %e = Unsqueeze(%w, %one)\n  %c = Cos(%e)\n  %s = Sin(%e)\n" + turned + sum,
           "  %n = Neg(%f)\n  %e0 = Concat(%f, %n) {axis = 2}\n  %e = Unsqueeze(%e0, %one)\n  %c = Cos(%e)\n"
           "  %s = Sin(%e)\n" +
               turned + sum,
           "  %e0 = Concat(%f1, %f1) {axis = -1}\n  %e = Mul(%e0, %other)\n  %c = Cos(%e)\n  %s = Sin(%e)\n" + turned +
               sum,
           // the first half turned; halves in place; neighbours for halves; a part that is read elsewhere
           angles +
               "  %l = Slice(%x, %zero, %four, %last)\n  %r = Slice(%x, %four, %end, %last)\n  %g = Neg(%l)\n"
               "  %h = Concat(%r, %g) {axis = 3}\n" +
               sum,
           angles +
               "  %l = Slice(%x, %zero, %four, %last)\n  %r = Slice(%x, %four, %end, %last)\n  %g = Neg(%l)\n"
               "  %h = Concat(%g, %r) {axis = 3}\n" +
               sum,
           angles +
               "  %l = Slice(%x, %zero, %end, %last, %two)\n  %r = Slice(%x, %one, %end, %last, %two)\n"
               "  %g = Neg(%r)\n  %h = Concat(%g, %l) {axis = 3}\n" +
               sum,
           angles + turned + "  %p = Mul(%x, %c)\n  %q = Mul(%h, %s)\n  %z = Add(%p, %q)\n  %y = Add(%z, %q)\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(Count(lines), 0);
  }
}

// Pairs of neighbours: each angle is repeated right behind itself.
TEST(FuseRotary, Interleaved) {
  const std::string turned =
      "  const %five = i64[1] {4}\n  const %eight = i64[4] {0, 0, 0, 8}\n"
      "  %l = Slice(%x, %zero, %end, %last, %two)\n  %r = Slice(%x, %one, %end, %last, %two)\n  %g = Neg(%r)\n"
      "  %g1 = Unsqueeze(%g, %last)\n  %l1 = Unsqueeze(%l, %last)\n  %h1 = Concat(%g1, %l1) {axis = -1}\n"
      "  %h = Reshape(%h1, %eight)\n";
  const std::string repeats =
      "  const %twice = i64[4] {1, 1, 1, 2}\n  const %flat = i64[3] {0, 0, 8}\n  %u = Unsqueeze(%f, %last)\n";
  const std::string angles = "  %e = Unsqueeze(%e0, %one)\n  %c = Cos(%e)\n  %s = Sin(%e)\n";
  for (const char* repeated :
       {"  %t = Expand(%u, %twice)\n", "  %t = Tile(%u, %twice)\n", "  %t = Concat(%u, %u) {axis = -1}\n"}) {
    SCOPED_TRACE(repeated);
    const std::string lines = repeats + repeated + "  %e0 = Reshape(%t, %flat)\n" + angles + turned + kSum;
    EXPECT_EQ(Count(lines), 1);
    EXPECT_EQ(Count(lines, "Neg"), 0);
  }
  EXPECT_EQ(Count("  %e0 = Concat(%f, %f) {axis = -1}\n" + angles + turned + kSum), 0);
}

// Only the first elements of each head are turned.
TEST(FuseRotary, OfPartOfEachHead) {
  const std::string start =
      "  input %x: f32[2,3,n,11]\n  input %f: f32[2,n,4]\n  const %zero = i64[1] {0}\n  const %four = i64[1] {4}\n"
      "  const %eight = i64[1] {8}\n  const %end = i64[1] {11}\n  const %last = i64[1] {-1}\n  const %one = i64[1] "
      "{1}\n"
      "  const %sizes = i64[2] {8, 3}\n  const %nine = i64[1] {9}\n";
  const std::string turned =
      "  %e0 = Concat(%f, %f) {axis = 2}\n  %e = Unsqueeze(%e0, %one)\n  %c = Cos(%e)\n  %s = Sin(%e)\n"
      "  %l = Slice(%t, %zero, %four, %last)\n  %r = Slice(%t, %four, %eight, %last)\n  %g = Neg(%r)\n"
      "  %h = Concat(%g, %l) {axis = 3}\n  %p = Mul(%t, %c)\n  %q = Mul(%h, %s)\n  %z = Add(%p, %q)\n"
      "  %y = Concat(%z, %w) {axis = -1}\n  return %y\n";
  const std::vector<Value> inputs = {DrawNormal(Shape{2, 3, 5, 11}, 1), DrawNormal(Shape{2, 5, 4}, 2)};
  for (const char* parts : {
           "  %t = Slice(%x, %zero, %eight, %last)\n  %w = Slice(%x, %eight, %end, %last)\n",
           "  %t, %w = Split(%x, %sizes) {axis = 3}\n",
       }) {
    SCOPED_TRACE(parts);
    EXPECT_EQ(CountAfterAll(start + parts + turned, inputs, "RotaryEmbedding"), 1);
    EXPECT_EQ(CountAfterAll(start + parts + turned, inputs, "Concat"), 1) << "of the angles";
  }
  // Other elements behind.
  const std::string other = "  %t = Slice(%x, %zero, %eight, %last)\n  %w = Slice(%x, %nine, %end, %last)\n";
  EXPECT_EQ(CountAfterAll(start + other + turned, inputs, "Concat"), 2);
}

// Rows of all heads go in and out, as a layer of a transformer has them.
TEST(FuseRotary, LeavesNoTranspose) {
  std::string lines =
      "  input %q: f32[b,n,24]\n  input %k: f32[b,n,24]\n  input %v: f32[b,n,24]\n  input %f: f32[b,n,4]\n"
      "  const %apart = i64[4] {0, 0, 3, 8}\n  const %join = i64[3] {0, 0, -1}\n  const %zero = i64[1] {0}\n"
      "  const %four = i64[1] {4}\n  const %eight = i64[1] {8}\n  const %last = i64[1] {-1}\n  const %one = i64[1] "
      "{1}\n"
      "  %e0 = Concat(%f, %f) {axis = 2}\n  %e = Unsqueeze(%e0, %one)\n  %c = Cos(%e)\n  %s = Sin(%e)\n";
  for (const std::string& x : {std::string("q"), std::string("k"), std::string("v")}) {
    lines +=
        "  %" + x + "4 = Reshape(%" + x + ", %apart)\n  %" + x + "h = Transpose(%" + x + "4) {perm = [0, 2, 1, 3]}\n";
  }
  for (const std::string& x : {std::string("q"), std::string("k")}) {
    const std::string head = "(%" + x + "h, ";
    lines += "  %l" + x + " = Slice" + head + "%zero, %four, %last)\n  %r" + x + " = Slice" + head +
             "%four, %eight, %last)\n  %g" + x + " = Neg(%r" + x + ")\n  %h" + x + " = Concat(%g" + x + ", %l" + x +
             ") {axis = -1}\n  %p" + x + " = Mul" + head + "%c)\n  %t" + x + " = Mul(%h" + x + ", %s)\n  %" + x +
             "e = Add(%p" + x + ", %t" + x + ")\n";
  }
  lines +=
      "  %kt = Transpose(%ke) {perm = [0, 1, 3, 2]}\n  %p = MatMul(%qe, %kt)\n  %w = Softmax(%p)\n"
      "  %a = MatMul(%w, %vh)\n  %t = Transpose(%a) {perm = [0, 2, 1, 3]}\n  %y = Reshape(%t, %join)\n  return %y\n";
  const std::vector<Value> inputs = {DrawNormal(Shape{2, 5, 24}, 1), DrawNormal(Shape{2, 5, 24}, 2),
                                     DrawNormal(Shape{2, 5, 24}, 3), DrawNormal(Shape{2, 5, 4}, 4)};
  EXPECT_EQ(CountAfterAll(lines, inputs, "RotaryEmbedding"), 2);
  EXPECT_EQ(CountAfterAll(lines, inputs, "Attention"), 1);
  EXPECT_EQ(CountAfterAll(lines, inputs, "Transpose"), 0);
  EXPECT_EQ(CountAfterAll(lines, inputs, "Reshape"), 0);
}

}  // namespace
}  // namespace quern
