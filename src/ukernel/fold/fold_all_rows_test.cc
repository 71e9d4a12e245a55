// Every row of the fold family, every type, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/fold.h"
#include "ukernel/row_runner.h"
#include "ukernel/rows_that_run.h"
#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

std::vector<const FoldKernel*> Rows() {
  return RowsThatRun(
      AllFoldKernels(), [](const FoldKernel& row) { return row.f64.fold != nullptr; }, HostCpu().facts());
}

// f.operator()<T>(row) for every row and type.
template <typename F>
void ForEachType(F f) {
  for (const FoldKernel* row : Rows()) {
    SCOPED_TRACE(Name(*row).text);
    f.template operator()<float>(*row);
    f.template operator()<double>(*row);
    f.template operator()<int32_t>(*row);
    f.template operator()<int64_t>(*row);
    f.template operator()<uint32_t>(*row);
    f.template operator()<uint64_t>(*row);
    f.template operator()<int8_t>(*row);
    f.template operator()<uint8_t>(*row);
  }
}

// What elements are drawn from.
enum class Draws : uint8_t {
  kAny,
  kFew /* many ties */,
  kSpecial /* also NaN, infinities and the ends of the range */
};

template <typename T>
class Elements {
 public:
  // The last element ends at an inaccessible page.
  Elements(size_t n, Draws draws, uint32_t seed) : buffer_(n * sizeof(T)), n_(n) {
    std::mt19937_64 random(seed);
    T* x = data();
    for (size_t i = 0; i < n; ++i) {
      if (draws == Draws::kFew) {
        x[i] = static_cast<T>(random() % 3);
      } else if constexpr (std::is_integral_v<T>) {
        x[i] = static_cast<T>(random());
      } else {
        x[i] = static_cast<T>(UniformNumbers<double>(-1, 1)(random));
      }
      if (draws == Draws::kSpecial && random() % 16 == 0) x[i] = Special(random() % 5);
    }
  }
  T* data() { return reinterpret_cast<T*>(buffer_.data()); }
  size_t size() const { return n_; }

 private:
  static T Special(uint64_t which) {
    using Limits = std::numeric_limits<T>;
    if (which == 0) return Limits::lowest();
    if (which == 1) return Limits::max();
    if constexpr (Limits::has_infinity) {
      return which == 2 ? Limits::quiet_NaN() : which == 3 ? Limits::infinity() : -Limits::infinity();
    }
    return T{0};
  }
  GuardedBuffer buffer_;
  size_t n_;
};

// The fold of elements that come one by one: wrapping for integers, in long double for doubles.
template <typename T>
class PlainFold {
 public:
  PlainFold(FoldKind kind, T shift) : kind_(kind), shift_(shift) {
    value_ = kind == FoldKind::kProd ? 1 : 0;
    bits_ = kind == FoldKind::kProd ? 1 : 0;
    extreme_ = kind == FoldKind::kMax ? Lowest() : Highest();
  }
  void Add(T x) {
    const auto u = static_cast<uint64_t>(x);
    const uint64_t d = u - static_cast<uint64_t>(shift_);
    const long double v = static_cast<long double>(x), e = v - static_cast<long double>(shift_);
    switch (kind_) {
      case FoldKind::kSum:
        return Plus(u, v);
      case FoldKind::kSumAbs:
        return Plus(x < T{0} ? 0 - u : u, std::fabs(v));
      case FoldKind::kSumSquares:
        return Plus(d * d, e * e);
      case FoldKind::kProd:
        bits_ *= u;
        value_ *= v;
        return;
      default:
        if (x != x || extreme_ != extreme_) {
          extreme_ = extreme_ != extreme_ ? extreme_ : x;
        } else if (kind_ == FoldKind::kMax ? x > extreme_ : x < extreme_) {
          extreme_ = x;
        }
    }
  }
  void Expect(T actual, T scale = 1) const {
    if (kind_ == FoldKind::kMax || kind_ == FoldKind::kMin) {
      ASSERT_TRUE(actual == extreme_ || (actual != actual && extreme_ != extreme_)) << actual << " for " << extreme_;
    } else if constexpr (std::is_integral_v<T>) {
      ASSERT_EQ(actual, static_cast<T>(bits_ * static_cast<uint64_t>(scale)));
    } else {
      const long double expected = value_ * static_cast<long double>(scale);
      ASSERT_NEAR(static_cast<double>(actual), static_cast<double>(expected),
                  (kind_ == FoldKind::kProd ? 1e-13 : 1e-15) * static_cast<double>(magnitude_ + std::fabs(expected)))
          << static_cast<int>(kind_);
    }
  }

