// LinearAttention of float32, that of ai.onnx and that of com.microsoft. A few tokens at a time read the state of a
// head as it was before them, and each other's updates by products of queries and keys; then the state takes all of
// these.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/common/linear_attention.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

enum Input { kQuery, kKey, kValue, kPast, kDecay, kBeta };

// Columns of a state that are worked on at a time: none depends on another, so they are shared between threads, and
// those of a hundred rows stay in the L2.
constexpr int64_t kBlockColumns = 128;
// Tokens between two updates of the state; what each reads of those before it grows with them.
constexpr int64_t kChunkTokens = 16;

struct Sizes {
  int64_t batch = 0, length = 0;
  int64_t q_heads = 0, key_heads = 0, heads = 0, out_heads = 0;  // `heads` have a state
  int64_t key_size = 0, value_size = 0;
  int64_t decay_columns = 0, beta_columns = 0;  // 0: the rule has none
  float scale = 1;

  int64_t group() const { return out_heads / heads; }                        // queries that read one state
  int64_t readers() const { return group() + (beta_columns != 0 ? 1 : 0); }  // and the key, for a correction
  bool decays_keys() const { return decay_columns != 0 && decay_columns != heads; }
};

struct Operands {
  const float *query, *key, *value, *past, *decay, *beta;  // past may be null
  float *y, *present;
};

// What a thread works in: places in floats.
struct Workspace {
  int64_t state;     // [key_size, columns]
  int64_t weights;   // [tokens, readers, key_size]: each times the decay since the chunk began
  int64_t products;  // [tokens, readers, kChunkTokens]: with the keys so far
  int64_t reads;     // [tokens, readers, columns]: found in the state
  int64_t updates;   // [tokens, columns]: added times the key
  int64_t sums;      // [readers or key_size, columns]
  int64_t faded;     // [key_size]: the decay since the chunk began
  int64_t aged;      // [tokens, key_size]: keys, each times the decay since
  int64_t turned;    // the same as [key_size, tokens]
  int64_t decays;    // [key_size], of one token
  int64_t floats;    // in all

  explicit Workspace(const Sizes& s) {
    int64_t at = 0;
    const auto take = [&](int64_t n) { return std::exchange(at, at + (n + 15) / 16 * 16); };
    const int64_t tokens = std::min(s.length, kChunkTokens), columns = std::min(s.value_size, kBlockColumns);
    state = take(s.key_size * columns);
    weights = take(tokens * s.readers() * s.key_size);
    products = take(tokens * s.readers() * kChunkTokens);
    reads = take(tokens * s.readers() * columns);
    updates = take(tokens * columns);
    sums = take(std::max(s.readers(), s.key_size) * columns);
    faded = take(s.key_size);
    aged = take(tokens * s.key_size);
    turned = take(tokens * s.key_size);
    decays = take(s.key_size);
    floats = at;
  }
};

// The columns [begin, begin + n) of the state of head h of sample b.
class Recurrence {
 public:
  Recurrence(const ukernel::VectorKernel& row, const Sizes& s, const Operands& o, const Workspace& w, float* memory)
      : row_(row), s_(s), o_(o), w_(w), memory_(memory) {}

  void Run(int64_t b, int64_t h, int64_t begin, int64_t n) {
    h_ = h;
    begin_ = begin;
    n_ = n;
    const int64_t state_at = (b * s_.heads + h) * s_.key_size * s_.value_size + begin;
    // The last chunk, or none, leaves the state where it belongs.
    float *state = At(w_.state), *present = o_.present + state_at;
    for (int64_t i = 0; i < s_.key_size; ++i) {
      float* to = s_.length == 0 ? present + i * s_.value_size : state + i * n;
      o_.past ? std::copy_n(o_.past + state_at + i * s_.value_size, n, to) : std::fill_n(to, n, 0.0f);
    }
    for (int64_t t = 0; t < s_.length; t += kChunkTokens) {
      const int64_t first = b * s_.length + t, tokens = std::min(kChunkTokens, s_.length - t);
      Prepare(first, tokens);
      Sum(tokens * s_.readers(), s_.key_size, At(w_.weights), s_.key_size, state, At(w_.reads));
      for (int64_t i = 0; i < tokens; ++i) Step(first + i, i);
      const bool is_last = t + tokens == s_.length;
      UpdateState(tokens, is_last ? present : state, is_last ? s_.value_size : n);
    }
  }

 private:
  bool decays() const { return s_.decay_columns != 0; }
  bool corrects() const { return s_.beta_columns != 0; }
  float* At(int64_t place) const { return memory_ + place; }

  void Multiply(const float* x, const float* z, size_t z_step, int64_t n, float* y) const {
    row_.binary(
        {.kind = ukernel::BinaryKind::kMul, .n = static_cast<size_t>(n), .x = x, .z = z, .y = y, .z_step = z_step});
  }
  // `count` rows of n_ columns, weighted.
  void Sum(int64_t rows, int64_t count, const float* w, int64_t w_pitch, const float* z, float* y) const {
    row_.sum_rows({.rows = static_cast<size_t>(rows),
                   .count = static_cast<size_t>(count),
                   .n = static_cast<size_t>(n_),
                   .w = w,
                   .z = z,
                   .w_pitch = static_cast<ptrdiff_t>(w_pitch),
                   .z_pitch = static_cast<ptrdiff_t>(n_),
                   .y = y,
                   .y_pitch = static_cast<ptrdiff_t>(n_)});
  }

