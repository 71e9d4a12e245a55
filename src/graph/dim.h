// Dim: one extent of a shape, a number or a symbolic expression, in a canonical form so that equal sizes compare equal.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace quern {

// Immutable; copying is cheap (constants allocate nothing, expressions are shared).
//
// Canonical form: a polynomial with integer coefficients over atoms; an atom is a symbol or one of floordiv, ceildiv,
// mod, max, min over two Dims that do not simplify. So (batch*3 + batch) == 4*batch, and floordiv(8*s, 4) == 2*s.
class Dim {
 public:
  Dim() : Dim(0) {}
  Dim(int64_t value) : value_(value) {}  // NOLINT: implicit by design
  Dim(const Dim& other) : value_(other.value_), expr_(other.expr_) {
    if (expr_) Retain(expr_);
  }
  Dim(Dim&& other) noexcept : value_(other.value_), expr_(std::exchange(other.expr_, nullptr)) {}
  Dim& operator=(Dim other) noexcept {
    std::swap(value_, other.value_);
    std::swap(expr_, other.expr_);
    return *this;
  }
  ~Dim() {
    if (expr_) Release(expr_);
  }
  // The extent known as `name` (an ONNX dim_param, or "?N" for one that only a run can tell).
  static Dim Symbol(std::string_view name);
  // A fresh symbol "?N", N unique in the process: data-dependent or unknown.
  static Dim Unknown();

  bool is_constant() const { return expr_ == nullptr; }
  // The number; requires is_constant().
  int64_t value() const;
  bool is_constant(int64_t v) const { return is_constant() && value_ == v; }
  // The name when this is a lone symbol, else empty.
  std::string_view symbol() const;
  // True when it is known to be at least 0: an extent by name is.
  bool is_non_negative() const;
  // True when an unknown ("?N") symbol occurs in it.
  bool has_unknown() const;
  // Names of all symbols that occur, sorted, each once.
  std::vector<std::string> symbols() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  // Rounding towards minus and plus infinity; a zero divisor gives Unknown().
  static Dim FloorDiv(const Dim& a, const Dim& b);
  static Dim CeilDiv(const Dim& a, const Dim& b);
  static Dim Mod(const Dim& a, const Dim& b);  // sign of b, as in Python
  static Dim Max(const Dim& a, const Dim& b);
  static Dim Min(const Dim& a, const Dim& b);
  // The extent that two broadcast to: equal ones, or the other one of a 1.
  static Dim Broadcast(const Dim& a, const Dim& b);

  // Structural equality of the canonical forms: true means always equal, false means not known to be.
  friend bool operator==(const Dim& a, const Dim& b);

  // The number for given symbol values; an error names the symbol that is not bound, or an overflow.
  using Lookup = std::function<std::optional<int64_t>(std::string_view)>;
  Result<int64_t> Evaluate(const Lookup& lookup) const;
  // This expression with symbols replaced where `lookup` gives a Dim.
  Dim Substitute(const std::function<std::optional<Dim>(std::string_view)>& lookup) const;

  // "12", "batch", "2*h*w + 1", "floordiv(h + 1, 2)"; Parse reads exactly that. Symbol names outside
  // [A-Za-z0-9_.?] are quoted: "\"unk 12\"".
  std::string ToString() const;
  static Result<Dim> Parse(std::string_view text);

 private:
  struct Expr;
  int64_t value_ = 0;
  static void Retain(const Expr* expr);
  static void Release(const Expr* expr);
  const Expr* expr_ = nullptr;  // shared, counted in itself
};

using Dims = std::vector<Dim>;
// "[batch,3,224,224]"
std::string DimsToString(const Dims& dims);
bool AllConstant(const Dims& dims);
// The product; 1 for none.
Dim Product(const Dims& dims);

}  // namespace quern

extern template class std::vector<quern::Dim>;
