// Resize and Upsample with constant sizes or scales: nearest of any type, linear and cubic of float32 as one pass for
// each axis, and of bytes likewise, in float32.
#include <algorithm>
#include <optional>

#include "ops/common/resize.h"
#include "provider/cpu/common/indexed_copy.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// Where the operands stand in this version; -1: not there.
struct Operands {
  int roi, scales, sizes;
};
Operands OperandsOf(const Node& node) {
  if (node.op_type() != "Upsample" && node.opset() >= 11) return {1, 2, 3};
  if (node.op_type() == "Upsample" && node.opset() < 9) return {-1, -1, -1};
  return {-1, 1, -1};
}

// One axis: sums over taps of lines that are `inner` apart. Taps of weight 0 are left out.
struct Pass {
  int64_t outer, in, out, inner;
  std::vector<int64_t> first;  // [out + 1]: the taps of output position o are [first[o], first[o + 1])
  std::vector<ptrdiff_t> offsets;
  std::vector<float> weights;

  // Along the innermost axis: the same taps as [most, out], where most positions have `most` of them; of the others,
  // which are listed, some entries are not used. Empty where they are not worth it.
  std::vector<int64_t> gathered, partial;
  std::vector<float> gathered_weights;

  int64_t out_elements() const { return outer * out * inner; }
  int64_t taps_of(int64_t o) const { return first[static_cast<size_t>(o) + 1] - first[static_cast<size_t>(o)]; }
};

void GatherTaps(Pass& p) {
  int64_t most = 0;
  for (int64_t o = 0; o < p.out; ++o) most = std::max(most, p.taps_of(o));
  for (int64_t o = 0; o < p.out; ++o) {
    if (p.taps_of(o) < most) p.partial.push_back(o);
  }
  if (static_cast<int64_t>(p.partial.size()) * 2 > p.out) return;
  p.gathered.resize(static_cast<size_t>(most * p.out));
  p.gathered_weights.resize(p.gathered.size());
  for (int64_t o = 0; o < p.out; ++o) {
    for (int64_t t = 0; t < p.taps_of(o); ++t) {
      const auto from = static_cast<size_t>(p.first[static_cast<size_t>(o)] + t),
                 to = static_cast<size_t>(t * p.out + o);
      p.gathered[to] = p.offsets[from];
      p.gathered_weights[to] = p.weights[from];
    }
  }
}

Pass MakePass(const ResizeAttributes& attributes, const ResizeAxis& axis, int64_t outer, int64_t inner) {
  const ResizeTaps taps = MakeResizeTaps(attributes, axis);
  Pass pass{outer, axis.in, axis.out, inner, {0}, {}, {}, {}, {}, {}};
  for (int64_t o = 0; o < axis.out; ++o) {
    for (int64_t t = o * taps.count; t < (o + 1) * taps.count; ++t) {
      const float w = taps.weights[static_cast<size_t>(t)];
      if (w == 0) continue;
      pass.offsets.push_back(taps.indices[static_cast<size_t>(t)] * inner);
      pass.weights.push_back(w);
    }
    pass.first.push_back(static_cast<int64_t>(pass.weights.size()));
  }
  if (inner == 1) GatherTaps(pass);
  return pass;
}

Status RunPass(const Pass& p, const ukernel::VectorKernel& row, const StepContext& c, const float* x, float* y) {
  if (p.inner == 1) {  // along the innermost axis: one line of input after the other
    return ForItems(c, p.outer, p.out * 4, kCheapGrain, [&](int64_t line) {
      const float* from = x + line * p.in;
      float* to = y + line * p.out;
      const auto sum_at = [&](int64_t o) {
        float sum = 0;
        for (int64_t t = p.first[static_cast<size_t>(o)]; t < p.first[static_cast<size_t>(o) + 1]; ++t) {
          sum += p.weights[static_cast<size_t>(t)] * from[p.offsets[static_cast<size_t>(t)]];
        }
        to[o] = sum;
      };
      if (p.gathered.empty()) {
        for (int64_t o = 0; o < p.out; ++o) sum_at(o);
        return;
      }
      row.gather_blend({.taps = p.gathered.size() / static_cast<size_t>(p.out),
                        .n = static_cast<size_t>(p.out),
                        .pitch = static_cast<size_t>(p.out),
                        .x = from,
                        .offsets = p.gathered.data(),
                        .weights = p.gathered_weights.data(),
                        .y = to});
      for (const int64_t o : p.partial) sum_at(o);
    });
  }
  return ForItems(c, p.outer * p.out, p.inner * 2, kCheapGrain, [&](int64_t item) {
    const int64_t o = item % p.out;
    const size_t first = static_cast<size_t>(p.first[static_cast<size_t>(o)]);
    row.blend({.taps = static_cast<size_t>(p.first[static_cast<size_t>(o) + 1]) - first,
               .n = static_cast<size_t>(p.inner),
               .x = x + item / p.out * p.in * p.inner,
               .offsets = p.offsets.data() + first,
               .weights = p.weights.data() + first,
               .y = y + item * p.inner});
  });
}