 private:
  static T Lowest() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  static T Highest() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  void Plus(uint64_t u, long double v) {
    bits_ += u;
    value_ += v;
    magnitude_ += std::fabs(v);
  }
  FoldKind kind_;
  T shift_, extreme_;
  uint64_t bits_;
  long double value_, magnitude_ = 0;
};

std::vector<FoldKind> KindsOf(size_t element_bytes) {
  if (element_bytes == 1) return {FoldKind::kMax, FoldKind::kMin};
  return {FoldKind::kSum, FoldKind::kSumAbs, FoldKind::kSumSquares, FoldKind::kProd, FoldKind::kMax, FoldKind::kMin};
}
Draws DrawsOf(FoldKind kind, bool is_float) {
  return kind == FoldKind::kMax || kind == FoldKind::kMin || !is_float ? Draws::kSpecial : Draws::kAny;
}

TEST(FoldRows, FoldsOfLines) {
  ForEachType([]<typename T>(const FoldKernel& row) {
    if constexpr (!std::is_same_v<T, float>) {
      const FoldFunctions<T>& f = row.Of<T>();
      for (const FoldKind kind : KindsOf(sizeof(T))) {
        for (size_t n : {0, 1, 2, 7, 8, 15, 33, 63, 64, 100, 257, 511, 4096, 10001}) {
          if (kind == FoldKind::kProd && !std::is_integral_v<T> && n > 600) continue;  // it is 0
          Elements<T> x(n, DrawsOf(kind, std::is_floating_point_v<T>), static_cast<uint32_t>(n));
          const T shift = kind == FoldKind::kSumSquares ? static_cast<T>(3) : T{0};
          PlainFold<T> expected(kind, shift);
          for (size_t i = 0; i < n; ++i) expected.Add(x.data()[i]);
          ASSERT_NO_FATAL_FAILURE(expected.Expect(f.fold({.kind = kind, .n = n, .x = x.data(), .shift = shift}))) << n;
        }
      }
    }
  });
}

template <typename T>
void ExpectLinesAlone(const FoldFunctions<T>& f, FoldKind kind) {
  for (size_t n : {0, 7, 8, 16, 17, 64, 65, 100, 4097}) {
    for (size_t lines : {0, 17, 67}) {
      if (n > 100 && lines > 17) continue;
      const size_t pitch = n + lines % 3;
      Elements<T> x(lines == 0 ? 0 : (lines - 1) * pitch + n, DrawsOf(kind, std::is_floating_point_v<T>), 7);
      Elements<T> y(lines, Draws::kAny, 8);
      LineFold<T> line{.kind = kind, .n = n, .x = x.data(), .shift = static_cast<T>(kind == FoldKind::kSumSquares)};
      f.fold_lines({.line = line, .lines = lines, .pitch = static_cast<ptrdiff_t>(pitch), .y = y.data()});
      for (size_t i = 0; i < lines; ++i, line.x += pitch) {
        const T alone = f.fold(line), together = y.data()[i];
        ASSERT_TRUE(std::memcmp(&alone, &together, sizeof(T)) == 0 || (alone != alone && together != together))
            << lines << " of " << n << ", line " << i << ": " << alone << ", " << together;
      }
    }
  }
}
// Several lines give the bits that each of them gives alone.
TEST(FoldRows, FoldsOfSeveralLines) {
  ForEachType([]<typename T>(const FoldKernel& row) {
    if constexpr (!std::is_same_v<T, float>) {
      for (const FoldKind kind : KindsOf(sizeof(T))) ExpectLinesAlone(row.Of<T>(), kind);
    }
  });
  for (const VectorKernel* row :
       RowsThatRun(AllVectorKernels(), &VectorKernel::fold, HostCpu().facts())) {  // float32's
    SCOPED_TRACE(Name(*row).text);
    for (const FoldKind kind : KindsOf(sizeof(float))) {
      ExpectLinesAlone<float>({.fold = row->fold, .fold_lines = row->fold_lines}, kind);
    }
  }
}

