// The attention driver in every combination of types against float64: masks, causal reach, shared heads, one query,
// transposed keys, sinks, soft caps, threads, many blocks of keys; by all instructions of the CPU and by none.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "kernels/run_time_drivers.h"
#include "parallel/hostile_executor.h"
#include "ukernel/convert.h"
#include "ukernel/guarded_buffer.h"

namespace quern::kernels {
namespace {

using ukernel::GuardedBuffer;
using ukernel::LoadFloat;
using ukernel::StoreFloat;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Form {
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, size = 0, value_size = 0;
  bool causal = false, masked = false, transposed_keys = false, inside = false;
  float softcap = 0, sink = -kInfinity;
  // In masks: what grows by key, so that the largest score is in the last block, or the first; what is hidden in most
  // blocks, of some rows in the first ones.
  float ramp = 0;
  bool hides_blocks = false;
};
Form Sized(int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys, int64_t size,
           int64_t value_size, Form form = {}) {
  form.batch = batch, form.heads = heads, form.kv_heads = kv_heads, form.queries = queries, form.keys = keys;
  form.size = size, form.value_size = value_size;
  return form;
}
// So small that blocks of keys are the smallest.
constexpr uint32_t kSmallL2 = 1 << 9;
constexpr int64_t kSmallKeys = 64;

// Heads of a float type whose end is next to a page that faults.
struct Heads {
  Format format;
  HeadStrides strides;
  GuardedBuffer buffer;

  Heads(Format f, const HeadStrides& s, int64_t elements, uint32_t seed)
      : format(f), strides(s), buffer(static_cast<size_t>(elements) * FormatBytes(f)) {
    std::mt19937 random(seed);
    NormalNumbers<float> normal;
    for (int64_t i = 0; i < elements; ++i) StoreFloat(f, At(i), normal(random));
  }
  char* At(int64_t i) const { return buffer.data() + static_cast<size_t>(i) * FormatBytes(format); }
  char* At(int64_t b, int64_t h, int64_t s, int64_t p) const { return At(strides.At(b, h, s) + p * strides.element); }
  double operator()(int64_t b, int64_t h, int64_t s, int64_t p) const {
    return static_cast<double>(LoadFloat(format, At(b, h, s, p)));
  }
};

HeadStrides Dense(int64_t heads, int64_t rows, int64_t size, bool inside) {
  if (inside) return {rows * heads * size, size, heads * size, 1};
  return {heads * rows * size, rows * size, size, 1};
}

class Rules final : public ScoreRules {
 public:
  explicit Rules(const Form& f) : form_(f), mask_(static_cast<size_t>(f.queries * f.keys)) {
    std::mt19937 random(11);
    NormalNumbers<float> normal;
    for (float& x : mask_) x = random() % 4 == 0 ? -kInfinity : normal(random);
    for (int64_t at = 0; at < f.queries * f.keys; ++at) {
      const int64_t i = at / f.keys, j = at % f.keys;
      mask_[static_cast<size_t>(at)] += (i % 2 ? -f.ramp : f.ramp) * static_cast<float>(j);
      const bool hidden = i % 3 == 0 ? j < 2 * kSmallKeys + 5 : (j / kSmallKeys + i) % 3 != 0;
      if (f.hides_blocks && hidden) mask_[static_cast<size_t>(at)] = -kInfinity;
    }
    // One query sees nothing.
    if (f.queries > 2) std::fill_n(mask_.begin() + f.keys, f.keys, -kInfinity);
  }
  // Half of the rows in the room.
  Row RowOf(int64_t, int64_t, int64_t i, const Keys& keys, float* room) const override {
    Row row{.first = 0, .end = form_.causal ? std::min(form_.keys, i + 1 + Reach()) : form_.keys};
    if (!form_.masked) return row;
    row.add[0] = mask_.data() + i * form_.keys + keys.begin;
    if (i % 2) row.add[0] = std::copy_n(row.add[0], keys.end - keys.begin, room) - (keys.end - keys.begin);
    return row;
  }
  float Sink(int64_t h) const override { return form_.sink + (h % 2 ? 0.5f : 0.0f); }
  int64_t Reach() const { return std::max<int64_t>(0, form_.keys - form_.queries); }
  // What is added to a score; -infinity: hidden.
  double Added(int64_t i, int64_t j) const {
    if (form_.causal && j > i + Reach()) return -static_cast<double>(kInfinity);
    return form_.masked ? static_cast<double>(mask_[static_cast<size_t>(i * form_.keys + j)]) : 0.0;
  }

