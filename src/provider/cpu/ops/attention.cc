// Attention over heads of float32: ai.onnx Attention, MultiHeadAttention and GroupQueryAttention of com.microsoft, and
// this provider's Attention on packed queries, keys and values, which com.microsoft.Attention becomes.
#include <cstring>

#include "base/checked_math.h"
#include "ops/common/head_attention.h"
#include "provider/cpu/common/attention_form.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const float* Floats(const StepContext& c, int i) { return static_cast<const float*>(c.inputs[static_cast<size_t>(i)]); }
// What a run tells of each sample.
class Samples {
 public:
  Samples(const AttentionForm& form, const StepContext& c) : form_(form) {
    if (form.lengths == AttentionForm::Lengths::kNone) return;
    const void* lengths = c.inputs[static_cast<size_t>(form.lengths_input)];
    if (form.lengths == AttentionForm::Lengths::kValid) {
      valid_ = static_cast<const int64_t*>(lengths);
    } else {
      last_ = static_cast<const int32_t*>(lengths);
    }
  }
  Status Check() const {
    for (int64_t b = 0; b < form_.batch; ++b) {
      const int64_t keys = Keys(b), used = UsedPast(b);
      if (valid_ && (keys < 0 || keys > form_.keys)) {
        return InvalidArgument("nonpad_kv_seqlen has the entry " + std::to_string(keys) + " but there are " +
                               std::to_string(form_.keys) + " keys");
      }
      if (last_ && (keys < 0 || keys > form_.keys || used < 0 || used > form_.past_rows)) {
        return InvalidArgument("seqlens_k has the entry " + std::to_string(keys - 1) + ", which does not fit " +
                               std::to_string(form_.queries) + " new keys of total_sequence_length " +
                               std::to_string(form_.keys) + " and a cache of " + std::to_string(form_.past_rows) +
                               " rows");
      }
    }
    return OkStatus();
  }
  // Keys that count.
  int64_t Keys(int64_t b) const { return valid_ ? valid_[b] : last_ ? int64_t{last_[b]} + 1 : form_.keys; }
  // Rows of the cache given that precede the new ones. A prompt starts at row 0 and may be padded on the right.
  int64_t UsedPast(int64_t b) const {
    if (!last_) return form_.past_rows;
    return is_prompt() ? 0 : Keys(b) - form_.queries;
  }
  // Position of the first query among the keys.
  int64_t First(int64_t b) const { return valid_ ? valid_[b] - form_.queries : UsedPast(b); }
  bool is_prompt() const { return form_.keys == form_.queries; }

 private:
  const AttentionForm& form_;
  const int64_t* valid_ = nullptr;
  const int32_t* last_ = nullptr;
};

class Rules final : public kernels::ScoreRules {
 public:
  Rules(const AttentionForm& form, const StepContext& c, const Samples& samples)
      : form_(form), context_(c), samples_(samples) {}

  Row RowOf(int64_t b, int64_t h, int64_t i, const Keys& keys, float* room) const override {
    const AttentionForm& f = form_;
    const int64_t position = samples_.First(b) + i;
    Row row{.first = 0, .end = samples_.Keys(b)};
    if (f.causal && !(f.last_sees_all && i + 1 == f.queries)) row.end = std::min(row.end, position + 1);
    if (f.left >= 0) row.first = std::max<int64_t>(0, position - f.left);
    if (f.right >= 0) row.end = std::min(row.end, position + f.right + 1);
    int count = 0;
    if (f.mask != AttentionForm::Mask::kNone) {
      const bool within = f.mask == AttentionForm::Mask::kSeen || f.mask == AttentionForm::Mask::kAdded;
      if (within) row.end = std::min(row.end, f.mask_columns);
      row.add[count++] = MaskRow(b, h, i, {std::max(row.first, keys.begin), std::min(row.end, keys.end)}, keys, room);
    }
    if (f.added >= 0) {
      row.add[count++] = Floats(context_, f.added) + b * f.added_strides[0] + h * f.added_strides[1] +
                         i * f.added_strides[2] + keys.begin;
    }
    return row;
  }
  float Sink(int64_t h) const override {
    return form_.sinks >= 0 ? Floats(context_, form_.sinks)[h] : form_.smooth ? 0.0f : -kInfinity;
  }

