// This provider's Elementwise: a chain of elementwise functions (common/elementwise_chain.h), computed on one block of
// elements after the other, so that what lies between two functions stays in the first-level cache. The functions are
// those of the operators, and so are the results' bits. What lies between two bytes is a table (common/chain_tables.h).
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/aligned_buffer.h"
#include "ops/common/infer_common.h"
#include "provider/cpu/common/chain_tables.h"
#include "provider/cpu/common/elementwise_chain.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

using Form = ChainFunction::Form;

constexpr int kMostValues = kMostChainInputs + kMostChainNumbers + kMostChainSteps;
// What a block's values take of a first-level cache, those included that are read and written where they are.
constexpr int64_t kBlocksBytes = 24576;
constexpr int64_t kLeastBlock = 256, kLargestBlock = 4096;  // elements: against calls for little, and long waits
// Rows as long as this are worth calls of their own.
constexpr int64_t kLongRow = 128;

// A function with the rows that compute it.
struct BoundStep {
  ChainStep step;
  UnaryRow unary = nullptr;
  BinaryRow binary = nullptr;
  ukernel::ChoiceRow choice = nullptr;
  uint8_t zero = 0;  // the zero point of quantized bytes
};

struct ChainRows {
  const ukernel::VectorKernel* vector;
  const ukernel::AffineKernel* affine;
};

// Where a block of an input comes from.
enum class Source : uint8_t {
  kWhole,     // its memory: it has an element for each result
  kOne,       // its memory, one element
  kRow,       // its memory, as the block is part of a row along which it advances by 0 or 1
  kRepeated,  // a buffer that is the same for all blocks
  kGathered,  // a buffer that is filled for each block
};

struct ValuePlan {
  size_t bytes = 4;     // of an element
  bool single = false;  // computed or read once for a block
  bool spread = false;  // single, but then written for each element, as a function without single operands reads it
  int buffer = -1;      // of a block's elements in scratch; -1: memory of an input or the output
};

void Spread(char* first, size_t bytes, int64_t n) {
  if (bytes == 1) {
    std::memset(first, *first, static_cast<size_t>(n));
  } else {
    auto* f = reinterpret_cast<float*>(first);
    std::fill_n(f, n, *f);
  }
}

class ChainStepRunner final : public CpuStep {
 public:
  ChainStepRunner(const ChainRows& rows, const std::vector<BoundStep>& steps, const Chain& chain,
                  const BindContext& context)
      : rows_(rows),
        steps_(steps),
        chain_(chain),
        total_(context.outputs[0].shape.num_elements()),
        concurrency_(context.concurrency),
        walk_(context.outputs[0].shape, ShapesOf(context)) {
    PlanInputs(context);
    PlanSingles();
    PlanBuffers();
    PlanBlocks(context);
  }

  size_t scratch_bytes() const override {
    return static_cast<size_t>(num_buffers_) * buffer_bytes() * static_cast<size_t>(concurrency_);
  }

  Status Run(const StepContext& c) const override {
    const int64_t blocks = (total_ + block_ - 1) / block_;
    const auto task = [&](int slot, int64_t begin, int64_t end) {
      Worker worker(*this, c, slot);
      worker.Run(begin * block_, std::min(end * block_, total_));
    };
    const int64_t grain = std::max<int64_t>(1, grain_ / block_);
    if (blocks <= grain) {
      task(0, 0, blocks);
      return OkStatus();
    }
    return c.executor->ParallelFor(blocks, grain, task, c.cancel, concurrency_);
  }

 private:
  using Walk = BroadcastWalk<kMostChainInputs>;

  static std::array<Shape, kMostChainInputs> ShapesOf(const BindContext& context) {
    std::array<Shape, kMostChainInputs> shapes;  // of one element where there is no input
    for (size_t i = 0; i < context.inputs.size(); ++i) shapes[i] = context.inputs[i].shape;
    return shapes;
  }
  size_t buffer_bytes() const { return static_cast<size_t>((block_ + 15) / 16 * 16) * sizeof(float); }
  int ResultOf(size_t step) const { return chain_.first_step() + static_cast<int>(step); }
  std::span<const int> OperandsOf(const BoundStep& s) const {
    return {s.step.operands.data(), static_cast<size_t>(s.step.function.num_operands())};
  }

