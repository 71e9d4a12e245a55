// Every row of the elementwise family that the host runs: what it computes for one element it computes at any place of
// a row of any length, operands and results ending at guard pages; integers, conversions, comparisons and choices
// against plain loops.
#include <algorithm>
#include <array>
#include <string>

#include "base/cpu.h"
#include "ukernel/elementwise/elementwise_test_rows.h"
#include "ukernel/guarded_buffer.h"

namespace quern::ukernel {
namespace {

using Elements = TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool,
                          Float16, BFloat16>;
using Numbers = TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;

constexpr int64_t kLengths[] = {0, 1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 33, 63, 65, 127, 128, 131, 255};
constexpr int64_t kLongest = 255;

template <class T>
std::array<T, 2> Bounds() {
  return {T{3}, T{100}};
}

constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kI8,  DType::kI16,  DType::kI32, DType::kI64, DType::kU8,
                            DType::kU16, DType::kU32, DType::kU64, DType::kBool, DType::kF16, DType::kBF16};

// `count` elements that end at a guard page.
class Drawn {
 public:
  Drawn(DType type, size_t count, unsigned seed) : buffer_(count * DTypeBytes(type)), element_(DTypeBytes(type)) {
    EachType(Elements{}, [&]<class T>() {
      if (DTypeOf<T>() == type) std::memcpy(buffer_.data(), DrawElements<T>(count, seed).data(), buffer_.bytes());
    });
  }
  const void* at(size_t i) const { return buffer_.data() + i * element_; }

 private:
  GuardedBuffer buffer_;
  size_t element_;
};
bool IsSameElement(DType type, const void* a, const void* b) {
  bool same = std::memcmp(a, b, DTypeBytes(type)) == 0;
  EachType(TypeList<float, double>{}, [&]<class T>() {
    T u, v;
    if (DTypeOf<T>() != type) return;
    std::memcpy(&u, a, sizeof u), std::memcpy(&v, b, sizeof v);
    same = IsSame(u, v);
  });
  return same;
}

// f(n, place of the first of n operands, results): what a row gives for each element alone is what it gives for rows of
// any length, and nothing more is read or written. Operands are kLongest + 1 elements that end at a guard page, as the
// results do.
template <class F>
void CheckLengths(DType to, F f) {
  const size_t bytes = DTypeBytes(to);
  std::vector<char> alone(bytes * (kLongest + 1));
  std::vector<bool> fine(kLongest + 1);
  for (size_t i = 0; i < fine.size(); ++i) fine[i] = f(1, i, &alone[i * bytes]);
  const GuardedBuffer memory(alone.size());
  for (const int64_t n : kLengths) {
    std::memset(memory.data(), 0x5a, memory.bytes());
    const size_t first = fine.size() - static_cast<size_t>(n);
    const bool all = f(n, first, memory.data() + first * bytes);
    bool all_alone = true;
    for (size_t i = first; i < fine.size(); ++i) {
      ASSERT_TRUE(IsSameElement(to, memory.data() + i * bytes, &alone[i * bytes]))
          << "element " << i - first << " of " << n;
      all_alone = all_alone && fine[i];
    }
    ASSERT_EQ(all, all_alone);
    for (size_t i = 0; i < first * bytes; ++i) ASSERT_EQ(memory.data()[i], 0x5a);
  }
}

std::string Where(const ElementwiseKernel& row, int kind, DType a, DType b) {
  return std::string(Name(row).text) + " kind " + std::to_string(kind) + " " + DTypeName(a) + " " + DTypeName(b);
}

TEST(ElementwiseRows, UnaryRowsOfAnyLength) {
  int expected = 0;
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    int checked = 0;
    for (int k = 0; k < static_cast<int>(UnaryKind::kCount); ++k) {
      for (const DType from : kTypes) {
        const Drawn x(from, kLongest + 1, 21 + static_cast<unsigned>(k)), bounds(from, 2, 20);
        const RowParameters p{.a = 0.75, .b = 0.5, .low = bounds.at(0), .high = bounds.at(1)};
        for (const DType to : kTypes) {
          const UnaryRow run = row->unary(static_cast<UnaryKind>(k), from, to);
          if (!run) continue;
          SCOPED_TRACE(Where(*row, k, from, to));
          ASSERT_NO_FATAL_FAILURE(CheckLengths(to, [&](int64_t n, size_t first, void* y) {
            run(n, x.at(first), y, p);
            return true;
          }));
          ++checked;
        }
      }
    }
    if (expected == 0) expected = checked;
    EXPECT_EQ(checked, expected) << Name(*row).text;  // all have the same
  }
  EXPECT_GT(expected, 200);
}

