#include "base/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace quern {
namespace {

using testing::HasSubstr;

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("quern_mapped_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, size_t size) {
    const std::string path = (folder_ / name).string();
    std::vector<char> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(1 + i % 250);
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(size));
    return path;
  }

  std::filesystem::path folder_;
};

// Volatile, so that reads whose sum nobody wants are made all the same.
uint64_t Sum(std::span<const uint8_t> bytes) {
  const volatile uint8_t* data = bytes.data();
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) sum += data[i];
  return sum;
}

TEST_F(MappedFileTest, ShowsTheFilesBytes) {
  const auto file = MappedFile::Open(Write("plain", 10000));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ((*file)->size(), 10000u);
  for (size_t i = 0; i < 10000; ++i) ASSERT_EQ((*file)->bytes()[i], 1 + i % 250);
  EXPECT_FALSE((*file)->damaged());
  EXPECT_TRUE((*file)->CheckIntact().ok());
}

// Pages of files that are resident in this process.
int64_t ResidentFilePages() {
  int64_t total = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> total >> resident >> shared;
  return shared;
}

TEST_F(MappedFileTest, DroppedPagesComeBackWhenTheyAreRead) {
  constexpr int64_t kPages = 2000;
  const auto file = MappedFile::Open(Write("large", static_cast<size_t>(kPages * sysconf(_SC_PAGESIZE))));
  ASSERT_TRUE(file.ok());
  const int64_t before = ResidentFilePages();
  const uint64_t sum = Sum((*file)->bytes());
  const int64_t read = ResidentFilePages();
  EXPECT_GE(read - before, kPages * 9 / 10);
  (*file)->DropPages();
  EXPECT_LE(ResidentFilePages() - before, kPages / 10);
  EXPECT_EQ(Sum((*file)->bytes()), sum);
  EXPECT_TRUE((*file)->CheckIntact().ok());
}

// Whoever has checked a path opens it without links: one that was put there since the check leads nowhere.
TEST_F(MappedFileTest, RefusesLinksWhenAsked) {
  std::filesystem::create_directories(folder_ / "real");
  Write("real/file", 10);
  std::filesystem::create_symlink(folder_ / "real", folder_ / "linked");
  std::filesystem::create_symlink(folder_ / "real" / "file", folder_ / "real" / "link");
  const std::string root = std::filesystem::canonical(folder_).string();
  auto open = [](const std::string& path) { return MappedFile::Open(path, INT64_MAX, MappedFile::Links::kRefuse); };
  const auto file = open(root + "/real/file");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->size(), 10u);
  for (const char* path : {"/linked/file", "/real/link"}) {
    EXPECT_TRUE(MappedFile::Open(root + path).ok()) << path;
    EXPECT_EQ(open(root + path).status().code(), StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(open(root + path).status().message(), HasSubstr("symbolic link"));
  }
  EXPECT_EQ(open(root + "/real/missing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(open(root + "/real").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(open("").ok(), false);
}

TEST_F(MappedFileTest, EmptyFile) {
  const auto file = MappedFile::Open(Write("empty", 0));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 0u);
  EXPECT_TRUE((*file)->bytes().empty());
  EXPECT_TRUE((*file)->CheckIntact().ok());
}

TEST_F(MappedFileTest, Errors) {
  const auto missing = MappedFile::Open((folder_ / "missing").string());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("missing"));
  EXPECT_EQ(MappedFile::Open(folder_.string()).status().code(), StatusCode::kInvalidArgument);
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(pipe).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::Open("/dev/null").status().code(), StatusCode::kInvalidArgument);
  const std::string path = Write("large", 1000);
  EXPECT_EQ(MappedFile::Open(path, 999).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(MappedFile::Open(path, 1000).ok());
}

TEST_F(MappedFileTest, ReadingBeyondACutIsNoticedAndSurvived) {
  constexpr size_t kSize = 1 << 20;
  const std::string path = Write("cut", kSize);
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  const uint64_t whole = Sum((*file)->bytes());
  ASSERT_EQ(truncate(path.c_str(), 300000), 0);
  const uint64_t cut = Sum((*file)->bytes());
  EXPECT_LT(cut, whole);
  EXPECT_TRUE((*file)->damaged());
  const Status status = (*file)->CheckIntact();
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("cut short"));
  EXPECT_THAT(status.message(), HasSubstr(path));
  // What the file still has is still read.
  EXPECT_EQ((*file)->bytes()[1000], 1 + 1000 % 250);
  EXPECT_EQ((*file)->bytes()[kSize - 1], 0);
}

