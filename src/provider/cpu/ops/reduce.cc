// Reductions over any axes: ReduceSum, Mean, Max, Min, Prod, SumSquare, L1, L2, LogSum, LogSumExp; ArgMax and ArgMin
// over one.
#include <cmath>
#include <limits>
#include <optional>

#include "ops/common/dispatch.h"
#include "ops/common/elementwise.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/reduce_loops.h"

namespace quern::cpu {
namespace {

using ukernel::FoldKind;

enum class Finish : uint8_t { kNone, kMean, kSqrt, kLog };
struct Reduction {
  const char* op_type;
  FoldKind fold;
  Finish finish = Finish::kNone;
};
constexpr Reduction kReductions[] = {
    {"ReduceSum", FoldKind::kSum},
    {"ReduceMean", FoldKind::kSum, Finish::kMean},
    {"ReduceMax", FoldKind::kMax},
    {"ReduceMin", FoldKind::kMin},
    {"ReduceProd", FoldKind::kProd},
    {"ReduceSumSquare", FoldKind::kSumSquares},
    {"ReduceL1", FoldKind::kSumAbs},
    {"ReduceL2", FoldKind::kSumSquares, Finish::kSqrt},
    {"ReduceLogSum", FoldKind::kSum, Finish::kLog},
    {"ReduceLogSumExp", FoldKind::kSum, Finish::kLog},
};
const Reduction& ReductionOf(const Node& node) {
  for (const Reduction& r : kReductions) {
    if (node.op_type() == r.op_type) return r;
  }
  return kReductions[0];
}

// The axes as attribute or input; nothing when they come with the run.
std::optional<std::vector<int64_t>> AxesOf(const Node& node, const BindContext& context) {
  if (!context.has_input(1)) return node.GetInts("axes");
  if (!context.inputs[1].constant) return std::nullopt;
  const Result<std::vector<int64_t>> values = ToInt64s(*context.inputs[1].constant);
  return values.ok() ? std::optional(*values) : std::nullopt;
}

template <typename T>
T Finished(Finish finish, T x, int64_t count) {
  switch (finish) {
    case Finish::kMean:
      return x / static_cast<T>(count);
    case Finish::kSqrt:
      return std::sqrt(x);
    case Finish::kLog:
      return std::log(x);
    default:
      return x;
  }
}

// One output made of lines of `run` neighbours.
float FoldLines(const ukernel::VectorKernel& row, FoldKind kind, const ReduceLoops& loops, const float* x) {
  const bool sum = kind == FoldKind::kSum || kind == FoldKind::kSumAbs || kind == FoldKind::kSumSquares;
  double total = FoldStart(kind);
  for (ptrdiff_t o : loops.offsets) {
    const double part = row.fold({.kind = kind, .n = static_cast<size_t>(loops.run), .x = x + o});
    if (sum) {
      total += part;
    } else if (kind == FoldKind::kProd) {
      total *= part;
    } else if (total == total) {
      total = part != part || (kind == FoldKind::kMax ? part > total : part < total) ? part : total;
    }
  }
  return static_cast<float>(total);
}

Result<std::unique_ptr<CpuStep>> BindFloat(const ukernel::VectorKernel* row, const Reduction& reduction,
                                           ReduceLoops loops, int64_t outputs) {
  const int64_t outer = loops.outer.num_elements(), count = loops.count();
  constexpr int64_t kBlock = 256;  // columns of one task
  const int64_t blocks = (loops.columns + kBlock - 1) / kBlock;
  return MakeStep(
      [=, loops = std::move(loops), kind = reduction.fold, finish = reduction.finish](const StepContext& c) {
        const auto* x = static_cast<const float*>(c.inputs[0]);
        auto* y = static_cast<float*>(c.outputs[0]);
        if (count == 0) {
          std::fill_n(y, outputs, Finished(finish, FoldStart(kind), 0));
          return OkStatus();
        }
        if (loops.columns == 1) {
          return ForItems(c, outer, count, kCheapGrain, [&](int64_t i) {
            y[i] = Finished(finish, FoldLines(*row, kind, loops, x + OuterOffset(loops, i)), count);
          });
        }
        return ForItems(c, outer * blocks, count * std::min(kBlock, loops.columns), kCheapGrain, [&](int64_t item) {
          const int64_t i = item / blocks, first = item % blocks * kBlock, n = std::min(kBlock, loops.columns - first);
          float* to = y + i * loops.columns + first;
          row->fold_rows({.kind = kind,
                          .rows = loops.offsets.size(),
                          .n = static_cast<size_t>(n),
                          .x = x + OuterOffset(loops, i) + first,
                          .offsets = loops.offsets.data(),
                          .scale = 1,
                          .y = to});
          if (finish != Finish::kNone) {
            for (int64_t k = 0; k < n; ++k) to[k] = Finished(finish, to[k], count);
          }
        });
      });
}

template <typename T>
T IntegerStep(FoldKind kind, T a, T b) {
  switch (kind) {
    case FoldKind::kSum:
      return WrappingAdd(a, b);
    case FoldKind::kProd:
      return WrappingMul(a, b);
    case FoldKind::kMax:
      return std::max(a, b);
    default:
      return std::min(a, b);
  }
}

template <typename T>
Result<std::unique_ptr<CpuStep>> BindInteger(FoldKind kind, ReduceLoops loops) {
  const T start = kind == FoldKind::kSum    ? T{0}
                  : kind == FoldKind::kProd ? T{1}
                  : kind == FoldKind::kMax  ? std::numeric_limits<T>::lowest()
                                            : std::numeric_limits<T>::max();
  const int64_t outputs = loops.outer.num_elements() * loops.columns;
  return MakeStep([=, loops = std::move(loops)](const StepContext& c) {
    return ForItems(c, outputs, loops.count(), kCostlyGrain, [&](int64_t i) {
      const T* x = static_cast<const T*>(c.inputs[0]) + OuterOffset(loops, i / loops.columns) + i % loops.columns;
      T total = start;
      for (ptrdiff_t o : loops.offsets) {
        for (int64_t k = 0; k < loops.run; ++k) total = IntegerStep(kind, total, x[o + k]);
      }
      static_cast<T*>(c.outputs[0])[i] = total;
    });
  });
}

// f(element) for each element that output i is made of.
template <typename T, typename F>
void ForEachElement(const ReduceLoops& loops, int64_t i, const void* input, F f) {
  const T* x = static_cast<const T*>(input) + OuterOffset(loops, i / loops.columns) + i % loops.columns;
  for (ptrdiff_t o : loops.offsets) {
    for (int64_t k = 0; k < loops.run; ++k) f(static_cast<double>(x[o + k]));
  }
}

double DoubleStep(FoldKind kind, double a, double b) {
  switch (kind) {
    case FoldKind::kSum:
      return a + b;
    case FoldKind::kSumAbs:
      return a + std::fabs(b);
    case FoldKind::kSumSquares:
      return a + b * b;
    case FoldKind::kProd:
      return a * b;
    case FoldKind::kMax:
      return b > a || b != b ? b : a;
    default:
      return b < a || b != b ? b : a;
  }
}

Result<std::unique_ptr<CpuStep>> BindDouble(const Reduction& reduction, ReduceLoops loops) {
  const int64_t outputs = loops.outer.num_elements() * loops.columns;
  return MakeStep(
      [=, loops = std::move(loops), kind = reduction.fold, finish = reduction.finish](const StepContext& c) {
        return ForItems(c, outputs, loops.count(), kCostlyGrain, [&](int64_t i) {
          double total = static_cast<double>(FoldStart(kind));
          ForEachElement<double>(loops, i, c.inputs[0], [&](double v) { total = DoubleStep(kind, total, v); });
          static_cast<double*>(c.outputs[0])[i] = Finished(finish, total, loops.count());
        });
      });
}

// The largest element is taken out of the exponents, so that they do not overflow.
template <typename T>
Result<std::unique_ptr<CpuStep>> BindLogSumExp(ReduceLoops loops) {
  const int64_t outputs = loops.outer.num_elements() * loops.columns;
  return MakeStep([=, loops = std::move(loops)](const StepContext& c) {
    return ForItems(c, outputs, 4 * loops.count(), kCostlyGrain, [&](int64_t i) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      ForEachElement<T>(loops, i, c.inputs[0], [&](double v) { largest = v > largest ? v : largest; });
      const double shift = std::isinf(largest) ? 0 : largest;
      ForEachElement<T>(loops, i, c.inputs[0], [&](double v) { sum += std::exp(v - shift); });
      static_cast<T*>(c.outputs[0])[i] = static_cast<T>(std::log(sum) + shift);
    });
  });
}

class ReduceKernel final : public CpuKernel {
 public:
  ReduceKernel(const Node& node, const CpuConfig& config) : node_(node), row_(VectorRowFor(config)) {}
  uint64_t plan_time_inputs() const override { return 2; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const std::optional<std::vector<int64_t>> axes = AxesOf(node_, context);
    if (!axes) return Unsupported("the axes are not known while planning");
    std::vector<bool> reduced(static_cast<size_t>(shape.rank()),
                              axes->empty() && node_.GetInt("noop_with_empty_axes", 0) == 0);
    for (int64_t a : *axes) {
      if (shape.rank() > 0) reduced[static_cast<size_t>(a < 0 ? a + shape.rank() : a)] = true;
    }
    const int64_t outputs = context.outputs[0].shape.num_elements();
    if (outputs == 0) return NothingToDo();
    ReduceLoops loops = MakeLoops(shape, reduced);
    const Reduction& reduction = ReductionOf(node_);
    if (node_.op_type() == "ReduceLogSumExp") {
      return context.inputs[0].dtype == DType::kF64 ? BindLogSumExp<double>(std::move(loops))
                                                    : BindLogSumExp<float>(std::move(loops));
    }
    switch (context.inputs[0].dtype) {
      case DType::kI32:
        return BindInteger<int32_t>(reduction.fold, std::move(loops));
      case DType::kI64:
        return BindInteger<int64_t>(reduction.fold, std::move(loops));
      case DType::kF64:
        return BindDouble(reduction, std::move(loops));
      default:
        return BindFloat(row_, reduction, std::move(loops), outputs);
    }
  }
  KernelDescription Describe() const override {
    const DType t = node_.input(0)->type().dtype;
    if (t != DType::kF32 || node_.op_type() == "ReduceLogSumExp") {
      return Described(node_.op_type() + " (" + DTypeName(t) + ")", "plain loop");
    }
    return Described(*row_, node_.op_type() + ", folds of lines or rows");
  }

