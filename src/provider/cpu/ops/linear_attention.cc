// LinearAttention of float32, that of ai.onnx and that of com.microsoft, token by token. One pass over a head's state
// finds what the key and the queries read, another one decays it and adds what the token brings.
#include <algorithm>
#include <cmath>

#include "ops/common/linear_attention.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

enum Input { kQuery, kKey, kValue, kPast, kDecay, kBeta };

// Columns of a state that are worked on at a time: none depends on another, so they are shared between threads, and
// those of a hundred rows stay in the L1 or L2.
constexpr int64_t kBlockColumns = 64;

struct Sizes {
  int64_t batch = 0, length = 0;
  int64_t q_heads = 0, key_heads = 0, heads = 0, out_heads = 0;  // `heads` have a state
  int64_t key_size = 0, value_size = 0;
  int64_t decay_columns = 0, beta_columns = 0;  // 0: the rule has none
  float scale = 1;

  int64_t group() const { return out_heads / heads; }  // outputs that read one state
  bool decays_keys() const { return decay_columns != 0 && decay_columns != heads; }
};

struct Operands {
  const float *query, *key, *value, *past, *decay, *beta;  // past may be null
  float *y, *present;
};

// What a thread works in, in floats.
struct Workspace {
  int64_t states[2];  // [key_size, kBlockColumns]: before a token and after it
  int64_t update;     // [kBlockColumns], what is added times the key
  int64_t reads;      // [group + 1, kBlockColumns]: by the key, by the queries
  int64_t weights;    // [group + 1, key_size], of the reads
  int64_t factors;    // [key_size, 2]: decay and key, of the update
  int64_t decays;     // [key_size]
  int64_t products;   // [group], of queries and the key
  int64_t floats;     // in all

  explicit Workspace(const Sizes& s) {
    int64_t at = 0;
    const auto take = [&](int64_t n) { return std::exchange(at, at + (n + 15) / 16 * 16); };
    for (int64_t& state : states) state = take(s.key_size * kBlockColumns);
    update = take(kBlockColumns);
    reads = take((s.group() + 1) * kBlockColumns);
    weights = take((s.group() + 1) * s.key_size);
    factors = take(2 * s.key_size);
    decays = take(s.key_size);
    products = take(s.group());
    floats = at;
  }
};

// The columns [begin, begin + n) of the state of head h of sample b.
class Recurrence {
 public:
  Recurrence(const ukernel::VectorKernel& row, const Sizes& s, const Operands& o, const Workspace& w, float* memory)
      : row_(row), s_(s), o_(o), w_(w), memory_(memory) {}

  void Run(int64_t b, int64_t h, int64_t begin, int64_t n) {
    const int64_t state_at = (b * s_.heads + h) * s_.key_size * s_.value_size + begin;
    float* state = memory_ + w_.states[0];
    for (int64_t i = 0; i < s_.key_size; ++i) {
      if (o_.past) std::copy_n(o_.past + state_at + i * s_.value_size, n, state + i * n);
      if (!o_.past) std::fill_n(state + i * n, n, 0.0f);
    }
    int now = 0;
    for (int64_t t = 0; t < s_.length; ++t, now = 1 - now) Step(b * s_.length + t, h, begin, n, now);
    state = memory_ + w_.states[now];
    for (int64_t i = 0; i < s_.key_size; ++i) {
      std::copy_n(state + i * n, n, o_.present + state_at + i * s_.value_size);
    }
  }

