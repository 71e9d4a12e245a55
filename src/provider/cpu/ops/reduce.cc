// Reductions over any axes: ReduceSum, Mean, Max, Min, Prod, SumSquare, L1, L2, LogSum, LogSumExp; ArgMax and ArgMin
// over one.
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "ops/common/dispatch.h"
#include "ops/common/elementwise.h"
#include "provider/cpu/common/fold_rows.h"
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
  if constexpr (std::is_floating_point_v<T>) {
    if (finish == Finish::kMean) return x / static_cast<T>(count);
    if (finish == Finish::kSqrt) return std::sqrt(x);
    if (finish == Finish::kLog) return std::log(x);
  }
  return x;
}

// a and b joined, each the fold of some elements.
template <typename T>
T Join(FoldKind kind, T a, T b) {
  switch (kind) {
    case FoldKind::kProd:
      return WrappingMul(a, b);
    case FoldKind::kMax:
    case FoldKind::kMin:
      if (a != a) return a;
      return b != b || (kind == FoldKind::kMax ? b > a : b < a) ? b : a;
    default:
      return WrappingAdd(a, b);
  }
}

// part(0) to part(parts - 1) joined, each the fold of some elements.
template <typename T, typename F>
T JoinParts(FoldKind kind, size_t parts, F part) {
  using Total = std::conditional_t<std::is_same_v<T, float>, double, T>;
  Total total = ukernel::FoldStart<T>(kind);
  for (size_t i = 0; i < parts; ++i) total = Join<Total>(kind, total, part(i));
  return static_cast<T>(total);
}

// One output made of lines of `run` neighbours.
template <typename T>
T FoldLines(const ukernel::FoldFunctions<T>& folds, FoldKind kind, const ReduceLoops& loops, const T* x) {
  if (loops.offsets.size() == 1) return folds.fold({.kind = kind, .n = static_cast<size_t>(loops.run), .x = x});
  return JoinParts<T>(kind, loops.offsets.size(), [&](size_t i) {
    return folds.fold({.kind = kind, .n = static_cast<size_t>(loops.run), .x = x + loops.offsets[i]});
  });
}

// Outputs too few to share among threads, each of one long line: pieces of lines are, whose folds are kept in the
// scratch. A piece does not depend on the number of threads.
constexpr int64_t kPiece = 65536;
bool HasFewLongLines(const ReduceLoops& loops) {
  return loops.columns == 1 && loops.offsets.size() == 1 && loops.run >= 4 * kPiece && loops.outer.num_elements() <= 8;
}
template <typename T>
Result<std::unique_ptr<CpuStep>> BindLongLines(const ukernel::FoldFunctions<T>& folds, const Reduction& reduction,
                                               ReduceLoops loops) {
  const int64_t outputs = loops.outer.num_elements(), pieces = (loops.run + kPiece - 1) / kPiece;
  auto run = [=, loops = std::move(loops), kind = reduction.fold, finish = reduction.finish](const StepContext& c) {
    T* const parts = static_cast<T*>(c.scratch);
    QUERN_RETURN_IF_ERROR(ForItems(c, outputs * pieces, kPiece, kCheapGrain, [&](int64_t item) {
      const int64_t first = item % pieces * kPiece;
      const T* x = static_cast<const T*>(c.inputs[0]) + OuterOffset(loops, item / pieces) + first;
      parts[item] = folds.fold({.kind = kind, .n = static_cast<size_t>(std::min(kPiece, loops.run - first)), .x = x});
    }));
    for (int64_t i = 0; i < outputs; ++i) {
      const T total = JoinParts<T>(kind, static_cast<size_t>(pieces),
                                   [&](size_t p) { return parts[i * pieces + static_cast<int64_t>(p)]; });
      static_cast<T*>(c.outputs[0])[i] = Finished(finish, total, loops.run);
    }
    return OkStatus();
  };
  return MakeStep(std::move(run), static_cast<size_t>(outputs * pieces) * sizeof(T));
}

constexpr int64_t kBlock = 256;  // columns of one task

