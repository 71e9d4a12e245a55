// UTF-8 text: decoding, white space, and the case of letters, the same on every machine and for every locale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern {

// The code point at byte `at`, which moves behind it; when the bytes there are no UTF-8, -1, and `at` moves by one.
int32_t NextCodePoint(std::string_view text, size_t& at);

// Unicode's White_Space property.
bool IsWhiteSpace(int32_t code_point);

// Unicode's simple mappings (one code point to one) of the Latin, Greek, Cyrillic and Armenian letters below kCaseEnd;
// others stay as they are.
inline constexpr int32_t kCaseEnd = 0x2130;
int32_t ToLower(int32_t code_point);
int32_t ToUpper(int32_t code_point);

// `text` with each code point mapped; nothing when it is no UTF-8.
std::optional<std::string> MapCodePoints(std::string_view text, int32_t (*map)(int32_t));

}  // namespace quern
