// From a pattern to the automaton of a Regex.
#include "ops/common/regex.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "ops/common/code_points.h"
#include "ops/common/unicode.h"

namespace quern {
namespace {

constexpr int kMaxRepeat = 1000;        // of {n,m}, as in RE2
constexpr int kMaxNesting = 200;        // of groups: they are parsed and compiled by recursion
constexpr size_t kMaxStates = 1 << 18;  // what nested repetitions may grow to

}  // namespace

// Parses a pattern into a tree and turns that into states, from the end of the pattern to its beginning.
class RegexCompiler {
 public:
  explicit RegexCompiler(std::string_view pattern) : pattern_(pattern), rest_(pattern) {}

  Result<Regex> Compile() {
    for (size_t at = 0; at < pattern_.size();) {
      if (NextCodePoint(pattern_, at) < 0) return InvalidArgument("the pattern is no UTF-8");
    }
    QUERN_ASSIGN_OR_RETURN(const NodePtr tree, ParseAlternatives(0));
    if (!rest_.empty()) return Wrong("unexpected )");
    const int32_t match = AddState({.kind = Regex::Kind::kMatch});
    regex_.start_ = Emit(*tree, match);
    if (regex_.states_.size() > kMaxStates) {
      return ResourceExhausted("pattern '" + std::string(pattern_) +
                               "' is too large when its repetitions are written out");
    }
    return std::move(regex_);
  }

 private:
  using Condition = Regex::Condition;

  struct Flags {
    bool ignore_case = false, multi_line = false, dot_takes_newline = false;
  };
  struct Node;
  using NodePtr = std::unique_ptr<Node>;
  struct Node {
    enum class Kind { kSequence, kAlternatives, kRepeat, kRanges, kCondition } kind;
    std::vector<NodePtr> children = {};
    uint32_t ranges_begin = 0, ranges_end = 0;  // of kRanges
    Condition condition = Condition::kTextBegin;
    int min = 0, max = -1;  // of kRepeat; max -1: no end
  };

  Status Wrong(const std::string& why) const {
    return InvalidArgument("pattern '" + std::string(pattern_) + "' is not valid at byte " +
                           std::to_string(pattern_.size() - rest_.size()) + ": " + why);
  }
  Status NotSupported(const std::string& what) const {
    return Unsupported("pattern '" + std::string(pattern_) + "': " + what + " is not supported");
  }

  bool Take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  int32_t TakeCodePoint() {
    size_t at = 0;
    const int32_t c = NextCodePoint(rest_, at);
    rest_.remove_prefix(at);
    return c;
  }

  // A class, or what is outside of it.
  CodePoints Class(CodePoints set, bool inverse) const {
    if (flags_.ignore_case) AddCaseForms(set);
    if (inverse) return Inverse(std::move(set));
    Normalize(set);
    return set;
  }

