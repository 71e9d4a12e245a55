#include "graph/dim.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <memory>
#include <set>

#include "base/checked_math.h"

namespace quern {
namespace {

enum class AtomKind : uint8_t { kSymbol, kFloorDiv, kCeilDiv, kMod, kMax, kMin, kBroadcast };
constexpr const char* kAtomNames[] = {"", "floordiv", "ceildiv", "mod", "max", "min", "broadcast"};

struct Atom {
  AtomKind kind;
  std::string name;  // of a symbol
  Dim a, b;          // of the others
  int size;          // atoms in it, itself included
};
using AtomPtr = std::shared_ptr<const Atom>;

// coefficient * product of atoms (sorted; a power repeats its atom)
struct Term {
  int64_t coefficient;
  std::vector<AtomPtr> atoms;
};
// Sorted by descending degree, then by atoms; no coefficient is 0. A constant is the term without atoms.
using Terms = std::vector<Term>;

// Expressions above this many atoms become Unknown(): real models stay far below, and every operation stays cheap.
constexpr int kMaxSize = 160;

std::atomic<int64_t> next_unknown{0};

bool IsPlainName(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '?';
  });
}

std::string QuoteName(std::string_view name) {
  if (IsPlainName(name)) return std::string(name);
  std::string r = "\"";
  for (char ch : name) {
    const unsigned char c = static_cast<unsigned char>(ch);
    if (c == '"' || c == '\\') {
      r += '\\';
      r += ch;
    } else if (c < 0x20 || c >= 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      r += "\\x";
      r += kHex[c >> 4];
      r += kHex[c & 15];
    } else {
      r += ch;
    }
  }
  return r + "\"";
}

// Floor division and modulo of numbers; nothing for a zero divisor or an overflow.
template <typename T>
std::optional<T> FloorDivide(T a, T b) {
  if (b == 0) return std::nullopt;
  if (b == -1) {
    T r;
    return __builtin_sub_overflow(T{0}, a, &r) ? std::nullopt : std::optional<T>(r);
  }
  T q = a / b;
  return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}
template <typename T>
std::optional<T> CeilDivide(T a, T b) {
  std::optional<T> q = FloorDivide(a, b);
  if (q && b != -1 && a % b != 0) ++*q;
  return q;
}
template <typename T>
std::optional<T> FloorModulo(T a, T b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return T{0};
  T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

}  // namespace

// The polynomial, and everything that needs to see inside a Dim.
struct Dim::Expr {
  Terms terms;
  int size;
  mutable std::atomic<int64_t> users = 1;

  static int Size(const Dim& d) { return d.expr_ ? d.expr_->size : 1; }

  static Terms ToTerms(const Dim& d) {
    if (d.expr_) return d.expr_->terms;
    if (d.value_ == 0) return {};
    return {Term{d.value_, {}}};
  }

  // From sorted, merged terms.
  static Dim FromTerms(Terms terms) {
    if (terms.empty()) return Dim(0);
    if (terms.size() == 1 && terms[0].atoms.empty()) return Dim(terms[0].coefficient);
    int size = 0;
    for (const Term& t : terms) {
      size += 1;
      for (const AtomPtr& a : t.atoms) size += a->size;
      if (size > kMaxSize) return Unknown();
    }
    Dim d;
    d.expr_ = new Expr{std::move(terms), size};
    return d;
  }

  static Dim FromAtom(Atom atom) {
    if (atom.size > kMaxSize) return Unknown();
    return FromTerms({Term{1, {std::make_shared<const Atom>(std::move(atom))}}});
  }
  static Dim Call(AtomKind kind, const Dim& a, const Dim& b) {
    return FromAtom(Atom{kind, {}, a, b, 1 + Size(a) + Size(b)});
  }

