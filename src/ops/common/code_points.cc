#include "ops/common/code_points.h"

#include <algorithm>
#include <map>

#include "ops/common/unicode.h"

namespace quern {
namespace {

int32_t Fold(int32_t c) { return ToLower(ToUpper(c)); }

// Fold -> the code points with that fold, where there are several: they differ by case alone.
using CaseForms = std::map<int32_t, std::vector<int32_t>>;
const CaseForms& AllCaseForms() {
  static const CaseForms forms = [] {
    CaseForms by_fold;
    for (int32_t c = 0; c < kCaseEnd; ++c) by_fold[Fold(c)].push_back(c);
    std::erase_if(by_fold, [](const auto& f) { return f.second.size() < 2; });
    return by_fold;
  }();
  return forms;
}

}  // namespace

void Normalize(CodePoints& set) {
  std::sort(set.begin(), set.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  CodePoints merged;
  for (const CodePointRange& r : set) {
    if (!merged.empty() && r.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, r.last);
    } else {
      merged.push_back(r);
    }
  }
  set = std::move(merged);
}

CodePoints Inverse(CodePoints set) {
  Normalize(set);
  CodePoints inverse;
  int32_t next = 0;
  for (const CodePointRange& r : set) {
    if (r.first > next) inverse.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kLastCodePoint) inverse.push_back({next, kLastCodePoint});
  return inverse;
}

void AddCaseForms(CodePoints& set) {
  Normalize(set);
  CodePoints added;
  const auto has = [&](int32_t c) {
    const auto after =
        std::upper_bound(set.begin(), set.end(), c, [](int32_t x, const auto& r) { return x < r.first; });
    return after != set.begin() && c <= std::prev(after)->last;
  };
  for (const auto& [fold, forms] : AllCaseForms()) {
    if (!std::any_of(forms.begin(), forms.end(), has)) continue;
    for (int32_t c : forms) added.push_back({c, c});
  }
  set.insert(set.end(), added.begin(), added.end());
}

void AddCaseForms(CodePoints& set, int32_t only_of) {
  const auto forms = AllCaseForms().find(Fold(only_of));
  if (forms == AllCaseForms().end()) return;
  for (int32_t c : forms->second) set.push_back({c, c});
}

std::optional<CodePoints> FindClass(std::string_view name) {
  static const struct {
    std::string_view name;
    CodePoints set;
  } kClasses[] = {{"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
                  {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
                  {"ascii", {{0, 0x7F}}},
                  {"blank", {{'\t', '\t'}, {' ', ' '}}},
                  {"cntrl", {{0, 0x1F}, {0x7F, 0x7F}}},
                  {"digit", {{'0', '9'}}},
                  {"graph", {{'!', '~'}}},
                  {"lower", {{'a', 'z'}}},
                  {"print", {{' ', '~'}}},
                  {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
                  {"space", {{'\t', '\r'}, {' ', ' '}}},
                  {"upper", {{'A', 'Z'}}},
                  {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
                  {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};
  for (const auto& named : kClasses) {
    if (named.name == name) return named.set;
  }
  return std::nullopt;
}

}  // namespace quern
