// Packed weights and a store: what is found again, what its keys depend on, and packing in pieces.
#include "kernels/packed_rhs.h"
#include "base/random_numbers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/cpu.h"
#include "kernels/packed_key.h"

namespace quern::kernels {
namespace {

class MapStore final : public PackedStore {
 public:
  uint64_t seed() const override { return 7; }
  std::shared_ptr<const std::byte> Find(const ContentKey& key, size_t bytes) override {
    const auto it = entries_.find(key.Hex());
    if (it == entries_.end() || it->second->size() != bytes) return nullptr;
    ++found;
    return {it->second, it->second->data()};
  }
  void Put(const ContentKey& key, const std::shared_ptr<const std::byte>& packed, size_t bytes) override {
    entries_[key.Hex()] = std::make_shared<std::vector<std::byte>>(packed.get(), packed.get() + bytes);
  }
  size_t size() const { return entries_.size(); }

  int found = 0;

 private:
  std::map<std::string, std::shared_ptr<std::vector<std::byte>>> entries_;
};

struct Case {
  GemmProblem problem;
  ukernel::RhsSource source;
  size_t batches = 1;
  ptrdiff_t batch_stride = 0;
};

PackedRhs Pack(const Case& c, const Packing& packing) {
  const SelectOptions options{.cpu = HostCpu().facts()};
  const LayoutChoice layout = SelectLayout(c.problem, options).value();
  Result<PackedRhs> packed =
      PackedRhs::Pack(c.problem, layout, c.source, packing, options.cpu, c.batches, c.batch_stride);
  EXPECT_TRUE(packed.ok()) << packed.status().message();
  return *std::move(packed);
}

bool SameBytes(const PackedRhs& a, const PackedRhs& b) {
  return a.packed_bytes() == b.packed_bytes() && std::memcmp(a.data(), b.data(), a.packed_bytes()) == 0;
}

std::vector<float> Draw(size_t n) {
  std::mt19937 random(1);
  NormalNumbers<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

// Row-major [k, n] weights.
Case Rows(const std::vector<float>& w, size_t k, size_t n) {
  Case c;
  c.problem.k = k;
  c.problem.n = n;
  c.source.data = w.data();
  c.source.k_stride = static_cast<ptrdiff_t>(n * 4);
  c.source.n_stride = 4;
  return c;
}

TEST(PackedRhs, IsFoundAgain) {
  std::vector<float> w = Draw(200 * 130);
  InlineExecutor executor;
  MapStore store;
  const PackedRhs plain = Pack(Rows(w, 200, 130), executor), first = Pack(Rows(w, 200, 130), {executor, &store});
  EXPECT_EQ(store.found, 0);
  const std::vector<float> copy = w;  // the content counts, not where it lies
  const PackedRhs second = Pack(Rows(copy, 200, 130), {executor, &store});
  EXPECT_EQ(store.found, 1);
  EXPECT_TRUE(SameBytes(plain, first));
  EXPECT_TRUE(SameBytes(plain, second));
  w[12345] += 1;
  EXPECT_FALSE(SameBytes(plain, Pack(Rows(w, 200, 130), {executor, &store})));
  EXPECT_EQ(store.found, 1);
  EXPECT_EQ(store.size(), 2u);
}

TEST(PackedRhs, KeysKnowHowTheContentLies) {
  const std::vector<float> w = Draw(256 * 256);
  InlineExecutor executor;
  MapStore store;
  const auto pack = [&](const Case& c) {
    const PackedRhs plain = Pack(c, executor);
    const int found = store.found;
    EXPECT_TRUE(SameBytes(plain, Pack(c, {executor, &store})));
    EXPECT_EQ(store.found, found) << "an entry of another form was taken";
  };
  Case c = Rows(w, 256, 256);
  pack(c);
  std::swap(c.source.k_stride, c.source.n_stride);
  pack(c);
  pack(Rows(w, 128, 512));
  c = Rows(w, 64, 256);
  c.problem.segments = 4;
  c.source.segment_stride = 64 * 256 * 4;
  pack(c);
  c.problem.segments = 1;
  c.batches = 4;
  c.batch_stride = 64 * 256 * 4;
  pack(c);
  EXPECT_EQ(store.size(), 5u);
}

TEST(PackedRhs, SmallOnesAndThoseWithGapsAreNotStored) {
  const std::vector<float> w = Draw(256 * 300);
  InlineExecutor executor;
  MapStore store;
  Pack(Rows(w, 64, 64), {executor, &store});
  Case gaps = Rows(w, 256, 256);
  gaps.source.k_stride = 300 * 4;
  Pack(gaps, {executor, &store});
  EXPECT_EQ(store.size(), 0u);
}

// The bound of neighbours is for the products of bytes of CPUs that have nothing better; a store's weights have it too.
TEST(PackedRhs, BoundOfPairsWhereTheCpuUsesIt) {
  const auto runs = [](const char* cpu) { return CanRun(CpuFromSpec(cpu).value()); };
  if (!runs("haswell")) GTEST_SKIP() << "needs AVX2";
  constexpr size_t kK = 300, kN = 250;
  std::vector<int8_t> w(kK * kN);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<int8_t>(i % 61 - 30);
  w[17 * kN + 249] = w[16 * kN + 249] = -90;
  w[18 * kN + 3] = w[19 * kN + 3] = 80;
  w[21 * kN + 5] = w[22 * kN + 5] = 100;  // no pair: the second and the first of two
  InlineExecutor executor;
  MapStore store;
  const auto pack = [&](const char* cpu, Format lhs) {
    Case c{.problem = {.lhs = lhs, .rhs = Format::kI8, .n = kN, .k = kK, .precision = Precision::kExact}};
    if (lhs == Format::kI8d) c.problem.precision = Precision::kFp32;
    c.source = {.format = Format::kI8, .data = w.data(), .k_stride = kN, .n_stride = 1};
    const SelectOptions options{.cpu = CpuFromSpec(cpu).value().facts()};
    const LayoutChoice layout = SelectLayout(c.problem, options).value();
    const Packing packing{executor, &store};
    return PackedRhs::Pack(c.problem, layout, c.source, packing, options.cpu).value();
  };
  const auto bound = [&](const char* cpu, Format lhs) { return pack(cpu, lhs).pair_bound(); };
  EXPECT_EQ(bound("haswell", Format::kU8), 128) << "but for the groups of 160 and 180";
  const int found = store.found;
  EXPECT_EQ(bound("haswell", Format::kI8), 128);
  EXPECT_GT(store.found, found) << "the last one came out of the store";
  EXPECT_EQ(bound("haswell", Format::kI8d), 128) << "channel scales behind the same elements";
  if (runs("icelake")) EXPECT_EQ(bound("icelake", Format::kU8), 0);
  const PackedRhs few = pack("haswell", Format::kU8);
  const ukernel::WideGroups wide = few.wide_groups();
  ASSERT_NE(wide.begin, nullptr);
  EXPECT_EQ(wide.begin[0], 0u);
  EXPECT_EQ(wide.begin[1], 1u) << "column 3";
  EXPECT_EQ(wide.begin[few.geometry().units], 2u) << "columns 3 and 249";
  EXPECT_EQ(wide.at[0], 4u * 64) << "k 16 to 19";
  EXPECT_EQ(wide.at[1], 4u * 64);
  for (size_t k = 0; k < kK; k += 8) {
    for (size_t n = 0; n < kN; n += 16) w[k * kN + n] = w[(k + 1) * kN + n] = 100;
  }
  const PackedRhs many = pack("haswell", Format::kU8);
  EXPECT_EQ(many.wide_groups().begin, nullptr) << "every other group is not few";
  EXPECT_EQ(many.pair_bound(), 200);
  // Of most groups 150, of one in a hundred 254.
  for (size_t k = 0; k < kK; ++k) {
    for (size_t n = 0; n < kN; ++n) w[k * kN + n] = n % 16 ? 0 : 75;
  }
  for (size_t n = 0; n < kN; n += 16) w[32 * kN + n] = w[33 * kN + n] = 127;
  const PackedRhs one = pack("haswell", Format::kU8);
  EXPECT_EQ(one.pair_bound(), 150);
  ASSERT_NE(one.wide_groups().begin, nullptr);
  EXPECT_EQ(one.wide_groups().at[0], 8u * 64) << "k 32 to 35";
}

TEST(PackedRhs, LargeOnesArePackedInPieces) {
  constexpr size_t kRows = 4096, kColumns = 4096;  // two pieces, and vectors behind the units
  const std::vector<float> w = Draw(kRows * kColumns);
  InlineExecutor executor;
  int drops = 0;
  const Packing packing(executor, nullptr, [&] { ++drops; });
  const Case c = Rows(w, kRows, kColumns);
  const PackedRhs whole = Pack(c, packing);
  EXPECT_GE(drops, 1);
  AlignedBuffer at_once = AlignedBuffer::Allocate(whole.packed_bytes()).value();
  ASSERT_TRUE(whole.PackInto(at_once.data(), c.source, executor, HostCpu().facts(), 0).ok());
  EXPECT_EQ(std::memcmp(at_once.data(), whole.data(), whole.packed_bytes()), 0);
}

TEST(AddStrided, TakesWhatFillsOnePieceOfMemory) {
  const std::vector<float> w = Draw(24);
  InlineExecutor executor;
  const Packing packing(executor);
  const auto dense = [&](std::vector<StridedExtent> extents) {
    ContentHash hash;
    return AddStrided(hash, w.data(), 4, extents, packing);
  };
  EXPECT_TRUE(dense({{2, 48}, {3, 16}, {4, 4}}));
  EXPECT_TRUE(dense({{4, 4}, {2, 48}, {1, 1000}, {3, 16}}));
  EXPECT_TRUE(dense({{0, 7}, {3, 5}}));
  EXPECT_FALSE(dense({{2, 48}, {3, 16}, {3, 4}})) << "gaps";
  EXPECT_FALSE(dense({{2, 0}, {4, 4}})) << "repeated elements";
  EXPECT_FALSE(dense({{4, -4}})) << "backwards";
}

}  // namespace
}  // namespace quern::kernels