  // The elements after which an input repeats itself, where that is all it does: it has the last extents of the output.
  static int64_t PeriodOf(const Shape& input, const Shape& out) {
    int first = 0;
    while (first < input.rank() && input[first] == 1) ++first;
    for (int d = first; d < input.rank(); ++d) {
      if (input[d] != out[d + out.rank() - input.rank()]) return 0;
    }
    return input.num_elements();
  }

  void PlanInputs(const BindContext& context) {
    const Shape& out = context.outputs[0].shape;
    bool by_rows = false;
    for (int i = 0; i < chain_.num_inputs; ++i) {
      const TensorSpec& in = context.inputs[static_cast<size_t>(i)];
      values_[i].bytes = DTypeBytes(in.dtype);
      const int64_t count = in.shape.num_elements();
      if (count == total_ || count == 1) {
        sources_[i] = count == total_ ? Source::kWhole : Source::kOne;
        values_[i].single = sources_[i] == Source::kOne;
        continue;
      }
      periods_[i] = PeriodOf(in.shape, out);
      const bool repeats = periods_[i] > 0 && periods_[i] <= kLargestBlock / 2;
      if (repeats) longest_period_ = std::max(longest_period_, periods_[i]);
      by_rows |= !repeats;
      sources_[i] = repeats ? Source::kRepeated : Source::kGathered;
    }
    by_rows_ = by_rows && walk_.row_length() >= kLongRow;
    for (int i = 0; by_rows_ && i < chain_.num_inputs; ++i) {
      if (sources_[i] == Source::kWhole || sources_[i] == Source::kOne) continue;
      sources_[i] = Source::kRow;
      values_[i].single = walk_.step(i) == 0;
    }
  }

  // What is one element for a block: numbers, inputs, and what is computed of such alone.
  void PlanSingles() {
    for (int v = chain_.num_inputs; v < chain_.first_step(); ++v) values_[v].single = true;
    for (size_t s = 0; s < steps_.size(); ++s) {
      ValuePlan& result = values_[ResultOf(s)];
      const std::span<const int> operands = OperandsOf(steps_[s]);
      result.bytes = DTypeBytes(steps_[s].step.function.to);
      result.single = std::ranges::all_of(operands, [&](int v) { return IsSingle(v); });
      if (result.single || steps_[s].step.function.is_vector()) continue;
      for (const int v : operands) values_[v].spread |= values_[v].single;
    }
  }
  bool IsSingle(int v) const { return values_[v].single && !values_[v].spread; }

  // Each value that is not memory of an input or the output gets a buffer, which values that are read no more leave to
  // others.
  void PlanBuffers() {
    std::array<int, kMostValues> last_use{};
    for (size_t s = 0; s < steps_.size(); ++s) {
      for (const int v : OperandsOf(steps_[s])) last_use[v] = static_cast<int>(s);
    }
    for (int v = 0; v < chain_.first_step(); ++v) {
      const bool filled =
          v < chain_.num_inputs && (sources_[v] == Source::kRepeated || sources_[v] == Source::kGathered);
      if (filled || values_[v].spread) values_[v].buffer = num_buffers_++;
    }
    std::vector<int> free;
    for (size_t s = 0; s + 1 < steps_.size(); ++s) {
      const int result = ResultOf(s);
      const bool may_overwrite = steps_[s].step.function.is_vector() && !values_[result].single;
      const auto release = [&](bool overwritten) {
        for (const int v : OperandsOf(steps_[s])) {
          const bool of_step = v >= chain_.first_step() && last_use[v] == static_cast<int>(s);
          if (of_step && (may_overwrite && !values_[v].single) == overwritten &&
              !std::ranges::count(free, values_[v].buffer)) {
            free.push_back(values_[v].buffer);
          }
        }
      };
      release(true);
      if (free.empty()) free.push_back(num_buffers_++);
      values_[result].buffer = free.back();
      free.pop_back();
      release(false);
    }
  }