  // Total orders; 0 means structurally equal.
  static int Compare(const Atom& a, const Atom& b) {
    if (&a == &b) return 0;
    if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
    if (a.kind == AtomKind::kSymbol) return a.name.compare(b.name);
    const int c = Compare(a.a, b.a);
    return c != 0 ? c : Compare(a.b, b.b);
  }
  // Graded lexicographic, which multiplication respects; the greater monomial comes first.
  static int Compare(const std::vector<AtomPtr>& a, const std::vector<AtomPtr>& b) {
    if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
    for (size_t i = 0; i < a.size(); ++i) {
      if (const int c = Compare(*a[i], *b[i]); c != 0) return c;
    }
    return 0;
  }
  static int Compare(const Dim& a, const Dim& b) {
    if (a.expr_ == b.expr_) return a.value_ < b.value_ ? -1 : a.value_ > b.value_;
    if (!a.expr_ || !b.expr_) return a.expr_ ? -1 : 1;
    const Terms &x = a.expr_->terms, &y = b.expr_->terms;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (const int c = Compare(x[i].atoms, y[i].atoms); c != 0) return c;
      if (x[i].coefficient != y[i].coefficient) return x[i].coefficient < y[i].coefficient ? -1 : 1;
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }

  // Sorts, merges equal monomials and drops zeros; nothing when a coefficient overflows.
  static std::optional<Terms> Normalize(Terms terms) {
    std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return Compare(a.atoms, b.atoms) < 0; });
    Terms merged;
    for (Term& t : terms) {
      if (!merged.empty() && Compare(merged.back().atoms, t.atoms) == 0) {
        if (__builtin_add_overflow(merged.back().coefficient, t.coefficient, &merged.back().coefficient)) return {};
      } else {
        merged.push_back(std::move(t));
      }
    }
    std::erase_if(merged, [](const Term& t) { return t.coefficient == 0; });
    return merged;
  }

  // a + factor * b
  static Dim AddScaled(const Dim& a, const Dim& b, int64_t factor) {
    Terms terms = ToTerms(a);
    for (Term t : ToTerms(b)) {
      if (__builtin_mul_overflow(t.coefficient, factor, &t.coefficient)) return Unknown();
      terms.push_back(std::move(t));
    }
    std::optional<Terms> sum = Normalize(std::move(terms));
    return sum ? FromTerms(*std::move(sum)) : Unknown();
  }

  static std::optional<Term> Multiply(const Term& a, const Term& b) {
    Term t{0, {}};
    if (__builtin_mul_overflow(a.coefficient, b.coefficient, &t.coefficient)) return std::nullopt;
    t.atoms.resize(a.atoms.size() + b.atoms.size());
    std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(), t.atoms.begin(),
               [](const AtomPtr& x, const AtomPtr& y) { return Compare(*x, *y) < 0; });
    return t;
  }

  // a / b when it is a term with an integer coefficient.
  static std::optional<Term> DivideExactly(const Term& a, const Term& b) {
    if (b.coefficient == -1 ? a.coefficient == INT64_MIN : a.coefficient % b.coefficient != 0) return std::nullopt;
    Term t{a.coefficient / b.coefficient, {}};
    size_t j = 0;
    for (const AtomPtr& atom : a.atoms) {
      if (j < b.atoms.size() && Compare(*atom, *b.atoms[j]) == 0) {
        ++j;
      } else {
        t.atoms.push_back(atom);
      }
    }
    if (j != b.atoms.size()) return std::nullopt;
    return t;
  }

  // Splits a into quotient * b + rest by polynomial division; nothing when a coefficient overflows. For a divisor of
  // several terms the rest is 0 or all of a, so that the split does not depend on the order of symbols.
  struct Split {
    Dim quotient, rest;
  };
  static std::optional<Split> Divide(const Dim& a, const Dim& b) {
    const Terms divisor = ToTerms(b);
    if (divisor.empty()) return std::nullopt;
    Terms quotient, rest;
    if (divisor.size() == 1) {
      const bool number = divisor[0].atoms.empty();
      const int64_t c = divisor[0].coefficient;
      for (const Term& t : ToTerms(a)) {
        if (number) {  // coefficients of the rest in [0, c)
          const std::optional<int64_t> q = FloorDivide(t.coefficient, c);
          if (!q) return std::nullopt;
          if (*q != 0) quotient.push_back({*q, t.atoms});
          if (const int64_t r = *FloorModulo(t.coefficient, c); r != 0) rest.push_back({r, t.atoms});
        } else if (std::optional<Term> q = DivideExactly(t, divisor[0])) {
          quotient.push_back(*std::move(q));
        } else {
          rest.push_back(t);
        }
      }
      // Dividing every monomial by one keeps the order, and so does dropping some.
      return Split{FromTerms(std::move(quotient)), FromTerms(std::move(rest))};
    }
    Dim left = a;
    for (int step = 0; step < kMaxSize && !left.is_constant(0); ++step) {
      const std::optional<Term> q = DivideExactly(ToTerms(left)[0], divisor[0]);
      if (!q) break;
      const Dim part = FromTerms({*q});
      quotient.push_back(*q);
      left = left - part * b;
    }
    if (!left.is_constant(0)) return Split{Dim(0), a};
    return Split{FromTerms(std::move(quotient)), Dim(0)};
  }

  // Greatest common divisor of all coefficients of a and b; 0 when one is INT64_MIN.
  static int64_t Content(const Dim& a, const Dim& b) {
    int64_t g = 0;
    for (const Dim* d : {&a, &b}) {
      for (const Term& t : ToTerms(*d)) {
        if (t.coefficient == INT64_MIN) return 0;
        int64_t x = t.coefficient < 0 ? -t.coefficient : t.coefficient;
        while (x != 0) std::swap(g %= x, x);
      }
    }
    return g;
  }
  static Dim DivideContent(const Dim& a, int64_t g) {
    Terms terms = ToTerms(a);
    for (Term& t : terms) t.coefficient /= g;
    return FromTerms(std::move(terms));
  }

  // The atom when `d` is one atom of that kind, plus a constant.
  struct AtomPlus {
    const Atom* atom;
    int64_t plus;
  };
  static std::optional<AtomPlus> AsAtomPlus(const Dim& d, AtomKind kind) {
    if (!d.expr_) return std::nullopt;
    const Terms& t = d.expr_->terms;
    if (t.size() > 2 || t[0].coefficient != 1 || t[0].atoms.size() != 1 || t[0].atoms[0]->kind != kind) {
      return std::nullopt;
    }
    if (t.size() == 2 && !t[1].atoms.empty()) return std::nullopt;
    return AtomPlus{t[0].atoms[0].get(), t.size() == 2 ? t[1].coefficient : 0};
  }

  static Dim Apply(AtomKind kind, const Dim& a, const Dim& b) {
    switch (kind) {
      case AtomKind::kFloorDiv:
        return FloorDiv(a, b);
      case AtomKind::kCeilDiv:
        return CeilDiv(a, b);
      case AtomKind::kMod:
        return Mod(a, b);
      case AtomKind::kMax:
        return Max(a, b);
      case AtomKind::kBroadcast:
        return Broadcast(a, b);
      default:
        return Min(a, b);
    }
  }

  static bool IsNonNegative(const Atom& atom) {
    const bool a = atom.a.is_non_negative(), b = atom.b.is_non_negative();
    switch (atom.kind) {
      case AtomKind::kSymbol:
        return !atom.name.starts_with('?');  // which may stand for a content
      case AtomKind::kMax:
        return a || b;
      case AtomKind::kMod:
        return b;
      default:
        return a && b;
    }
  }

  // Max (greatest) or Min of two.
  static Dim Extreme(AtomKind kind, const Dim& a, const Dim& b) {
    const bool want_max = kind == AtomKind::kMax;
    if (a == b) return a;
    if (a.is_constant() && b.is_constant()) return (a.value_ > b.value_) == want_max ? a : b;
    // The difference may overflow to Unknown, which is no constant.
    const Dim difference = a - b;
    if (difference.is_constant()) return (difference.value_ > 0) == want_max ? a : b;
    for (const auto& [x, y] : {std::pair(&a, &b), std::pair(&b, &a)}) {  // max(max(p, q), q) == max(p, q)
      if (y->is_constant() && y->value_ <= 0 && x->is_non_negative()) return want_max ? *x : *y;
      const std::optional<AtomPlus> nested = AsAtomPlus(*x, kind);
      if (nested && nested->plus == 0 && (nested->atom->a == *y || nested->atom->b == *y)) return *x;
    }
    return Compare(a, b) <= 0 ? Call(kind, a, b) : Call(kind, b, a);
  }

  static void AppendSymbols(const Dim& d, std::set<std::string>& names) {
    if (!d.expr_) return;
    for (const Term& t : d.expr_->terms) {
      for (const AtomPtr& atom : t.atoms) {
        if (atom->kind == AtomKind::kSymbol) {
          names.insert(atom->name);
        } else {
          AppendSymbols(atom->a, names);
          AppendSymbols(atom->b, names);
        }
      }
    }
  }

  // Evaluation has 128 bits in between: canonical forms may pass the 64-bit range where the original did not.
  using Wide = __int128;
  // What __builtin_mul_overflow does, which for 128 bits calls a function that libgcc lacks on Arm.
  static bool MultiplyOverflows(Wide a, Wide b, Wide* product) {
    constexpr Wide kMost = static_cast<Wide>(~static_cast<unsigned __int128>(0) >> 1);
    if (a < -kMost || b < -kMost || (a != 0 && (b < 0 ? -b : b) > kMost / (a < 0 ? -a : a))) return true;
    *product = a * b;
    return false;
  }
  static Result<Wide> Evaluate(const Dim& d, const Lookup& lookup) {
    if (!d.expr_) return Wide{d.value_};
    Wide sum = 0;
    for (const Term& t : d.expr_->terms) {
      Wide product = t.coefficient;
      for (const AtomPtr& atom : t.atoms) {
        QUERN_ASSIGN_OR_RETURN(const Wide x, Evaluate(*atom, lookup));
        if (MultiplyOverflows(product, x, &product)) return Overflow(d);
      }
      if (__builtin_add_overflow(sum, product, &sum)) return Overflow(d);
    }
    return sum;
  }
  static Result<Wide> Evaluate(const Atom& atom, const Lookup& lookup) {
    if (atom.kind == AtomKind::kSymbol) {
      const std::optional<int64_t> v = lookup(atom.name);
      if (!v) return InvalidArgument("the extent '" + atom.name + "' is not known");
      return Wide{*v};
    }
    QUERN_ASSIGN_OR_RETURN(const Wide a, Evaluate(atom.a, lookup));
    QUERN_ASSIGN_OR_RETURN(const Wide b, Evaluate(atom.b, lookup));
    std::optional<Wide> r;
    switch (atom.kind) {
      case AtomKind::kFloorDiv:
        r = FloorDivide(a, b);
        break;
      case AtomKind::kCeilDiv:
        r = CeilDivide(a, b);
        break;
      case AtomKind::kMod:
        r = FloorModulo(a, b);
        break;
      case AtomKind::kMax:
        r = std::max(a, b);
        break;
      case AtomKind::kBroadcast:
        if (a != 1 && b != 1 && a != b) {
          return InvalidArgument("extents '" + atom.a.ToString() + "' and '" + atom.b.ToString() +
                                 "' do not broadcast");
        }
        r = a == 1 ? b : a;
        break;
      default:
        r = std::min(a, b);
        break;
    }
    if (!r) {
      if (b != 0) return Overflow(atom.a);
      return InvalidArgument("division by zero: '" + atom.b.ToString() + "' is 0");
    }
    return *r;
  }
  static Status Overflow(const Dim& d) {
    return InvalidArgument("the extent '" + d.ToString() + "' overflows 64 bits");
  }

  static std::string ToString(const Atom& atom) {
    if (atom.kind == AtomKind::kSymbol) return QuoteName(atom.name);
    return std::string(kAtomNames[static_cast<int>(atom.kind)]) + "(" + atom.a.ToString() + ", " + atom.b.ToString() +
           ")";
  }
};

