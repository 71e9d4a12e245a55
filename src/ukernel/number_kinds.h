// For tests: kinds of operands of products, from ordinary to badly scaled, on which rows are to be as accurate as a
// loop.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

#include "base/random_numbers.h"

namespace quern::ukernel {

// What becomes of normal numbers, along a line (a row of the left side, a column of the right side).
enum class Spread : uint8_t {
  kNone,
  kScale,      // all times 2^orders
  kExponents,  // each times a power of two, orders of them
  kOutliers,   // one in `every` times 2^orders
  kGiant,      // one of each line times 2^orders
  kGeometric,  // falling by 2^orders over 128
  kSparse,     // one in `every`, others 0
  kRegular,    // the same, at equal distances
  kRelu,
  kGelu,
  kExponential,  // e^(orders * x): a softmax before it is divided
};

struct Side {
  Spread spread = Spread::kNone;
  int orders = 0;
  unsigned every = 1;

  float Draw(std::mt19937& rng, size_t line, size_t k, size_t count) const {
    const float x = NormalNumbers<float>()(rng);
    switch (spread) {
      case Spread::kNone:
        return x;
      case Spread::kScale:
        return std::ldexp(x, orders);
      case Spread::kExponents:
        return std::ldexp(x, static_cast<int>(rng() % static_cast<unsigned>(orders + 1)) - orders / 2);
      case Spread::kOutliers:
        return rng() % every ? x : std::ldexp(x, orders);
      case Spread::kGiant:
        return k == (line * 37 + 11) % count ? std::ldexp(x, orders) : x;
      case Spread::kGeometric:
        return std::ldexp(x, -static_cast<int>(k % 128) * orders / 128);
      case Spread::kSparse:
        return rng() % every ? 0.0f : x;
      case Spread::kRegular:
        return k % every ? 0.0f : x;
      case Spread::kRelu:
        return std::fmax(x, 0.0f);
      case Spread::kGelu:
        return 1.5f * x * std::erfc(-2.1f * x);
      case Spread::kExponential:
        return std::exp(static_cast<float>(orders) * x);
    }
    return x;
  }
};

struct NumberKind {
  const char* name;
  Side lhs, rhs;
  bool ordinary = false;   // of real networks: no row may leave its fast way for it
  bool denormals = false;  // of the largest operands or results
  bool few = false;        // so few products count that the order in which they meet decides
  bool sample = false;     // for those who do not try all
};

// `orders` stay within what float32 bears in a product.
static constexpr NumberKind kNumberKinds[] = {
    {.name = "normal", .lhs = {}, .rhs = {}, .ordinary = true},
    {.name = "relu", .lhs = {Spread::kRelu}, .rhs = {}, .ordinary = true},
    {.name = "gelu", .lhs = {Spread::kGelu}, .rhs = {}, .ordinary = true},
    {.name = "tails of 2^-110", .lhs = {Spread::kOutliers, -110, 2}, .rhs = {}, .ordinary = true},
    {.name = "denormal tails", .lhs = {Spread::kOutliers, -130, 2}, .rhs = {}, .ordinary = true},
    {.name = "flat softmax", .lhs = {Spread::kExponential, 1}, .rhs = {}, .ordinary = true},
    {.name = "peaked softmax", .lhs = {Spread::kExponential, 3}, .rhs = {}, .ordinary = true},
    {.name = "activations with outliers", .lhs = {Spread::kOutliers, 10, 256}, .rhs = {}, .ordinary = true},
    {.name = "19 of 20 activations are zero", .lhs = {Spread::kSparse, 0, 20}, .rhs = {}, .ordinary = true},
    {.name = "pruned weights", .lhs = {Spread::kRelu}, .rhs = {Spread::kSparse, 0, 4}, .ordinary = true},
    {.name = "rows over 2^20", .lhs = {Spread::kExponents, 20}, .rhs = {}, .ordinary = true},
    {.name = "rows over 2^40", .lhs = {Spread::kExponents, 40}, .rhs = {}},
    {.name = "rows over 2^60", .lhs = {Spread::kExponents, 60}, .rhs = {}, .sample = true},
    {.name = "rows over 2^100", .lhs = {Spread::kExponents, 100}, .rhs = {}},
    {.name = "columns over 2^20", .lhs = {}, .rhs = {Spread::kExponents, 20}, .ordinary = true},
    {.name = "columns over 2^40", .lhs = {}, .rhs = {Spread::kExponents, 40}},
    {.name = "columns over 2^60", .lhs = {}, .rhs = {Spread::kExponents, 60}, .sample = true},
    {.name = "columns over 2^100", .lhs = {}, .rhs = {Spread::kExponents, 100}},
    {.name = "both over 2^20", .lhs = {Spread::kExponents, 20}, .rhs = {Spread::kExponents, 20}, .sample = true},
    {.name = "both over 2^40", .lhs = {Spread::kExponents, 40}, .rhs = {Spread::kExponents, 40}},
    {.name = "both over 2^60", .lhs = {Spread::kExponents, 60}, .rhs = {Spread::kExponents, 60}},
    {.name = "both over 2^100", .lhs = {Spread::kExponents, 100}, .rhs = {Spread::kExponents, 100}},
    {.name = "outliers of 2^20 in rows", .lhs = {Spread::kOutliers, 20, 64}, .rhs = {}, .sample = true},
    {.name = "outliers of 2^20 in both", .lhs = {Spread::kOutliers, 20, 64}, .rhs = {Spread::kOutliers, 20, 64}},
    {.name = "outliers of 2^40 in rows", .lhs = {Spread::kOutliers, 40, 64}, .rhs = {}},
    {.name = "outliers of 2^40 in columns", .lhs = {}, .rhs = {Spread::kOutliers, 40, 64}},
    {.name = "outliers of 2^40 in both",
     .lhs = {Spread::kOutliers, 40, 64},
     .rhs = {Spread::kOutliers, 40, 64},
     .few = true},
    {.name = "a giant of 2^16 in rows", .lhs = {Spread::kGiant, 16}, .rhs = {}},
    {.name = "a giant of 2^30 in rows", .lhs = {Spread::kGiant, 30}, .rhs = {}, .few = true},
    {.name = "a giant of 2^60 in rows", .lhs = {Spread::kGiant, 60}, .rhs = {}, .few = true},
    {.name = "a giant of 2^60 in columns", .lhs = {}, .rhs = {Spread::kGiant, 60}, .few = true},
    {.name = "falling rows", .lhs = {Spread::kGeometric, 100}, .rhs = {}},
    {.name = "one of 8 in rows", .lhs = {Spread::kSparse, 0, 8}, .rhs = {}, .sample = true},
    {.name = "one of 32 in rows", .lhs = {Spread::kSparse, 0, 32}, .rhs = {}},
    {.name = "one of 128 in rows", .lhs = {Spread::kSparse, 0, 128}, .rhs = {}, .few = true},
    {.name = "each 32nd of rows", .lhs = {Spread::kRegular, 0, 32}, .rhs = {}, .few = true},
    {.name = "each 32nd of columns", .lhs = {}, .rhs = {Spread::kRegular, 0, 32}, .few = true},
    {.name = "near the largest", .lhs = {Spread::kScale, 124}, .rhs = {Spread::kScale, -10}, .sample = true},
    {.name = "large columns", .lhs = {Spread::kScale, -100}, .rhs = {Spread::kScale, 120}},
    {.name = "denormal rows",
     .lhs = {Spread::kScale, -135},
     .rhs = {Spread::kScale, 20},
     .denormals = true,
     .sample = true},
    {.name = "tiny by tiny", .lhs = {Spread::kScale, -60}, .rhs = {Spread::kScale, -66}, .denormals = true},
    {.name = "denormal products", .lhs = {Spread::kScale, -40}, .rhs = {Spread::kScale, -90}, .denormals = true},
};

}  // namespace quern::ukernel
