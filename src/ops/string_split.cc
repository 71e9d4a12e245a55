// StringSplit: cuts each string at a delimiter, or at white space, and gives the parts and their number.
#include <algorithm>
#include <limits>
#include <string_view>

#include "ops/common/elements.h"
#include "ops/common/strings.h"
#include "ops/common/unicode.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  std::optional<Dims> shape = c.input_shape(0);
  c.SetOutputType(1, ValueType::Tensor(DType::kI64, shape));
  if (shape) shape->push_back(Dim::Unknown());
  c.SetOutputType(0, ValueType::Tensor(DType::kString, std::move(shape)));
  return OkStatus();
}

using Parts = std::vector<std::string_view>;

// Consecutive delimiters delimit empty strings. What is left after `most` cuts is the last part.
Parts SplitAt(std::string_view text, std::string_view delimiter, int64_t most) {
  Parts parts;
  for (int64_t cuts = 0; cuts < most; ++cuts) {
    const size_t end = text.find(delimiter);
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + delimiter.size());
  }
  parts.push_back(text);
  return parts;
}

// Runs of white space are one delimiter; at the ends of the text they delimit nothing.
Parts SplitAtSpace(std::string_view text, int64_t most) {
  Parts parts;
  size_t begin = std::string_view::npos, end = 0;  // of the part that goes on; where its last letter ends
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    if (!IsWhiteSpace(NextCodePoint(text, at))) {
      if (begin == std::string_view::npos) begin = here;
      end = at;
    } else if (begin != std::string_view::npos && static_cast<int64_t>(parts.size()) < most) {
      parts.push_back(text.substr(begin, end - begin));
      begin = std::string_view::npos;
    }
  }
  if (begin != std::string_view::npos) parts.push_back(text.substr(begin, end - begin));
  return parts;
}

Status Evaluate(EvalContext& c) {
  const StringTensor& x = c.input_value(0).strings();
  if (x.shape.rank() == kMaxRank) return c.Error("the output would have too many dimensions");
  const std::string delimiter = c.node().GetString("delimiter", "");
  int64_t most = c.node().GetInt("maxsplit", -1);
  if (most < 0) most = std::numeric_limits<int64_t>::max();
  QUERN_ASSIGN_OR_RETURN(const Tensor counts, c.AllocateOutput(1, DType::kI64, x.shape));
  const auto split = [&](const std::string& text) {
    return delimiter.empty() ? SplitAtSpace(text, most) : SplitAt(text, delimiter, most);
  };
  int64_t longest = 0;
  for (size_t i = 0; i < x.values.size(); ++i) {
    const int64_t count = static_cast<int64_t>(split(x.values[i]).size());
    counts.data<int64_t>()[i] = count;
    longest = std::max(longest, count);
  }
  Shape shape = x.shape;
  shape.push_back(longest);
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, DType::kString, shape));
  auto* row = out.data<std::string>();
  for (const std::string& text : x.values) {
    const Parts parts = split(text);
    std::copy(parts.begin(), parts.end(), row);
    row += longest;
  }
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {{"delimiter", AttrType::kString}, {"maxsplit", AttrType::kInt}};
constexpr Param kInputs[] = {{"X", "T1", kStringType}};
constexpr Param kOutputs[] = {{"Y", "T2", kStringType}, {"Z", "T3", {DType::kI64}}};
constexpr OpVersion kVersions[] = {{20, kInputs, kOutputs, kAttributes, Infer, Evaluate, 2}};

}  // namespace

extern constinit const OpDefinition kOpStringSplit = {"", "StringSplit", kVersions};

}  // namespace quern