TEST_F(MappedFileTest, ACutInsideTheLastPageRaisesNoSignalButIsNoticed) {
  const std::string path = Write("tail", 5000);
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate(path.c_str(), 4500), 0);
  EXPECT_EQ((*file)->bytes()[4999], 0);
  EXPECT_FALSE((*file)->damaged());
  EXPECT_THAT((*file)->CheckIntact().message(), HasSubstr("cut short"));
}

TEST_F(MappedFileTest, WritingOverOrGrowingTheFileIsNoticed) {
  const std::string path = Write("grown", 5000);
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate(path.c_str(), 6000), 0);
  EXPECT_THAT((*file)->CheckIntact().message(), HasSubstr("changed"));

  const std::string second = Write("written", 5000);
  const auto other = MappedFile::Open(second);
  ASSERT_TRUE(other.ok());
  const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 5}};
  ASSERT_EQ(utimensat(AT_FDCWD, second.c_str(), times, 0), 0);
  EXPECT_THAT((*other)->CheckIntact().message(), HasSubstr("changed"));
}

TEST_F(MappedFileTest, ReplacingTheFileByNameLeavesTheMappingWhole) {
  const std::string path = Write("replaced", 50000);
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  const uint64_t before = Sum((*file)->bytes());
  std::filesystem::rename(Write("other", 10), path);
  EXPECT_EQ(Sum((*file)->bytes()), before);
  EXPECT_TRUE((*file)->CheckIntact().ok());
}

TEST_F(MappedFileTest, OnlyTheFileThatWasCutIsDamaged) {
  const std::string first = Write("first", 100000), second = Write("second", 100000);
  const auto a = MappedFile::Open(first);
  const auto b = MappedFile::Open(second);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(truncate(second.c_str(), 0), 0);
  Sum((*b)->bytes());
  EXPECT_FALSE((*a)->damaged());
  EXPECT_TRUE((*a)->CheckIntact().ok());
  EXPECT_TRUE((*b)->damaged());
}

TEST_F(MappedFileTest, SeveralThreadsMeetTheCutAtOnce) {
  const std::string path = Write("threads", 1 << 20);
  for (int round = 0; round < 8; ++round) {
    Write("threads", 1 << 20);
    const auto file = MappedFile::Open(path);
    ASSERT_TRUE(file.ok());
    ASSERT_EQ(truncate(path.c_str(), 100), 0);
    std::atomic<uint64_t> total{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 4; ++t) readers.emplace_back([&] { total += Sum((*file)->bytes()); });
    for (std::thread& t : readers) t.join();
    EXPECT_TRUE((*file)->damaged());
    EXPECT_EQ(total, 4u * 5050u);  // 1 + 2 + ... + 100
  }
}

TEST_F(MappedFileTest, OpeningAndClosingOnManyThreads) {
  const std::string path = Write("shared", 20000);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const auto file = MappedFile::Open(path);
        if (file.ok() && (*file)->bytes()[19999] == 1 + 19999 % 250 && (*file)->CheckIntact().ok()) ++good;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good, 200);
}

std::atomic<int> g_foreign_signals{0};

TEST_F(MappedFileTest, OtherSignalsGoToTheHandlerThatWasThereBefore) {
  struct sigaction mine = {}, before = {}, after = {};
  mine.sa_handler = [](int) { ++g_foreign_signals; };
  ASSERT_EQ(sigaction(SIGBUS, &mine, &before), 0);
  {
    const std::string path = Write("chained", 20000);
    const auto file = MappedFile::Open(path);
    ASSERT_TRUE(file.ok());
    raise(SIGBUS);
    EXPECT_EQ(g_foreign_signals, 1);
    ASSERT_EQ(truncate(path.c_str(), 0), 0);
    Sum((*file)->bytes());
    EXPECT_TRUE((*file)->damaged());
    EXPECT_EQ(g_foreign_signals, 1);
  }
  ASSERT_EQ(sigaction(SIGBUS, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, mine.sa_handler) << "the last file's end restores the handler";
}

using MappedFileDeathTest = MappedFileTest;

TEST_F(MappedFileDeathTest, AFaultOutsideOfOurFilesStillEndsTheProcess) {
  const std::string path = Write("foreign", 20000);
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);
        const auto guard = MappedFile::Open(Write("guarded", 100));
        const int fd = open(path.c_str(), O_RDONLY);
        void* data = mmap(nullptr, 20000, PROT_READ, MAP_PRIVATE, fd, 0);
        if (!guard.ok() || data == MAP_FAILED || truncate(path.c_str(), 0) != 0) _exit(3);
        _exit(static_cast<volatile const char*>(data)[9000]);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace quern
