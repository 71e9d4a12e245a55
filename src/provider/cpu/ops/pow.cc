// Pow: the result has the base's type, the exponent any number type. Small constant powers are products.
#include <cmath>

#include "ops/common/dispatch.h"
#include "ops/common/saturate.h"
#include "provider/cpu/common/elementwise_operators.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

// Integers to powers with fractions have the C library's bits: what is cut off would differ else.
template <typename X>
bool LibraryPowers(int64_t n, const void* a, const void* b, void* y) {
  const X* x = static_cast<const X*>(a);
  const double* exponent = static_cast<const double*>(b);
  X* to = static_cast<X*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = SaturateTo<X>(std::pow(static_cast<double>(x[i]), exponent[i]));
  return true;
}

// The exponent has one element, so the result has as many as the base.
class SmallPowerKernel final : public CpuKernel {
 public:
  SmallPowerKernel(UnaryKind kind, const CpuConfig& config) : row_(VectorRowFor(config)), kind_(kind) {}
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    return MakeStep([n = context.outputs[0].shape.num_elements(), row = row_, kind = kind_](const StepContext& c) {
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        row->unary({.kind = kind,
                    .n = static_cast<size_t>(end - begin),
                    .x = static_cast<const float*>(c.inputs[0]) + begin,
                    .y = static_cast<float*>(c.outputs[0]) + begin});
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "Pow with a small constant exponent"); }

 private:
  const ukernel::VectorKernel* row_;
  UnaryKind kind_;
};

constexpr TypeSet kBases = {DType::kF32, DType::kF64, DType::kI32, DType::kI64};
constexpr TypeSet kExponents = TypeSet{DType::kF32, DType::kF64} | kSignedIntTypes | kUnsignedIntTypes;

std::string Reject(const Node& node, const CpuConfig&) {
  if (std::string why = RejectUnlessType(node.input(0), kBases); !why.empty()) return why;
  if (std::string why = RejectUnlessType(node.input(1), kExponents); !why.empty()) return why + " of the exponent";
  return RejectLegacyBroadcast(node);
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  const DType base = node.input(0)->type().dtype, given = node.input(1)->type().dtype;
  const ukernel::ElementwiseKernel* kernel = ElementwiseRowFor(*context.config);
  if (const auto small = FindSmallPower(node)) {
    if (base == DType::kF32) return std::unique_ptr<CpuKernel>(new SmallPowerKernel(*small, *context.config));
    const UnaryRow row = kernel->unary(*small, base, base);  // none for a copy
    return MakePlainUnary({.name = "Pow",
                           .from = base,
                           .kernel = row ? kernel : nullptr,
                           .rows = {row ? row : CopyRow(DTypeBytes(base))}});
  }
  // Exponents become float64 or int64, but for float32 of such a base.
  const bool as_they_are = base == DType::kF32 && given == DType::kF32;
  const DType exponents = as_they_are ? given : IsFloatType(given) ? DType::kF64 : DType::kI64;
  const UnaryKind conversion = given == DType::kU64 ? UnaryKind::kExponent : UnaryKind::kConvert;
  const BinaryRow row = kernel->binary(BinaryKind::kPow, base, exponents);
  return MakePlainBinary({.name = "Pow",
                          .from = base,
                          .kernel = row ? kernel : nullptr,
                          .row = row                   ? row
                                 : base == DType::kI32 ? LibraryPowers<int32_t>
                                                       : LibraryPowers<int64_t>,
                          .scalar = row ? "" : "by the C library",
                          .costly = true,
                          .convert = given == exponents ? nullptr : kernel->unary(conversion, given, exponents),
                          .fault = "negative power of integer zero"});
}

constexpr CpuOp kOps[] = {{"", "Pow", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsPow = kOps;

}  // namespace quern::cpu
