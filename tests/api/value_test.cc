// Values through the C ABI: memory, strides, kinds, serialized forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "quern/quern.hpp"

namespace {

using quern::Value;
using testing::ElementsAre;
using testing::HasSubstr;

quern_status Wrap(std::vector<std::int64_t> dims, const std::int64_t* strides, void* data, std::size_t bytes,
                  quern_value** out, std::int32_t dtype = QUERN_F32) {
  return quern_tensor_wrap(dtype, static_cast<std::int32_t>(dims.size()), dims.data(), strides, data, bytes, nullptr,
                           nullptr, out);
}

TEST(ApiValue, WrapsMemoryWithoutACopy) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  const Value v = Value::Wrap({2, 3}, data);
  EXPECT_EQ(v.raw_data(), data);
  EXPECT_THAT(v.shape(), ElementsAre(2, 3));
  EXPECT_THAT(v.strides(), ElementsAre(3, 1));
  EXPECT_EQ(v.bytes(), sizeof data);
  EXPECT_EQ(v.kind(), QUERN_KIND_TENSOR);
  EXPECT_THROW(v.data<double>(), quern::Error);
}

TEST(ApiValue, ChecksWhatStridesReach) {
  float data[6] = {};
  quern_value* v = nullptr;
  const std::int64_t transposed[2] = {1, 3};
  EXPECT_EQ(Wrap({3, 2}, transposed, data, sizeof data, &v), QUERN_OK);
  quern_value_free(v);
  v = nullptr;
  const std::int64_t beyond[2] = {1, 4};
  EXPECT_EQ(Wrap({3, 2}, beyond, data, sizeof data, &v), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("reach element 6"));
  const std::int64_t negative[2] = {-1, 3};
  EXPECT_EQ(Wrap({3, 2}, negative, data, sizeof data, &v), QUERN_INVALID_ARGUMENT);
  const std::int64_t huge[2] = {INT64_MAX / 2, INT64_MAX / 2};
  EXPECT_EQ(Wrap({3, 3}, huge, data, sizeof data, &v), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(Wrap({7}, nullptr, data, sizeof data, &v), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("takes 28 bytes, 24 were given"));
  EXPECT_EQ(v, nullptr);
}

TEST(ApiValue, RefusesWhatCannotBeATensor) {
  char data[16] = {};
  quern_value* v = nullptr;
  EXPECT_EQ(Wrap({-1}, nullptr, data, 16, &v), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(Wrap({INT64_MAX, INT64_MAX}, nullptr, data, 16, &v), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(Wrap(std::vector<std::int64_t>(17, 1), nullptr, data, 16, &v), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(Wrap({1}, nullptr, data, 16, &v, 77), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(Wrap({1}, nullptr, data + 1, 15, &v), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("aligned"));
  EXPECT_EQ(Wrap({1}, nullptr, nullptr, 4, &v), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(Wrap({0, 3}, nullptr, nullptr, 0, &v), QUERN_OK) << quern_error_message();
  quern_value_free(v);
  EXPECT_EQ(quern_tensor_create(QUERN_F32, 1, nullptr, &v), QUERN_INVALID_ARGUMENT);
  const std::int64_t big[1] = {std::int64_t{1} << 60};
  EXPECT_NE(quern_tensor_create(QUERN_F32, 1, big, &v), QUERN_OK);
  EXPECT_EQ(quern_tensor_create(QUERN_F32, 1, big, nullptr), QUERN_INVALID_ARGUMENT);
}

TEST(ApiValue, ReleasesMemoryOnceWhenTheLastHandleGoes) {
  int released = 0;
  std::int32_t data[2] = {1, 2};
  const std::int64_t dims[1] = {2};
  quern_value* v = nullptr;
  const auto release = [](void* user, void*) { ++*static_cast<int*>(user); };
  ASSERT_EQ(quern_tensor_wrap(QUERN_I32, 1, dims, nullptr, data, sizeof data, release, &released, &v), QUERN_OK);
  quern_value* shared = quern_value_share(v);
  quern_value_free(v);
  EXPECT_EQ(released, 0);
  quern_value_free(shared);
  EXPECT_EQ(released, 1);
  EXPECT_NE(quern_tensor_wrap(QUERN_I32, 1, dims, nullptr, data, 1, release, &released, &v), QUERN_OK);
  EXPECT_EQ(released, 1) << "a call that fails leaves the memory to the caller";
}

TEST(ApiValue, HoldsStringsSequencesOptionalsAndMaps) {
  const Value strings = Value::Strings({2}, {"a", std::string("b\0c", 3)});
  EXPECT_EQ(strings.dtype(), QUERN_STRING);
  EXPECT_EQ(strings.string(1), std::string("b\0c", 3));
  EXPECT_THROW(strings.string(2), quern::Error);

  const Value numbers = Value::Tensor<float>({2}, {1.5f, 2.5f});
  const Value sequence = Value::Sequence({numbers, strings});
  EXPECT_EQ(sequence.kind(), QUERN_KIND_SEQUENCE);
  EXPECT_EQ(sequence.size(), 2u);
  EXPECT_EQ(sequence.element(0).data<float>()[1], 2.5f);
  EXPECT_THROW(sequence.element(2), quern::Error);

  EXPECT_EQ(Value::Optional(Value()).size(), 0u);
  EXPECT_EQ(Value::Optional(numbers).element(0).raw_data(), numbers.raw_data());

  const Value map = Value::Map(Value::Tensor<std::int64_t>({2}, {7, 3}), {numbers, strings});
  EXPECT_EQ(map.size(), 2u);
  EXPECT_EQ(map.keys().data<std::int64_t>()[0], 3) << "sorted by key";
  EXPECT_EQ(map.element(0).kind(), QUERN_KIND_STRINGS);
  EXPECT_EQ(Value::Map(Value::Strings({1}, {"k"}), {numbers}).keys().string(0), "k");
  EXPECT_THROW(Value::Map(Value::Tensor<std::int64_t>({2}, {7, 7}), {numbers, numbers}), quern::Error);
  EXPECT_THROW(Value::Map(numbers, {numbers, numbers}), quern::Error);

  const Value one = Value::Tensor<float>({}, {1}), two = Value::Tensor<float>({}, {2});
  const Value scores = Value::Map(Value::Tensor<std::int64_t>({2}, {7, 3}), {one, two});
  EXPECT_EQ(scores.numbers<float>(), (std::vector<float>{2, 1})) << "sorted by key";
  EXPECT_THROW(scores.numbers<double>(), quern::Error);
  EXPECT_THROW(map.numbers<float>(), quern::Error);
  EXPECT_THROW(numbers.numbers<float>(), quern::Error);
  EXPECT_THROW(Value::Map(Value::Tensor<std::int64_t>({1}, {7}), {numbers, numbers}), quern::Error);
}

TEST(ApiValue, GoesThroughSerializedForms) {
  const Value numbers = Value::Tensor<float>({1, 2}, {1.5f, -2});
  const Value back = Value::FromProto(QUERN_KIND_TENSOR, numbers.ToProto("n"));
  EXPECT_THAT(back.shape(), ElementsAre(1, 2));
  EXPECT_EQ(std::memcmp(back.raw_data(), numbers.raw_data(), 8), 0);
  const Value strings = Value::FromProto(QUERN_KIND_TENSOR, Value::Strings({1}, {"x y"}).ToProto());
  EXPECT_EQ(strings.string(0), "x y");
  const Value sequence = Value::FromProto(QUERN_KIND_SEQUENCE, Value::Sequence({numbers, numbers}).ToProto("s"));
  EXPECT_EQ(sequence.element(1).data<float>()[0], 1.5f);
  try {
    Value::FromProto(QUERN_KIND_TENSOR, "\x08\xff");
    FAIL() << "a message cut short was read";
  } catch (const quern::Error& e) {
    EXPECT_EQ(e.status(), QUERN_CORRUPT) << e.what();
  }
}

TEST(ApiValue, NullHandlesAreHarmless) {
  quern_value_free(nullptr);
  EXPECT_EQ(quern_value_kind(nullptr), QUERN_KIND_NONE);
  EXPECT_EQ(quern_value_rank(nullptr), -1);
  EXPECT_EQ(quern_value_dims(nullptr), nullptr);
  EXPECT_EQ(quern_value_data(nullptr), nullptr);
  EXPECT_EQ(quern_value_count(nullptr), 0u);
  EXPECT_EQ(quern_value_share(nullptr), nullptr);
  quern_value* v = nullptr;
  EXPECT_EQ(quern_value_element(nullptr, 0, &v), QUERN_INVALID_ARGUMENT);
}

TEST(ApiValue, KnowsElementTypes) {
  EXPECT_STREQ(quern_dtype_name(QUERN_BF16), "bf16");
  EXPECT_EQ(quern_dtype_block_bytes(QUERN_Q4_0), 18u);
  EXPECT_EQ(quern_dtype_block_elements(QUERN_Q4_0), 32u);
  EXPECT_EQ(quern_dtype_block_bytes(-1), 0u);
  EXPECT_STREQ(quern_dtype_name(1 << 20), "undefined");
}

}  // namespace
