// State through the C ABI: where it is after each run.
#include <gtest/gtest.h>

#include <vector>

#include "quern/quern.hpp"

namespace {

using quern::Model;
using quern::Session;
using quern::Value;

TEST(ApiState, ARecurrentStateIsWhereItsValueSays) {
  Model m = Model::Create("counter");
  m.Import("", 17).Input("h", QUERN_F32, {1, 3}).Constant("one", Value::Tensor<float>({1}, {1}));
  m.Node("Add", {"h", "one"}, {"next"}).Node("Neg", {"next"}, {"y"}).Output("next").Output("y");
  Session session(m);
  std::vector<float> memory(3, 5);
  const Value buffer = Value::Wrap({1, 3}, memory.data());
  quern_state_spec spec = {};
  spec.struct_size = sizeof spec;
  spec.input = "h";
  spec.output = "next";
  spec.axis = -1;
  spec.buffer = buffer.get();
  quern::State state = session.CreateState({spec});
  EXPECT_EQ(state.value(0).data<float>()[0], 5);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(session.Run(state, {Value()})[1].data<float>()[2], -5.0f - static_cast<float>(i));
    EXPECT_EQ(state.value(0).data<float>()[2], 5.0f + static_cast<float>(i));
  }
  EXPECT_THROW(state.value(1), quern::Error);
}

TEST(ApiState, AGrowingStateHasTheExtentThatIsFilled) {
  Model m = Model::Create("cache");
  m.Import("", 17).Input("past", QUERN_F32, {-1, 2}, {"p", ""}).Input("new", QUERN_F32, {1, 2});
  m.Node("Concat", {"past", "new"}, {"all"}, {{"axis", 0}}).Output("all");
  Session session(m);
  std::vector<float> memory(16, -7);
  const Value buffer = Value::Wrap({8, 2}, memory.data());
  quern_state_spec spec = {};
  spec.struct_size = sizeof spec;
  spec.input = "past";
  spec.output = "all";
  spec.axis = 0;
  spec.buffer = buffer.get();
  quern::State state = session.CreateState({spec});
  session.Run(state, {Value(), Value::Tensor<float>({1, 2}, {1, 2})});
  const Value now = state.value(0);
  EXPECT_EQ(now.shape(), (quern::Shape{1, 2}));
  EXPECT_EQ(now.data<float>(), memory.data());
}

}  // namespace
