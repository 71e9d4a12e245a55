// Models through the C ABI: built node by node, with subgraphs, parsed, loaded from memory and files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "quern/quern.hpp"

namespace {

using quern::Model;
using quern::Session;
using quern::SessionOptions;
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

// Names of extents are given back as they are, though they may look like a formula.
TEST(ApiModel, NamesOfExtents) {
  Model m = Model::Create("named");
  m.Import("", 17).Input("x", QUERN_F32, {-1, -1}, {"past + length", "batch size"});
  m.Node("Relu", {"x"}, {"y"}, {}, "relu");
  m.Output("y");
  Session session(m);
  const quern_port x = session.input(0);
  EXPECT_STREQ(x.symbols[0], "past + length");
  EXPECT_STREQ(x.symbols[1], "batch size");
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
  limits.nodes = 1;
  MessageOf([&] { Model::Load(Digits(), &limits); }, QUERN_RESOURCE_EXHAUSTED);
  quern_limits_init(&limits);
  limits.model_bytes = 100;
  MessageOf([&] { Model::Load(Digits(), &limits); }, QUERN_RESOURCE_EXHAUSTED);
}

// `depth` Ifs, one in the other, around y = -x.
std::string NestedIfs(int depth) {
  std::string text = "graph @nested opset(\"\": 17) {\n  input %c: bool[]\n  input %x: f32[1]\n";
  for (int i = 0; i < depth; ++i) {
    text += "  %y = If(%c) captures(%c, %x) {else_branch = graph {\n  input %c: bool[]\n  input %x: f32[1]\n" +
            std::string("  %n = Neg(%x)\n  return %n\n}, then_branch = graph {\n  input %c: bool[]\n") +
            "  input %x: f32[1]\n";
  }
  text += "  %y = Neg(%x)\n";
  for (int i = 0; i < depth; ++i) text += "  return %y\n}}\n";
  return text + "  return %y\n}";
}

TEST(ApiModel, NestingGoesAsDeepAsTheLimitSays) {
  const Value yes = Value::Tensor<bool>({}, {true}), x = Value::Tensor<float>({1}, {3});
  SessionOptions options;
  options.limits.Set("subgraph_depth", 41);
  const Model model = Model::Parse(NestedIfs(41), &options.limits);
  EXPECT_THAT(Floats(Session(model, options).Run({yes, x})[0]), ElementsAre(-3));
  EXPECT_THAT(MessageOf([&] { Session session(model); }, QUERN_RESOURCE_EXHAUSTED), HasSubstr("more than 32 deep"));
  MessageOf([] { Model::Parse(NestedIfs(41)); }, QUERN_RESOURCE_EXHAUSTED);
  EXPECT_THROW(Model::Parse(NestedIfs(42), &options.limits), quern::Error);
  // As deep as can be asked for.
  options.limits.Set("subgraph_depth", 1u << 30);
  EXPECT_THROW(Model::Parse(NestedIfs(129), &options.limits), quern::Error);
  EXPECT_THAT(Floats(Session(Model::Parse(NestedIfs(128), &options.limits), options).Run({yes, x})[0]),
              ElementsAre(-3));
}

TEST(ApiModel, NestingOfBuiltModels) {
  Model inner = Model::Create("inner");
  inner.Import("", 17).Node("Neg", {"x"}, {"y"}).Output("y");
  Model other = Model::Create("other");
  other.Node("Identity", {"x"}, {"y"}).Output("y");
  auto around = [&](const Model& branch) {
    Model m = Model::Create("outer");
    m.Node("If", {"c"}, {"y"}, {{"then_branch", branch}, {"else_branch", other}}).Output("y");
    return m;
  };
  for (int i = 0; i < 33; ++i) inner = around(inner);
  Model m = Model::Create("m");
  m.Import("", 17).Input("c", QUERN_BOOL, {}).Input("x", QUERN_F32, {1});
  m.Node("Identity", {"x"}, {"y"}, {{"unused", inner}}).Output("y");
  EXPECT_THAT(MessageOf([&] { Session session(m); }, QUERN_RESOURCE_EXHAUSTED), HasSubstr("more than 32 deep"));
  EXPECT_THAT(MessageOf(
                  [&] {
                    for (int i = 0; i < 129; ++i) inner = around(inner);
                  },
                  QUERN_RESOURCE_EXHAUSTED),
              HasSubstr("more than 128 deep"));
}

// A graph in both branches of an If, again and again: twice as large each time.
TEST(ApiModel, SharedSubgraphsCountAsOftenAsTheyAreUsed) {
  Model m = Model::Create("m");
  m.Node("Neg", {"x"}, {"y"}).Output("y");
  const auto twice = [](const Model& branch) {
    Model outer = Model::Create("outer");
    outer.Node("If", {"c"}, {"y"}, {{"then_branch", branch}, {"else_branch", branch}}).Output("y");
    return outer;
  };
  EXPECT_THAT(MessageOf(
                  [&] {
                    for (int i = 0; i < 60; ++i) m = twice(m);
                  },
                  QUERN_RESOURCE_EXHAUSTED),
              HasSubstr("nodes, those of a subgraph counted wherever it is used"));
}

TEST(ApiModel, EveryLimitCanBeSet) {
  quern::Limits limits;
  for (const char* name : {"model_bytes", "tensor_bytes", "memory_bytes", "folded_bytes", "nodes", "attribute_elements",
                           "loop_iterations", "subgraph_depth", "type_depth", "rank"}) {
    EXPECT_NO_THROW(limits.Set(name, 7)) << name;
  }
  EXPECT_EQ(limits.folded_bytes, 7u);
  EXPECT_EQ(limits.rank, 7u);
  EXPECT_THAT(MessageOf([&] { limits.Set("depth", 1); }, QUERN_INVALID_ARGUMENT), HasSubstr("subgraph_depth"));

  auto parse = [](const std::string& body, const char* name, std::uint64_t value) {
    return Model::Parse("graph @g opset(\"\": 17) {\n" + body + "\n}", &quern::Limits().Set(name, value));
  };
  const std::string rank = "input %x: f32[1,2,3] return %x";
  EXPECT_NO_THROW(parse(rank, "rank", 3));
  MessageOf([&] { parse(rank, "rank", 2); }, QUERN_RESOURCE_EXHAUSTED);
  const std::string type = "input %x: seq<seq<f32[*]>> return %x";
  EXPECT_NO_THROW(parse(type, "type_depth", 2));
  MessageOf([&] { parse(type, "type_depth", 1); }, QUERN_RESOURCE_EXHAUSTED);
  EXPECT_NO_THROW(parse(type, "subgraph_depth", 1)) << "types have a limit of their own";
  const std::string list = "input %x: f32[1,1,1] %y = Transpose(%x) {perm = [2, 1, 0]} return %y";
  EXPECT_NO_THROW(parse(list, "attribute_elements", 3));
  MessageOf([&] { parse(list, "attribute_elements", 2); }, QUERN_RESOURCE_EXHAUSTED);
}

TEST(ApiModel, LimitsOfRunsAreHeld) {
  const Model loop = Model::Parse(R"(graph @loop opset("": 17) {
  input %m: i64[]
  const %go = bool[] {true}
  %n = Loop(%m, %go) {body = graph {
    input %i: i64[]
    input %c: bool[]
    %d = Identity(%c)
    %v = Identity(%i)
    return %d, %v
  }}
  return %n
})");
  SessionOptions options;
  options.limits.Set("loop_iterations", 5);
  Session session(loop, options);
  EXPECT_THAT(session.Run({Value::Tensor<std::int64_t>({}, {5})})[0].shape(), ElementsAre(5));
  EXPECT_THAT(MessageOf([&] { session.Run({Value::Tensor<std::int64_t>({}, {6})}); }, QUERN_RESOURCE_EXHAUSTED),
              HasSubstr("more than 5 iterations"));