 private:
  Form form_;
  std::vector<float> mask_;
};

constexpr AttentionTypes kTypes[] = {{},
                                     {Format::kF16, Format::kF16, Format::kF16},
                                     {Format::kBf16, Format::kBf16, Format::kBf16},
                                     {Format::kF32, Format::kF16, Format::kF32},
                                     {Format::kBf16, Format::kBf16, Format::kF32},
                                     {Format::kF32, Format::kF32, Format::kF16}};

double Roundoff(Format f) { return f == Format::kF16 ? 0x1p-11 : f == Format::kBf16 ? 0x1p-8 : 0; }

void Check(const Form& f, const AttentionTypes& types, const CpuFacts& cpu, int threads) {
  const double exponent = 0x1p-23 * std::fabs(f.ramp) * static_cast<double>(f.keys);  // rounding of what is added
  const HeadStrides dense_keys = Dense(f.kv_heads, f.keys, f.size, false);
  const HeadStrides keys = f.transposed_keys ? HeadStrides{dense_keys.batch, dense_keys.head, 1, f.keys} : dense_keys;
  const Heads q(types.q, Dense(f.heads, f.queries, f.size, f.inside), f.batch * f.heads * f.queries * f.size, 1);
  const Heads k(types.kv, keys, f.batch * f.kv_heads * f.keys * f.size, 2);
  const Heads v(types.kv, Dense(f.kv_heads, f.keys, f.value_size, f.inside),
                f.batch * f.kv_heads * f.keys * f.value_size, 3);
  const Heads y(types.y, Dense(f.heads, f.queries, f.value_size, f.inside),
                f.batch * f.heads * f.queries * f.value_size, 4);
  const Rules rules(f);
  // The last query sees a value that is no number, the others do not.
  const int64_t hidden = f.causal && f.queries > 1 && f.keys >= f.queries ? f.keys - 1 : -1;
  if (hidden >= 0) StoreFloat(v.format, v.At(0, 0, hidden, 0), NAN);

  AttentionSizes sizes{.batch = f.batch,
                       .heads = f.heads,
                       .kv_heads = f.kv_heads,
                       .queries = f.queries,
                       .keys = f.keys,
                       .size = f.size,
                       .value_size = f.value_size,
                       .q = q.strides,
                       .k = k.strides,
                       .v = v.strides,
                       .y = y.strides,
                       .types = types,
                       .scale = 1 / std::sqrt(static_cast<float>(std::max<int64_t>(f.size, 1))),
                       .softcap = f.softcap};
  if (f.causal) sizes.reach = rules.Reach();
  SelectOptions options;
  options.cpu = cpu;
  RunTimeDrivers drivers(options);
  const Result<Attention> made = Attention::Create(sizes, drivers, Precision::kFp32, threads);
  ASSERT_TRUE(made.ok()) << made.status().message();
  if (cpu.l2_bytes == kSmallL2) {
    ASSERT_EQ(made->block_keys(), static_cast<size_t>(std::min(f.keys, kSmallKeys)));
  }
  GuardedBuffer workspace(made->workspace_bytes());
  HostileExecutor hostile(7, threads);
  InlineExecutor inline_executor;
  Executor* executor = threads > 1 ? static_cast<Executor*>(&hostile) : &inline_executor;
  const Status status =
      made->Run({.q = q.buffer.data(), .k = k.buffer.data(), .v = v.buffer.data(), .y = y.buffer.data()}, rules,
                {.executor = executor, .workspace = workspace.data(), .workspace_bytes = made->workspace_bytes()});
  ASSERT_TRUE(status.ok()) << status.message();

  const double probability = types.kv == Format::kBf16 ? Roundoff(Format::kBf16) : 0;
  std::vector<double> p(static_cast<size_t>(f.keys));
  for (int64_t b = 0; b < f.batch; ++b) {
    for (int64_t h = 0; h < f.heads; ++h) {
      const int64_t kv = h / (f.heads / f.kv_heads);
      for (int64_t i = 0; i < f.queries; ++i) {
        double largest = rules.Sink(h);
        for (int64_t j = 0; j < f.keys; ++j) {
          double score = 0;
          for (int64_t d = 0; d < f.size; ++d) score += q(b, h, i, d) * k(b, kv, j, d);
          score *= static_cast<double>(sizes.scale);
          if (f.softcap > 0) score = f.softcap * std::tanh(score / f.softcap);
          p[static_cast<size_t>(j)] = score + rules.Added(i, j);
          largest = std::max(largest, p[static_cast<size_t>(j)]);
        }
        double sum = largest == -kInfinity ? 1 : std::exp(rules.Sink(h) - largest);
        for (double& x : p) sum += x = largest == -kInfinity ? 0 : std::exp(x - largest);
        for (int64_t d = 0; d < f.value_size; ++d) {
          double want = 0, terms = 0;
          for (int64_t j = 0; j < f.keys; ++j) {
            const double x = p[static_cast<size_t>(j)] / sum;
            if (x == 0) continue;
            want += x * v(b, kv, j, d);
            terms += x * std::fabs(v(b, kv, j, d));
          }
          const double allowed = Roundoff(types.y) * std::fabs(want) + (probability + 4e-6 + exponent) * terms +
                                 (types.y == Format::kF16 ? 0x1p-24 : 0x1p-120);
          const double got = y(b, h, i, d);
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : std::fabs(got - want) <= allowed)
              << got << " instead of " << want << ", head " << h << " query " << i << " element " << d;
        }
      }
    }
  }
}

// In all combinations of types; l2_bytes: instead of the CPU's, if not 0.
void CheckAll(const std::vector<Form>& forms, uint32_t l2_bytes) {
  for (const char* name : {"native", "generic"}) {
    CpuFacts cpu = CpuFromSpec(name).value().facts();
    if (l2_bytes) cpu.l2_bytes = l2_bytes;
    for (const AttentionTypes& types : kTypes) {
      for (size_t i = 0; i < forms.size(); ++i) {
        SCOPED_TRACE(std::string(name) + " " + FormatName(types.q) + " " + FormatName(types.kv) + " " +
                     FormatName(types.y) + ", form " + std::to_string(i));
        ASSERT_NO_FATAL_FAILURE(Check(forms[i], types, cpu, 1));
        if (name == std::string("native")) {
          ASSERT_NO_FATAL_FAILURE(Check(forms[i], types, cpu, 3));
        }
      }
    }
  }
}

TEST(Attention, IsThatOfFloat64) {
  const std::vector<Form> forms = {
      Sized(2, 3, 3, 7, 19, 16, 16),
      Sized(1, 4, 2, 1, 131, 64, 40),
      Sized(1, 1, 1, 1, 1, 1, 1),
      Sized(1, 2, 1, 80, 80, 33, 17, {.causal = true, .inside = true}),
      Sized(1, 2, 2, 5, 40, 24, 8, {.causal = true, .masked = true, .transposed_keys = true}),
      Sized(1, 2, 2, 9, 33, 8, 48, {.masked = true, .softcap = 2}),
      Sized(2, 2, 1, 3, 21, 32, 32, {.softcap = 30, .sink = 0.25f}),
      Sized(1, 1, 1, 3, 5, 0, 4),
      Sized(1, 2, 1, 3, 0, 4, 4),
      Sized(1, 1, 1, 40, 600, 16, 16),
  };
  CheckAll(forms, 0);
}

TEST(Attention, IsThatOfFloat64OverManyBlocksOfKeys) {
  const std::vector<Form> forms = {
      Sized(2, 2, 1, 7, 300, 16, 24),
      Sized(1, 4, 2, 1, 333, 24, 40, {.sink = 1.5f}),
      Sized(1, 1, 1, 2, 65, 8, 3),
      Sized(1, 2, 1, 210, 210, 9, 17, {.causal = true, .inside = true}),
      Sized(1, 2, 2, 90, 250, 24, 8, {.causal = true, .masked = true, .transposed_keys = true, .hides_blocks = true}),
      Sized(1, 2, 2, 9, 400, 8, 48, {.masked = true, .softcap = 2, .hides_blocks = true}),
      Sized(1, 2, 2, 6, 320, 8, 5, {.masked = true, .ramp = 0.1f}),
      Sized(1, 2, 1, 6, 320, 8, 5, {.masked = true, .softcap = 30, .sink = 0.25f, .ramp = 3, .hides_blocks = true}),
      Sized(1, 1, 1, 4, 200, 0, 4, {.masked = true, .hides_blocks = true}),
  };
  CheckAll(forms, kSmallL2);
}

// One query of one element, 1, by keys and values of one element.
struct Line {
  std::vector<float> k = std::vector<float>(4 * kSmallKeys), v = k, mask = k;
  bool masked = false;

