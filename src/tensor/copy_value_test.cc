#include "tensor/copy_value.h"

#include <gtest/gtest.h>

#include <utility>

namespace quern {
namespace {

Tensor Numbers() { return Tensor::Allocate(DType::kF32, Shape{2}).value(); }

// Of the values given; an initializer list would hold copies of them.
template <typename... V>
Value SequenceOf(V... values) {
  ValueSequence elements;
  (elements.push_back(std::move(values)), ...);
  return Value::Sequence(std::move(elements));
}

// A map whose values are the elements of one tensor, as ZipMap makes it.
Value MapOver(const Tensor& row) {
  std::map<int64_t, Value> entries;
  for (int64_t i = 0; i < row.num_elements(); ++i) {
    entries.emplace(i, Tensor::Wrap(DType::kF32, Shape{}, row.data<float>() + i, row.owner()));
  }
  return Value::Map({std::move(entries)});
}

TEST(OwnsAlone, OfContainersThatNothingElseHolds) {
  const Value tensors = SequenceOf(Numbers(), Numbers()), maps = SequenceOf(MapOver(Numbers()), MapOver(Numbers()));
  EXPECT_TRUE(OwnsAlone(tensors));
  EXPECT_TRUE(OwnsAlone(maps));
  EXPECT_TRUE(OwnsAlone(Value::Optional(Numbers())));
  EXPECT_TRUE(OwnsAlone(SequenceOf()));
}

TEST(OwnsAlone, NotWhereSomebodyHoldsAPart) {
  const Value sequence = SequenceOf(Numbers());
  EXPECT_TRUE(OwnsAlone(sequence));
  const Value second = sequence;  // shares the container
  EXPECT_FALSE(OwnsAlone(sequence));
  const Tensor kept = Numbers();
  float borrowed[2] = {};
  const Value of_kept = SequenceOf(kept), behind = SequenceOf(Numbers(), MapOver(kept)),
              before = SequenceOf(MapOver(kept), Numbers()), within = Value::Optional(sequence),
              of_borrowed = SequenceOf(Tensor::Wrap(DType::kF32, Shape{2}, borrowed));
  for (const Value* v : {&of_kept, &behind, &before, &within, &of_borrowed}) EXPECT_FALSE(OwnsAlone(*v));
}

}  // namespace
}  // namespace quern