  // Folding leaves what is too large to the run.
  const Model constant = Model::Parse(R"(graph @fold opset("": 17) {
  const %s = i64[1] {1000}
  %y = ConstantOfShape(%s)
  return %y
})");
  EXPECT_THAT(Session(constant).Facts("neutral"), HasSubstr("\"nodes\":0"));
  SessionOptions small;
  small.limits.Set("folded_bytes", 3999);
  EXPECT_THAT(Session(constant, small).Facts("neutral"), HasSubstr("\"nodes\":1"));
}

// A file that is cut short under a loaded model must not be shown as zeros.
TEST(ApiModel, TextOfAFileThatWasCutShortIsAnError) {
  const std::string path = testing::TempDir() + "/quern_cut_" + std::to_string(getpid()) + ".onnx";
  std::filesystem::copy_file(Digits(), path, std::filesystem::copy_options::overwrite_existing);
  const Model model = Model::Load(path);
  EXPECT_EQ(model.Text(true), Model::Load(Digits()).Text(true));
  const Session session(model);
  std::filesystem::resize_file(path, 100);
  EXPECT_THAT(MessageOf([&] { (void)model.Text(true); }, QUERN_CORRUPT), HasSubstr("cut short"));
  EXPECT_THAT(MessageOf([&] { (void)model.Text(false); }, QUERN_CORRUPT), HasSubstr("cut short"));
  EXPECT_THAT(MessageOf([&] { (void)model.Facts(); }, QUERN_CORRUPT), HasSubstr("cut short"));
  EXPECT_THAT(MessageOf([&] { (void)session.Text("neutral"); }, QUERN_CORRUPT), HasSubstr("cut short"));
  std::filesystem::remove(path);
}

