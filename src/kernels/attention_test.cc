// The attention driver in every combination of types against float64: masks, causal reach, shared heads, one query,
// transposed keys, sinks, soft caps, threads; by all instructions of the CPU and by none.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "base/cpu.h"
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
  int64_t batch, heads, kv_heads, queries, keys, size, value_size;
  bool causal = false, masked = false, transposed_keys = false, inside = false;
  float softcap = 0, sink = -kInfinity;
};

// Heads of a float type whose end is next to a page that faults.
struct Heads {
  Format format;
  HeadStrides strides;
  GuardedBuffer buffer;

  Heads(Format f, const HeadStrides& s, int64_t elements, uint32_t seed)
      : format(f), strides(s), buffer(static_cast<size_t>(elements) * FormatBytes(f)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
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
    std::normal_distribution<float> normal;
    for (float& x : mask_) x = random() % 4 == 0 ? -kInfinity : normal(random);
    // One query sees nothing.
    if (f.queries > 2) std::fill_n(mask_.begin() + f.keys, f.keys, -kInfinity);
  }
  Row RowOf(int64_t, int64_t, int64_t i, const Keys&, float*) const override {
    Row row{.first = 0, .end = form_.causal ? std::min(form_.keys, i + 1 + Reach()) : form_.keys};
    if (form_.masked) row.add[0] = mask_.data() + i * form_.keys;
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
  const Result<Attention> made = Attention::Create(sizes, options, Precision::kFp32, threads);
  ASSERT_TRUE(made.ok()) << made.status().message();
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
          const double allowed = Roundoff(types.y) * std::fabs(want) + (probability + 4e-6) * terms +
                                 (types.y == Format::kF16 ? 0x1p-24 : 0);
          const double got = y(b, h, i, d);
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : std::fabs(got - want) <= allowed)
              << got << " instead of " << want << ", head " << h << " query " << i << " element " << d;
        }
      }
    }
  }
}

TEST(Attention, IsThatOfFloat64) {
  const Form forms[] = {
      {.batch = 2, .heads = 3, .kv_heads = 3, .queries = 7, .keys = 19, .size = 16, .value_size = 16},
      {.batch = 1, .heads = 4, .kv_heads = 2, .queries = 1, .keys = 131, .size = 64, .value_size = 40},
      {.batch = 1, .heads = 1, .kv_heads = 1, .queries = 1, .keys = 1, .size = 1, .value_size = 1},
      {.batch = 1,
       .heads = 2,
       .kv_heads = 1,
       .queries = 80,
       .keys = 80,
       .size = 33,
       .value_size = 17,
       .causal = true,
       .inside = true},
      {.batch = 1,
       .heads = 2,
       .kv_heads = 2,
       .queries = 5,
       .keys = 40,
       .size = 24,
       .value_size = 8,
       .causal = true,
       .masked = true,
       .transposed_keys = true},
      {.batch = 1,
       .heads = 2,
       .kv_heads = 2,
       .queries = 9,
       .keys = 33,
       .size = 8,
       .value_size = 48,
       .masked = true,
       .softcap = 2},
      {.batch = 2,
       .heads = 2,
       .kv_heads = 1,
       .queries = 3,
       .keys = 21,
       .size = 32,
       .value_size = 32,
       .softcap = 30,
       .sink = 0.25f},
      {.batch = 1, .heads = 1, .kv_heads = 1, .queries = 3, .keys = 5, .size = 0, .value_size = 4},
      {.batch = 1, .heads = 2, .kv_heads = 1, .queries = 3, .keys = 0, .size = 4, .value_size = 4},
      {.batch = 1, .heads = 1, .kv_heads = 1, .queries = 40, .keys = 600, .size = 16, .value_size = 16},
  };
  for (const char* name : {"native", "generic"}) {
    const CpuFacts cpu = CpuFromSpec(name).value().facts();
    for (const AttentionTypes& types : kTypes) {
      for (size_t i = 0; i < std::size(forms); ++i) {
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

TEST(Attention, TypesThatNoProductTakes) {
  AttentionSizes sizes;
  sizes.batch = sizes.heads = 1;
  sizes.queries = sizes.keys = 4;
  sizes.size = sizes.value_size = 8;
  sizes.q = sizes.k = sizes.v = sizes.y = Dense(1, 4, 8, false);
  sizes.types = {Format::kF16, Format::kBf16, Format::kF32};
  SelectOptions options;
  options.cpu = HostCpu().facts();
  EXPECT_EQ(Attention::Create(sizes, options, Precision::kFp32, 1).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace quern::kernels
