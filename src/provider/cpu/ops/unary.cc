// Elementwise operators of one input: float32 through the vector micro-kernels, other types by plain loops.
#include <cmath>
#include <limits>
#include <optional>

#include "ops/common/dispatch.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using ukernel::UnaryKind;

// An operator as a function of the vector family, its parameters from attributes.
struct VectorUnary {
  const char* op_type;
  UnaryKind kind;
  const char* a_name = nullptr;
  float a_default = 0;
  const char* b_name = nullptr;
  float b_default = 0;
  bool costly = false;
};
constexpr VectorUnary kVectorUnaries[] = {
    {"Relu", UnaryKind::kRelu},
    {"LeakyRelu", UnaryKind::kLeakyRelu, "alpha", 0.01f},
    {"ThresholdedRelu", UnaryKind::kThresholdedRelu, "alpha", 1.0f},
    {"HardSigmoid", UnaryKind::kHardSigmoid, "alpha", 0.2f, "beta", 0.5f},
    {"HardSwish", UnaryKind::kHardSwish},
    {"Sigmoid", UnaryKind::kSigmoid, nullptr, 0, nullptr, 0, true},
    {"Swish", UnaryKind::kSilu, "alpha", 1.0f, nullptr, 0, true},
    {"Tanh", UnaryKind::kTanh, nullptr, 0, nullptr, 0, true},
    {"Exp", UnaryKind::kExp, nullptr, 0, nullptr, 0, true},
    {"Log", UnaryKind::kLog, nullptr, 0, nullptr, 0, true},
    {"Sqrt", UnaryKind::kSqrt, nullptr, 0, nullptr, 0, true},
    {"Neg", UnaryKind::kNeg},
    {"Abs", UnaryKind::kAbs},
    {"Reciprocal", UnaryKind::kReciprocal, nullptr, 0, nullptr, 0, true},
    {"Floor", UnaryKind::kFloor},
    {"Ceil", UnaryKind::kCeil},
    {"Round", UnaryKind::kRound},
    {"Sign", UnaryKind::kSign},
    {"Erf", UnaryKind::kErf, nullptr, 0, nullptr, 0, true},
    {"Elu", UnaryKind::kElu, "alpha", 1.0f, nullptr, 0, true},
    {"Celu", UnaryKind::kCelu, "alpha", 1.0f, nullptr, 0, true},
    {"Selu", UnaryKind::kSelu, "alpha", 1.67326319217681884765625f, "gamma", 1.05070102214813232421875f, true},
    {"Softplus", UnaryKind::kSoftplus, nullptr, 0, nullptr, 0, true},
    {"Softsign", UnaryKind::kSoftsign, nullptr, 0, nullptr, 0, true},
    {"Gelu", UnaryKind::kGelu, nullptr, 0, nullptr, 0, true},
    {"Mish", UnaryKind::kMish, nullptr, 0, nullptr, 0, true},
};

const VectorUnary* FindVectorUnary(const std::string& op_type) {
  for (const VectorUnary& u : kVectorUnaries) {
    if (op_type == u.op_type) return &u;
  }
  return nullptr;
}

Placement InPlace() {
  Placement p;
  p.in_place_inputs = {0};
  return p;
}

class VectorUnaryKernel final : public CpuKernel {
 public:
  VectorUnaryKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)), unary_(*FindVectorUnary(node.op_type())), kind_(unary_.kind) {
    if (unary_.a_name) a_ = node.GetFloat(unary_.a_name, unary_.a_default);
    if (unary_.b_name) b_ = node.GetFloat(unary_.b_name, unary_.b_default);
    if (kind_ == UnaryKind::kGelu && node.GetString("approximate", "none") == "tanh") kind_ = UnaryKind::kGeluTanh;
  }
  Placement Place(const BindContext&) const override { return InPlace(); }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const int64_t n = context.outputs[0].shape.num_elements();
    return MakeStep([n, row = row_, kind = kind_, a = a_, b = b_,
                     grain = unary_.costly ? kCostlyGrain : kCheapGrain](const StepContext& c) {
      const auto* x = static_cast<const float*>(c.inputs[0]);
      auto* y = static_cast<float*>(c.outputs[0]);
      return ForRange(c, n, grain, [&](int64_t begin, int64_t end) {
        row->unary(
            {.kind = kind, .n = static_cast<size_t>(end - begin), .x = x + begin, .y = y + begin, .a = a, .b = b});
      });
    });
  }
  KernelDescription Describe() const override {
    return Described(*row_, std::string(unary_.op_type) + ", elementwise");
  }

 private:
  const ukernel::VectorKernel* row_;
  const VectorUnary& unary_;
  UnaryKind kind_;
  float a_ = 0, b_ = 0;
};

