// Sequences and optionals, and what If, Loop and Identity do with them; expected values by hand.
#include <gmock/gmock.h>

#include "ops/common/graph_tester.h"
#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using I = std::vector<int64_t>;
using F = std::vector<float>;

Tensor Floats(const F& values) {
  return Tensor::FromValues<float>(Shape{static_cast<int64_t>(values.size())}, std::span<const float>(values));
}
Value Ints(const std::vector<I>& lists) {
  ValueSequence elements;
  for (const I& v : lists) {
    elements.emplace_back(
        Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(v.size())}, std::span<const int64_t>(v)));
  }
  return Value::Sequence(std::move(elements));
}
Value Words(const std::vector<std::string>& words) {
  return StringTensor{Shape{static_cast<int64_t>(words.size())}, words};
}
std::vector<I> ListsOf(const Value& sequence) {
  std::vector<I> lists;
  for (const Value& v : sequence.sequence()) lists.push_back(ValuesOf<int64_t>(v));
  return lists;
}
// The one output of a node.
Value Single(OpTester& t) {
  const Result<std::vector<Value>> outputs = t.Run();
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? (*outputs)[0] : Value();
}
Value Position(int64_t p) { return Tensor::Scalar<int64_t>(p); }

const std::vector<I> kLists = {{1, 2}, {3}, {4, 5, 6}};

TEST(SequenceAt, CountsFromEitherEnd) {
  for (const auto& [position, expected] :
       {std::pair<int64_t, I>{0, {1, 2}}, {2, {4, 5, 6}}, {-1, {4, 5, 6}}, {-3, {1, 2}}}) {
    EXPECT_EQ(OpTester("SequenceAt").Input(Ints(kLists)).Input(Position(position)).Values<int64_t>(), expected);
  }
  EXPECT_EQ(OpTester("SequenceAt").Input(Ints(kLists)).Input(Shape{1}, std::vector<int32_t>{1}).Values<int64_t>(),
            I{3});
  for (int64_t outside : {3, -4}) {
    EXPECT_THAT(OpTester("SequenceAt").Input(Ints(kLists)).Input(Position(outside)).Error(),
                HasSubstr("position " + std::to_string(outside) + " is not in a sequence of 3"));
  }
  EXPECT_THAT(OpTester("SequenceAt").Input(Ints({})).Input(Position(0)).Error(), HasSubstr("sequence of 0"));
  EXPECT_THAT(OpTester("SequenceAt").Input(Ints(kLists)).Input(Shape{2}, I{0, 1}).Error(),
              HasSubstr("must be one number"));
  EXPECT_THAT(OpTester("SequenceAt").Input(Shape{1}, I{0}).Input(Position(0)).Error(), HasSubstr("is needed"));
  const Value nested = Value::Sequence({Ints(kLists)});
  EXPECT_THAT(OpTester("SequenceAt").Input(nested).Input(Position(0)).Error(), HasSubstr("a tensor is needed"));
}

TEST(SequenceConstruct, KeepsWhatElementsShareInItsType) {
  OpTester t("SequenceConstruct");
  EXPECT_EQ(ListsOf(Single(t.Input(Shape{2}, I{1, 2}).Input(Shape{1}, I{3}))), (std::vector<I>{{1, 2}, {3}}));
  const auto element = [](const std::string& a, const std::string& b) {
    return InferredType("graph opset(\"\": 17) { input %p: i64[] input %a: " + a + " input %b: " + b +
                        " %s = SequenceConstruct(%a, %b) %y = SequenceAt(%s, %p) return %y }");
  };
  EXPECT_EQ(element("f32[n,3]", "f32[n,3]"), "f32[n,3]");
  EXPECT_THAT(element("f32[n,3]", "f32[m,3]"), testing::MatchesRegex("f32\\[\\?[0-9]+,3\\]"));
  EXPECT_EQ(element("f32[n]", "f32[n,3]"), "f32[*]");
  EXPECT_EQ(element("f32[*]", "f32[n]"), "f32[*]");
  EXPECT_THAT(element("f32[n]", "i32[n]"), HasSubstr("both must be the same"));
}

