#include "graph/dim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

namespace quern {
namespace {

const Dim h = Dim::Symbol("h"), w = Dim::Symbol("w"), batch = Dim::Symbol("batch");

std::optional<int64_t> None(std::string_view) { return std::nullopt; }

TEST(Dim, CollectsTerms) {
  EXPECT_EQ((batch * 3 + batch).ToString(), "4*batch");
  EXPECT_EQ((h * 2 * w + 1).ToString(), "2*h*w + 1");
  EXPECT_EQ((h - h).ToString(), "0");
  EXPECT_EQ((Dim(0) - h + 2).ToString(), "-h + 2");
  EXPECT_TRUE((h + w) * (h - w) == h * h - w * w);
  EXPECT_FALSE(h == w);
  EXPECT_EQ(h.symbol(), "h");
  EXPECT_EQ((h + 1).symbol(), "");
  EXPECT_EQ((h * w + batch).symbols(), (std::vector<std::string>{"batch", "h", "w"}));
}

TEST(Dim, DividesSymbolically) {
  const Dim s = Dim::Symbol("s");
  EXPECT_TRUE(Dim::FloorDiv(s * 8, 4) == s * 2);
  EXPECT_TRUE(Dim::FloorDiv(batch * 768, batch * 64) == 12);  // Reshape with -1
  EXPECT_TRUE(Dim::FloorDiv(batch * s * 768, batch * s) == 768);
  EXPECT_TRUE(Dim::FloorDiv((h + 1) * (w + 2), w + 2) == h + 1);
  EXPECT_EQ(Dim::FloorDiv(h - 1, 2).ToString(), "floordiv(h + 1, 2) - 1");
  EXPECT_TRUE(Dim::FloorDiv(h - 1, 2) + 1 == Dim::FloorDiv(h + 1, 2));  // a convolution with stride 2
  EXPECT_TRUE(Dim::FloorDiv(Dim::FloorDiv(h + 1, 2) + 1, 2) == Dim::FloorDiv(h + 3, 4));
  EXPECT_TRUE(Dim::CeilDiv(h, 2) == Dim::FloorDiv(h + 1, 2));
  EXPECT_TRUE(Dim::FloorDiv(h * 2 + 1, 4) == Dim::FloorDiv(h, 2));
  EXPECT_TRUE(Dim::Mod(h * 4 + 6, 4) == 2);
  EXPECT_TRUE(Dim::Mod(h * 5 + 6, 4) == Dim::Mod(h + 2, 4));
  EXPECT_TRUE(Dim::FloorDiv(-7, 2) == -4);
  EXPECT_TRUE(Dim::CeilDiv(-7, 2) == -3);
  EXPECT_TRUE(Dim::Mod(-7, 2) == 1);
  EXPECT_TRUE(Dim::Mod(7, -2) == -1);
}

TEST(Dim, OrdersExtremes) {
  EXPECT_TRUE(Dim::Max(h + 3, h) == h + 3);
  EXPECT_TRUE(Dim::Min(h + 3, h) == h);
  EXPECT_TRUE(Dim::Max(h, w) == Dim::Max(w, h));
  EXPECT_TRUE(Dim::Max(Dim::Max(h, w), w) == Dim::Max(h, w));
  EXPECT_EQ(Dim::Max(h, 1).ToString(), "max(h, 1)");
  EXPECT_EQ(Dim::Min(h, 0).ToString(), "0");
  EXPECT_EQ(Dim::Min(-3, h).ToString(), "-3");
}

TEST(Dim, Broadcasts) {
  EXPECT_TRUE(Dim::Broadcast(h, 1) == h);
  EXPECT_TRUE(Dim::Broadcast(1, h) == h);
  EXPECT_TRUE(Dim::Broadcast(h, h) == h);
  EXPECT_TRUE(Dim::Broadcast(h, 7) == 7);
  EXPECT_TRUE(Dim::Broadcast(h, w) == Dim::Broadcast(w, h));
  // What goes with h where it is not 1 is h.
  EXPECT_TRUE(Dim::Broadcast(Dim::Min(h, 512), h) == h);
  EXPECT_TRUE(Dim::Broadcast(h, Dim::Max(Dim::Min(h, 512), 0)) == h);
  EXPECT_FALSE(Dim::Broadcast(h, Dim::Min(h, 0)) == h);
  EXPECT_FALSE(Dim::Broadcast(h, Dim::Min(h, w)) == h);
  EXPECT_TRUE(Dim::Broadcast(w, Dim::Broadcast(h, w)) == Dim::Broadcast(h, w));
  EXPECT_EQ(Dim::Broadcast(h, w + 1).ToString(), Dim::Parse("broadcast(h, w + 1)").value().ToString());
  const auto with = [](int64_t a, int64_t b) {
    return Dim::Broadcast(h, w).Evaluate(
        [=](std::string_view n) -> std::optional<int64_t> { return n == "h" ? a : b; });
  };
  EXPECT_EQ(with(1, 5).value(), 5);
  EXPECT_EQ(with(5, 1).value(), 5);
  EXPECT_EQ(with(0, 1).value(), 0);
  EXPECT_EQ(with(3, 3).value(), 3);
  EXPECT_FALSE(with(3, 4).ok());
}

TEST(Dim, KnowsWhatIsNotNegative) {
  for (const Dim& d : {Dim(0), h, h * w + 3, Dim::FloorDiv(h, 2), Dim::Max(h - 5, 0), Dim::Min(h, w)}) {
    EXPECT_TRUE(d.is_non_negative()) << d.ToString();
  }
  for (const Dim& d : {Dim(-1), h - 1, h - w, Dim::Unknown(), Dim::Min(h - 5, w)}) {
    EXPECT_FALSE(d.is_non_negative()) << d.ToString();
  }
}

TEST(Dim, UnknownsDiffer) {
  const Dim a = Dim::Unknown(), b = Dim::Unknown();
  EXPECT_FALSE(a == b);
  EXPECT_TRUE(a == a);
  EXPECT_TRUE((a + h).has_unknown());
  EXPECT_FALSE(h.has_unknown());
  EXPECT_TRUE(Dim::FloorDiv(h, 0).has_unknown());
  // A text may bring numbers that were not given out yet.
  Dim::Symbol("?123456");
  EXPECT_EQ(Dim::Unknown().ToString(), "?123457");
}

TEST(Dim, OverflowBecomesUnknown) {
  const Dim big = INT64_MAX, least = INT64_MIN;
  EXPECT_TRUE((big + 1).has_unknown());
  EXPECT_TRUE((least - 1).has_unknown());
  EXPECT_TRUE((big * 2).has_unknown());
  EXPECT_TRUE((h * big + h).has_unknown());
  EXPECT_TRUE(Dim::FloorDiv(least, -1).has_unknown());
  EXPECT_TRUE(Dim::Mod(least, -1).has_unknown() || Dim::Mod(least, -1) == 0);
  EXPECT_TRUE(Dim::FloorDiv(least, 3) == -3074457345618258603);
  EXPECT_TRUE(Dim::FloorDiv(h * least, 3).has_unknown() == false);
  EXPECT_EQ((h * INT64_MAX).Evaluate([](std::string_view) { return 2; }).ok(), false);
  EXPECT_EQ(Dim(h * INT64_MAX - h * INT64_MAX).ToString(), "0");
}

TEST(Dim, LargeExpressionsBecomeUnknown) {
  Dim sum = 0, product = 1, nested = h;
  for (int i = 0; i < 400; ++i) {
    sum = sum + Dim::Symbol("s" + std::to_string(i));
    product = product * (Dim::Symbol("s" + std::to_string(i)) + 1);
    nested = Dim::Max(Dim::FloorDiv(nested, w) + i, w);
  }
  for (const Dim& d : {sum, product, nested}) EXPECT_LT(d.ToString().size(), 4000u);
  EXPECT_TRUE(sum.has_unknown());
}

TEST(Dim, EvaluationNamesTheMissingSymbol) {
  const Result<int64_t> r = (h * 2 + w).Evaluate([](std::string_view n) -> std::optional<int64_t> {
    if (n == "h") return 3;
    return std::nullopt;
  });
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.status().message().find("'w'"), std::string::npos);
  EXPECT_EQ(*Dim(5).Evaluate(None), 5);
  EXPECT_FALSE(Dim::FloorDiv(h, w).Evaluate([](std::string_view) { return 0; }).ok());
}

TEST(Dim, SubstitutesAndSimplifies) {
  const Dim d = Dim::FloorDiv(h + 1, 2) * batch;
  const Dim s = d.Substitute([](std::string_view n) -> std::optional<Dim> {
    if (n == "h") return Dim::Symbol("k") * 2 + 1;
    return std::nullopt;
  });
  EXPECT_TRUE(s == batch * (Dim::Symbol("k") + 1));
}

TEST(Dim, ParsesWhatItPrints) {
  for (const char* text : {"0",
                           "12",
                           "-12",
                           "batch",
                           "2*h*w + 1",
                           "floordiv(h + 1, 2)",
                           "-h*w - 3*w + 7",
                           "floordiv(a, b)*max(h, w) + mod(x, 7)",
                           "\"unk 12\"",
                           "\"12\"",
                           "\"\"",
                           "\"a\\\"b\\\\\\x01\"",
                           "?7",
                           "-9223372036854775808",
                           "-9223372036854775808*h",
                           "h - 9223372036854775808",
                           "ceildiv(h, w)",
                           "min(h, 3)",
                           "floordiv + 1",
                           "a.b_c"}) {
    const Result<Dim> d = Dim::Parse(text);
    ASSERT_TRUE(d.ok()) << text << ": " << d.status().message();
    EXPECT_EQ(d->ToString(), text);
  }
  EXPECT_TRUE(*Dim::Parse("(h+1) * 2") == h * 2 + 2);
  for (const char* text : {"", "+", "h +", "h w", "2h", "9223372036854775808", "99999999999999999999", "floordiv(h)",
                           "foo(1,2)", "(h", "\"h", "\"\\q\"", "h*", "*", "max(1,2", "\"\\x0\""}) {
    EXPECT_FALSE(Dim::Parse(text).ok()) << text;
  }
  EXPECT_FALSE(Dim::Parse(std::string(100000, '(')).ok());
}

// Random expressions against plain evaluation with numbers: what simplification must never change.
struct Random {
  std::mt19937_64 engine;
  std::map<std::string, int64_t, std::less<>> values;
  int64_t Number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }

  // A Dim and its number; no number where the expression divides by zero.
  std::pair<Dim, std::optional<int64_t>> Make(int depth) {
    const int64_t kind = depth == 0 ? Number(0, 1) : Number(0, 10);
    if (kind == 0) {
      const int64_t v = Number(-6, 6);
      return {Dim(v), v};
    }
    if (kind <= 2) {
      const auto it = std::next(values.begin(), Number(0, static_cast<int64_t>(values.size()) - 1));
      return {Dim::Symbol(it->first), it->second};
    }
    const auto [a, x] = Make(depth - 1);
    const auto [b, y] = Make(depth - 1);
    const auto floor_div = [](int64_t p, int64_t q) {
      return static_cast<int64_t>(std::floor(static_cast<long double>(p) / static_cast<long double>(q)));
    };
    if (!x || !y || (kind >= 8 && *y == 0)) return {a + b, x && y ? std::optional<int64_t>(*x + *y) : std::nullopt};
    switch (kind) {
      case 3:
        return {a + b, *x + *y};
      case 4:
        return {a - b, *x - *y};
      case 5:
        return {a * b, *x * *y};
      case 6:
        return {Dim::Max(a, b), std::max(*x, *y)};
      case 7:
        return {Dim::Min(a, b), std::min(*x, *y)};
      case 8:
        return {Dim::FloorDiv(a, b), floor_div(*x, *y)};
      case 9:
        return {Dim::CeilDiv(a, b), -floor_div(-*x, *y)};
      default:
        return {Dim::Mod(a, b), *x - *y * floor_div(*x, *y)};
    }
  }
};