bool IsComparison(BinaryKind kind) { return kind >= BinaryKind::kEqual && kind <= BinaryKind::kAtMost; }

TEST(ElementwiseRows, BinaryRowsOfAnyLength) {
  int expected = 0;
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    int checked = 0;
    for (int k = 0; k < static_cast<int>(BinaryKind::kCount); ++k) {
      for (const DType first : kTypes) {
        const Drawn a(first, kLongest + 1, 41 + static_cast<unsigned>(k));
        for (const DType second : kTypes) {
          const BinaryRow run = row->binary(static_cast<BinaryKind>(k), first, second);
          if (!run) continue;
          const Drawn b(second, kLongest + 1, 42 + static_cast<unsigned>(k));
          SCOPED_TRACE(Where(*row, k, first, second));
          const DType to = IsComparison(static_cast<BinaryKind>(k)) ? DType::kBool : first;
          ASSERT_NO_FATAL_FAILURE(
              CheckLengths(to, [&](int64_t n, size_t at, void* y) { return run(n, a.at(at), b.at(at), y); }));
          ++checked;
        }
      }
    }
    if (expected == 0) expected = checked;
    EXPECT_EQ(checked, expected) << Name(*row).text;
  }
  EXPECT_GT(expected, 130);
}

// Cast by its rules.
template <class To, class From>
To CastOf(From x) {
  if constexpr (std::is_same_v<From, Float16> || std::is_same_v<From, BFloat16>) {
    return static_cast<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::is_same_v<To, uint64_t> && x >= From(0x1p63) && x < From(0x1p64)) return static_cast<To>(x);
    const bool fits = x >= From(-0x1p63) && x < From(0x1p63);
    const int64_t whole = fits ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
    if constexpr (std::is_same_v<To, int32_t>) {
      using Range = std::numeric_limits<int32_t>;
      return whole < Range::min() || whole > Range::max() ? Range::min() : static_cast<To>(whole);
    } else {
      return static_cast<To>(whole);
    }
  } else {
    return static_cast<To>(x);
  }
}

TEST(ElementwiseRows, ConversionsFollowTheRulesOfCast) {
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    int checked = 0;
    EachType(Elements{}, [&]<class X>() {
      std::vector<Stored<X>> x = DrawElements<X>(70000, 5);
      if constexpr (sizeof(X) == 2 && !std::is_integral_v<X>) {
        for (uint32_t i = 0; i < 65536; ++i) x[i] = X::FromBits(static_cast<uint16_t>(i));
      } else if constexpr (std::is_floating_point_v<X>) {
        for (const double v :
             {2147483647.5, -2147483648.5, -2147483649.0, 4294967295.5, 9223372036854775807.0, 65519.99, 65520.0,
              0x1p63, -0x1p63, 0x1p64, 2147483648.0, 1.0 + 0x1p-11 + 0x1p-40, 255.99, -0.99}) {
          x.push_back(static_cast<X>(v));
        }
        if constexpr (sizeof(X) == 4) {  // every sign and exponent, with fractions around every rounding to 16 bits
          for (const uint32_t low : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
            for (uint32_t i = 0; i < 65536; ++i) x.push_back(std::bit_cast<float>(i << 16 | low));
          }
        }
      } else if constexpr (sizeof(X) == 8) {
        for (int shift = 0; shift < 40; ++shift) {
          for (const uint64_t low : {0, 1, 2}) {
            x.push_back(static_cast<X>(((uint64_t{1} << 24) | 1) << shift | low));
            x.push_back(static_cast<X>(0 - (((uint64_t{1} << 25) | 2) << shift | low)));
          }
        }
      }
      EachType(Elements{}, [&]<class Y>() {
        if constexpr ((sizeof(Y) > 2 || std::is_integral_v<Y>) || std::is_same_v<X, float>) {
          const UnaryRow run = row->unary(UnaryKind::kConvert, DTypeOf<X>(), DTypeOf<Y>());
          if (!run) return;
          std::vector<unsigned char> memory(x.size() * sizeof(Y));
          auto* y = reinterpret_cast<Stored<Y>*>(memory.data());
          run(static_cast<int64_t>(x.size()), x.data(), y, {});
          for (size_t i = 0; i < x.size(); ++i) {
            ASSERT_TRUE(IsSame(y[i], static_cast<Stored<Y>>(CastOf<Y>(x[i]))))
                << Name(*row).text << " " << DTypeName(DTypeOf<X>()) << " to " << DTypeName(DTypeOf<Y>()) << " element "
                << i;
          }
          ++checked;
        }
      });
    });
    EXPECT_EQ(checked, 12 + 10 + 2 + 9 * 11) << Name(*row).text;
  }
}

