// The command as a user runs it: output, exit status, files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command_run.h"
#include "npy.h"

namespace {

namespace fs = std::filesystem;
using quern::Value;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

TEST_F(Command, WithoutArgumentsHelps) {
  const Ended e = Quern("");
  EXPECT_EQ(e.status, 0);
  for (const char* word : {"run", "bench", "inspect", "verify", "convert", "cpu", "kernels", "Examples"})
    EXPECT_THAT(e.out, HasSubstr(word));
  for (const char* sub : {"run", "bench", "inspect", "verify", "convert", "cpu", "kernels"}) {
    const Ended help = Quern(std::string(sub) + " --help");
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:"), HasSubstr(std::string("quern ") + sub)));
  }
  EXPECT_EQ(Quern("nonsense").status, 2);
  EXPECT_EQ(Quern("run").status, 2);
}

TEST_F(Command, RunClassifiesAPicture) {
  const Ended e = Quern("run " + Model() + " --input image=" + Picture() +
                        " --top 1 --labels " QUERN_TEST_MODELS "/labels.txt --repeat 0");
  ASSERT_EQ(e.status, 0) << e.err;
  std::istringstream lines(e.out);
  std::string first, best;
  std::getline(lines, first);
  std::getline(lines, best);
  EXPECT_THAT(first, HasSubstr("probability  f32[1,10]"));
  EXPECT_EQ(std::strtol(best.c_str(), nullptr, 10), 3) << best;
}

TEST_F(Command, RunStoresOutputs) {
  const Ended e = Quern("run " + Model() + " --input " QUERN_TEST_MODELS "/heldout_images.npy --output-dir " +
                        In("a/b") + " --repeat 0 --threads 2");
  ASSERT_EQ(e.status, 0) << e.err;
  const Value y = quern_tool::ReadNpy(In("a/b/probability.npy"));
  ASSERT_EQ(y.shape(), (quern::Shape{360, 10}));
  const Value labels = quern_tool::ReadNpy(QUERN_TEST_MODELS "/heldout_labels.npy");
  int right = 0;
  for (std::int64_t i = 0; i < 360; ++i) {
    const float* row = y.data<float>() + 10 * i;
    const auto best = std::max_element(row, row + 10) - row;
    const char* label =
        static_cast<const char*>(labels.raw_data()) + i * static_cast<std::int64_t>(labels.bytes() / 360);
    right += best == *label;  // little endian, below 128
  }
  EXPECT_GT(right, 340);
}

TEST_F(Command, RandomInputsFollowTheSeed) {
  const std::string run = "run " + Model() + " --random --shape image=2x1x8x8 --repeat 0 --output-dir ";
  ASSERT_EQ(Quern(run + In("a")).status, 0);
  ASSERT_EQ(Quern(run + In("b")).status, 0);
  ASSERT_EQ(Quern(run + In("c") + " --seed 2").status, 0);
  EXPECT_EQ(Slurp(In("a/probability.npy")), Slurp(In("b/probability.npy")));
  EXPECT_NE(Slurp(In("a/probability.npy")), Slurp(In("c/probability.npy")));
  EXPECT_EQ(quern_tool::ReadNpy(In("a/probability.npy")).shape(), (quern::Shape{2, 10}));
  EXPECT_EQ(Quern("run " + Model() + " --random --shape batch=3 --repeat 0 --json").status, 0);
  EXPECT_THAT(Slurp(In("stdout")), HasSubstr("\"shape\""));
  EXPECT_EQ(Quern("run " + Model() + " --random --shape '\"batch\"=3' --repeat 0").status, 0);
}

TEST_F(Command, RunSaysWhatTheModelTakes) {
  Ended e = Quern("run " + Model() + " --input picture=" + Picture());
  EXPECT_EQ(e.status, 2);
  EXPECT_THAT(e.err, AllOf(HasSubstr("'picture'"), HasSubstr("'image' (f32[")));
  e = Quern("run " + Model());
  EXPECT_EQ(e.status, 2);
  EXPECT_THAT(e.err, AllOf(HasSubstr("'image'"), HasSubstr("--random")));
  e = Quern("run " + In("missing.onnx") + " --random");
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.err, HasSubstr("missing.onnx"));
  EXPECT_EQ(Quern("run " + Model() + " --random --shape image=2xy").status, 2);
  EXPECT_EQ(Quern("run " + Model() + " --random --shape picture=2").status, 2);
  EXPECT_EQ(Quern("run " + Model() + " --random --cpu pentium").status, 1);
}