 private:
  const Node& node_;
  const ukernel::VectorKernel* row_;
};

std::string RejectReduce(const Node& node, const CpuConfig&) {
  const GraphValue* axes = node.input(1);
  if (axes && !axes->is_constant() && !axes->data()) return "the axes come with the run";
  const Reduction& r = ReductionOf(node);
  const bool integers = r.finish == Finish::kNone && r.fold != FoldKind::kSumSquares && r.fold != FoldKind::kSumAbs;
  constexpr TypeSet kFloats = {DType::kF32, DType::kF64};
  return RejectUnlessType(node.input(0), integers ? kFloats | TypeSet{DType::kI32, DType::kI64} : kFloats);
}

// The index of the first (or last) greatest or smallest element; the first NaN wins over every number.
template <typename T>
bool Wins(T x, T best, bool smallest, bool last) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(best)) return false;
    if (std::isnan(x)) return true;
  }
  return (smallest ? x < best : x > best) || (last && x == best);
}

template <typename T>
Result<std::unique_ptr<CpuStep>> BindArg(int64_t outer, int64_t count, int64_t inner, bool smallest, bool last) {
  return MakeStep([=](const StepContext& c) {
    return ForItems(c, outer * inner, count, kCostlyGrain, [&](int64_t i) {
      const T* x = static_cast<const T*>(c.inputs[0]) + i / inner * count * inner + i % inner;
      int64_t best = 0;
      for (int64_t k = 1; k < count; ++k) {
        if (Wins(x[k * inner], x[best * inner], smallest, last)) best = k;
      }
      static_cast<int64_t*>(c.outputs[0])[i] = best;
    });
  });
}

