// Cast between plain number types, by the rules of the reference: fractions are cut off; values that do not fit a
// 32- or 64-bit integer give the most negative number, smaller integers keep the low bits.
#include <limits>
#include <type_traits>

#include "ops/common/dispatch.h"
#include "provider/cpu/common/convert_floats.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using CastList = Types<float, int64_t, int32_t, bool, uint8_t, int8_t, double, Float16, BFloat16>;
constexpr TypeSet kCastTypes = {DType::kF32, DType::kI64, DType::kI32, DType::kBool, DType::kU8,
                                DType::kI8,  DType::kF64, DType::kF16, DType::kBF16};

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <typename To, typename X>
To Truncate(X x) {
  if constexpr (sizeof(To) == 4) {
    const bool fits = x > static_cast<X>(-2147483904.0) && x < static_cast<X>(2147483648.0);
    // Between the neighbours of -2^31 a double may still be too small.
    const int64_t wide = fits ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
    return wide < std::numeric_limits<To>::min() ? std::numeric_limits<To>::min() : static_cast<To>(wide);
  } else {
    const bool fits = x >= static_cast<X>(-9223372036854775808.0) && x < static_cast<X>(9223372036854775808.0);
    return static_cast<To>(fits ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min());
  }
}

template <typename To, typename From>
To Convert(From v) {
  const auto x = static_cast<ComputeType<From>>(v);
  using X = std::remove_cv_t<decltype(x)>;
  if constexpr (std::is_same_v<To, bool>) {
    return x != X{};
  } else if constexpr (kIsHalf<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<X> && std::is_integral_v<To>) {
    return Truncate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
void CastRange(const void* from, void* to, int64_t begin, int64_t end) {
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to);
  if constexpr ((kIsHalf<From> && std::is_same_v<To, float>) || (kIsHalf<To> && std::is_same_v<From, float>)) {
    ConvertFloats(x + begin, y + begin, end - begin);
  } else {
    for (int64_t i = begin; i < end; ++i) y[i] = Convert<To>(x[i]);
  }
}

class CastKernel final : public CpuKernel {
 public:
  using Loop = void (*)(const void*, void*, int64_t, int64_t);
  CastKernel(Loop loop, DType from, DType to) : loop_(loop), from_(from), to_(to) {}
  Placement Place(const BindContext&) const override {
    Placement p;
    if (DTypeBytes(from_) == DTypeBytes(to_)) p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    return MakeStep([n = context.outputs[0].shape.num_elements(), loop = loop_](const StepContext& c) {
      return ForRange(c, n, kCheapGrain,
                      [&](int64_t begin, int64_t end) { loop(c.inputs[0], c.outputs[0], begin, end); });
    });
  }
  KernelDescription Describe() const override {
    return Described(std::string("Cast (") + DTypeName(from_) + " to " + DTypeName(to_) + ")", "plain loop");
  }

 private:
  Loop loop_;
  DType from_, to_;
};

DType Target(const Node& node) { return static_cast<DType>(node.GetInt("to", 0)); }

std::string RejectCast(const Node& node, const CpuConfig&) {
  const DType from = node.input(0)->type().dtype, to = Target(node);
  if (!kCastTypes.Has(to)) return std::string("to type ") + DTypeName(to);
  // Wide numbers need care to be rounded once.
  const bool narrow = to == DType::kF16 || to == DType::kBF16;
  if (narrow && from != to && from != DType::kF32 && DTypeBytes(from) > 2) {
    return std::string("type ") + DTypeName(from) + " to " + DTypeName(to);
  }
  return RejectUnlessType(node.input(0), kCastTypes);
}

Result<std::unique_ptr<CpuKernel>> CompileCast(const Node& node, const CompileContext&) {
  const DType from = node.input(0)->type().dtype, to = Target(node);
  CastKernel::Loop loop = nullptr;
  QUERN_RETURN_IF_ERROR(DispatchType(CastList{}, from, [&]<typename From>() {
    return DispatchType(CastList{}, to, [&]<typename To>() {
      if constexpr (std::is_same_v<From, To>) {
        loop = [](const void* x, void* y, int64_t begin, int64_t end) {
          std::memmove(static_cast<To*>(y) + begin, static_cast<const To*>(x) + begin,
                       static_cast<size_t>(end - begin) * sizeof(To));
        };
      } else {
        loop = CastRange<From, To>;
      }
      return OkStatus();
    });
  }));
  return std::unique_ptr<CpuKernel>(new CastKernel(loop, from, to));
}

constexpr CpuOp kOps[] = {{"", "Cast", RejectCast, CompileCast}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsCast = kOps;

}  // namespace quern::cpu