 private:
  void Step(int64_t token, int64_t h, int64_t begin, int64_t n, int now) {
    const int64_t group = s_.group(), q_head = h * group * s_.q_heads / s_.out_heads;
    const float* key = o_.key + (token * s_.key_heads + h * s_.key_heads / s_.heads) * s_.key_size;
    const float* queries = o_.query + (token * s_.q_heads + q_head) * s_.key_size;
    const float* value = o_.value + (token * s_.heads + h) * s_.value_size + begin;
    const float* decays = Decays(token, h);
    float *update = memory_ + w_.update, *reads = memory_ + w_.reads, *products = memory_ + w_.products;
    // The state is read as it was: its decay is in the weights, and what is added to it is told by products with keys.
    Weigh(key, 1, decays, memory_ + w_.weights);
    for (int64_t g = 0; g < group; ++g) {
      Weigh(queries + g * s_.key_size, s_.scale, decays, memory_ + w_.weights + (g + 1) * s_.key_size);
    }
    const bool corrects = s_.beta_columns != 0;
    const int64_t first = corrects ? 0 : 1;
    row_.sum_rows({.rows = static_cast<size_t>(group + 1 - first),
                   .count = static_cast<size_t>(s_.key_size),
                   .n = static_cast<size_t>(n),
                   .w = memory_ + w_.weights + first * s_.key_size,
                   .z = memory_ + w_.states[now],
                   .w_pitch = static_cast<ptrdiff_t>(s_.key_size),
                   .z_pitch = static_cast<ptrdiff_t>(n),
                   .y = reads + first * n,
                   .y_pitch = static_cast<ptrdiff_t>(n)});
    row_.dot_rows({.rows = static_cast<size_t>(group),
                   .count = 1,
                   .n = static_cast<size_t>(s_.key_size),
                   .x = queries,
                   .z = key,
                   .x_pitch = static_cast<ptrdiff_t>(s_.key_size),
                   .z_pitch = static_cast<ptrdiff_t>(s_.key_size),
                   .scale = s_.scale,
                   .y = products,
                   .y_pitch = 1});
    std::copy_n(value, n, update);
    if (corrects) {
      const float rate = o_.beta[token * s_.beta_columns + (s_.beta_columns == 1 ? 0 : h)];
      for (int64_t j = 0; j < n; ++j) update[j] = rate * (update[j] - reads[j]);
    }
    for (int64_t g = 0; g < group; ++g) {
      float* y = o_.y + (token * s_.out_heads + h * group + g) * s_.value_size + begin;
      const float* read = reads + (g + 1) * n;
      for (int64_t j = 0; j < n; ++j) y[j] = read[j] + products[g] * update[j];
    }
    Update(key, decays, n, now);
  }

  // exp of the decays of one token, one for each row of the state; null: the rule has none.
  const float* Decays(int64_t token, int64_t h) {
    if (s_.decay_columns == 0) return nullptr;
    const int64_t count = s_.decays_keys() ? s_.key_size : 1;
    float* decays = memory_ + w_.decays;
    row_.unary({.kind = ukernel::UnaryKind::kExp,
                .n = static_cast<size_t>(count),
                .x = o_.decay + token * s_.decay_columns + h * count,
                .y = decays});
    if (count == 1) std::fill_n(decays, s_.key_size, decays[0]);
    return decays;
  }

  void Weigh(const float* vector, float scale, const float* decays, float* weights) const {
    for (int64_t i = 0; i < s_.key_size; ++i) weights[i] = scale * vector[i] * (decays ? decays[i] : 1.0f);
  }

  void Update(const float* key, const float* decays, int64_t n, int now) {
    float* factors = memory_ + w_.factors;
    for (int64_t i = 0; i < s_.key_size; ++i) {
      factors[2 * i] = decays ? decays[i] : 1.0f;
      factors[2 * i + 1] = key[i];
    }
    for (int64_t i = 0; i < s_.key_size; ++i) {
      const ptrdiff_t offsets[] = {static_cast<ptrdiff_t>(w_.states[now] + i * n), static_cast<ptrdiff_t>(w_.update)};
      row_.blend({.taps = 2,
                  .n = static_cast<size_t>(n),
                  .x = memory_,
                  .offsets = offsets,
                  .weights = factors + 2 * i,
                  .y = memory_ + w_.states[1 - now] + i * n});
    }
  }

  const ukernel::VectorKernel& row_;
  const Sizes& s_;
  const Operands& o_;
  const Workspace& w_;
  float* memory_;
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
  KernelDescription Describe() const override { return Described(*row_, "a state of each head, token by token"); }
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