TEST_F(Command, InspectShowsEveryStage) {
  Ended e = Quern("inspect " + Model());
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.out, AllOf(HasSubstr("image  f32[batch,1,8,8]"), HasSubstr("Conv"), HasSubstr("parameters"),
                           HasSubstr("graph "), HasSubstr("return ")));
  e = Quern("inspect " + Model() + " --stage compiled");
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.out, AllOf(HasSubstr("micro-kernel"), HasSubstr("cpu"), HasSubstr("packed weights")));
  for (const char* stage : {"file", "neutral", "partition", "compiled", "plan"}) {
    e = Quern("inspect " + Model() + " --json --stage " + stage);
    ASSERT_EQ(e.status, 0) << e.err;
    const Json doc = Json::parse(e.out);
    EXPECT_EQ(doc["version"], 1);
    if (stage != std::string("file")) {
      EXPECT_TRUE(doc[stage].is_object()) << stage;
    }
  }
  EXPECT_EQ(Quern("inspect " + Model() + " --stage nonsense").status, 2);
  e = Quern("inspect " + Model() + " --stage partition --provider reference");
  EXPECT_THAT(e.out, AllOf(HasSubstr("reference"), Not(HasSubstr("cpu"))));
}

TEST_F(Command, TheQuantizedModelRunsOnInt8MicroKernels) {
  const std::string model = QUERN_TEST_MODELS "/digits_qdq.onnx";
  const Ended partition = Quern("inspect " + model + " --json --stage partition");
  ASSERT_EQ(partition.status, 0) << partition.err;
  const Json claims = Json::parse(partition.out);
  EXPECT_GT(claims["partition"]["nodes"].size(), 0u);
  for (const Json& node : claims["partition"]["nodes"]) {
    EXPECT_EQ(node["provider"], "cpu") << node["name"];
  }
  for (const char* cpu : {"native", "generic"}) {
    const Ended compiled = Quern("inspect " + model + " --json --stage compiled --cpu " + cpu);
    ASSERT_EQ(compiled.status, 0) << compiled.err;
    int products = 0;
    const Json nodes = Json::parse(compiled.out);
    for (const Json& node : nodes["compiled"]["nodes"]) {
      if (node["op"] != "Conv" && node["op"] != "MatMul" && node["op"] != "Gemm") continue;
      ++products;
      EXPECT_THAT(node["kernel"].get<std::string>(), HasSubstr("gemm_u8_i8_i32_")) << node["name"];
      EXPECT_THAT(node["why"].get<std::string>(), HasSubstr("u8 by i8, stored as u8")) << node["name"];
    }
    EXPECT_EQ(products, 3) << cpu;
  }
}

// What the CPU provider leaves to the reference provider, with its reason, in the line of the node.
TEST_F(Command, InspectSaysWhyANodeIsNotTaken) {
  Spill(In("m.onnx"), OneNodeModel("RandomUniformLike", 1));
  const Ended e = Quern("inspect --stage partition " + In("m.onnx"));
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.out, ContainsRegex("the_node +RandomUniformLike +[0-9]+ +reference +0 +cpu: .*RandomUniformLike"));
  const Json doc = Json::parse(Quern("inspect --json --stage partition " + In("m.onnx")).out);
  const Json& node = doc["partition"]["nodes"][0];
  EXPECT_EQ(node["provider"], "reference");
  EXPECT_EQ(node["elements"].size(), 1u);
  EXPECT_TRUE(node["elements"][0].is_number()) << node["elements"];
  EXPECT_EQ(node["rejections"][0]["provider"], "cpu");
  EXPECT_NE(node["rejections"][0]["reason"], "");
}

