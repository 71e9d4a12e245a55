// DFT and STFT of float32: blocks of lines, or of a signal's frames, side by side in the lanes of a register.
#include <algorithm>

#include "kernels/fourier.h"
#include "ops/common/elements.h"
#include "ops/common/fourier_op.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using kernels::FourierForm;
using kernels::FourierLines;
using kernels::FourierPlan;

// What both operators hold.
class LinesKernel : public CpuKernel {
 public:
  explicit LinesKernel(const CpuConfig& config)
      : facts_(config.cpu.facts()), vector_(VectorRowFor(config)), limits_(config.limits) {}
  KernelDescription Describe() const override {
    return Described(ukernel::Name(*ukernel::SelectFourierRow(facts_, SIZE_MAX)).text,
                     "lines side by side in the lanes of a register");
  }

 protected:
  // A step for `groups` groups of `group_lines` lines each. lines_of(context, group) tells where a
  // group's lines begin.
  template <typename F>
  Result<std::unique_ptr<CpuStep>> BindLines(const BindContext& context, int64_t groups, int64_t group_lines,
                                             int64_t length, FourierForm form, bool inverse, int components,
                                             int64_t kept, F lines_of) const {
    const ukernel::FourierKernel* row = ukernel::SelectFourierRow(facts_, static_cast<size_t>(group_lines));
    QUERN_RETURN_IF_ERROR(
        CheckFourierMemory(FourierPlan::MemoryBytes(static_cast<double>(length), row->lanes), length, limits_));
    const auto plan = std::make_shared<const FourierPlan>(length, form, inverse, components, kept);
    const int64_t lanes = row->lanes, blocks = (group_lines + lanes - 1) / lanes;
    const size_t slot_floats = (plan->workspace_floats(*row) + 15) / 16 * 16;
    const int concurrency = context.concurrency;
    auto run = [=, vector = vector_](const StepContext& c) {
      const auto task = [&](int slot, int64_t begin, int64_t end) {
        float* workspace = static_cast<float*>(c.scratch) + static_cast<size_t>(slot) * slot_floats;
        for (int64_t item = begin; item < end; ++item) {
          const int64_t first = item % blocks * lanes;
          FourierLines lines = lines_of(c, item / blocks);
          lines.lines = std::min(lanes, group_lines - first);
          lines.x += first * lines.x_line;
          lines.y += first * lines.y_line;
          plan->Run(*row, *vector, lines, workspace);
        }
      };
      const int64_t grain = std::max<int64_t>(1, kCheapGrain / (length * lanes));
      return c.executor->ParallelFor(groups * blocks, grain, task, c.cancel, concurrency);
    };
    return MakeStep(std::move(run), slot_floats * sizeof(float) * static_cast<size_t>(concurrency));
  }

 private:
  const CpuFacts facts_;
  const ukernel::VectorKernel* vector_;
  const Limits limits_;
};

// The number in an integer input that plans know, or `otherwise` where it is omitted.
Result<int64_t> PlannedScalar(const BindContext& context, int i, int64_t otherwise) {
  if (!context.has_input(i)) return otherwise;
  const Tensor* given = context.inputs[static_cast<size_t>(i)].constant;
  if (!given) return Unsupported("input " + std::to_string(i) + " is not known while planning");
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> values, ToInt64s(*given));
  if (values.size() == 1) return values[0];
  return InvalidArgument("input " + std::to_string(i) + " has " + std::to_string(values.size()) + " elements");
}