 private:
  // Of the keys that are seen of the range.
  const float* MaskRow(int64_t b, int64_t h, int64_t i, const Keys& seen, const Keys& range, float* room) const {
    const AttentionForm& f = form_;
    const int64_t at = b * f.mask_strides[0] + h * f.mask_strides[1] + i * f.mask_strides[2];
    const void* mask = context_.inputs[static_cast<size_t>(f.mask_input)];
    const auto* ints = static_cast<const int32_t*>(mask);
    const auto fill = [&](auto add) {
      for (int64_t j = seen.begin; j < seen.end; ++j) room[j - range.begin] = add(j);
      return room;
    };
    // Of int32 masks, element 0 is that of key `from`; earlier keys are seen.
    const auto fill_ints = [&](const int32_t* counts, int64_t from) {
      return fill([&](int64_t j) { return j < from || counts[j - from] > 0 ? 0.0f : f.filter; });
    };
    switch (f.mask) {
      case AttentionForm::Mask::kAdded:
        return static_cast<const float*>(mask) + at + range.begin;
      case AttentionForm::Mask::kSeen: {
        const bool* sees = static_cast<const bool*>(mask) + at;
        return fill([&](int64_t j) { return sees[j] ? 0.0f : -kInfinity; });
      }
      case AttentionForm::Mask::kWords:
        return fill_ints(ints + b * f.mask_columns, f.keys - f.mask_columns);
      case AttentionForm::Mask::kPairs:
        return fill_ints(ints + (b * f.queries + i) * f.keys, 0);
      case AttentionForm::Mask::kPositions:
        return fill_ints(ints + (b * f.mask_columns + f.past_rows + i) * f.mask_columns, 0);
      default: {
        const bool ranges = f.mask == AttentionForm::Mask::kRanges;
        const int64_t begin = ranges ? ints[f.batch + b] : 0, end = ints[b];
        return fill([&](int64_t j) { return j >= begin && j < end ? 0.0f : f.filter; });
      }
    }
  }

  const AttentionForm& form_;
  const StepContext& context_;
  const Samples& samples_;
};

class AttentionStep final : public CpuStep {
 public:
  static Result<std::unique_ptr<CpuStep>> Create(AttentionForm form, const CpuConfig& config, int concurrency);
  size_t scratch_bytes() const override { return scratch_; }
  Status Run(const StepContext& context) const override;

 private:
  // Heads in memory of their own: offset in scratch, or in an output.
  struct Place {
    bool copied = false;
    int output = -1;
    size_t scratch = 0;
    int64_t offset = 0;
    kernels::HeadStrides strides;
  };
  struct Rows {
    int64_t heads, count, size;  // new rows
    bool rotates;
  };
  const float* Source(const StepContext& c, const HeadsOperand& o) const { return Floats(c, o.index) + o.offset; }
  float* Target(const StepContext& c, const Place& p) const {
    if (p.output >= 0) return static_cast<float*>(c.outputs[static_cast<size_t>(p.output)]) + p.offset;
    return reinterpret_cast<float*>(static_cast<std::byte*>(c.scratch) + p.scratch);
  }
  Status CheckPositions(const StepContext& c, const Samples& samples) const;
  int64_t Angle(const StepContext& c, const Samples& samples, int64_t b, int64_t i) const;
  Status CopyRows(const StepContext& c, const Samples& samples, const HeadsOperand& from, const Place& to,
                  const Rows& rows, bool at_past) const;
  Status CopyPast(const StepContext& c, const Samples& samples, const HeadsOperand& past, const Place& to,
                  int64_t size) const;

