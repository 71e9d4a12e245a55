// Elementwise operators of two or more broadcast inputs, of the inputs' type: Add, Sub, Mul, Div, Mod, Pow, Min, Max,
// Sum, Mean, PRelu. float32 through the vector micro-kernels, integers by plain loops.
#include <atomic>
#include <cmath>
#include <optional>

#include "ops/common/dispatch.h"
#include "ops/common/elementwise.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using ukernel::BinaryKind;

struct VectorBinary {
  const char* op_type;
  BinaryKind kind;
};
constexpr VectorBinary kVectorBinaries[] = {
    {"Add", BinaryKind::kAdd}, {"Sub", BinaryKind::kSub},  {"Mul", BinaryKind::kMul},
    {"Div", BinaryKind::kDiv}, {"Min", BinaryKind::kMin},  {"Max", BinaryKind::kMax},
    {"Sum", BinaryKind::kAdd}, {"Mean", BinaryKind::kAdd}, {"PRelu", BinaryKind::kPrelu},
};

// The result may take the memory of one of the first two inputs: later ones are read after it is written.
Placement PlaceBinary(const BindContext& context) {
  Placement p;
  const TensorSpec& out = context.outputs[0];
  for (size_t i = 0; i < std::min<size_t>(2, context.inputs.size()); ++i) {
    const TensorSpec& in = context.inputs[i];
    if (in.dtype == out.dtype && in.shape.num_elements() == out.shape.num_elements()) {
      p.in_place_inputs.push_back(static_cast<int>(i));
    }
  }
  return p;
}

// PRelu's slope broadcasts to x one way only, which the walk does not care about.
class VectorBinaryKernel final : public CpuKernel {
 public:
  VectorBinaryKernel(const Node& node, const CpuConfig& config) : row_(VectorRowFor(config)), name_(node.op_type()) {
    for (const VectorBinary& b : kVectorBinaries) {
      if (name_ == b.op_type) kind_ = b.kind;
    }
    mean_ = name_ == "Mean";
  }
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
  BinaryKind kind_ = BinaryKind::kAdd;
  bool mean_ = false;
};

// y = f(a, b) of one result type by plain loops; f may note a fault (division by zero) in its last argument.
template <typename T, typename Second, typename F>
class PlainBinaryKernel final : public CpuKernel {
 public:
  PlainBinaryKernel(F f, std::string name, const char* fault) : f_(f), name_(std::move(name)), fault_(fault) {}
  Placement Place(const BindContext& context) const override { return PlaceBinary(context); }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& out = context.outputs[0].shape;
    if (out.num_elements() == 0) return NothingToDo();
    std::vector<BroadcastWalk<2>> walks;
    if (context.inputs.size() == 1) {
      return MakeStep([bytes = static_cast<size_t>(out.num_elements()) * sizeof(T)](const StepContext& c) {
        if (c.outputs[0] != c.inputs[0]) std::memcpy(c.outputs[0], c.inputs[0], bytes);
        return OkStatus();
      });
    }
    walks.emplace_back(out, std::array{context.inputs[0].shape, context.inputs[1].shape});
    for (size_t i = 2; i < context.inputs.size(); ++i)
      walks.emplace_back(out, std::array{out, context.inputs[i].shape});
    return MakeStep([f = f_, fault = fault_, walks = std::move(walks)](const StepContext& c) {
      T* y = static_cast<T*>(c.outputs[0]);
      std::atomic<bool> failed{false};
      for (size_t i = 0; i < walks.size(); ++i) {
        const BroadcastWalk<2>& walk = walks[i];
        const T* a = i == 0 ? static_cast<const T*>(c.inputs[0]) : y;
        const auto* b = static_cast<const Second*>(c.inputs[i + 1]);
        QUERN_RETURN_IF_ERROR(walk.Run(c, kCostlyGrain, [&](int64_t at, const auto& offset, int64_t run) {
          const T* u = a + offset[0];
          const Second* v = b + offset[1];
          const int du = walk.step(0), dv = walk.step(1);
          bool bad = false;
          for (int64_t k = 0; k < run; ++k) y[at + k] = f(u[k * du], v[k * dv], bad);
          if (bad) failed.store(true, std::memory_order_relaxed);
        }));
      }
      return failed ? InvalidArgument(fault) : OkStatus();
    });
  }
  KernelDescription Describe() const override {
    return Described(name_ + " (" + DTypeName(DTypeOf<T>::value) + ")", "plain loop");
  }

 private:
  F f_;
  std::string name_;
  const char* fault_;
};