TEST(FoldRows, FoldsOfRows) {
  ForEachType([]<typename T>(const FoldKernel& row) {
    if constexpr (!std::is_same_v<T, float>) {
      const FoldFunctions<T>& f = row.Of<T>();
      for (const FoldKind kind : KindsOf(sizeof(T))) {
        for (size_t n : {1, 2, 3, 8, 15, 16, 31, 47, 64, 100, 300}) {
          for (size_t rows : {0, 1, 2, 9, 64, 150}) {
            const size_t stride = n + 3;
            Elements<T> x(rows == 0 ? 0 : (rows - 1) * stride + n, DrawsOf(kind, std::is_floating_point_v<T>), 5);
            std::vector<ptrdiff_t> offsets;  // the same rows from the last one on
            for (size_t r = 0; r < rows; ++r) offsets.push_back(static_cast<ptrdiff_t>((rows - 1 - r) * stride));
            const T scale = static_cast<T>(kind == FoldKind::kSum ? 3 : 1);
            for (const bool listed : {false, true}) {
              Elements<T> y(n, Draws::kAny, 6);
              f.fold_rows({.kind = kind,
                           .rows = rows,
                           .n = n,
                           .x = x.data(),
                           .offsets = listed ? offsets.data() : nullptr,
                           .row_stride = static_cast<ptrdiff_t>(stride),
                           .scale = scale,
                           .y = y.data()});
              for (size_t c = 0; c < n; ++c) {
                PlainFold<T> expected(kind, T{0});
                for (size_t r = 0; r < rows; ++r) expected.Add(x.data()[r * stride + c]);
                ASSERT_NO_FATAL_FAILURE(expected.Expect(y.data()[c], scale)) << rows << " " << n << " " << c;
              }
            }
          }
        }
      }
    }
  });
}

// Windows are folded as each of them alone.
TEST(FoldRows, FoldsOfWindows) {
  ForEachType([]<typename T>(const FoldKernel& row) {
    if constexpr (!std::is_same_v<T, float>) {
      for (const FoldKind kind : KindsOf(sizeof(T))) {
        for (size_t n : {1, 16, 47, 300}) {
          const size_t windows = 5, pixel = n + 2;
          const ptrdiff_t x_step = static_cast<ptrdiff_t>(2 * pixel), y_step = static_cast<ptrdiff_t>(n + 1);
          const ptrdiff_t offsets[] = {0, static_cast<ptrdiff_t>(pixel), static_cast<ptrdiff_t>(3 * pixel)};
          Elements<T> x(12 * pixel, DrawsOf(kind, std::is_floating_point_v<T>), 7);
          Elements<T> together(windows * (n + 1), Draws::kAny, 8), alone(windows * (n + 1), Draws::kAny, 8);
          RowsFold<T> args{.kind = kind, .rows = 3, .n = n, .x = x.data(), .offsets = offsets, .y = together.data()};
          args.windows = windows;
          args.x_step = x_step, args.y_step = y_step;
          row.Of<T>().fold_rows(args);
          args.windows = 1;
          args.y = alone.data();
          for (size_t w = 0; w < windows; ++w, args.x += x_step, args.y += y_step) row.Of<T>().fold_rows(args);
          ASSERT_EQ(std::memcmp(together.data(), alone.data(), windows * (n + 1) * sizeof(T)), 0) << n;
        }
      }
    }
  });
}

template <typename T>
int64_t PlainArg(Extreme which, size_t n, const T* x, size_t stride) {
  size_t best = 0;
  for (size_t i = 1; i < n; ++i) {
    const T v = x[i * stride], b = x[best * stride];
    if (b != b) break;
    if (v != v || (which.smallest ? v < b : v > b) || (which.last && v == b)) best = i;
  }
  return static_cast<int64_t>(best);
}