// Integers without overflow in the test itself.
template <class T>
T Fit(__int128 x) {
  return static_cast<T>(static_cast<uint64_t>(x));
}
template <class T>
T ExpectedBinary(BinaryKind kind, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (kind) {
      case BinaryKind::kAdd:
        return a + b;
      case BinaryKind::kSub:
        return a - b;
      case BinaryKind::kMul:
        return a * b;
      case BinaryKind::kDiv:
        return a / b;
      case BinaryKind::kMin:
        return a != a ? a : b != b ? b : a < b ? a : b;
      case BinaryKind::kMax:
        return a != a ? a : b != b ? b : a > b ? a : b;
      default:
        return a < 0 ? b * a : a;
    }
  } else {
    constexpr T kBits = 8 * sizeof(T);
    const __int128 u = a, v = b;
    const bool shifts = v >= 0 && v < kBits;
    switch (kind) {
      case BinaryKind::kAdd:
        return Fit<T>(u + v);
      case BinaryKind::kSub:
        return Fit<T>(u - v);
      case BinaryKind::kMul:
        return Fit<T>(u * v);
      case BinaryKind::kDiv:
        return v == 0 ? T{0} : Fit<T>(u / v);
      case BinaryKind::kMod:
        return v == 0 ? T{0} : Fit<T>(u % v != 0 && (u % v < 0) != (v < 0) ? u % v + v : u % v);
      case BinaryKind::kTruncMod:
        return v == 0 ? T{0} : Fit<T>(u % v);
      case BinaryKind::kMin:
        return a < b ? a : b;
      case BinaryKind::kMax:
        return a > b ? a : b;
      case BinaryKind::kPrelu:
        return a < 0 ? Fit<T>(u * v) : a;
      case BinaryKind::kBitAnd:
        return Fit<T>(u & v);
      case BinaryKind::kBitOr:
        return Fit<T>(u | v);
      case BinaryKind::kBitXor:
        return Fit<T>(u ^ v);
      case BinaryKind::kShiftLeft:
        return shifts ? Fit<T>(static_cast<__int128>(static_cast<uint64_t>(a)) << v) : T{0};
      default:
        return shifts ? Fit<T>(u >> v) : a < 0 ? static_cast<T>(-1) : T{0};
    }
  }
}