  // \d and the like; nothing when the escape is another one, which then stays.
  std::optional<CodePoints> TakePerlClass() {
    if (rest_.size() < 2 || rest_[0] != '\\') return std::nullopt;
    const char small = static_cast<char>(rest_[1] | 0x20);
    if (small != 'd' && small != 's' && small != 'w') return std::nullopt;
    const bool inverse = rest_[1] != small;
    rest_.remove_prefix(2);
    if (small == 's') return Class({{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}, inverse);  // not \v
    return Class(*FindClass(small == 'd' ? "digit" : "word"), inverse);
  }

  // [:alpha:], [:^alpha:] and the like, which stand inside brackets and go up to `end`.
  Result<CodePoints> TakeNamedClass(size_t end) {
    std::string_view name = rest_.substr(2, end - 2);
    const bool inverse = name.starts_with("^");
    if (inverse) name.remove_prefix(1);
    std::optional<CodePoints> set = FindClass(name);
    if (!set) return Wrong("no class has this name");
    rest_.remove_prefix(end + 2);
    return Class(*std::move(set), inverse);
  }

  // The code point of an escape such as \n, \x41, \., whose backslash comes first.
  Result<int32_t> TakeEscape() {
    rest_.remove_prefix(1);
    if (rest_.empty()) return Wrong("nothing follows \\");
    const auto is_octal = [&] { return !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '7'; };
    const int32_t c = TakeCodePoint();
    switch (c) {
      case 'a':
        return 0x07;
      case 'f':
        return 0x0C;
      case 'n':
        return 0x0A;
      case 'r':
        return 0x0D;
      case 't':
        return 0x09;
      case 'v':
        return 0x0B;
      case 'x':
        return TakeHex();
      case 'C':
        return NotSupported("\\C");
      case 'p':
      case 'P':
        return NotSupported("a class of Unicode's database (\\p)");
      default:
        break;
    }
    if (c >= '0' && c <= '7') {
      if (c != '0' && !is_octal()) return Wrong("\\" + std::string(1, static_cast<char>(c)) + " is no escape");
      int32_t value = c - '0';
      for (int i = 0; i < 2 && is_octal(); ++i) value = value * 8 + (TakeCodePoint() - '0');
      return value;
    }
    if (c < 0x80 && (c == '_' || !Regex::IsWordByte(c))) return c;
    return Wrong("no such escape");
  }

  Result<int32_t> TakeHex() {
    const auto digit = [&]() -> int32_t {
      const int32_t c = rest_.empty() ? -1 : TakeCodePoint();
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'a' && c <= 'f') return c - 'a' + 10;
      if (c >= 'A' && c <= 'F') return c - 'A' + 10;
      return -1;
    };
    int32_t value = 0;
    if (!Take("{")) {
      for (int i = 0; i < 2; ++i) {
        const int32_t d = digit();
        if (d < 0) return Wrong("\\x needs two hexadecimal digits");
        value = value * 16 + d;
      }
      return value;
    }
    do {
      const int32_t d = digit();
      value = value * 16 + d;
      if (d < 0 || value > kLastCodePoint) return Wrong("\\x{...} needs the number of a code point");
    } while (!Take("}"));
    return value;
  }

  // What stands between [ and ], which has been taken.
  Result<CodePoints> ParseBrackets() {
    const bool inverse = Take("^");
    CodePoints ranges;
    for (bool first = true; first || !rest_.starts_with("]"); first = false) {
      if (rest_.empty()) return Wrong("] is missing");
      CodePoints added;
      const size_t name_end = rest_.starts_with("[:") ? rest_.find(":]", 2) : std::string_view::npos;
      if (name_end != std::string_view::npos) {
        QUERN_ASSIGN_OR_RETURN(added, TakeNamedClass(name_end));
      } else if (std::optional<CodePoints> perl = TakePerlClass()) {
        added = *std::move(perl);
      } else {
        QUERN_ASSIGN_OR_RETURN(const int32_t low, TakeBracketed());
        int32_t high = low;
        if (rest_.starts_with("-") && !rest_.starts_with("-]") && rest_.size() > 1) {
          rest_.remove_prefix(1);
          QUERN_ASSIGN_OR_RETURN(high, TakeBracketed());
          if (high < low) return Wrong("a range in brackets runs backwards");
        }
        added = {{low, high}};
      }
      ranges.insert(ranges.end(), added.begin(), added.end());
    }
    rest_.remove_prefix(1);
    return Class(std::move(ranges), inverse);
  }
  Result<int32_t> TakeBracketed() {
    if (rest_.empty()) return Wrong("] is missing");
    if (rest_[0] == '\\') return TakeEscape();
    return TakeCodePoint();
  }

  // --- the tree ---

  static NodePtr Make(Node::Kind kind) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    return node;
  }
  NodePtr OfRanges(const CodePoints& ranges) {
    NodePtr node = Make(Node::Kind::kRanges);
    node->ranges_begin = static_cast<uint32_t>(regex_.ranges_.size());
    regex_.ranges_.insert(regex_.ranges_.end(), ranges.begin(), ranges.end());
    node->ranges_end = static_cast<uint32_t>(regex_.ranges_.size());
    return node;
  }
  static NodePtr OfCondition(Condition condition) {
    NodePtr node = Make(Node::Kind::kCondition);
    node->condition = condition;
    return node;
  }
  NodePtr OfCodePoint(int32_t c) {
    CodePoints ranges = {{c, c}};
    if (flags_.ignore_case) AddCaseForms(ranges, c);
    Normalize(ranges);
    return OfRanges(ranges);
  }

