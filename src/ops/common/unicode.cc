#include "ops/common/unicode.h"

#include <algorithm>
#include <span>

namespace quern {
namespace {

// Capitals first, first + step, ..., last, whose small letters lie `delta` further on, and the reverse
// (UnicodeData.txt).
struct CaseRange {
  uint16_t first, last;
  int16_t delta;
  uint8_t step;
};
constexpr CaseRange kCaseRanges[] = {
    // Basic Latin, Latin-1, Latin Extended-A
    {0x41, 0x5A, 32, 1},
    {0xC0, 0xD6, 32, 1},
    {0xD8, 0xDE, 32, 1},
    {0x100, 0x12E, 1, 2},
    {0x132, 0x136, 1, 2},
    {0x139, 0x147, 1, 2},
    {0x14A, 0x176, 1, 2},
    {0x178, 0x178, -121, 1},
    {0x179, 0x17D, 1, 2},
    // Latin Extended-B
    {0x181, 0x181, 210, 1},
    {0x182, 0x184, 1, 2},
    {0x186, 0x186, 206, 1},
    {0x187, 0x187, 1, 1},
    {0x189, 0x18A, 205, 1},
    {0x18B, 0x18B, 1, 1},
    {0x18E, 0x18E, 79, 1},
    {0x18F, 0x18F, 202, 1},
    {0x190, 0x190, 203, 1},
    {0x191, 0x191, 1, 1},
    {0x193, 0x193, 205, 1},
    {0x194, 0x194, 207, 1},
    {0x196, 0x196, 211, 1},
    {0x197, 0x197, 209, 1},
    {0x198, 0x198, 1, 1},
    {0x19C, 0x19C, 211, 1},
    {0x19D, 0x19D, 213, 1},
    {0x19F, 0x19F, 214, 1},
    {0x1A0, 0x1A4, 1, 2},
    {0x1A6, 0x1A6, 218, 1},
    {0x1A7, 0x1A7, 1, 1},
    {0x1A9, 0x1A9, 218, 1},
    {0x1AC, 0x1AC, 1, 1},
    {0x1AE, 0x1AE, 218, 1},
    {0x1AF, 0x1AF, 1, 1},
    {0x1B1, 0x1B2, 217, 1},
    {0x1B3, 0x1B5, 1, 2},
    {0x1B7, 0x1B7, 219, 1},
    {0x1B8, 0x1B8, 1, 1},
    {0x1BC, 0x1BC, 1, 1},
    {0x1C4, 0x1C4, 2, 1},
    {0x1C7, 0x1C7, 2, 1},
    {0x1CA, 0x1CA, 2, 1},
    {0x1CD, 0x1DB, 1, 2},
    {0x1DE, 0x1EE, 1, 2},
    {0x1F1, 0x1F1, 2, 1},
    {0x1F4, 0x1F4, 1, 1},
    {0x1F6, 0x1F6, -97, 1},
    {0x1F7, 0x1F7, -56, 1},
    {0x1F8, 0x21E, 1, 2},
    {0x220, 0x220, -130, 1},
    {0x222, 0x232, 1, 2},
    {0x23B, 0x23B, 1, 1},
    {0x23D, 0x23D, -163, 1},
    {0x241, 0x241, 1, 1},
    {0x243, 0x243, -195, 1},
    {0x244, 0x244, 69, 1},
    {0x245, 0x245, 71, 1},
    {0x246, 0x24E, 1, 2},
    // Greek
    {0x370, 0x372, 1, 2},
    {0x376, 0x376, 1, 1},
    {0x37F, 0x37F, 116, 1},
    {0x386, 0x386, 38, 1},
    {0x388, 0x38A, 37, 1},
    {0x38C, 0x38C, 64, 1},
    {0x38E, 0x38F, 63, 1},
    {0x391, 0x3A1, 32, 1},
    {0x3A3, 0x3AB, 32, 1},
    {0x3CF, 0x3CF, 8, 1},
    {0x3D8, 0x3EE, 1, 2},
    {0x3F7, 0x3F7, 1, 1},
    {0x3F9, 0x3F9, -7, 1},
    {0x3FA, 0x3FA, 1, 1},
    {0x3FD, 0x3FF, -130, 1},
    // Cyrillic, Armenian
    {0x400, 0x40F, 80, 1},
    {0x410, 0x42F, 32, 1},
    {0x460, 0x480, 1, 2},
    {0x48A, 0x4BE, 1, 2},
    {0x4C0, 0x4C0, 15, 1},
    {0x4C1, 0x4CD, 1, 2},
    {0x4D0, 0x52E, 1, 2},
    {0x531, 0x556, 48, 1},
    // Latin Extended Additional
    {0x1E00, 0x1E94, 1, 2},
    {0x1EA0, 0x1EFE, 1, 2},
    // Greek Extended
    {0x1F08, 0x1F0F, -8, 1},
    {0x1F18, 0x1F1D, -8, 1},
    {0x1F28, 0x1F2F, -8, 1},
    {0x1F38, 0x1F3F, -8, 1},
    {0x1F48, 0x1F4D, -8, 1},
    {0x1F59, 0x1F5F, -8, 2},
    {0x1F68, 0x1F6F, -8, 1},
    {0x1F88, 0x1F8F, -8, 1},
    {0x1F98, 0x1F9F, -8, 1},
    {0x1FA8, 0x1FAF, -8, 1},
    {0x1FB8, 0x1FB9, -8, 1},
    {0x1FBA, 0x1FBB, -74, 1},
    {0x1FBC, 0x1FBC, -9, 1},
    {0x1FC8, 0x1FCB, -86, 1},
    {0x1FCC, 0x1FCC, -9, 1},
    {0x1FD8, 0x1FD9, -8, 1},
    {0x1FDA, 0x1FDB, -100, 1},
    {0x1FE8, 0x1FE9, -8, 1},
    {0x1FEA, 0x1FEB, -112, 1},
    {0x1FEC, 0x1FEC, -7, 1},
    {0x1FF8, 0x1FF9, -128, 1},
    {0x1FFA, 0x1FFB, -126, 1},
    {0x1FFC, 0x1FFC, -9, 1}};

// One-way mappings: letters whose other case goes back to another letter.
struct CasePair {
  uint16_t from, to;
};
constexpr CasePair kOnlyUpper[] = {{0xB5, 0x39C},    {0x131, 0x49},  {0x17F, 0x53},  {0x1C5, 0x1C4}, {0x1C8, 0x1C7},
                                   {0x1CB, 0x1CA},   {0x1F2, 0x1F1}, {0x3C2, 0x3A3}, {0x3D0, 0x392}, {0x3D1, 0x398},
                                   {0x3D5, 0x3A6},   {0x3D6, 0x3A0}, {0x3F0, 0x39A}, {0x3F1, 0x3A1}, {0x3F5, 0x395},
                                   {0x1E9B, 0x1E60}, {0x1FBE, 0x399}};
constexpr CasePair kOnlyLower[] = {{0x130, 0x69},  {0x1C5, 0x1C6}, {0x1C8, 0x1C9},  {0x1CB, 0x1CC}, {0x1F2, 0x1F3},
                                   {0x3F4, 0x3B8}, {0x1E9E, 0xDF}, {0x2126, 0x3C9}, {0x212A, 0x6B}, {0x212B, 0xE5}};

int32_t Mapped(std::span<const CasePair> pairs, int32_t c) {
  const auto it = std::find_if(pairs.begin(), pairs.end(), [&](const CasePair& p) { return p.from == c; });
  return it == pairs.end() ? c : it->to;
}

// Whether a capital lies in a range.
bool Holds(const CaseRange& r, int32_t capital) {
  return capital >= r.first && capital <= r.last && (capital - r.first) % r.step == 0;
}

}  // namespace

int32_t NextCodePoint(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  const int32_t lead = byte(at++);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  constexpr int32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
  int32_t c = lead & (0x3F >> more);
  for (int i = 0; i < more; ++i) {
    const int32_t next = byte(at + static_cast<size_t>(i));
    if ((next & 0xC0) != 0x80) return -1;
    c = c << 6 | (next & 0x3F);
  }
  const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
  if (lead < 0xC0 || lead > 0xF7 || c < kSmallest[more] || c > 0x10FFFF || surrogate) return -1;
  at += static_cast<size_t>(more);
  return c;
}

bool IsWhiteSpace(int32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

int32_t ToLower(int32_t c) {
  for (const CaseRange& r : kCaseRanges) {
    if (Holds(r, c)) return c + r.delta;
  }
  return Mapped(kOnlyLower, c);
}

int32_t ToUpper(int32_t c) {
  for (const CaseRange& r : kCaseRanges) {
    if (Holds(r, c - r.delta)) return c - r.delta;
  }
  return Mapped(kOnlyUpper, c);
}

std::optional<std::string> MapCodePoints(std::string_view text, int32_t (*map)(int32_t)) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    int32_t c = NextCodePoint(text, at);
    if (c < 0) return std::nullopt;
    c = map(c);
    if (c < 0x80) {
      out += static_cast<char>(c);
      continue;
    }
    const int more = c >= 0x10000 ? 3 : c >= 0x800 ? 2 : 1;
    constexpr int32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(kLead[more] | c >> (6 * more));
    for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F));
  }
  return out;
}

}  // namespace quern
