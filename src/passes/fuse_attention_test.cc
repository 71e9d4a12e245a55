// Attention in the forms that exporters of PyTorch and TensorFlow give, and forms that are something else.
#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

// Booleans of a shape, false where (row + column) % 3 == 2: no row of three columns or more is without a key.
Tensor DrawSeen(const Shape& shape) {
  Tensor t = Tensor::Allocate(DType::kBool, shape).value();
  const int64_t columns = shape.back();
  for (int64_t i = 0; i < t.num_elements(); ++i) t.data<bool>()[i] = (i / columns + i % columns) % 3 != 2;
  return t;
}

std::vector<Value> Draws(const std::vector<Shape>& shapes) {
  std::vector<Value> values;
  for (const Shape& s : shapes) values.push_back(DrawNormal(s, static_cast<unsigned>(values.size()) + 5));
  return values;
}

// Queries, keys (turned) and values [2, 3, n, 5], and numbers.
constexpr char kHeads[] =
    "  input %q: f32[2,3,n,5]\n  input %k: f32[2,3,5,m]\n  input %v: f32[2,3,m,5]\n"
    "  const %s = f32[1] {0.4472136}\n  const %low = f32[] {-3.4028235e38}\n  const %inf = f32[] {-inf}\n"
    "  const %few = f32[] {-50.0}\n  const %big = f32[] {-10000.0}\n  const %one = f32[] {1.0}\n"
    "  const %zero = f32[] {0.0}\n  const %ten = f32[] {10000.0}\n";

std::vector<Value> Heads() { return Draws({Shape{2, 3, 4, 5}, Shape{2, 3, 5, 6}, Shape{2, 3, 6, 5}}); }
std::vector<Value> HeadsAnd(Tensor mask) {
  std::vector<Value> values = Heads();
  values.emplace_back(std::move(mask));
  return values;
}

// What is between the product %p and the softmax of %a; %c is a mask of the given type.
std::string Masked(const std::string& mask, const std::string& lines) {
  return kHeads + mask + "  %p = MatMul(%q, %k)\n" + lines + "  %w = Softmax(%a)\n  %y = MatMul(%w, %v)\n  return %y\n";
}

TEST(FuseAttention, TakesMasksThatChoose) {
  for (const char* lines : {
           "  %a = Where(%c, %p, %inf)\n",
           "  %a = Where(%c, %p, %low)\n",
           "  %b = Mul(%p, %s)\n  %a = Where(%c, %b, %big)\n",
           "  %n = Not(%c)\n  %a = Where(%n, %inf, %p)\n",
           "  %n = Not(%c)\n  %a = Where(%n, %big, %p)\n",
           "  %n = Not(%c)\n  %b = Where(%n, %inf, %p)\n  %a = Where(%c, %b, %inf)\n",
           "  %b = Where(%c, %p, %inf)\n  %a = Mul(%b, %s)\n",
           "  %b = Where(%c, %zero, %inf)\n  %a = Add(%p, %b)\n",
           "  %f = Cast(%c) {to = 1}\n  %r = Sub(%one, %f)\n  %b = Mul(%r, %low)\n  %a = Add(%p, %b)\n",
           "  %f = Cast(%c) {to = 1}\n  %r = Sub(%one, %f)\n  %b = Mul(%r, %ten)\n  %a = Sub(%p, %b)\n",
           // GPT-2's: zeros first, then the numbers
           "  %f = Cast(%c) {to = 1}\n  %r = Sub(%one, %f)\n  %b = Mul(%r, %ten)\n  %z = Mul(%p, %f)\n"
           "  %a = Sub(%z, %b)\n",
           "  %f = Cast(%c) {to = 1}\n  %r = Sub(%one, %f)\n  %b = Mul(%big, %r)\n  %z = Mul(%f, %p)\n"
           "  %a = Add(%b, %z)\n",
       }) {
    for (const auto& [dims, of] : {std::pair("[n,m]", Shape{4, 6}), std::pair("[2,1,1,m]", Shape{2, 1, 1, 6}),
                                   std::pair("[1,3,n,m]", Shape{1, 3, 4, 6})}) {
      SCOPED_TRACE(std::string(dims) + lines);
      const std::string text = Masked("  input %c: bool" + std::string(dims) + "\n", lines);
      EXPECT_EQ(CountAfterAll(text, HeadsAnd(DrawSeen(of)), "Attention"), 1);
      EXPECT_EQ(CountAfterAll(text, HeadsAnd(DrawSeen(of)), "Softmax"), 0);
    }
  }
}