// y = f(x) of one element type, by a plain loop.
template <typename T, typename F>
class PlainUnaryKernel final : public CpuKernel {
 public:
  PlainUnaryKernel(F f, std::string name) : f_(f), name_(std::move(name)) {}
  Placement Place(const BindContext&) const override { return InPlace(); }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const int64_t n = context.outputs[0].shape.num_elements();
    return MakeStep([n, f = f_](const StepContext& c) {
      const T* x = static_cast<const T*>(c.inputs[0]);
      T* y = static_cast<T*>(c.outputs[0]);
      return ForRange(c, n, kCostlyGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
      });
    });
  }
  KernelDescription Describe() const override {
    return Described(name_ + " (" + DTypeName(DTypeOf<T>::value) + ")", "plain loop");
  }

 private:
  F f_;
  std::string name_;
};

template <typename T, typename F>
std::unique_ptr<CpuKernel> Plain(const Node& node, F f) {
  return std::make_unique<PlainUnaryKernel<T, F>>(f, node.op_type());
}

using PlainIntegers = Types<int8_t, uint8_t, int32_t, int64_t>;
constexpr TypeSet kPlainIntegers = {DType::kI8, DType::kU8, DType::kI32, DType::kI64};
constexpr TypeSet kF32Only = {DType::kF32};

template <typename T>
T Negated(T x) {
  return static_cast<T>(0 - static_cast<uint64_t>(x));  // wraps around
}

Result<std::unique_ptr<CpuKernel>> CompileInteger(const Node& node) {
  std::unique_ptr<CpuKernel> kernel;
  const std::string& op = node.op_type();
  QUERN_RETURN_IF_ERROR(DispatchType(PlainIntegers{}, node.input(0)->type().dtype, [&]<typename T>() {
    if (op == "Relu") kernel = Plain<T>(node, [](T x) { return x < T{0} ? T{0} : x; });
    if (op == "Neg") kernel = Plain<T>(node, [](T x) { return Negated(x); });
    if (op == "Abs") kernel = Plain<T>(node, [](T x) { return x < T{0} ? Negated(x) : x; });
    if (op == "Sign") {
      kernel = Plain<T>(node, [](T x) { return x > T{0} ? T{1} : x == T{0} ? T{0} : static_cast<T>(-1); });
    }
    return OkStatus();
  }));
  return kernel;
}

bool TakesIntegers(const std::string& op) { return op == "Relu" || op == "Neg" || op == "Abs" || op == "Sign"; }

std::string RejectUnary(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.input(0), TakesIntegers(node.op_type()) ? kF32Only | kPlainIntegers : kF32Only);
}

Result<std::unique_ptr<CpuKernel>> CompileUnary(const Node& node, const CompileContext& context) {
  if (node.input(0)->type().dtype != DType::kF32) return CompileInteger(node);
  return std::unique_ptr<CpuKernel>(new VectorUnaryKernel(node, *context.config));
}

// Functions of the C library.
std::string RejectNotF32(const Node& node, const CpuConfig&) { return RejectUnlessType(node.input(0), kF32Only); }

template <float (*kF)(float)>
Result<std::unique_ptr<CpuKernel>> CompileScalar(const Node& node, const CompileContext&) {
  return Plain<float>(node, [](float x) { return kF(x); });
}
float Sin(float x) { return std::sin(x); }
float Cos(float x) { return std::cos(x); }
float Tan(float x) { return std::tan(x); }
float Atan(float x) { return std::atan(x); }
float Asin(float x) { return std::asin(x); }
float Acos(float x) { return std::acos(x); }

std::string RejectNot(const Node& node, const CpuConfig&) { return RejectUnlessType(node.input(0), {DType::kBool}); }
Result<std::unique_ptr<CpuKernel>> CompileNot(const Node& node, const CompileContext&) {
  return Plain<bool>(node, [](bool x) { return !x; });
}