  class Rules final : public ScoreRules {
   public:
    explicit Rules(const Line& line) : line_(line) {}
    Row RowOf(int64_t, int64_t, int64_t, const Keys& keys, float*) const override {
      return {.first = 0,
              .end = static_cast<int64_t>(line_.k.size()),
              .add = {line_.masked ? line_.mask.data() + keys.begin : nullptr, nullptr}};
    }

   private:
    const Line& line_;
  };

  float Run(uint32_t l2_bytes) const {
    const auto keys = static_cast<int64_t>(k.size());
    AttentionSizes sizes;
    sizes.batch = sizes.heads = sizes.queries = sizes.size = sizes.value_size = 1;
    sizes.keys = keys;
    sizes.q = sizes.y = Dense(1, 1, 1, false);
    sizes.k = sizes.v = Dense(1, keys, 1, false);
    SelectOptions options;
    options.cpu = HostCpu().facts();
    options.cpu.l2_bytes = l2_bytes;
    RunTimeDrivers drivers(options);
    const Attention attention = Attention::Create(sizes, drivers, Precision::kFp32, 1).value();
    GuardedBuffer workspace(attention.workspace_bytes());
    InlineExecutor executor;
    const float q = 1;
    float y = 17;
    EXPECT_TRUE(
        attention
            .Run({.q = &q, .k = k.data(), .v = v.data(), .y = &y}, Rules(*this),
                 {.executor = &executor, .workspace = workspace.data(), .workspace_bytes = attention.workspace_bytes()})
            .ok());
    return y;
  }
};

// What infinities, numbers that are none and rows without a key give, in one block of keys or in several.
TEST(Attention, SpecialValuesInAnyBlock) {
  const size_t n = 4 * kSmallKeys;
  // A cache with room for all keys, and one for a quarter of them.
  for (const uint32_t l2 : {uint32_t{1} << 20, kSmallL2}) {
    SCOPED_TRACE(l2);
    for (const size_t at : {size_t{3}, size_t{70}, n - 1}) {
      SCOPED_TRACE(at);
      Line line;
      for (size_t j = 0; j < n; ++j) line.v[j] = static_cast<float>(j);
      EXPECT_FLOAT_EQ(line.Run(l2), static_cast<float>(n - 1) / 2);
      Line other = line;
      other.v[at] = kInfinity;
      EXPECT_EQ(other.Run(l2), kInfinity);
      // A score that leaves nothing of the others, whatever their values are.
      other.v[at] = 5;
      other.v[at == 3 ? 200 : 2] = -kInfinity;
      other.k[at] = 300;
      EXPECT_FLOAT_EQ(other.Run(l2), 5);
      other.k[at] = kInfinity;
      EXPECT_TRUE(std::isnan(other.Run(l2)));
      other = line;
      other.k[at] = NAN;
      EXPECT_TRUE(std::isnan(other.Run(l2)));
      // Hidden, by -infinity alone or with all others.
      other.masked = true;
      other.mask[at] = -kInfinity;
      other.v[at] = NAN;
      EXPECT_NEAR(other.Run(l2), static_cast<float>((n * (n - 1) / 2 - at)) / static_cast<float>(n - 1), 2e-4f);
      other.mask.assign(n, -kInfinity);
      EXPECT_EQ(other.Run(l2), 0.0f);
      // One key is seen.
      other.k[at] = 1;
      other.v[at] = 4;
      other.mask[at] = -1e30f;
      EXPECT_FLOAT_EQ(other.Run(l2), 4);
      // Scores of -infinity that nothing hides: all, or all but one.
      other = line;
      other.k.assign(n, -kInfinity);
      EXPECT_TRUE(std::isnan(other.Run(l2)));
      other.k[at] = -7;
      EXPECT_FLOAT_EQ(other.Run(l2), static_cast<float>(at));
      // Values near the largest number: their mean is one of them, though their sum is none.
      other = line;
      other.v.assign(n, 3e38f);
      EXPECT_NEAR(other.Run(l2), 3e38f, 1e33f);
    }
  }
}

// Biases that hide all keys but by a finite number, others in blocks between, leave the differences of scores.
TEST(Attention, LargeBiasesInBlocks) {
  for (const float between : {-1e6f, -2e4f}) {
    for (const float bias : {-1e4f, 1e4f}) {
      Line line;
      line.masked = true;
      double want = 0, sum = 0;
      for (size_t j = 0; j < line.k.size(); ++j) {
        const bool even = j / kSmallKeys % 2 == 0;
        line.mask[j] = even ? bias : bias > 0 && between == -1e6f ? 0 : between;
        line.k[j] = 0.3137f * static_cast<float>(j % 7 + (j < kSmallKeys ? 1 : 0));
        line.v[j] = even ? static_cast<float>(j) : 1e9f;
        if (!even) continue;
        const double p = std::exp(static_cast<double>(line.k[j]));
        want += p * static_cast<double>(line.v[j]);
        sum += p;
      }
      want /= sum;
      EXPECT_NEAR(static_cast<double>(line.Run(kSmallL2)), want, 2e-6 * want) << bias << " " << between;
      EXPECT_NEAR(static_cast<double>(line.Run(1 << 20)), want, 2e-6 * want) << bias << " " << between;
    }
  }
}

TEST(Attention, WorkspaceDoesNotGrowWithTheKeys) {
  const auto bytes = [](int64_t queries, int64_t keys) {
    AttentionSizes sizes;
    sizes.batch = 1;
    sizes.heads = sizes.kv_heads = 2;
    sizes.queries = queries;
    sizes.keys = keys;
    sizes.size = sizes.value_size = 64;
    sizes.q = sizes.y = Dense(2, queries, 64, false);
    sizes.k = sizes.v = Dense(2, keys, 64, false);
    SelectOptions options;
    options.cpu = HostCpu().facts();
    options.cpu.l2_bytes = 1 << 20;
    RunTimeDrivers drivers(options);
    return Attention::Create(sizes, drivers, Precision::kFp32, 1).value().workspace_bytes();
  };
  for (const int64_t queries : {1, 32, 4096}) {
    EXPECT_EQ(bytes(queries, 4096), bytes(queries, 1 << 20)) << queries;
    EXPECT_LT(bytes(queries, 1 << 20), size_t{4} << 20) << queries;
  }
}

TEST(Attention, TypesThatNoProductTakes) {
  AttentionSizes sizes;
  sizes.batch = sizes.heads = 1;
  sizes.queries = sizes.keys = 4;
  sizes.size = sizes.value_size = 8;
  sizes.q = sizes.k = sizes.v = sizes.y = Dense(1, 4, 8, false);
  sizes.types = {Format::kF16, Format::kBf16, Format::kF32};
  SelectOptions options;
  options.cpu = HostCpu().facts();
  RunTimeDrivers drivers(options);
  EXPECT_EQ(Attention::Create(sizes, drivers, Precision::kFp32, 1).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace quern::kernels