void Dim::Retain(const Expr* expr) { expr->users.fetch_add(1, std::memory_order_relaxed); }
void Dim::Release(const Expr* expr) {
  if (expr->users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete expr;
}

Dim Dim::Symbol(std::string_view name) {
  // Unknowns made later must differ from the ones that a text brings along.
  if (name.size() > 1 && name.size() < 16 && name[0] == '?') {
    int64_t n = 0;
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), n);
    if (error == std::errc() && end == name.data() + name.size() && n >= 0) {
      int64_t next = next_unknown.load();
      while (next <= n && !next_unknown.compare_exchange_weak(next, n + 1)) {
      }
    }
  }
  return Expr::FromAtom(Atom{AtomKind::kSymbol, std::string(name), 0, 0, 1});
}

Dim Dim::Unknown() {
  return Expr::FromAtom(Atom{AtomKind::kSymbol, "?" + std::to_string(next_unknown.fetch_add(1)), 0, 0, 1});
}

int64_t Dim::value() const {
  QUERN_CHECK(is_constant(), "value() of a symbolic extent");
  return value_;
}

std::string_view Dim::symbol() const {
  const std::optional<Expr::AtomPlus> atom = Expr::AsAtomPlus(*this, AtomKind::kSymbol);
  return atom && atom->plus == 0 ? std::string_view(atom->atom->name) : std::string_view();
}