// Lines so short that calls for each would cost more than their elements: a block of them is turned, so that their
// elements are rows, which are folded for all lines at once.
constexpr int64_t kShortLine = 16;
// columns[r * n + i] = element r of line i, of n lines that follow one another.
template <typename T>
void TurnLines(const T* x, int64_t length, int64_t n, T* columns) {
  for (int64_t r = 0; r < length; ++r) {
    for (int64_t i = 0; i < n; ++i) columns[r * n + i] = x[i * length + r];
  }
}
// f(columns, first, n) for each block of at most kBlock of `lines` turned lines.
template <typename T, typename F>
Status ForShortLines(const StepContext& c, int64_t lines, int64_t length, F f) {
  return ForItems(c, (lines + kBlock - 1) / kBlock, length * std::min(kBlock, lines), kCheapGrain, [&](int64_t block) {
    const int64_t first = block * kBlock, n = std::min(kBlock, lines - first);
    T columns[kShortLine * kBlock];
    TurnLines(static_cast<const T*>(c.inputs[0]) + first * length, length, n, columns);
    f(columns, first, n);
  });
}

template <typename T>
Result<std::unique_ptr<CpuStep>> BindShortLines(const ukernel::FoldFunctions<T>& folds, const Reduction& reduction,
                                                int64_t lines, int64_t length) {
  return MakeStep([=, kind = reduction.fold, finish = reduction.finish](const StepContext& c) {
    return ForShortLines<T>(c, lines, length, [&](const T* columns, int64_t first, int64_t n) {
      T* const y = static_cast<T*>(c.outputs[0]) + first;
      folds.fold_rows({.kind = kind,
                       .rows = static_cast<size_t>(length),
                       .n = static_cast<size_t>(n),
                       .x = columns,
                       .row_stride = n,
                       .scale = 1,
                       .y = y});
      if (finish == Finish::kNone) return;
      for (int64_t i = 0; i < n; ++i) y[i] = Finished(finish, y[i], length);
    });
  });
}

// f(x, y, n) for each block of at most kBlock neighbouring outputs, whose first rows begin at x.
template <typename T, typename F>
Status ForColumns(const StepContext& c, const ReduceLoops& loops, int64_t grain, F f) {
  const int64_t blocks = (loops.columns + kBlock - 1) / kBlock;
  return ForItems(c, loops.outer.num_elements() * blocks, loops.count() * std::min(kBlock, loops.columns), grain,
                  [&](int64_t item) {
                    const int64_t i = item / blocks, first = item % blocks * kBlock;
                    f(static_cast<const T*>(c.inputs[0]) + OuterOffset(loops, i) + first,
                      static_cast<T*>(c.outputs[0]) + i * loops.columns + first,
                      std::min(kBlock, loops.columns - first));
                  });
}

template <typename T>
Result<std::unique_ptr<CpuStep>> BindFold(const ukernel::FoldFunctions<T>& folds, const Reduction& reduction,
                                          ReduceLoops loops, T start) {
  if (HasFewLongLines(loops)) return BindLongLines(folds, reduction, std::move(loops));
  if (loops.columns == 1 && loops.offsets.size() == 1 && loops.run > 0 && loops.run <= kShortLine) {
    return BindShortLines(folds, reduction, loops.outer.num_elements(), loops.run);
  }
  return MakeStep(
      [=, loops = std::move(loops), kind = reduction.fold, finish = reduction.finish](const StepContext& c) {
        const int64_t count = loops.count(), outputs = loops.outer.num_elements() * loops.columns;
        auto* const results = static_cast<T*>(c.outputs[0]);
        if (count == 0) {
          std::fill_n(results, outputs, Finished(finish, start, count));
          return OkStatus();
        }
        if (loops.columns == 1 && loops.offsets.size() == 1) {  // lines that follow one another
          return ForRange(c, outputs, std::max<int64_t>(1, kCheapGrain / count), [&](int64_t begin, int64_t end) {
            const T* x = static_cast<const T*>(c.inputs[0]) + begin * count;
            folds.fold_lines({.line = {.kind = kind, .n = static_cast<size_t>(count), .x = x},
                              .lines = static_cast<size_t>(end - begin),
                              .pitch = count,
                              .y = results + begin});
            if (finish == Finish::kNone) return;
            for (int64_t i = begin; i < end; ++i) results[i] = Finished(finish, results[i], count);
          });
        }
        if (loops.columns == 1) {
          return ForItems(c, outputs, count, kCheapGrain, [&](int64_t i) {
            const T* x = static_cast<const T*>(c.inputs[0]) + OuterOffset(loops, i);
            results[i] = Finished(finish, FoldLines(folds, kind, loops, x), count);
          });
        }
        return ForColumns<T>(c, loops, kCheapGrain, [&](const T* x, T* y, int64_t n) {
          folds.fold_rows({.kind = kind,
                           .rows = loops.offsets.size(),
                           .n = static_cast<size_t>(n),
                           .x = x,
                           .offsets = loops.offsets.data(),
                           .scale = 1,
                           .y = y});
          if (finish == Finish::kNone) return;
          for (int64_t k = 0; k < n; ++k) y[k] = Finished(finish, y[k], count);
        });
      });
}