TEST(SequenceEmpty, HasAnElementType) {
  const auto type = [](const std::string& attribute) {
    return InferredType("graph opset(\"\": 17) { %s = SequenceEmpty()" + attribute + " return %s }");
  };
  EXPECT_EQ(type(""), "seq<f32[*]>");
  EXPECT_EQ(type(" {dtype = 7}"), "seq<i64[*]>");
  EXPECT_EQ(type(" {dtype = 8}"), "seq<string[*]>");
  for (const char* wrong : {" {dtype = 0}", " {dtype = 16}", " {dtype = -1}", " {dtype = 1000000}"}) {
    EXPECT_THAT(type(wrong), HasSubstr("is no element type of sequences")) << wrong;
  }
  OpTester t("SequenceEmpty");
  EXPECT_TRUE(Single(t).sequence().empty());
}

TEST(SequenceInsert, BeforeAPosition) {
  const auto insert = [](int64_t position) {
    OpTester t("SequenceInsert");
    return ListsOf(Single(t.Input(Ints({{1}, {2}})).Input(Shape{1}, I{9}).Input(Position(position))));
  };
  EXPECT_EQ(insert(0), (std::vector<I>{{9}, {1}, {2}}));
  EXPECT_EQ(insert(1), (std::vector<I>{{1}, {9}, {2}}));
  EXPECT_EQ(insert(2), (std::vector<I>{{1}, {2}, {9}}));
  EXPECT_EQ(insert(-1), (std::vector<I>{{1}, {9}, {2}}));
  EXPECT_EQ(insert(-2), (std::vector<I>{{9}, {1}, {2}}));
  OpTester back("SequenceInsert"), first("SequenceInsert");
  EXPECT_EQ(ListsOf(Single(back.Input(Ints({{1}})).Input(Shape{1}, I{9}))), (std::vector<I>{{1}, {9}}));
  EXPECT_EQ(ListsOf(Single(first.Input(Ints({})).Input(Shape{1}, I{9}).Input(Position(0)))), (std::vector<I>{{9}}));
  for (int64_t outside : {3, -3}) {
    EXPECT_THAT(
        OpTester("SequenceInsert").Input(Ints({{1}, {2}})).Input(Shape{1}, I{9}).Input(Position(outside)).Error(),
        HasSubstr("is not in a sequence of 2"));
  }
  EXPECT_THAT(OpTester("SequenceInsert").Input(Ints({{1}})).Input(Shape{1}, F{9}).Error(),
              HasSubstr("a tensor of element type f32 cannot go into a sequence of i64"));
  EXPECT_THAT(GraphError("graph opset(\"\": 17) { input %x: i32[1] %e = SequenceEmpty() "
                         "%s = SequenceInsert(%e, %x) return %s }",
                         {Tensor::FromValues<int32_t>(Shape{1}, std::vector<int32_t>{1})}),
              HasSubstr("i32 cannot go into a sequence of f32"));
}

TEST(SequenceErase, AtAPositionOrTheLast) {
  const auto erase = [](OpTester& t) { return ListsOf(Single(t.Input(Ints(kLists)))); };
  OpTester last("SequenceErase");
  EXPECT_EQ(erase(last), (std::vector<I>{{1, 2}, {3}}));
  OpTester first("SequenceErase"), back("SequenceErase");
  EXPECT_EQ(ListsOf(Single(first.Input(Ints(kLists)).Input(Position(-3)))), (std::vector<I>{{3}, {4, 5, 6}}));
  EXPECT_EQ(ListsOf(Single(back.Input(Ints(kLists)).Input(Position(1)))), (std::vector<I>{{1, 2}, {4, 5, 6}}));
  EXPECT_THAT(OpTester("SequenceErase").Input(Ints({})).Error(), HasSubstr("nothing to erase"));
  EXPECT_THAT(OpTester("SequenceErase").Input(Ints(kLists)).Input(Position(3)).Error(), HasSubstr("sequence of 3"));
}