TEST(ApiModel, InputsOfEveryKind) {
  for (const char* type :
       {"f32[batch,3]", "string[*]", "seq<f32[?,2]>", "opt<i64[2]>", "map<string,f32[]>", "bool[]"}) {
    Model m = Model::Create("same");
    m.Import("", 17).Input("x", type).Node("Identity", {"x"}, {"y"}).Output("y");
    EXPECT_THAT(m.Text(), HasSubstr(std::string("input %x: ") + type + "\n"));
    EXPECT_STREQ(Session(m).input(0).type_text, type);
  }
  Model m = Model::Create("sequence");
  m.Import("", 17).Input("s", "seq<f32[?]>").Node("Identity", {"s"}, {"t"}).Output("t");
  const Value s = Value::Sequence({Value::Tensor<float>({1}, {7}), Value::Tensor<float>({2}, {8, 9})});
  const auto out = Session(m).Run({s});
  ASSERT_EQ(out.at(0).size(), 2u);
  EXPECT_THAT(Floats(out[0].element(1)), ElementsAre(8, 9));
  for (const char* type : {"", "f33[2]", "f32", "f32[2] f32[2]", "seq<f32[2]", "opt"}) {
    EXPECT_THAT(MessageOf([&] { Model::Create("m").Input("bad", type); }, QUERN_CORRUPT),
                testing::AllOf(HasSubstr("input 'bad'"), HasSubstr("1:")));
  }
}

TEST(ApiModel, FactsCountOperatorsAndParameters) {
  const std::string facts = Scaled().Facts();
  EXPECT_THAT(facts, HasSubstr("\"version\":1"));
  EXPECT_THAT(facts, HasSubstr(R"({"op":"Mul","domain":"","count":1})"));
  EXPECT_THAT(facts, HasSubstr(R"("parameters":{"tensors":1,"elements":2,"bytes":8)"));
  EXPECT_THAT(facts, HasSubstr(R"("shape":["n",2])"));
}

