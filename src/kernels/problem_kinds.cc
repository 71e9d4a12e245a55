#include "kernels/problem_kinds.h"

namespace quern::kernels {

std::vector<ProblemKind> ProblemKinds() {
  using F = Format;
  const auto blocks = [](Format lhs, Format rhs, Format scale, Format zero = F::kNone) {
    return GemmProblem{.lhs = lhs, .rhs = rhs, .block = 32, .scale = scale, .zero_point = zero};
  };
  const auto gguf = [](Format lhs, Format rhs, Format zero) {
    return GemmProblem{.lhs = lhs, .rhs = rhs, .scale = F::kF16, .zero_point = zero};
  };
  return {
      {"f32 by f32", {}},
      {"f32 by f32, fp32-fast", {.precision = Precision::kFp32Fast}},
      {"f32 by f32, bf16", {.precision = Precision::kBf16}},
      {"bf16 by bf16, fp32", {.lhs = F::kBf16, .rhs = F::kBf16}},
      {"bf16 by bf16", {.lhs = F::kBf16, .rhs = F::kBf16, .precision = Precision::kBf16}},
      {"f16 by f16", {.lhs = F::kF16, .rhs = F::kF16}},
      {"f16 by f16, fp16", {.lhs = F::kF16, .rhs = F::kF16, .precision = Precision::kFp16}},
      {"f32 by f16", {.rhs = F::kF16}},
      {"u8 by i8", {.lhs = F::kU8, .rhs = F::kI8, .precision = Precision::kExact}},
      {"i8 by i8", {.lhs = F::kI8, .rhs = F::kI8, .precision = Precision::kExact}},
      {"i8d by i8, channel scales", {.lhs = F::kI8d, .rhs = F::kI8, .channel_scales = true}},
      {"i8d by i4, channel scales", {.lhs = F::kI8d, .rhs = F::kI4, .channel_scales = true}},
      {"i8d by 4-bit blocks", blocks(F::kI8d, F::kU4, F::kBf16)},
      {"i8d by 2-bit blocks", blocks(F::kI8d, F::kU2, F::kF32)},
      {"i8d by 4-bit blocks with zero points", blocks(F::kI8d, F::kU4, F::kF32, F::kU8)},
      {"i8d by 8-bit blocks with zero points", blocks(F::kI8d, F::kU8, F::kF32, F::kU8)},
      {"f32 by 4-bit blocks", blocks(F::kF32, F::kU4, F::kF32)},
      {"f32 by 2-bit blocks", blocks(F::kF32, F::kU2, F::kF32)},
      {"f32 by 8-bit blocks", blocks(F::kF32, F::kU8, F::kF32)},
      {"i8d by q4_0", gguf(F::kI8d, F::kQ4_0, F::kNone)},
      {"i8d by q4_1", gguf(F::kI8d, F::kQ4_1, F::kF32)},
      {"i8d by q8_0", gguf(F::kI8d, F::kQ8_0, F::kNone)},
      {"i8b by q4_0", gguf(F::kI8b, F::kQ4_0, F::kNone)},
      {"i8b by q4_1", gguf(F::kI8b, F::kQ4_1, F::kF32)},
      {"i8b by q8_0", gguf(F::kI8b, F::kQ8_0, F::kNone)},
      {"f64 by f64", {.lhs = F::kF64, .rhs = F::kF64, .precision = Precision::kFp64}},
      {"f32 by f32 given at run time", {.rhs_constant = false, .rhs_contiguous = true}},
  };
}

}  // namespace quern::kernels