struct ExpRows {
  const ukernel::VectorKernel* vector;
  const ukernel::ElementwiseKernel* elementwise;

  // e = exp(x - shift) of n (at most kBlock) elements.
  void Exponentials(size_t n, const float* x, const float* shift, float* e) const {
    vector->binary({.kind = ukernel::BinaryKind::kSub, .n = n, .x = x, .z = shift, .y = e});
    vector->unary({.kind = ukernel::UnaryKind::kExp, .n = n, .x = e, .y = e});
  }
  void Exponentials(size_t n, const double* x, const double* shift, double* e) const {
    constexpr DType kType = DType::kF64;
    double difference[kBlock];
    const auto count = static_cast<int64_t>(n);
    elementwise->binary(ukernel::BinaryKind::kSub, kType, kType)(count, x, shift, difference);
    elementwise->unary(ukernel::UnaryKind::kExp, kType, kType)(count, difference, e, {});
  }
  template <typename T>
  auto SoftmaxOf() const {
    if constexpr (std::is_same_v<T, float>) {
      return vector->softmax;
    } else {
      return elementwise->softmax;
    }
  }
};

// Of lines by the micro-kernel, of neighbouring outputs by exponentials in cache. The largest element is taken out of
// the exponents, so that they do not overflow.
template <typename T>
class LogSumExp {
 public:
  LogSumExp(const ExpRows& exp, const ukernel::FoldFunctions<T>& folds) : exp_(exp), folds_(folds) {}

  // y[i] of `lines` that follow one another, of `length` elements.
  void OfLines(int64_t length, int64_t lines, const T* x, T* y) const {
    if (length == 0) return static_cast<void>(std::fill_n(y, lines, -std::numeric_limits<T>::infinity()));
    exp_.SoftmaxOf<T>()({.count = static_cast<size_t>(length),
                         .x = x,
                         .lines = static_cast<size_t>(lines),
                         .pitch = length,
                         .log_sum = y});
  }
  // One output made of several lines: of what each of them gives.
  T OfLines(const ReduceLoops& loops, const T* x) const {
    T parts[kBlock], joined;
    int64_t n = 0;
    for (ptrdiff_t o : loops.offsets) {
      OfLines(loops.run, 1, x + o, &parts[n++]);
      if (n < kBlock) continue;
      OfLines(n, 1, parts, &joined);
      parts[0] = joined;
      n = 1;
    }
    OfLines(n, 1, parts, &joined);
    return joined;
  }
  // y[c] for n (at most kBlock) columns of rows at the offsets, or `stride` apart where there are none.
  void OfColumns(int64_t rows, const ptrdiff_t* offsets, ptrdiff_t stride, const T* x, T* y, int64_t columns) const {
    constexpr int64_t kPart = 16;  // rows of exponentials at once
    const auto n = static_cast<size_t>(columns);
    T shift[kBlock], e[kPart * kBlock], part[kBlock];
    double sum[kBlock] = {}, log[kBlock];
    folds_.fold_rows({.kind = FoldKind::kMax,
                      .rows = static_cast<size_t>(rows),
                      .n = n,
                      .x = x,
                      .offsets = offsets,
                      .row_stride = stride,
                      .y = shift});
    for (size_t c = 0; c < n; ++c) shift[c] = Shift(shift[c]);
    for (int64_t r = 0; r < rows; r += kPart) {
      const int64_t count = std::min(rows - r, kPart);
      for (int64_t k = 0; k < count; ++k) {
        exp_.Exponentials(n, x + (offsets ? offsets[r + k] : (r + k) * stride), shift, e + k * columns);
      }
      folds_.fold_rows({.kind = FoldKind::kSum,
                        .rows = static_cast<size_t>(count),
                        .n = n,
                        .x = e,
                        .row_stride = columns,
                        .y = part});
      for (size_t c = 0; c < n; ++c) sum[c] += static_cast<double>(part[c]);
    }
    exp_.elementwise->unary(ukernel::UnaryKind::kLog, DType::kF64, DType::kF64)(columns, sum, log, {});
    for (size_t c = 0; c < n; ++c) y[c] = static_cast<T>(log[c] + static_cast<double>(shift[c]));
  }

