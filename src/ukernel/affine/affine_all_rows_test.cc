// Every row of the affine family against the formulas, written with the standard library; operands end at guard pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/float16.h"
#include "ukernel/affine.h"
#include "ukernel/epilogue.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/rows_that_run.h"

namespace quern::ukernel {
namespace {

constexpr size_t kCounts[] = {0, 1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 257};

std::vector<const AffineKernel*> Rows() {
  return RowsThatRun(AllAffineKernels(), &AffineKernel::quantize, HostCpu().facts());
}

std::mt19937& Random() {
  static std::mt19937 random(5);
  return random;
}
float DrawFloat() {
  const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 3e38f, -3e38f, 1e-40f};
  if (Random()() % 16 == 0) return special[Random()() % 8];
  const float halves = static_cast<float>(static_cast<int>(Random()() % 2000) - 1000) * 0.125f;  // ties, often
  return Random()() % 4 == 0 ? halves * 1000 : halves;
}
float DrawScale() {
  const float scales[] = {0.25f, 0.5f, 1.0f, 0.02f, 3.3f, 1e-3f};
  return scales[Random()() % 6];
}

template <typename T>
T QuantizedByRule(float x, float scale, T zero) {
  const double q = std::nearbyint(static_cast<double>(x / scale)) + zero;
  const double low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  return static_cast<T>(q > low ? std::min(q, high) : low);
}

// Any bits, and numbers near those that bytes stand for.
template <typename X>
X Draw() {
  if constexpr (sizeof(X) == 2) {
    if (Random()() % 4 == 0) return X::FromBits(static_cast<uint16_t>(Random()()));
    return X(DrawFloat());
  } else {
    return DrawFloat();
  }
}
template <typename X>
constexpr DType kFloatType = DType::kF32;
template <>
constexpr DType kFloatType<Float16> = DType::kF16;
template <>
constexpr DType kFloatType<BFloat16> = DType::kBF16;

// The same bits, or both NaN.
template <typename X>
bool IsSame(X a, X b) {
  const float u = static_cast<float>(a), v = static_cast<float>(b);
  return (std::isnan(u) && std::isnan(v)) || std::memcmp(&a, &b, sizeof(X)) == 0;
}

template <typename T, typename X>
void CheckQuantize(const AffineKernel& row, DType type) {
  for (const size_t n : kCounts) {
    for (int form = 0; form < 4; ++form) {  // one scale, a scale for each, a zero point for each, no zero points
      GuardedArray<X> x(n);
      GuardedArray<float> scale(form == 0 ? 1 : n);
      GuardedArray<T> zero(form == 2 ? n : 1), y(n);
      for (X& v : x) v = Draw<X>();
      for (float& v : scale) v = DrawScale();
      for (T& v : zero) v = static_cast<T>(Random()());
      row.quantize({.type = type,
                    .source = kFloatType<X>,
                    .n = n,
                    .x = x.data(),
                    .y = y.data(),
                    .scale = scale.data(),
                    .zero = form == 3 ? nullptr : zero.data(),
                    .scale_step = form > 0,
                    .zero_step = form == 2});
      for (size_t i = 0; i < n; ++i) {
        const T z = form == 3 ? T{0} : zero[form == 2 ? i : 0];
        const float s = scale[form == 0 ? 0 : i];
        const float number = static_cast<float>(x[i]);
        ASSERT_EQ(y[i], QuantizedByRule<T>(number, s, z)) << Name(row).text << " " << number << " / " << s;
      }
    }
  }
}

template <typename T, typename X>
void CheckDequantize(const AffineKernel& row, DType type) {
  for (const size_t n : kCounts) {
    for (int form = 0; form < 4; ++form) {
      GuardedArray<X> y(n);
      GuardedArray<float> scale(form == 0 ? 1 : n);
      GuardedArray<T> zero(form == 2 ? n : 1), x(n);
      for (T& v : x) v = static_cast<T>(Random()());
      for (float& v : scale) v = DrawScale();
      for (T& v : zero) v = static_cast<T>(Random()());
      row.dequantize({.type = type,
                      .target = kFloatType<X>,
                      .n = n,
                      .x = x.data(),
                      .y = y.data(),
                      .scale = scale.data(),
                      .zero = form == 3 ? nullptr : zero.data(),
                      .scale_step = form > 0,
                      .zero_step = form == 2});
      for (size_t i = 0; i < n; ++i) {
        const int64_t z = form == 3 ? 0 : zero[form == 2 ? i : 0];
        const float expected = static_cast<float>(static_cast<int64_t>(x[i]) - z) * scale[form == 0 ? 0 : i];
        ASSERT_TRUE(IsSame(y[i], X(expected))) << Name(row).text << " " << static_cast<int64_t>(x[i]) << " - " << z;
      }
    }
  }
}

template <typename X>
void CheckFloats(const AffineKernel& row) {
  ASSERT_NO_FATAL_FAILURE((CheckQuantize<int8_t, X>(row, DType::kI8)));
  ASSERT_NO_FATAL_FAILURE((CheckQuantize<uint8_t, X>(row, DType::kU8)));
  ASSERT_NO_FATAL_FAILURE((CheckQuantize<int16_t, X>(row, DType::kI16)));
  ASSERT_NO_FATAL_FAILURE((CheckQuantize<uint16_t, X>(row, DType::kU16)));
  ASSERT_NO_FATAL_FAILURE((CheckDequantize<int8_t, X>(row, DType::kI8)));
  ASSERT_NO_FATAL_FAILURE((CheckDequantize<uint8_t, X>(row, DType::kU8)));
  ASSERT_NO_FATAL_FAILURE((CheckDequantize<int16_t, X>(row, DType::kI16)));
  ASSERT_NO_FATAL_FAILURE((CheckDequantize<uint16_t, X>(row, DType::kU16)));
  ASSERT_NO_FATAL_FAILURE((CheckDequantize<int32_t, X>(row, DType::kI32)));
}

TEST(AffineRows, QuantizeAndDequantize) {
  for (const AffineKernel* row : Rows()) {
    ASSERT_NO_FATAL_FAILURE(CheckFloats<float>(*row));
    ASSERT_NO_FATAL_FAILURE(CheckFloats<Float16>(*row));
    ASSERT_NO_FATAL_FAILURE(CheckFloats<BFloat16>(*row));
  }
}

// Quotients in the middle between two integers and a few steps of float32 beside it, where a product with the scale's
// reciprocal would round to another byte; and scales whose reciprocals are no normal numbers.
template <typename T>
void CheckMiddles(const AffineKernel& row, DType type) {
  constexpr size_t kBlock = 128, kCount = kBlock * 21 + 5;
  for (int round = 0; round < 200; ++round) {
    const float special[] = {1e-40f, 3e-39f, 2e38f, 0.0f, NAN, INFINITY};
    const float scale = round < 6 ? special[round] : DrawScale();
    const T zero = static_cast<T>(Random()());
    GuardedArray<float> x(kCount);
    GuardedArray<T> y(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      const bool middle = i / kBlock % 2 && i % kBlock == i / kBlock;  // one among numbers that are sure
      const float beside = middle ? 0.5f : static_cast<float>(Random()() % 499) * 0.001f;
      x[i] = (static_cast<float>(static_cast<int>(Random()() % 600) - 300) + beside) * scale;
      for (auto steps = Random()() % 3; steps > 0; --steps) x[i] = std::nextafter(x[i], i % 2 ? INFINITY : -INFINITY);
    }
    row.quantize({.type = type, .n = kCount, .x = x.data(), .y = y.data(), .scale = &scale, .zero = &zero});
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(y[i], QuantizedByRule<T>(x[i], scale, zero)) << Name(row).text << " " << x[i] << " / " << scale;
    }
  }
}

