// Sets of code points as lists of ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace quern {

inline constexpr int32_t kLastCodePoint = 0x10FFFF;

struct CodePointRange {
  int32_t first, last;
};
using CodePoints = std::vector<CodePointRange>;

// Sorts the ranges and joins those that touch or overlap.
void Normalize(CodePoints& set);
// All code points that are not in the set; normalized.
CodePoints Inverse(CodePoints set);
// Adds what differs from a member by case alone, as far as ToLower and ToUpper of ops/common/unicode.h know.
void AddCaseForms(CodePoints& set);
void AddCaseForms(CodePoints& set, int32_t only_of);

// POSIX's classes ("alpha", "digit") and "word", of ASCII.
std::optional<CodePoints> FindClass(std::string_view name);

}  // namespace quern