std::vector<std::string> Dim::symbols() const {
  std::set<std::string> names;
  Expr::AppendSymbols(*this, names);
  return {names.begin(), names.end()};
}

bool Dim::has_unknown() const {
  const std::vector<std::string> names = symbols();
  return std::any_of(names.begin(), names.end(), [](const std::string& n) { return n.starts_with('?'); });
}

namespace {
// Plans for given extents infer shapes of numbers alone, which need no terms.
Dim NumberOrUnknown(std::optional<int64_t> number) { return number ? Dim(*number) : Dim::Unknown(); }
}  // namespace

Dim operator+(const Dim& a, const Dim& b) {
  if (!a.expr_ && !b.expr_) return NumberOrUnknown(CheckedAdd(a.value_, b.value_));
  return Dim::Expr::AddScaled(a, b, 1);
}
Dim operator-(const Dim& a, const Dim& b) {
  if (!a.expr_ && !b.expr_) return NumberOrUnknown(CheckedSub(a.value_, b.value_));
  return Dim::Expr::AddScaled(a, b, -1);
}

Dim operator*(const Dim& a, const Dim& b) {
  using Expr = Dim::Expr;
  if (!a.expr_ && !b.expr_) return NumberOrUnknown(CheckedMul(a.value_, b.value_));
  const Terms x = Expr::ToTerms(a), y = Expr::ToTerms(b);
  if (x.size() * y.size() > kMaxSize) return Dim::Unknown();
  Terms product;
  for (const Term& s : x) {
    for (const Term& t : y) {
      std::optional<Term> p = Expr::Multiply(s, t);
      if (!p) return Dim::Unknown();
      product.push_back(*std::move(p));
    }
  }
  std::optional<Terms> merged = Expr::Normalize(std::move(product));
  return merged ? Expr::FromTerms(*std::move(merged)) : Dim::Unknown();
}