TEST_F(Command, LimitsAreSettable) {
  const std::string inspect = "inspect " + Model() + " --limit ";
  EXPECT_EQ(Quern(inspect + "model_bytes=1M --limit nodes=1K").status, 0);
  Ended e = Quern(inspect + "model_bytes=1K");
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.err, HasSubstr("limit is 1024"));
  e = Quern(inspect + "folded=1");
  EXPECT_EQ(e.status, 2);
  EXPECT_THAT(e.err, HasSubstr("folded_bytes"));
  for (const char* wrong : {"nodes", "nodes=", "nodes=x", "nodes=-1", "nodes=1T", "nodes=99999999999999999999"}) {
    EXPECT_EQ(Quern(inspect + wrong).status, 2) << wrong;
  }
  EXPECT_EQ(Quern("run " + Model() + " --random --limit tensor_bytes=64").status, 1);
}

TEST_F(Command, RunReplacesInitializersWhenAsked) {
  const std::string w = Field(1, 2) + Field(2, 1) + Field(8, "w") + Field(9, std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  const std::string type = Field(1, Field(1, 1) + Field(2, Field(1, Field(1, 2))));
  const std::string node = Field(1, "x") + Field(1, "w") + Field(2, "y") + Field(4, "Mul");
  const std::string graph = Field(1, node) + Field(2, "g") + Field(5, w) + Field(11, Field(1, "x") + Field(2, type)) +
                            Field(11, Field(1, "w") + Field(2, type)) + Field(12, Field(1, "y") + Field(2, type));
  const std::string bytes = Field(1, 3) + Field(8, Field(1, "") + Field(2, 13));
  Spill(In("m.onnx"), bytes +
                          std::string{7 << 3 | 2, static_cast<char>(graph.size() % 128 | 128),
                                      static_cast<char>(graph.size() / 128)} +
                          graph);
  quern_tool::WriteNpy(In("x.npy"), Value::Tensor<float>({2}, {3, 4}));
  const std::string run = "run --repeat 0 " + In("m.onnx") + " --output-dir " + In("out") + " --input x=" + In("x.npy");
  Ended e = Quern(run);
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(quern_tool::ReadNpy(In("out/y.npy")).data<float>()[1], 8);
  e = Quern(run + " --input w=" + In("x.npy"));
  EXPECT_EQ(e.status, 2);
  EXPECT_THAT(e.err, AllOf(HasSubstr("'w' is an initializer"), HasSubstr("overridable")));
  EXPECT_EQ(Quern(run + " --overridable-initializers --input w=" + In("x.npy")).status, 0);
  EXPECT_EQ(quern_tool::ReadNpy(In("out/y.npy")).data<float>()[1], 16);
  EXPECT_EQ(Quern(run + " --overridable-initializers").status, 0);
  EXPECT_EQ(quern_tool::ReadNpy(In("out/y.npy")).data<float>()[1], 8);
}

TEST_F(Command, EveryCommandTakesTheCommonOptions) {
  MakeFolder("good", 0);
  for (const std::string& command :
       {"run " + Model() + " --random --repeat 0", "bench --runs 1 " + Model(), "inspect " + Model(),
        "verify --atol 1e-5 " + In("good"), std::string("cpu"), std::string("kernels --family pack")}) {
    Ended e = Quern(command + " --cpu native --provider cpu --threads 1");
    EXPECT_EQ(e.status, 0) << command << e.err;
    EXPECT_EQ(Quern(command + " --threads x").status, 2) << command;
  }
  // What has no effect says so.
  EXPECT_THAT(Quern("cpu --help").out, HasSubstr("without effect here"));
  EXPECT_THAT(Quern("kernels --help").out, HasSubstr("without effect here"));
  // -v lowers the log level wherever a session is made.
  for (const std::string& command : {"run " + Model() + " --random --repeat 0", "inspect " + Model() + " --stage plan",
                                     "verify --atol 1e-5 " + In("good")}) {
    EXPECT_THAT(Quern(command + " -v").err, HasSubstr("compiled '")) << command;
    EXPECT_THAT(Quern(command).err, Not(HasSubstr("compiled '"))) << command;
  }
}

TEST_F(Command, VerifyCountsAndSaysWhatDiffers) {
  MakeFolder("suite/good", 0);
  MakeFolder("suite/deep/bad", 0.25f);
  Ended e = Quern("verify " + In("suite") + " --atol 1e-5");
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(
      e.out, AllOf(HasSubstr("pass        good\n"), HasSubstr("fail        bad"), HasSubstr("0.25"),
                   HasSubstr("probability[0,0]"), HasSubstr("1 passed, 1 failed, 0 unsupported, 0 errors, 0 known\n")));
  e = Quern("verify " + In("suite/good") + " --atol 1e-5 --json " + In("results.json"));
  EXPECT_EQ(e.status, 0) << e.out << e.err;
  EXPECT_THAT(e.out, HasSubstr("1 passed, 0 failed"));
  const Json doc = Json::parse(Slurp(In("results.json")));
  EXPECT_EQ(doc["passed"], 1);
  EXPECT_EQ(doc["tests"][0]["name"], "good");
  EXPECT_EQ(Quern("verify " + In("suite") + " --filter good --atol 1e-5").status, 0);
  EXPECT_EQ(Quern("verify " + In("suite") + " --filter '(' --atol 1e-5").status, 2);
  EXPECT_EQ(Quern("verify " + In("suite") + " --filter nothing").status, 2);
  EXPECT_EQ(Quern("verify " + In("nowhere")).status, 2);
}

TEST_F(Command, VerifyTakesTolerancesByFolder) {
  MakeFolder("loose", 0.25f);
  Spill(In("tolerance.json"), R"({"loose": 0.9})");
  EXPECT_EQ(Quern("verify " + In("loose") + " --rtol 0 --tolerance " + In("tolerance.json")).status, 0);
  Spill(In("tolerance.json"), R"({"other": 0.9})");
  EXPECT_EQ(Quern("verify " + In("loose") + " --rtol 0 --tolerance " + In("tolerance.json")).status, 1);
  EXPECT_EQ(Quern("verify " + In("loose") + " --rtol 0 --max-rel 0.9").status, 0);
}

TEST_F(Command, VerifyHoldsKnownFailuresToTheirWord) {
  MakeFolder("suite/good", 0);
  MakeFolder("suite/bad", 0.25f);
  const std::string verify = "verify " + In("suite") + " --atol 1e-5 --known " + In("known");
  Spill(In("known"), "# comment\nbad  rounds differently\n");
  Ended e = Quern(verify);
  EXPECT_EQ(e.status, 0) << e.out;
  EXPECT_THAT(e.out, AllOf(HasSubstr("known       bad  rounds differently"), HasSubstr("1 passed, 0 failed"),
                           HasSubstr("1 known")));
  Spill(In("known"), R"({"bad": "rounds", "good": "was slow"})");
  e = Quern(verify);
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.out, AllOf(HasSubstr("fail        good  passes, but"), HasSubstr("was slow")));
  Spill(In("known"), "bad rounds differently\ngood sometimes: random\n");
  e = Quern(verify);
  EXPECT_EQ(e.status, 0) << "one that may pass does";
  EXPECT_THAT(e.out, HasSubstr("0 passed, 0 failed, 0 unsupported, 0 errors, 2 known"));
  Spill(In("known"), "bad\n");
  EXPECT_EQ(Quern(verify).status, 2) << "a reason is needed";
}