  AttentionForm form_;
  std::shared_ptr<const kernels::Attention> attention_;
  const ukernel::VectorKernel* row_;
  Place q_, k_, v_;
  size_t attention_scratch_ = 0, scratch_ = 0;

  AttentionStep(AttentionForm form, std::shared_ptr<const kernels::Attention> attention,
                const ukernel::VectorKernel* row)
      : form_(form), attention_(std::move(attention)), row_(row) {}
};

Result<std::unique_ptr<CpuStep>> AttentionStep::Create(AttentionForm f, const CpuConfig& config, int concurrency) {
  const bool caches = f.present_k.present() || f.present_v.present();
  if (f.batch == 0 || (f.queries == 0 && !caches)) return NothingToDo();
  size_t scratch = 0;
  bool fits = true;
  const auto dense = [&](int64_t heads, int64_t rows, int64_t size) {
    Place p{.copied = true,
            .output = -1,
            .scratch = scratch,
            .offset = 0,
            .strides = {heads * rows * size, rows * size, size, 1}};
    const Result<size_t> bytes = TensorBytes(DType::kF32, Shape{f.batch, heads, rows, size});
    const std::optional<size_t> end = CheckedAdd(scratch, bytes.ok() ? *bytes : SIZE_MAX);
    fits = fits && end && *end < static_cast<size_t>(config.limits.memory_bytes);
    if (fits) scratch = (*end + 63) / 64 * 64;
    return p;
  };
  const auto direct = [](const HeadsOperand& o) { return Place{.strides = o.strides}; };
  const bool changes_q = f.bias >= 0 || f.rotates() || f.q.strides.element != 1;
  Place q = changes_q ? dense(f.heads, f.queries, f.size) : direct(f.q);
  const auto cache = [&](const HeadsOperand& now, const HeadsOperand& past, const HeadsOperand& present, bool changes,
                         int64_t size) {
    if (present.present()) {
      return Place{
          .copied = true, .output = present.index, .scratch = 0, .offset = present.offset, .strides = present.strides};
    }
    const bool copies = past.present() || changes || now.strides.element != 1 || f.rows != f.new_keys;
    return copies ? dense(f.kv_heads, f.rows, size) : direct(now);
  };
  const bool biased = f.bias >= 0 && f.k.bias_offset >= 0;
  Place k = cache(f.k, f.past_k, f.present_k, biased || f.rotates(), f.size);
  Place v = cache(f.v, f.past_v, f.present_v, biased, f.value_size);
  if (!fits) return ResourceExhausted("copies of queries, keys and values need more than the memory limit");
  for (const HeadsOperand* o : {&f.present_k, &f.present_v, &f.y}) {
    if (o->present() && o->strides.element != 1) return Unsupported("outputs whose heads are not contiguous");
  }
  kernels::AttentionSizes sizes{.batch = f.batch,
                                .heads = f.heads,
                                .kv_heads = f.kv_heads,
                                .queries = f.queries,
                                .keys = f.keys,
                                .size = f.size,
                                .value_size = f.value_size,
                                .q = q.strides,
                                .k = k.strides,
                                .v = v.strides,
                                .y = f.y.strides,
                                .scale = f.scale,
                                .softcap = f.softcap};
  // Of lengths that come with the run, the longest.
  const int64_t first = f.lengths == AttentionForm::Lengths::kNone ? f.past_rows : f.keys - f.queries;
  if (f.right >= 0) sizes.reach = first + f.right;
  if (f.causal) sizes.reach = first;
  QUERN_ASSIGN_OR_RETURN(std::shared_ptr<const kernels::Attention> attention,
                         RunTimeDriversFor(config)->FindAttention(sizes, PrecisionFor(config), concurrency));
  std::unique_ptr<AttentionStep> step(new AttentionStep(f, std::move(attention), VectorRowFor(config)));
  step->q_ = q;
  step->k_ = k;
  step->v_ = v;
  step->attention_scratch_ = scratch;
  step->scratch_ = scratch + step->attention_->workspace_bytes();
  return std::unique_ptr<CpuStep>(std::move(step));
}

