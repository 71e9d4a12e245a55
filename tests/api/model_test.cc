// Models through the C ABI: built node by node, with subgraphs, parsed, loaded from memory and files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "quern/quern.hpp"

namespace {

using quern::Model;
using quern::Session;
using quern::Value;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Digits() { return QUERN_TEST_MODELS "/digits.onnx"; }

std::vector<float> Floats(const Value& v) {
  const float* data = v.data<float>();
  return std::vector<float>(data, data + v.num_elements());
}

// The message of the error that an action must end with.
template <typename Action>
std::string MessageOf(Action&& action, quern_status expected) {
  try {
    action();
  } catch (const quern::Error& e) {
    EXPECT_EQ(e.status(), expected) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

Model Scaled() {
  Model m = Model::Create("scaled");
  m.Import("", 17);
  m.Input("x", QUERN_F32, {-1, 2}, {"n", ""});
  m.Constant("s", Value::Tensor<float>({2}, {10, 100}));
  m.Node("Mul", {"x", "s"}, {"y"}, {}, "scale");
  m.Output("y");
  return m;
}

TEST(ApiModel, BuildsAndRunsAGraph) {
  Session session(Scaled());
  ASSERT_EQ(session.num_inputs(), 1u);
  const quern_port x = session.input(0);
  EXPECT_STREQ(x.name, "x");
  EXPECT_STREQ(x.type_text, "f32[n,2]");
  EXPECT_EQ(x.dims[0], -1);
  EXPECT_STREQ(x.symbols[0], "n");
  EXPECT_STREQ(x.symbols[1], "");
  const auto out = session.Run({Value::Tensor<float>({2, 2}, {1, 2, 3, 4})});
  EXPECT_THAT(out.at(0).shape(), ElementsAre(2, 2));
  EXPECT_THAT(Floats(out[0]), ElementsAre(10, 200, 30, 400));
}

TEST(ApiModel, AttributesReachTheOperator) {
  Model m = Model::Create("t");
  m.Import("", 17).Input("x", QUERN_F32, {2, 3});
  m.Node("Transpose", {"x"}, {"t"}, {{"perm", {1, 0}}});
  m.Node("Softmax", {"t"}, {"y"}, {{"axis", 1}});
  m.Output("y");
  const auto out = Session(m).Run({Value::Tensor<float>({2, 3}, {0, 0, 0, 0, 0, 0})});
  EXPECT_THAT(out[0].shape(), ElementsAre(3, 2));
  EXPECT_THAT(Floats(out[0]), ElementsAre(0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f));
}

// y = c ? x + k : k, both branches reading outer values, k of them only in a nested place.
TEST(ApiModel, SubgraphsReadOuterValuesByName) {
  Model then_branch = Model::Create("then"), else_branch = Model::Create("else");
  then_branch.Node("Add", {"x", "k"}, {"sum"}).Output("sum");
  else_branch.Node("Identity", {"k"}, {"same"}).Output("same");
  Model m = Model::Create("if");
  m.Import("", 17).Input("c", QUERN_BOOL, {}).Input("x", QUERN_F32, {2});
  m.Constant("k", Value::Tensor<float>({2}, {1, 2}));
  m.Node("If", {"c"}, {"y"}, {{"then_branch", then_branch}, {"else_branch", else_branch}}, "choose");
  m.Output("y");
  Session session(m);
  Value yes = Value::Tensor<bool>({}, {true}), no = Value::Tensor<bool>({}, {false});
  const Value x = Value::Tensor<float>({2}, {10, 20});
  EXPECT_THAT(Floats(session.Run({yes, x})[0]), ElementsAre(11, 22));
  EXPECT_THAT(Floats(session.Run({no, x})[0]), ElementsAre(1, 2));
}

TEST(ApiModel, ErrorsNameTheNodeAndTheValue) {
  auto build = [](auto&& change) {
    return [change] {
      Model m = Scaled();
      change(m);
      Session session(m);
    };
  };
  EXPECT_THAT(MessageOf(build([](Model& m) { m.Node("Relu", {"nowhere"}, {"z"}, {}, "r"); }), QUERN_INVALID_ARGUMENT),
              testing::AllOf(HasSubstr("node 'r' (Relu)"), HasSubstr("'nowhere' is not defined")));
  EXPECT_THAT(MessageOf(build([](Model& m) { m.Node("Relu", {"late"}, {"z"}).Node("Relu", {"x"}, {"late"}); }),
                        QUERN_INVALID_ARGUMENT),
              HasSubstr("used before"));
  EXPECT_THAT(MessageOf(build([](Model& m) { m.Node("Relu", {"x"}, {"y"}); }), QUERN_INVALID_ARGUMENT),
              HasSubstr("'y' is defined already"));
  EXPECT_THAT(
      MessageOf(build([](Model& m) { m.Node("Gelu", {"x"}, {"z"}, {}, "", "com.microsoft"); }), QUERN_INVALID_ARGUMENT),
      HasSubstr("com.microsoft"));
  EXPECT_THAT(MessageOf(build([](Model& m) { m.Node("NoSuchOperator", {"x"}, {"z"}, {}, "odd").Output("z"); }),
                        QUERN_UNSUPPORTED),
              HasSubstr("odd"));
  EXPECT_THAT(MessageOf([] { Model::Load("/nonexistent/model.onnx"); }, QUERN_NOT_FOUND), HasSubstr("model.onnx"));
}

TEST(ApiModel, ShapeErrorsSayWhatDoesNotFit) {
  Model m = Model::Create("conv");
  m.Import("", 17).Input("x", QUERN_F32, {1, 3, 8, 8});
  m.Constant("w", Value::Tensor<float>({4, 16, 1, 1}, std::vector<float>(64)));
  m.Node("Conv", {"x", "w"}, {"y"}, {}, "conv_7").Output("y");
  const std::string message = MessageOf([&] { Session session(m); }, QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(message, testing::AllOf(HasSubstr("conv_7"), HasSubstr("3"), HasSubstr("16")));
}

TEST(ApiModel, TextParsesBackToTheSameModel) {
  const Model built = Scaled();
  const std::string text = built.Text(true);
  const Model parsed = Model::Parse(text);
  EXPECT_EQ(parsed.Text(true), text);
  EXPECT_THAT(Floats(Session(parsed).Run({Value::Tensor<float>({1, 2}, {1, 1})})[0]), ElementsAre(10, 100));
  EXPECT_THAT(MessageOf([] { Model::Parse("graph @x {\n  oops\n}"); }, QUERN_CORRUPT), HasSubstr("2:"));
}

TEST(ApiModel, LoadsFromMemoryAsFromAFile) {
  std::ifstream in(Digits(), std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  ASSERT_GT(bytes.str().size(), 100u);
  const Model file = Model::Load(Digits());
  const Model memory = Model::LoadMemory(bytes.str());
  EXPECT_EQ(file.Text(true), memory.Text(true));
  EXPECT_THAT(MessageOf([&] { Model::LoadMemory(bytes.str().substr(0, bytes.str().size() / 2)); }, QUERN_CORRUPT),
              HasSubstr("byte"));
}

TEST(ApiModel, LimitsAreHeld) {
  quern_limits limits;
  quern_limits_init(&limits);
  limits.max_nodes = 1;
  MessageOf([&] { Model::Load(Digits(), &limits); }, QUERN_RESOURCE_EXHAUSTED);
  quern_limits_init(&limits);
  limits.max_model_bytes = 100;
  MessageOf([&] { Model::Load(Digits(), &limits); }, QUERN_RESOURCE_EXHAUSTED);
}

TEST(ApiModel, FactsCountOperatorsAndParameters) {
  const std::string facts = Scaled().Facts();
  EXPECT_THAT(facts, HasSubstr("\"version\":1"));
  EXPECT_THAT(facts, HasSubstr(R"({"op":"Mul","domain":"","count":1})"));
  EXPECT_THAT(facts, HasSubstr(R"("parameters":{"tensors":1,"elements":2,"bytes":8)"));
  EXPECT_THAT(facts, HasSubstr(R"("shape":["n",2])"));
}

}  // namespace