TEST(FoldRows, PlacesOfExtremes) {
  ForEachType([]<typename T>(const FoldKernel& row) {
    const FoldFunctions<T>& f = row.Of<T>();
    for (const Draws draws : {Draws::kAny, Draws::kFew, Draws::kSpecial}) {
      for (int w = 0; w < 4; ++w) {
        const Extreme which{.smallest = (w & 1) != 0, .last = (w & 2) != 0};
        for (size_t n : {1, 2, 17, 63, 64, 65, 200, 4096, 4097, 9000}) {
          Elements<T> x(n, draws, static_cast<uint32_t>(n));
          ASSERT_EQ(f.arg({.which = which, .n = n, .x = x.data()}), PlainArg(which, n, x.data(), 1)) << n << " " << w;
        }
        for (size_t n : {1, 2, 3, 7, 16, 31, 33, 64, 150}) {
          for (size_t rows : {1, 2, 21, 130, 300}) {
            const size_t stride = n + 5;
            Elements<T> x((rows - 1) * stride + n, draws, static_cast<uint32_t>(rows));
            Elements<int64_t> y(n, Draws::kAny, 1);
            f.arg_rows({.which = which,
                        .rows = rows,
                        .n = n,
                        .x = x.data(),
                        .row_stride = static_cast<ptrdiff_t>(stride),
                        .y = y.data()});
            for (size_t c = 0; c < n; ++c) {
              ASSERT_EQ(y.data()[c], PlainArg(which, rows, x.data() + c, stride)) << rows << " " << n << " " << c;
            }
          }
        }
      }
    }
  });
}

TEST(FoldRows, GreatestOfTaps) {
  ForEachType([]<typename T>(const FoldKernel& row) {
    for (const Draws draws : {Draws::kAny, Draws::kFew, Draws::kSpecial}) {
      for (const size_t step : {1, 2, 3}) {
        for (size_t n : {0, 1, 2, 7, 16, 33, 64, 113}) {
          constexpr size_t kTaps = 3;
          Elements<T> x(n == 0 ? 0 : (n - 1) * step + kTaps, draws, static_cast<uint32_t>(n)), best(n, Draws::kAny, 2);
          Elements<int64_t> place(n, Draws::kAny, 1);
          for (size_t i = 0; i < n; ++i) place.data()[i] = -1;
          for (size_t tap = 0; tap < kTaps; ++tap) {
            row.Of<T>().greatest({.n = n,
                                  .x = x.data() + tap,
                                  .x_step = static_cast<ptrdiff_t>(step),
                                  .first = static_cast<int64_t>(tap),
                                  .best = best.data(),
                                  .place = place.data()});
          }
          for (size_t i = 0; i < n; ++i) {
            const T* window = x.data() + i * step;
            const int64_t expected = PlainArg({}, kTaps, window, 1);
            ASSERT_EQ(place.data()[i], expected + static_cast<int64_t>(i * step)) << n << " " << step << " " << i;
            ASSERT_EQ(std::memcmp(best.data() + i, window + expected, sizeof(T)), 0) << n << " " << step << " " << i;
          }
        }
      }
    }
  });
}

TEST(FoldRows, TopRows) {
  ForEachType([]<typename T>(const FoldKernel& row) {
    if constexpr (sizeof(T) >= 4 && std::is_signed_v<T>) {
      for (const Draws draws : {Draws::kAny, Draws::kFew, Draws::kSpecial}) {
        for (size_t n : {1, 2, 3, 7, 16, 31, 64, 100}) {
          for (size_t k : {1, 2, 5, 16}) {
            for (size_t rows : {k, k + 1, size_t{70}}) {
              const bool smallest = (n + rows) % 2 != 0;
              const size_t stride = n + 5;
              Elements<T> x((rows - 1) * stride + n, draws, static_cast<uint32_t>(rows)), values(n * k, Draws::kAny, 1);
              Elements<int64_t> places(n * k, Draws::kAny, 1);
              row.Of<T>().top_rows({.smallest = smallest,
                                    .rows = rows,
                                    .n = n,
                                    .k = k,
                                    .x = x.data(),
                                    .row_stride = static_cast<ptrdiff_t>(stride),
                                    .values = values.data(),
                                    .places = places.data(),
                                    .y_stride = static_cast<ptrdiff_t>(n)});
              for (size_t c = 0; c < n; ++c) {
                std::vector<int64_t> order(rows);
                std::iota(order.begin(), order.end(), int64_t{0});
                std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
                  const T u = x.data()[static_cast<size_t>(a) * stride + c];
                  const T v = x.data()[static_cast<size_t>(b) * stride + c];
                  if (u == v || (u != u && v != v)) return a < b;
                  return smallest ? u < v || v != v : u > v || u != u;
                });
                for (size_t j = 0; j < k; ++j) {
                  ASSERT_EQ(places.data()[j * n + c], order[j]) << rows << " " << n << " " << k << " " << c;
                  const T* expected = x.data() + static_cast<size_t>(order[j]) * stride + c;
                  ASSERT_EQ(std::memcmp(values.data() + j * n + c, expected, sizeof(T)), 0) << rows << " " << n;
                }
              }
            }
          }
        }
      }
    }
  });
}

