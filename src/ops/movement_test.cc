// Operators that move elements: expected values are those of the specification's text, or written out by hand.
#include <gmock/gmock.h>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using I = std::vector<int64_t>;
using F = std::vector<float>;

Shape ShapeOfOutput(OpTester& t, int i = 0) {
  const Result<std::vector<Value>> r = t.Run();
  EXPECT_TRUE(r.ok()) << r.status().message();
  return r.ok() ? (*r)[i].tensor().shape() : Shape{-1};
}

Value Strings(const Shape& shape, std::vector<std::string> values) { return StringTensor{shape, std::move(values)}; }

TEST(Shape, SelectsARange) {
  const Tensor x = Tensor::FromValues<float>(Shape{2, 3, 4}, F(24, 0.f));
  EXPECT_EQ(OpTester("Shape").Input(x).Values<int64_t>(), (I{2, 3, 4}));
  EXPECT_EQ(OpTester("Shape").Input(x).Attr("start", int64_t{-1}).Values<int64_t>(), (I{4}));
  EXPECT_EQ(OpTester("Shape").Input(x).Attr("start", int64_t{1}).Attr("end", int64_t{2}).Values<int64_t>(), (I{3}));
  EXPECT_EQ(OpTester("Shape").Input(x).Attr("end", int64_t{-10}).Values<int64_t>(), (I{}));
  EXPECT_EQ(OpTester("Size").Input(x).Values<int64_t>(), (I{24}));
}

TEST(Reshape, CopiesAndInfersExtents) {
  const Tensor x = Tensor::FromValues<float>(Shape{2, 3, 4}, F(24, 0.f));
  struct Case {
    I target;
    Shape expected;
  };
  for (const Case& c : {Case{{4, 2, 3}, {4, 2, 3}}, Case{{2, -1}, {2, 12}}, Case{{0, 0, 2, -1}, {2, 3, 2, 2}},
                        Case{{-1}, {24}}, Case{{-1, 0}, {8, 3}}}) {
    OpTester t("Reshape");
    t.Input(x).Input(Shape{static_cast<int64_t>(c.target.size())}, c.target);
    EXPECT_EQ(ShapeOfOutput(t), c.expected) << c.expected.ToString();
  }
  EXPECT_THAT(OpTester("Reshape").Input(x).Input(Shape{1}, I{5}).Error(), HasSubstr("cannot become [5]"));
  EXPECT_THAT(OpTester("Reshape").Input(x).Input(Shape{2}, I{-1, -1}).Error(), HasSubstr("more than one -1"));
  EXPECT_THAT(OpTester("Reshape").Input(x).Input(Shape{2}, I{-1, 7}).Error(), HasSubstr("node 'n' (Reshape)"));
  const Tensor empty = Tensor::FromValues<float>(Shape{0, 3, 4}, F{});
  OpTester zero("Reshape");
  zero.Input(empty).Input(Shape{3}, I{3, 4, 0}).Attr("allowzero", int64_t{1});
  EXPECT_EQ(ShapeOfOutput(zero), (Shape{3, 4, 0}));
}

TEST(Views, DropAndInsertDimensions) {
  const Tensor x = Tensor::FromValues<float>(Shape{1, 3, 1, 2}, F{1, 2, 3, 4, 5, 6});
  OpTester all("Squeeze"), some("Squeeze"), old("Squeeze", 11), insert("Unsqueeze"), flat("Flatten"), flat0("Flatten");
  EXPECT_EQ(ShapeOfOutput(all.Input(x)), (Shape{3, 2}));
  EXPECT_EQ(ShapeOfOutput(some.Input(x).Input(Shape{1}, I{-2})), (Shape{1, 3, 2}));
  EXPECT_EQ(ShapeOfOutput(old.Input(x).Attr("axes", I{0})), (Shape{3, 1, 2}));
  EXPECT_EQ(ShapeOfOutput(insert.Input(x).Input(Shape{2}, I{5, 0})), (Shape{1, 1, 3, 1, 2, 1}));
  EXPECT_EQ(ShapeOfOutput(flat.Input(x).Attr("axis", int64_t{-1})), (Shape{3, 2}));
  EXPECT_EQ(ShapeOfOutput(flat0.Input(x).Attr("axis", int64_t{0})), (Shape{1, 6}));
  EXPECT_THAT(OpTester("Squeeze").Input(x).Input(Shape{1}, I{1}).Error(), HasSubstr("cannot be squeezed"));
  EXPECT_THAT(OpTester("Unsqueeze").Input(x).Input(Shape{2}, I{0, 0}).Error(), HasSubstr("given twice"));
}

