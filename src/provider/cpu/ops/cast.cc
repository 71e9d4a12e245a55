// Cast and CastLike between plain number types and floats of 8 bits and fewer, by the rules of
// ukernel/elementwise/conversions.h and small_floats.h. BitCast.
#include "ops/common/any_types.h"
#include "ops/common/small_types.h"
#include "provider/cpu/common/plain_rows.h"
#include "provider/cpu/common/widened.h"

namespace quern::cpu {
namespace {

constexpr TypeSet kCastTypes =
    kNumericTypes | kFloat8Types | kFloat6Types | TypeSet{DType::kBool, DType::kF8E8M0, DType::kF4E2M1};

// The bits stay: those of integers of one width, and of a bool as an integer. Not of elements that share bytes.
bool IsCopy(DType from, DType to) {
  const bool whole = !IsFloatType(from) && !IsFloatType(to) && to != DType::kBool;
  return (from == to && DTypeBytes(to) > 0) || (whole && DTypeBytes(from) == DTypeBytes(to));
}

// Floats of 16 bits and fewer through float32.
std::vector<UnaryRow> FindRows(const ukernel::ElementwiseKernel& kernel, DType from, DType to) {
  if (IsCopy(from, to)) return {CopyRow(DTypeBytes(to))};
  std::vector<UnaryRow> rows;
  DType at = from;
  if (IsHalf(from) || IsSmallFloat(from)) {
    rows.push_back(kernel.unary(UnaryKind::kConvert, from, DType::kF32));
    at = DType::kF32;
  }
  if ((IsHalf(to) || IsSmallFloat(to)) && at != DType::kF32) {
    const UnaryRow odd = kernel.unary(UnaryKind::kRoundOdd, at, DType::kF32);  // of what float32 does not hold exactly
    rows.push_back(odd ? odd : kernel.unary(UnaryKind::kConvert, at, DType::kF32));
    at = DType::kF32;
  }
  if (at != to) rows.push_back(kernel.unary(UnaryKind::kConvert, at, to));
  return rows;
}

// Of CastLike, the second input's type.
DType Target(const Node& node) {
  return node.Is("CastLike") ? node.input(1)->type().dtype : static_cast<DType>(node.GetInt("to", 0));
}

std::string RejectCast(const Node& node, const CpuConfig&) {
  const DType from = node.input(0)->type().dtype, to = Target(node);
  if (!kCastTypes.Has(to)) return std::string("to type ") + DTypeName(to);
  return kCastTypes.Has(from) ? std::string() : std::string("type ") + DTypeName(from);
}

Result<std::unique_ptr<CpuKernel>> CompileCast(const Node& node, const CompileContext& context) {
  const DType from = node.input(0)->type().dtype, to = Target(node);
  const ukernel::ElementwiseKernel* kernel = ElementwiseRowFor(*context.config);
  QUERN_ASSIGN_OR_RETURN(const SmallFloatRules rules, ReadSmallFloatRules(node));
  return MakePlainUnary(
      {.name = "Cast to " + std::string(DTypeName(to)),
       .from = from,
       .kernel = IsCopy(from, to) ? nullptr : kernel,
       .rows = FindRows(*kernel, from, to),
       .parameters = {.a = static_cast<double>(rules.overflow), .b = static_cast<double>(rules.rounding)}});
}

std::string RejectBitCast(const Node& node, const CpuConfig&) {
  const DType from = node.input(0)->type().dtype;
  const size_t bytes = DTypeBytes(from);
  return bytes >= 1 && bytes <= 8 ? std::string() : std::string("type ") + DTypeName(from);
}

// Bytes read as bool are 0 or 1 afterwards.
Result<std::unique_ptr<CpuKernel>> CompileBitCast(const Node& node, const CompileContext& context) {
  const DType from = node.input(0)->type().dtype;
  PlainUnary what{.name = "BitCast", .from = from, .rows = {CopyRow(DTypeBytes(from))}};
  if (Target(node) == DType::kBool) {
    what.kernel = ElementwiseRowFor(*context.config);
    what.rows = {what.kernel->unary(UnaryKind::kConvert, DType::kU8, DType::kBool)};
  }
  return MakePlainUnary(std::move(what));
}

constexpr CpuOp kOps[] = {
    {"", "Cast", RejectCast, CompileCast},
    {"", "CastLike", RejectCast, CompileCast},
    {"", "BitCast", RejectBitCast, CompileBitCast},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsCast = kOps;

}  // namespace quern::cpu