TEST(SequenceLength, Counts) {
  EXPECT_EQ(OpTester("SequenceLength").Input(Ints(kLists)).Values<int64_t>(), I{3});
  EXPECT_EQ(OpTester("SequenceLength").Input(Ints({})).Values<int64_t>(), I{0});
}

TEST(ConcatFromSequence, JoinsAndStacks) {
  EXPECT_EQ(OpTester("ConcatFromSequence").Input(Ints(kLists)).Attr("axis", int64_t{0}).Values<int64_t>(),
            (I{1, 2, 3, 4, 5, 6}));
  const Value rows = Ints({{1, 2}, {3, 4}, {5, 6}});
  const auto stack = [&](int64_t axis) {
    OpTester t("ConcatFromSequence");
    return Single(t.Input(rows).Attr("axis", axis).Attr("new_axis", int64_t{1}));
  };
  EXPECT_EQ(stack(0).tensor().shape(), (Shape{3, 2}));
  EXPECT_EQ(ValuesOf<int64_t>(stack(0)), (I{1, 2, 3, 4, 5, 6}));
  for (int64_t axis : {1, -1}) {
    EXPECT_EQ(stack(axis).tensor().shape(), (Shape{2, 3}));
    EXPECT_EQ(ValuesOf<int64_t>(stack(axis)), (I{1, 3, 5, 2, 4, 6}));
  }
  OpTester words("ConcatFromSequence");
  const Value joined =
      Single(words.Input(Value::Sequence({Words({"a", "b"}), Words({"c"})})).Attr("axis", int64_t{-1}));
  EXPECT_THAT(joined.strings().values, ElementsAre("a", "b", "c"));
}

TEST(ConcatFromSequence, Errors) {
  const auto error = [](const Value& sequence, int64_t axis, int64_t new_axis = 0) {
    return OpTester("ConcatFromSequence").Input(sequence).Attr("axis", axis).Attr("new_axis", new_axis).Error();
  };
  EXPECT_THAT(error(Ints({}), 0), HasSubstr("the sequence is empty"));
  EXPECT_THAT(error(Ints(kLists), 1), HasSubstr("axis 1 is outside"));
  EXPECT_THAT(error(Ints(kLists), 2, 1), HasSubstr("axis 2 is outside"));
  EXPECT_THAT(error(Ints(kLists), 0, 1), HasSubstr("element 1 of shape [1] does not fit the first, of [2]"));
  EXPECT_THAT(error(Ints(kLists), 0, 2), HasSubstr("new_axis is 2"));
  EXPECT_THAT(error(Value::Sequence({Floats({1}), Words({"a"})}), 0), HasSubstr("has element type string"));
  const Value deep = Value::Sequence({Tensor::Allocate(DType::kF32, Shape::Filled(kMaxRank, 1)).value()});
  EXPECT_THAT(error(deep, 0, 1), HasSubstr("rank 17"));
}

