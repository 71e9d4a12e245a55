// Shapes, strided views, sizes of every kind of element type, and values of each ONNX kind.
#include "tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "tensor/value.h"

namespace quern {
namespace {

constexpr int64_t kHuge = int64_t{1} << 40;

std::vector<float> Counted(size_t count) {
  std::vector<float> v(count);
  std::iota(v.begin(), v.end(), 0.0f);
  return v;
}

std::vector<float> Elements(const Tensor& t) {
  const std::span<const float> v = t.values<float>();
  return {v.begin(), v.end()};
}

TEST(Shape, IsAListOfExtents) {
  Shape s = {2, 3};
  s.push_back(4);
  s.insert(0, 7);
  EXPECT_EQ(s, (Shape{7, 2, 3, 4}));
  s.insert(4, 9);
  s.erase(1);
  EXPECT_EQ(s, (Shape{7, 3, 4, 9}));
  EXPECT_EQ(s.ToString(), "[7,3,4,9]");
  EXPECT_EQ(s.num_elements(), 756);
  EXPECT_EQ(s.num_elements(1, 3), 12);
  EXPECT_EQ(s.num_elements(2, 2), 1);
  EXPECT_EQ(s.ContiguousStrides(), (Shape{108, 36, 9, 1}));
  EXPECT_FALSE(s == (Shape{7, 3, 4}));
  EXPECT_FALSE(s == (Shape{7, 3, 4, 8}));
  EXPECT_EQ(Shape{}.num_elements(), 1);
  EXPECT_EQ(Shape{}.ToString(), "[]");
  EXPECT_EQ((Shape{3, 0, 2}).num_elements(), 0);
}

TEST(ShapeDeathTest, RankHasALimit) {
  Shape s = Shape::Filled(kMaxRank, 1);
  EXPECT_DEATH(s.push_back(1), "rank");
  EXPECT_DEATH(Shape(std::vector<int64_t>(kMaxRank + 1, 1)), "rank");
}

TEST(BroadcastShapes, AsNumpy) {
  EXPECT_EQ(BroadcastShapes({2, 1, 4}, {3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(BroadcastShapes({}, {5}), Shape{5});
  EXPECT_EQ(BroadcastShapes({1}, {0}), Shape{0});
  EXPECT_EQ(BroadcastShapes({0, 3}, {1, 3}), (Shape{0, 3}));
  EXPECT_EQ(BroadcastShapes({2}, {3}), std::nullopt);
  EXPECT_EQ(BroadcastShapes({0}, {2}), std::nullopt);
}

TEST(BroadcastStrides, RepeatedExtentsHaveStrideZero) {
  const Shape shape = {3, 1, 4};
  EXPECT_EQ(BroadcastStrides(shape, shape.ContiguousStrides(), {2, 3, 5, 4}), (Shape{0, 4, 0, 1}));
  EXPECT_EQ(BroadcastStrides({}, {}, {2, 2}), (Shape{0, 0}));
  EXPECT_EQ(BroadcastStrides({3}, {-2}, {4, 3}), (Shape{0, -2}));  // a reversed view stays one
  // Walked by these strides, the tensor is the one that the broadcast rule gives.
  std::vector<float> data = Counted(12);
  const Tensor view = Tensor::WrapStrided(
      DType::kF32, {2, 3, 5, 4}, BroadcastStrides(shape, shape.ContiguousStrides(), {2, 3, 5, 4}), data.data());
  const std::vector<float> got = Elements(view.Contiguous().value());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], data[i / 20 % 3 * 4 + i % 4]) << i;
  }
}

TEST(TensorBytes, WholeBytes) {
  EXPECT_EQ(TensorBytes(DType::kF32, {2, 3}).value(), 24u);
  EXPECT_EQ(TensorBytes(DType::kC128, {}).value(), 16u);
  EXPECT_EQ(TensorBytes(DType::kBool, {0, 7}).value(), 0u);
}

TEST(TensorBytes, SubByteTypesRoundUpOverTheWholeTensor) {
  EXPECT_EQ(TensorBytes(DType::kU4, {3, 3}).value(), 5u);
  EXPECT_EQ(TensorBytes(DType::kI4, {1}).value(), 1u);
  EXPECT_EQ(TensorBytes(DType::kF4E2M1, {}).value(), 1u);
  EXPECT_EQ(TensorBytes(DType::kU2, {3, 3}).value(), 3u);
  EXPECT_EQ(TensorBytes(DType::kI2, {8}).value(), 2u);
  EXPECT_EQ(TensorBytes(DType::kI4, {0}).value(), 0u);
  for (const int64_t n : {0, 1, 2, 3, 4, 5, 9}) {
    EXPECT_EQ(TensorBytes(DType::kF6E2M3, {n}).value(), static_cast<size_t>(6 * n + 7) / 8) << n;
  }
}

TEST(TensorBytes, BlocksAreWholeAlongTheLastDimension) {
  EXPECT_EQ(TensorBytes(DType::kQ4_0, {3, 64}).value(), 3u * 2 * 18);
  EXPECT_EQ(TensorBytes(DType::kQ4_1, {32}).value(), 20u);
  EXPECT_EQ(TensorBytes(DType::kQ8_0, {2, 2, 32}).value(), 4u * 34);
  // 64 elements, but no row is a whole number of blocks.
  EXPECT_THAT(TensorBytes(DType::kQ4_0, {4, 16}).status().message(), testing::HasSubstr("not a multiple of the 32"));
  EXPECT_FALSE(TensorBytes(DType::kQ8_0, {}).ok());
}

TEST(TensorBytes, WhatCannotBeIsAnError) {
  EXPECT_FALSE(TensorBytes(DType::kF32, {2, -1}).ok());
  EXPECT_FALSE(TensorBytes(DType::kU8, {kHuge, kHuge}).ok());
  // The elements can be counted, the bytes cannot.
  EXPECT_TRUE(TensorBytes(DType::kU8, {kHuge, 1 << 20}).ok());
  EXPECT_FALSE(TensorBytes(DType::kF64, {kHuge, 1 << 20}).ok());
  EXPECT_FALSE(TensorBytes(DType::kC128, {kHuge, 1 << 22}).ok());
  EXPECT_FALSE(TensorBytes(DType::kI4, {std::numeric_limits<int64_t>::max(), 3}).ok());
  // An extent of zero does not excuse the others: indexing multiplies them.
  EXPECT_FALSE(TensorBytes(DType::kF32, {0, kHuge, kHuge}).ok());
  EXPECT_FALSE(TensorBytes(DType::kString, {2}).ok());
  EXPECT_FALSE(TensorBytes(DType::kUndefined, {2}).ok());
  EXPECT_FALSE(Tensor::Allocate(DType::kF32, {kHuge, kHuge}).ok());
}

TEST(Tensor, AllocationIsAlignedAndItsMemoryShared) {
  const Tensor t = Tensor::Allocate(DType::kF64, {5}).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw_data()) % 64, 0u);
  EXPECT_EQ(t.bytes(), 40u);
  const Tensor copy = t;
  copy.data<double>()[4] = 3;
  EXPECT_EQ(t.values<double>()[4], 3);
  EXPECT_EQ(t.owner().use_count(), 2);
  EXPECT_FALSE(Tensor().defined());
  EXPECT_TRUE(Tensor::Allocate(DType::kF32, {0}).value().values<float>().empty());
}