Dim Dim::FloorDiv(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return NumberOrUnknown(FloorDivide(a.value_, b.value_));
  if (b.is_constant(0)) return Unknown();
  if (b.is_constant() && b.value_ < 0) {
    return b.value_ == INT64_MIN ? Unknown() : FloorDiv(Dim(0) - a, Dim(-b.value_));
  }
  const std::optional<Expr::Split> split = Expr::Divide(a, b);
  if (!split) return Unknown();
  if (split->rest.is_constant(0)) return split->quotient;
  if (b.is_constant() && split->rest.is_constant()) return split->quotient;  // the rest is in [0, b)
  Dim rest = split->rest, divisor = b;
  if (const int64_t g = Expr::Content(rest, divisor); g > 1) {
    rest = Expr::DivideContent(rest, g);
    divisor = Expr::DivideContent(divisor, g);
  } else if (b.is_constant()) {
    // A constant in the rest that is no multiple of what the other coefficients share cannot change the quotient.
    const Term& last = rest.expr_->terms.back();
    const int64_t constant = last.atoms.empty() ? last.coefficient : 0;
    const Dim variable = rest - Dim(constant);
    if (const int64_t h = Expr::Content(variable, divisor); constant != 0 && h > 1) {
      return split->quotient + FloorDiv(variable + Dim(constant / h * h), divisor);
    }
  }
  if (divisor.is_constant()) {
    // floordiv(floordiv(x, c) + k, d) == floordiv(x + k*c, c*d) for positive c and d
    const std::optional<Expr::AtomPlus> inner = Expr::AsAtomPlus(rest, AtomKind::kFloorDiv);
    if (inner && inner->atom->b.is_constant() && inner->atom->b.value_ > 0) {
      const int64_t c = inner->atom->b.value_;
      const std::optional<int64_t> scale = CheckedMul(c, divisor.value_), shift = CheckedMul(inner->plus, c);
      if (scale && shift) return split->quotient + FloorDiv(inner->atom->a + Dim(*shift), Dim(*scale));
    }
  }
  return split->quotient + Expr::Call(AtomKind::kFloorDiv, rest, divisor);
}