  // Weights, products and aged keys of a chunk.
  void Prepare(int64_t first, int64_t tokens) const {
    const int64_t group = s_.group(), size = s_.key_size;
    std::fill_n(At(w_.faded), size, 1.0f);
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t token = first + t;
      const float* key = o_.key + (token * s_.key_heads + h_ * s_.key_heads / s_.heads) * size;
      const float* queries = o_.query + (token * s_.q_heads + h_ * group * s_.q_heads / s_.out_heads) * size;
      if (decays()) Decay(token, t);
      std::copy_n(key, size, At(w_.aged) + t * size);
      float* readers = At(w_.weights) + t * s_.readers() * size;
      Multiply(queries, &s_.scale, 0, group * size, readers);
      if (corrects()) std::copy_n(key, size, readers + group * size);
      row_.dot_rows({.rows = static_cast<size_t>(s_.readers()),
                     .count = static_cast<size_t>(t + 1),
                     .n = static_cast<size_t>(size),
                     .x = readers,
                     .z = At(w_.aged),
                     .x_pitch = static_cast<ptrdiff_t>(size),
                     .z_pitch = static_cast<ptrdiff_t>(size),
                     .y = At(w_.products) + t * s_.readers() * kChunkTokens,
                     .y_pitch = kChunkTokens});
      for (int64_t r = 0; decays() && r < s_.readers(); ++r) {
        Multiply(readers + r * size, At(w_.faded), 1, size, readers + r * size);
      }
    }
  }

  // The decay of a token makes the keys before it older.
  void Decay(int64_t token, int64_t t) const {
    const int64_t size = s_.key_size, count = s_.decays_keys() ? size : 1;
    float *decays = At(w_.decays), *aged = At(w_.aged);
    row_.unary({.kind = ukernel::UnaryKind::kExp,
                .n = static_cast<size_t>(count),
                .x = o_.decay + token * s_.decay_columns + h_ * count,
                .y = decays});
    Multiply(At(w_.faded), decays, count == 1 ? 0 : 1, size, At(w_.faded));
    if (!s_.decays_keys()) return Multiply(aged, decays, 0, t * size, aged);
    for (int64_t i = 0; i < t; ++i) Multiply(aged + i * size, decays, 1, size, aged + i * size);
  }

  // Update and output of token t of a chunk.
  void Step(int64_t token, int64_t t) const {
    const int64_t group = s_.group();
    const float* products = At(w_.products) + t * s_.readers() * kChunkTokens;
    const float* reads = At(w_.reads) + t * s_.readers() * n_;
    float *update = At(w_.updates) + t * n_, *sums = At(w_.sums);
    std::copy_n(o_.value + (token * s_.heads + h_) * s_.value_size + begin_, n_, update);
    if (corrects()) {
      const float rate = o_.beta[token * s_.beta_columns + (s_.beta_columns == 1 ? 0 : h_)];
      Sum(1, t, products + group * kChunkTokens, kChunkTokens, At(w_.updates), sums);
      for (int64_t j = 0; j < n_; ++j) update[j] = rate * (update[j] - (reads[group * n_ + j] + sums[j]));
    }
    Sum(group, t + 1, products, kChunkTokens, At(w_.updates), sums);
    for (int64_t g = 0; g < group; ++g) {
      float* y = o_.y + (token * s_.out_heads + h_ * group + g) * s_.value_size + begin_;
      for (int64_t j = 0; j < n_; ++j) y[j] = reads[g * n_ + j] + sums[g * n_ + j];
    }
  }

  // Row i becomes its decay times what it was, and the updates times element i of their aged keys.
  void UpdateState(int64_t tokens, float* after, int64_t pitch) const {
    const int64_t rows = s_.key_size;
    float *state = At(w_.state), *sums = At(w_.sums);
    if (tokens == 1) {  // the last chunk, or the only one: both at once
      for (int64_t i = 0; i < rows; ++i) {
        const ptrdiff_t offsets[] = {static_cast<ptrdiff_t>(w_.state + i * n_), static_cast<ptrdiff_t>(w_.updates)};
        const float weights[] = {At(w_.faded)[i], At(w_.aged)[i]};
        row_.blend({.taps = 2,
                    .n = static_cast<size_t>(n_),
                    .x = memory_,
                    .offsets = offsets,
                    .weights = weights,
                    .y = after + i * pitch});
      }
      return;
    }
    if (decays()) {
      row_.scale_rows({.rows = static_cast<size_t>(rows),
                       .n = static_cast<size_t>(n_),
                       .y = state,
                       .pitch = static_cast<ptrdiff_t>(n_),
                       .scales = At(w_.faded)});
    }
    row_.transpose({.rows = static_cast<size_t>(rows),
                    .cols = static_cast<size_t>(tokens),
                    .x = At(w_.aged),
                    .x_col = static_cast<ptrdiff_t>(rows),
                    .y = At(w_.turned),
                    .y_row = static_cast<ptrdiff_t>(tokens)});
    Sum(rows, tokens, At(w_.turned), tokens, At(w_.updates), sums);
    const bool whole = pitch == n_;  // rows that are neighbours count as one
    const int64_t pieces = whole ? 1 : rows, columns = whole ? rows * n_ : n_;
    for (int64_t i = 0; i < pieces; ++i) {
      row_.binary({.kind = ukernel::BinaryKind::kAdd,
                   .n = static_cast<size_t>(columns),
                   .x = state + i * n_,
                   .z = sums + i * n_,
                   .y = after + i * pitch});
    }
  }

  const ukernel::VectorKernel& row_;
  const Sizes& s_;
  const Operands& o_;
  const Workspace& w_;
  float* memory_;
  int64_t h_ = 0, begin_ = 0, n_ = 0;
};

