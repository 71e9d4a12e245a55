// Regular expressions in the syntax of RE2, matched against whole texts in time linear in their length.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/common/code_points.h"

namespace quern {

class Regex {
 public:
  // Everything of RE2's default syntax but what needs the Unicode database (\pN, \p{Greek}; kUnsupported) or single
  // bytes
  // (\C; kUnsupported). (?i) follows ToLower and ToUpper of ops/common/unicode.h. kInvalidArgument for what is no
  // expression, kResourceExhausted for one too large.
  static Result<Regex> Compile(std::string_view pattern);

  // Whether the expression matches all of `text`. Bytes that are no UTF-8 match nothing.
  bool MatchesAll(std::string_view text) const;

 private:
  friend class RegexCompiler;

  enum class Condition : uint8_t {
    kTextBegin,
    kTextEnd,
    kLineBegin,
    kLineEnd,
    kWordBoundary,
    kNoWordBoundary,
  };
  enum class Kind : uint8_t { kMatch, kRanges, kCondition, kSplit };
  // A state of the automaton; it goes on to `next`, a split also to `other`.
  struct State {
    Kind kind;
    Condition condition = {};                   // of kCondition
    int32_t next = -1, other = -1;              // -1: none
    uint32_t ranges_begin = 0, ranges_end = 0;  // of kRanges, in ranges_: sorted, apart from one another
  };
  struct Position;
  class Threads;
  static bool IsWordByte(int32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  }
  bool Holds(Condition condition, const Position& at) const;
  bool Takes(const State& state, int32_t code_point) const;

  std::vector<State> states_;
  CodePoints ranges_;
  int32_t start_ = 0;
};

}  // namespace quern