  void PlanBlocks(const BindContext& context) {
    const int64_t streams = 1 + std::count(sources_.begin(), sources_.begin() + chain_.num_inputs, Source::kWhole);
    const int64_t fits = kBlocksBytes / static_cast<int64_t>(sizeof(float)) / (num_buffers_ + streams);
    block_ = std::clamp(fits, kLeastBlock, kLargestBlock);
    // A shorter period divides a longer one, and all divide the total: they are products of the output's last extents.
    if (!by_rows_ && longest_period_ > 0) block_ = std::max(block_ / longest_period_, int64_t{1}) * longest_period_;
    block_ = std::min(block_, total_);
    for (int i = 0; i < chain_.num_inputs; ++i) {
      const bool filled = sources_[i] == Source::kRepeated || sources_[i] == Source::kGathered;
      const TensorSpec& in = context.inputs[static_cast<size_t>(i)];
      gathers_.emplace_back(context.outputs[0].shape, std::array{filled ? in.shape : Shape{}});
    }
    int64_t cost = 0;
    for (const BoundStep& s : steps_) cost += s.step.function.costly ? kCheapGrain / kCostlyGrain : 1;
    grain_ = std::max(kCostlyGrain, kCheapGrain / cost);
  }

  // One task: blocks of results with the values that they go through.
  class Worker {
   public:
    Worker(const ChainStepRunner& plan, const StepContext& context, int slot)
        : plan_(plan),
          context_(context),
          scratch_(static_cast<char*>(context.scratch) +
                   static_cast<size_t>(slot) * static_cast<size_t>(plan.num_buffers_) * plan.buffer_bytes()) {
      const Chain& chain = plan_.chain_;
      for (int v = 0; v < chain.num_values(); ++v) {
        if (plan_.values_[v].buffer >= 0) at_[v] = Buffer(v);
      }
      for (int v = 0; v < chain.first_step(); ++v) {
        const bool number = v >= chain.num_inputs;
        const void* from = number ? &chain.numbers[static_cast<size_t>(v - chain.num_inputs)] : context_.inputs[v];
        if (!number && plan_.sources_[v] != Source::kOne) continue;
        if (plan_.values_[v].spread) {
          Fill(v, from, plan_.block_);
        } else {
          at_[v] = from;
        }
      }
    }

    void Run(int64_t begin, int64_t end) {
      if (plan_.by_rows_) {
        plan_.walk_.RunRange(begin, end, [&](int64_t at, const auto& offsets, int64_t count) {
          for (int64_t i = 0; i < count; i += plan_.block_) {
            const int64_t n = std::min(plan_.block_, count - i);
            for (int v = 0; v < plan_.chain_.num_inputs; ++v)
              PlaceOfRow(v, at + i, offsets[v] + i * plan_.walk_.step(v), n);
            Compute(at + i, n);
          }
        });
        return;
      }
      for (int64_t at = begin; at < end; at += plan_.block_) {
        const int64_t n = std::min(plan_.block_, end - at);
        for (int v = 0; v < plan_.chain_.num_inputs; ++v) PlaceOfBlock(v, at, n, at == begin);
        Compute(at, n);
      }
    }

   private:
    char* Buffer(int v) const { return scratch_ + static_cast<size_t>(plan_.values_[v].buffer) * plan_.buffer_bytes(); }
    const char* Input(int v, int64_t element) const {
      return static_cast<const char*>(context_.inputs[v]) + static_cast<size_t>(element) * plan_.values_[v].bytes;
    }
    void Fill(int v, const void* from, int64_t n) {
      std::memcpy(Buffer(v), from, plan_.values_[v].bytes);
      Spread(Buffer(v), plan_.values_[v].bytes, n);
    }

    void PlaceOfRow(int v, int64_t at, int64_t offset, int64_t n) {
      if (plan_.sources_[v] == Source::kWhole) {
        at_[v] = Input(v, at);
      } else if (plan_.sources_[v] == Source::kRow && plan_.values_[v].spread) {
        Fill(v, Input(v, offset), n);
      } else if (plan_.sources_[v] == Source::kRow) {
        at_[v] = Input(v, offset);
      }
    }
    void PlaceOfBlock(int v, int64_t at, int64_t n, bool first) {
      if (plan_.sources_[v] == Source::kWhole) {
        at_[v] = Input(v, at);
      } else if (plan_.sources_[v] == Source::kGathered || (plan_.sources_[v] == Source::kRepeated && first)) {
        plan_.values_[v].bytes == 1 ? Gather<char>(v, at, n) : Gather<float>(v, at, n);
      }
    }
    template <typename T>
    void Gather(int v, int64_t begin, int64_t n) {
      T* to = reinterpret_cast<T*>(Buffer(v));
      const BroadcastWalk<1>& walk = plan_.gathers_[static_cast<size_t>(v)];
      const T* first = static_cast<const T*>(context_.inputs[v]);
      walk.RunRange(begin, begin + n, [&](int64_t at, const auto& offset, int64_t count) {
        const T* from = first + offset[0];
        T* run = to + (at - begin);
        if (walk.step(0) == 0) {
          std::fill_n(run, count, *from);
        } else {
          std::copy_n(from, count, run);
        }
      });
    }

