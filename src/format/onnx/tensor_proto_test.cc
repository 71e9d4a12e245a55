#include "format/onnx/tensor_proto.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/onnx/proto_builder.h"

namespace quern {
namespace {

using namespace onnx_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Value> Read(const Message& m, const Limits& limits = {}) {
  return ReadTensorProto(AsBytes(m.bytes()), nullptr, limits);
}
std::string BytesOf(const Value& v) {
  return std::string(static_cast<const char*>(v.tensor().raw_data()), v.tensor().bytes());
}
void ExpectError(const Message& m, StatusCode code, const std::string& text, const Limits& limits = {}) {
  const Result<Value> r = Read(m, limits);
  ASSERT_FALSE(r.ok()) << text;
  EXPECT_EQ(r.status().code(), code) << r.status().message();
  EXPECT_THAT(r.status().message(), HasSubstr(text));
}
Message Typed(int type, std::initializer_list<int64_t> dims) {
  Message m;
  for (int64_t d : dims) m.Number(1, d);
  return m.Number(2, type);
}

// Every type, raw: the bytes come back under the right type and shape.
TEST(TensorProto, RawOfEveryType) {
  for (int type = 1; IsOnnxType(type); ++type) {
    if (type == 8) continue;
    const DType dtype = static_cast<DType>(type);
    const size_t bytes = TensorBytes(dtype, Shape{3, 3}).value();
    std::string raw(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) raw[i] = static_cast<char>(dtype == DType::kBool ? i % 2 : 17 * i + 1);
    const Result<Value> v = Read(RawTensor("t", type, {3, 3}, raw));
    ASSERT_TRUE(v.ok()) << v.status().message();
    EXPECT_EQ(v->tensor().dtype(), dtype);
    EXPECT_EQ(v->tensor().shape(), (Shape{3, 3}));
    EXPECT_EQ(BytesOf(*v), raw) << DTypeName(dtype);
    ExpectError(RawTensor("t", type, {3, 3}, raw + "x"), StatusCode::kCorrupt, "bytes of data");
    ExpectError(RawTensor("t", type, {3, 3}, raw.substr(1)), StatusCode::kCorrupt, "bytes of data");
  }
}

TEST(TensorProto, TypedIntegersPackedAndNot) {
  struct Case {
    int type, field;
    std::vector<int64_t> values;
    std::string raw;
  };
  const Case cases[] = {
      {2, 5, {0, 200, 255}, Raw<uint8_t>({0, 200, 255})},
      {3, 5, {-128, 5, 127}, Raw<int8_t>({-128, 5, 127})},
      {4, 5, {0, 40000, 65535}, Raw<uint16_t>({0, 40000, 65535})},
      {5, 5, {-32768, 1, 32767}, Raw<int16_t>({-32768, 1, 32767})},
      {6, 5, {-2147483648LL, 1, 2147483647}, Raw<int32_t>({INT32_MIN, 1, INT32_MAX})},
      {7, 7, {INT64_MIN, 1, INT64_MAX}, Raw<int64_t>({INT64_MIN, 1, INT64_MAX})},
      {9, 5, {0, 1, 1}, Raw<uint8_t>({0, 1, 1})},
      {10, 5, {0x3c00, 0xbc00, 0x7bff}, Raw<uint16_t>({0x3c00, 0xbc00, 0x7bff})},
      {12, 11, {0, 1, 4294967295LL}, Raw<uint32_t>({0, 1, UINT32_MAX})},
      {13, 11, {0, 1, -1}, Raw<uint64_t>({0, 1, UINT64_MAX})},
      {16, 5, {0x3f80, 0xbf80, 1}, Raw<uint16_t>({0x3f80, 0xbf80, 1})},
      {17, 5, {0x38, 0xb8, 1}, Raw<uint8_t>({0x38, 0xb8, 1})},
      {24, 5, {127, 128, 0}, Raw<uint8_t>({127, 128, 0})},
  };
  for (const Case& c : cases) {
    Message unpacked = Typed(c.type, {3});
    for (int64_t v : c.values) unpacked.Number(c.field, v);
    // A repeated field may even mix both encodings.
    const Message mixed =
        Typed(c.type, {3}).Number(c.field, c.values[0]).PackedNumbers(c.field, {c.values[1], c.values[2]});
    for (const Message& m : {Typed(c.type, {3}).PackedNumbers(c.field, c.values), unpacked, mixed}) {
      const Result<Value> v = Read(m);
      ASSERT_TRUE(v.ok()) << c.type << ": " << v.status().message();
      EXPECT_EQ(BytesOf(*v), c.raw) << c.type;
    }
    ExpectError(Typed(c.type, {4}).PackedNumbers(c.field, c.values), StatusCode::kCorrupt, "needs 4");
    ExpectError(Typed(c.type, {2}).PackedNumbers(c.field, c.values), StatusCode::kCorrupt, "has 3 values");
  }
}

// Sub-byte types: each number of int32_data is one byte of packed elements, the count rounded up.
TEST(TensorProto, TypedSubByte) {
  EXPECT_EQ(BytesOf(*Read(Typed(22, {3}).PackedNumbers(5, {0xf1, 0x07}))), Raw<uint8_t>({0xf1, 0x07}));
  EXPECT_EQ(BytesOf(*Read(Typed(21, {2, 2}).PackedNumbers(5, {0x21, 0x43}))), Raw<uint8_t>({0x21, 0x43}));
  EXPECT_EQ(BytesOf(*Read(Typed(25, {5}).PackedNumbers(5, {0xe4, 0x02}))), Raw<uint8_t>({0xe4, 0x02}));
  ExpectError(Typed(22, {3}).PackedNumbers(5, {1, 2, 3}), StatusCode::kCorrupt, "needs 2");
  // Of 6-bit types each number is an element.
  EXPECT_EQ(BytesOf(*Read(Typed(27, {3}).PackedNumbers(5, {0x08, 0x3f, 0x01}))), Raw<uint8_t>({0xc8, 0x1f, 0x00}));
  ExpectError(Typed(28, {3}).PackedNumbers(5, {1, 2}), StatusCode::kCorrupt, "needs 3");
  ExpectError(Typed(28, {1}).PackedNumbers(5, {64}), StatusCode::kCorrupt, "does not fit f6e3m2");
}

TEST(TensorProto, TypedFloats) {
  EXPECT_THAT(Read(Typed(1, {3}).PackedFloats(4, {1, -2, 0.5f}))->tensor().values<float>(), ElementsAre(1, -2, 0.5f));
  EXPECT_THAT(Read(Typed(1, {2}).Float(4, 3).Float(4, 4))->tensor().values<float>(), ElementsAre(3, 4));
  EXPECT_THAT(Read(Typed(1, {3}).Float(4, 3).PackedFloats(4, {4, 5}))->tensor().values<float>(), ElementsAre(3, 4, 5));
  EXPECT_THAT(Read(Typed(11, {2}).Double(10, 3).Double(10, 4))->tensor().values<double>(), ElementsAre(3, 4));
  EXPECT_EQ(BytesOf(*Read(Typed(14, {1}).PackedFloats(4, {1, 2}))), Raw<float>({1, 2}));
  EXPECT_EQ(BytesOf(*Read(Typed(14, {1}).Float(4, 1).Float(4, 2))), Raw<float>({1, 2}));
  EXPECT_EQ(BytesOf(*Read(Typed(15, {1}).Double(10, 1).Double(10, 2))), Raw<double>({1, 2}));
  ExpectError(Typed(1, {2}).PackedFloats(4, {1}), StatusCode::kCorrupt, "needs 8");
  ExpectError(Typed(14, {1}).Float(4, 1), StatusCode::kCorrupt, "needs 2");
  ExpectError(Typed(1, {1}).Text(4, "abc"), StatusCode::kCorrupt, "needs 4");
  // Data in another type's field is no data.
  ExpectError(Typed(1, {1}).Number(5, 1), StatusCode::kCorrupt, "float_data has 0 values");
}

TEST(TensorProto, ValuesMustFitTheirType) {
  ExpectError(Typed(2, {1}).Number(5, 256), StatusCode::kCorrupt, "does not fit u8");
  ExpectError(Typed(3, {1}).Number(5, -129), StatusCode::kCorrupt, "does not fit i8");
  ExpectError(Typed(12, {1}).Number(11, 1LL << 32), StatusCode::kCorrupt, "does not fit u32");
}

TEST(TensorProto, StringsScalarsAndEmpty) {
  const Result<Value> s = Read(Typed(8, {2}).Text(6, "a").Text(6, std::string("b\0c", 3)));
  ASSERT_TRUE(s.ok());
  EXPECT_THAT(s->strings().values, ElementsAre("a", std::string("b\0c", 3)));
  ExpectError(Typed(8, {3}).Text(6, "a"), StatusCode::kCorrupt, "has 1 values");
  ExpectError(Typed(8, {1}).Text(9, "a"), StatusCode::kCorrupt, "strings cannot be stored as raw");
  EXPECT_EQ(Read(Typed(1, {}).Float(4, 7))->tensor().rank(), 0);
  EXPECT_EQ(Read(Typed(1, {0, 4}))->tensor().shape(), (Shape{0, 4}));
  EXPECT_EQ(Read(Typed(7, {0}))->tensor().bytes(), 0u);
}

TEST(TensorProto, BoolBytesAreNormalised) {
  EXPECT_EQ(BytesOf(*Read(RawTensor("b", 9, {3}, Raw<uint8_t>({0, 2, 255})))), Raw<uint8_t>({0, 1, 1}));
}

TEST(TensorProto, ViewsAlignedBytesCopiesOthers) {
  // 8 bytes of message (dims, type, pad name, key and length) before the data puts it at offset `lead`.
  for (size_t lead = 0; lead < 8; ++lead) {
    const Message m = Message().Number(1, 2).Number(2, 1).Text(8, std::string(lead, 'n')).Text(9, Raw<float>({1, 2}));
    auto owner = std::make_shared<std::string>(m.bytes());
    const Result<Value> v = ReadTensorProto(AsBytes(*owner), owner);
    ASSERT_TRUE(v.ok());
    const char* data = static_cast<const char*>(v->tensor().raw_data());
    const char* raw = owner->data() + owner->size() - 8;
    EXPECT_EQ(data == raw, reinterpret_cast<uintptr_t>(raw) % 4 == 0) << lead;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 4, 0u);
    EXPECT_THAT(v->tensor().values<float>(), ElementsAre(1, 2));
    const Result<Value> copy = ReadTensorProto(AsBytes(*owner));
    EXPECT_NE(copy->tensor().raw_data(), static_cast<const void*>(raw));
  }
}

TEST(TensorProto, RefusesBadHeads) {
  ExpectError(RawTensor("t", 0, {1}, ""), StatusCode::kUnsupported, "element type 0");
  ExpectError(RawTensor("t", 29, {1}, ""), StatusCode::kUnsupported, "element type 29");
  ExpectError(RawTensor("t", 1, {-1}, ""), StatusCode::kCorrupt, "dimension -1 is negative");
  ExpectError(RawTensor("t", 1, {1LL << 40, 1LL << 40}, ""), StatusCode::kCorrupt, "too large");
  ExpectError(RawTensor("t", 1, {1LL << 62}, ""), StatusCode::kInvalidArgument, "too large");
  ExpectError(RawTensor("t", 1, {1LL << 40}, ""), StatusCode::kResourceExhausted, "the limit is");
  ExpectError(Typed(7, {1LL << 30}), StatusCode::kCorrupt, "too few");
  Message deep;
  for (int i = 0; i < 40; ++i) deep.Number(1, 1);
  ExpectError(deep.Number(2, 1), StatusCode::kResourceExhausted, "more than 16 dimensions");
  ExpectError(Typed(1, {1}).Number(14, 1), StatusCode::kInvalidArgument, "external file");
  ExpectError(Typed(1, {1}).Sub(3, Message().Number(1, 0)), StatusCode::kUnsupported, "segments");
  Limits limits;
  limits.memory_bytes = 100;
  ExpectError(RawTensor("t", 2, {200}, std::string(200, 'x')), StatusCode::kResourceExhausted, "limit of 100", limits);
}

TEST(TensorProto, WriteReadsBack) {
  const Tensor t = Tensor::FromValues<int16_t>({2, 3}, std::vector<int16_t>{1, -2, 3, 4, 5, 6});
  for (const Tensor& tensor : {t, Tensor::WrapStrided(DType::kI16, {3, 2}, {1, 3}, t.raw_data())}) {
    const Result<std::string> bytes = WriteTensorProto(tensor, "x");
    ASSERT_TRUE(bytes.ok());
    const Result<Value> back = ReadTensorProto(AsBytes(*bytes));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->tensor().shape(), tensor.shape());
    EXPECT_EQ(BytesOf(*back), BytesOf(Value(tensor.Contiguous().value())));
  }
  const Value block = Tensor::Allocate(DType::kQ8_0, {32}).value();
  EXPECT_EQ(WriteTensorProto(block, "").status().code(), StatusCode::kUnsupported);
  EXPECT_FALSE(WriteTensorProto(Value::Sequence({}), "").ok());
  EXPECT_FALSE(WriteTensorProto(Value(), "").ok());
}

