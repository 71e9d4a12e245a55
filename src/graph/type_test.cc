#include "graph/type.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

const Dim n = Dim::Symbol("n");

std::string Merged(const ValueType& a, const ValueType& b) {
  const Result<ValueType> r = MergeTypes(a, b);
  return r.ok() ? TypeToString(*r) : "error";
}

TEST(Type, Prints) {
  EXPECT_EQ(TypeToString({}), "?");
  EXPECT_EQ(TypeToString(ValueType::Tensor(DType::kF32)), "f32[*]");
  EXPECT_EQ(TypeToString(ValueType::Tensor(DType::kQ4_0, Dims{n, 64})), "q4_0[n,64]");
  EXPECT_EQ(TypeToString(ValueType::Tensor(DType::kUndefined, Dims{})), "?[]");
}

TEST(Type, MergesWhatIsKnown) {
  const auto f32 = [](std::optional<Dims> d) { return ValueType::Tensor(DType::kF32, std::move(d)); };
  EXPECT_EQ(Merged({}, f32(Dims{n})), "f32[n]");
  EXPECT_EQ(Merged(f32({}), ValueType::Tensor(DType::kUndefined, Dims{n, 2})), "f32[n,2]");
  EXPECT_EQ(Merged(f32(Dims{n, 2}), f32(Dims{3, n})), "f32[3,2]");
  EXPECT_EQ(Merged(f32(Dims{Dim::Unknown()}), f32(Dims{n})), "f32[n]");
  EXPECT_EQ(Merged(f32(Dims{n}), f32(Dims{Dim::Unknown()})), "f32[n]");
  EXPECT_EQ(Merged(f32(Dims{2}), f32(Dims{3})), "error");
  EXPECT_EQ(Merged(f32(Dims{2}), f32(Dims{2, 2})), "error");
  EXPECT_EQ(Merged(f32({}), ValueType::Tensor(DType::kI64)), "error");
  EXPECT_EQ(Merged(f32({}), ValueType::Tensor(DType::kString)), "error");
  EXPECT_EQ(Merged({}, ValueType::Tensor(DType::kString)), "string[*]");
  const ValueType open{ValueKind::kSequence, DType::kUndefined, std::nullopt, nullptr};
  const ValueType of_f32{ValueKind::kSequence, DType::kUndefined, std::nullopt,
                         std::make_shared<const ValueType>(f32({}))};
  EXPECT_EQ(Merged(open, of_f32), "seq<f32[*]>");
  EXPECT_EQ(Merged(open, f32({})), "error");
}

TEST(Type, OfValues) {
  const Value a = Tensor::Scalar<int64_t>(1), b = Tensor::FromValues<int64_t>(Shape{1}, std::vector<int64_t>{1});
  EXPECT_EQ(TypeToString(TypeOf(b)), "i64[1]");
  EXPECT_EQ(TypeToString(TypeOf(Value::Sequence({b, b}))), "seq<i64[1]>");
  EXPECT_EQ(TypeToString(TypeOf(Value::Sequence({a, b}))), "seq<i64[*]>");
  EXPECT_EQ(TypeToString(TypeOf(Value::Sequence({}))), "seq<?>");
  EXPECT_EQ(TypeToString(TypeOf(Value::Optional(a))), "opt<i64[]>");
  EXPECT_EQ(TypeToString(TypeOf(Value::Map({std::map<std::string, Value>{{"k", a}}}))), "map<string,i64[]>");
  EXPECT_EQ(TypeToString(TypeOf(StringTensor{Shape{2}, {"a", "b"}})), "string[2]");
}

}  // namespace
}  // namespace quern