TEST(SplitToSequence, CutsByLengthListOrOne) {
  const I x = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto split = [&](OpTester& t) { return ListsOf(Single(t)); };
  OpTester chunks("SplitToSequence"), list("SplitToSequence"), ones("SplitToSequence");
  EXPECT_EQ(split(chunks.Input(Shape{5}, I{0, 1, 2, 3, 4}).Input(Position(2))), (std::vector<I>{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(split(list.Input(Shape{2, 5}, x).Input(Shape{3}, I{1, 0, 4}).Attr("axis", int64_t{-1})),
            (std::vector<I>{{0, 5}, {}, {1, 2, 3, 4, 6, 7, 8, 9}}));
  const Value kept = Single(ones.Input(Shape{2, 5}, x));
  EXPECT_EQ(ListsOf(kept), (std::vector<I>{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}}));
  EXPECT_EQ(kept.sequence()[0].tensor().shape(), (Shape{1, 5}));
  OpTester dropped("SplitToSequence"), ignored("SplitToSequence");
  EXPECT_EQ(Single(dropped.Input(Shape{2, 5}, x).Attr("keepdims", int64_t{0})).sequence()[1].tensor().shape(),
            (Shape{5}));
  ignored.Input(Shape{2, 5}, x).Input(Position(1)).Attr("keepdims", int64_t{0});
  EXPECT_EQ(Single(ignored).sequence()[1].tensor().shape(), (Shape{1, 5})) << "a split overrides keepdims";
  OpTester words("SplitToSequence");
  EXPECT_THAT(Single(words.Input(Words({"a", "b"}))).sequence()[1].strings().values, ElementsAre("b"));
  OpTester none("SplitToSequence");
  EXPECT_TRUE(Single(none.Input(Shape{0}, I{})).sequence().empty());
}

TEST(SplitToSequence, Errors) {
  const auto error = [](const Value& split, int64_t axis = 0) {
    return OpTester("SplitToSequence").Input(Shape{3}, I{1, 2, 3}).Input(split).Attr("axis", axis).Error();
  };
  EXPECT_THAT(error(Position(0)), HasSubstr("split is 0, it must be above 0"));
  EXPECT_THAT(error(Position(-2)), HasSubstr("split is -2"));
  EXPECT_THAT(error(Tensor::FromValues<int64_t>(Shape{2}, I{1, 1})), HasSubstr("do not sum to 3"));
  EXPECT_THAT(error(Tensor::FromValues<int64_t>(Shape{2}, I{INT64_MAX, INT64_MAX})), HasSubstr("do not sum to 3"));
  EXPECT_THAT(error(Tensor::FromValues<int64_t>(Shape{2}, I{4, -1})), HasSubstr("do not sum"));
  EXPECT_THAT(error(Tensor::FromValues<int64_t>(Shape{2}, I{-1, 4})), HasSubstr("negative length -1"));
  EXPECT_THAT(error(Tensor::FromValues<int64_t>(Shape{1, 1}, I{3})), HasSubstr("split has rank 2"));
  EXPECT_THAT(error(Position(1), 1), HasSubstr("axis 1 is outside"));
  OpTester huge("SplitToSequence");
  EXPECT_THAT(huge.Input(Shape{int64_t{1} << 40, 0}, I{}).Error(), HasSubstr("more than the limit"));
}

TEST(SplitToSequence, InfersElements) {
  const auto type = [](const std::string& rest) {
    return InferredType("graph opset(\"\": 17) { input %x: f32[n,4] input %l: i64[2] " + rest + " return %s }");
  };
  EXPECT_EQ(type("%s = SplitToSequence(%x)"), "seq<f32[1,4]>");
  EXPECT_EQ(type("%s = SplitToSequence(%x) {axis = 1, keepdims = 0}"), "seq<f32[n]>");
  EXPECT_THAT(type("%s = SplitToSequence(%x, %l)"), testing::MatchesRegex("seq<f32\\[\\?[0-9]+,4\\]>"));
}

TEST(Optional, HoldsOrHoldsNot) {
  OpTester some("Optional"), none("Optional");
  EXPECT_EQ(ValuesOf<float>(Single(some.Input(Shape{2}, F{1, 2})).optional_element()), (F{1, 2}));
  EXPECT_FALSE(Single(none.Attr("type", ValueType::Tensor(DType::kF32))).optional_element().has_value());
  EXPECT_THAT(OpTester("Optional").Error(), HasSubstr("needs an input or attribute 'type'"));
  EXPECT_THAT(OpTester("Optional").Input(Shape{1}, F{1}).Attr("type", ValueType::Tensor(DType::kI64)).Error(),
              HasSubstr("contradicts"));
  EXPECT_THAT(OpTester("Optional").Input(Value::Optional(Floats({1}))).Error(), HasSubstr("this is of kind optional"));
  EXPECT_EQ(InferredType("graph opset(\"\": 17) { input %x: seq<f32[n]> %y = Optional(%x) return %y }"),
            "opt<seq<f32[n]>>");
  EXPECT_EQ(InferredType("graph opset(\"\": 17) { %y = Optional() {type = type seq<i64[*]>} return %y }"),
            "opt<seq<i64[*]>>");
}

TEST(OptionalGetElement, OfOptionalsTensorsAndSequences) {
  const Value tensor = Floats({1, 2});
  for (int opset : {15, 18, 28}) {
    EXPECT_EQ(OpTester("OptionalGetElement", opset).Input(Value::Optional(tensor)).Values<float>(), (F{1, 2}));
    EXPECT_EQ(OpTester("OptionalGetElement", opset).Input(tensor).Values<float>(), (F{1, 2}));
    EXPECT_THAT(OpTester("OptionalGetElement", opset).Input(Value::Optional(Value())).Error(),
                HasSubstr("the optional 'x0' holds nothing"));
  }
  OpTester sequence("OptionalGetElement");
  EXPECT_EQ(ListsOf(Single(sequence.Input(Value::Optional(Ints(kLists))))), kLists);
  EXPECT_EQ(InferredType("graph opset(\"\": 17) { input %x: opt<f32[n]> %y = OptionalGetElement(%x) return %y }"),
            "f32[n]");
}

TEST(OptionalHasElement, AlsoWithoutAnInput) {
  const auto has = [](OpTester& t) { return t.Values<bool>() == std::vector<bool>{true}; };
  for (const Value& there : {Value::Optional(Floats({1})), Value(Floats({1})), Ints({})}) {
    OpTester t("OptionalHasElement");
    EXPECT_TRUE(has(t.Input(there)));
  }
  OpTester empty("OptionalHasElement"), omitted("OptionalHasElement"), nothing("OptionalHasElement");
  EXPECT_FALSE(has(empty.Input(Value::Optional(Value()))));
  EXPECT_FALSE(has(omitted.Omit()));
  EXPECT_FALSE(has(nothing));
  EXPECT_THAT(OpTester("OptionalHasElement", 15).Omit().Error(), HasSubstr("is omitted but required"));
}

constexpr char kAddEach[] = R"(graph opset("": 17) {
  input %s: seq<f32[n]>
  input %t: seq<f32[n]>
  input %x: f32[1]
  %a, %b = SequenceMap(%s, %t, %x) {
    body = graph {
      input %p: f32[n] input %q: f32[n] input %r: f32[1]
      %sum = Add(%p, %q)
      %shape = Shape(%p)
      return %sum, %shape
    }
  }
  return %a, %b
})";