TEST(ElementwiseRows, ArithmeticAndComparisons) {
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    EachType(Numbers{}, [&]<class T>() {
      constexpr DType t = DTypeOf<T>();
      std::vector<T> a = DrawElements<T>(20000, 3), b = DrawElements<T>(20000, 4), y(20000);
      for (size_t i = 0; i < a.size(); i += 9) a[i] = b[i];
      for (int k = 0; k < static_cast<int>(BinaryKind::kPow); ++k) {
        const BinaryKind kind = static_cast<BinaryKind>(k);
        const bool of_floats = std::is_floating_point_v<T>;
        if (IsComparison(kind) || (of_floats && k > static_cast<int>(BinaryKind::kPrelu))) continue;
        const BinaryRow run = row->binary(kind, t, t);
        if (!run) {
          EXPECT_TRUE(t == DType::kF32 || (kind == BinaryKind::kPrelu && sizeof(T) < 4)) << k;
          continue;
        }
        const bool divides =
            !of_floats && (kind == BinaryKind::kDiv || kind == BinaryKind::kMod || kind == BinaryKind::kTruncMod);
        EXPECT_NE(run(static_cast<int64_t>(a.size()), a.data(), b.data(), y.data()), divides);
        for (size_t i = 0; i < a.size(); ++i) {
          ASSERT_TRUE(IsSame(y[i], ExpectedBinary(kind, a[i], b[i])))
              << Name(*row).text << " kind " << k << " of " << DTypeName(t) << " " << +a[i] << ", " << +b[i] << ": "
              << +y[i];
        }
      }
      std::vector<unsigned char> flags(a.size());
      const auto compare = [&](BinaryKind kind, auto f) {
        row->binary(kind, t, t)(static_cast<int64_t>(a.size()), a.data(), b.data(), flags.data());
        for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(flags[i], f(a[i], b[i]) ? 1 : 0);
      };
      compare(BinaryKind::kEqual, [](T u, T v) { return u == v; });
      compare(BinaryKind::kLess, [](T u, T v) { return u < v; });
      compare(BinaryKind::kAtMost, [](T u, T v) { return u <= v; });
    });
  }
}

// Blocks of numbers that float64 holds, the ends of its range, and numbers beyond it.
TEST(ElementwiseRows, DivisionsOfLongIntegers) {
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    EachType(TypeList<int64_t, uint64_t>{}, [&]<class T>() {
      constexpr DType t = DTypeOf<T>();
      constexpr T kEnd = T{1} << 50;
      std::mt19937_64 random(6);
      for (const T beyond : {T{0}, T{1}}) {
        std::vector<T> a, b;
        const auto number = [&](int most) {
          const T x = static_cast<T>(random() >> (64 - most) >> random() % static_cast<unsigned>(most));
          return std::is_signed_v<T> && random() % 2 ? static_cast<T>(T{0} - x) : x;
        };
        for (int i = 0; i < 20000; ++i) {
          a.push_back(number(50));
          b.push_back(i % 3 ? number(50) : number(8));
          if (b.back() == 0) b.back() = 1;
          if (i % 7 == 0 && b.back() != static_cast<T>(-1)) a.back() = a.back() / b.back() * b.back();  // exact ones
        }
        for (const T end :
             {static_cast<T>(kEnd - 1 + beyond), static_cast<T>(std::is_signed_v<T> ? -kEnd - beyond : 0)}) {
          for (const T other :
               {T{1}, T{2}, T{3}, static_cast<T>(kEnd - 1), static_cast<T>(std::is_signed_v<T> ? -1 : 5)}) {
            a.push_back(end), b.push_back(other);
            a.push_back(other), b.push_back(end == 0 ? T{1} : end);
          }
        }
        std::vector<T> y(a.size());
        for (const BinaryKind kind : {BinaryKind::kDiv, BinaryKind::kMod, BinaryKind::kTruncMod}) {
          EXPECT_TRUE(row->binary(kind, t, t)(static_cast<int64_t>(a.size()), a.data(), b.data(), y.data()));
          for (size_t i = 0; i < a.size(); ++i) {
            ASSERT_EQ(y[i], ExpectedBinary(kind, a[i], b[i])) << Name(*row).text << " kind " << static_cast<int>(kind)
                                                              << " of " << DTypeName(t) << " " << a[i] << ", " << b[i];
          }
        }
      }
    });
  }
}