TEST(FoldRows, PlacesOfZerosAndNaNs) {
  for (const FoldKernel* row : Rows()) {
    const double zeros[] = {-1, -0.0, 0.0, -0.0};
    EXPECT_EQ(row->f64.arg({.which = {}, .n = 4, .x = zeros}), 1u);
    EXPECT_EQ(row->f64.arg({.which = {.last = true}, .n = 4, .x = zeros}), 3u);
    const float nans[] = {1, NAN, INFINITY, NAN};
    for (int w = 0; w < 4; ++w) {
      EXPECT_EQ(row->f32.arg({.which = {.smallest = (w & 1) != 0, .last = (w & 2) != 0}, .n = 4, .x = nans}), 1u);
    }
    const double all[] = {-INFINITY, -INFINITY};
    EXPECT_EQ(row->f64.arg({.which = {}, .n = 2, .x = all}), 0u);
    EXPECT_EQ(row->f64.arg({.which = {.last = true}, .n = 2, .x = all}), 1u);
  }
}

TEST(FoldRows, RunningSums) {
  ForEachType([]<typename T>(const FoldKernel& row) {
    if constexpr (sizeof(T) > 1) {
      for (int w = 0; w < 16; ++w) {
        const bool product = w & 1, exclusive = w & 2, reverse = w & 4, in_place = w & 8;
        for (size_t n : {1, 2, 3, 8, 17, 31, 64, 150}) {
          for (size_t rows : {0, 1, 2, 40}) {
            const size_t stride = n + 1, size = rows == 0 ? 0 : (rows - 1) * stride + n;
            Elements<T> x(size, Draws::kAny, 3), y(size, Draws::kAny, 4);
            const std::vector<T> source(x.data(), x.data() + size);
            const size_t first = reverse && rows > 0 ? (rows - 1) * stride : 0;
            T* to = in_place ? x.data() : y.data();
            row.Of<T>().running_sum(
                {.product = product,
                 .exclusive = exclusive,
                 .rows = rows,
                 .n = n,
                 .x = x.data() + first,
                 .y = to + first,
                 .row_stride = reverse ? -static_cast<ptrdiff_t>(stride) : static_cast<ptrdiff_t>(stride)});
            for (size_t c = 0; c < n; ++c) {
              using U = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
              U sum = product ? 1 : 0;
              for (size_t r = 0; r < rows; ++r) {
                const size_t at = (reverse ? rows - 1 - r : r) * stride + c;
                const U v = static_cast<U>(source[at]), next = product ? sum * v : sum + v;
                ASSERT_EQ(to[at], static_cast<T>(exclusive ? sum : next)) << rows << " " << n << " " << w;
                sum = next;
              }
            }
          }
        }
      }
    }
  });
}

TEST(FoldRows, EachCpuGetsItsWidestRow) {
  EXPECT_STREQ(Name(*SelectFoldRow(CpuFacts{})).text, "fold_any_portable");
  const FoldKernel* chosen = SelectFoldRow(HostCpu().facts());
  for (const FoldKernel* row : Rows()) EXPECT_GE(chosen->vector_bytes, row->vector_bytes);
}

}  // namespace
}  // namespace quern::ukernel