class LinearAttentionKernel final : public CpuKernel {
 public:
  LinearAttentionKernel(const Node& node, const LinearAttentionRule& rule, const CpuConfig& config)
      : row_(VectorRowFor(config)),
        rule_(rule),
        q_heads_(node.GetInt("q_num_heads", 1)),
        heads_(node.GetInt("kv_num_heads", 1)),
        scale_(node.GetFloat("scale", 0.0f)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& state = context.outputs[1].shape;
    if (state.num_elements() == 0) return NothingToDo();
    Sizes s;
    s.batch = state[0];
    s.length = context.inputs[kQuery].shape[1];
    s.q_heads = q_heads_;
    s.heads = heads_;
    s.out_heads = std::max(q_heads_, heads_);
    s.key_size = state[2];
    s.value_size = state[3];
    s.key_heads = context.inputs[kKey].shape[2] / s.key_size;
    s.decay_columns = rule_.decays ? context.inputs[kDecay].shape[2] : 0;
    s.beta_columns = rule_.corrects ? context.inputs[kBeta].shape[2] : 0;
    s.scale = scale_ != 0 ? scale_ : 1.0f / std::sqrt(static_cast<float>(s.key_size));
    const bool has_past = context.has_input(kPast);
    const Workspace w(s);
    const int64_t blocks = (s.value_size + kBlockColumns - 1) / kBlockColumns;
    auto run = [=, row = row_, concurrency = context.concurrency](const StepContext& c) {
      const auto floats = [&](int i, bool given) { return given ? static_cast<const float*>(c.inputs[i]) : nullptr; };
      const Operands o{floats(kQuery, true),
                       floats(kKey, true),
                       floats(kValue, true),
                       floats(kPast, has_past),
                       floats(kDecay, s.decay_columns != 0),
                       floats(kBeta, s.beta_columns != 0),
                       static_cast<float*>(c.outputs[0]),
                       static_cast<float*>(c.outputs[1])};
      const auto task = [&](int slot, int64_t first, int64_t last) {
        Recurrence recurrence(*row, s, o, w, static_cast<float*>(c.scratch) + slot * w.floats);
        for (int64_t item = first; item < last; ++item) {
          const int64_t head = item / blocks, begin = item % blocks * kBlockColumns;
          const int64_t n = std::min(kBlockColumns, s.value_size - begin);
          recurrence.Run(head / s.heads, head % s.heads, begin, n);
        }
      };
      const int64_t work = (s.length + 1) * s.key_size * std::min(s.value_size, kBlockColumns);
      const int64_t grain = std::max<int64_t>(1, kCheapGrain / work);
      return c.executor->ParallelFor(s.batch * s.heads * blocks, grain, task, c.cancel, concurrency);
    };
    const auto bytes = static_cast<size_t>(w.floats) * sizeof(float);
    return MakeStep(std::move(run), bytes * static_cast<size_t>(context.concurrency));
  }
  KernelDescription Describe() const override {
    return Described(*row_, "a state of each head, some tokens at a time");
  }
  // The state of a head that forgets decays into denormal numbers.
  bool sums_products() const override { return true; }

 private:
  const ukernel::VectorKernel* row_;
  LinearAttentionRule rule_;
  int64_t q_heads_, heads_;
  float scale_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  for (const GraphValue* v : node.inputs()) {
    if (std::string why = RejectUnlessType(v, {DType::kF32}); !why.empty()) return why;
  }
  return {};
}
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  QUERN_ASSIGN_OR_RETURN(const LinearAttentionRule rule, ReadLinearAttentionRule(node));
  return std::unique_ptr<CpuKernel>(new LinearAttentionKernel(node, rule, *context.config));
}

constexpr CpuOp kOps[] = {
    {"", "LinearAttention", Reject, Compile},
    {"com.microsoft", "LinearAttention", Reject, Compile},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsLinearAttention = kOps;

}  // namespace quern::cpu
