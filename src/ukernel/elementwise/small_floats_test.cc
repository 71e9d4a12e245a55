// Floats of 8 bits in every row of the elementwise and affine families against base/float8.h; those of 6 and 4 bits
// against what the OCP Microscaling specification lists.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/cpu.h"
#include "base/float8.h"
#include "ukernel/affine.h"
#include "ukernel/elementwise/elementwise_test_rows.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/rows_that_run.h"

namespace quern::ukernel {
namespace {

struct Kind {
  DType dtype;
  const SmallFloat* format;  // null: f8e8m0
};
constexpr Kind kKinds[] = {{DType::kF8E4M3FN, &kFloat8E4M3FN},
                           {DType::kF8E4M3FNUZ, &kFloat8E4M3FNUZ},
                           {DType::kF8E5M2, &kFloat8E5M2},
                           {DType::kF8E5M2FNUZ, &kFloat8E5M2FNUZ},
                           {DType::kF8E8M0, nullptr}};

float Widened(const Kind& k, uint8_t byte) { return k.format ? SmallFloatToF32(byte, *k.format) : E8M0ToF32(byte); }
uint8_t Narrowed(const Kind& k, float x, Overflow overflow, E8M0Rounding rounding) {
  return k.format ? F32ToSmallFloat(x, *k.format, overflow) : F32ToE8M0(x, rounding, overflow != Overflow::kSpecial);
}

std::vector<uint8_t> AllBytes() {
  std::vector<uint8_t> bytes(256);
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
  return bytes;
}

// Every exponent and sign with fractions around what ties and carries depend on, and any bits.
std::vector<float> Numbers() {
  std::vector<float> x = DrawElements<float>(20000, 31);
  for (uint32_t high = 0; high < 512; ++high) {
    for (uint32_t top = 0; top < 32; ++top) {
      for (const uint32_t off : {0u, 1u, 0x3ffffu, ~0u}) x.push_back(FloatOf((high << 23) + (top << 18) + off));
    }
  }
  return x;
}

std::vector<const AffineKernel*> AffineRows() {
  return RowsThatRun(AllAffineKernels(), &AffineKernel::quantize, HostCpu().facts());
}

TEST(SmallFloats, ConversionsAreExact) {
  const std::vector<uint8_t> bytes = AllBytes();
  const std::vector<float> x = Numbers();
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    for (const Kind& k : kKinds) {
      const UnaryRow widen = row->unary(UnaryKind::kConvert, k.dtype, DType::kF32);
      const UnaryRow narrow = row->unary(UnaryKind::kConvert, DType::kF32, k.dtype);
      ASSERT_TRUE(widen && narrow);
      std::vector<float> wide(bytes.size());
      widen(256, bytes.data(), wide.data(), {});
      for (const uint8_t b : bytes) {
        ASSERT_EQ(BitsOf(wide[b]), BitsOf(Widened(k, b))) << Name(*row).text << DTypeName(k.dtype) << int{b};
      }
      for (const Overflow overflow : {Overflow::kSaturate, Overflow::kSaturateFinite, Overflow::kSpecial}) {
        for (const E8M0Rounding rounding : {E8M0Rounding::kUp, E8M0Rounding::kDown, E8M0Rounding::kNearest}) {
          std::vector<uint8_t> y(x.size());
          narrow(static_cast<int64_t>(x.size()), x.data(), y.data(),
                 {.a = static_cast<double>(overflow), .b = static_cast<double>(rounding)});
          for (size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(y[i], Narrowed(k, x[i], overflow, rounding))
                << Name(*row).text << " " << DTypeName(k.dtype) << " of " << x[i] << ", " << static_cast<int>(overflow);
          }
        }
      }
    }
  }
}

TEST(SmallFloats, QuantizedByEachScale) {
  const std::vector<float> x = Numbers();
  const std::vector<uint8_t> bytes = AllBytes();
  std::vector<float> scales(x.size());
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.3f + static_cast<float>(i % 7);
  for (const AffineKernel* row : AffineRows()) {
    for (const Kind& k : kKinds) {
      if (!k.format) continue;
      for (const size_t step : {size_t{0}, size_t{1}}) {
        for (const Overflow overflow : {Overflow::kSaturate, Overflow::kSpecial}) {
          std::vector<uint8_t> y(x.size());
          row->quantize({.type = k.dtype,
                         .n = x.size(),
                         .x = x.data(),
                         .y = y.data(),
                         .scale = scales.data(),
                         .scale_step = step,
                         .overflow = overflow});
          for (size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(y[i], F32ToSmallFloat(x[i] / scales[i * step], *k.format, overflow)) << Name(*row).text;
          }
        }
        std::vector<float> z(bytes.size());
        row->dequantize({.type = k.dtype,
                         .n = z.size(),
                         .x = bytes.data(),
                         .y = z.data(),
                         .scale = scales.data(),
                         .scale_step = step});
        for (const uint8_t b : bytes) ASSERT_TRUE(IsSame(z[b], SmallFloatToF32(b, *k.format) * scales[b * step]));
      }
    }
  }
}

// Numbers of 6 and 4 bits: a sign, then these magnitudes in order.
struct PackedKind {
  DType dtype;
  int bits;
  std::vector<double> magnitudes;
};
std::vector<PackedKind> PackedKinds() {
  PackedKind e2m1{DType::kF4E2M1, 4, {0, 0.5, 1, 1.5, 2, 3, 4, 6}};
  PackedKind e2m3{DType::kF6E2M3, 6, {}}, e3m2{DType::kF6E3M2, 6, {}};
  for (int i = 0; i < 8; ++i) e2m3.magnitudes.push_back(i / 8.0);
  for (const double power : {1.0, 2.0, 4.0}) {
    for (int i = 0; i < 8; ++i) e2m3.magnitudes.push_back(power * (1 + i / 8.0));  // to 7.5
  }
  for (int i = 0; i < 4; ++i) e3m2.magnitudes.push_back(i / 16.0);
  for (const double power : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0}) {
    for (int i = 0; i < 4; ++i) e3m2.magnitudes.push_back(power * (1 + i / 4.0));  // to 28
  }
  return {e2m1, e2m3, e3m2};
}