// The row of angles of a new key or query. Of a prompt only the first position counts, for all samples.
int64_t AttentionStep::Angle(const StepContext& c, const Samples& samples, int64_t b, int64_t i) const {
  if (form_.positions < 0) return samples.First(b) + i;
  const auto* given = static_cast<const int64_t*>(c.inputs[static_cast<size_t>(form_.positions)]);
  return samples.is_prompt() ? given[0] + i : given[b * form_.queries + i];
}

Status AttentionStep::CheckPositions(const StepContext& c, const Samples& samples) const {
  const auto outside = [&](int64_t position, int64_t following) {
    if (position >= 0 && position < form_.angle_rows - following) return OkStatus();
    return InvalidArgument("position " + std::to_string(position) +
                           (following > 0 ? " + " + std::to_string(following) : "") +
                           " is outside of cos_cache and sin_cache of " + std::to_string(form_.angle_rows) + " rows");
  };
  if (form_.batch == 0 || form_.queries == 0) return OkStatus();
  const bool each = form_.positions >= 0 && !samples.is_prompt();
  for (int64_t b = 0; b < form_.batch; ++b) {
    if (!each) QUERN_RETURN_IF_ERROR(outside(Angle(c, samples, b, 0), form_.queries - 1));
    for (int64_t i = 0; each && i < form_.queries; ++i) {
      QUERN_RETURN_IF_ERROR(outside(Angle(c, samples, b, i), 0));
    }
  }
  return OkStatus();
}

// New rows to where they are worked on, with their bias and rotation.
Status AttentionStep::CopyRows(const StepContext& c, const Samples& samples, const HeadsOperand& from, const Place& to,
                               const Rows& rows, bool at_past) const {
  if (rows.size == 0) return OkStatus();  // rows without elements may have no memory
  const float* source = Source(c, from);
  float* target = Target(c, to);
  const float* bias = form_.bias >= 0 && from.bias_offset >= 0 ? Floats(c, form_.bias) + from.bias_offset : nullptr;
  return ForItems(c, form_.batch * rows.heads, rows.count * rows.size, kCheapGrain, [&](int64_t item) {
    const int64_t b = item / rows.heads, h = item % rows.heads, first = at_past ? samples.UsedPast(b) : 0;
    for (int64_t s = 0; s < rows.count; ++s) {
      const float* x = source + from.strides.At(b, h, s);
      float* y = target + to.strides.At(b, h, first + s);
      if (bias) {
        for (int64_t p = 0; p < rows.size; ++p) y[p] = x[p * from.strides.element] + bias[h * rows.size + p];
      } else if (from.strides.element == 1) {
        std::memcpy(y, x, static_cast<size_t>(rows.size) * sizeof(float));
      } else {
        for (int64_t p = 0; p < rows.size; ++p) y[p] = x[p * from.strides.element];
      }
      if (!rows.rotates) continue;
      const int64_t angles = Angle(c, samples, b, s) * form_.rotated_half;
      row_->rotate({.half = static_cast<size_t>(form_.rotated_half),
                    .interleaved = form_.interleaved,
                    .cosines = Floats(c, form_.cosines) + angles,
                    .sines = Floats(c, form_.sines) + angles,
                    .x = y,
                    .y = y});
    }
  });
}