TEST(AffineRows, QuantizesMiddlesBetweenIntegers) {
  for (const AffineKernel* row : Rows()) {
    ASSERT_NO_FATAL_FAILURE(CheckMiddles<int8_t>(*row, DType::kI8));
    ASSERT_NO_FATAL_FAILURE(CheckMiddles<uint8_t>(*row, DType::kU8));
  }
}

int32_t DrawSum() {
  const int32_t any = static_cast<int32_t>(Random()());
  return Random()() % 8 == 0 ? any : any % (Random()() % 2 ? 600 : 60000);
}

// A matrix of sums with scales per tensor, row or column, and zero points per column or one: against the rule in
// float64, and against the operation of an epilogue where that has the form.
template <typename T>
void CheckRequantize(const AffineKernel& row, DType type) {
  enum { kTensor, kRow, kColumn, kColumnZeros, kForms };
  constexpr size_t kLines = 3;
  for (const size_t n : kCounts) {
    for (int form = 0; form < kForms; ++form) {
      const bool columns = form >= kColumn;
      GuardedArray<int32_t> x(kLines * n);
      GuardedArray<float> scale(form == kTensor ? 1 : form == kRow ? kLines : n);
      GuardedArray<T> zero(form == kColumnZeros ? n : 1), y(kLines * n);
      for (int32_t& v : x) v = DrawSum();
      const float special[] = {NAN, INFINITY, 0.0f, 3e38f, -0.5f};
      for (float& v : scale) v = Random()() % 16 ? DrawScale() : special[Random()() % 5];
      for (T& v : zero) v = static_cast<T>(Random()());
      const bool none = form == kTensor && n % 2 == 0;
      for (size_t m = 0; m < kLines; ++m) {
        row.requantize({.type = type,
                        .n = n,
                        .x = x.data() + m * n,
                        .y = y.data() + m * n,
                        .scale = scale.data() + (form == kRow ? m : 0),
                        .zero = none ? nullptr : zero.data(),
                        .scale_step = columns,
                        .zero_step = form == kColumnZeros});
        std::vector<T> stored(n);
        const EpilogueOp op{.kind = EpilogueKind::kRequantize,
                            .format = type == DType::kI8 ? Format::kI8 : Format::kU8,
                            .data = columns ? scale.data() : nullptr,
                            .scale = columns ? 0 : scale[form == kRow ? m : 0],
                            .integer = none || form == kColumnZeros ? 0 : zero[0]};
        ApplyEpilogue(&op, 1,
                      {.m = 1,
                       .n = n,
                       .src = x.data() + m * n,
                       .src_row_stride = 4 * n,
                       .src_format = Format::kI32,
                       .dst = stored.data(),
                       .dst_row_stride = n});
        for (size_t i = 0; i < n; ++i) {
          const float s = scale[columns ? i : form == kRow ? m : 0];
          const T z = none ? T{0} : zero[form == kColumnZeros ? i : 0];
          const double q = std::nearbyint(static_cast<double>(static_cast<float>(x[m * n + i]) * s)) + z;
          const double low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
          ASSERT_EQ(y[m * n + i], static_cast<T>(q > low ? std::min(q, high) : low))
              << Name(row).text << " " << x[m * n + i] << " * " << s << " + " << +z;
          if (form != kColumnZeros) {
            ASSERT_EQ(y[m * n + i], stored[i]) << Name(row).text << " and the epilogue";
          }
        }
      }
    }
  }
}

