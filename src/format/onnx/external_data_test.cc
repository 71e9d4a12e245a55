#include "format/onnx/external_data.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/onnx/proto_builder.h"
#include "format/onnx/reader.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
using namespace onnx_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A model's folder with weights.bin (floats 0, 1, 2, ...), beside a file that is none of the model's business.
class ExternalDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "quern_external_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    folder_ = root_ / "model";
    fs::create_directories(folder_ / "sub");
    std::vector<float> values(64);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    weights_.assign(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    for (const fs::path& p : {folder_ / "weights.bin", folder_ / "sub" / "w.bin", root_ / "secret.bin"}) {
      std::ofstream(p, std::ios::binary) << weights_;
    }
  }
  void TearDown() override { fs::remove_all(root_); }

  Message Model(std::string_view location, std::string_view offset, std::string_view length) const {
    Message tensor;
    tensor.Number(1, 3).Number(2, 1).Text(8, "w").Number(14, 1);
    tensor.Sub(13, Message().Text(1, "location").Text(2, location));
    if (!offset.empty()) tensor.Sub(13, Message().Text(1, "offset").Text(2, offset));
    if (!length.empty()) tensor.Sub(13, Message().Text(1, "length").Text(2, length));
    return ModelOf(GraphOf(
        {.nodes = {NodeOf("Neg", {"w"}, {"y"})}, .initializers = {tensor}, .outputs = {FloatInfo("y", {"3"})}}));
  }
  Result<std::unique_ptr<Graph>> Read(std::string_view location, std::string_view offset = "",
                                      std::string_view length = "") {
    const fs::path path = folder_ / "m.onnx";
    std::ofstream(path, std::ios::binary) << Model(location, offset, length).bytes();
    return ReadOnnxFile(path.string());
  }
  void ExpectRefused(std::string_view location, const std::string& text, std::string_view offset = "",
                     std::string_view length = "") {
    const auto r = Read(location, offset, length);
    ASSERT_FALSE(r.ok()) << location;
    EXPECT_THAT(r.status().message(), HasSubstr(text));
    EXPECT_THAT(r.status().message(), HasSubstr("graph.initializer[0] 'w'"));
  }

  fs::path root_, folder_;
  std::string weights_;
};

TEST_F(ExternalDataTest, MapsTheFileInTheModelsFolder) {
  const auto r = Read("weights.bin", "8", "12");
  ASSERT_TRUE(r.ok()) << r.status().message();
  const Tensor& w = (*r)->FindValue("w")->constant()->tensor();
  EXPECT_THAT(w.values<float>(), ElementsAre(2, 3, 4));
  ASSERT_EQ((*r)->mapped_files.size(), 2u);
  EXPECT_EQ(static_cast<const void*>((*r)->mapped_files[0]->data() + 8), w.raw_data());  // in place
  EXPECT_THAT((*Read("sub/w.bin"))->FindValue("w")->constant()->tensor().values<float>(), ElementsAre(0, 1, 2));
  EXPECT_TRUE(Read("./weights.bin", "244", "12").ok());
  // An offset that is not aligned for the type: copied, and right.
  std::ofstream(folder_ / "odd.bin", std::ios::binary) << "x" << weights_;
  EXPECT_THAT((*Read("odd.bin", "1"))->FindValue("w")->constant()->tensor().values<float>(), ElementsAre(0, 1, 2));
}

TEST_F(ExternalDataTest, OpensNothingOutsideOfTheFolder) {
  ExpectRefused("../secret.bin", "not inside the model's folder");
  ExpectRefused("sub/../../secret.bin", "not inside");
  ExpectRefused((root_ / "secret.bin").string(), "not inside");
  fs::create_symlink(root_ / "secret.bin", folder_ / "link.bin");
  ExpectRefused("link.bin", "not inside");
  fs::create_directory_symlink(root_, folder_ / "up");
  ExpectRefused("up/secret.bin", "not inside");
  // A folder whose name only begins like the model's.
  fs::create_directories(root_ / "model2");
  std::ofstream(root_ / "model2" / "w.bin", std::ios::binary) << weights_;
  fs::create_symlink(root_ / "model2" / "w.bin", folder_ / "link2.bin");
  ExpectRefused("link2.bin", "not inside");
  // Links that stay inside are fine.
  fs::create_symlink(folder_ / "weights.bin", folder_ / "inside.bin");
  EXPECT_TRUE(Read("inside.bin").ok());
}

TEST_F(ExternalDataTest, ChecksOffsetAndLength) {
  ExpectRefused("weights.bin", "beyond the file's 256", "248");
  ExpectRefused("weights.bin", "beyond the file's 256", "18446744073709551615");
  ExpectRefused("weights.bin", "not a number", "-4");
  ExpectRefused("weights.bin", "not a number", "8x");
  ExpectRefused("weights.bin", "has 16 bytes, the tensor needs 12", "0", "16");
  ExpectRefused("", "without a valid location");
  ExpectRefused("missing.bin", "missing.bin");
  ExpectRefused("sub", "is a folder");
}

// The policy for files that change under a loaded model: its user asks, and gets an error instead of results.
TEST_F(ExternalDataTest, FilesThatShrinkAreNoticed) {
  const auto r = Read("weights.bin", "8", "12");
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_EQ((*r)->mapped_files.size(), 2u);
  for (const auto& file : (*r)->mapped_files) {
    EXPECT_TRUE(file->CheckIntact().ok());
    fs::resize_file(file->path(), 1);
    EXPECT_EQ(file->CheckIntact().code(), StatusCode::kCorrupt);
  }
}

TEST_F(ExternalDataTest, ModelsInMemoryNeedAFolder) {
  const std::string bytes = Model("weights.bin", "", "").bytes();
  const auto without = ReadOnnx(AsBytes(bytes), nullptr);
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(without.status().message(), HasSubstr("set the external data folder"));
  OnnxReadOptions options;
  options.external_data_folder = folder_.string();
  const auto with = ReadOnnx(AsBytes(bytes), nullptr, options);
  ASSERT_TRUE(with.ok()) << with.status().message();
  EXPECT_THAT((*with)->FindValue("w")->constant()->tensor().values<float>(), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace quern
