// Scaled dot-product attention: scores, masks, softmax and the weighted sum of values, blocks of queries by blocks of
// keys that stay in the caches. Softmax is online: each query carries the largest score and the sum of exponentials
// from block to block. Heads of float32, float16 or bfloat16; scores, softmax and sums in float32.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/matmul.h"
#include "ukernel/elementwise.h"
#include "ukernel/vector.h"

namespace quern::kernels {

// Element p of row s of head h of sample b is at b * batch + h * head + s * row + p * element, in elements.
struct HeadStrides {
  int64_t batch = 0, head = 0, row = 0, element = 1;
  bool operator==(const HeadStrides&) const = default;
  int64_t At(int64_t b, int64_t h, int64_t s) const { return b * batch + h * head + s * row; }
};

// Queries and keys are of types that some GEMM row multiplies: one type, or float32 by float16. Probabilities are kept
// in float32, but rounded to bfloat16 where values are that.
struct AttentionTypes {
  Format q = Format::kF32, kv = Format::kF32, y = Format::kF32;
  bool operator==(const AttentionTypes&) const = default;
};

struct AttentionSizes {
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max() / 2;

  int64_t batch = 0, heads = 0, kv_heads = 1;  // kv_heads divides heads
  int64_t queries = 0, keys = 0;
  int64_t size = 0, value_size = 0;  // of a head
  HeadStrides q, k, v, y;            // elements of q, v and y are neighbours
  AttentionTypes types = {};
  float scale = 1;
  float softcap = 0;  // scores become softcap * tanh(score / softcap) when it is positive
  int64_t reach =
      kAll;  // query i, but for the last, sees none of the keys from reach + i + 1 on: they are not computed
  bool operator==(const AttentionSizes&) const = default;
};

// What is added to a row of scores, and which of them count.
class ScoreRules {
 public:
  struct Row {
    int64_t first = 0, end = 0;  // keys that are seen; what is beyond the range asked for does not matter
    // By key of the range, or null, for all ranges alike; -infinity hides a key whatever its score is.
    const float* add[2] = {nullptr, nullptr};
  };
  struct Keys {
    int64_t begin = 0, end = 0;
  };
  // Query i of head h of sample b and a range of keys; `room` holds as many floats as there are keys in it.
  virtual Row RowOf(int64_t b, int64_t h, int64_t i, const Keys& keys, float* room) const = 0;
  // A score of head h that takes part in the softmax but has no value; -infinity: none.
  virtual float Sink(int64_t) const { return -std::numeric_limits<float>::infinity(); }

 protected:
  ~ScoreRules() = default;
};

struct AttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* y = nullptr;  // no operand; a query that sees no key gives zeros
};

class RunTimeDrivers;

// The products and blocks for one set of sizes.
class Attention {
 public:
  Attention() = default;

  static Result<Attention> Create(const AttentionSizes& sizes, RunTimeDrivers& drivers, Precision precision,
                                  int concurrency);
  size_t workspace_bytes() const { return slot_bytes_ * static_cast<size_t>(slots_); }
  Status Run(const AttentionOperands& operands, const ScoreRules& rules, const RunResources& resources) const;
  // The products of a block of so many queries with the most keys and values; null: there are none.
  const MatMul* scores() const { return products_.empty() ? nullptr : products_.back().scores.get(); }
  const MatMul* values() const { return products_.empty() ? nullptr : products_.back().values.get(); }
  size_t block_rows() const { return static_cast<size_t>(block_); }
  size_t block_keys() const { return static_cast<size_t>(key_block_); }

