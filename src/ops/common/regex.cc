#include "ops/common/regex.h"

#include <algorithm>

#include "ops/common/unicode.h"

namespace quern {

// A place between two code points: what stands on either side, -1 at the ends of the text.
struct Regex::Position {
  int32_t before, after;
};

// States that are active at one position, each once.
class Regex::Threads {
 public:
  explicit Threads(size_t states) : seen_(states) {}
  const std::vector<int32_t>& active() const { return active_; }
  void Clear() {
    for (int32_t s : visited_) seen_[static_cast<size_t>(s)] = false;
    visited_.clear();
    active_.clear();
  }
  // Adds a state and all that follow from it without a code point.
  void Add(const Regex& regex, int32_t state, const Position& at) {
    pending_.push_back(state);
    while (!pending_.empty()) {
      const int32_t s = pending_.back();
      pending_.pop_back();
      if (s < 0 || seen_[static_cast<size_t>(s)]) continue;
      seen_[static_cast<size_t>(s)] = true;
      visited_.push_back(s);
      const State& state_of = regex.states_[static_cast<size_t>(s)];
      switch (state_of.kind) {
        case Kind::kSplit:
          pending_.push_back(state_of.next);
          pending_.push_back(state_of.other);
          break;
        case Kind::kCondition:
          if (regex.Holds(state_of.condition, at)) pending_.push_back(state_of.next);
          break;
        default:
          active_.push_back(s);
      }
    }
  }

 private:
  std::vector<bool> seen_;
  std::vector<int32_t> visited_, active_, pending_;
};

bool Regex::Holds(Condition condition, const Position& at) const {
  switch (condition) {
    case Condition::kTextBegin:
      return at.before < 0;
    case Condition::kTextEnd:
      return at.after < 0;
    case Condition::kLineBegin:
      return at.before < 0 || at.before == '\n';
    case Condition::kLineEnd:
      return at.after < 0 || at.after == '\n';
    case Condition::kWordBoundary:
      return IsWordByte(at.before) != IsWordByte(at.after);
    case Condition::kNoWordBoundary:
      return IsWordByte(at.before) == IsWordByte(at.after);
  }
  return false;
}

bool Regex::Takes(const State& state, int32_t c) const {
  const auto begin = ranges_.begin() + state.ranges_begin, end = ranges_.begin() + state.ranges_end;
  const auto after = std::upper_bound(begin, end, c, [](int32_t x, const auto& r) { return x < r.first; });
  return after != begin && c <= std::prev(after)->last;
}

bool Regex::MatchesAll(std::string_view text) const {
  Threads now(states_.size()), then(states_.size());
  size_t at = 0;
  const auto next_code_point = [&] { return at < text.size() ? NextCodePoint(text, at) : -1; };
  const auto valid = [&](int32_t c, size_t before) { return c >= 0 || before == text.size(); };
  size_t before = at;
  Position place{-1, next_code_point()};
  if (!valid(place.after, before)) return false;
  now.Add(*this, start_, place);
  while (place.after >= 0) {
    const int32_t c = place.after;
    before = at;
    place = {c, next_code_point()};
    if (!valid(place.after, before)) return false;
    then.Clear();
    for (int32_t s : now.active()) {
      const State& state = states_[static_cast<size_t>(s)];
      if (state.kind == Kind::kRanges && Takes(state, c)) then.Add(*this, state.next, place);
    }
    if (then.active().empty()) return false;
    std::swap(now, then);
  }
  return std::any_of(now.active().begin(), now.active().end(),
                     [&](int32_t s) { return states_[static_cast<size_t>(s)].kind == Kind::kMatch; });
}

}  // namespace quern
