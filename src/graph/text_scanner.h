// TextScanner: words, names, strings and numbers of the text form, with positions for errors. Private to text_parse.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace quern {

class TextScanner {
 public:
  explicit TextScanner(std::string_view text) : text_(text) {}

  // "line:column: what", for the place that was reached.
  Status Error(const std::string& what) const { return ErrorAt(at_, what); }
  Status ErrorAt(size_t at, const std::string& what) const;
  size_t position() {
    SkipSpace();
    return at_;
  }

  // Each skips white space and comments (// to the end of the line) first.
  bool AtEnd();
  char Peek();  // '\0' at the end
  bool Take(std::string_view token);
  Status Expect(std::string_view token);
  bool PeekWord(std::string_view word);
  bool TakeWord(std::string_view word);
  // [A-Za-z_][A-Za-z0-9_.]*; empty when there is none.
  std::string_view Word();
  // A word or a quoted string.
  Result<std::string> WordOrString();
  // After "%" or "@": a plain or quoted name.
  Result<std::string> Name();
  Result<std::string> String();
  // A run of the characters that numbers are made of, "nan" and "inf" included; empty when there is none.
  std::string_view Number();
  Result<int64_t> Int();
  Result<float> Float();
  // Parse a token that Number() gave; `at` is its position.
  Result<int64_t> ToInt(std::string_view token, size_t at) const;
  Result<uint64_t> ToUnsigned(std::string_view token, size_t at) const;
  // Floats of all widths; a NaN may be followed by its bits in parentheses: nan(0x7fc00001).
  template <typename T, typename Bits>
  Result<Bits> FloatBits(std::string_view token, size_t at);
  // The text between "[" (already taken) and its "]".
  Result<std::string_view> UntilBracket();

 private:
  void SkipSpace();
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace quern