// The nearest number, of two the one with the even code; the largest for what is beyond it; -0 for a NaN.
uint8_t NearestCode(const PackedKind& k, float x) {
  const auto sign = static_cast<uint8_t>(k.magnitudes.size());
  if (std::isnan(x)) return sign;
  const double a = std::fabs(static_cast<double>(x));
  size_t best = 0;
  for (size_t code = 1; code < k.magnitudes.size(); ++code) {
    const double here = std::fabs(a - k.magnitudes[code]), there = std::fabs(a - k.magnitudes[best]);
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  if (a > k.magnitudes.back()) best = k.magnitudes.size() - 1;
  return static_cast<uint8_t>(best | (std::signbit(x) ? sign : 0u));
}
size_t PackedBytes(size_t count, int bits) { return (count * static_cast<size_t>(bits) + 7) / 8; }
// Bit by bit.
uint8_t CodeAt(const uint8_t* packed, size_t i, int bits) {
  uint8_t code = 0;
  for (size_t b = 0; b < static_cast<size_t>(bits); ++b) {
    const size_t at = i * static_cast<size_t>(bits) + b;
    code = static_cast<uint8_t>(code | (packed[at / 8] >> at % 8 & 1) << b);
  }
  return code;
}

// Bounds between two numbers have 6 significant bits or fewer: floats that have their low 16 bits cleared, and those
// next to such, show every choice.
std::vector<float> AroundEveryBound() {
  std::vector<float> x;
  for (uint32_t high = 0; high < 65536; ++high) {
    for (const uint32_t off : {0u, 1u, ~0u}) x.push_back(FloatOf((high << 16) + off));
  }
  return x;
}

TEST(SmallFloats, PackedFloatsAreTheNearest) {
  const std::vector<float> x = AroundEveryBound();
  for (const PackedKind& k : PackedKinds()) {
    std::vector<uint8_t> expected(x.size());
    std::transform(x.begin(), x.end(), expected.begin(), [&](float v) { return NearestCode(k, v); });
    for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
      const UnaryRow narrow = row->unary(UnaryKind::kConvert, DType::kF32, k.dtype);
      ASSERT_TRUE(narrow);
      for (const Overflow overflow : {Overflow::kSaturate, Overflow::kSaturateFinite, Overflow::kSpecial}) {
        std::vector<uint8_t> y(PackedBytes(x.size(), k.bits));
        narrow(static_cast<int64_t>(x.size()), x.data(), y.data(), {.a = static_cast<double>(overflow)});
        for (size_t i = 0; i < x.size(); ++i) {
          ASSERT_EQ(CodeAt(y.data(), i, k.bits), expected[i]) << Name(*row).text << DTypeName(k.dtype) << " " << x[i];
        }
      }
    }
  }
}

// Rows of any length that end at guard pages; every code at every place in its bytes.
TEST(SmallFloats, PackedFloatsOfAnyLength) {
  for (const PackedKind& k : PackedKinds()) {
    const size_t codes = 2 * k.magnitudes.size();
    for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
      const UnaryRow widen = row->unary(UnaryKind::kConvert, k.dtype, DType::kF32);
      const UnaryRow narrow = row->unary(UnaryKind::kConvert, DType::kF32, k.dtype);
      ASSERT_TRUE(widen && narrow);
      for (size_t n = 0; n <= 140; ++n) {
        const size_t bytes = PackedBytes(n, k.bits);
        GuardedBuffer packed(bytes), wide(n * sizeof(float)), back(bytes);
        auto* stored = reinterpret_cast<uint8_t*>(packed.data());
        for (size_t b = 0; b < bytes; ++b) stored[b] = static_cast<uint8_t>(b * 37 + n * 11);
        if (n * static_cast<size_t>(k.bits) % 8) stored[bytes - 1] &= static_cast<uint8_t>((1u << n * k.bits % 8) - 1);
        widen(static_cast<int64_t>(n), packed.data(), wide.data(), {});
        const auto* numbers = reinterpret_cast<const float*>(wide.data());
        for (size_t i = 0; i < n; ++i) {
          const size_t code = CodeAt(stored, i, k.bits), magnitude = code % (codes / 2);
          const double number = code < codes / 2 ? k.magnitudes[magnitude] : -k.magnitudes[magnitude];
          ASSERT_EQ(BitsOf(numbers[i]), BitsOf(static_cast<float>(number))) << Name(*row).text << " code " << code;
        }
        std::memset(back.data(), 0xff, bytes);
        narrow(static_cast<int64_t>(n), wide.data(), back.data(), {});
        ASSERT_EQ(std::memcmp(back.data(), packed.data(), bytes), 0) << Name(*row).text << " of " << n;
      }
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
