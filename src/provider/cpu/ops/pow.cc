// Pow: the result has the base's type, the exponent any number type. float32 to small constant powers through the
// vector micro-kernels.
#include <cmath>
#include <limits>
#include <optional>

#include "ops/common/elementwise.h"
#include "ops/common/integer_power.h"
#include "ops/common/saturate.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

using ukernel::UnaryKind;

// Exponents are double or int64 in all rows but one.
struct Power {
  template <typename X, typename Y>
  X operator()(X x, Y y) const {
    const double power = std::pow(static_cast<double>(x), static_cast<double>(y));
    if constexpr (std::is_integral_v<X>) {
      return SaturateTo<X>(power);
    } else {
      return static_cast<X>(power);
    }
  }
};
float PowerOfFloats(float x, float y) { return std::pow(x, y); }

// Of uint64, what int64 does not hold keeps its parity and is as good as infinite.
int64_t Exponent(uint64_t y) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return y <= static_cast<uint64_t>(kMost) ? static_cast<int64_t>(y) : kMost - static_cast<int64_t>(1 - (y & 1));
}

struct Itself {
  template <typename T>
  T operator()(T x) const {
    return x;
  }
};

// To int64 or double; null for those themselves.
UnaryRow ConversionOf(DType exponents) {
  if (exponents == DType::kF32) return UnaryLoop<float, double, Itself{}>;
  if (exponents == DType::kU64) return UnaryLoop<uint64_t, int64_t, Exponent>;
  using Narrow = Types<int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t>;
  return UnaryRowOf<Itself{}, int64_t>(Narrow{}, exponents);
}

// Null for bases that have none.
BinaryRow FindRow(DType base, DType exponents) {
  if (base == DType::kF32 && exponents == DType::kF32) return BinaryLoop<float, float, float, PowerOfFloats>;
  BinaryRow row = nullptr;
  const bool whole = !IsFloatType(exponents);
  static_cast<void>(DispatchType(Types<float, double, int32_t, int64_t>{}, base, [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) {
      row = whole ? BinaryLoop<T, int64_t, T, IntegerPower<T>> : BinaryLoop<T, double, T, Power{}>;
    } else {
      row = whole ? BinaryLoop<T, int64_t, T, Power{}> : BinaryLoop<T, double, T, Power{}>;
    }
    return OkStatus();
  }));
  return row;
}

double Square(double x) { return x * x; }
double Cube(double x) { return x * x * x; }

struct SmallPower {
  UnaryKind kind;
  UnaryRow f64;
};
std::optional<SmallPower> FindSmallPower(const Node& node) {
  const GraphValue *base = node.input(0), *exponent = node.input(1);
  if (!IsFloatType(base->type().dtype)) return std::nullopt;
  if (!exponent->is_constant() || exponent->constant()->tensor().num_elements() != 1) return std::nullopt;
  const Tensor& t = exponent->constant()->tensor();
  double e = 0;
  static_cast<void>(DispatchNumeric(t.dtype(), [&]<typename T>() {
    e = static_cast<double>(static_cast<ComputeType<T>>(*t.data<T>()));
    return OkStatus();
  }));
  if (e == 1) return SmallPower{UnaryKind::kCopy, CopyRow(sizeof(double))};
  if (e == 2) return SmallPower{UnaryKind::kSquare, UnaryLoop<double, double, Square>};
  if (e == 3) return SmallPower{UnaryKind::kCube, UnaryLoop<double, double, Cube>};
  return std::nullopt;
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
  const DType base = node.input(0)->type().dtype, exponents = node.input(1)->type().dtype;
  if (const auto small = FindSmallPower(node)) {
    if (base == DType::kF64) return MakePlainUnary({.name = "Pow", .from = base, .rows = {small->f64}});
    return std::unique_ptr<CpuKernel>(new SmallPowerKernel(small->kind, *context.config));
  }
  const bool as_they_are = base == DType::kF32 && exponents == DType::kF32;
  return MakePlainBinary({.name = "Pow",
                          .from = base,
                          .row = FindRow(base, exponents),
                          .costly = true,
                          .convert = as_they_are ? nullptr : ConversionOf(exponents),
                          .fault = "negative power of integer zero"});
}

constexpr CpuOp kOps[] = {{"", "Pow", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsPow = kOps;

}  // namespace quern::cpu