template <typename T, typename Second, typename F>
std::unique_ptr<CpuKernel> Plain(const Node& node, F f, const char* fault = "") {
  return std::make_unique<PlainBinaryKernel<T, Second, F>>(f, node.op_type(), fault);
}

using PlainIntegers = Types<int8_t, uint8_t, int32_t, int64_t>;
constexpr TypeSet kPlainIntegers = {DType::kI8, DType::kU8, DType::kI32, DType::kI64};

template <typename T>
T Quotient(T a, T b, bool& fault) {
  if (b == T{0}) {
    fault = true;
    return T{0};
  }
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return WrappingSub(T{0}, a);  // the smallest number wraps around
  return static_cast<T>(a / b);
}
// With the sign of the divisor, or (kDividend) of the dividend.
template <typename T, bool kDividend>
T Remainder(T a, T b, bool& fault) {
  if (b == T{0}) {
    fault = true;
    return T{0};
  }
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T{0};
  const T r = static_cast<T>(a % b);
  return !kDividend && r != T{0} && (r < T{0}) != (b < T{0}) ? static_cast<T>(r + b) : r;
}
constexpr char kByZero[] = "integer division by zero";

Result<std::unique_ptr<CpuKernel>> CompileInteger(const Node& node) {
  std::unique_ptr<CpuKernel> kernel;
  const std::string& op = node.op_type();
  QUERN_RETURN_IF_ERROR(DispatchType(PlainIntegers{}, node.input(0)->type().dtype, [&]<typename T>() {
    if (op == "Add" || op == "Sum") kernel = Plain<T, T>(node, [](T a, T b, bool&) { return WrappingAdd(a, b); });
    if (op == "Sub") kernel = Plain<T, T>(node, [](T a, T b, bool&) { return WrappingSub(a, b); });
    if (op == "Mul") kernel = Plain<T, T>(node, [](T a, T b, bool&) { return WrappingMul(a, b); });
    if (op == "Min") kernel = Plain<T, T>(node, [](T a, T b, bool&) { return a < b ? a : b; });
    if (op == "Max") kernel = Plain<T, T>(node, [](T a, T b, bool&) { return a > b ? a : b; });
    if (op == "Div") kernel = Plain<T, T>(node, Quotient<T>, kByZero);
    if (op == "Mod") {
      kernel = node.GetInt("fmod", 0) ? Plain<T, T>(node, Remainder<T, true>, kByZero)
                                      : Plain<T, T>(node, Remainder<T, false>, kByZero);
    }
    return OkStatus();
  }));
  return kernel;
}

// Before operator set 7 the second input was aligned by attributes.
std::string RejectLegacy(const Node& node) {
  if (node.opset() < 7 && node.Is("PRelu")) return "slopes as before operator set 7";
  if (node.opset() >= 7 || node.num_inputs() < 2 || node.GetInt("broadcast", 0) == 0) return {};
  return "broadcasting by attributes, as before operator set 7";
}

std::string RejectBinary(const Node& node, const CpuConfig&) {
  const std::string& op = node.op_type();
  const bool integers = op != "Mean" && op != "PRelu" && op != "Sum";
  for (const GraphValue* v : node.inputs()) {
    TypeSet types = {DType::kF32};
    if (integers) types = types | kPlainIntegers;
    if (std::string why = RejectUnlessType(v, types); !why.empty()) return why;
  }
  return RejectLegacy(node);
}

