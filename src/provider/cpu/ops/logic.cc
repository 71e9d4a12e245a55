// Comparisons, logic and choice with broadcasting: Equal, Greater, GreaterOrEqual, Less, LessOrEqual, And, Or, Xor,
// Where.
#include "ops/common/dispatch.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// bool y = f(a, b).
template <typename T, typename F>
class CompareKernel final : public CpuKernel {
 public:
  explicit CompareKernel(std::string name) : name_(std::move(name)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const BroadcastWalk<2> walk(context.outputs[0].shape, {context.inputs[0].shape, context.inputs[1].shape});
    return MakeStep([walk](const StepContext& c) {
      bool* y = static_cast<bool*>(c.outputs[0]);
      const T *a = static_cast<const T*>(c.inputs[0]), *b = static_cast<const T*>(c.inputs[1]);
      const int da = walk.step(0), db = walk.step(1);
      return walk.Run(c, kCostlyGrain, [&](int64_t at, const auto& offset, int64_t run) {
        const T *u = a + offset[0], *v = b + offset[1];
        bool* to = y + at;
        if (da && db) {
          for (int64_t i = 0; i < run; ++i) to[i] = F{}(u[i], v[i]);
        } else if (da) {
          for (int64_t i = 0; i < run; ++i) to[i] = F{}(u[i], *v);
        } else {
          for (int64_t i = 0; i < run; ++i) to[i] = F{}(*u, v[i * db]);
        }
      });
    });
  }
  KernelDescription Describe() const override {
    return Described(name_ + " (" + DTypeName(DTypeOf<T>::value) + ")", "plain loop");
  }

 private:
  std::string name_;
};

struct EqualTo {
  template <typename T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct GreaterThan {
  template <typename T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct AtLeast {
  template <typename T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct LessThan {
  template <typename T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct AtMost {
  template <typename T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Both {
  template <typename T>
  bool operator()(T a, T b) const {
    return a && b;
  }
};
struct Either {
  template <typename T>
  bool operator()(T a, T b) const {
    return a || b;
  }
};
struct Differ {
  template <typename T>
  bool operator()(T a, T b) const {
    return a != b;
  }
};

constexpr TypeSet kCompared = {DType::kF32, DType::kI64, DType::kI32, DType::kU8, DType::kI8};

std::string RejectCompare(const Node& node, const CpuConfig&) {
  if (node.opset() < 7 && node.GetInt("broadcast", 0) != 0)
    return "broadcasting by attributes, as before operator set 7";
  return RejectUnlessType(node.input(0), node.Is("Equal") ? kCompared | TypeSet{DType::kBool} : kCompared);
}

template <typename F>
Result<std::unique_ptr<CpuKernel>> CompileCompare(const Node& node, const CompileContext&) {
  std::unique_ptr<CpuKernel> kernel;
  QUERN_RETURN_IF_ERROR(DispatchType(Types<float, int64_t, int32_t, uint8_t, int8_t, bool>{},
                                     node.input(0)->type().dtype, [&]<typename T>() {
                                       kernel = std::make_unique<CompareKernel<T, F>>(node.op_type());
                                       return OkStatus();
                                     }));
  return kernel;
}

std::string RejectLogic(const Node& node, const CpuConfig&) {
  if (node.opset() < 7 && node.GetInt("broadcast", 0) != 0)
    return "broadcasting by attributes, as before operator set 7";
  return RejectUnlessType(node.input(0), {DType::kBool});
}

template <typename F>
Result<std::unique_ptr<CpuKernel>> CompileLogic(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new CompareKernel<bool, F>(node.op_type()));
}

// By the width of an element only.
template <typename T>
Result<std::unique_ptr<CpuStep>> BindWhere(const BindContext& context) {
  const BroadcastWalk<3> walk(context.outputs[0].shape,
                              {context.inputs[0].shape, context.inputs[1].shape, context.inputs[2].shape});
  return MakeStep([walk](const StepContext& c) {
    const bool* choice = static_cast<const bool*>(c.inputs[0]);
    const T *a = static_cast<const T*>(c.inputs[1]), *b = static_cast<const T*>(c.inputs[2]);
    T* y = static_cast<T*>(c.outputs[0]);
    const int dc = walk.step(0), da = walk.step(1), db = walk.step(2);
    return walk.Run(c, kCostlyGrain, [&](int64_t at, const auto& offset, int64_t run) {
      const bool* p = choice + offset[0];
      const T *u = a + offset[1], *v = b + offset[2];
      for (int64_t i = 0; i < run; ++i) y[at + i] = p[i * dc] ? u[i * da] : v[i * db];
    });
  });
}

class WhereKernel final : public CpuKernel {
 public:
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    switch (DTypeBytes(context.outputs[0].dtype)) {
      case 1:
        return BindWhere<uint8_t>(context);
      case 2:
        return BindWhere<uint16_t>(context);
      case 4:
        return BindWhere<uint32_t>(context);
      default:
        return BindWhere<uint64_t>(context);
    }
  }
  KernelDescription Describe() const override { return Described("Where", "plain loop"); }
};

std::string RejectWhere(const Node& node, const CpuConfig&) {
  const size_t bytes = DTypeBytes(node.input(1)->type().dtype);
  return bytes >= 1 && bytes <= 8 ? std::string() : std::string("type ") + DTypeName(node.input(1)->type().dtype);
}
Result<std::unique_ptr<CpuKernel>> CompileWhere(const Node&, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new WhereKernel());
}

constexpr CpuOp kOps[] = {
    {"", "Equal", RejectCompare, CompileCompare<EqualTo>},
    {"", "Greater", RejectCompare, CompileCompare<GreaterThan>},
    {"", "GreaterOrEqual", RejectCompare, CompileCompare<AtLeast>},
    {"", "Less", RejectCompare, CompileCompare<LessThan>},
    {"", "LessOrEqual", RejectCompare, CompileCompare<AtMost>},
    {"", "And", RejectLogic, CompileLogic<Both>},
    {"", "Or", RejectLogic, CompileLogic<Either>},
    {"", "Xor", RejectLogic, CompileLogic<Differ>},
    {"", "Where", RejectWhere, CompileWhere},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsLogic = kOps;

}  // namespace quern::cpu