// Clip: the bounds are attributes (before operator set 11) or inputs, which may come with the run.
class ClipKernel final : public CpuKernel {
 public:
  ClipKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)), dtype_(node.input(0)->type().dtype) {
    if (node.opset() < 11) {
      low_ = node.GetFloat("min", std::numeric_limits<float>::lowest());
      high_ = node.GetFloat("max", std::numeric_limits<float>::max());
    }
    has_low_ = node.input(1) != nullptr;
    has_high_ = node.input(2) != nullptr;
  }
  Placement Place(const BindContext&) const override { return InPlace(); }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const int64_t n = context.outputs[0].shape.num_elements();
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(Types<float, int8_t, uint8_t, int32_t, int64_t>{}, dtype_, [&]<typename T>() {
      QUERN_ASSIGN_OR_RETURN(step, BindTyped<T>(n));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override {
    if (dtype_ == DType::kF32) return Described(*row_, "Clip, elementwise");
    return Described(std::string("Clip (") + DTypeName(dtype_) + ")", "plain loop");
  }

 private:
  template <typename T>
  Result<std::unique_ptr<CpuStep>> BindTyped(int64_t n) const {
    T low = std::numeric_limits<T>::lowest(), high = std::numeric_limits<T>::max();
    if constexpr (std::is_same_v<T, float>) {
      low = low_;
      high = high_;
    }
    return MakeStep([n, low, high, has_low = has_low_, has_high = has_high_, row = row_](const StepContext& c) {
      const T* x = static_cast<const T*>(c.inputs[0]);
      T* y = static_cast<T*>(c.outputs[0]);
      const T a = has_low ? *static_cast<const T*>(c.inputs[1]) : low;
      const T b = has_high ? *static_cast<const T*>(c.inputs[2]) : high;
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        if constexpr (std::is_same_v<T, float>) {
          row->unary({.kind = UnaryKind::kClip,
                      .n = static_cast<size_t>(end - begin),
                      .x = x + begin,
                      .y = y + begin,
                      .a = a,
                      .b = b});
        } else {
          static_cast<void>(row);  // float32's
          for (int64_t i = begin; i < end; ++i) {
            const T v = x[i] < a ? a : x[i];
            y[i] = v > b ? b : v;
          }
        }
      });
    });
  }
  const ukernel::VectorKernel* row_;
  DType dtype_;
  float low_ = -std::numeric_limits<float>::infinity(), high_ = std::numeric_limits<float>::infinity();
  bool has_low_, has_high_;
};

std::string RejectClip(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.input(0), kF32Only | kPlainIntegers);
}
Result<std::unique_ptr<CpuKernel>> CompileClip(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new ClipKernel(node, *context.config));
}

constexpr CpuOp kOps[] = {
    {"", "Relu", RejectUnary, CompileUnary},
    {"", "LeakyRelu", RejectUnary, CompileUnary},
    {"", "ThresholdedRelu", RejectUnary, CompileUnary},
    {"", "HardSigmoid", RejectUnary, CompileUnary},
    {"", "HardSwish", RejectUnary, CompileUnary},
    {"", "Sigmoid", RejectUnary, CompileUnary},
    {"", "Swish", RejectUnary, CompileUnary},
    {"", "Tanh", RejectUnary, CompileUnary},
    {"", "Exp", RejectUnary, CompileUnary},
    {"", "Log", RejectUnary, CompileUnary},
    {"", "Sqrt", RejectUnary, CompileUnary},
    {"", "Neg", RejectUnary, CompileUnary},
    {"", "Abs", RejectUnary, CompileUnary},
    {"", "Reciprocal", RejectUnary, CompileUnary},
    {"", "Floor", RejectUnary, CompileUnary},
    {"", "Ceil", RejectUnary, CompileUnary},
    {"", "Round", RejectUnary, CompileUnary},
    {"", "Sign", RejectUnary, CompileUnary},
    {"", "Erf", RejectUnary, CompileUnary},
    {"", "Elu", RejectUnary, CompileUnary},
    {"", "Celu", RejectUnary, CompileUnary},
    {"", "Selu", RejectUnary, CompileUnary},
    {"", "Softplus", RejectUnary, CompileUnary},
    {"", "Softsign", RejectUnary, CompileUnary},
    {"", "Gelu", RejectUnary, CompileUnary},
    {"", "Mish", RejectUnary, CompileUnary},
    {"", "Sin", RejectNotF32, CompileScalar<Sin>},
    {"", "Cos", RejectNotF32, CompileScalar<Cos>},
    {"", "Tan", RejectNotF32, CompileScalar<Tan>},
    {"", "Atan", RejectNotF32, CompileScalar<Atan>},
    {"", "Asin", RejectNotF32, CompileScalar<Asin>},
    {"", "Acos", RejectNotF32, CompileScalar<Acos>},
    {"", "Not", RejectNot, CompileNot},
    {"", "Clip", RejectClip, CompileClip},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsUnary = kOps;

}  // namespace quern::cpu