TEST(AffineRows, Requantize) {
  for (const AffineKernel* row : Rows()) {
    ASSERT_NO_FATAL_FAILURE(CheckRequantize<int8_t>(*row, DType::kI8));
    ASSERT_NO_FATAL_FAILURE(CheckRequantize<uint8_t>(*row, DType::kU8));
  }
}

ByteScale DrawByteScale(bool is_signed) {
  const auto byte = static_cast<uint8_t>(Random()());
  return {.scale = DrawScale(), .zero_point = is_signed ? static_cast<int8_t>(byte) : byte, .is_signed = is_signed};
}
int32_t NumberOf(const ByteScale& s, uint8_t bits) { return s.is_signed ? static_cast<int8_t>(bits) : bits; }
uint8_t ByteByRule(const ByteScale& s, double number) {
  const double q = std::nearbyint(number / s.scale) + s.zero_point;
  const double low = s.is_signed ? -128 : 0, high = s.is_signed ? 127 : 255;
  return static_cast<uint8_t>(static_cast<int32_t>(q > low ? std::min(q, high) : low));
}

TEST(AffineRows, CombinesBytes) {
  for (const AffineKernel* row : Rows()) {
    for (const size_t n : kCounts) {
      for (unsigned form = 0; form < 16; ++form) {
        const bool multiply = form & 1, is_signed = form & 2;
        const size_t x_step = form >> 2 & 1, z_step = form >> 3;
        GuardedArray<uint8_t> x(x_step ? n : 1), z(z_step ? n : 1), y(n);
        for (uint8_t& v : x) v = static_cast<uint8_t>(Random()());
        for (uint8_t& v : z) v = static_cast<uint8_t>(Random()());
        const ByteScale a = DrawByteScale(is_signed), b = DrawByteScale(is_signed), to = DrawByteScale(is_signed);
        row->combine({.multiply = multiply,
                      .n = n,
                      .x = x.data(),
                      .z = z.data(),
                      .y = y.data(),
                      .x_step = x_step,
                      .z_step = z_step,
                      .x_scale = a,
                      .z_scale = b,
                      .y_scale = to});
        for (size_t i = 0; i < n; ++i) {
          const double u = a.scale * (NumberOf(a, x[i * x_step]) - a.zero_point);
          const double v = b.scale * (NumberOf(b, z[i * z_step]) - b.zero_point);
          ASSERT_EQ(y[i], ByteByRule(to, multiply ? u * v : u + v)) << Name(*row).text << " " << form;
        }
      }
    }
  }
}