class DftKernel final : public LinesKernel {
 public:
  DftKernel(const Node& node, const CpuConfig& config)
      : LinesKernel(config), mode_(DftMode::Of(node)), default_axis_(DefaultDftAxis(node)) {}
  uint64_t plan_time_inputs() const override { return 6; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &in = context.inputs[0].shape, &out = context.outputs[0].shape;
    QUERN_ASSIGN_OR_RETURN(const int64_t given_axis, PlannedScalar(context, 2, default_axis_));
    const int rank = in.rank(), axis = static_cast<int>(given_axis < 0 ? given_axis + rank : given_axis);
    if (axis < 0 || axis >= rank - 1) {
      return InvalidArgument("axis " + std::to_string(given_axis) + " of a signal of shape " + in.ToString());
    }
    QUERN_ASSIGN_OR_RETURN(const int64_t length, PlannedScalar(context, 1, mode_.DefaultLength(in[axis]).value()));
    if (out.num_elements() == 0) return NothingToDo();
    const int64_t outer = in.num_elements(0, axis), inner = in.num_elements(axis + 1, rank - 1);
    const int64_t components = in.back(), out_components = out.back(), taken = mode_.Taken(in[axis], length);
    const FourierForm form = mode_.real_output()                 ? FourierForm::kToReal
                             : components == 1 && !mode_.inverse ? FourierForm::kReal
                                                                 : FourierForm::kComplex;
    // Of the last axis but the components' all lines are one group, else those between two steps of an outer dimension.
    const int64_t groups = inner == 1 ? 1 : outer;
    const int64_t x_group = in[axis] * inner * components, y_group = out[axis] * inner * out_components;
    return BindLines(context, groups, inner == 1 ? outer : inner, length, form, mode_.inverse,
                     static_cast<int>(components), out[axis], [=](const StepContext& c, int64_t group) {
                       return FourierLines{.x = static_cast<const float*>(c.inputs[0]) + group * x_group,
                                           .x_line = inner == 1 ? x_group : components,
                                           .x_element = inner * components,
                                           .taken = taken,
                                           .y = static_cast<float*>(c.outputs[0]) + group * y_group,
                                           .y_line = inner == 1 ? y_group : out_components,
                                           .y_element = inner * out_components};
                     });
  }

 private:
  const DftMode mode_;
  const int64_t default_axis_;
};

class StftKernel final : public LinesKernel {
 public:
  explicit StftKernel(const CpuConfig& config) : LinesKernel(config) {}
  uint64_t plan_time_inputs() const override { return 10; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &signal = context.inputs[0].shape, &out = context.outputs[0].shape;
    QUERN_ASSIGN_OR_RETURN(const int64_t step, PlannedScalar(context, 1, 0));
    const bool windowed = context.has_input(2);
    QUERN_ASSIGN_OR_RETURN(const int64_t length,
                           PlannedScalar(context, 3, windowed ? context.inputs[2].shape.num_elements() : signal[1]));
    if (out.num_elements() == 0) return NothingToDo();
    const int64_t components = signal.rank() == 2 ? 1 : signal[2], frames = out[1], bins = out[2];
    return BindLines(context, out[0], frames, length, components == 1 ? FourierForm::kReal : FourierForm::kComplex,
                     false, static_cast<int>(components), bins, [=](const StepContext& c, int64_t group) {
                       return FourierLines{.x = static_cast<const float*>(c.inputs[0]) + group * signal[1] * components,
                                           .x_line = step * components,
                                           .x_element = components,
                                           .taken = length,
                                           .window = windowed ? static_cast<const float*>(c.inputs[2]) : nullptr,
                                           .y = static_cast<float*>(c.outputs[0]) + group * frames * bins * 2,
                                           .y_line = bins * 2,
                                           .y_element = 2};
                     });
  }
};

std::string Reject(const Node& node, const CpuConfig&) { return RejectUnlessType(node.input(0), {DType::kF32}); }

Result<std::unique_ptr<CpuKernel>> CompileDft(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new DftKernel(node, *context.config));
}
Result<std::unique_ptr<CpuKernel>> CompileStft(const Node&, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new StftKernel(*context.config));
}

constexpr CpuOp kOps[] = {
    {"", "DFT", Reject, CompileDft, kAllButData},
    {"", "STFT", Reject, CompileStft, 1u << 1 | 1u << 3},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsFourier = kOps;

}  // namespace quern::cpu
