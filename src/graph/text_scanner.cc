#include "graph/text_scanner.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

namespace quern {
namespace {

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}
bool IsNameChar(char c) { return IsWordChar(c) || c == '/' || c == '$' || c == '-'; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Status TextScanner::ErrorAt(size_t at, const std::string& what) const {
  const std::string_view before = text_.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? at + 1 : at - newline;
  return Corrupt(std::to_string(line) + ":" + std::to_string(column) + ": " + what);
}

void TextScanner::SkipSpace() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at_;
    } else if (text_.substr(at_).starts_with("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

bool TextScanner::AtEnd() { return position() == text_.size(); }
char TextScanner::Peek() { return AtEnd() ? '\0' : text_[at_]; }

bool TextScanner::Take(std::string_view token) {
  SkipSpace();
  if (!text_.substr(at_).starts_with(token)) return false;
  at_ += token.size();
  return true;
}

Status TextScanner::Expect(std::string_view token) {
  if (Take(token)) return OkStatus();
  return Error("expected '" + std::string(token) + "'");
}

bool TextScanner::PeekWord(std::string_view word) {
  const size_t begin = position();
  const std::string_view found = Word();
  at_ = begin;
  return found == word;
}

bool TextScanner::TakeWord(std::string_view word) {
  if (!PeekWord(word)) return false;
  at_ += word.size();
  return true;
}

std::string_view TextScanner::Word() {
  SkipSpace();
  const size_t begin = at_;
  if (at_ < text_.size() && !(text_[at_] >= '0' && text_[at_] <= '9') && text_[at_] != '.') {
    while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
  }
  return text_.substr(begin, at_ - begin);
}

Result<std::string> TextScanner::WordOrString() {
  if (Peek() == '"') return String();
  const std::string_view word = Word();
  if (word.empty()) return Error("expected a name");
  return std::string(word);
}

Result<std::string> TextScanner::Name() {
  if (at_ < text_.size() && text_[at_] == '"') return String();
  const size_t begin = at_;
  while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
  if (at_ == begin) return Error("expected a name");
  return std::string(text_.substr(begin, at_ - begin));
}

Result<std::string> TextScanner::String() {
  const size_t begin = position();
  if (!Take("\"")) return Error("expected a string");
  std::string s;
  for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
    char c = text_[at_];
    if (c == '\n') break;
    if (c == '\\') {
      c = ++at_ < text_.size() ? text_[at_] : '\0';
      if (c == 'n') {
        c = '\n';
      } else if (c == 't') {
        c = '\t';
      } else if (c == 'x') {
        const int high = at_ + 2 < text_.size() ? HexDigit(text_[at_ + 1]) : -1;
        const int low = at_ + 2 < text_.size() ? HexDigit(text_[at_ + 2]) : -1;
        if (high < 0 || low < 0) return Error("expected two hexadecimal digits");
        c = static_cast<char>(high * 16 + low);
        at_ += 2;
      } else if (c != '"' && c != '\\') {
        return Error("unknown escape");
      }
    }
    s += c;
  }
  if (at_ >= text_.size() || text_[at_] != '"') return ErrorAt(begin, "the string has no end");
  ++at_;
  return s;
}

std::string_view TextScanner::Number() {
  SkipSpace();
  const size_t begin = at_;
  while (at_ < text_.size() && (IsWordChar(text_[at_]) || text_[at_] == '+' || text_[at_] == '-')) ++at_;
  return text_.substr(begin, at_ - begin);
}

Result<int64_t> TextScanner::ToInt(std::string_view token, size_t at) const {
  int64_t x = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), x);
  if (error == std::errc::result_out_of_range) return ErrorAt(at, "the integer is out of range");
  if (token.empty() || error != std::errc() || end != token.data() + token.size()) {
    return ErrorAt(at, "expected an integer");
  }
  return x;
}

Result<uint64_t> TextScanner::ToUnsigned(std::string_view token, size_t at) const {
  uint64_t x = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), x);
  if (error == std::errc::result_out_of_range) return ErrorAt(at, "the integer is out of range");
  if (token.empty() || error != std::errc() || end != token.data() + token.size()) {
    return ErrorAt(at, "expected a non-negative integer");
  }
  return x;
}

Result<int64_t> TextScanner::Int() {
  const size_t at = position();
  return ToInt(Number(), at);
}

Result<float> TextScanner::Float() {
  const size_t at = position();
  QUERN_ASSIGN_OR_RETURN(const uint32_t bits, (FloatBits<float, uint32_t>(Number(), at)));
  return std::bit_cast<float>(bits);
}

template <typename T, typename Bits>
Result<Bits> TextScanner::FloatBits(std::string_view token, size_t at) {
  static_assert(sizeof(T) == sizeof(Bits));
  if (token == "nan") {
    if (at_ >= text_.size() || text_[at_] != '(') {
      return std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN());
    }
    ++at_;
    QUERN_RETURN_IF_ERROR(Expect("0x"));
    Bits bits = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), bits, 16);
    if (error != std::errc() || !std::isnan(std::bit_cast<T>(bits))) return Error("expected the bits of a NaN");
    at_ = static_cast<size_t>(end - text_.data());
    QUERN_RETURN_IF_ERROR(Expect(")"));
    return bits;
  }
  T x = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), x);
  if (error == std::errc::result_out_of_range) return ErrorAt(at, "the number is out of range");
  if (token.empty() || error != std::errc() || end != token.data() + token.size() || std::isnan(x)) {
    return ErrorAt(at, "expected a number");
  }
  return std::bit_cast<Bits>(x);
}
template Result<uint32_t> TextScanner::FloatBits<float, uint32_t>(std::string_view, size_t);
template Result<uint64_t> TextScanner::FloatBits<double, uint64_t>(std::string_view, size_t);

Result<std::string_view> TextScanner::UntilBracket() {
  const size_t begin = at_;
  bool quoted = false;
  for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
    const char c = text_[at_];
    if (quoted && c == '\\') {
      ++at_;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ']' && !quoted) {
      return text_.substr(begin, at_++ - begin);
    }
  }
  at_ = std::min(at_, text_.size());
  return ErrorAt(begin, "expected ']'");
}

}  // namespace quern