// Of bytes: from them to float32, and what filters make of them back, cut off after they are within the range.
struct Bytes {
  DType dtype = DType::kU8;
  ukernel::UnaryRow widen = nullptr, narrow = nullptr;

  Status Widen(const StepContext& c, int64_t n, float* y) const {
    const auto* x = static_cast<const char*>(c.inputs[0]);
    return ForRange(c, n, kCheapGrain,
                    [&](int64_t begin, int64_t end) { widen(end - begin, x + begin, y + begin, {}); });
  }
  Status Narrow(const StepContext& c, const ukernel::VectorKernel& row, int64_t n, float* x) const {
    const float low = dtype == DType::kU8 ? 0.0f : -128.0f;
    auto* y = static_cast<char*>(c.outputs[0]);
    return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
      row.unary({.kind = ukernel::UnaryKind::kClip,
                 .n = static_cast<size_t>(end - begin),
                 .x = x + begin,
                 .y = x + begin,
                 .a = low,
                 .b = low + 255});
      narrow(end - begin, x + begin, y + begin, {});
    });
  }
};

Result<std::unique_ptr<CpuStep>> BindPasses(std::vector<Pass> passes, const ukernel::VectorKernel* row,
                                            std::optional<Bytes> bytes) {
  if (passes.empty()) return Internal("a Resize without an axis to resize");
  // What is between passes, and before and after them where they are of bytes, lies in two halves of the scratch by
  // turns.
  const int64_t in = passes.front().outer * passes.front().in * passes.front().inner;
  const int64_t out = passes.back().out_elements();
  int64_t largest = bytes ? std::max(in, out) : 0;
  for (size_t i = 0; i + 1 < passes.size(); ++i) largest = std::max(largest, passes[i].out_elements());
  const size_t half = (static_cast<size_t>(largest) * sizeof(float) + 63) / 64 * 64;
  return MakeStep(
      [=, passes = std::move(passes)](const StepContext& c) {
        const auto place = [&](size_t i) {
          return reinterpret_cast<float*>(static_cast<char*>(c.scratch) + i % 2 * half);
        };
        const float* x = bytes ? place(1) : static_cast<const float*>(c.inputs[0]);
        if (bytes) QUERN_RETURN_IF_ERROR(bytes->Widen(c, in, place(1)));
        for (size_t i = 0; i < passes.size(); ++i) {
          float* y = i + 1 == passes.size() && !bytes ? static_cast<float*>(c.outputs[0]) : place(i);
          QUERN_RETURN_IF_ERROR(RunPass(passes[i], *row, c, x, y));
          x = y;
        }
        return bytes ? bytes->Narrow(c, *row, out, place(passes.size() - 1)) : OkStatus();
      },
      2 * half);
}