TEST_F(Command, VerifyNotesWhatAListNamesBeside) {
  MakeFolder("suite/good", 0);
  MakeFolder("suite/bad", 0.25f);
  const std::string verify = "verify " + In("suite") + " --atol 1e-5 --known " + In("known");
  Spill(In("known"), "bad rounds differently\ngone was slow\n");
  Ended e = Quern(verify + " --json " + In("results.json"));
  EXPECT_EQ(e.status, 0) << e.out;
  EXPECT_THAT(e.err, HasSubstr("lists 1 tests that are not here: gone"));
  EXPECT_THAT(e.out, HasSubstr("1 passed, 0 failed, 0 unsupported, 0 errors, 1 known"));
  EXPECT_EQ(Json::parse(Slurp(In("results.json")))["tests"].size(), 2u);
  e = Quern(verify + " --filter good");  // which leaves the folder of the other one out
  EXPECT_EQ(e.status, 0) << e.out;
}

TEST_F(Command, VerifyNamesWhatIsUnsupported) {
  const Value x = Value::Tensor<float>({2}, {1, 2});
  Spill(In("suite/odd_operator/model.onnx"), OneNodeModel("NoSuchOperator", 1));
  Spill(In("suite/odd_operator/test_data_set_0/input_0.pb"), x.ToProto("x"));
  Spill(In("suite/odd_operator/test_data_set_0/output_0.pb"), x.ToProto("y"));
  const Ended e = Quern("verify " + In("suite"));
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.out, testing::ContainsRegex("unsupported +odd_operator .*NoSuchOperator"));
  EXPECT_THAT(e.out, HasSubstr("0 passed, 0 failed, 1 unsupported, 0 errors"));
}

