// The reader of what Dim::ToString writes.
#include <charconv>

#include "graph/dim.h"

namespace quern {
namespace {

constexpr int kMaxDepth = 64;

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '?';
}

struct Function {
  const char* name;
  Dim (*apply)(const Dim& a, const Dim& b);
};
constexpr Function kFunctions[] = {{"floordiv", Dim::FloorDiv}, {"ceildiv", Dim::CeilDiv},
                                   {"mod", Dim::Mod},           {"max", Dim::Max},
                                   {"min", Dim::Min},           {"broadcast", Dim::Broadcast}};

// expression := ["-"] term (("+" | "-") term)*;  term := factor ("*" factor)*
// factor := number | name | function "(" expression "," expression ")" | "(" expression ")"
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Result<Dim> Parse() {
    QUERN_ASSIGN_OR_RETURN(Dim d, Expression(0));
    SkipSpace();
    if (at_ != text_.size()) return Error("unexpected text");
    return d;
  }

 private:
  Status Error(const std::string& what) const {
    return InvalidArgument("extent '" + std::string(text_.substr(0, 100)) + "': " + what + " at column " +
                           std::to_string(at_ + 1));
  }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<Dim> Expression(int depth) {
    if (depth > kMaxDepth) return Error("nested too deeply");
    bool negative = Take('-');
    Dim sum = 0;
    for (;;) {
      QUERN_ASSIGN_OR_RETURN(Dim t, ProductOf(negative, depth));
      sum = sum + t;
      if (Take('+')) {
        negative = false;
      } else if (Take('-')) {
        negative = true;
      } else {
        return sum;
      }
    }
  }

  Result<Dim> ProductOf(bool negative, int depth) {
    SkipSpace();
    // A minus belongs to the number after it: the smallest number has no positive counterpart.
    const bool number = at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9';
    QUERN_ASSIGN_OR_RETURN(Dim product, Factor(negative && number, depth));
    if (negative && !number) product = Dim(0) - product;
    while (Take('*')) {
      QUERN_ASSIGN_OR_RETURN(Dim f, Factor(false, depth));
      product = product * f;
    }
    return product;
  }

  Result<Dim> Factor(bool negative, int depth) {
    SkipSpace();
    if (at_ >= text_.size()) return Error("a number or name is missing");
    const char c = text_[at_];
    if (c >= '0' && c <= '9') {
      uint64_t magnitude = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), magnitude);
      if (error != std::errc() || magnitude > (uint64_t{1} << 63) - !negative) return Error("the number is too large");
      at_ = static_cast<size_t>(end - text_.data());
      if (at_ < text_.size() && IsNameChar(text_[at_])) return Error("unexpected text");
      return Dim(static_cast<int64_t>(negative ? uint64_t{0} - magnitude : magnitude));
    }
    if (c == '(') {
      ++at_;
      QUERN_ASSIGN_OR_RETURN(Dim d, Expression(depth + 1));
      if (!Take(')')) return Error("expected ')'");
      return d;
    }
    if (c == '"') return Quoted();
    const size_t begin = at_;
    while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
    if (at_ == begin) return Error("a number or name is missing");
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (at_ < text_.size() && text_[at_] == '(') {
      for (const Function& function : kFunctions) {
        if (name != function.name) continue;
        ++at_;
        QUERN_ASSIGN_OR_RETURN(Dim a, Expression(depth + 1));
        if (!Take(',')) return Error("expected ','");
        QUERN_ASSIGN_OR_RETURN(Dim b, Expression(depth + 1));
        if (!Take(')')) return Error("expected ')'");
        return function.apply(a, b);
      }
      return Error("unknown function '" + std::string(name) + "'");
    }
    return Dim::Symbol(name);
  }

  static int HexDigit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  }

  Result<Dim> Quoted() {
    std::string name;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        name += text_[at_];
        continue;
      }
      if (++at_ >= text_.size()) break;
      if (text_[at_] == '"' || text_[at_] == '\\') {
        name += text_[at_];
      } else if (text_[at_] == 'x' && at_ + 2 < text_.size() && HexDigit(text_[at_ + 1]) >= 0 &&
                 HexDigit(text_[at_ + 2]) >= 0) {
        name += static_cast<char>(HexDigit(text_[at_ + 1]) * 16 + HexDigit(text_[at_ + 2]));
        at_ += 2;
      } else {
        return Error("unknown escape");
      }
    }
    if (at_ >= text_.size()) return Error("expected '\"'");
    ++at_;
    return Dim::Symbol(name);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Dim> Dim::Parse(std::string_view text) { return DimParser(text).Parse(); }

}  // namespace quern