TEST(SequenceMap, RunsItsBodyPerElement) {
  const Value s = Value::Sequence({Floats({1, 2}), Floats({3})}), t = Value::Sequence({Floats({10, 20}), Floats({30})});
  const Result<std::vector<Value>> outputs = RunGraph(kAddEach, {s, t, Floats({5})});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  ASSERT_EQ((*outputs)[0].sequence().size(), 2u);
  EXPECT_EQ(ValuesOf<float>((*outputs)[0].sequence()[0]), (F{11, 22}));
  EXPECT_EQ(ValuesOf<float>((*outputs)[0].sequence()[1]), (F{33}));
  EXPECT_EQ(ListsOf((*outputs)[1]), (std::vector<I>{{2}, {1}}));
  const Result<std::vector<Value>> none = RunGraph(kAddEach, {Value::Sequence({}), Value::Sequence({}), Floats({5})});
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_TRUE((*none)[0].sequence().empty());
  EXPECT_THAT(GraphError(kAddEach, {s, Value::Sequence({Floats({1})}), Floats({5})}),
              HasSubstr("sequence 't' has 1 elements, 's' has 2"));
  EXPECT_THAT(InferredType(kAddEach), testing::MatchesRegex("seq<f32\\[\\?[0-9]+\\]>")) << "each has its own n";
  EXPECT_THAT(InferredType(R"(graph opset("": 17) {
    input %x: f32[2]
    %y = SequenceMap(%x) { body = graph { input %p: f32[2] %q = Neg(%p) return %q } }
    return %y
  })"),
              HasSubstr("a sequence is needed"));
}