Result<std::unique_ptr<CpuKernel>> CompileBinary(const Node& node, const CompileContext& context) {
  if (node.input(0)->type().dtype != DType::kF32) return CompileInteger(node);
  return std::unique_ptr<CpuKernel>(new VectorBinaryKernel(node, *context.config));
}

std::string RejectMod(const Node& node, const CpuConfig&) {
  if (node.input(0)->type().dtype == DType::kF32 && node.GetInt("fmod", 0) == 0) return "fmod = 0 of floats";
  return RejectUnlessType(node.input(0), kPlainIntegers | TypeSet{DType::kF32});
}
Result<std::unique_ptr<CpuKernel>> CompileMod(const Node& node, const CompileContext&) {
  if (node.input(0)->type().dtype != DType::kF32) return CompileInteger(node);
  return Plain<float, float>(node, [](float a, float b, bool&) { return std::fmod(a, b); });
}

// Squares and cubes with a constant exponent, else the C library's pow.
class SmallPowerKernel final : public CpuKernel {
 public:
  SmallPowerKernel(ukernel::UnaryKind kind, const CpuConfig& config) : row_(VectorRowFor(config)), kind_(kind) {}
  Placement Place(const BindContext& context) const override {
    Placement p;
    if (context.inputs[0].shape.num_elements() == context.outputs[0].shape.num_elements()) p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    // The exponent has one element, so the result has as many as the base.
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
  ukernel::UnaryKind kind_;
};

std::optional<ukernel::UnaryKind> SmallPower(const GraphValue* exponent) {
  if (!exponent->is_constant() || exponent->constant()->tensor().num_elements() != 1) return std::nullopt;
  const Tensor& t = exponent->constant()->tensor();
  const double e = t.dtype() == DType::kF32   ? static_cast<double>(*t.data<float>())
                   : t.dtype() == DType::kI64 ? static_cast<double>(*t.data<int64_t>())
                                              : static_cast<double>(*t.data<int32_t>());
  if (e == 1) return ukernel::UnaryKind::kCopy;
  if (e == 2) return ukernel::UnaryKind::kSquare;
  if (e == 3) return ukernel::UnaryKind::kCube;
  return std::nullopt;
}

std::string RejectPow(const Node& node, const CpuConfig&) {
  if (std::string why = RejectUnlessType(node.input(0), {DType::kF32}); !why.empty()) return why;
  if (std::string why = RejectUnlessType(node.input(1), {DType::kF32, DType::kI32, DType::kI64}); !why.empty()) {
    return why + " of the exponent";
  }
  return RejectLegacy(node);
}

Result<std::unique_ptr<CpuKernel>> CompilePow(const Node& node, const CompileContext& context) {
  if (const auto kind = SmallPower(node.input(1))) {
    return std::unique_ptr<CpuKernel>(new SmallPowerKernel(*kind, *context.config));
  }
  switch (node.input(1)->type().dtype) {
    case DType::kF32:
      return Plain<float, float>(node, [](float a, float b, bool&) { return std::pow(a, b); });
    case DType::kI32:
      return Plain<float, int32_t>(
          node, [](float a, int32_t b, bool&) { return static_cast<float>(std::pow(double{a}, b)); });
    default:
      return Plain<float, int64_t>(node, [](float a, int64_t b, bool&) {
        return static_cast<float>(std::pow(static_cast<double>(a), static_cast<double>(b)));
      });
  }
}

constexpr CpuOp kOps[] = {
    {"", "Add", RejectBinary, CompileBinary},   {"", "Sub", RejectBinary, CompileBinary},
    {"", "Mul", RejectBinary, CompileBinary},   {"", "Div", RejectBinary, CompileBinary},
    {"", "Min", RejectBinary, CompileBinary},   {"", "Max", RejectBinary, CompileBinary},
    {"", "Sum", RejectBinary, CompileBinary},   {"", "Mean", RejectBinary, CompileBinary},
    {"", "PRelu", RejectBinary, CompileBinary}, {"", "Mod", RejectMod, CompileMod},
    {"", "Pow", RejectPow, CompilePow},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsBinary = kOps;

}  // namespace quern::cpu