    // The results [at, at + n), once all inputs have their places.
    void Compute(int64_t at, int64_t n) {
      const size_t last = plan_.steps_.size() - 1;
      for (size_t s = 0; s <= last; ++s) {
        const int result = plan_.ResultOf(s);
        const ValuePlan& value = plan_.values_[result];
        void* y =
            s < last ? Buffer(result) : static_cast<char*>(context_.outputs[0]) + static_cast<size_t>(at) * value.bytes;
        Apply(plan_.steps_[s], value.single ? 1 : n, y);
        if (value.spread) Spread(static_cast<char*>(y), value.bytes, n);
      }
    }
    void Apply(const BoundStep& s, int64_t n, void* y) const {
      const ChainFunction& function = s.step.function;
      const std::array<int, 3>& v = s.step.operands;
      const auto floats = [&](int k) { return static_cast<const float*>(at_[v[static_cast<size_t>(k)]]); };
      switch (function.form) {
        case Form::kUnary:
          return plan_.rows_.vector->unary({.kind = function.unary,
                                            .n = static_cast<size_t>(n),
                                            .x = floats(0),
                                            .y = static_cast<float*>(y),
                                            .a = s.step.a,
                                            .b = s.step.b});
        case Form::kBinary:
          return plan_.rows_.vector->binary({.kind = function.binary,
                                             .n = static_cast<size_t>(n),
                                             .x = floats(0),
                                             .z = floats(1),
                                             .y = static_cast<float*>(y),
                                             .x_step = plan_.IsSingle(v[0]) ? size_t{0} : size_t{1},
                                             .z_step = plan_.IsSingle(v[1]) ? size_t{0} : size_t{1}});
        case Form::kPlainUnary:
          return s.unary(n, at_[v[0]], y, {});
        case Form::kPlainBinary:
          static_cast<void>(s.binary(n, at_[v[0]], at_[v[1]], y));  // of floats and bools, none has faults
          return;
        case Form::kChoice:
          return s.choice(n, at_[v[0]], at_[v[1]], at_[v[2]], y);
        case Form::kDequantize:
          return plan_.rows_.affine->dequantize({.type = function.from,
                                                 .n = static_cast<size_t>(n),
                                                 .x = at_[v[0]],
                                                 .y = y,
                                                 .scale = &s.step.a,
                                                 .zero = &s.zero});
        case Form::kTable:
          return plan_.rows_.affine->map({.table = s.step.table->data(),
                                          .n = static_cast<size_t>(n),
                                          .x = static_cast<const uint8_t*>(at_[v[0]]),
                                          .y = static_cast<uint8_t*>(y)});
        case Form::kQuantize:
          return plan_.rows_.affine->quantize({.type = function.to,
                                               .n = static_cast<size_t>(n),
                                               .x = at_[v[0]],
                                               .y = y,
                                               .scale = &s.step.a,
                                               .zero = &s.zero});
      }
    }

    const ChainStepRunner& plan_;
    const StepContext& context_;
    char* scratch_;
    std::array<const void*, kMostValues> at_{};  // of the block at hand
  };

  const ChainRows rows_;
  const std::vector<BoundStep>& steps_;
  const Chain& chain_;
  int64_t total_;
  int concurrency_;
  Walk walk_;
  std::array<Source, kMostChainInputs> sources_{};
  std::array<int64_t, kMostChainInputs> periods_{};
  int64_t longest_period_ = 0;
  bool by_rows_ = false;
  std::array<ValuePlan, kMostValues> values_{};
  int num_buffers_ = 0;
  std::vector<BroadcastWalk<1>> gathers_;  // of each input
  int64_t block_ = 1, grain_ = 1;
};