// Appends one more element in each iteration, each longer than the one before.
constexpr char kGrow[] = R"(graph opset("": 17) {
  input %m: i64[]
  input %first: f32[1]
  const %go = bool[] {true}
  const %zero = i64[1] {0}
  const %one = i64[1] {1}
  const %last = i64[] {-1}
  %s = SequenceConstruct(%first)
  %r = Loop(%m, %go, %s) captures(%first, %zero, %one) {
    body = graph {
      input %i: i64[] input %c: bool[] input %seq: seq<f32[1]>
      input %x: f32[1] input %from: i64[1] input %by: i64[1]
      %at = Unsqueeze(%i, %from)
      %count = Add(%at, %by)
      %long = Expand(%x, %count)
      %next = SequenceInsert(%seq, %long)
      return %c, %next
    }
  }
  %y = SequenceAt(%r, %last)
  return %y, %r
})";

TEST(Loop, WidensTheElementsOfSequences) {
  const Result<std::vector<Value>> outputs = RunGraph(kGrow, {Tensor::Scalar<int64_t>(3), Floats({7})});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(ValuesOf<float>((*outputs)[0]), (F{7, 7, 7}));
  EXPECT_EQ((*outputs)[1].sequence().size(), 4u);
  EXPECT_THAT(InferredType(kGrow), testing::MatchesRegex("f32\\[\\?[0-9]+\\]"));
}

constexpr char kChoose[] = R"(graph opset("": 17) {
  input %c: bool[]
  input %x: f32[2]
  input %y: f32[3]
  %s = If(%c) captures(%x, %y) {
    then_branch = graph { input %a: f32[2] input %b: f32[3] %r = SequenceConstruct(%a) return %r },
    else_branch = graph { input %a: f32[2] input %b: f32[3] %r = SequenceConstruct(%a, %b, %a) return %r }
  }
  %o = If(%c) captures(%x) {
    then_branch = graph { input %a: f32[2] %r = Optional(%a) return %r },
    else_branch = graph { input %a: f32[2] %r = Optional() {type = type f32[2]} return %r }
  }
  %h = OptionalHasElement(%o)
  return %s, %o, %h
})";

TEST(If, GivesSequencesAndOptionals) {
  const std::vector<Value> rest = {Floats({1, 2}), Floats({3, 4, 5})};
  for (bool condition : {true, false}) {
    const Result<std::vector<Value>> outputs = RunGraph(kChoose, {Tensor::Scalar<bool>(condition), rest[0], rest[1]});
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    EXPECT_EQ((*outputs)[0].sequence().size(), condition ? 1u : 3u);
    EXPECT_EQ((*outputs)[1].optional_element().has_value(), condition);
    EXPECT_EQ(ValuesOf<bool>((*outputs)[2]), std::vector<bool>{condition});
  }
  EXPECT_THAT(InferredType(kChoose), testing::MatchesRegex("seq<f32\\[\\?[0-9]+\\]>"));
  EXPECT_EQ(InferredType(kChoose, 1), "opt<f32[2]>");
}

TEST(Identity, PassesSequencesAndOptionals) {
  OpTester sequence("Identity"), optional("Identity");
  EXPECT_EQ(ListsOf(Single(sequence.Input(Ints(kLists)))), kLists);
  EXPECT_FALSE(Single(optional.Input(Value::Optional(Value()))).optional_element().has_value());
}

}  // namespace
}  // namespace quern