class ApiSave : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("quern_api_save_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string In(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

TEST_F(ApiSave, BuiltModelsAreFilesAfterwards) {
  const Model built = Scaled();
  built.Save(In("m.onnx"));
  const Model read = Model::Load(In("m.onnx"));
  EXPECT_THAT(read.Text(), HasSubstr("%y: f32[n,2] = Mul(%x, %s) @scale"));  // an output without a type gets one
  EXPECT_THAT(read.Text(), HasSubstr("\"onnx.producer_name\" = \"quern\""));
  const auto run = [](const Model& m) { return Floats(Session(m).Run({Value::Tensor<float>({1, 2}, {1, 2})})[0]); };
  EXPECT_EQ(run(read), run(built));
  read.Save(In("m.onnx"));  // over the file that it views
  EXPECT_EQ(Model::Load(In("m.onnx")).Text(true), read.Text(true));
}

TEST_F(ApiSave, Options) {
  const Model model = Model::Load(Digits());
  quern::SaveOptions options;
  options.format = "text";
  model.Save(In("m.txt"), options);
  std::ifstream in(In("m.txt"));
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), model.Text(true));
  options = {};
  options.stage = "neutral";
  model.Save(In("neutral.onnx"), options);
  options.skip_passes = {"fold_constants",      "fuse_conv_batch_norm", "eliminate_identity",
                         "eliminate_dead_code", "cancel_transposes",    "eliminate_common_subexpressions",
                         "inline_constant_if"};
  model.Save(In("skipped.onnx"), options);
  EXPECT_NE(Model::Load(In("neutral.onnx")).Text(), "");
  options = {};
  options.external_data = true;
  options.external_bytes = 1;
  options.external_name = "weights";
  model.Save(In("external.onnx"), options);
  EXPECT_TRUE(std::filesystem::exists(In("weights")));
  EXPECT_EQ(Model::Load(In("external.onnx")).Text(true), model.Text(true));
}

TEST_F(ApiSave, Errors) {
  const Model model = Scaled();
  quern::SaveOptions options;
  options.stage = "compiled";
  EXPECT_THAT(MessageOf([&] { model.Save(In("m"), options); }, QUERN_INVALID_ARGUMENT),
              HasSubstr("there is no stage 'compiled'; known are file and neutral"));
  options = {};
  options.format = "gguf";
  EXPECT_THAT(MessageOf([&] { model.Save(In("m"), options); }, QUERN_INVALID_ARGUMENT), HasSubstr("format 'gguf'"));
  options.format = "text";
  options.external_data = true;
  EXPECT_THAT(MessageOf([&] { model.Save(In("m"), options); }, QUERN_INVALID_ARGUMENT), HasSubstr("no external data"));
  EXPECT_THAT(MessageOf([&] { model.Save(In("no/m")); }, QUERN_NOT_FOUND), HasSubstr("no/m"));
  Model open = Model::Create("open");
  open.Import("", 17).Node("Neg", {"x"}, {"y"}).Output("y");
  EXPECT_THAT(MessageOf([&] { open.Save(In("m")); }, QUERN_INVALID_ARGUMENT), HasSubstr("'x' is not defined"));
  Model unknown = Model::Create("unknown");
  unknown.Import("", 17).Node("NoSuchOperator", {}, {"y"}).Output("y");
  unknown.Save(In("m"));  // what the library cannot run it can write
  options = {};
  options.stage = "neutral";
  Model wrong = Model::Create("wrong");
  wrong.Import("", 17).Input("x", QUERN_F32, {2}).Node("Add", {"x"}, {"y"}, {}, "sum").Output("y");
  EXPECT_THAT(MessageOf([&] { wrong.Save(In("n"), options); }, QUERN_INVALID_ARGUMENT), HasSubstr("'sum' (Add)"));
  EXPECT_EQ(quern_model_save(nullptr, In("m").c_str(), nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_model_save(model.get(), nullptr, nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_model_save(model.get(), In("m").c_str(), nullptr), QUERN_OK);
  EXPECT_FALSE(std::filesystem::exists(In("n")));
}

// A client that knows less of the struct, and one that knows more.
TEST_F(ApiSave, StructsOfOtherVersions) {
  const Model model = Scaled();
  quern_save_options options;
  quern_save_options_init(&options);
  options.stage = "no such stage";
  options.struct_size = offsetof(quern_save_options, stage);
  EXPECT_EQ(quern_model_save(model.get(), In("m").c_str(), &options), QUERN_OK) << quern_error_message();
  struct {
    quern_save_options known;
    std::int64_t more;
  } grown{};
  grown.known.struct_size = sizeof grown;
  EXPECT_EQ(quern_model_save(model.get(), In("m").c_str(), &grown.known), QUERN_OK) << quern_error_message();
  grown.more = 1;
  EXPECT_EQ(quern_model_save(model.get(), In("m").c_str(), &grown.known), QUERN_UNSUPPORTED);
  options.struct_size = 0;
  EXPECT_EQ(quern_model_save(model.get(), In("m").c_str(), &options), QUERN_INVALID_ARGUMENT);
}

}  // namespace
