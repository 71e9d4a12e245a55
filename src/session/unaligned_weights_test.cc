// Weights that a file holds unaligned: results as of aligned ones, and no copy where kernels pack or only copy them.
// Those that are computed when they are asked for: the same.
#include <gtest/gtest.h>

#include <cstring>

#include "session/test_graphs.h"

namespace quern {
namespace {

// Constants of a graph that lie one byte beside their alignment.
class Unaligned {
 public:
  GraphValue* Put(GraphMaker& g, const std::string& name, const Tensor& t) {
    bytes_.push_back(std::make_shared<std::vector<char>>(t.bytes() + 1));
    char* at = bytes_.back()->data() + 1;
    std::memcpy(at, t.raw_data(), t.bytes());
    tensors_.push_back(Tensor::Deferred(t.dtype(), t.shape(), at, bytes_.back()).value());
    return g.Const(name, tensors_.back());
  }
  // How many were copied so far. They are of no use afterwards.
  int CountCopied() {
    int copied = 0;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      char& first = (*bytes_[i])[1];
      first = static_cast<char>(first ^ 1);  // a copy has not changed
      copied += *static_cast<const char*>(tensors_[i].raw_data()) != first;
    }
    return copied;
  }

 private:
  std::vector<std::shared_ptr<std::vector<char>>> bytes_;
  std::vector<Tensor> tensors_;
};

struct Built {
  std::unique_ptr<Graph> graph;
  std::vector<Value> inputs;
};

// `put` adds a constant.
template <typename Put>
Built Build(const Put& put) {
  GraphMaker g;
  Tensor words = Tensor::FromValues<int64_t>(Shape{1, 4}, std::vector<int64_t>{3, 0, 9, 3});
  GraphValue* x = g.In("x", DType::kF32, {1, 64, 14, 14});
  const std::map<std::string, Attribute, std::less<>> same = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  auto depthwise = same;
  depthwise["group"] = int64_t{64};
  GraphValue* a = g.Op("Conv", {x, put(g, "ka", DrawFloats(Shape{64, 64, 3, 3}, 1))}, "a", same);
  GraphValue* b = g.Op("Conv", {a, put(g, "kb", DrawFloats(Shape{64, 1, 3, 3}, 2))}, "b", depthwise);
  GraphValue* e = g.Op("Gather", {put(g, "table", DrawFloats(Shape{10, 96}, 3)), g.In("w", DType::kI64, {1, 4})}, "e");
  GraphValue* c = g.Op("MatMul", {e, put(g, "wc", DrawFloats(Shape{96, 128}, 4))}, "c");
  GraphValue* l = g.Op("LSTM",
                       {c, put(g, "lw", DrawFloats(Shape{1, 64, 128}, 5)),
                        put(g, "lr", DrawFloats(Shape{1, 64, 16}, 6)), put(g, "lb", DrawFloats(Shape{1, 128}, 7))},
                       "l", {{"hidden_size", int64_t{16}}});
  return {g.Finish({b, c, l}), {DrawFloats(Shape{1, 64, 14, 14}, 8), words}};
}

std::vector<Value> RunBuilt(Built built, const char* provider) {
  SessionOptions options;
  options.threads = 1;
  options.pack_cache = "";
  options.providers = {provider};
  Result<std::unique_ptr<Session>> session = Session::Create(std::move(built.graph), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  std::vector<Value> outputs(3);
  const Status status = (*session)->Run(built.inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return outputs;
}

TEST(ComputedWeights, StayOutOfMemoryWhereTheyArePacked) {
  const std::vector<Value> expected =
      RunBuilt(Build([](GraphMaker& g, const char* name, const Tensor& t) { return g.Const(name, t); }), "cpu");
  std::map<std::string, Tensor> weights;
  const std::vector<Value> actual =
      RunBuilt(Build([&](GraphMaker& g, const char* name, const Tensor& t) {
                 const auto compute = [t](void* to) { std::memcpy(to, t.raw_data(), t.bytes()); };
                 const Tensor computed = Tensor::Computed(t.dtype(), t.shape(), compute).value();
                 weights[name] = computed;
                 return g.Const(name, computed);
               }),
               "cpu");
  for (size_t i = 0; i < expected.size(); ++i) {
    const Tensor &e = expected[i].tensor(), &a = actual[i].tensor();
    ASSERT_EQ(e.bytes(), a.bytes());
    EXPECT_EQ(std::memcmp(e.raw_data(), a.raw_data(), e.bytes()), 0) << i;
  }
  for (const char* packed : {"ka", "kb", "wc"}) {
    EXPECT_NE(weights[packed].Transient()->raw_data(), weights[packed].address()) << packed;
  }
}

TEST(UnalignedWeights, GiveTheSameResults) {
  for (const char* provider : {"cpu", "reference"}) {
    Unaligned unaligned;
    const std::vector<Value> expected =
        RunBuilt(Build([](GraphMaker& g, const char* name, const Tensor& t) { return g.Const(name, t); }), provider);
    const std::vector<Value> actual = RunBuilt(
        Build([&](GraphMaker& g, const char* name, const Tensor& t) { return unaligned.Put(g, name, t); }), provider);
    for (size_t i = 0; i < expected.size(); ++i) {
      const Tensor &want = expected[i].tensor(), &have = actual[i].tensor();
      ASSERT_EQ(want.bytes(), have.bytes());
      EXPECT_EQ(std::memcmp(want.raw_data(), have.raw_data(), want.bytes()), 0) << provider << " output " << i;
    }
  }
}

TEST(UnalignedWeights, AreNotCopiedBesideTheirPackedForm) {
  Unaligned unaligned;
  RunBuilt(Build([&](GraphMaker& g, const char* name, const Tensor& t) { return unaligned.Put(g, name, t); }), "cpu");
  EXPECT_EQ(unaligned.CountCopied(), 1) << "the LSTM's bias, whose halves are added";
}

}  // namespace
}  // namespace quern