TEST(ElementwiseRows, IntegerFunctionsAndPredicates) {
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    EachType(Numbers{}, [&]<class T>() {
      constexpr DType t = DTypeOf<T>();
      const std::vector<T> x = DrawElements<T>(20000, 3);
      std::vector<T> y(x.size());
      std::array<T, 2> bounds = Bounds<T>();
      const RowParameters p{.a = 2.5, .b = 3.5, .low = &bounds[0], .high = &bounds[1]};
      const auto check = [&](UnaryKind kind, auto f) {
        const UnaryRow run = row->unary(kind, t, t);
        ASSERT_NE(run, nullptr) << static_cast<int>(kind) << " " << DTypeName(t);
        run(static_cast<int64_t>(x.size()), x.data(), y.data(), p);
        for (size_t i = 0; i < x.size(); ++i) {
          ASSERT_TRUE(IsSame(y[i], static_cast<T>(f(x[i]))))
              << Name(*row).text << " kind " << static_cast<int>(kind) << " of " << DTypeName(t) << " " << +x[i];
        }
      };
      if (t != DType::kF32) {
        check(UnaryKind::kClip, [&](T v) {
          v = v < bounds[0] ? bounds[0] : v;
          return v > bounds[1] ? bounds[1] : v;
        });
        check(UnaryKind::kSign, [](T v) { return v > 0 ? T{1} : v < 0 ? static_cast<T>(-1) : v == 0 ? T{0} : v; });
      }
      if constexpr (std::is_integral_v<T>) {
        check(UnaryKind::kAbs, [](T v) { return v < 0 ? Fit<T>(-static_cast<__int128>(v)) : v; });
        check(UnaryKind::kErf, [](T v) { return std::erf(static_cast<double>(v)); });
        check(UnaryKind::kBitNot, [](T v) { return ~v; });
        check(UnaryKind::kShrink, [](T v) -> T {
          using Range = std::numeric_limits<T>;
          const double w = static_cast<double>(v), s = w < -3.5 ? w + 2.5 : w > 3.5 ? w - 2.5 : 0;
          return s >= std::ldexp(1.0, Range::digits)      ? Range::max()
                 : s <= static_cast<double>(Range::min()) ? Range::min()
                                                          : static_cast<T>(s);
        });
        if (std::is_signed_v<T>) {
          check(UnaryKind::kNeg, [](T v) { return Fit<T>(-static_cast<__int128>(v)); });
          check(UnaryKind::kRelu, [](T v) { return v < 0 ? T{0} : v; });
        }
      } else {
        std::vector<unsigned char> flags(x.size());
        const int64_t n = static_cast<int64_t>(x.size());
        row->unary(UnaryKind::kIsNan, t, DType::kBool)(n, x.data(), flags.data(), {});
        for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(flags[i], std::isnan(x[i]) ? 1 : 0);
        for (int signs = 0; signs < 4; ++signs) {
          const RowParameters which{.a = signs & 1 ? 1.0 : 0.0, .b = signs & 2 ? 1.0 : 0.0};
          row->unary(UnaryKind::kIsInf, t, DType::kBool)(n, x.data(), flags.data(), which);
          for (size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(flags[i], std::isinf(x[i]) && (signs & (x[i] > 0 ? 1 : 2)) ? 1 : 0);
          }
        }
      }
      if (t == DType::kF32 || t == DType::kF64 || t == DType::kI32 || t == DType::kI64) {
        check(UnaryKind::kIsAbove, [](T v) { return static_cast<double>(v) > 2.5 ? T{1} : T{0}; });
      }
    });
  }
}

