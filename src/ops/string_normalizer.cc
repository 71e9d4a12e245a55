// StringNormalizer: drops stop words from a list of strings and changes the case of the others.
#include <algorithm>
#include <set>

#include "ops/common/elements.h"
#include "ops/common/strings.h"
#include "ops/common/unicode.h"

namespace quern {
namespace {

// What `case_change_action` and `is_case_sensitive` ask for; null: leave the text as it is.
struct CaseRules {
  int32_t (*change)(int32_t) = nullptr;
  int32_t (*compare)(int32_t) = nullptr;
};

Result<CaseRules> ReadRules(const Node& node) {
  CaseRules rules;
  const std::string action = node.GetString("case_change_action", "NONE");
  if (action == "LOWER") {
    rules.change = ToLower;
  } else if (action == "UPPER") {
    rules.change = ToUpper;
  } else if (action != "NONE") {
    return InvalidArgument(node.Describe() + ": case_change_action is '" + action +
                           "', it must be LOWER, UPPER or NONE");
  }
  if (node.GetInt("is_case_sensitive", 0) == 0) rules.compare = ToLower;
  return rules;
}

std::vector<std::string> StopWords(const Node& node) {
  const auto* words = node.FindAttribute<std::vector<std::string>>("stopwords");
  return words != nullptr ? *words : std::vector<std::string>();
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(ReadRules(c.node()).status());
  std::optional<Dims> shape = c.input_shape(0);
  if (shape) {
    const bool row = shape->size() == 2 && (!shape->front().is_constant() || shape->front().is_constant(1));
    if (shape->size() != 1 && !row) {
      return c.Error("the input has shape " + DimsToString(*shape) + ", it must be [C] or [1, C]");
    }
    if (row) shape->front() = Dim(1);
    if (!StopWords(c.node()).empty()) shape->back() = Dim::Unknown();
  }
  c.SetOutputType(0, ValueType::Tensor(DType::kString, std::move(shape)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  const StringTensor& x = c.input_value(0).strings();
  const int rank = x.shape.rank();
  if (rank != 1 && !(rank == 2 && x.shape[0] == 1)) {
    return c.Error("the input has shape " + x.shape.ToString() + ", it must be [C] or [1, C]");
  }
  QUERN_ASSIGN_OR_RETURN(const CaseRules rules, ReadRules(c.node()));
  const auto change = [&](const std::string& text, int32_t (*map)(int32_t)) -> Result<std::string> {
    std::optional<std::string> changed = map != nullptr ? MapCodePoints(text, map) : text;
    if (!changed) return c.Error("a string of the input or of stopwords is no UTF-8");
    return *std::move(changed);
  };
  std::set<std::string> stop_words;
  for (const std::string& word : StopWords(c.node())) {
    QUERN_ASSIGN_OR_RETURN(std::string compared, change(word, rules.compare));
    stop_words.insert(std::move(compared));
  }
  std::vector<std::string> kept;
  for (const std::string& text : x.values) {
    if (!stop_words.empty()) {
      QUERN_ASSIGN_OR_RETURN(const std::string compared, change(text, rules.compare));
      if (stop_words.contains(compared)) continue;
    }
    QUERN_ASSIGN_OR_RETURN(std::string changed, change(text, rules.change));
    kept.push_back(std::move(changed));
  }
  if (kept.empty() && !x.values.empty()) kept.emplace_back();  // all dropped: one empty string stays
  Shape shape = x.shape;
  shape[rank - 1] = static_cast<int64_t>(kept.size());
  c.SetOutput(0, StringTensor{shape, std::move(kept)});
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"case_change_action", AttrType::kString, false, "NONE"},
                                    {"is_case_sensitive", AttrType::kInt, false, "0"},
                                    {"locale", AttrType::kString},
                                    {"stopwords", AttrType::kStrings}};
constexpr Param kInputs[] = {{"X", "", kStringType}};
constexpr Param kOutputs[] = {{"Y", "", kStringType}};
constexpr OpVersion kVersions[] = {{10, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpStringNormalizer = {
    "", "StringNormalizer", kVersions,
    "case by Unicode's one-to-one mappings of Latin, Greek, Cyrillic and Armenian letters; `locale` changes nothing"};

}  // namespace quern
