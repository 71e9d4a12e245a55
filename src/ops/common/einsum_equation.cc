#include "ops/common/einsum_equation.h"

#include <algorithm>
#include <set>

namespace quern {

Result<EinsumEquation> ParseEinsum(const Node& node, const std::vector<int>& ranks) {
  const std::string text = node.GetString("equation", "");
  const auto fails = [&](const std::string& why) {
    return InvalidArgument(node.Describe() + ": equation '" + text + "': " + why);
  };
  std::vector<std::string> terms(1);
  bool has_output = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char ch = text[i];
    if (ch == ' ') continue;
    if (ch == ',' && !has_output) {
      terms.emplace_back();
    } else if (text.compare(i, 2, "->") == 0 && !has_output) {
      has_output = true;
      terms.emplace_back();
      ++i;
    } else if (text.compare(i, 3, "...") == 0 && terms.back().find('.') == std::string::npos) {
      terms.back() += '.';
      i += 2;
    } else if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')) {
      terms.back() += ch;
    } else {
      return fails("unexpected character at " + std::to_string(i));
    }
  }
  if (terms.size() - (has_output ? 1 : 0) != ranks.size()) return fails("the number of operands does not match");
  int ellipsis = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const bool dots = terms[i].find('.') != std::string::npos;
    const int letters = static_cast<int>(terms[i].size()) - (dots ? 1 : 0);
    if (dots ? letters > ranks[i] : letters != ranks[i]) {
      return fails("operand " + std::to_string(i) + " has " + std::to_string(ranks[i]) + " dimensions");
    }
    if (dots) ellipsis = std::max(ellipsis, ranks[i] - letters);
  }
  if (ellipsis > 10) return fails("an ellipsis stands for more than 10 dimensions");
  const auto expand = [&](const std::string& term, int count) {
    std::string result;
    for (const char ch : term) {
      if (ch != '.') result += ch;
      for (int d = ellipsis - count; ch == '.' && d < ellipsis; ++d) result += static_cast<char>('0' + d);
    }
    return result;
  };
  EinsumEquation e;
  for (size_t i = 0; i < ranks.size(); ++i) {
    e.inputs.push_back(expand(terms[i], ranks[i] - static_cast<int>(terms[i].size()) + 1));
  }
  if (has_output) {
    e.output = expand(terms.back(), ellipsis);
    for (const char ch : e.output) {
      const auto has = [ch](const std::string& s) { return s.find(ch) != std::string::npos; };
      if (std::none_of(e.inputs.begin(), e.inputs.end(), has) || std::count(e.output.begin(), e.output.end(), ch) > 1) {
        return fails("the output is not made of distinct letters of the operands");
      }
    }
    return e;
  }
  std::string all;
  for (const std::string& s : e.inputs) all += s;
  for (const char ch : std::set<char>(all.begin(), all.end())) {  // digits (the ellipsis) sort before letters
    if (std::count(all.begin(), all.end(), ch) == 1 || (ch >= '0' && ch <= '9')) e.output += ch;
  }
  return e;
}

}  // namespace quern
