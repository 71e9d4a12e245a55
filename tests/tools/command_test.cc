// The command as a user runs it: output, exit status, files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "npy.h"
#include "quern/quern.hpp"

namespace {

namespace fs = std::filesystem;
using quern::Value;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

struct Ended {
  int status;
  std::string out, err;
};

class Command : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("quern_command_test_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string Slurp(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    return bytes.str();
  }
  static void Spill(const fs::path& path, const std::string& bytes) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }

  Ended Quern(const std::string& arguments) {
    const fs::path out = folder_ / "stdout", err = folder_ / "stderr";
    const std::string line =
        std::string(QUERN_TEST_COMMAND) + " " + arguments + " >" + out.string() + " 2>" + err.string();
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Slurp(out), Slurp(err)};
  }

  // A backend-test folder of the digits model with its real results; `change` is added to the first one.
  void MakeFolder(const std::string& name, float change) {
    const fs::path to = folder_ / name;
    fs::create_directories(to / "test_data_set_0");
    fs::copy_file(Model(), to / "model.onnx");
    std::vector<float> pixels;
    for (int i = 0; i < 64; ++i) pixels.push_back(static_cast<float>(i % 5) / 5);
    const Value x = Value::Wrap({1, 1, 8, 8}, pixels.data());
    quern::SessionOptions options;
    options.providers = {"reference"};
    quern::Session session(quern::Model::Load(Model()), options);
    const Value y = session.Run({x})[0];
    y.data<float>()[0] += change;
    Spill(to / "test_data_set_0/input_0.pb", x.ToProto("image"));
    Spill(to / "test_data_set_0/output_0.pb", y.ToProto("probability"));
  }

  static std::string Model() { return QUERN_TEST_MODELS "/digits.onnx"; }
  static std::string Picture() { return QUERN_TEST_MODELS "/digit_3.png"; }
  std::string In(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(Command, WithoutArgumentsHelps) {
  const Ended e = Quern("");
  EXPECT_EQ(e.status, 0);
  for (const char* word : {"run", "inspect", "verify", "cpu", "kernels", "Examples"})
    EXPECT_THAT(e.out, HasSubstr(word));
  for (const char* sub : {"run", "inspect", "verify", "cpu", "kernels"}) {
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
  Spill(In("known"), "bad\n");
  EXPECT_EQ(Quern(verify).status, 2) << "a reason is needed";
}

TEST_F(Command, VerifyTellsErrorsFromUnsupported) {
  MakeFolder("broken", 0);
  Spill(In("broken/model.onnx"), Slurp(Model()).substr(0, 500));
  const Ended e = Quern("verify " + In("broken"));
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.out, AllOf(HasSubstr("error       broken"), HasSubstr("0 passed, 0 failed, 0 unsupported, 1 errors")));
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

}  // namespace