TEST(Transpose, PermutesAlsoPackedTypes) {
  const F x = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(OpTester("Transpose").Input(Shape{2, 3}, x).Values<float>(), (F{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(OpTester("Transpose").Input(Shape{1, 2, 3}, x).Attr("perm", I{2, 0, 1}).Values<float>(),
            (F{0, 3, 1, 4, 2, 5}));
  EXPECT_THAT(OpTester("Transpose").Input(Shape{2, 3}, x).Attr("perm", I{0, 0}).Error(), HasSubstr("permutation"));
  Tensor nibbles = Tensor::Allocate(DType::kU4, Shape{3, 2}).value();  // rows 1 2, 3 4, 5 6
  const uint8_t bytes[] = {0x21, 0x43, 0x65};
  std::memcpy(nibbles.raw_data(), bytes, 3);
  const auto out = OpTester("Transpose").Input(nibbles).Run();  // 1 3 5, 2 4 6
  ASSERT_TRUE(out.ok()) << out.status().message();
  const auto* got = static_cast<const uint8_t*>((*out)[0].tensor().raw_data());
  EXPECT_THAT(std::vector<int>(got, got + 3), ElementsAre(0x31, 0x25, 0x64));
}

TEST(Gather, TakesSlicesAndChecksIndices) {
  const F x = {1.0f, 1.2f, 2.3f, 3.4f, 4.5f, 5.7f};
  EXPECT_EQ(OpTester("Gather").Input(Shape{3, 2}, x).Input(Shape{2, 2}, I{0, 1, 1, 2}).Values<float>(),
            (F{1.0f, 1.2f, 2.3f, 3.4f, 2.3f, 3.4f, 4.5f, 5.7f}));
  EXPECT_EQ(
      OpTester("Gather").Input(Shape{2, 3}, x).Input(Shape{1, 2}, I{0, -1}).Attr("axis", int64_t{1}).Values<float>(),
      (F{1.0f, 2.3f, 3.4f, 5.7f}));
  EXPECT_THAT(OpTester("Gather").Input(Shape{3, 2}, x).Input(Shape{1}, I{3}).Error(),
              HasSubstr("node 'n' (Gather): index 3 is outside [-3, 2]"));
  const auto words = OpTester("Gather").Input(Strings({3}, {"a", "b", "c"})).Input(Shape{2}, I{2, 0}).Run();
  ASSERT_TRUE(words.ok()) << words.status().message();
  EXPECT_THAT((*words)[0].strings().values, ElementsAre("c", "a"));
}

TEST(GatherElements, FollowsTheIndices) {
  EXPECT_EQ(OpTester("GatherElements")
                .Input(Shape{2, 2}, F{1, 2, 3, 4})
                .Input(Shape{2, 2}, I{0, 0, 1, 0})
                .Attr("axis", int64_t{1})
                .Values<float>(),
            (F{1, 1, 4, 3}));
  EXPECT_EQ(OpTester("GatherElements")
                .Input(Shape{3, 3}, F{1, 2, 3, 4, 5, 6, 7, 8, 9})
                .Input(Shape{2, 3}, I{1, 2, 0, 2, 0, 0})
                .Values<float>(),
            (F{4, 8, 3, 7, 2, 3}));
}

TEST(GatherND, AddressesSlices) {
  const std::vector<int32_t> x = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(OpTester("GatherND")
                .Input(Shape{2, 2}, std::vector<int32_t>{0, 1, 2, 3})
                .Input(Shape{2, 2}, I{0, 0, 1, 1})
                .Values<int32_t>(),
            (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(OpTester("GatherND")
                .Input(Shape{2, 2, 2}, x)
                .Input(Shape{2, 1}, I{1, 0})
                .Attr("batch_dims", int64_t{1})
                .Values<int32_t>(),
            (std::vector<int32_t>{2, 3, 4, 5}));
  EXPECT_THAT(OpTester("GatherND").Input(Shape{2, 2, 2}, x).Input(Shape{1, 3}, I{0, 2, 0}).Error(),
              HasSubstr("index 2 is outside"));
}

TEST(Scatter, PutsAndReduces) {
  const F data = {1, 2, 3, 4, 5};
  EXPECT_EQ(OpTester("ScatterElements")
                .Input(Shape{1, 5}, data)
                .Input(Shape{1, 2}, I{1, 3})
                .Input(Shape{1, 2}, F{1.1f, 2.1f})
                .Attr("axis", int64_t{1})
                .Values<float>(),
            (F{1, 1.1f, 3, 2.1f, 5}));
  EXPECT_EQ(OpTester("ScatterElements")
                .Input(Shape{1, 5}, data)
                .Input(Shape{1, 2}, I{1, 1})
                .Input(Shape{1, 2}, F{10, 20})
                .Attr("axis", int64_t{1})
                .Attr("reduction", std::string("add"))
                .Values<float>(),
            (F{1, 32, 3, 4, 5}));
  EXPECT_EQ(OpTester("ScatterND")
                .Input(Shape{8}, F{1, 2, 3, 4, 5, 6, 7, 8})
                .Input(Shape{4, 1}, I{4, 3, 1, 7})
                .Input(Shape{4}, F{9, 10, 11, 12})
                .Values<float>(),
            (F{1, 11, 3, 10, 9, 6, 7, 12}));
  EXPECT_EQ(OpTester("ScatterND")
                .Input(Shape{2, 2}, F{1, 2, 3, 4})
                .Input(Shape{2, 1}, I{0, 0})
                .Input(Shape{2, 2}, F{5, 1, 0, 9})
                .Attr("reduction", std::string("max"))
                .Values<float>(),
            (F{5, 9, 3, 4}));
  OpTester early("ScatterND", 16), unknown("ScatterND");  // exporters write it into early models
  early.Input(Shape{2}, F{1, 2}).Input(Shape{1, 1}, I{0}).Input(Shape{1}, F{5}).Attr("reduction", std::string("max"));
  EXPECT_EQ(early.Values<float>(), (F{5, 2}));
  unknown.Input(Shape{2}, F{1, 2})
      .Input(Shape{1, 1}, I{0})
      .Input(Shape{1}, F{5})
      .Attr("reduction", std::string("most"));
  EXPECT_THAT(unknown.Error(), HasSubstr("no reduction 'most'"));
  EXPECT_THAT(OpTester("ScatterND").Input(Shape{2}, F{1, 2}).Input(Shape{1, 1}, I{-3}).Input(Shape{1}, F{5}).Error(),
              HasSubstr("index -3"));
}

TEST(Concat, JoinsAlongAnyAxis) {
  EXPECT_EQ(OpTester("Concat")
                .Input(Shape{2, 1}, F{1, 2})
                .Input(Shape{2, 2}, F{3, 4, 5, 6})
                .Attr("axis", int64_t{-1})
                .Values<float>(),
            (F{1, 3, 4, 2, 5, 6}));
  EXPECT_THAT(
      OpTester("Concat").Input(Shape{2, 1}, F{1, 2}).Input(Shape{3, 1}, F{3, 4, 5}).Attr("axis", int64_t{1}).Error(),
      HasSubstr("differs"));
}

TEST(Split, CutsKnownContents) {
  Graph g;
  g.opset_imports[""] = 13;
  const Dim n = Dim::Symbol("n");
  GraphValue* x = g.AddInput("x", ValueType::Tensor(DType::kF32, Dims{n, 3, 4}));
  GraphValue* shape = g.AddNode({.op_type = "Shape", .inputs = {x}, .outputs = {"shape"}})->output(0);
  GraphValue* lengths = g.AddConstant("lengths", Tensor::FromValues<int64_t>({2}, I{1, 2}));
  Node* node = g.AddNode({.op_type = "Split", .inputs = {shape, lengths}, .outputs = {"batch", "rest"}});
  for (GraphValue* v : node->outputs()) g.AddOutput(v);
  ASSERT_TRUE(InferShapes(g).ok());
  ASSERT_TRUE(node->output(0)->data() && node->output(1)->data());
  EXPECT_EQ(*node->output(0)->data(), (Dims{n}));
  EXPECT_EQ(*node->output(1)->data(), (Dims{3, 4}));
}

TEST(Split, CutsInEqualAndGivenParts) {
  const F x = {1, 2, 3, 4, 5, 6, 7};
  OpTester equal("Split");
  equal.Input(Shape{7}, x).Attr("num_outputs", int64_t{3}).Outputs(3);
  const auto parts = equal.Run();
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  EXPECT_EQ((*parts)[0].tensor().num_elements(), 3);
  EXPECT_EQ((*parts)[2].tensor().values<float>()[0], 7);
  EXPECT_EQ((*parts)[2].tensor().num_elements(), 1);
  EXPECT_EQ(OpTester("Split", 13)
                .Input(Shape{1, 7}, x)
                .Input(Shape{2}, I{2, 5})
                .Attr("axis", int64_t{1})
                .Outputs(2)
                .Values<float>(1),
            (F{3, 4, 5, 6, 7}));
  EXPECT_THAT(OpTester("Split", 13).Input(Shape{7}, x).Outputs(2).Error(), HasSubstr("cannot be cut into 2 equal"));
  EXPECT_THAT(OpTester("Split", 13).Input(Shape{7}, x).Input(Shape{2}, I{2, 2}).Outputs(2).Error(),
              HasSubstr("sums to 4"));
}

TEST(Slice, FollowsPython) {
  const F x = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  struct Case {
    int64_t start, end, step;
    F expected;
  };
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  for (const Case& c :
       {Case{2, 5, 1, {2, 3, 4}}, Case{-3, kMax, 1, {7, 8, 9}}, Case{0, kMax, 4, {0, 4, 8}},
        Case{-1, kMin, -3, {9, 6, 3, 0}}, Case{8, 2, -2, {8, 6, 4}}, Case{5, 2, 1, {}}, Case{20, 30, 1, {}},
        Case{-20, 2, 1, {0, 1}}, Case{9, -11, -9, {9, 0}}, Case{0, kMax, kMax, {0}}, Case{kMax, kMin, kMin, {9}}}) {
    EXPECT_EQ(OpTester("Slice")
                  .Input(Shape{10}, x)
                  .Input(Shape{1}, I{c.start})
                  .Input(Shape{1}, I{c.end})
                  .Input(Shape{1}, I{0})
                  .Input(Shape{1}, I{c.step})
                  .Values<float>(),
              c.expected)
        << c.start << ":" << c.end << ":" << c.step;
  }
  EXPECT_EQ(OpTester("Slice", 9)
                .Input(Shape{2, 5}, x)
                .Attr("starts", I{1})
                .Attr("ends", I{-1})
                .Attr("axes", I{1})
                .Values<float>(),
            (F{1, 2, 3, 6, 7, 8}));
  EXPECT_THAT(OpTester("Slice")
                  .Input(Shape{10}, x)
                  .Input(Shape{1}, I{0})
                  .Input(Shape{1}, I{2})
                  .Input(Shape{1}, I{0})
                  .Input(Shape{1}, I{0})
                  .Error(),
              HasSubstr("step of 0"));
}

TEST(ExpandTile, Repeat) {
  EXPECT_EQ(OpTester("Expand").Input(Shape{3, 1}, F{1, 2, 3}).Input(Shape{3}, I{2, 1, 2}).Values<float>(),
            (F{1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(OpTester("Tile").Input(Shape{2, 2}, F{0, 1, 2, 3}).Input(Shape{2}, I{2, 2}).Values<float>(),
            (F{0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_THAT(OpTester("Expand").Input(Shape{3}, F{1, 2, 3}).Input(Shape{1}, I{4}).Error(),
              HasSubstr("do not broadcast"));
  EXPECT_THAT(OpTester("Tile").Input(Shape{1}, F{1}).Input(Shape{1}, I{int64_t{1} << 61}).Error(),
              HasSubstr("node 'n'"));
}

TEST(Pad, EveryMode) {
  const F x = {1, 2, 3};
  auto pad = [&](const char* mode, I pads) {
    return OpTester("Pad").Input(Shape{3}, x).Input(Shape{2}, pads).Attr("mode", std::string(mode)).Values<float>();
  };
  EXPECT_EQ(pad("constant", {2, 1}), (F{0, 0, 1, 2, 3, 0}));
  EXPECT_EQ(pad("reflect", {2, 2}), (F{3, 2, 1, 2, 3, 2, 1}));
  EXPECT_EQ(pad("reflect", {0, 5}), (F{1, 2, 3, 2, 1, 2, 3, 2}));
  EXPECT_EQ(pad("edge", {2, 1}), (F{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(pad("wrap", {2, 4}), (F{2, 3, 1, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(pad("constant", {-1, 2}), (F{2, 3, 0, 0}));
  EXPECT_EQ(OpTester("Pad")
                .Input(Shape{1, 3}, x)
                .Input(Shape{2}, I{1, 0})
                .Input(Shape{}, F{9})
                .Input(Shape{1}, I{-1})
                .Values<float>(),
            (F{9, 1, 2, 3}));
  EXPECT_EQ(OpTester("Pad", 10).Input(Shape{3}, x).Attr("pads", I{1, 0}).Attr("value", 7.0f).Values<float>(),
            (F{7, 1, 2, 3}));
  EXPECT_THAT(OpTester("Pad").Input(Shape{3}, x).Input(Shape{2}, I{-2, -2}).Error(), HasSubstr("remove more"));
  EXPECT_THAT(OpTester("Pad").Input(Shape{3}, x).Input(Shape{2}, I{int64_t{1} << 62, -(int64_t{1} << 62)}).Error(),
              HasSubstr("too large"));
}

TEST(DepthToSpace, BothOrdersAndBack) {
  const F x = {0, 1, 2, 3, 4, 5, 6, 7};  // [1, 8, 1, 1]
  EXPECT_EQ(OpTester("DepthToSpace").Input(Shape{1, 8, 1, 1}, x).Attr("blocksize", int64_t{2}).Values<float>(),
            (F{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(OpTester("DepthToSpace")
                .Input(Shape{1, 8, 1, 1}, x)
                .Attr("blocksize", int64_t{2})
                .Attr("mode", std::string("CRD"))
                .Values<float>(),
            x);
  EXPECT_EQ(OpTester("SpaceToDepth")
                .Input(Shape{1, 2, 2, 2}, F{0, 2, 4, 6, 1, 3, 5, 7})
                .Attr("blocksize", int64_t{2})
                .Values<float>(),
            x);
}

TEST(Fill, MakesTensors) {
  OpTester fill("ConstantOfShape");
  fill.Input(Shape{2}, I{2, 3}).Attr("value", Value(Tensor::FromValues<int32_t>(Shape{1}, std::vector<int32_t>{7})));
  EXPECT_EQ(fill.Values<int32_t>(), std::vector<int32_t>(6, 7));
  EXPECT_EQ(OpTester("Range").Input(Shape{}, I{10}).Input(Shape{}, I{4}).Input(Shape{}, I{-2}).Values<int64_t>(),
            (I{10, 8, 6}));
  EXPECT_EQ(OpTester("Range").Input(Shape{}, F{0}).Input(Shape{}, F{1}).Input(Shape{}, F{0.25f}).Values<float>(),
            (F{0, 0.25f, 0.5f, 0.75f}));
  EXPECT_THAT(OpTester("Range").Input(Shape{}, I{0}).Input(Shape{}, I{4}).Input(Shape{}, I{0}).Error(),
              HasSubstr("not finite"));
  EXPECT_EQ(
      OpTester("OneHot").Input(Shape{3}, I{0, -1, 5}).Input(Shape{}, I{3}).Input(Shape{2}, F{-1, 2}).Values<float>(),
      (F{2, -1, -1, -1, -1, 2, -1, -1, -1}));
  EXPECT_EQ(OpTester("Trilu").Input(Shape{2, 3}, I{1, 2, 3, 4, 5, 6}).Input(Shape{}, I{1}).Values<int64_t>(),
            (I{0, 2, 3, 0, 0, 6}));
  EXPECT_EQ(OpTester("Trilu").Input(Shape{2, 3}, I{1, 2, 3, 4, 5, 6}).Attr("upper", int64_t{0}).Values<int64_t>(),
            (I{1, 0, 0, 4, 5, 0}));
  OpTester huge("ConstantOfShape");
  EXPECT_THAT(huge.Input(Shape{2}, I{int64_t{1} << 40, int64_t{1} << 20}).Error(),
              HasSubstr("node 'n' (ConstantOfShape)"));
}

}  // namespace
}  // namespace quern