TEST(FuseAttention, ChoiceBecomesAMaskOfBooleans) {
  const std::string start =
      "  input %q: f32[2,3,n,5]\n"
      "  input %k: f32[2,3,m,5]\n"
      "  input %v: f32[2,3,m,5]\n"
      "  input %c: bool[2,1,n,m]\n";
  EXPECT_EQ(After({"fuse_attention"}, start + "  const %inf = f32[] {-inf}\n"
                                              "  %t: f32[2,3,5,m] = Transpose(%k) {perm = [0, 1, 3, 2]}\n"
                                              "  %p: f32[2,3,n,m] = MatMul(%q, %t)\n"
                                              "  %a: f32[2,3,n,m] = Where(%c, %inf, %p)\n"
                                              "  %w: f32[2,3,n,m] = Softmax(%a) {axis = -1}\n"
                                              "  %y: f32[2,3,n,5] = MatMul(%w, %v)\n"
                                              "  return %y\n"),
            start +
                "  %y_part: bool[2,1,n,m] = Not(%c)\n"
                "  %y: f32[2,3,n,5] = Attention#23(%q, %k, %v, %y_part) {scale = 1.0}\n"
                "  return %y\n");
}

TEST(FuseAttention, LeavesWhatHidesNothing) {
  for (const char* lines : {
           // numbers that scores may have; a mask that is greater than the scores; zeros where nothing is added;
           // subtracted from a mask
           "  %a = Where(%c, %p, %few)\n",
           "  %n = Not(%c)\n  %a = Where(%n, %few, %p)\n",
           "  %f = Cast(%c) {to = 1}\n  %r = Sub(%one, %f)\n  %b = Mul(%r, %few)\n  %z = Mul(%p, %f)\n"
           "  %a = Add(%z, %b)\n",
           "  %f = Cast(%c) {to = 1}\n  %a = Mul(%p, %f)\n",
           "  %f = Cast(%c) {to = 1}\n  %a = Sub(%f, %p)\n",
           "  %a = Where(%c, %p, %k0)\n",
       }) {
    SCOPED_TRACE(lines);
    const std::string text = Masked("  input %c: bool[n,m]\n  const %k0 = f32[2,3,1,6] splat -20000.0\n", lines);
    EXPECT_EQ(CountAfterAll(text, HeadsAnd(DrawSeen(Shape{4, 6})), "Attention"), 0);
  }
  // A mask of more samples than the scores.
  const std::string wide =
      "  input %q: f32[1,3,4,5]\n  input %k: f32[1,3,5,6]\n  input %v: f32[1,3,6,5]\n  input %c: bool[2,1,4,6]\n"
      "  const %inf = f32[] {-inf}\n  %p = MatMul(%q, %k)\n  %a = Where(%c, %p, %inf)\n  %w = Softmax(%a)\n"
      "  %y = MatMul(%w, %v)\n  return %y\n";
  std::vector<Value> inputs = Draws({Shape{1, 3, 4, 5}, Shape{1, 3, 5, 6}, Shape{1, 3, 6, 5}});
  inputs.emplace_back(DrawSeen(Shape{2, 1, 4, 6}));
  EXPECT_EQ(CountAfterAll(wide, inputs, "Attention"), 0);
}