// Every pair of bytes, also where quotients are middles between integers or next to them, and of scales far apart.
TEST(AffineRows, CombinesEveryPairOfBytes) {
  std::vector<uint8_t> x(65536), z(65536), y(65536);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<uint8_t>(i);
    z[i] = static_cast<uint8_t>(i / 256);
  }
  const double ulp = 0x1p-23;
  const std::vector<std::array<double, 3>> scales = {{1, 1, 2},
                                                     {1, 1, 2 * (1 + ulp)},
                                                     {1, 1 + ulp, 2},
                                                     {0.5, 0.25, 1},
                                                     {0.1f, 0.1f, 0.2f},
                                                     {0.1f, 0.3f, 0.2f},
                                                     {0.01f, 0.013f, 0.011f},
                                                     {0.02f, 0.02f, 1e-4f},
                                                     {3e-39f, 1e-3f, 1e-3f},
                                                     {1e30f, 1e30f, 1e-30f},
                                                     {1e-30f, 1e-30f, 1e30f},
                                                     {1, 1e-30f, 1},
                                                     {5.3f, 5.9f, 1},
                                                     {5.9f, 5.9f, 1}};
  for (const AffineKernel* row : Rows()) {
    for (const auto& [x_scale, z_scale, y_scale] : scales) {
      for (unsigned form = 0; form < 4; ++form) {
        const bool multiply = form & 1, is_signed = form & 2;
        ByteScale a = DrawByteScale(is_signed), b = DrawByteScale(is_signed), to = DrawByteScale(is_signed);
        a.scale = x_scale;
        b.scale = z_scale;
        to.scale = y_scale;
        row->combine({.multiply = multiply,
                      .n = x.size(),
                      .x = x.data(),
                      .z = z.data(),
                      .y = y.data(),
                      .x_scale = a,
                      .z_scale = b,
                      .y_scale = to});
        for (size_t i = 0; i < x.size(); ++i) {
          const double u = a.scale * (NumberOf(a, x[i]) - a.zero_point);
          const double v = b.scale * (NumberOf(b, z[i]) - b.zero_point);
          ASSERT_EQ(y[i], ByteByRule(to, multiply ? u * v : u + v)) << Name(*row).text << " " << form << " " << y_scale;
        }
      }
    }
  }
}