TEST(ElementwiseRows, IntegerPowersAndTheirExponents) {
  const std::vector<int64_t> exponents = DrawElements<int64_t>(5000, 9);
  const std::vector<uint64_t> large = DrawElements<uint64_t>(5000, 10);
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    EachType(TypeList<int32_t, int64_t>{}, [&]<class T>() {
      std::vector<T> x = DrawElements<T>(exponents.size(), 3), y(x.size());
      const BinaryRow run = row->binary(BinaryKind::kPow, DTypeOf<T>(), DType::kI64);
      EXPECT_FALSE(run(static_cast<int64_t>(x.size()), x.data(), exponents.data(), y.data()));
      for (size_t i = 0; i < x.size(); ++i) {
        int64_t e = exponents[i];
        uint64_t power = 1, factor = static_cast<uint64_t>(x[i]);
        if (e < 0) {
          power = x[i] == 1 || (x[i] == -1 && e % 2 == 0) ? 1 : x[i] == -1 ? ~uint64_t{0} : 0;
        }
        for (; e > 0; e >>= 1, factor *= factor) power *= e & 1 ? factor : 1;
        ASSERT_EQ(y[i], static_cast<T>(power)) << Name(*row).text << " " << x[i] << " ^ " << exponents[i];
      }
      for (T& v : x) v = v == 0 ? T{1} : v;
      EXPECT_TRUE(run(static_cast<int64_t>(x.size()), x.data(), exponents.data(), y.data()));
    });
    std::vector<int64_t> y(large.size());
    row->unary(UnaryKind::kExponent, DType::kU64, DType::kI64)(static_cast<int64_t>(y.size()), large.data(), y.data(),
                                                               {});
    for (size_t i = 0; i < y.size(); ++i) {
      const uint64_t most = std::numeric_limits<int64_t>::max();
      ASSERT_EQ(static_cast<uint64_t>(y[i]), large[i] <= most ? large[i] : large[i] % 2 ? most : most - 1);
    }
  }
}

TEST(ElementwiseRows, RoundedToOddThenTo16BitsIsRoundedOnce) {
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    EachType(TypeList<double, int32_t, int64_t, uint32_t, uint64_t>{}, [&]<class T>() {
      std::vector<T> x = DrawElements<T>(20000, 6);
      if constexpr (sizeof(T) == 8 && std::is_integral_v<T>) {
        for (int shift = 0; shift < 38; ++shift) x.push_back(static_cast<T>((uint64_t{0x1000001} << shift) + 1));
      }
      std::vector<float> y(x.size());
      row->unary(UnaryKind::kRoundOdd, DTypeOf<T>(), DType::kF32)(static_cast<int64_t>(x.size()), x.data(), y.data(),
                                                                  {});
      for (size_t i = 0; i < x.size(); ++i) {
        const long double v = x[i];
        if (std::isnan(v)) {
          ASSERT_TRUE(std::isnan(y[i]));
          continue;
        }
        const float nearest = static_cast<float>(v);
        float odd = nearest;
        if (static_cast<long double>(nearest) != v) {  // of the neighbours around v, the one whose last bit is set
          const float other = std::nextafter(nearest, nearest > v ? -INFINITY : INFINITY);
          odd = std::bit_cast<uint32_t>(nearest) & 1 ? nearest : other;
        }
        ASSERT_EQ(y[i], odd) << Name(*row).text << " " << +x[i];
      }
    });
  }
}

TEST(ElementwiseRows, Choices) {
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    EXPECT_EQ(row->choose(16), nullptr);
    EachType(TypeList<uint8_t, uint16_t, uint32_t, uint64_t>{}, [&]<class T>() {
      constexpr size_t kCount = kLongest + 1;
      const Drawn a(DTypeOf<T>(), kCount, 3), b(DTypeOf<T>(), kCount, 4), choice(DType::kBool, kCount, 5);
      const auto value = [](const Drawn& d, size_t i) { return *static_cast<const T*>(d.at(i)); };
      const GuardedBuffer memory(kCount * sizeof(T));
      auto* y = reinterpret_cast<T*>(memory.data());
      for (const int64_t n : kLengths) {
        std::fill_n(y, kCount, T{77});
        const size_t first = kCount - static_cast<size_t>(n);
        row->choose(sizeof(T))(n, choice.at(first), a.at(first), b.at(first), y + first);
        for (size_t i = 0; i < kCount; ++i) {
          const T expected = *static_cast<const uint8_t*>(choice.at(i)) ? value(a, i) : value(b, i);
          ASSERT_EQ(y[i], i < first ? T{77} : expected);
        }
      }
    });
  }
}

TEST(ElementwiseRows, EachCpuGetsItsWidestRow) {
  EXPECT_STREQ(Name(*SelectElementwiseRow(CpuFacts{})).text, "elementwise_any_portable");
  const ElementwiseKernel* chosen = SelectElementwiseRow(HostCpu().facts());
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts()))
    EXPECT_GE(chosen->vector_bytes, row->vector_bytes);
}

}  // namespace
}  // namespace quern::ukernel