Dim Dim::CeilDiv(const Dim& a, const Dim& b) {
  if (b.is_constant()) {
    if (b.value_ == 0 || b.value_ == INT64_MIN) return Unknown();
    if (b.value_ < 0) return CeilDiv(Dim(0) - a, Dim(-b.value_));
    if (a.is_constant()) {
      const std::optional<int64_t> q = CeilDivide(a.value_, b.value_);
      return q ? Dim(*q) : Unknown();
    }
    return FloorDiv(a + Dim(b.value_ - 1), b);
  }
  const std::optional<Expr::Split> split = Expr::Divide(a, b);
  if (!split) return Unknown();
  if (split->rest.is_constant(0)) return split->quotient;
  Dim rest = split->rest, divisor = b;
  if (const int64_t g = Expr::Content(rest, divisor); g > 1) {
    rest = Expr::DivideContent(rest, g);
    divisor = Expr::DivideContent(divisor, g);
  }
  return split->quotient + Expr::Call(AtomKind::kCeilDiv, rest, divisor);
}

Dim Dim::Mod(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return NumberOrUnknown(FloorModulo(a.value_, b.value_));
  if (b.is_constant(0)) return Unknown();
  if (b.is_constant() && b.value_ < 0) {
    return b.value_ == INT64_MIN ? Unknown() : Dim(0) - Mod(Dim(0) - a, Dim(-b.value_));
  }
  const std::optional<Expr::Split> split = Expr::Divide(a, b);
  if (!split) return Unknown();
  if (split->rest.is_constant(0)) return Dim(0);
  if (b.is_constant() && split->rest.is_constant()) return split->rest;
  Dim rest = split->rest, divisor = b;
  const int64_t g = Expr::Content(rest, divisor);
  if (g > 1) {
    rest = Expr::DivideContent(rest, g);
    divisor = Expr::DivideContent(divisor, g);
  }
  const Dim call = Expr::Call(AtomKind::kMod, rest, divisor);
  return g > 1 ? call * Dim(g) : call;
}

Dim Dim::Max(const Dim& a, const Dim& b) { return Expr::Extreme(AtomKind::kMax, a, b); }
Dim Dim::Min(const Dim& a, const Dim& b) { return Expr::Extreme(AtomKind::kMin, a, b); }

namespace {
bool IsAtLeastOne(const Dim& d) { return d.is_constant() && d.value() >= 1; }
}  // namespace

