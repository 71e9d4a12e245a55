#include "session/pack_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "session/session.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// A folder of its own for each test, removed with it.
class PackCacheTest : public ::testing::Test {
 protected:
  PackCacheTest()
      : folder_(fs::temp_directory_path() / ("quern_pack_cache_" + std::to_string(getpid()) + "_" +
                                             ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
  }
  ~PackCacheTest() override { fs::remove_all(folder_); }

  std::shared_ptr<PackCache> Open(uint64_t limit = PackCache::kDefaultLimitBytes) {
    return PackCache::Open(folder_.string(), limit).value();
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".qpack") files.push_back(entry.path());
    }
    return files;
  }

  fs::path folder_;
};

std::vector<std::byte> Content(size_t n, int seed) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 13 + static_cast<size_t>(seed));
  return bytes;
}

ContentKey KeyOf(int i) { return HashBytes(&i, sizeof i); }

bool Holds(const std::shared_ptr<const std::byte>& found, const std::vector<std::byte>& bytes) {
  return found != nullptr && std::memcmp(found.get(), bytes.data(), bytes.size()) == 0;
}

TEST_F(PackCacheTest, AnotherProcessFindsWhatWasStored) {
  const std::vector<std::byte> bytes = Content(100'000, 1);
  const auto first = Open();
  EXPECT_EQ(first->Find(KeyOf(1), bytes.size()), nullptr);
  first->Put(KeyOf(1), bytes);
  const auto second = Open();
  EXPECT_EQ(first->seed(), second->seed());
  const auto found = second->Find(KeyOf(1), bytes.size());
  EXPECT_TRUE(Holds(found, bytes));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(found.get()) % 64, 0u);
  EXPECT_EQ(second->Find(KeyOf(2), bytes.size()), nullptr);
  EXPECT_EQ(second->counts().found, 1);
  EXPECT_EQ(second->counts().found_bytes, bytes.size());
  EXPECT_EQ(first->counts().stored, 1);
}

TEST_F(PackCacheTest, CachesHaveSeedsOfTheirOwn) {
  const auto cache = Open();
  EXPECT_NE(cache->seed(), PackCache::Open(folder_.string() + "/inner").value()->seed());
}

