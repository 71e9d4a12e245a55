#include "session/shared_weights.h"

#include <gtest/gtest.h>

#include <map>

#include "graph/text.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

std::shared_ptr<const std::byte> Bytes(size_t n) { return {new std::byte[n](), std::default_delete<std::byte[]>()}; }

ContentKey KeyOf(uint64_t n) { return {n, n * 7}; }

TEST(SharedWeights, HoldsWhatIsInUse) {
  SharedWeights store(nullptr);
  EXPECT_EQ(store.Find(KeyOf(1), 100), nullptr);
  auto packed = Bytes(100);
  store.Put(KeyOf(1), packed, 100);
  EXPECT_EQ(store.Find(KeyOf(1), 100), packed);
  EXPECT_EQ(store.Find(KeyOf(1), 99), nullptr);
  EXPECT_EQ(store.Find(KeyOf(2), 100), nullptr);
  packed = nullptr;
  EXPECT_EQ(store.Find(KeyOf(1), 100), nullptr) << "nothing reads it any more";
}

class Behind final : public kernels::PackedStore {
 public:
  uint64_t seed() const override { return 5; }
  std::shared_ptr<const std::byte> Find(const ContentKey& key, size_t) override {
    ++asked;
    const auto it = held.find(key.high);
    return it == held.end() ? nullptr : it->second;
  }
  void Put(const ContentKey& key, const std::shared_ptr<const std::byte>& packed, size_t) override {
    held[key.high] = packed;
  }
  std::map<uint64_t, std::shared_ptr<const std::byte>> held;
  int asked = 0;
};

TEST(SharedWeights, AsksTheStoreBehindOnce) {
  const auto behind = std::make_shared<Behind>();
  SharedWeights store(behind);
  EXPECT_EQ(store.seed(), 5u);
  const auto packed = Bytes(8), other = Bytes(8);
  behind->held[1] = packed;
  EXPECT_EQ(store.Find(KeyOf(1), 8), packed);
  EXPECT_EQ(store.Find(KeyOf(1), 8), packed);
  EXPECT_EQ(behind->asked, 1);
  store.Put(KeyOf(2), other, 8);
  EXPECT_EQ(behind->held[2], other);
}

// y = x * w in one branch, -x * w in the other; w has so many rows of halves.
std::unique_ptr<Graph> Branches(int64_t rows) {
  const std::string n = std::to_string(rows), x = "f32[2," + n + "]", w = "f32[" + n + ",128]";
  const std::string inputs = "      input %x: " + x + "\n      input %w: " + w + "\n";
  auto graph = ParseGraph("graph opset(\"\": 17) {\n  input %c: bool[]\n  input %x: " + x + "\n  input %w: " + w +
                          "\n  %y = If(%c) captures(%x, %w) {\n    else_branch = graph {\n" + inputs +
                          "      %n = Neg(%x)\n      %e = MatMul(%n, %w)\n      return %e\n    },\n" +
                          "    then_branch = graph {\n" + inputs +
                          "      %t = MatMul(%x, %w)\n      return %t\n    }\n  }\n  return %y\n}\n")
                   .value();
  Tensor halves = Tensor::Allocate(DType::kF32, Shape{rows, 128}).value();
  for (float& v : halves.values<float>()) v = 0.5f;
  GraphValue* given = graph->FindValue("w");
  graph->ReplaceAllUses(given, graph->AddConstant("weights", Value(halves)));
  graph->RemoveValue(given);
  return graph;
}

TEST(SharedWeights, OfBranchesThatReadLargeOnes) {
  EXPECT_TRUE(SharesWeights(*Branches(128)));
  EXPECT_FALSE(SharesWeights(*Branches(8)));
  const auto session = MakeSession(Branches(128));
  const Tensor x = DrawFloats(Shape{2, 128}, 1);
  double sum = 0;
  for (int64_t i = 0; i < 128; ++i) sum += 0.5 * x.values<float>()[i];
  for (const bool then : {true, false}) {
    const bool c[] = {then};
    const Value inputs[] = {Tensor::FromValues<bool>(Shape{}, c), x};
    Value outputs[1];
    ASSERT_TRUE(session->Run(inputs, outputs).ok());
    EXPECT_NEAR(outputs[0].tensor().values<float>()[0], then ? sum : -sum, 1e-4);
  }
}

}  // namespace
}  // namespace quern