 private:
  static T Shift(T largest) { return std::isinf(largest) ? 0 : largest; }
  const ExpRows& exp_;
  const ukernel::FoldFunctions<T>& folds_;
};

template <typename T>
Result<std::unique_ptr<CpuStep>> BindLogSumExp(const ExpRows& exp, const ukernel::FoldFunctions<T>& folds,
                                               ReduceLoops loops) {
  return MakeStep([=, loops = std::move(loops)](const StepContext& c) {
    const LogSumExp<T> log_sum_exp(exp, folds);
    const auto* const x = static_cast<const T*>(c.inputs[0]);
    auto* const y = static_cast<T*>(c.outputs[0]);
    const int64_t outputs = loops.outer.num_elements();
    if (loops.columns == 1 && loops.offsets.size() == 1 && loops.run > 0 && loops.run <= kShortLine) {
      return ForShortLines<T>(c, outputs, loops.run, [&](const T* columns, int64_t first, int64_t n) {
        log_sum_exp.OfColumns(loops.run, nullptr, n, columns, y + first, n);
      });
    }
    if (loops.columns == 1 && loops.offsets.size() == 1) {
      const int64_t grain = std::max<int64_t>(1, kCostlyGrain / std::max<int64_t>(1, loops.run));
      return ForRange(c, outputs, grain, [&](int64_t begin, int64_t end) {
        log_sum_exp.OfLines(loops.run, end - begin, x + begin * loops.run, y + begin);
      });
    }
    if (loops.columns == 1) {
      return ForItems(c, outputs, loops.count(), kCostlyGrain,
                      [&](int64_t i) { y[i] = log_sum_exp.OfLines(loops, x + OuterOffset(loops, i)); });
    }
    return ForColumns<T>(c, loops, kCostlyGrain, [&](const T* first, T* to, int64_t n) {
      log_sum_exp.OfColumns(loops.count(), loops.offsets.data(), 0, first, to, n);
    });
  });
}

using FoldTypes = Types<float, double, int32_t, int64_t, uint32_t, uint64_t, int8_t, uint8_t>;

