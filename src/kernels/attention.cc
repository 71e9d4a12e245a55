#include "kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/run_time_drivers.h"
#include "parallel/partition.h"
#include "ukernel/convert.h"

namespace quern::kernels {
namespace {

using ukernel::BinaryKind;
using ukernel::FoldKind;
using ukernel::VectorKernel;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr ptrdiff_t kF32 = sizeof(float);
// Scores of one block are written and read while they are in the second-level cache. All keys are one block where they,
// packed, fill at most half of it; values are mostly read where they lie. Of several blocks, scores take half as well.
constexpr int64_t kBlockScores = 1 << 17, kCacheShare = 2;
// Fewer queries would not pay for packing the keys once per block; more are split when threads would be idle.
constexpr int64_t kLeastBlock = 32, kLargestBlock = 256;
// Queries that a task takes through blocks of keys together, so that it packs each of these once.
constexpr int64_t kSpan = 1024;
// Keys of one block, where there are several, are at least so many, and a multiple of that.
constexpr int64_t kKeyGrain = 64;
// Rows by which keys and values are not worth to be packed. Zen 4, 1500 keys: 1 row 160 to 83 us (heads of 128) and 46
// to 21 (32), 4 rows 209 to 160 and 59 to 57, 8 rows 328 to 309 and 92 to 111.
int64_t MostDirectRows(const AttentionSizes& s) { return s.size < 64 ? 4 : 8; }
// Numbers of keys for which products are prepared, when queries see fewer keys than there are: of one block that holds
// all, and of the last one of several.
constexpr int64_t kReaches = 8, kBlockReaches = 4;
// Rows whose factors are gathered for one call.
constexpr int64_t kTogether = 32;
// Multiply-adds, in sixteens, below which a task costs more to hand over than to run.
constexpr int64_t kTaskWork = 32768;

size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
ptrdiff_t BytesOf(Format f) { return static_cast<ptrdiff_t>(FormatBytes(f)); }

// Rounds float32 to 16 bits; null for float32.
ukernel::UnaryRow Rounding(const ukernel::ElementwiseKernel& row, Format to) {
  if (to == Format::kF32) return nullptr;
  return row.unary(ukernel::UnaryKind::kConvert, DType::kF32, to == Format::kF16 ? DType::kF16 : DType::kBF16);
}

// The sums less the largest of them, which is subtracted before rounding: a bias that hides all keys but by a finite
// number leaves the differences of their scores. Returns what was subtracted; -infinity where every key is hidden.
double AddLarge(int64_t n, const float* a, const float* b, float* x) {
  const auto sum = [&](int64_t i) {
    const double bias = static_cast<double>(a[i]) + (b ? static_cast<double>(b[i]) : 0.0);
    return bias == -static_cast<double>(kInfinity) ? bias : x[i] + bias;
  };
  double largest = -static_cast<double>(kInfinity);
  for (int64_t i = 0; i < n; ++i) {
    if (const double next = sum(i); !(next <= largest)) largest = next;
  }
  if (largest == -static_cast<double>(kInfinity)) return largest;
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(sum(i) - largest);
  return largest;
}

int64_t KeyBlock(const AttentionSizes& s, const CpuFacts& cpu) {
  const int64_t bytes = std::max({s.size, s.value_size, int64_t{1}}) * kF32;
  const int64_t most = std::max(static_cast<int64_t>(cpu.l2_bytes) / kCacheShare / bytes, kKeyGrain);
  return s.keys <= most ? s.keys : std::min(s.keys, EvenBlock(s.keys, most, kKeyGrain));
}

}  // namespace

int64_t Attention::KeysFor(int64_t last_query) const {
  if (last_query + 1 >= sizes_.queries) return sizes_.keys;
  return std::min(sizes_.keys, sizes_.reach + last_query + 1);
}

ukernel::RhsSource Attention::KeyMatrix() const {
  const Format f = sizes_.types.kv;
  return {.format = f, .k_stride = sizes_.k.element * BytesOf(f), .n_stride = sizes_.k.row * BytesOf(f)};
}

ukernel::RhsSource Attention::ValueMatrix() const {
  const Format f = sizes_.types.kv;
  return {.format = f, .k_stride = sizes_.v.row * BytesOf(f), .n_stride = BytesOf(f)};
}

MatMulArgs Attention::ScoresArgs(int64_t rows) const {
  MatMulArgs args;
  args.m = static_cast<size_t>(rows);
  args.lhs_row_stride = (by_group_ ? sizes_.q.head : sizes_.q.row) * BytesOf(sizes_.types.q);
  args.rhs = KeyMatrix();
  args.dst_row_stride = score_pitch_ * kF32;
  args.ops = &scale_;
  args.op_count = 1;
  return args;
}

MatMulArgs Attention::ValuesArgs(int64_t rows) const {
  MatMulArgs args;
  args.m = static_cast<size_t>(rows);
  args.lhs_row_stride = score_pitch_ * BytesOf(ProbabilityType());
  args.rhs = ValueMatrix();
  args.dst_row_stride = (UsesWide() ? wide_pitch_ : by_group_ ? sizes_.y.head : sizes_.y.row) * kF32;
  return args;
}

Result<Attention::Products> Attention::MakeProducts(int64_t keys, RunTimeDrivers& drivers, Precision precision) const {
  Products made;
  made.keys = keys;
  const auto make = [&](Format lhs, int64_t k, int64_t n, const ukernel::RhsSource& rhs) {
    return drivers.FindProduct({.lhs = lhs,
                                .rhs = rhs.format,
                                .n = static_cast<size_t>(n),
                                .k = static_cast<size_t>(k),
                                .precision = precision,
                                .expected_m = static_cast<size_t>(block_),
                                .rhs_constant = false,
                                .rhs_contiguous = rhs.n_stride == BytesOf(rhs.format)});
  };
  QUERN_ASSIGN_OR_RETURN(made.scores, make(sizes_.types.q, sizes_.size, keys, KeyMatrix()));
  QUERN_ASSIGN_OR_RETURN(made.values, make(ProbabilityType(), keys, sizes_.value_size, ValueMatrix()));
  const int64_t rows[2] = {block_, rows_ % block_ == 0 ? block_ : rows_ % block_};
  for (size_t i = 0; i < 2; ++i) {
    const bool same = i == 1 && rows[1] == rows[0];
    made.scores_plan[i] = same ? made.scores_plan[0] : made.scores->Plan(ScoresArgs(rows[i]), 1);
    made.values_plan[i] = same ? made.values_plan[0] : made.values->Plan(ValuesArgs(rows[i]), 1);
  }
  return made;
}

Result<Attention> Attention::Create(const AttentionSizes& sizes, RunTimeDrivers& drivers, Precision precision,
                                    int concurrency) {
  const CpuFacts& cpu = drivers.options().cpu;
  Attention a;
  a.sizes_ = sizes;
  a.row_ = ukernel::SelectVectorRow(cpu);
  const ukernel::ElementwiseKernel* rounding = ukernel::SelectElementwiseRow(cpu);
  a.narrow_ = Rounding(*rounding, a.ProbabilityType());
  a.store_ = Rounding(*rounding, sizes.types.y);
  a.wide_pitch_ = (sizes.value_size + 15) / 16 * 16;
  a.scale_ = {.kind = ukernel::EpilogueKind::kMulScalar, .a = sizes.scale};
  const int64_t group = sizes.kv_heads == 0 ? 1 : sizes.heads / sizes.kv_heads;
  a.by_group_ = sizes.queries == 1 && group > 1;
  a.rows_ = a.by_group_ ? group : sizes.queries;
  a.matrices_ = sizes.batch * (a.by_group_ ? sizes.kv_heads : sizes.heads);
  if (a.matrices_ == 0 || a.rows_ == 0 || sizes.value_size == 0 || sizes.keys == 0) return a;
  a.key_block_ = KeyBlock(sizes, cpu);
  const int64_t scores = a.IsOnline() ? static_cast<int64_t>(cpu.l2_bytes) / kCacheShare / kF32 : kBlockScores;
  const int64_t largest = std::clamp(scores / a.key_block_, kLeastBlock, kLargestBlock);
  a.block_ = std::min(a.rows_, largest);
  const auto tasks = [&](int64_t rows) { return a.matrices_ * CeilDiv(a.rows_, rows); };
  while (a.block_ >= 2 * kLeastBlock && tasks(a.block_) < concurrency) a.block_ = (a.block_ + 1) / 2;
  a.span_ = a.block_;
  const int64_t longest = a.IsOnline() ? std::min(a.rows_, kSpan) : 0;
  while (a.span_ < longest && (concurrency <= 1 || tasks(2 * a.span_) >= 2 * concurrency)) a.span_ *= 2;
  // A multiple of vectors, but of no large power of two, with which rows would collide in the first-level cache.
  a.score_pitch_ = (a.key_block_ + 16) / 16 * 16;
  const bool floats = sizes.types.q == Format::kF32 && sizes.types.kv == Format::kF32;
  a.direct_ = a.rows_ <= MostDirectRows(sizes) && floats && sizes.size > 0 && sizes.k.element == 1;
  if (sizes.size > 0 && !a.direct_) QUERN_RETURN_IF_ERROR(a.PrepareProducts(drivers, precision));
  for (const Products& p : a.products_) {
    for (size_t i = 0; i < 2; ++i) {
      a.scores_bytes_ = std::max(a.scores_bytes_, p.scores_plan[i].workspace_bytes);
      a.values_bytes_ = std::max(a.values_bytes_, p.values_plan[i].workspace_bytes);
    }
  }
  a.room_offset_ = Aligned(static_cast<size_t>(a.block_ * a.score_pitch_) * sizeof(float));
  a.narrow_offset_ = a.room_offset_ + Aligned(static_cast<size_t>(a.key_block_) * sizeof(float));
  a.wide_offset_ = a.narrow_offset_ + (a.narrow_ ? Aligned(static_cast<size_t>(a.block_ * a.score_pitch_) * 2) : 0);
  const auto wide = [&](int64_t rows) { return Aligned(static_cast<size_t>(rows * a.wide_pitch_) * sizeof(float)); };
  a.part_offset_ = a.wide_offset_ + (a.UsesWide() ? wide(a.span_) : 0);
  a.carried_offset_ = a.part_offset_ + (a.IsOnline() ? wide(a.block_) : 0);
  a.scores_offset_ = a.carried_offset_ + Aligned(static_cast<size_t>(a.span_) * sizeof(Carried));
  a.values_offset_ = a.scores_offset_ + Aligned(a.scores_bytes_);
  a.slot_bytes_ = a.values_offset_ + Aligned(a.values_bytes_);
  a.slots_ = static_cast<int>(std::min<int64_t>(std::max(concurrency, 1), tasks(a.span_)));
  return a;
}

Status Attention::PrepareProducts(RunTimeDrivers& drivers, Precision precision) {
  const auto add = [&](int64_t keys) -> Status {
    if (keys <= 0 || (!products_.empty() && products_.back().keys >= keys)) return OkStatus();
    QUERN_ASSIGN_OR_RETURN(Products made, MakeProducts(keys, drivers, precision));
    products_.push_back(std::move(made));
    return OkStatus();
  };
  if (IsOnline()) {
    const int64_t rest = sizes_.keys % key_block_;
    const bool all = sizes_.reach == AttentionSizes::kAll || rows_ <= block_;
    const int64_t step = all ? key_block_ : key_block_ / kBlockReaches;
    for (int64_t keys = step; keys <= key_block_; keys += step) {
      if (rest < keys) QUERN_RETURN_IF_ERROR(add(rest));
      QUERN_RETURN_IF_ERROR(add(keys));
    }
    return OkStatus();
  }
  const int64_t blocks = CeilDiv(rows_, block_);
  const int64_t step = by_group_ ? 1 : std::max<int64_t>(1, (blocks + kReaches - 1) / kReaches);
  for (int64_t b = std::min(step, blocks);; b = std::min(b + step, blocks)) {
    QUERN_RETURN_IF_ERROR(add(by_group_ ? sizes_.keys : KeysFor(std::min(b * block_, rows_) - 1)));
    if (b == blocks) return OkStatus();
  }
}

// Scores to probabilities among the keys so far but for a factor (`carried.inverse`), in place; keys outside of those
// that are seen get none.
void Attention::Normalize(float* scores, const ScoreRules::Keys& keys, const ScoreRules::Row& row, const float* room,
                          Kept& kept, Carried& carried) const {
  const int64_t all = keys.end - keys.begin;
  const int64_t first = std::clamp<int64_t>(row.first - keys.begin, 0, all);
  const int64_t end = std::clamp(row.end - keys.begin, first, all);
  const int64_t count = end - first;
  float* x = scores + first;
  const size_t n = static_cast<size_t>(count);
  if (sizes_.softcap > 0 && count > 0) {
    const float inverse = 1.0f / sizes_.softcap;
    row_->binary({.kind = BinaryKind::kMul, .n = n, .x = x, .z = &inverse, .y = x, .x_step = 1, .z_step = 0});
    row_->unary({.kind = ukernel::UnaryKind::kTanh, .n = n, .x = x, .y = x});
    row_->binary({.kind = BinaryKind::kMul, .n = n, .x = x, .z = &sizes_.softcap, .y = x, .x_step = 1, .z_step = 0});
  }
  bool seen = count > 0;
  double shift = 0;
  ukernel::SoftmaxLines<float> softmax{.count = n, .x = x, .y = x, .inverse = &carried.inverse};
  if (seen && row.add[0]) {
    const bool same = first == kept.row.first && end == kept.row.end && row.add[0] == kept.row.add[0] &&
                      row.add[1] == kept.row.add[1] && row.add[0] != room && row.add[1] != room;
    if (!same) {
      kept.row = {.first = first, .end = end, .add = {row.add[0], row.add[1]}};
      kept.largest = 0;
      for (const float* a : row.add) {
        if (a) kept.largest += row_->fold({.kind = FoldKind::kMax, .n = n, .x = a + first});
      }
    }
    // Beyond, float32 would round the scores away.
    if (kept.largest == -kInfinity) {
      seen = false;
    } else if (std::fabs(kept.largest) > 64) {
      shift = AddLarge(count, row.add[0] + first, row.add[1] ? row.add[1] + first : nullptr, x);
      seen = !(shift == -static_cast<double>(kInfinity));
    } else {
      for (size_t i = 0; i < 2; ++i) softmax.add[i] = row.add[i] ? row.add[i] + first : nullptr;
    }
  }
  std::fill(scores, x, 0.0f);
  carried.factor = carried.inverse = 1;
  if (!seen) return std::fill(x, scores + all, 0.0f);
  if (IsOnline() || carried.sum != 0) {
    const float before = static_cast<float>(carried.largest - shift);
    ukernel::SoftmaxCarry<float> carry{.largest = before, .sum = carried.sum};
    softmax.carry = &carry;
    row_->softmax(softmax);
    // An earlier one stays as exact as it was.
    if (carry.largest != before) carried.largest = shift + static_cast<double>(carry.largest);
    carried.sum = carry.sum;
    carried.factor = carry.factor;
  } else {
    row_->softmax(softmax);
  }
  std::fill(scores + end, scores + all, 0.0f);
}

bool Attention::IsPlain(const ScoreRules::Row& row, const ScoreRules::Keys& keys, const Carried& carried) const {
  return keys.end > keys.begin && row.first <= keys.begin && row.end >= keys.end && !row.add[0] && !row.add[1] &&
         sizes_.softcap == 0 && !IsOnline() && carried.sum == 0;
}

// The same for rows that see all of `count` keys and to which nothing is added.
void Attention::NormalizePlain(float* scores, int64_t rows, int64_t count, Carried* carried) const {
  float inverses[kTogether];
  for (int64_t r = 0; r < rows; r += kTogether) {
    const int64_t n = std::min(kTogether, rows - r);
    float* x = scores + r * score_pitch_;
    row_->softmax({.count = static_cast<size_t>(count),
                   .x = x,
                   .y = x,
                   .lines = static_cast<size_t>(n),
                   .pitch = score_pitch_,
                   .inverse = inverses});
    for (int64_t i = 0; i < n; ++i) {
      carried[r + i].factor = 1;
      carried[r + i].inverse = inverses[i];
    }
  }
}

// Rows of results, of `weights` that `carried` makes probabilities. A product gives no number where a hidden value is
// none, and infinity where only the probabilities are small enough; so such a row is summed again, of what is seen.
void Attention::ScaleRows(const float* weights, int64_t rows, int64_t keys, const char* v, const Carried* carried,
                          float* y, int64_t pitch) const {
  const size_t n = static_cast<size_t>(sizes_.value_size);
  float scales[kTogether];
  for (int64_t r = 0; r < rows; r += kTogether) {
    const int64_t count = std::min(kTogether, rows - r);
    for (int64_t i = 0; i < count; ++i) scales[i] = carried[r + i].inverse;
    float* to = y + r * pitch;
    if (row_->scale_rows({.rows = static_cast<size_t>(count), .n = n, .y = to, .pitch = pitch, .scales = scales})) {
      continue;
    }
    for (int64_t i = 0; i < count; ++i, to += pitch) {
      const float sum = row_->fold({.kind = FoldKind::kSumAbs, .n = n, .x = to});
      if (!(sum < kInfinity)) SumAgain(weights + (r + i) * score_pitch_, keys, v, scales[i], to);
    }
  }
}

void Attention::SumAgain(const float* weights, int64_t keys, const char* v, float inverse, float* y) const {
  const size_t n = static_cast<size_t>(sizes_.value_size);
  std::fill_n(y, n, 0.0f);
  for (int64_t j = 0; j < keys; ++j) {
    const float probability = weights[j] * inverse;
    if (probability == 0) continue;
    const Format f = sizes_.types.kv;
    const char* row = v + j * sizes_.v.row * BytesOf(f);
    for (size_t p = 0; p < n; ++p) y[p] += probability * ukernel::LoadFloat(f, row + p * FormatBytes(f));
  }
}

// Scores, probabilities and results of the rows from `first` on, a block, for a range of keys; results join those of
// earlier ranges.
Status Attention::AddKeys(const Span& span, int64_t first, int64_t rows, const ScoreRules::Keys& wanted,
                          const ScoreRules& rules, std::byte* scratch, const CancelToken* cancel, Kept& kept) const {
  const AttentionSizes& s = sizes_;
  const int64_t needed = wanted.end - wanted.begin;
  // One that covers the last block does not reach beyond it.
  const auto product =
      std::find_if(products_.begin(), products_.end(), [&](const Products& p) { return p.keys >= needed; });
  const bool multiplies = needed > 0 && product != products_.end(), computes = multiplies || (direct_ && needed > 0);
  const ScoreRules::Keys keys{wanted.begin, wanted.begin + (multiplies ? product->keys : needed)};
  const int64_t count = keys.end - keys.begin;
  const char* v = span.v + keys.begin * s.v.row * BytesOf(s.types.kv);
  float* scores = reinterpret_cast<float*>(scratch);
  float* room = reinterpret_cast<float*>(scratch + room_offset_);
  auto* carried = reinterpret_cast<Carried*>(scratch + carried_offset_) + first;
  const bool joins = keys.begin > 0;
  float* const results = span.results + first * span.pitch;
  float* const parts = joins ? reinterpret_cast<float*>(scratch + part_offset_) : results;

  const size_t plan = rows == block_ ? 0 : 1;
  InlineExecutor inline_executor;
  RunResources resources{.executor = &inline_executor, .cancel = cancel};
  const bool packed = multiplies && kept.matrix == span.matrix && kept.begin == keys.begin &&
                      kept.product == &*product && kept.plan == plan;
  if (multiplies) {
    resources.workspace = scratch + scores_offset_;
    resources.workspace_bytes = scores_bytes_;
    MatMulArgs args = ScoresArgs(rows);
    args.rhs_is_packed = packed;
    args.lhs = span.q + first * args.lhs_row_stride;
    args.rhs.data = span.k + keys.begin * s.k.row * BytesOf(s.types.kv);
    args.dst = scores;
    QUERN_RETURN_IF_ERROR(product->scores->Run(product->scores_plan[plan], args, resources));
  } else if (computes) {
    const int64_t pitch = by_group_ ? s.q.head : s.q.row;
    row_->dot_rows({.rows = static_cast<size_t>(rows),
                    .count = static_cast<size_t>(count),
                    .n = static_cast<size_t>(s.size),
                    .x = reinterpret_cast<const float*>(span.q) + first * pitch,
                    .z = reinterpret_cast<const float*>(span.k) + keys.begin * s.k.row,
                    .x_pitch = pitch,
                    .z_pitch = s.k.row,
                    .scale = s.scale,
                    .y = scores,
                    .y_pitch = score_pitch_});
  } else {  // heads without elements
    std::fill_n(scores, rows * score_pitch_, 0.0f);
  }
  int64_t plain = 0;  // rows before r that see all keys as they are
  for (int64_t r = 0; r < rows; ++r) {
    const ScoreRules::Row row = rules.RowOf(span.b, HeadOf(span, first + r), QueryOf(span, first + r), keys, room);
    if (IsPlain(row, keys, carried[r])) {
      ++plain;
      continue;
    }
    NormalizePlain(scores + (r - plain) * score_pitch_, plain, count, carried + r - plain);
    plain = 0;
    Normalize(scores + r * score_pitch_, keys, row, room, kept, carried[r]);
  }
  NormalizePlain(scores + (rows - plain) * score_pitch_, plain, count, carried + rows - plain);
  if (multiplies) {
    resources.workspace = scratch + values_offset_;
    resources.workspace_bytes = values_bytes_;
    MatMulArgs args = ValuesArgs(rows);
    args.rhs_is_packed = packed;
    auto* narrow = reinterpret_cast<uint16_t*>(scratch + narrow_offset_);
    for (int64_t r = 0; narrow_ && r < rows; ++r) {
      narrow_(count, scores + r * score_pitch_, narrow + r * score_pitch_, {});
    }
    args.lhs = narrow_ ? static_cast<const void*>(narrow) : scores;
    args.rhs.data = v;
    args.dst = parts;
    QUERN_RETURN_IF_ERROR(product->values->Run(product->values_plan[plan], args, resources));
    kept.matrix = span.matrix;
    kept.begin = keys.begin;
    kept.product = &*product;
    kept.plan = plan;
  } else if (computes) {
    row_->sum_rows({.rows = static_cast<size_t>(rows),
                    .count = static_cast<size_t>(count),
                    .n = static_cast<size_t>(s.value_size),
                    .w = scores,
                    .z = reinterpret_cast<const float*>(v),
                    .w_pitch = score_pitch_,
                    .z_pitch = s.v.row,
                    .y = parts,
                    .y_pitch = span.pitch});
  }
  const size_t n = static_cast<size_t>(s.value_size);
  for (int64_t r = 0; !computes && r < rows; ++r) std::fill_n(parts + r * span.pitch, n, kInfinity);
  ScaleRows(scores, rows, count, v, carried, parts, span.pitch);
  for (int64_t r = 0; joins && r < rows; ++r) {
    float *part = parts + r * span.pitch, *y = results + r * span.pitch;
    // What no longer counts may be infinite.
    if (carried[r].factor == 0) std::fill_n(y, n, 0.0f);
    row_->normalize({.n = n, .x = y, .y = y, .scale = carried[r].factor, .beta = part});
  }
  return OkStatus();
}

Status Attention::RunSpan(int64_t item, const AttentionOperands& operands, const ScoreRules& rules, std::byte* scratch,
                          const CancelToken* cancel, Kept& kept) const {
  const AttentionSizes& s = sizes_;
  const AttentionTypes& types = s.types;
  const int64_t spans = CeilDiv(rows_, span_), group = s.heads / s.kv_heads;
  const int64_t begin = item % spans * span_, per_sample = by_group_ ? s.kv_heads : s.heads;
  Span span;
  span.matrix = item / spans;
  span.rows = std::min(span_, rows_ - begin);
  span.b = span.matrix / per_sample;
  span.head = span.matrix % per_sample * (by_group_ ? group : 1) + (by_group_ ? begin : 0);
  span.query = by_group_ ? 0 : begin;
  const int64_t b = span.b, kv_head = span.head / group;
  span.q = static_cast<const char*>(operands.q) + s.q.At(b, span.head, span.query) * BytesOf(types.q);
  span.k = static_cast<const char*>(operands.k) + s.k.At(b, kv_head, 0) * BytesOf(types.kv);
  span.v = static_cast<const char*>(operands.v) + s.v.At(b, kv_head, 0) * BytesOf(types.kv);
  char* y = static_cast<char*>(operands.y) + s.y.At(b, span.head, span.query) * BytesOf(types.y);
  const int64_t y_pitch = by_group_ ? s.y.head : s.y.row;
  span.results = reinterpret_cast<float*>(UsesWide() ? reinterpret_cast<char*>(scratch) + wide_offset_ : y);
  span.pitch = UsesWide() ? wide_pitch_ : y_pitch;

  auto* carried = reinterpret_cast<Carried*>(scratch + carried_offset_);
  for (int64_t r = 0; r < span.rows; ++r) {
    // A sink is a score of a block without keys before the first one.
    const float sink = rules.Sink(HeadOf(span, r));
    carried[r] = {.largest = static_cast<double>(sink), .sum = sink == -kInfinity ? 0 : 1 + (sink - sink)};
  }
  for (int64_t from = 0; from == 0 || from < s.keys; from += key_block_) {
    for (int64_t r = 0; r < span.rows; r += block_) {
      const int64_t rows = std::min(block_, span.rows - r);
      const int64_t needed = std::max<int64_t>(0, by_group_ ? s.keys : KeysFor(begin + r + rows - 1));
      if (from > 0 && from >= needed) continue;
      const ScoreRules::Keys keys{from, std::min(needed, from + key_block_)};
      QUERN_RETURN_IF_ERROR(AddKeys(span, r, rows, keys, rules, scratch, cancel, kept));
    }
  }
  auto* room = reinterpret_cast<float*>(scratch + room_offset_);
  for (int64_t r = 0; UsesWide() && r < span.rows; ++r) {
    float* from_row = span.results + r * span.pitch;
    char* to = y + r * y_pitch * BytesOf(types.y);
    if (IsOnline() && carried[r].sum == 0) {
      // No key, or all are hidden; but scores of -infinity that nothing hides have no softmax.
      const ScoreRules::Row row = rules.RowOf(b, HeadOf(span, r), QueryOf(span, r), {}, room);
      if (!row.add[0] && row.first < std::min(row.end, s.keys)) std::fill_n(from_row, s.value_size, NAN);
    }
    if (store_) {
      store_(s.value_size, from_row, to, {});
    } else {
      std::memcpy(to, from_row, static_cast<size_t>(s.value_size) * sizeof(float));
    }
  }
  return OkStatus();
}

Status Attention::Run(const AttentionOperands& operands, const ScoreRules& rules, const RunResources& resources) const {
  const AttentionSizes& s = sizes_;
  if (matrices_ == 0 || rows_ == 0 || s.value_size == 0) return OkStatus();
  if (s.keys == 0) {
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        for (int64_t i = 0; i < s.queries; ++i) {
          char* y = static_cast<char*>(operands.y) + s.y.At(b, h, i) * BytesOf(s.types.y);
          std::memset(y, 0, static_cast<size_t>(s.value_size * BytesOf(s.types.y)));
        }
      }
    }
    return OkStatus();
  }
  if (resources.workspace_bytes < workspace_bytes()) return InvalidArgument("the workspace of attention is too small");
  auto* scratch = static_cast<std::byte*>(resources.workspace);
  std::atomic<bool> failed{false};
  auto task = [&](int slot, int64_t begin, int64_t end) {
    Kept kept;
    for (int64_t item = begin; item < end; ++item) {
      std::byte* own = scratch + static_cast<size_t>(slot) * slot_bytes_;
      if (!RunSpan(item, operands, rules, own, resources.cancel, kept).ok()) failed = true;
    }
  };
  // Products of less than about 20 us together are one task.
  const int64_t work = span_ * s.keys * (s.size + s.value_size + 8) / 16;
  const int64_t grain = std::max<int64_t>(1, kTaskWork / std::max<int64_t>(1, work));
  QUERN_RETURN_IF_ERROR(
      resources.executor->ParallelFor(matrices_ * CeilDiv(rows_, span_), grain, task, resources.cancel, slots_));
  if (!failed) return OkStatus();
  return resources.cancel && resources.cancel->cancelled() ? Cancelled("the run was cancelled")
                                                           : Internal("a product of attention failed");
}

}  // namespace quern::kernels