// Rows of a causal mask that a run slices out of a constant one.
TEST(FuseAttention, TakesACausalMaskOfUnknownRows) {
  const std::string start =
      "  input %q: f32[2,3,n,5]\n  input %k: f32[2,3,m,5]\n  input %v: f32[2,3,m,5]\n"
      "  const %low = f32[] {-10000.0}\n  const %one = f32[] {1.0}\n  const %all = i64[2] {2, 3}\n"
      "  const %mask = f32[1,1,4,4] {1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0}\n"
      "  const %zero = i64[1] {0}\n  %nn = Shape(%q) {start = 2, end = 3}\n  %mm = Shape(%k) {start = 2, end = 3}\n"
      "  %from = Sub(%mm, %nn)\n  %starts = Concat(%from, %zero) {axis = 0}\n  %ends = Concat(%mm, %mm) {axis = 0}\n"
      "  %b = Slice(%mask, %starts, %ends, %all)\n  %t = Transpose(%k) {perm = [0, 1, 3, 2]}\n"
      "  %p = MatMul(%q, %t)\n";
  const std::string end = "  %w = Softmax(%a)\n  %y = MatMul(%w, %v)\n  return %y\n";
  const std::vector<Value> inputs = Draws({Shape{2, 3, 2, 5}, Shape{2, 3, 4, 5}, Shape{2, 3, 4, 5}});
  for (const char* lines : {
           "  %c = Cast(%b) {to = 9}\n  %a = Where(%c, %p, %low)\n",
           "  %r = Sub(%one, %b)\n  %h = Mul(%r, %low)\n  %z = Mul(%p, %b)\n  %a = Add(%z, %h)\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountAfterAll(start + lines + end, inputs, "Attention"), 1);
  }
  const std::string constant =
      "  input %q: f32[2,3,2,5]\n  input %k: f32[2,3,5,2]\n  input %v: f32[2,3,2,5]\n"
      "  const %b = f32[2,2] {1.0, 0.0, 1.0, 1.0}\n  const %h = f32[2,2] {0.0, -1e4, 0.0, 0.0}\n"
      "  %p = MatMul(%q, %k)\n  %z = Mul(%p, %b)\n  %a = Add(%z, %h)\n" +
      end;
  EXPECT_EQ(CountAfterAll(constant, Draws({Shape{2, 3, 2, 5}, Shape{2, 3, 5, 2}, Shape{2, 3, 2, 5}}), "Attention"), 1);
}

// What reads the shape of scores is no other reader.
TEST(MoveShapes, ReadsThemOffTheOperands) {
  EXPECT_EQ(After({"move_shapes", "eliminate_dead_code"},
                  "  input %q: f32[b,n,5]\n"
                  "  input %k: f32[b,5,m]\n"
                  "  const %r = f32[] {2.0}\n"
                  "  %p: f32[b,n,m] = MatMul(%q, %k)\n"
                  "  %d: f32[b,n,m] = Div(%p, %r)\n"
                  "  %s: i64[3] data [b,n,m] = Shape(%d)\n"
                  "  %y: f32[b,n,m] = Exp(%d)\n"
                  "  return %y, %s\n"),
            "  input %q: f32[b,n,5]\n"
            "  input %k: f32[b,5,m]\n"
            "  const %r = f32[] {2.0}\n"
            "  %p: f32[b,n,m] = MatMul(%q, %k)\n"
            "  %d: f32[b,n,m] = Div(%p, %r)\n"
            "  %s_part: i64[2] = Shape(%q) {end = -1}\n"
            "  %s_part_0: i64[1] = Shape(%k) {start = -1}\n"
            "  %s: i64[3] data [b,n,m] = Concat(%s_part, %s_part_0) {axis = 0}\n"
            "  %y: f32[b,n,m] = Exp(%d)\n"
            "  return %y, %s\n");
  // A result that broadcasts; one that nothing else reads; a part of the shape.
  for (const char* lines : {"  %p: f32[b,n,m] = MatMul(%q, %one)\n  %s: i64[3] = Shape(%p)\n  return %p, %s\n",
                            "  %p: f32[b,n,m] = MatMul(%q, %k)\n  %s: i64[3] = Shape(%p)\n  return %s\n",
                            "  %p: f32[b,n,m] = MatMul(%q, %k)\n  %s: i64[1] = Shape(%p) {start = 2}\n"
                            "  return %p, %s\n"}) {
    SCOPED_TRACE(lines);
    const std::string text =
        std::string("  input %q: f32[n,5]\n  input %k: f32[b,5,m]\n  input %one: f32[b,5,m]\n") + lines;
    EXPECT_EQ(After({"move_shapes"}, text), text);
  }
}

// The rows that see no key are zeros, as those of the operator.
TEST(FuseAttention, TakesAGuardAgainstRowsWithoutAKey) {
  Tensor none = DrawSeen(Shape{4, 6});
  for (int64_t i = 0; i < 6; ++i) none.data<bool>()[6 + i] = false;
  const std::string guarded = std::string(kHeads) +
                              "  input %c: bool[n,m]\n  %p = MatMul(%q, %k)\n  %a = Where(%c, %p, %inf)\n"
                              "  %w = Softmax(%a)\n  %i = IsNaN(%w)\n  %g = Where(%i, %zero, %w)\n"
                              "  %y = MatMul(%g, %v)\n  return %y\n";
  EXPECT_EQ(CountAfterAll(guarded, HeadsAnd(none), "Attention"), 1);
  EXPECT_EQ(CountAfterAll(guarded, HeadsAnd(none), "IsNaN"), 0);
  std::string other = guarded;
  other.replace(other.find("%zero, %w)"), 10, "%one, %w)");
  EXPECT_EQ(CountAfterAll(other, HeadsAnd(DrawSeen(Shape{4, 6})), "Attention"), 0);
}

// Up to opset 12 the softmax is over all dimensions from its axis on.
TEST(FuseAttention, TakesOldSoftmaxesThatAreTheSame) {
  const auto lines = [](const char* softmax) {
    return std::string("  input %q: f32[2,1,1,5]\n  input %k: f32[2,1,5,6]\n  input %v: f32[2,1,6,5]\n") +
           "  %p = MatMul(%q, %k)\n  %w = " + softmax + "\n  %y = MatMul(%w, %v)\n  return %y\n";
  };
  const std::vector<Value> one = Draws({Shape{2, 1, 1, 5}, Shape{2, 1, 5, 6}, Shape{2, 1, 6, 5}});
  for (const char* softmax : {"Softmax#11(%p)", "Softmax#11(%p) {axis = 2}", "Softmax#11(%p) {axis = -1}"}) {
    SCOPED_TRACE(softmax);
    EXPECT_EQ(CountAfterAll(lines(softmax), one, "Attention"), 1);
  }
  EXPECT_EQ(CountAfterAll(lines("Softmax#11(%p) {axis = 0}"), one, "Attention"), 0);
  const std::string rows = std::string(kHeads) + "  const %f = i64[2] {-1, 6}\n  const %b = i64[4] {2, 3, 4, 6}\n" +
                           "  %p = MatMul(%q, %k)\n";
  const std::string end = "  %y = MatMul(%w, %v)\n  return %y\n";
  EXPECT_EQ(CountAfterAll(rows + "  %w = Softmax#11(%p)\n" + end, Heads(), "Attention"), 0);
  std::string known = rows;
  for (const auto& [from, to] : {std::pair("3,n,5", "3,4,5"), {"3,5,m", "3,5,6"}, {"3,m,5", "3,6,5"}}) {
    known.replace(known.find(from), 5, to);
  }
  EXPECT_EQ(CountAfterAll(known + "  %r = Reshape(%p, %f)\n  %s0 = Softmax#11(%r)\n  %w = Reshape(%s0, %b)\n" + end,
                          Heads(), "Attention"),
            1);
}

TEST(FuseAttention, PassesThroughIdentitiesDropoutAndCasts) {
  EXPECT_EQ(CountAfterAll(std::string(kHeads) +
                              "  %p = MatMul(%q, %k)\n  %i = Identity(%p)\n  %d = Div(%i, %ten)\n  %w = Softmax(%d)\n"
                              "  %o, _ = Dropout(%w)\n  %y = MatMul(%o, %v)\n  return %y\n",
                          Heads(), "Attention"),
            1);
  const std::string half =
      "  input %q: f32[2,3,n,5]\n  input %k: f32[2,3,5,m]\n  input %v: f32[2,3,m,5]\n  input %m: f32[1,1,n,m]\n"
      "  %q1 = Cast(%q) {to = 10}\n  %k1 = Cast(%k) {to = 10}\n  %v1 = Cast(%v) {to = 10}\n  %p = MatMul(%q1, %k1)\n";
  std::vector<Value> inputs = HeadsAnd(DrawNormal(Shape{1, 1, 4, 6}, 3));
  for (Value& v : inputs) {  // so small that f16 rounds little
    for (float& x : v.tensor().values<float>()) x = 0.001f * std::round(10 * x);
  }
  for (const char* lines : {
           "  %c = Cast(%p) {to = 1}\n  %a = Add(%c, %m)\n",
           "  %m1 = Cast(%m) {to = 10}\n  %b = Add(%p, %m1)\n  %a = Cast(%b) {to = 1}\n",
       }) {
    SCOPED_TRACE(lines);
    const std::string text = half + lines +
                             "  %w = Softmax(%a)\n  %w1 = Cast(%w) {to = 10}\n  %h = MatMul(%w1, %v1)\n"
                             "  %y = Cast(%h) {to = 1}\n  return %y\n";
    EXPECT_EQ(CountAfterAll(text, inputs, "Attention"), 1);
  }
}

// Keys and values of two heads for the queries of six.
TEST(FuseAttention, TakesGroupsOfHeadsAsTheyAre) {
  const std::string start =
      "  input %q: f32[b,6,n,5]\n  input %k: f32[b,2,m,5]\n  input %v: f32[b,2,m,5]\n  const %two = i64[1] {2}\n"
      "  %bb = Shape(%k) {end = 1}\n  %mm = Shape(%k) {start = 2, end = 3}\n  const %g = i64[2] {2, 3}\n"
      "  const %five = i64[1] {5}\n  const %six = i64[1] {6}\n  const %times = i64[5] {1, 1, 3, 1, 1}\n"
      "  %wide = Concat(%bb, %g, %mm, %five) {axis = 0}\n  %all = Concat(%bb, %six, %mm, %five) {axis = 0}\n"
      "  %k5 = Unsqueeze(%k, %two)\n  %v5 = Unsqueeze(%v, %two)\n";
  const std::string end =
      "  %kr = Reshape(%ke, %all)\n  %vr = Reshape(%ve, %all)\n  %t = Transpose(%kr) {perm = [0, 1, 3, 2]}\n"
      "  %p = MatMul(%q, %t)\n  %w = Softmax(%p)\n  %y = MatMul(%w, %vr)\n  return %y\n";
  const std::vector<Value> inputs = Draws({Shape{2, 6, 4, 5}, Shape{2, 2, 3, 5}, Shape{2, 2, 3, 5}});
  for (const char* repeat : {"  %ke = Expand(%k5, %wide)\n  %ve = Expand(%v5, %wide)\n",
                             "  %ke = Tile(%k5, %times)\n  %ve = Tile(%v5, %times)\n"}) {
    SCOPED_TRACE(repeat);
    EXPECT_EQ(CountAfterAll(start + repeat + end, inputs, "Attention"), 1);
    for (const char* gone : {"Expand", "Tile", "Reshape", "Transpose"}) {
      EXPECT_EQ(CountAfterAll(start + repeat + end, inputs, gone), 0) << gone;
    }
  }
  // Values that are repeated in another order stay so.
  const std::string other =
      start +
      "  %ke = Expand(%k5, %wide)\n  const %one = i64[1] {1}\n  const %o = i64[5] {1, 3, 1, 1, 1}\n"
      "  %v4 = Unsqueeze(%v, %one)\n  %ve = Tile(%v4, %o)\n" +
      end;
  EXPECT_EQ(CountAfterAll(other, inputs, "Attention"), 1);
  EXPECT_EQ(CountAfterAll(other, inputs, "Tile"), 1);
}

TEST(FuseAttention, TakesOneHeadForAll) {
  const std::string start = "  input %q: f32[b,6,n,5]\n  input %k: f32[b,1,5,m]\n  input %v: f32[b,1,m,5]\n";
  const std::string end = "  %p = MatMul(%q, %k)\n  %w = Softmax(%p)\n  %y = MatMul(%w, %v)\n  return %y\n";
  const std::vector<Value> inputs = Draws({Shape{2, 6, 4, 5}, Shape{2, 1, 5, 3}, Shape{2, 1, 3, 5}});
  EXPECT_EQ(CountAfterAll(start + end, inputs, "Attention"), 1);
  EXPECT_EQ(CountAfterAll("  input %q: f32[2,6,n,5]\n  input %k: f32[1,6,5,m]\n  input %v: f32[1,6,m,5]\n" + end,
                          Draws({Shape{2, 6, 4, 5}, Shape{1, 6, 5, 3}, Shape{1, 6, 3, 5}}), "Attention"),
            0);
}

TEST(FuseAttention, TakesCachesThatGrow) {
  const std::vector<Value> inputs =
      Draws({Shape{2, 3, 1, 5}, Shape{2, 3, 1, 5}, Shape{2, 3, 1, 5}, Shape{2, 3, 4, 5}, Shape{2, 3, 4, 5}});
  const std::string start =
      "  input %q: f32[b,3,n,5]\n  input %k: f32[b,3,n,5]\n  input %v: f32[b,3,n,5]\n  input %pk: f32[b,3,past,5]\n"
      "  input %pv: f32[b,3,past,5]\n";
  const std::string end = "  %w = Softmax(%p)\n  %y = MatMul(%w, %vs)\n  return %y, %ks, %vs\n";
  const std::string rows = start +
                           "  %ks = Concat(%pk, %k) {axis = 2}\n  %vs = Concat(%pv, %v) {axis = 2}\n"
                           "  %t = Transpose(%ks) {perm = [0, 1, 3, 2]}\n  %p = MatMul(%q, %t)\n" +
                           end;
  EXPECT_EQ(CountAfterAll(rows, inputs, "Attention"), 1);
  EXPECT_EQ(CountAfterAll(rows, inputs, "Concat"), 2);
  EXPECT_EQ(CountAfterAll(rows, inputs, "Transpose"), 0);
  const std::string columns =
      start +
      "  %pt = Transpose(%pk) {perm = [0, 1, 3, 2]}\n  %t = Transpose(%k) {perm = [0, 1, 3, 2]}\n"
      "  %ks = Concat(%pt, %t) {axis = -1}\n  %vs = Concat(%pv, %v) {axis = -2}\n"
      "  %p = MatMul(%q, %ks)\n" +
      end;
  EXPECT_EQ(CountAfterAll(columns, inputs, "Attention"), 1);
}

TEST(FuseAttention, TakesScalesOfAllForms) {
  for (const char* lines : {
           "  const %five = f32[] {5.0}\n  %r = Sqrt(%five)\n  %p = MatMul(%q, %k)\n  %a = Div(%p, %r)\n",
           "  const %five = f32[1] {5.0}\n  %r = Sqrt(%five)\n  %i = Div(%one, %r)\n  %h = Sqrt(%i)\n"
           "  %q1 = Mul(%q, %h)\n  %k1 = Mul(%k, %h)\n  %a = MatMul(%q1, %k1)\n",
           "  %z = Shape(%v) {start = 3}\n  %f = Cast(%z) {to = 1}\n  %r = Sqrt(%f)\n  %q1 = Div(%q, %r)\n"
           "  %a = MatMul(%q1, %k)\n",
       }) {
    SCOPED_TRACE(lines);
    const std::string text = std::string(kHeads) + lines + "  %w = Softmax(%a)\n  %y = MatMul(%w, %v)\n  return %y\n";
    EXPECT_EQ(CountAfterAll(text, Heads(), "Attention"), 1);
    for (const char* gone : {"Mul", "Div", "Sqrt"}) EXPECT_EQ(CountAfterAll(text, Heads(), gone), 0) << gone;
  }
}

TEST(ConvertEinsum, BecomesAProduct) {
  EXPECT_EQ(After({"convert_einsum"},
                  "  input %a: f32[b,n,3,5]\n"
                  "  input %c: f32[b,m,3,5]\n"
                  "  %y: f32[b,3,n,m] = Einsum(%a, %c) {equation = \"bqhd,bkhd->bhqk\"}\n"
                  "  return %y\n"),
            "  input %a: f32[b,n,3,5]\n"
            "  input %c: f32[b,m,3,5]\n"
            "  %y_part: f32[b,3,n,5] = Transpose(%a) {perm = [0, 2, 1, 3]}\n"
            "  %y_part_0: f32[b,3,5,m] = Transpose(%c) {perm = [0, 2, 3, 1]}\n"
            "  %y: f32[b,3,n,m] = MatMul(%y_part, %y_part_0)\n"
            "  return %y\n");
  struct Case {
    const char* equation;
    Shape a, c;
    int products;
  };
  const Case cases[] = {
      {"bhid,bhjd->bhij", {2, 3, 4, 5}, {2, 3, 6, 5}, 1},
      {"bhij,bhjd->bhid", {2, 3, 4, 6}, {2, 3, 6, 5}, 1},
      {"aecd,abcd->acbe", {2, 4, 3, 5}, {2, 6, 3, 5}, 1},
      {"acbe,aecd->abcd", {2, 3, 4, 6}, {2, 6, 3, 5}, 1},
      {"...id,...jd->...ij", {2, 3, 4, 5}, {2, 3, 6, 5}, 1},
      {"bhid,bhjd->hbji", {2, 3, 4, 5}, {2, 3, 6, 5}, 1},
      // no batch; a sum over one operand's own letter; two letters of its own; a diagonal; no letter that is summed
      {"id,jd->ij", {4, 5}, {6, 5}, 0},
      {"bid,bjd->bi", {2, 4, 5}, {2, 6, 5}, 0},
      {"bcid,bjd->bcij", {2, 3, 4, 5}, {2, 6, 5}, 0},
      {"bii,bij->bij", {2, 4, 4}, {2, 4, 6}, 0},
      {"bi,bj->bij", {2, 4}, {2, 6}, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.equation);
    std::string dims[2];
    for (int i = 0; i < 2; ++i) {
      for (const int64_t d : i == 0 ? c.a : c.c) dims[i] += (dims[i].empty() ? "" : ",") + std::to_string(d);
    }
    const std::string text = "  input %a: f32[" + dims[0] + "]\n  input %c: f32[" + dims[1] +
                             "]\n  %y = Einsum(%a, %c) {equation = \"" + c.equation + "\"}\n  return %y\n";
    EXPECT_EQ(CountAfterAll(text, Draws({c.a, c.c}), "MatMul"), c.products);
    EXPECT_EQ(CountAfterAll(text, Draws({c.a, c.c}), "Einsum"), 1 - c.products);
  }
}

// Rows of heads beside each other, as TensorFlow's layers have them.
TEST(ConvertEinsum, AttentionOfEinsumsIsFused) {
  const std::vector<Value> inputs = Draws({Shape{2, 4, 3, 5}, Shape{2, 6, 3, 5}, Shape{2, 6, 3, 5}});
  const std::string start = "  input %q: f32[b,n,3,5]\n  input %k: f32[b,m,3,5]\n  input %v: f32[b,m,3,5]\n";
  for (const char* lines : {
           "  %p = Einsum(%q, %k) {equation = \"bqhd,bkhd->bhqk\"}\n  %w = Softmax(%p)\n"
           "  %y = Einsum(%w, %v) {equation = \"bhqk,bkhd->bqhd\"}\n",
           "  %p = Einsum(%k, %q) {equation = \"aecd,abcd->acbe\"}\n  %w = Softmax(%p)\n"
           "  %y = Einsum(%w, %v) {equation = \"acbe,aecd->abcd\"}\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountAfterAll(start + lines + "  return %y\n", inputs, "Attention"), 1);
    EXPECT_EQ(CountAfterAll(start + lines + "  return %y\n", inputs, "Transpose"), 0);
    EXPECT_EQ(CountAfterAll(start + lines + "  return %y\n", inputs, "Attention", {"convert_einsum"}), 0);
  }
}

// Windows of Swin: biases of positions for all windows, then a mask of each window of an image. What a run adds to the
// scores is one mask.
TEST(FuseAttention, TakesShiftedWindows) {
  const auto lines = [](int64_t images) {
    const std::string windows = std::to_string(4 * images), count = std::to_string(images);
    return "  input %q: f32[" + windows + ",3,6,5]\n  input %k: f32[" + windows + ",3,5,6]\n  input %v: f32[" +
           windows + ",3,6,5]\n  input %bias: f32[1,3,6,6]\n  input %mask: f32[1,4,1,6,6]\n  const %apart = i64[5] {" +
           count +
           ", 4, 3, 6, 6}\n  const %back = i64[4] {-1, 3, 6, 6}\n  %p = MatMul(%q, %k)\n  %a = Add(%p, %bias)\n"
           "  %r = Reshape(%a, %apart)\n  %m = Add(%r, %mask)\n  %s = Reshape(%m, %back)\n  %w = Softmax(%s)\n"
           "  %y = MatMul(%w, %v)\n  return %y\n";
  };
  for (const int64_t images : {1, 2}) {
    const std::vector<Value> inputs = Draws({Shape{4 * images, 3, 6, 5}, Shape{4 * images, 3, 5, 6},
                                             Shape{4 * images, 3, 6, 5}, Shape{1, 3, 6, 6}, Shape{1, 4, 1, 6, 6}});
    EXPECT_EQ(CountAfterAll(lines(images), inputs, "Attention"), 1);
    EXPECT_EQ(CountAfterAll(lines(images), inputs, "Softmax"), 0);
    EXPECT_EQ(CountAfterAll(lines(images), inputs, "Expand"), images - 1);
  }
}

// Batch and heads as one dimension, as old exporters of PyTorch have them, with a mask of each sample between.
TEST(FuseAttention, TakesBatchesOfHeads) {
  const std::string text =
      "  input %q: f32[6,4,5]\n  input %k: f32[6,5,7]\n  input %v: f32[6,7,5]\n  input %c: bool[2,1,1,7]\n"
      "  const %inf = f32[] {-inf}\n  const %apart = i64[4] {2, 3, 4, 7}\n  const %back = i64[3] {6, 4, 7}\n"
      "  %p = MatMul(%q, %k)\n  %r = Reshape(%p, %apart)\n  %m = Where(%c, %r, %inf)\n  %s = Reshape(%m, %back)\n"
      "  %w = Softmax(%s)\n  %y = MatMul(%w, %v)\n  return %y\n";
  std::vector<Value> inputs = Draws({Shape{6, 4, 5}, Shape{6, 5, 7}, Shape{6, 7, 5}});
  inputs.emplace_back(DrawSeen(Shape{2, 1, 1, 7}));
  EXPECT_EQ(CountAfterAll(text, inputs, "Attention"), 1);
  EXPECT_EQ(CountAfterAll(text, inputs, "Attention", {"split_batches"}), 1);
  EXPECT_EQ(CountAfterAll(text, inputs, "Softmax"), 0);
}

// PyTorch's scaled_dot_product_attention turns keys with batch and heads joined.
TEST(FuseAttention, TakesKeysTurnedAsABatchOfHeads) {
  const std::string start =
      "  input %q: f32[2,3,4,5]\n  const %flat = i64[3] {-1, 6, 5}\n  const %apart = i64[4] {2, 3, 5, 6}\n"
      "  input %v: f32[2,3,6,5]\n";
  const std::string end =
      "  %k1 = Reshape(%kt, %apart)\n  %p = MatMul(%q, %k1)\n  %w = Softmax(%p)\n  %y = MatMul(%w, %v)\n  return %y\n";
  const std::vector<Value> inputs = Draws({Shape{2, 3, 4, 5}, Shape{2, 3, 6, 5}, Shape{2, 3, 6, 5}});
  const std::string heads = start +
                            "  input %k: f32[2,3,6,5]\n  %kf = Reshape(%k, %flat)\n"
                            "  %kt = Transpose(%kf) {perm = [0, 2, 1]}\n" +
                            end;
  EXPECT_EQ(CountAfterAll(heads, inputs, "Attention"), 1);
  EXPECT_EQ(CountAfterAll(heads, inputs, "Transpose"), 0);
  EXPECT_EQ(CountAfterAll(heads, inputs, "Reshape"), 0);
  const std::string rows = start + "  input %k: f32[6,6,5]\n  %kt = Transpose(%k) {perm = [1, 2, 0]}\n" + end;
  std::vector<Value> turned = inputs;
  turned[2] = DrawNormal(Shape{6, 6, 5}, 4);
  EXPECT_EQ(CountAfterAll(rows, turned, "Attention"), 1);
}

}  // namespace
}  // namespace quern