TEST_F(Command, VerifyTellsErrorsFromUnsupported) {
  MakeFolder("broken", 0);
  Spill(In("broken/model.onnx"), Slurp(Model()).substr(0, 500));
  const Ended e = Quern("verify " + In("broken"));
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.out, AllOf(HasSubstr("error       broken"), HasSubstr("0 passed, 0 failed, 0 unsupported, 1 errors")));
}

TEST_F(Command, ConvertGoesAnyWay) {
  ASSERT_EQ(Quern("convert " + Model() + " " + In("copy.onnx")).status, 0);
  ASSERT_EQ(Quern("convert " + Model() + " " + In("graph.txt")).status, 0);
  EXPECT_THAT(Slurp(In("graph.txt")), testing::StartsWith("graph @"));
  ASSERT_EQ(Quern("convert " + In("copy.onnx") + " " + In("copy.txt")).status, 0);
  EXPECT_EQ(Slurp(In("copy.txt")), Slurp(In("graph.txt")));
  // From text, with a comment before it, whatever the files are called.
  Spill(In("graph"), "// as people write it\n\n" + Slurp(In("graph.txt")));
  Ended e = Quern("convert " + In("graph") + " " + In("again.onnx"));
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(Slurp(In("again.onnx")), Slurp(In("copy.onnx")));
  e = Quern("convert " + In("graph") + " " + In("text") + " --format text");
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(Slurp(In("text")), Slurp(In("graph.txt")));
  // Other commands take text too.
  e = Quern("inspect " + In("graph") + " --no-text");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.out, HasSubstr("Conv"));
  // After the passes: other nodes, the same results.
  ASSERT_EQ(Quern("convert " + Model() + " " + In("neutral.onnx") + " --stage neutral").status, 0);
  MakeFolder("good", 0);
  fs::copy_file(In("neutral.onnx"), In("good/model.onnx"), fs::copy_options::overwrite_existing);
  EXPECT_EQ(Quern("verify " + In("good")).status, 0);
}

TEST_F(Command, ConvertWithExternalData) {
  ASSERT_EQ(Quern("convert " + Model() + " " + In("m.onnx") + " --external-data").status, 0);
  EXPECT_TRUE(fs::exists(In("m.onnx.data")));
  ASSERT_EQ(Quern("convert " + In("m.onnx") + " " + In("back.onnx")).status, 0);
  ASSERT_EQ(Quern("convert " + Model() + " " + In("copy.onnx")).status, 0);
  EXPECT_EQ(Slurp(In("back.onnx")), Slurp(In("copy.onnx")));
  ASSERT_EQ(Quern("convert " + Model() + " " + In("n.onnx") + " --external-name n.bin --external-bytes 1M").status, 0);
  EXPECT_FALSE(fs::exists(In("n.bin"))) << "no tensor is that large";
  ASSERT_EQ(Quern("convert " + Model() + " " + In("n.onnx") + " --external-name n.bin --external-bytes 1").status, 0);
  EXPECT_TRUE(fs::exists(In("n.bin")));
}