Dim Dim::Broadcast(const Dim& a, const Dim& b) {
  if (a == b || b.is_constant(1)) return a;
  if (a.is_constant(1)) return b;
  if (a.is_constant() != b.is_constant()) return a.is_constant() ? a : b;
  for (const auto& [x, y] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    // min(p, c), c >= 1, is p, or 1, or goes with no p; what p broadcasts to goes with p again.
    const std::optional<Expr::AtomPlus> least = Expr::AsAtomPlus(*x, AtomKind::kMin);
    if (least && least->plus == 0 && least->atom->a == *y && IsAtLeastOne(least->atom->b)) return *y;
    if (least && least->plus == 0 && least->atom->b == *y && IsAtLeastOne(least->atom->a)) return *y;
    const std::optional<Expr::AtomPlus> wide = Expr::AsAtomPlus(*x, AtomKind::kBroadcast);
    if (wide && wide->plus == 0 && (wide->atom->a == *y || wide->atom->b == *y)) return *x;
  }
  return Expr::Compare(a, b) <= 0 ? Expr::Call(AtomKind::kBroadcast, a, b) : Expr::Call(AtomKind::kBroadcast, b, a);
}

bool Dim::is_non_negative() const {
  if (!expr_) return value_ >= 0;
  return std::all_of(expr_->terms.begin(), expr_->terms.end(), [](const Term& t) {
    return t.coefficient >= 0 &&
           std::all_of(t.atoms.begin(), t.atoms.end(), [](const AtomPtr& atom) { return Expr::IsNonNegative(*atom); });
  });
}

bool operator==(const Dim& a, const Dim& b) { return Dim::Expr::Compare(a, b) == 0; }

Result<int64_t> Dim::Evaluate(const Lookup& lookup) const {
  QUERN_ASSIGN_OR_RETURN(const Expr::Wide wide, Expr::Evaluate(*this, lookup));
  if (wide < INT64_MIN || wide > INT64_MAX) return Expr::Overflow(*this);
  return static_cast<int64_t>(wide);
}

Dim Dim::Substitute(const std::function<std::optional<Dim>(std::string_view)>& lookup) const {
  if (!expr_) return *this;
  Dim sum = 0;
  for (const Term& t : expr_->terms) {
    Dim product = t.coefficient;
    for (const AtomPtr& atom : t.atoms) {
      if (atom->kind == AtomKind::kSymbol) {
        const std::optional<Dim> with = lookup(atom->name);
        product = product * (with ? *with : Expr::FromTerms({Term{1, {atom}}}));
      } else {
        product = product * Expr::Apply(atom->kind, atom->a.Substitute(lookup), atom->b.Substitute(lookup));
      }
    }
    sum = sum + product;
  }
  return sum;
}

std::string Dim::ToString() const {
  if (!expr_) return std::to_string(value_);
  std::string r;
  for (const Term& t : expr_->terms) {
    const bool negative = t.coefficient < 0;
    if (!r.empty()) {
      r += negative ? " - " : " + ";
    } else if (negative) {
      r += "-";
    }
    const uint64_t magnitude =
        negative ? uint64_t{0} - static_cast<uint64_t>(t.coefficient) : static_cast<uint64_t>(t.coefficient);
    if (magnitude != 1 || t.atoms.empty()) r += std::to_string(magnitude);
    bool first = magnitude == 1;
    for (const AtomPtr& atom : t.atoms) {
      if (!first) r += "*";
      first = false;
      r += Expr::ToString(*atom);
    }
  }
  return r;
}

std::string DimsToString(const Dims& dims) {
  std::string r = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) r += ",";
    r += dims[i].ToString();
  }
  return r + "]";
}

bool AllConstant(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_constant(); });
}

Dim Product(const Dims& dims) {
  Dim product = 1;
  for (const Dim& d : dims) product = product * d;
  return product;
}

}  // namespace quern

template class std::vector<quern::Dim>;