// The rows of the cache that precede the new ones, and zeros behind them.
Status AttentionStep::CopyPast(const StepContext& c, const Samples& samples, const HeadsOperand& past, const Place& to,
                               int64_t size) const {
  const float* source = past.present() ? Source(c, past) : nullptr;
  float* target = Target(c, to);
  const bool in_place = source == target && std::memcmp(&past.strides, &to.strides, sizeof to.strides) == 0;
  return ForItems(c, form_.batch * form_.kv_heads, form_.rows * size, kCheapGrain, [&](int64_t item) {
    const int64_t b = item / form_.kv_heads, h = item % form_.kv_heads, used = samples.UsedPast(b);
    for (int64_t s = 0; s < used && source && !in_place; ++s) {
      const float* x = source + past.strides.At(b, h, s);
      float* y = target + to.strides.At(b, h, s);
      for (int64_t p = 0; p < size; ++p) y[p] = x[p * past.strides.element];
    }
    for (int64_t s = used + form_.new_keys; s < form_.rows; ++s) {
      std::fill_n(target + to.strides.At(b, h, s), size, 0.0f);
    }
  });
}

Status AttentionStep::Run(const StepContext& c) const {
  const AttentionForm& f = form_;
  const Samples samples(f, c);
  QUERN_RETURN_IF_ERROR(samples.Check());
  if (f.rotates()) QUERN_RETURN_IF_ERROR(CheckPositions(c, samples));
  if (q_.copied) {
    QUERN_RETURN_IF_ERROR(CopyRows(c, samples, f.q, q_, {f.heads, f.queries, f.size, f.rotates()}, false));
  }
  if (k_.copied) {
    QUERN_RETURN_IF_ERROR(CopyPast(c, samples, f.past_k, k_, f.size));
    QUERN_RETURN_IF_ERROR(CopyRows(c, samples, f.k, k_, {f.kv_heads, f.new_keys, f.size, f.rotates()}, true));
  }
  if (v_.copied) {
    QUERN_RETURN_IF_ERROR(CopyPast(c, samples, f.past_v, v_, f.value_size));
    QUERN_RETURN_IF_ERROR(CopyRows(c, samples, f.v, v_, {f.kv_heads, f.new_keys, f.value_size, false}, true));
  }
  const auto where = [&](const Place& p, const HeadsOperand& o) { return p.copied ? Target(c, p) : Source(c, o); };
  const kernels::AttentionOperands operands{
      .q = where(q_, f.q), .k = where(k_, f.k), .v = where(v_, f.v), .y = static_cast<float*>(c.outputs[0])};
  return attention_->Run(operands, Rules(f, c, samples),
                         {.executor = c.executor,
                          .cancel = c.cancel,
                          .workspace = static_cast<std::byte*>(c.scratch) + attention_scratch_,
                          .workspace_bytes = attention_->workspace_bytes()});
}

// One operator: how its inputs are read, and which may be strided.
struct Operator {
  FormReader read;
  uint64_t strided_inputs, strided_outputs, plan_time_inputs;
};

class AttentionKernel final : public CpuKernel {
 public:
  AttentionKernel(const Node& node, const CpuConfig& config, const Operator& op)
      : node_(node), config_(config), operator_(op) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    QUERN_ASSIGN_OR_RETURN(const AttentionForm form, operator_.read(node_, context));
    return AttentionStep::Create(form, config_, context.concurrency);
  }
  KernelDescription Describe() const override {
    return Described(*VectorRowFor(config_), "blocks of queries by blocks of keys, with online softmax");
  }
  bool sums_products() const override { return true; }
  uint64_t strided_inputs() const override { return operator_.strided_inputs; }
  uint64_t strided_outputs() const override { return operator_.strided_outputs; }
  // Elements of a head must be neighbours.
  bool TakesOutputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesOutputStrides(i, shape, strides) && strides.back() == 1;
  }
  uint64_t plan_time_inputs() const override { return operator_.plan_time_inputs; }

 private:
  const Node& node_;  // of the graph that this kernel was compiled for, which outlives it
  CpuConfig config_;
  const Operator& operator_;
};