// A flipped bit anywhere that is read, a file cut short, a file of another weight: found as missing, and removed.
TEST_F(PackCacheTest, DamagedFilesAreLeftAside) {
  const std::vector<std::byte> bytes = Content(70'000, 2);
  const auto damage = [&](const std::function<void(const fs::path&)>& how) {
    Open()->Put(KeyOf(1), bytes);
    ASSERT_EQ(Files().size(), 1u);
    how(Files()[0]);
    const auto cache = Open();
    EXPECT_EQ(cache->Find(KeyOf(1), bytes.size()), nullptr);
    EXPECT_EQ(cache->counts().damaged, 1);
    EXPECT_TRUE(Files().empty());
  };
  for (const int at : {0, 8, 16, 32, 40, 4096, 4096 + 69'999}) {
    damage([&](const fs::path& file) {
      std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
      f.seekg(at);
      const char c = static_cast<char>(f.get());
      f.seekp(at);
      f.put(static_cast<char>(c ^ 4));
    });
  }
  damage([](const fs::path& file) { fs::resize_file(file, fs::file_size(file) - 1); });
  damage([](const fs::path& file) { fs::resize_file(file, 0); });
  damage([](const fs::path& file) { fs::resize_file(file, fs::file_size(file) + 4096); });
  // Another size is asked for under the same key.
  Open()->Put(KeyOf(1), bytes);
  EXPECT_EQ(Open()->Find(KeyOf(1), bytes.size() - 64), nullptr);
}

TEST_F(PackCacheTest, PagesThatGoWhileMappedAreNoticed) {
  const std::vector<std::byte> bytes = Content(200'000, 3);
  Open()->Put(KeyOf(1), bytes);
  const auto cache = Open();
  const auto found = cache->Find(KeyOf(1), bytes.size());
  ASSERT_TRUE(Holds(found, bytes));
  EXPECT_TRUE(cache->CheckIntact().ok());
  fs::resize_file(Files()[0], 8192);
  const volatile std::byte* last = found.get() + bytes.size() - 1;
  EXPECT_TRUE(*last == std::byte{0});
  EXPECT_EQ(cache->CheckIntact().code(), StatusCode::kCorrupt);
}

TEST_F(PackCacheTest, TheOldestGoBeyondTheLimit) {
  const std::vector<std::byte> bytes = Content(100'000, 4);
  const auto cache = Open(350'000);
  for (int i = 0; i < 5; ++i) {
    cache->Put(KeyOf(i), bytes);
    // Older than the next one, whatever the clock's steps are.
    const fs::path file = folder_ / (KeyOf(i).Hex() + ".qpack");
    if (fs::exists(file)) fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::seconds(100 - i));
  }
  EXPECT_EQ(Files().size(), 3u);
  EXPECT_EQ(cache->counts().removed, 2);
  EXPECT_EQ(cache->Find(KeyOf(0), bytes.size()), nullptr);
  EXPECT_TRUE(Holds(cache->Find(KeyOf(4), bytes.size()), bytes));
  cache->Put(KeyOf(9), Content(400'000, 5));  // more than all that may be kept
  EXPECT_EQ(Files().size(), 3u);
  // A smaller limit holds from the next start on.
  Open(110'000);
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(PackCacheTest, WhatBrokenWritersLeftIsRemoved) {
  Open();
  const fs::path old = folder_ / "0123.qpack.tmp1_1", fresh = folder_ / "4567.qpack.tmp2_1";
  std::ofstream(old) << "half";
  std::ofstream(fresh) << "half";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  Open();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(PackCacheTest, FoldersThatDoNotServe) {
  const Result<std::shared_ptr<PackCache>> none = PackCache::Open(folder_.string() + "/a/b");
  EXPECT_EQ(none.status().code(), StatusCode::kIo);
  EXPECT_THAT(none.status().message(), HasSubstr("/a/b"));
  std::ofstream(folder_) << "a file";
  EXPECT_EQ(PackCache::Open(folder_.string()).status().code(), StatusCode::kInvalidArgument);
  fs::remove(folder_);
  fs::create_directory(folder_);
  std::ofstream(folder_ / "seed") << "short";
  EXPECT_EQ(PackCache::Open(folder_.string()).status().code(), StatusCode::kCorrupt);
}

TEST_F(PackCacheTest, ManyThreadsStoreAndFind) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto cache = Open(1'000'000);
      for (int i = 0; i < 40; ++i) {
        const int key = (i + t * 7) % 16;
        const std::vector<std::byte> bytes = Content(80'000, key);
        const auto found = cache->Find(KeyOf(key), bytes.size());
        if (found != nullptr && !Holds(found, bytes)) ++wrong;
        if (found == nullptr) cache->Put(KeyOf(key), bytes);
      }
      if (cache->counts().damaged > 0) ++wrong;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// A convolution for Winograd or the direct algorithm, one by groups, products of both directions, a recurrent node.
std::unique_ptr<Graph> MakeGraph(unsigned seed) {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {1, 64, 14, 14});
  const std::map<std::string, Attribute, std::less<>> same = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  GraphValue* a = g.Op("Conv", {x, g.Const("ka", DrawFloats(Shape{64, 64, 3, 3}, seed))}, "a", same);
  auto groups = same;
  groups["group"] = int64_t{2};
  GraphValue* b = g.Op("Conv", {a, g.Const("kb", DrawFloats(Shape{96, 32, 3, 3}, seed + 1))}, "b", groups);
  GraphValue* w = g.In("w", DType::kF32, {5, 256});
  GraphValue* c = g.Op("MatMul", {w, g.Const("wc", DrawFloats(Shape{256, 128}, seed + 2))}, "c");
  GraphValue* d =
      g.Op("Gemm", {c, g.Const("wd", DrawFloats(Shape{192, 128}, seed + 3))}, "d", {{"transB", int64_t{1}}});
  GraphValue* s = g.In("s", DType::kF32, {3, 1, 64});
  GraphValue* l = g.Op("LSTM",
                       {s, g.Const("lw", DrawFloats(Shape{1, 256, 64}, seed + 4)),
                        g.Const("lr", DrawFloats(Shape{1, 256, 64}, seed + 5))},
                       "l", {{"hidden_size", int64_t{64}}});
  return g.Finish({b, d, l});
}

struct Ran {
  std::vector<Value> outputs;
  std::string facts;
};
Ran RunOnce(unsigned seed, const std::optional<std::string>& cache, const std::string& cpu = "native") {
  SessionOptions options;
  options.threads = 1;
  options.cpu = CpuFromSpec(cpu).value();
  options.pack_cache = cache;
  Result<std::unique_ptr<Session>> session = Session::Create(MakeGraph(seed), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  Ran ran{.outputs = std::vector<Value>(3), .facts = {}};
  const Value inputs[] = {DrawFloats(Shape{1, 64, 14, 14}, 90), DrawFloats(Shape{5, 256}, 91),
                          DrawFloats(Shape{3, 1, 64}, 92)};
  const Status status = (*session)->Run(inputs, ran.outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  ran.facts = (*session)->Facts("compiled").value();
  return ran;
}

bool SameBits(const Ran& a, const Ran& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const Tensor &x = a.outputs[i].tensor(), &y = b.outputs[i].tensor();
    if (x.bytes() != y.bytes() || std::memcmp(x.raw_data(), y.raw_data(), x.bytes()) != 0) return false;
  }
  return true;
}

constexpr char kFoundNone[] = "\"found\":0,", kStoredNone[] = "\"stored\":0,";

TEST_F(PackCacheTest, SessionsTakeWhatEarlierOnesStored) {
  for (const char* cpu : {"native", "generic"}) {
    fs::remove_all(folder_);
    const Ran plain = RunOnce(1, "", cpu), first = RunOnce(1, folder_.string(), cpu),
              second = RunOnce(1, folder_.string(), cpu);
    EXPECT_THAT(plain.facts, Not(HasSubstr("pack_cache")));
    EXPECT_THAT(first.facts, HasSubstr(kFoundNone));
    EXPECT_EQ(Files().size(), 6u) << cpu;
    EXPECT_THAT(second.facts, HasSubstr("\"found\":6,"));
    EXPECT_THAT(second.facts, HasSubstr(kStoredNone));
    EXPECT_TRUE(SameBits(plain, first));
    EXPECT_TRUE(SameBits(plain, second));
  }
}

TEST_F(PackCacheTest, OtherWeightsAreOtherEntries) {
  RunOnce(1, folder_.string());
  const Ran other = RunOnce(100, folder_.string());
  EXPECT_THAT(other.facts, HasSubstr(kFoundNone));
  EXPECT_TRUE(SameBits(other, RunOnce(100, "")));
}

TEST_F(PackCacheTest, SessionsPackAgainWhatIsDamaged) {
  const Ran first = RunOnce(1, folder_.string());
  for (const fs::path& file : Files()) {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(5000);
    f.write("damage", 6);
  }
  const Ran second = RunOnce(1, folder_.string());
  EXPECT_THAT(second.facts, HasSubstr("\"damaged\":6,"));
  EXPECT_TRUE(SameBits(first, second));
  EXPECT_THAT(RunOnce(1, folder_.string()).facts, HasSubstr("\"found\":6,"));
}

TEST_F(PackCacheTest, FolderOfTheEnvironment) {
  setenv("QUERN_CACHE", folder_.c_str(), 1);
  RunOnce(1, std::nullopt);
  EXPECT_EQ(Files().size(), 6u);
  EXPECT_THAT(RunOnce(1, "").facts, Not(HasSubstr("pack_cache")));  // the option counts
  setenv("QUERN_CACHE", (folder_.string() + "/no/such").c_str(), 1);
  EXPECT_THAT(RunOnce(1, std::nullopt).facts, Not(HasSubstr("pack_cache")));
  setenv("QUERN_CACHE", folder_.c_str(), 1);
  setenv("QUERN_CACHE_LIMIT", "many", 1);
  SessionOptions options;
  EXPECT_THAT(Session::Create(MakeGraph(1), options).status().message(), HasSubstr("QUERN_CACHE_LIMIT is 'many'"));
  setenv("QUERN_CACHE_LIMIT", "100000", 1);
  RunOnce(1, std::nullopt);
  EXPECT_LE(Files().size(), 1u);
  unsetenv("QUERN_CACHE");
  unsetenv("QUERN_CACHE_LIMIT");
  options.pack_cache = folder_.string() + "/no/such";
  EXPECT_EQ(Session::Create(MakeGraph(1), options).status().code(), StatusCode::kIo);
}

}  // namespace
}  // namespace quern