TEST(AffineRows, MapsBytesInPlaceAndNot) {
  std::array<uint8_t, 256> table;
  for (uint8_t& v : table) v = static_cast<uint8_t>(Random()());
  for (const AffineKernel* row : Rows()) {
    for (const size_t n : {0, 1, 7, 8, 9, 31, 32, 63, 64, 65, 100, 1000}) {
      GuardedArray<uint8_t> x(n), y(n);
      for (size_t i = 0; i < n; ++i) x.data()[i] = static_cast<uint8_t>(n < 256 ? Random()() : i);
      row->map({.table = table.data(), .n = n, .x = x.data(), .y = y.data()});
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], table[x[i]]) << Name(*row).text << " " << n;
      row->map({.table = table.data(), .n = n, .x = x.data(), .y = x.data()});
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(x[i], y[i]) << Name(*row).text << " " << n;
    }
  }
}

TEST(AffineRows, AveragesOfBytes) {
  const size_t windows[][3] = {{1, 1, 1}, {1, 1, 49}, {2, 3, 4}, {1, 2, 300}, {1, 1, 256}, {3, 1, 700}, {1, 1, 0}};
  for (const AffineKernel* row : Rows()) {
    for (const auto& taps : windows) {
      for (const size_t n : kCounts) {
        for (const bool is_signed : {false, true}) {
          const size_t pitch = n + 3, line = taps[2] * pitch + 5, plane = taps[1] * line;
          const bool none = taps[2] == 0 || n == 0;
          GuardedArray<uint8_t> x(none ? 0 : (taps[0] - 1) * plane + (taps[1] - 1) * line + (taps[2] - 1) * pitch + n),
              y(n);
          for (uint8_t& v : x) v = static_cast<uint8_t>(Random()() % 8 ? Random()() : 255);
          const ByteScale from = DrawByteScale(is_signed), to = DrawByteScale(is_signed);
          const double divisor = n % 2 ? 12 : static_cast<double>(taps[0] * taps[1] * taps[2]);
          row->average(
              {.taps = {taps[0], taps[1], taps[2]},
               .strides = {static_cast<ptrdiff_t>(plane), static_cast<ptrdiff_t>(line), static_cast<ptrdiff_t>(pitch)},
               .n = n,
               .x = x.data(),
               .y = y.data(),
               .divisor = divisor,
               .x_scale = from,
               .y_scale = to});
          for (size_t c = 0; c < n; ++c) {
            int64_t sum = 0;
            for (size_t t = 0; t < taps[0] * taps[1] * taps[2]; ++t) {
              const size_t i = t / taps[2] / taps[1], j = t / taps[2] % taps[1], k = t % taps[2];
              sum += NumberOf(from, x[i * plane + j * line + k * pitch + c]) - from.zero_point;
            }
            const double number = divisor == 0 ? 0 : from.scale * static_cast<double>(sum) / divisor;
            ASSERT_EQ(y[c], ByteByRule(to, number)) << Name(*row).text << " " << taps[2] << " taps, column " << c;
          }
        }
      }
    }
  }
}

TEST(AffineRows, EachCpuGetsItsWidestRow) {
  EXPECT_STREQ(Name(*SelectAffineRow(CpuFacts{})).text, "affine_any_portable");
  const AffineKernel* chosen = SelectAffineRow(HostCpu().facts());
  for (const AffineKernel* row : Rows()) EXPECT_GE(chosen->vector_bytes, row->vector_bytes);
}

}  // namespace
}  // namespace quern::ukernel