TEST(Dim, SimplificationKeepsTheNumber) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    Random random{std::mt19937_64(seed), {{"a", 0}, {"b", 0}, {"c", 0}}};
    for (auto& [name, value] : random.values) value = random.Number(1, 40);
    const auto [d, number] = random.Make(4);
    const Result<Dim> reparsed = Dim::Parse(d.ToString());
    ASSERT_TRUE(reparsed.ok()) << d.ToString();
    EXPECT_TRUE(*reparsed == d) << d.ToString() << " became " << reparsed->ToString();
    const auto lookup = [&](std::string_view n) -> std::optional<int64_t> {
      const auto it = random.values.find(n);
      return it == random.values.end() ? std::nullopt : std::optional<int64_t>(it->second);
    };
    if (!number || d.has_unknown()) continue;
    ++compared;
    const Result<int64_t> value = d.Evaluate(lookup);
    ASSERT_TRUE(value.ok()) << "seed " << seed << ": " << d.ToString() << ": " << value.status().message();
    EXPECT_EQ(*value, *number) << "seed " << seed << ": " << d.ToString();
    const Dim substituted = d.Substitute([&](std::string_view n) -> std::optional<Dim> { return Dim(*lookup(n)); });
    ASSERT_TRUE(substituted.is_constant()) << "seed " << seed << ": " << d.ToString();
    EXPECT_EQ(substituted.value(), *number) << "seed " << seed << ": " << d.ToString();
  }
  EXPECT_GT(compared, 3000);
}

}  // namespace
}  // namespace quern
