// Elementwise operators of two or more broadcast inputs, of the inputs' type: Add, Sub, Mul, Div, Mod, Min, Max,
// Sum, Mean, PRelu. float32 through the vector micro-kernels where they have the function, other types by plain rows.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/common/elementwise.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

using ukernel::BinaryKind;

// Functions of two elements of one type; integers wrap around.
struct Plus {
  template <typename T>
  T operator()(T a, T b) const {
    return WrappingAdd(a, b);
  }
};
struct Minus {
  template <typename T>
  T operator()(T a, T b) const {
    return WrappingSub(a, b);
  }
};
struct Times {
  template <typename T>
  T operator()(T a, T b) const {
    return WrappingMul(a, b);
  }
};
// A NaN wins in both.
struct Least {
  template <typename T>
  T operator()(T a, T b) const {
    return a != a || a < b ? a : b;
  }
};
struct Most {
  template <typename T>
  T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};
struct Sloped {
  template <typename T>
  T operator()(T x, T slope) const {
    return x < T{0} ? WrappingMul(slope, x) : x;
  }
};
double Divided(double a, double b) { return a / b; }
double OverCount(double sum, const RowParameters& count) { return sum / count.a; }
struct Quotient {
  template <typename T>
  T operator()(T a, T b, bool& by_zero) const {
    if (b == T{0}) {
      by_zero = true;
      return T{0};
    }
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return WrappingSub(T{0}, a);  // the smallest number stays
    return static_cast<T>(a / b);
  }
};
// With the sign of the divisor, or (kDividend) of the dividend.
template <bool kDividend>
struct Remainder {
  template <typename T>
  T operator()(T a, T b, bool& by_zero) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == T{0}) {
        by_zero = true;
        return T{0};
      }
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T{0};
      const T r = static_cast<T>(a % b);
      return !kDividend && r != T{0} && (r < T{0}) != (b < T{0}) ? static_cast<T>(r + b) : r;
    } else {
      const T r = std::fmod(a, b);
      if (kDividend || r != r) return r;
      if (r == T{0}) return std::copysign(T{0}, b);
      return (r < T{0}) != (b < T{0}) ? r + b : r;
    }
  }
};

template <typename T, auto kF>
constexpr BinaryRow kRow = BinaryLoop<T, T, T, kF>;
template <auto kF, typename List = IntegerTypeList>
BinaryRow Integers(DType dtype) {
  return BinaryRowOf<kF>(List{}, dtype);
}
// Signed and unsigned alike.
template <auto kF>
BinaryRow IntegersByWidth(DType dtype) {
  return BinaryRowOf<kF>(UnsignedTypeList{}, AsUnsigned(dtype));
}

constexpr BinaryKind kNoKind = BinaryKind::kCount;
constexpr const char* kByZero = "integer division by zero";
struct BinaryOperator {
  const char* op_type;
  BinaryKind kind;  // kNoKind: float32 by `f32`
  BinaryRow f64;
  BinaryRow (*integers)(DType) = nullptr;  // null where there are none
  bool costly = false;                     // as scalar code
  BinaryRow f32 = nullptr;
};
constexpr BinaryOperator kOperators[] = {
    {"Add", BinaryKind::kAdd, kRow<double, Plus{}>, IntegersByWidth<Plus{}>},
    {"Sub", BinaryKind::kSub, kRow<double, Minus{}>, IntegersByWidth<Minus{}>},
    {"Mul", BinaryKind::kMul, kRow<double, Times{}>, IntegersByWidth<Times{}>},
    {"Div", BinaryKind::kDiv, kRow<double, Divided>, Integers<Quotient{}>, true},
    {"Min", BinaryKind::kMin, kRow<double, Least{}>, Integers<Least{}>},
    {"Max", BinaryKind::kMax, kRow<double, Most{}>, Integers<Most{}>},
    {"Sum", BinaryKind::kAdd, kRow<double, Plus{}>},
    {"Mean", BinaryKind::kAdd, kRow<double, Plus{}>},
    {"PRelu", BinaryKind::kPrelu, kRow<double, Sloped{}>,
     Integers<Sloped{}, Types<int32_t, int64_t, uint32_t, uint64_t>>},
    {"Mod", kNoKind, kRow<double, Remainder<false>{}>, Integers<Remainder<false>{}>, true,
     kRow<float, Remainder<false>{}>},
};
// Mod with attribute fmod.
constexpr BinaryOperator kFmod = {
    "Mod", kNoKind, kRow<double, Remainder<true>{}>, Integers<Remainder<true>{}>, true, kRow<float, Remainder<true>{}>};