constexpr uint64_t Bits(std::initializer_list<int> list) {
  uint64_t bits = 0;
  for (const int i : list) bits |= uint64_t{1} << i;
  return bits;
}
constexpr Operator kAttention = {ReadAttention, Bits({0, 1, 2, 4, 5}), Bits({1, 2}), 0};
constexpr Operator kPacked = {ReadPackedAttention, Bits({0, 2}), Bits({1}), 0};
constexpr Operator kMultiHead = {ReadMultiHeadAttention, Bits({0, 1, 2, 6, 7}), Bits({1, 2}), 0};
constexpr Operator kGroupQuery = {ReadGroupQueryAttention, Bits({0, 1, 2, 3, 4}), Bits({1, 2}), Bits({6})};

template <const Operator& kOperator>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new AttentionKernel(node, *context.config, kOperator));
}

// `floats`: the inputs that must be float32.
std::string RejectInputs(const Node& node, std::initializer_list<int> floats) {
  for (const int i : floats) {
    if (std::string why = RejectUnlessType(node.input(i), {DType::kF32}); !why.empty()) return why;
  }
  return node.output(3) ? "the scores are wanted" : "";
}

std::string RejectAttention(const Node& node, const CpuConfig&) {
  if (std::string why = RejectInputs(node, {0, 1, 2, 4, 5}); !why.empty()) return why;
  return RejectUnlessType(node.input(3), {DType::kF32, DType::kBool});
}

std::string RejectMultiHead(const Node& node, const CpuConfig&) {
  if (std::string why = RejectInputs(node, {0, 1, 2, 3, 5, 6, 7}); !why.empty()) return why;
  return node.input(8) || node.input(9) ? "a cache that is a shared buffer" : "";
}

std::string RejectGroupQuery(const Node& node, const CpuConfig&) {
  if (std::string why = RejectInputs(node, {0, 1, 2, 3, 4, 7, 8, 10, 11}); !why.empty()) return why;
  if (node.GetInt("sliding_window_cache", 0) != 0) return "a cache that slides";
  if (node.input(14)) return "normalized queries and keys";
  if (node.input(12) || node.input(13)) return "a quantized cache";
  return {};
}

// (qkv [batch, length, q + k + v], mask, past, biases of scores) {num_heads, qkv_hidden_sizes, ...}
Status InferPacked(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0), past = c.input_shape(2);
  const std::vector<int64_t> widths = c.node().GetInts("qkv_hidden_sizes");
  const int64_t heads = c.node().GetInt("num_heads", 0);
  if (!x || x->size() != 3 || widths.size() != 3 || heads < 1) return c.Error("packed heads must be of known shape");
  const Dim &batch = (*x)[0], &length = (*x)[1], size = widths[0] / heads;
  Dim rows = length;
  if (past) {
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, 2, {2, batch, heads, Dim::Unknown(), size}));
    rows = (*past)[3] + length;
  }
  QUERN_RETURN_IF_ERROR(CheckAttentionMask(c, 1, batch, length, length, rows));
  QUERN_RETURN_IF_ERROR(CheckAttentionBias(c, 3, batch, heads, length, rows));
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, Dims{batch, length, widths[2]}));
  if (c.node().output(1)) c.SetOutputType(1, ValueType::Tensor(DType::kF32, Dims{2, batch, heads, rows, size}));
  return OkStatus();
}

constexpr char kMicrosoft[] = "com.microsoft";
constexpr CpuOp kOps[] = {
    {"", "Attention", RejectAttention, Compile<kAttention>},
    {kMicrosoft, "MultiHeadAttention", RejectMultiHead, Compile<kMultiHead>},
    {kMicrosoft, "GroupQueryAttention", RejectGroupQuery, Compile<kGroupQuery>, Bits({6})},
    {kCpuDomain, "Attention", nullptr, Compile<kPacked>, 0, InferPacked},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsAttention = kOps;

}  // namespace quern::cpu
