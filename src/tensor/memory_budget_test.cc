#include "tensor/memory_budget.h"

#include <gtest/gtest.h>

#include <cstring>

namespace quern {
namespace {

TEST(MemoryBudget, CountsMemoryUntilItsLastViewIsGone) {
  const auto budget = std::make_shared<MemoryBudget>(1000);
  Tensor view;
  {
    const Result<Tensor> t = AllocateCharged(budget, DType::kF32, Shape{10, 20});
    ASSERT_TRUE(t.ok()) << t.status().message();
    EXPECT_EQ(budget->held_bytes(), 800);
    view = t->Reshaped(Shape{200});
  }
  EXPECT_EQ(budget->held_bytes(), 800);
  const Result<Tensor> more = AllocateCharged(budget, DType::kI8, Shape{201});
  EXPECT_EQ(more.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(more.status().message().find("limit of 1000"), std::string::npos) << more.status().message();
  EXPECT_EQ(budget->held_bytes(), 800);
  EXPECT_TRUE(AllocateCharged(budget, DType::kI8, Shape{200}).ok());
  view = Tensor();
  EXPECT_EQ(budget->held_bytes(), 0);
}

TEST(MemoryBudget, MemoryIsAlignedWhateverItsSize) {
  const auto budget = std::make_shared<MemoryBudget>(int64_t{1} << 30);
  for (int64_t n : {0, 1, 63, 64, 1000, 65535, 65536, 1000000}) {
    for (const Result<Tensor>& t :
         {AllocateCharged(budget, DType::kU8, Shape{n}), Tensor::Allocate(DType::kU8, Shape{n})}) {
      ASSERT_TRUE(t.ok()) << n;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(t->raw_data()) % 64, 0u) << n;
      std::memset(t->raw_data(), 1, static_cast<size_t>(n) / 64 * 64 + 64);  // the rest of the last line, too
    }
  }
  EXPECT_EQ(budget->held_bytes(), 0);
}

TEST(Int64s, EveryIntegerTypeComesBack) {
  const std::vector<int64_t> values = {1, 0, 1};
  for (DType t : {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU64, DType::kU32, DType::kU16, DType::kU8,
                  DType::kBool}) {
    const Result<Tensor> tensor = FromInt64s(t, Shape{3}, values);
    ASSERT_TRUE(tensor.ok()) << DTypeName(t);
    EXPECT_EQ(tensor->bytes(), 3 * DTypeBytes(t));
    EXPECT_EQ(ToInt64s(*tensor).value(), values) << DTypeName(t);
  }
  EXPECT_FALSE(FromInt64s(DType::kF32, Shape{3}, values).ok());
  EXPECT_FALSE(FromInt64s(DType::kI64, Shape{2}, values).ok());
}

}  // namespace
}  // namespace quern