const BinaryOperator& Find(const Node& node) {
  if (node.Is("Mod") && node.GetInt("fmod", 0) != 0) return kFmod;
  return *std::find_if(std::begin(kOperators), std::end(kOperators),
                       [&](const BinaryOperator& o) { return node.op_type() == o.op_type; });
}

// PRelu's slope broadcasts to x one way only, which the walk does not care about.
class VectorBinaryKernel final : public CpuKernel {
 public:
  VectorBinaryKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)), name_(node.op_type()), kind_(Find(node).kind), mean_(name_ == "Mean") {}
  Placement Place(const BindContext& context) const override { return PlaceBinary(context); }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& out = context.outputs[0].shape;
    const int64_t n = out.num_elements();
    const float count = static_cast<float>(context.inputs.size());
    if (n == 0) return NothingToDo();
    if (context.inputs.size() == 1) {
      return MakeStep([n, row = row_](const StepContext& c) {
        row->unary({.n = static_cast<size_t>(n),
                    .x = static_cast<const float*>(c.inputs[0]),
                    .y = static_cast<float*>(c.outputs[0])});
        return OkStatus();
      });
    }
    std::vector<BroadcastWalk<2>> walks = {BroadcastWalk<2>(out, {context.inputs[0].shape, context.inputs[1].shape})};
    for (size_t i = 2; i < context.inputs.size(); ++i)
      walks.emplace_back(out, std::array{out, context.inputs[i].shape});
    return MakeStep([n, count, mean = mean_, kind = kind_, row = row_, walks = std::move(walks)](const StepContext& c) {
      auto* y = static_cast<float*>(c.outputs[0]);
      for (size_t i = 0; i < walks.size(); ++i) {
        const BroadcastWalk<2>& walk = walks[i];
        const auto* a = i == 0 ? static_cast<const float*>(c.inputs[0]) : y;
        const auto* b = static_cast<const float*>(c.inputs[i + 1]);
        QUERN_RETURN_IF_ERROR(walk.Run(c, kCheapGrain, [&](int64_t at, const auto& offset, int64_t run) {
          row->binary({.kind = kind,
                       .n = static_cast<size_t>(run),
                       .x = a + offset[0],
                       .z = b + offset[1],
                       .y = y + at,
                       .x_step = static_cast<size_t>(walk.step(0)),
                       .z_step = static_cast<size_t>(walk.step(1))});
        }));
      }
      if (!mean) return OkStatus();
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        row->binary({.kind = BinaryKind::kDiv,
                     .n = static_cast<size_t>(end - begin),
                     .x = y + begin,
                     .z = &count,
                     .y = y + begin,
                     .x_step = 1,
                     .z_step = 0});
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, name_ + ", elementwise with broadcasting"); }

 private:
  const ukernel::VectorKernel* row_;
  std::string name_;
  BinaryKind kind_;
  bool mean_;
};

// Null where there is none; float32 that has a micro-kernel is not asked for.
BinaryRow FindRow(const Node& node) {
  const BinaryOperator& o = Find(node);
  const DType dtype = node.input(0)->type().dtype;
  if (dtype == DType::kF32) return o.f32;
  if (dtype == DType::kF64) return o.f64;
  return o.integers ? o.integers(dtype) : nullptr;
}

bool IsOfVectors(const Node& node) { return node.input(0)->type().dtype == DType::kF32 && Find(node).kind != kNoKind; }

std::string Reject(const Node& node, const CpuConfig&) {
  const DType dtype = node.input(0)->type().dtype;
  if (!IsOfVectors(node) && !FindRow(node)) return std::string("type ") + DTypeName(dtype);
  for (const GraphValue* v : node.inputs()) {
    if (std::string why = RejectUnlessType(v, {dtype}); !why.empty()) return why;
  }
  if (node.opset() < 7 && node.Is("PRelu")) return "slopes as before operator set 7";
  return RejectLegacyBroadcast(node);
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  if (IsOfVectors(node)) return std::unique_ptr<CpuKernel>(new VectorBinaryKernel(node, *context.config));
  return MakePlainBinary({.name = node.op_type(),
                          .from = node.input(0)->type().dtype,
                          .row = FindRow(node),
                          .costly = Find(node).costly,
                          .last = node.Is("Mean") ? UnaryLoop<double, double, OverCount> : nullptr,
                          .fault = kByZero});
}

constexpr auto kOps = [] {
  std::array<CpuOp, std::size(kOperators)> ops{};
  for (size_t i = 0; i < ops.size(); ++i) ops[i] = {"", kOperators[i].op_type, Reject, Compile};
  return ops;
}();

}  // namespace

extern const std::span<const CpuOp> kCpuOpsBinary = kOps;

}  // namespace quern::cpu
