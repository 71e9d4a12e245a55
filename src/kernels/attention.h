// Scaled dot-product attention: scores, masks, softmax and the weighted sum of values, block by block of queries, so
// that scores never lie in memory as a whole. Heads of float32, float16 or bfloat16; scores, softmax and sums in
// float32.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "kernels/matmul.h"
#include "ukernel/elementwise.h"
#include "ukernel/vector.h"

namespace quern::kernels {

// Element p of row s of head h of sample b is at b * batch + h * head + s * row + p * element, in elements.
struct HeadStrides {
  int64_t batch = 0, head = 0, row = 0, element = 1;
  int64_t At(int64_t b, int64_t h, int64_t s) const { return b * batch + h * head + s * row; }
};

// Queries and keys are of types that some GEMM row multiplies: one type, or float32 by float16. Probabilities are kept
// in float32, but rounded to bfloat16 where values are that.
struct AttentionTypes {
  Format q = Format::kF32, kv = Format::kF32, y = Format::kF32;
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
};

// What is added to a row of scores, and which of them count.
class ScoreRules {
 public:
  struct Row {
    int64_t first = 0, end = 0;                // keys that are seen
    const float* add[2] = {nullptr, nullptr};  // by key, or null; -infinity hides a key whatever its score is
  };
  // Query i of head h of sample b; `room` holds as many floats as there are keys.
  virtual Row RowOf(int64_t b, int64_t h, int64_t i, float* room) const = 0;
  // A score of head h that takes part in the softmax but has no value; -infinity: none.
  virtual float Sink(int64_t) const { return -std::numeric_limits<float>::infinity(); }

 protected:
  ~ScoreRules() = default;
};

struct AttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* y = nullptr;  // no operand; a query that sees no key gives zeros
};

// The products and blocks for one set of sizes.
class Attention {
 public:
  Attention() = default;

  static Result<Attention> Create(const AttentionSizes& sizes, const SelectOptions& options, Precision precision,
                                  int concurrency);
  size_t workspace_bytes() const { return slot_bytes_ * static_cast<size_t>(slots_); }
  Status Run(const AttentionOperands& operands, const ScoreRules& rules, const RunResources& resources) const;
  // The products of a block of so many queries with all keys and values; null: there is nothing to compute.
  const MatMul* scores() const { return products_.empty() ? nullptr : &products_.back().scores; }
  const MatMul* values() const { return products_.empty() ? nullptr : &products_.back().values; }
  size_t block_rows() const { return static_cast<size_t>(block_); }

 private:
  // Products of a block of queries with the first `keys` keys and their values; for whole blocks and the last one.
  struct Products {
    int64_t keys = 0;
    MatMul scores, values;
    std::array<MatMulPlan, 2> scores_plan, values_plan;
  };
  Result<Products> MakeProducts(int64_t keys, const SelectOptions& options, Precision precision) const;
  Format ProbabilityType() const { return sizes_.types.kv == Format::kBf16 ? Format::kBf16 : Format::kF32; }
  // The right sides of scores and values.
  ukernel::RhsSource KeyMatrix() const;
  ukernel::RhsSource ValueMatrix() const;
  MatMulArgs ScoresArgs(int64_t rows) const;
  MatMulArgs ValuesArgs(int64_t rows) const;
  int64_t KeysFor(int64_t last_query) const;
  // What one task keeps from block to block.
  struct Kept {
    // The matrix whose keys and values its workspaces hold packed, by which products.
    int64_t matrix = -1;
    const Products* product = nullptr;
    size_t plan = 0;
    // A row of what is added, and the sum of the largest of it.
    ScoreRules::Row row;
    float largest = 0;
  };
  Status RunBlock(int64_t item, const AttentionOperands& operands, const ScoreRules& rules, std::byte* scratch,
                  const CancelToken* cancel, Kept& kept) const;
  void Normalize(float* scores, int64_t keys, const ScoreRules::Row& row, const float* room, float sink,
                 Kept& kept) const;
  void RepairRow(const float* probabilities, int64_t keys, const char* v, float* y) const;

  AttentionSizes sizes_;
  const ukernel::VectorKernel* row_ = nullptr;
  // From float32 to the types of probabilities and of y; null: they are float32.
  ukernel::UnaryRow narrow_ = nullptr, store_ = nullptr;
  // One query of all heads that share a head of keys is a block of its own.
  bool by_group_ = false;
  int64_t rows_ = 0;         // of the blocks' matrices: queries, or the heads of a group
  int64_t block_ = 0;        // rows of one block
  int64_t matrices_ = 0;     // each with keys of its own
  int64_t score_pitch_ = 0;  // floats
  std::vector<Products> products_;
  ukernel::EpilogueOp scale_{};
  int64_t wide_pitch_ = 0;  // floats, of results that are stored in 16 bits
  // In a slot: scores, room for a row, scores of 16 bits, results of 32 bits, the products' workspaces.
  size_t room_offset_ = 0, narrow_offset_ = 0, wide_offset_ = 0;
  size_t scores_offset_ = 0, scores_bytes_ = 0, values_offset_ = 0, values_bytes_ = 0;
  size_t slot_bytes_ = 0;
  int slots_ = 1;
};

}  // namespace quern::kernels