 private:
  // Products of a block of queries with `keys` keys and their values; for whole blocks of queries and the last one.
  struct Products {
    int64_t keys = 0;
    std::shared_ptr<const MatMul> scores, values;
    std::array<MatMulPlan, 2> scores_plan, values_plan;
  };
  Status PrepareProducts(RunTimeDrivers& drivers, Precision precision);
  Result<Products> MakeProducts(int64_t keys, RunTimeDrivers& drivers, Precision precision) const;
  bool IsOnline() const { return key_block_ < sizes_.keys; }
  bool UsesWide() const { return store_ || IsOnline(); }
  Format ProbabilityType() const { return sizes_.types.kv == Format::kBf16 ? Format::kBf16 : Format::kF32; }
  // The right sides of scores and values.
  ukernel::RhsSource KeyMatrix() const;
  ukernel::RhsSource ValueMatrix() const;
  MatMulArgs ScoresArgs(int64_t rows) const;
  MatMulArgs ValuesArgs(int64_t rows) const;
  int64_t KeysFor(int64_t last_query) const;
  // What a query carries from block to block of keys.
  struct Carried {
    double largest = 0;  // score with what is added to it
    float sum = 0;       // of e^(score - largest)
    float factor = 0;    // of the results so far
    float inverse = 1;   // of the results of this block
  };
  // Blocks of queries of one matrix: their first row, and the matrix' keys and values.
  struct Span {
    int64_t matrix = 0, rows = 0;
    int64_t b = 0, head = 0, query = 0;
    const char *q = nullptr, *k = nullptr, *v = nullptr;
    float* results = nullptr;
    int64_t pitch = 0;  // of results, floats
  };
  int64_t HeadOf(const Span& span, int64_t r) const { return span.head + (by_group_ ? r : 0); }
  int64_t QueryOf(const Span& span, int64_t r) const { return span.query + (by_group_ ? 0 : r); }
  // What one task keeps from block to block.
  struct Kept {
    // The matrix whose keys and values its workspaces hold packed, from which key on and by which products.
    int64_t matrix = -1, begin = 0;
    const Products* product = nullptr;
    size_t plan = 0;
    // A row of what is added to a range of keys, counted from its first one, and the sum of the largest of it.
    ScoreRules::Row row;
    float largest = 0;
  };
  Status RunSpan(int64_t item, const AttentionOperands& operands, const ScoreRules& rules, std::byte* scratch,
                 const CancelToken* cancel, Kept& kept) const;
  Status AddKeys(const Span& span, int64_t first, int64_t rows, const ScoreRules::Keys& wanted, const ScoreRules& rules,
                 std::byte* scratch, const CancelToken* cancel, Kept& kept) const;
  void Normalize(float* scores, const ScoreRules::Keys& keys, const ScoreRules::Row& row, const float* room, Kept& kept,
                 Carried& carried) const;
  bool IsPlain(const ScoreRules::Row& row, const ScoreRules::Keys& keys, const Carried& carried) const;
  void NormalizePlain(float* scores, int64_t rows, int64_t count, Carried* carried) const;
  void ScaleRows(const float* weights, int64_t rows, int64_t keys, const char* v, const Carried* carried, float* y,
                 int64_t pitch) const;
  // A row of results by plain sums over the keys with a probability.
  void SumAgain(const float* weights, int64_t keys, const char* v, float inverse, float* y) const;

  AttentionSizes sizes_;
  const ukernel::VectorKernel* row_ = nullptr;
  // From float32 to the types of probabilities and of y; null: they are float32.
  ukernel::UnaryRow narrow_ = nullptr, store_ = nullptr;
  // One query of all heads that share a head of keys is a block of its own.
  bool by_group_ = false;
  bool direct_ = false;             // rows so few that keys and values are read where they lie
  int64_t rows_ = 0;                // of the blocks' matrices: queries, or the heads of a group
  int64_t block_ = 0;               // rows of one block
  int64_t span_ = 0;                // rows of one task
  int64_t key_block_ = 0;           // keys of one block
  int64_t matrices_ = 0;            // each with keys of its own
  int64_t score_pitch_ = 0;         // floats
  std::vector<Products> products_;  // by keys
  ukernel::EpilogueOp scale_{};
  int64_t wide_pitch_ = 0;  // floats, of results that are stored in 16 bits or added to earlier ones
  // In a slot: scores, room for a row, scores of 16 bits, results of 32 bits, those of one block of keys, what rows
  // carry, the products' workspaces.
  size_t room_offset_ = 0, narrow_offset_ = 0, wide_offset_ = 0, part_offset_ = 0, carried_offset_ = 0;
  size_t scores_offset_ = 0, scores_bytes_ = 0, values_offset_ = 0, values_bytes_ = 0;
  size_t slot_bytes_ = 0;
  int slots_ = 1;
};

}  // namespace quern::kernels