ValueType Kind(ValueKind kind) {
  ValueType t;
  t.kind = kind;
  return t;
}

TEST(ValueProto, NestedValuesReadBack) {
  const Value f = Tensor::FromValues<float>({2}, std::vector<float>{1, 2});
  const Value s = StringTensor{{1}, {"hi"}};
  const Value map = Value::Map(ValueMap{std::map<std::string, Value>{{"a", f}, {"b", f}}});
  const Value sequence = Value::Sequence({map, map});
  const Value optional = Value::Optional(sequence);
  const Result<std::string> bytes = WriteValueProto(optional, "o");
  ASSERT_TRUE(bytes.ok());
  const Result<Value> back = ReadValueProto(AsBytes(*bytes), Kind(ValueKind::kOptional));
  ASSERT_TRUE(back.ok()) << back.status().message();
  const ValueSequence& list = back->optional_element().sequence();
  ASSERT_EQ(list.size(), 2u);
  const auto& entries = std::get<std::map<std::string, Value>>(list[1].map().entries);
  EXPECT_THAT(entries.at("b").tensor().values<float>(), ElementsAre(1, 2));

  const Result<std::string> none = WriteValueProto(Value::Optional(Value()), "");
  EXPECT_FALSE(ReadValueProto(AsBytes(*none), Kind(ValueKind::kOptional))->optional_element().has_value());

  const Result<std::string> strings = WriteValueProto(Value::Sequence({s}), "");
  EXPECT_THAT(ReadValueProto(AsBytes(*strings), Kind(ValueKind::kSequence))->sequence()[0].strings().values,
              ElementsAre("hi"));
  const Result<std::string> ints = WriteValueProto(Value::Map(ValueMap{std::map<int64_t, Value>{{-3, f}}}), "");
  const Value int_map = ReadValueProto(AsBytes(*ints), Kind(ValueKind::kMap)).value();
  EXPECT_EQ((std::get<std::map<int64_t, Value>>(int_map.map().entries).count(-3)), 1u);
}

TEST(ValueProto, RefusesBadOnes) {
  const Message tensor = FloatTensor("", {1}, {1});
  const auto read = [](const Message& m, ValueKind kind) { return ReadValueProto(AsBytes(m.bytes()), Kind(kind)); };
  EXPECT_EQ(read(Message().Sub(3, tensor).Sub(5, Message()), ValueKind::kSequence).status().code(),
            StatusCode::kCorrupt);
  EXPECT_EQ(read(Message().Sub(4, tensor), ValueKind::kSequence).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(read(Message().Number(2, 7).Number(3, 1), ValueKind::kMap).status().code(), StatusCode::kCorrupt);
  EXPECT_FALSE(read(tensor, ValueKind::kNone).ok());
  Message deep;
  for (int i = 0; i < 100; ++i) deep = Message().Sub(5, deep);
  EXPECT_EQ(read(deep, ValueKind::kSequence).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace quern
