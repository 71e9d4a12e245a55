// Floats of 8 bits in every row of the elementwise and affine families against base/float8.h.
#include <string>

#include "base/cpu.h"
#include "base/float8.h"
#include "ukernel/affine.h"
#include "ukernel/elementwise/elementwise_test_rows.h"

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
  std::vector<const AffineKernel*> rows;
  for (const KernelList<AffineKernel>* list : AllAffineKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      if (list->rows[i].quantize && IsaRunsOn(list->rows[i].isa, HostCpu().facts())) rows.push_back(&list->rows[i]);
    }
  }
  return rows;
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

}  // namespace
}  // namespace quern::ukernel