TEST_F(Command, ConvertRefuses) {
  EXPECT_EQ(Quern("convert " + Model()).status, 2);
  EXPECT_EQ(Quern("convert " + Model() + " " + In("x.onnx") + " --stage compiled").status, 2);
  EXPECT_EQ(Quern("convert " + Model() + " " + In("x.txt") + " --external-data").status, 2);
  EXPECT_EQ(Quern("convert " + Model() + " " + In("x.onnx") + " --external-bytes many").status, 2);
  Ended e = Quern("convert " + In("no.onnx") + " " + In("x.onnx"));
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.err, HasSubstr("no.onnx"));
  e = Quern("convert " + Model() + " " + In("no/x.onnx"));
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.err, HasSubstr("cannot write"));
  Spill(In("bad.txt"), "graph @g {\n  %y = Neg(%x)\n}");
  e = Quern("convert " + In("bad.txt") + " " + In("x.onnx"));
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.err, HasSubstr("bad.txt:2:12: value 'x' is not defined"));
  EXPECT_EQ(Quern("convert " + Model() + " " + In("x.onnx") + " --limit memory_bytes=1K").status, 1);
  EXPECT_FALSE(fs::exists(In("x.onnx")));
}

TEST_F(Command, CpuShowsAnyCpu) {
  Ended e = Quern("cpu");
  EXPECT_EQ(e.status, 0);
  EXPECT_THAT(e.out, AllOf(HasSubstr("features"), HasSubstr("caches"), HasSubstr("cores")));
  e = Quern("cpu --cpu apple-m4 --json");
  EXPECT_EQ(Json::parse(e.out)["arch"], "aarch64");
  EXPECT_EQ(Quern("cpu --cpu pentium").status, 1);
}

TEST_F(Command, KernelsExplainsAChoice) {
  Ended e = Quern("kernels --family gemm");
  EXPECT_EQ(e.status, 0);
  EXPECT_THAT(e.out, HasSubstr("gemm_f32_f32_f32_"));
  e = Quern("kernels --cpu haswell --shape 128x768x768 --types f32,f32,f32");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.out, AllOf(HasSubstr("1. at load"), HasSubstr("2. per call"), HasSubstr("chosen"), HasSubstr("avx2"),
                           HasSubstr("needs avx512f")));
  e = Quern("kernels --cpu apple-m4 --shape 128x768x768 --types f32,f32,f32");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(Quern("kernels --shape 128x768").status, 2);
  EXPECT_EQ(Quern("kernels --types f32,f32,f32").status, 2);
}

TEST_F(Command, KernelsCanBeLeftOut) {
  const std::string shape = "kernels --cpu haswell --shape 128x768x768 --types f32,f32,f32";
  Ended e = Quern(shape + " --disable gemm");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.out,
              AllOf(HasSubstr("gemm is switched off"), HasSubstr("the kernel: gemm_f32_f32_f32_3x16x1_portable")));
  e = Quern("kernels --family vector --cpu haswell --disable fold,vector");
  EXPECT_THAT(e.out, ContainsRegex("vector_f32_avx2 +vector is switched off"));
  EXPECT_THAT(e.out, ContainsRegex("vector_f32_portable +yes"));
  e = Quern("kernels --disable pooling");
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.err, AllOf(HasSubstr("unknown feature 'pooling'"), HasSubstr("winograd")));
}

TEST_F(Command, CalibrationIsReadFromAFile) {
  const std::string shape = "kernels --shape 128x768x768 --types f32,f32,f32 --json";
  EXPECT_EQ(Json::parse(Quern(shape).out)["selection"]["calibrated"], false);
  Spill(In("bad_calibration.txt"), "quern calibration 1\ncpu of another machine\n");
  ::setenv("QUERN_CALIBRATION", In("bad_calibration.txt").c_str(), 1);
  for (const std::string& command : {shape, "run " + Model() + " --random", std::string("kernels --check-selection")}) {
    const Ended e = Quern(command);
    EXPECT_EQ(e.status, 1) << command;
    EXPECT_THAT(e.err, AllOf(HasSubstr("bad_calibration.txt: line 2"), HasSubstr("of another machine"))) << command;
  }
  // Choices for a named CPU are those of the shipped data.
  EXPECT_EQ(Quern("kernels --cpu haswell --shape 128x768x768").status, 0);
  ::unsetenv("QUERN_CALIBRATION");
  EXPECT_EQ(Quern("kernels --calibrate --seconds 0").status, 1);
  EXPECT_EQ(Quern("kernels --check-selection --shapes 0").status, 1);
  EXPECT_EQ(Quern("kernels --check-selection --calibrate").status, 2);
}

}  // namespace