std::vector<BoundStep> Bound(const Chain& chain, const CpuConfig& config) {
  const ukernel::ElementwiseKernel& plain = *ElementwiseRowFor(config);
  std::vector<BoundStep> steps;
  for (const ChainStep& s : chain.steps) {
    BoundStep bound{.step = s};
    const ChainFunction& f = s.function;
    if (f.form == Form::kDequantize || f.form == Form::kQuantize) {
      bound.zero = static_cast<uint8_t>(static_cast<int>(s.b));
    }
    if (f.form == Form::kPlainUnary) bound.unary = plain.unary(f.unary, f.from, f.to);
    if (f.form == Form::kPlainBinary) bound.binary = plain.binary(f.binary, f.from, f.from);
    if (f.form == Form::kChoice) bound.choice = plain.choose(DTypeBytes(f.to));
    steps.push_back(std::move(bound));
  }
  return steps;
}

// What the chain, of one input of bytes, makes of each of them.
Result<ByteTable> ResultsOf(const Chain& chain, const ChainRows& rows, const CpuConfig& config) {
  const std::vector<BoundStep> steps = Bound(chain, config);
  const TensorSpec bytes{.dtype = DType::kU8, .shape = Shape{256}, .strides = Shape{1}};
  const ChainStepRunner runner(rows, steps, chain, {.inputs = {&bytes, 1}, .outputs = {&bytes, 1}});
  QUERN_ASSIGN_OR_RETURN(AlignedBuffer scratch, AlignedBuffer::Allocate(runner.scratch_bytes()));
  ByteTable every, results;
  std::iota(every.begin(), every.end(), uint8_t{0});
  void *const x = every.data(), *const y = results.data();
  QUERN_RETURN_IF_ERROR(runner.Run({.inputs = {&x, 1}, .outputs = {&y, 1}, .scratch = scratch.data()}));
  return results;
}

class ElementwiseKernel final : public CpuKernel {
 public:
  ElementwiseKernel(Chain chain, const ChainRows& rows, const CpuConfig& config)
      : rows_(rows), chain_(std::move(chain)), steps_(Bound(chain_, config)) {}
  Placement Place(const BindContext& context) const override {
    Placement p;
    const TensorSpec& out = context.outputs[0];
    const bool looks_up = steps_.size() == 1 && steps_[0].step.table;
    if (!looks_up && !steps_.back().step.function.is_vector()) return p;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      const TensorSpec& in = context.inputs[i];
      const bool fits = looks_up || in.dtype == out.dtype;
      if (fits && in.shape.num_elements() == out.shape.num_elements()) p.in_place_inputs.push_back(static_cast<int>(i));
    }
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    return std::unique_ptr<CpuStep>(new ChainStepRunner(rows_, steps_, chain_, context));
  }
  KernelDescription Describe() const override {
    constexpr size_t kNamed = 5;
    std::string names;
    for (size_t s = 0; s < std::min(kNamed, steps_.size()); ++s) names += (s ? ", " : "") + steps_[s].step.name;
    if (steps_.size() > kNamed) names += " and " + std::to_string(steps_.size() - kNamed) + " more";
    if (steps_.size() == 1 && steps_[0].step.table) return Described(*rows_.affine, "a table of 256 bytes");
    return Described(*rows_.vector, names + " in one pass");
  }

 private:
  const ChainRows rows_;
  Chain chain_;
  std::vector<BoundStep> steps_;
};

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  const CpuConfig& config = *context.config;
  const ChainRows rows{VectorRowFor(config), AffineRowFor(config)};
  QUERN_ASSIGN_OR_RETURN(Chain chain, ReadChain(node));
  QUERN_ASSIGN_OR_RETURN(chain, WithTables(chain, [&](const Chain& part) { return ResultsOf(part, rows, config); }));
  return std::unique_ptr<CpuKernel>(new ElementwiseKernel(std::move(chain), rows, config));
}

Status Infer(InferContext& c) {
  const auto* functions = c.node().FindAttribute<std::vector<std::string>>("functions");
  const auto last = functions && !functions->empty() ? FindChainFunction(functions->back()) : std::nullopt;
  return last ? InferBroadcastTo(c, last->to) : c.Error("has no functions");
}

constexpr CpuOp kOps[] = {{kCpuDomain, "Elementwise", nullptr, Compile, 0, Infer}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsElementwise = kOps;

}  // namespace quern::cpu
