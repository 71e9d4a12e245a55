// RegexFullMatch: whether each string matches a pattern as a whole.
#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/regex.h"
#include "ops/common/strings.h"

namespace quern {
namespace {

Result<Regex> Compile(const Node& node) {
  const std::string* pattern = node.FindAttribute<std::string>("pattern");
  if (pattern == nullptr) return InvalidArgument(node.Describe() + ": attribute 'pattern' is missing");
  Result<Regex> regex = Regex::Compile(*pattern);
  if (!regex.ok()) return regex.status().WithContext(node.Describe());
  return regex;
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(Compile(c.node()).status());
  c.SetOutputType(0, ValueType::Tensor(DType::kBool, c.input_shape(0)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Regex regex, Compile(c.node()));
  const StringTensor& x = c.input_value(0).strings();
  QUERN_ASSIGN_OR_RETURN(const Tensor matches, c.AllocateOutput(0, DType::kBool, x.shape));
  for (size_t i = 0; i < x.values.size(); ++i) matches.data<bool>()[i] = regex.MatchesAll(x.values[i]);
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"pattern", AttrType::kString}};
constexpr Param kInputs[] = {{"X", "T1", kStringType}};
constexpr Param kOutputs[] = {{"Y", "T2", kBoolType}};
constexpr OpVersion kVersions[] = {{20, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpRegexFullMatch = {
    "", "RegexFullMatch", kVersions,
    "RE2's syntax without the classes of Unicode's database (`\\p`) and `\\C`; `(?i)` for Latin, Greek, Cyrillic and "
    "Armenian"};

}  // namespace quern