class ReduceKernel final : public CpuKernel {
 public:
  ReduceKernel(const Node& node, const CpuConfig& config)
      : node_(node), rows_(config), elementwise_(ElementwiseRowFor(config)) {}
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
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    ReduceLoops loops = MakeLoops(shape, reduced);
    const Reduction& reduction = ReductionOf(node_);
    const DType dtype = context.inputs[0].dtype;
    if (node_.op_type() == "ReduceLogSumExp") {
      const ExpRows exp{rows_.vector, elementwise_};
      return dtype == DType::kF64 ? BindLogSumExp(exp, rows_.Of<double>(), std::move(loops))
                                  : BindLogSumExp(exp, rows_.Of<float>(), std::move(loops));
    }
    // A bool is a byte of 0 or 1, whose extremes are those of integers.
    const bool is_bool = dtype == DType::kBool;
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(FoldTypes{}, is_bool ? DType::kU8 : dtype, [&]<typename T>() {
      T start = ukernel::FoldStart<T>(reduction.fold);
      if (is_bool) start = std::min(start, T{1});
      QUERN_ASSIGN_OR_RETURN(step, BindFold<T>(rows_.Of<T>(), reduction, std::move(loops), start));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override {
    const DType t = node_.input(0)->type().dtype;
    return rows_.Describe(t, node_.op_type() + ", folds of lines or rows");
  }

 private:
  const Node& node_;
  const FoldRows rows_;
  const ukernel::ElementwiseKernel* elementwise_;
};

std::string RejectReduce(const Node& node, const CpuConfig&) {
  const GraphValue* axes = node.input(1);
  if (axes && !axes->is_constant() && !axes->data()) return "the axes come with the run";
  const Reduction& r = ReductionOf(node);
  TypeSet types = {DType::kF32, DType::kF64};
  if (r.finish == Finish::kNone) types = types | TypeSet{DType::kI32, DType::kI64, DType::kU32, DType::kU64};
  if (r.fold == FoldKind::kMax || r.fold == FoldKind::kMin) {
    types = types | TypeSet{DType::kI8, DType::kU8, DType::kBool};
  }
  return RejectUnlessType(node.input(0), types);
}

template <typename T>
Result<std::unique_ptr<CpuStep>> BindArg(const ukernel::FoldFunctions<T>& folds, int64_t outer, int64_t count,
                                         int64_t inner, ukernel::Extreme which) {
  if (inner == 1 && count <= kShortLine) {
    return MakeStep([=](const StepContext& c) {
      return ForShortLines<T>(c, outer, count, [&](const T* columns, int64_t first, int64_t n) {
        folds.arg_rows({.which = which,
                        .rows = static_cast<size_t>(count),
                        .n = static_cast<size_t>(n),
                        .x = columns,
                        .row_stride = n,
                        .y = static_cast<int64_t*>(c.outputs[0]) + first});
      });
    });
  }
  const int64_t blocks = (inner + kBlock - 1) / kBlock;
  return MakeStep([=](const StepContext& c) {
    return ForItems(c, outer * blocks, count * std::min(kBlock, inner), kCheapGrain, [&](int64_t item) {
      const int64_t i = item / blocks, first = item % blocks * kBlock;
      const T* x = static_cast<const T*>(c.inputs[0]) + i * count * inner + first;
      int64_t* y = static_cast<int64_t*>(c.outputs[0]) + i * inner + first;
      if (inner == 1) {
        *y = static_cast<int64_t>(folds.arg({.which = which, .n = static_cast<size_t>(count), .x = x}));
        return;
      }
      folds.arg_rows({.which = which,
                      .rows = static_cast<size_t>(count),
                      .n = static_cast<size_t>(std::min(kBlock, inner - first)),
                      .x = x,
                      .row_stride = inner,
                      .y = y});
    });
  });
}

class ArgKernel final : public CpuKernel {
 public:
  ArgKernel(const Node& node, const CpuConfig& config)
      : rows_(config),
        which_{.smallest = node.op_type() == "ArgMin", .last = node.GetInt("select_last_index", 0) != 0},
        axis_(node.GetInt("axis", 0)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& s = context.inputs[0].shape;
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + s.rank() : axis_);
    if (s.rank() == 0 || s[axis] == 0) return InvalidArgument("there is no element to choose from");
    const int64_t outer = s.num_elements(0, axis), inner = s.num_elements(axis + 1, s.rank());
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(FoldTypes{}, context.inputs[0].dtype, [&]<typename T>() {
      QUERN_ASSIGN_OR_RETURN(step, BindArg<T>(rows_.Of<T>(), outer, s[axis], inner, which_));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override {
    return Described(ukernel::Name(*rows_.fold).text,
                     which_.smallest ? "ArgMin by lines or rows" : "ArgMax by lines or rows");
  }

 private:
  const FoldRows rows_;
  const ukernel::Extreme which_;
  int64_t axis_;
};

std::string RejectArg(const Node& node, const CpuConfig&) {
  if (node.input(0)->type().rank() == 0) return "a scalar";
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU32, DType::kU64,
                                          DType::kU8, DType::kI8});
}
Result<std::unique_ptr<CpuKernel>> CompileArg(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new ArgKernel(node, *context.config));
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