class ResizeKernel final : public CpuKernel {
 public:
  ResizeKernel(const Node& node, const CpuConfig& config, ResizeAttributes attributes)
      : node_(node), row_(VectorRowFor(config)), attributes_(attributes) {
    const DType t = node.input(0)->type().dtype;
    if (attributes.mode == ResizeMode::kNearest || t == DType::kF32) return;
    const ukernel::ElementwiseKernel& rows = *ElementwiseRowFor(config);
    bytes_ = {.dtype = t,
              .widen = rows.unary(ukernel::UnaryKind::kConvert, t, DType::kF32),
              .narrow = rows.unary(ukernel::UnaryKind::kConvert, DType::kF32, t)};
  }
  uint64_t plan_time_inputs() const override { return ~uint64_t{1}; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &in = context.inputs[0].shape, &out = context.outputs[0].shape;
    if (out.num_elements() == 0) return NothingToDo();
    QUERN_ASSIGN_OR_RETURN(const std::vector<ResizeAxis> axes, AxesOf(context));
    std::vector<Pass> passes;
    std::vector<std::vector<int64_t>> positions;
    for (int d = 0; d < in.rank(); ++d) {
      if (attributes_.mode != ResizeMode::kNearest) continue;
      const ResizeAxis& axis = axes[static_cast<size_t>(d)];
      if (axis.resized()) {
        positions.push_back(MakeResizeTaps(attributes_, axis).indices);
      } else {
        positions.emplace_back();
        for (int64_t i = 0; i < axis.in; ++i) positions.back().push_back(i);
      }
    }
    bool resized = false;
    for (const ResizeAxis& axis : axes) resized = resized || axis.resized();
    const size_t bytes = DTypeBytes(context.inputs[0].dtype);
    if (!resized) {
      return MakeStep([n = static_cast<size_t>(out.num_elements()) * bytes](const StepContext& c) {
        std::memcpy(c.outputs[0], c.inputs[0], n);
        return OkStatus();
      });
    }
    if (attributes_.mode == ResizeMode::kNearest) {
      return MakeStep([copy = IndexedCopy::Prepare(in, positions, bytes)](const StepContext& c) {
        return copy.Run(c, c.inputs[0], nullptr, c.outputs[0]);
      });
    }
    Shape current = in;
    for (int d = in.rank() - 1; d >= 0; --d) {
      const ResizeAxis& axis = axes[static_cast<size_t>(d)];
      if (!axis.resized()) continue;
      passes.push_back(MakePass(attributes_, axis, current.num_elements(0, d), current.num_elements(d + 1, in.rank())));
      current[d] = out[d];
    }
    return BindPasses(std::move(passes), row_, bytes_);
  }
  KernelDescription Describe() const override {
    if (attributes_.mode == ResizeMode::kNearest) return Described("indexed copy", "nearest");
    return Described(*row_, attributes_.mode == ResizeMode::kLinear ? "linear, one pass for each axis"
                                                                    : "cubic, one pass for each axis");
  }

 private:
  Result<std::vector<ResizeAxis>> AxesOf(const BindContext& context) const {
    const Operands at = OperandsOf(node_);
    const auto operand = [&](int i) -> const Tensor* {
      if (i < 0 || i >= static_cast<int>(context.inputs.size())) return nullptr;
      const Tensor* t = context.inputs[static_cast<size_t>(i)].constant;
      return t && t->num_elements() > 0 ? t : nullptr;
    };
    std::vector<float> scales;
    if (const Tensor* t = operand(at.sizes)) {
      QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, ToInt64s(*t));
      return MakeResizeAxes(node_, context.inputs[0].shape, nullptr, &sizes, {});
    }
    if (at.scales < 0) {
      scales = ScalesOfAttributes(node_);
    } else if (const Tensor* t = operand(at.scales)) {
      QUERN_ASSIGN_OR_RETURN(const Tensor dense, t->Contiguous());
      scales.assign(dense.values<float>().begin(), dense.values<float>().end());
    } else if (context.inputs[0].shape.rank() > 0) {  // a scalar needs none
      return Unsupported("neither scales nor sizes are known while planning");
    }
    return MakeResizeAxes(node_, context.inputs[0].shape, &scales, nullptr, {});
  }
  const Node& node_;
  const ukernel::VectorKernel* row_;
  ResizeAttributes attributes_;
  std::optional<Bytes> bytes_;
};

std::string RejectResize(const Node& node, const CpuConfig&) {
  const Result<ResizeAttributes> a = ReadResizeAttributes(node);
  if (!a.ok()) return a.status().message();
  if (a->coordinates == ResizeCoordinates::kTfCropAndResize) return "tf_crop_and_resize";
  const Operands at = OperandsOf(node);
  if (at.scales >= 0 && node.input(at.scales) && !node.input(at.scales)->is_constant()) {
    return "scales that come with the run";
  }
  if (at.sizes >= 0 && node.input(at.sizes) && !node.input(at.sizes)->is_constant() && !node.input(at.sizes)->data()) {
    return "sizes that come with the run";
  }
  if (a->mode != ResizeMode::kNearest) return RejectUnlessType(node.input(0), {DType::kF32, DType::kU8, DType::kI8});
  const DType t = node.input(0)->type().dtype;
  return DTypeBytes(t) == 0 ? std::string("type ") + DTypeName(t) : std::string();
}

Result<std::unique_ptr<CpuKernel>> CompileResize(const Node& node, const CompileContext& context) {
  QUERN_ASSIGN_OR_RETURN(const ResizeAttributes attributes, ReadResizeAttributes(node));
  return std::unique_ptr<CpuKernel>(new ResizeKernel(node, *context.config, attributes));
}

constexpr CpuOp kOps[] = {{"", "Resize", RejectResize, CompileResize, kAllButData},
                          {"", "Upsample", RejectResize, CompileResize, kAllButData}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsResize = kOps;

}  // namespace quern::cpu
