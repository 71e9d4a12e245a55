// What tests of the command share: it is run as its user runs it, in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "beside.h"
#include "quern/quern.hpp"

struct Ended {
  int status;
  std::string out, err;
};

class Command : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("quern_command_test_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string Slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    return bytes.str();
  }
  static void Spill(const std::filesystem::path& path, const std::string& bytes) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }

  Ended Quern(const std::string& arguments) { return Run("quern", arguments); }
  Ended PerfTest(const std::string& arguments) { return Run("quern-perf-test", arguments); }

  Ended Run(const std::string& name, const std::string& arguments) {
    const std::filesystem::path out = folder_ / "stdout", err = folder_ / "stderr";
    const std::string line =
        BesideThisProgram("../../tools/") + name + " " + arguments + " >" + out.string() + " 2>" + err.string();
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Slurp(out), Slurp(err)};
  }

  // A backend-test folder of the digits model with its real results; `change` is added to the first one.
  void MakeFolder(const std::string& name, float change) {
    const std::filesystem::path to = folder_ / name;
    std::filesystem::create_directories(to / "test_data_set_0");
    std::filesystem::copy_file(Model(), to / "model.onnx");
    std::vector<float> pixels;
    for (int i = 0; i < 64; ++i) pixels.push_back(static_cast<float>(i % 5) / 5);
    const quern::Value x = quern::Value::Wrap({1, 1, 8, 8}, pixels.data());
    quern::SessionOptions options;
    options.providers = {"reference"};
    quern::Session session(quern::Model::Load(Model()), options);
    const quern::Value y = session.Run({x})[0];
    y.data<float>()[0] += change;
    Spill(to / "test_data_set_0/input_0.pb", x.ToProto("image"));
    Spill(to / "test_data_set_0/output_0.pb", y.ToProto("probability"));
  }

  // Field `number` of a message: bytes, or a number.
  static std::string Field(int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  }
  static std::string Field(int number, int value) { return {static_cast<char>(number << 3), static_cast<char>(value)}; }
  // y = op(x), x [2] of an element type: an ONNX file of less than 128 bytes in every part.
  static std::string OneNodeModel(const std::string& op, int dtype) {
    const std::string dim = Field(1, Field(1, 2)), type = Field(1, Field(1, dtype) + Field(2, dim));
    const std::string node = Field(1, "x") + Field(2, "y") + Field(3, "the_node") + Field(4, op);
    const std::string graph = Field(1, node) + Field(2, "g") + Field(11, Field(1, "x") + Field(2, type)) +
                              Field(12, Field(1, "y") + Field(2, type));
    return Field(1, 8) + Field(8, Field(1, "") + Field(2, 19)) + Field(7, graph);
  }

  static std::string Model() { return QUERN_TEST_MODELS "/digits.onnx"; }
  static std::string Picture() { return QUERN_TEST_MODELS "/digit_3.png"; }
  std::string In(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};
