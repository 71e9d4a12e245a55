// TfIdfVectorizer: counts the n-grams of a pool in rows of integers or strings, and weighs the counts.
#include <algorithm>
#include <map>
#include <string_view>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/strings.h"

namespace quern {
namespace {

// The n-grams of one size: `count` of them from pool entry `first` on; `id` numbers the first one in the whole pool.
struct Grams {
  size_t first, count, size, id;
};

// What the attributes say, checked.
struct Plan {
  enum class Mode { kTf, kIdf, kTfIdf } mode = Mode::kTf;
  int64_t max_skip = 0;
  std::vector<Grams> grams;      // of the sizes that are looked for
  std::vector<int64_t> columns;  // of the output, by n-gram
  std::vector<float> weights;    // by n-gram; empty: 1
  int64_t width = 0;             // of the output
};

const std::vector<int64_t>* PoolOfInts(const Node& node) {
  return node.FindAttribute<std::vector<int64_t>>("pool_int64s");
}
const std::vector<std::string>* PoolOfStrings(const Node& node) {
  return node.FindAttribute<std::vector<std::string>>("pool_strings");
}

Result<Plan> MakePlan(const Node& node) {
  const auto error = [&](std::string message) { return InvalidArgument(node.Describe() + ": " + std::move(message)); };
  Plan p;
  const std::string mode = node.GetString("mode", "");
  if (mode == "TF") {
    p.mode = Plan::Mode::kTf;
  } else if (mode == "IDF") {
    p.mode = Plan::Mode::kIdf;
  } else if (mode == "TFIDF") {
    p.mode = Plan::Mode::kTfIdf;
  } else {
    return error("mode is '" + mode + "', it must be TF, IDF or TFIDF");
  }
  const int64_t shortest = node.GetInt("min_gram_length", 0), longest = node.GetInt("max_gram_length", 0);
  if (shortest < 1 || longest < shortest) {
    return error("min_gram_length is " + std::to_string(shortest) + " and max_gram_length " + std::to_string(longest) +
                 "; they must be at least 1 and in order");
  }
  p.max_skip = node.GetInt("max_skip_count", 0);
  if (p.max_skip < 0) return error("max_skip_count is " + std::to_string(p.max_skip) + ", it must not be negative");
  const auto* ints = PoolOfInts(node);
  const auto* strings = PoolOfStrings(node);
  if ((ints == nullptr) == (strings == nullptr)) return error("needs one of pool_int64s and pool_strings");
  const int64_t pool = static_cast<int64_t>(ints != nullptr ? ints->size() : strings->size());

  const std::vector<int64_t> counts = node.GetInts("ngram_counts");
  size_t grams = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t first = counts[i], end = i + 1 < counts.size() ? counts[i + 1] : pool,
                  size = static_cast<int64_t>(i) + 1;
    if (first < 0 || end < first || end > pool || (end - first) % size != 0) {
      return error("ngram_counts puts the n-grams of size " + std::to_string(size) + " from " + std::to_string(first) +
                   " to " + std::to_string(end) + " of a pool of " + std::to_string(pool) + ", which does not fit");
    }
    const size_t count = static_cast<size_t>((end - first) / size);
    if (count > 0 && size >= shortest && size <= longest) {
      p.grams.push_back({static_cast<size_t>(first), count, static_cast<size_t>(size), grams});
    }
    grams += count;
  }
  p.columns = node.GetInts("ngram_indexes");
  if (p.columns.empty() || p.columns.size() != grams) {
    return error("ngram_indexes has " + std::to_string(p.columns.size()) + " entries, the pool has " +
                 std::to_string(grams) + " n-grams");
  }
  for (int64_t column : p.columns) {
    if (column < 0 || column == INT64_MAX) return error("ngram_indexes has the entry " + std::to_string(column));
    p.width = std::max(p.width, column + 1);
  }
  if (const auto* weights = node.FindAttribute<std::vector<float>>("weights")) p.weights = *weights;
  if (!p.weights.empty() && p.weights.size() != grams) {
    return error("weights has " + std::to_string(p.weights.size()) + " entries, the pool has " + std::to_string(grams) +
                 " n-grams");
  }
  return p;
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Plan p, MakePlan(c.node()));
  const bool strings = PoolOfStrings(c.node()) != nullptr;
  if (c.input_dtype(0) != DType::kUndefined && strings != (c.input_dtype(0) == DType::kString)) {
    return c.Error(std::string("the input has element type ") + DTypeName(c.input_dtype(0)) + ", the pool is of " +
                   (strings ? "strings" : "integers"));
  }
  std::optional<Dims> shape = c.input_shape(0);
  if (shape) {
    if (shape->empty() || shape->size() > 2) {
      return c.Error("the input has shape " + DimsToString(*shape) + ", it must be [C] or [N, C]");
    }
    shape->back() = Dim(p.width);
  }
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, std::move(shape)));
  return OkStatus();
}