class ArgKernel final : public CpuKernel {
 public:
  explicit ArgKernel(const Node& node)
      : smallest_(node.op_type() == "ArgMin"),
        last_(node.GetInt("select_last_index", 0) != 0),
        axis_(node.GetInt("axis", 0)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& s = context.inputs[0].shape;
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + s.rank() : axis_);
    if (s.rank() == 0 || s[axis] == 0) return InvalidArgument("there is no element to choose from");
    const int64_t outer = s.num_elements(0, axis), inner = s.num_elements(axis + 1, s.rank());
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(
        DispatchType(Types<float, int32_t, int64_t, uint8_t, int8_t>{}, context.inputs[0].dtype, [&]<typename T>() {
          QUERN_ASSIGN_OR_RETURN(step, BindArg<T>(outer, s[axis], inner, smallest_, last_));
          return OkStatus();
        }));
    return step;
  }
  KernelDescription Describe() const override { return Described(smallest_ ? "ArgMin" : "ArgMax", "plain loop"); }

 private:
  bool smallest_, last_;
  int64_t axis_;
};

std::string RejectArg(const Node& node, const CpuConfig&) {
  if (node.input(0)->type().rank() == 0) return "a scalar";
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kI32, DType::kI64, DType::kU8, DType::kI8});
}
Result<std::unique_ptr<CpuKernel>> CompileArg(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new ArgKernel(node));
}
Result<std::unique_ptr<CpuKernel>> CompileReduce(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new ReduceKernel(node, *context.config));
}

constexpr CpuOp kOps[] = {
    {"", "ReduceSum", RejectReduce, CompileReduce, kAllButData},
    {"", "ReduceMean", RejectReduce, CompileReduce, kAllButData},
    {"", "ReduceMax", RejectReduce, CompileReduce, kAllButData},
    {"", "ReduceMin", RejectReduce, CompileReduce, kAllButData},
    {"", "ReduceProd", RejectReduce, CompileReduce, kAllButData},
    {"", "ReduceSumSquare", RejectReduce, CompileReduce, kAllButData},
    {"", "ReduceL1", RejectReduce, CompileReduce, kAllButData},
    {"", "ReduceL2", RejectReduce, CompileReduce, kAllButData},
    {"", "ReduceLogSum", RejectReduce, CompileReduce, kAllButData},
    {"", "ReduceLogSumExp", RejectReduce, CompileReduce, kAllButData},
    {"", "ArgMax", RejectArg, CompileArg},
    {"", "ArgMin", RejectArg, CompileArg},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsReduce = kOps;

}  // namespace quern::cpu
