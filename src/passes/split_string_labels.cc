// A classifier whose labels are strings gives their numbers, and a LabelEncoder the strings:
//   %l, %s = TreeEnsembleClassifier(%x) {classlabels_strings = ["a", "b"]}
// ->
//   %n, %s = TreeEnsembleClassifier(%x) {classlabels_int64s = [0, 1]}
//   %l = LabelEncoder(%n) {keys_int64s = [0, 1], values_strings = ["a", "b"]}
// so that providers of numbers take it. LinearClassifier and SVMClassifier are the same; trees of one class, whose
// labels are not numbered, stay.
#include <numeric>
#include <string>
#include <vector>

#include "graph/rewriter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr const char* kDomain = "ai.onnx.ml";
constexpr const char* kStrings = "classlabels_strings";
constexpr int kKeysSince = 2;  // LabelEncoder with keys and values; before, positions in a list of strings

// The attribute of integer labels; null for other operators.
const char* IntegersOf(const Node& n) {
  if (n.Is("TreeEnsembleClassifier", kDomain)) return "classlabels_int64s";
  if (n.Is("LinearClassifier", kDomain) || n.Is("SVMClassifier", kDomain)) return "classlabels_ints";
  return nullptr;
}

Result<bool> Split(Graph& graph, Node* n) {
  const char* integers = IntegersOf(*n);
  const auto* strings = integers ? n->FindAttribute<std::vector<std::string>>(kStrings) : nullptr;
  if (!strings || strings->size() < 2 || !n->GetInts(integers).empty() || !n->output(0)) return false;
  std::vector<int64_t> numbers(strings->size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto fresh = [&](const GraphValue* v, const char* suffix) {
    return v ? graph.UniqueName(v->name() + suffix) : std::string();
  };
  NodeSpec spec{.name = n->name(),
                .domain = kDomain,
                .op_type = n->op_type(),
                .opset = n->opset(),
                .inputs = n->inputs(),
                .outputs = {fresh(n->output(0), "_number"), fresh(n->output(1), "_part")},
                .attributes = n->attributes()};
  spec.attributes.erase(kStrings);
  spec.attributes[integers] = numbers;
  Node* classifier = graph.AddNode(std::move(spec), n);
  ValueType type = n->output(0)->type();
  type.dtype = DType::kI64;
  classifier->output(0)->set_type(type);
  NodeSpec encoder{.domain = kDomain,
                   .op_type = "LabelEncoder",
                   .opset = n->opset(),
                   .inputs = {classifier->output(0)},
                   .outputs = {fresh(n->output(0), "_part")}};
  if (n->opset() < kKeysSince) {
    encoder.attributes["classes_strings"] = *strings;
  } else {
    encoder.attributes["keys_int64s"] = numbers;
    encoder.attributes["values_strings"] = *strings;
  }
  Node* labels = graph.AddNode(std::move(encoder), n);
  ReplaceValue(graph, n->output(0), labels->output(0));
  if (n->output(1)) ReplaceValue(graph, n->output(1), classifier->output(1));
  graph.Remove(n);
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Split); }

}  // namespace

extern const Pass kSplitStringLabels = {"split_string_labels", "classifiers give numbers of labels that are strings",
                                        Run};

}  // namespace quern