  // a|b|c up to ) or the end; flags that change inside hold until then.
  Result<NodePtr> ParseAlternatives(int depth) {
    if (depth > kMaxNesting) return ResourceExhausted("the pattern nests groups too deeply");
    const Flags outside = flags_;
    NodePtr alternatives = Make(Node::Kind::kAlternatives);
    do {
      QUERN_ASSIGN_OR_RETURN(NodePtr sequence, ParseSequence(depth));
      alternatives->children.push_back(std::move(sequence));
    } while (Take("|"));
    flags_ = outside;
    return alternatives;
  }

  Result<NodePtr> ParseSequence(int depth) {
    NodePtr sequence = Make(Node::Kind::kSequence);
    bool repeatable = false, repeated = false;  // of the last child: whether it may be repeated, whether it just was
    while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
      int min = 0, max = -1;
      if (TakeRepetition(min, max)) {
        if (repeated) return Wrong("a repetition of a repetition");
        if (!repeatable) return Wrong("a repetition of nothing");
        if (min > kMaxRepeat || max > kMaxRepeat || (max >= 0 && max < min)) return Wrong("no such repetition");
        Take("?");  // prefers fewer, which makes no difference to whether all of a text matches
        NodePtr repeat = Make(Node::Kind::kRepeat);
        repeat->min = min;
        repeat->max = max;
        repeat->children.push_back(std::move(sequence->children.back()));
        sequence->children.back() = std::move(repeat);
        repeatable = false;
        repeated = true;
        continue;
      }
      repeated = false;
      QUERN_RETURN_IF_ERROR(ParseOne(depth, *sequence));
      repeatable = !sequence->children.empty();
    }
    return sequence;
  }

  // *, +, ?, {n}, {n,}, {n,m}; a brace that starts none of these stands for itself.
  bool TakeRepetition(int& min, int& max) {
    for (const auto& [token, low, high] : {std::tuple("*", 0, -1), std::tuple("+", 1, -1), std::tuple("?", 0, 1)}) {
      if (!Take(token)) continue;
      min = low;
      max = high;
      return true;
    }
    const std::string_view before = rest_;
    if (!Take("{")) return false;
    const auto number = [&](int& value) {
      size_t digits = 0;
      for (value = 0; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
        value = std::min(value * 10 + (rest_[digits] - '0'), kMaxRepeat + 1);
      }
      rest_.remove_prefix(digits);
      return digits > 0;
    };
    bool fits = number(min);
    if (fits && Take(",")) {
      if (!number(max)) max = -1;
    } else {
      max = min;
    }
    fits = fits && Take("}");
    if (!fits) rest_ = before;
    return fits;
  }

  // One item of a sequence; (?i) and the like add none, \Q...\E any number.
  Status ParseOne(int depth, Node& sequence) {
    const auto add = [&](NodePtr node) {
      sequence.children.push_back(std::move(node));
      return OkStatus();
    };
    if (Take("(?")) return ParsePerlGroup(depth, sequence);
    if (Take("(")) return ParseGroup(depth, sequence);
    if (Take("[")) {
      QUERN_ASSIGN_OR_RETURN(CodePoints ranges, ParseBrackets());
      return add(OfRanges(std::move(ranges)));
    }
    if (Take(".")) return add(OfRanges(flags_.dot_takes_newline ? Inverse({}) : Inverse({{'\n', '\n'}})));
    if (Take("^")) return add(OfCondition(flags_.multi_line ? Condition::kLineBegin : Condition::kTextBegin));
    if (Take("$")) return add(OfCondition(flags_.multi_line ? Condition::kLineEnd : Condition::kTextEnd));
    if (Take("\\A")) return add(OfCondition(Condition::kTextBegin));
    if (Take("\\z")) return add(OfCondition(Condition::kTextEnd));
    if (Take("\\b")) return add(OfCondition(Condition::kWordBoundary));
    if (Take("\\B")) return add(OfCondition(Condition::kNoWordBoundary));
    if (Take("\\Q")) {
      while (!rest_.empty() && !Take("\\E")) QUERN_RETURN_IF_ERROR(add(OfCodePoint(TakeCodePoint())));
      return OkStatus();
    }
    if (std::optional<CodePoints> perl = TakePerlClass()) return add(OfRanges(*std::move(perl)));
    if (rest_[0] == '\\') {
      QUERN_ASSIGN_OR_RETURN(const int32_t c, TakeEscape());
      return add(OfCodePoint(c));
    }
    return add(OfCodePoint(TakeCodePoint()));
  }

  Status ParseGroup(int depth, Node& sequence) {
    QUERN_ASSIGN_OR_RETURN(NodePtr group, ParseAlternatives(depth + 1));
    if (!Take(")")) return Wrong(") is missing");
    sequence.children.push_back(std::move(group));
    return OkStatus();
  }

  // (?:re), (?P<name>re), (?<name>re), (?flags), (?flags:re), whose (? has been taken.
  Status ParsePerlGroup(int depth, Node& sequence) {
    if (Take("P<") || Take("<")) {
      const size_t end = rest_.find('>');
      const std::string name(rest_.substr(0, end));
      const bool word = !name.empty() && std::all_of(name.begin(), name.end(), Regex::IsWordByte);
      if (end == std::string_view::npos || !word) return Wrong("a group has no name of letters, digits and _");
      if (!names_.insert(name).second) return Wrong("two groups have the name " + name);
      rest_.remove_prefix(end + 1);
      return ParseGroup(depth, sequence);
    }
    const Flags outside = flags_;
    Flags inside = flags_;
    bool value = true, any = true;
    for (;;) {
      if (Take("i")) {
        inside.ignore_case = value;
      } else if (Take("m")) {
        inside.multi_line = value;
      } else if (Take("s")) {
        inside.dot_takes_newline = value;
      } else if (Take("U")) {  // swaps greedy and lazy, which makes no difference here
      } else if (value && Take("-")) {
        value = any = false;
        continue;
      } else {
        break;
      }
      any = true;
    }
    if (!any || rest_.empty()) return Wrong("no such group");
    flags_ = inside;
    if (Take(")")) return OkStatus();
    if (!Take(":")) return Wrong("no such group");
    QUERN_RETURN_IF_ERROR(ParseGroup(depth, sequence));
    flags_ = outside;
    return OkStatus();
  }

  // --- the states ---

  int32_t AddState(Regex::State state) {
    if (regex_.states_.size() <= kMaxStates) regex_.states_.push_back(state);
    return static_cast<int32_t>(regex_.states_.size()) - 1;
  }

  // The first state of `node`, which goes on to `next`.
  int32_t Emit(const Node& node, int32_t next) {
    switch (node.kind) {
      case Node::Kind::kSequence:
        for (size_t i = node.children.size(); i-- > 0;) next = Emit(*node.children[i], next);
        return next;
      case Node::Kind::kAlternatives: {
        int32_t first = Emit(*node.children.back(), next);
        for (size_t i = node.children.size() - 1; i-- > 0;) first = AddSplit(Emit(*node.children[i], next), first);
        return first;
      }
      case Node::Kind::kRepeat:
        return EmitRepeat(node, next);
      case Node::Kind::kRanges:
        return AddState({.kind = Regex::Kind::kRanges,
                         .next = next,
                         .ranges_begin = node.ranges_begin,
                         .ranges_end = node.ranges_end});
      case Node::Kind::kCondition:
        return AddState({.kind = Regex::Kind::kCondition, .condition = node.condition, .next = next});
    }
    return next;
  }
  int32_t AddSplit(int32_t next, int32_t other) {
    return AddState({.kind = Regex::Kind::kSplit, .next = next, .other = other});
  }
  int32_t EmitRepeat(const Node& node, int32_t next) {
    const Node& body = *node.children.front();
    if (node.max < 0) {  // min times, then a state that either goes round or leaves
      const int32_t round = AddSplit(-1, next);
      const int32_t first = Emit(body, round);
      regex_.states_[static_cast<size_t>(round)].next = first;
      next = round;
    } else {
      const int32_t leave = next;
      for (int i = node.min; i < node.max && !TooLarge(); ++i) next = AddSplit(Emit(body, next), leave);
    }
    for (int i = 0; i < node.min && !TooLarge(); ++i) {
      const int32_t first = Emit(body, next);
      if (first == next) break;  // nothing, however often
      next = first;
    }
    return next;
  }
  bool TooLarge() const { return regex_.states_.size() > kMaxStates; }

  std::string_view pattern_, rest_;
  Flags flags_;
  std::set<std::string> names_;
  Regex regex_;
};

Result<Regex> Regex::Compile(std::string_view pattern) { return RegexCompiler(pattern).Compile(); }

}  // namespace quern