// Token: int64_t or std::string_view.
template <typename Token>
using Dictionary = std::map<std::vector<Token>, std::vector<size_t>>;  // n-gram -> its numbers

template <typename Token, typename Pool>
Dictionary<Token> MakeDictionary(const Plan& p, const Pool& pool) {
  Dictionary<Token> dictionary;
  for (const Grams& g : p.grams) {
    for (size_t i = 0; i < g.count; ++i) {
      const auto begin = pool.begin() + static_cast<int64_t>(g.first + i * g.size);
      dictionary[std::vector<Token>(begin, begin + static_cast<int64_t>(g.size))].push_back(g.id + i);
    }
  }
  return dictionary;
}

// Adds to counts, by n-gram, what a row holds: items that lie 1 to max_skip + 1 apart, the same for a whole n-gram.
template <typename Token>
void CountRow(const Plan& p, const Dictionary<Token>& dictionary, std::span<const Token> row,
              std::vector<int64_t>& counts) {
  const int64_t length = static_cast<int64_t>(row.size());
  std::vector<Token> gram;
  for (const Grams& g : p.grams) {
    const int64_t size = static_cast<int64_t>(g.size);
    // Skips make no difference to single items, which count once.
    const int64_t farthest = size == 1 ? 1 : std::min(p.max_skip, length) + 1;
    for (int64_t step = 1; step <= farthest && step * (size - 1) < length; ++step) {
      for (int64_t start = 0; start + step * (size - 1) < length; ++start) {
        gram.clear();
        for (int64_t i = 0; i < size; ++i) gram.push_back(row[static_cast<size_t>(start + i * step)]);
        const auto found = dictionary.find(gram);
        if (found == dictionary.end()) continue;
        for (size_t id : found->second) ++counts[id];
      }
    }
  }
}

template <typename Token, typename Pool, typename Items>
void Vectorize(const Plan& p, const Pool& pool, const Items& items, const Tensor& y) {
  const Dictionary<Token> dictionary = MakeDictionary<Token>(p, pool);
  const std::vector<Token> tokens(items.begin(), items.end());
  const int64_t rows = y.rank() == 2 ? y.dim(0) : 1;
  const size_t length = rows == 0 ? 0 : tokens.size() / static_cast<size_t>(rows);
  std::fill_n(y.data<float>(), y.num_elements(), 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<int64_t> counts(p.columns.size());
    CountRow(p, dictionary, std::span<const Token>(tokens).subspan(static_cast<size_t>(r) * length, length), counts);
    for (size_t i = 0; i < counts.size(); ++i) {
      const int64_t count = p.mode == Plan::Mode::kIdf ? std::min<int64_t>(counts[i], 1) : counts[i];
      const float weight = p.mode == Plan::Mode::kTf || p.weights.empty() ? 1.0f : p.weights[i];
      y.data<float>()[r * p.width + p.columns[i]] += static_cast<float>(count) * weight;
    }
  }
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Plan p, MakePlan(c.node()));
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  if (const auto* pool = PoolOfStrings(c.node())) {
    Vectorize<std::string_view>(p, *pool, c.input_value(0).strings().values, y);
    return OkStatus();
  }
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> items, ReadInts(c, 0));
  Vectorize<int64_t>(p, *PoolOfInts(c.node()), items, y);
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"max_gram_length", AttrType::kInt, true},
                                    {"max_skip_count", AttrType::kInt, true},
                                    {"min_gram_length", AttrType::kInt, true},
                                    {"mode", AttrType::kString, true},
                                    {"ngram_counts", AttrType::kInts, true},
                                    {"ngram_indexes", AttrType::kInts, true},
                                    {"pool_int64s", AttrType::kInts},
                                    {"pool_strings", AttrType::kStrings},
                                    {"weights", AttrType::kFloats}};
constexpr Param kInputs[] = {{"X", "T", kIndexTypes | kStringType}};
constexpr Param kOutputs[] = {{"Y", "T1", {DType::kF32}}};
constexpr OpVersion kVersions[] = {{9, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpTfIdfVectorizer = {"", "TfIdfVectorizer", kVersions};

}  // namespace quern
