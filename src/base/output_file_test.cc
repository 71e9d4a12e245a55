#include "base/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace quern {
namespace {

using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("quern_output_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string In(const std::string& name) const { return (folder_ / name).string(); }
  static std::string Slurp(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t NumFiles() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::filesystem::path folder_;
};

TEST_F(OutputFileTest, IsThereWhenPublished) {
  const std::string path = In("a");
  std::ofstream(path) << "old";
  std::ifstream reader(path);
  {
    const auto file = OutputFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE((*file)->Write("new").ok());
    EXPECT_TRUE((*file)->WriteZeros(5000).ok());
    EXPECT_TRUE((*file)->Write({}).ok());
    EXPECT_EQ((*file)->size(), 5003u);
    EXPECT_EQ(Slurp(path), "old");
    EXPECT_TRUE((*file)->Close().ok());
    EXPECT_EQ(Slurp(path), "old");
    EXPECT_TRUE((*file)->Publish().ok());
  }
  EXPECT_EQ(Slurp(path), "new" + std::string(5000, '\0'));
  EXPECT_EQ(NumFiles(), 1u);
  std::string word;
  reader >> word;
  EXPECT_EQ(word, "old") << "who has the old file open keeps it";
}

TEST_F(OutputFileTest, IsGoneOtherwise) {
  {
    const auto file = OutputFile::Create(In("a"));
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE((*file)->Write("x").ok());
  }
  EXPECT_EQ(NumFiles(), 0u);
}

TEST_F(OutputFileTest, Refusals) {
  const auto nowhere = OutputFile::Create(In("no/a"));
  EXPECT_EQ(nowhere.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(nowhere.status().message(), HasSubstr(In("no/a")));
  EXPECT_EQ(OutputFile::Create(folder_.string()).status().code(), StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(In("pipe").c_str(), 0600), 0);
  EXPECT_EQ(OutputFile::Create(In("pipe")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(OutputFile::Create("/dev/full").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(NumFiles(), 1u);
}

}  // namespace
}  // namespace quern