TEST(Tensor, ReversedView) {
  std::vector<float> data = Counted(12);  // 3 x 4
  const Tensor view = Tensor::WrapStrided(DType::kF32, {3, 4}, {-4, -1}, &data[11]);
  EXPECT_FALSE(view.is_contiguous());
  EXPECT_EQ(view.bytes(), 48u);
  EXPECT_EQ(Elements(view.Contiguous().value()), (std::vector<float>{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
}

TEST(Tensor, RepeatedView) {
  std::vector<float> data = Counted(3);
  const Tensor view = Tensor::WrapStrided(DType::kF32, {2, 3, 2}, {0, 1, 0}, data.data());
  EXPECT_FALSE(view.is_contiguous());
  EXPECT_EQ(Elements(view.Contiguous().value()), (std::vector<float>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
}

TEST(Tensor, ContiguousIsTheTensorItselfWhereItCanBe) {
  std::vector<float> data = Counted(6);
  const Tensor dense = Tensor::WrapStrided(DType::kF32, {2, 3}, {3, 1}, data.data());
  EXPECT_EQ(dense.Contiguous().value().raw_data(), data.data());
  EXPECT_NE(dense.Clone().value().raw_data(), data.data());
  // The stride of one element, or of none, says nothing.
  EXPECT_TRUE(Tensor::WrapStrided(DType::kF32, {1, 3}, {-77, 1}, data.data()).is_contiguous());
  EXPECT_EQ(Tensor::WrapStrided(DType::kF32, {1, 3}, {-77, 1}, data.data()).strides(), (Shape{3, 1}));
  EXPECT_TRUE(Tensor::WrapStrided(DType::kF32, {0, 3}, {5, -1}, data.data()).is_contiguous());
  EXPECT_TRUE(Tensor::WrapStrided(DType::kF32, {}, {}, data.data()).is_contiguous());
  EXPECT_EQ(Elements(dense.Reshaped({3, 1, 2})), data);
}

// Every element against its index arithmetic, both sides strided, for element sizes of 1 to 16 bytes.
TEST(CopyTensor, AnyStridesOnBothSides) {
  std::mt19937 rng(3);
  for (DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kI64, DType::kC128}) {
    for (int round = 0; round < 40; ++round) {
      const int rank = static_cast<int>(rng() % 5);
      Shape shape;
      for (int i = 0; i < rank; ++i) shape.push_back(rng() % 16 ? static_cast<int64_t>(rng() % 4) + 1 : 0);
      // Dimensions in a random order in memory, with gaps, some reversed; sources may repeat.
      const auto strides = [&](bool may_repeat, int64_t* first, int64_t* count) {
        std::vector<int> axes(static_cast<size_t>(rank));
        std::iota(axes.begin(), axes.end(), 0);
        std::shuffle(axes.begin(), axes.end(), rng);
        Shape s = Shape::Filled(rank, 0);
        int64_t step = 1;
        *first = 0;
        for (int axis : axes) {
          if (may_repeat && rng() % 4 == 0) continue;
          const bool reversed = rng() % 3 == 0;
          s[axis] = reversed ? -step : step;
          if (reversed) *first += step * std::max<int64_t>(shape[axis] - 1, 0);
          step *= std::max<int64_t>(shape[axis], 1) + static_cast<int64_t>(rng() % 2);
        }
        *count = step;
        return s;
      };
      const auto element = static_cast<int64_t>(DTypeBytes(dtype));
      int64_t src_first, src_count, dst_first, dst_count;
      const Shape src_strides = strides(true, &src_first, &src_count);
      const Shape dst_strides = strides(false, &dst_first, &dst_count);
      std::vector<uint8_t> src(static_cast<size_t>(src_count * element)), dst(static_cast<size_t>(dst_count * element));
      for (uint8_t& b : src) b = static_cast<uint8_t>(rng());
      std::vector<uint8_t> want = dst;
      for (int64_t flat = 0; flat < shape.num_elements(); ++flat) {
        int64_t from = src_first, to = dst_first, rest = flat;
        for (int i = rank - 1; i >= 0; --i) {
          from += rest % shape[i] * src_strides[i];
          to += rest % shape[i] * dst_strides[i];
          rest /= shape[i];
        }
        std::copy_n(&src[static_cast<size_t>(from * element)], element, &want[static_cast<size_t>(to * element)]);
      }
      CopyTensor(Tensor::WrapStrided(dtype, shape, src_strides, src.data() + src_first * element),
                 Tensor::WrapStrided(dtype, shape, dst_strides, dst.data() + dst_first * element));
      ASSERT_EQ(dst, want) << DTypeName(dtype) << " " << shape.ToString() << " by " << src_strides.ToString() << " to "
                           << dst_strides.ToString();
    }
  }
}

TEST(ToInt64s, OfPackedTypesAndBack) {
  const std::vector<int64_t> values = {0, 1, -1, -2, 1};
  for (const DType t : {DType::kI2, DType::kI4, DType::kI8}) {
    EXPECT_EQ(ToInt64s(FromInt64s(t, {5}, values).value()).value(), values) << DTypeName(t);
  }
  EXPECT_EQ(ToInt64s(FromInt64s(DType::kU2, {5}, values).value()).value(), (std::vector<int64_t>{0, 1, 3, 2, 1}));
  EXPECT_EQ(ToInt64s(FromInt64s(DType::kU4, {5}, values).value()).value(), (std::vector<int64_t>{0, 1, 15, 14, 1}));
}

TEST(ToInt64s, WidensEveryIntegerType) {
  const uint8_t bytes[] = {0, 1, 255};
  EXPECT_EQ(ToInt64s(Tensor::FromValues<uint8_t>({3}, bytes)).value(), (std::vector<int64_t>{0, 1, 255}));
  const int32_t words[] = {-2147483647 - 1, 7};
  EXPECT_EQ(ToInt64s(Tensor::FromValues<int32_t>({2}, words)).value(), (std::vector<int64_t>{-2147483648LL, 7}));
  EXPECT_EQ(ToInt64s(Tensor::Scalar(true)).value(), std::vector<int64_t>{1});
  int64_t data[] = {1, 2, 3, 4};
  EXPECT_EQ(ToInt64s(Tensor::WrapStrided(DType::kI64, {2}, {-2}, &data[3])).value(), (std::vector<int64_t>{4, 2}));
  EXPECT_FALSE(ToInt64s(Tensor::Scalar(1.0f)).ok());
}

TEST(TensorDeathTest, Misuse) {
  std::vector<float> data = Counted(6);
  const Tensor t = Tensor::Wrap(DType::kF32, {2, 3}, data.data());
  EXPECT_DEATH((void)t.data<double>(), "wrong element type");
  EXPECT_DEATH((void)t.Reshaped({4}), "as many elements");
  EXPECT_DEATH((void)Tensor::WrapStrided(DType::kI4, {2, 3}, {3, 1}, data.data()), "whole-byte");
  EXPECT_DEATH((void)Tensor::WrapStrided(DType::kF32, {2, 3}, {3}, data.data()), "one stride per dimension");
  EXPECT_DEATH((void)Tensor::WrapStrided(DType::kF32, {2, 3}, {1, 2}, data.data()).values<float>(), "contiguous");
  EXPECT_DEATH((void)Tensor::FromValues<float>({4}, data), "value count");
  EXPECT_DEATH(CopyTensor(t, t.Reshaped({3, 2})), "equal types and shapes");
}

TEST(Value, EachKindGivesItsContentAndNoOther) {
  const Value none;
  const Value tensor = Tensor::Scalar(2.0f);
  const Value strings = StringTensor{.shape = {2}, .values = {"a", "b"}};
  const Value sequence = Value::Sequence({tensor, tensor});
  const Value full = Value::Optional(tensor), empty = Value::Optional({});
  const Value map = Value::Map({std::map<std::string, Value>{{"x", tensor}}});

  EXPECT_FALSE(none.has_value());
  EXPECT_EQ(tensor.tensor().values<float>()[0], 2);
  EXPECT_EQ(strings.strings().values[1], "b");
  EXPECT_EQ(sequence.sequence().size(), 2u);
  EXPECT_TRUE(full.has_value());
  EXPECT_TRUE(empty.has_value());
  EXPECT_TRUE(full.optional_element().is_tensor());
  EXPECT_FALSE(empty.optional_element().has_value());
  EXPECT_TRUE(std::get<1>(map.map().entries).at("x").is_tensor());

  const Value* const values[] = {&none, &tensor, &strings, &sequence, &full, &map};
  const std::string names[] = {"none", "tensor", "string tensor", "sequence", "optional", "map"};
  for (size_t i = 0; i < std::size(values); ++i) {
    EXPECT_EQ(values[i]->kind(), static_cast<ValueKind>(i));
    EXPECT_EQ(ValueKindName(values[i]->kind()), names[i]);
  }
}

TEST(ValueDeathTest, AnotherKind) {
  const Value none, tensor = Tensor::Scalar(2.0f), sequence = Value::Sequence({});
  EXPECT_DEATH((void)none.tensor(), "another kind");
  EXPECT_DEATH((void)sequence.tensor(), "another kind");
  EXPECT_DEATH((void)tensor.strings(), "another kind");
  EXPECT_DEATH((void)tensor.sequence(), "another kind");
  EXPECT_DEATH((void)tensor.optional_element(), "another kind");
  EXPECT_DEATH((void)sequence.map(), "another kind");
}

TEST(Value, CopiesShareTheirContent) {
  const Value sequence = Value::Sequence({Tensor::Scalar(1.0f)});
  const Value copy = sequence;
  EXPECT_EQ(&copy.sequence(), &sequence.sequence());
}

TEST(Tensor, DeferredOnesAreCopiedWhenTheyAreAskedFor) {
  struct Source {
    char pad;
    char bytes[12];
  };
  const auto source = std::make_shared<Source>();
  const auto put = [&](int i, float value) { std::memcpy(source->bytes + 4 * i, &value, sizeof value); };
  for (int i = 0; i < 3; ++i) put(i, static_cast<float>(i));
  const Tensor t = Tensor::Deferred(DType::kF32, Shape{3}, source->bytes, source).value();
  const Tensor other = t.Reshaped(Shape{3, 1});
  EXPECT_EQ(source.use_count(), 2);
  EXPECT_EQ(t.unaligned_data(), source->bytes);
  EXPECT_NE(t.address(), source->bytes);
  put(1, 5);  // nothing was copied so far
  EXPECT_THAT(t.values<float>(), testing::ElementsAre(0, 5, 2));
  put(1, 7);  // once only, and for all tensors of the memory
  EXPECT_EQ(other.data<float>()[1], 5);
  EXPECT_EQ(t.raw_data(), t.address());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.address()) % 4, 0u);
  const Tensor plain = Tensor::Allocate(DType::kF32, Shape{2}).value();
  EXPECT_EQ(plain.unaligned_data(), plain.raw_data());
  EXPECT_EQ(t.Transient()->raw_data(), t.raw_data());
  EXPECT_EQ(plain.Transient()->raw_data(), plain.raw_data());
}

TEST(Tensor, ComputedOnesAreFilledWhenTheyAreAskedFor) {
  std::vector<void*> filled;
  const auto compute = [&](void* to) {
    filled.push_back(to);
    for (int i = 0; i < 3; ++i) static_cast<float*>(to)[i] = static_cast<float>(2 * i);
  };
  const Tensor t = Tensor::Computed(DType::kF32, Shape{3}, compute).value();
  const Tensor other = t.Reshaped(Shape{3, 1});
  EXPECT_TRUE(filled.empty());
  const Tensor transient = other.Transient().value();
  EXPECT_THAT(filled, testing::ElementsAre(transient.raw_data()));
  EXPECT_NE(transient.raw_data(), t.address());
  EXPECT_EQ(transient.shape(), other.shape());
  EXPECT_THAT(transient.values<float>(), testing::ElementsAre(0, 2, 4));
  EXPECT_EQ(t.unaligned_data(), t.address());
  EXPECT_THAT(t.values<float>(), testing::ElementsAre(0, 2, 4));
  EXPECT_THAT(filled, testing::ElementsAre(transient.raw_data(), t.address()));
  EXPECT_EQ(other.Transient()->raw_data(), t.address());  // at hand by now
  EXPECT_EQ(filled.size(), 2u);
}

}  // namespace
}  // namespace quern
