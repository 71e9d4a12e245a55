// Pad (constant, edge, reflect, wrap) and Tile.
#include <algorithm>
#include <optional>

#include "provider/cpu/common/indexed_copy.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/repeated_copy.h"

namespace quern::cpu {
namespace {

std::string RejectType(const Node& node) {
  const DType t = node.input(0)->type().dtype;
  return DTypeBytes(t) == 0 ? std::string("type ") + DTypeName(t) : std::string();
}
std::string RejectUnknown(const Node& node, int input, const char* what) {
  const GraphValue* v = node.input(input);
  return v && !v->is_constant() && !v->data() ? std::string(what) + " that come with the run" : std::string();
}

std::optional<std::vector<int64_t>> ConstantOperand(const BindContext& context, size_t i) {
  if (i >= context.inputs.size() || !context.inputs[i].constant) return std::nullopt;
  Result<std::vector<int64_t>> values = ToInt64s(*context.inputs[i].constant);
  return values.ok() ? std::optional(*values) : std::nullopt;
}

// Input positions of one dimension; negative pads crop first, the rest is padded from what remains.
Result<std::vector<int64_t>> PadPositions(const std::string& mode, int64_t extent, int64_t begin, int64_t end) {
  const int64_t low = std::max<int64_t>(0, -begin), size = extent - low - std::max<int64_t>(0, -end);
  std::vector<int64_t> positions;
  for (int64_t o = 0; o < extent + begin + end; ++o) {
    int64_t i = o - std::max<int64_t>(0, begin);
    if (i < 0 || i >= size) {
      if (mode == "constant") {
        positions.push_back(-1);
        continue;
      }
      if (size <= 0) return InvalidArgument("mode '" + mode + "' cannot pad an empty dimension");
      if (mode == "edge") {
        i = std::clamp<int64_t>(i, 0, size - 1);
      } else if (mode == "wrap") {
        i = (i % size + size) % size;
      } else {  // reflect: there and back, without repeating the ends
        const int64_t period = 2 * (size - 1);
        i = period == 0 ? 0 : (i % period + period) % period;
        if (i >= size) i = period - i;
      }
    }
    positions.push_back(low + i);
  }
  return positions;
}

class PadKernel final : public CpuKernel {
 public:
  explicit PadKernel(const Node& node)
      : mode_(node.GetString("mode", "constant")),
        pads_(node.GetInts("pads")),
        old_(node.opset() < 11),
        value_(node.GetFloat("value", 0.0f)) {}
  uint64_t plan_time_inputs() const override { return 0b1010; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& in = context.inputs[0].shape;
    const int rank = in.rank();
    std::vector<int64_t> pads = pads_, axes;
    if (!old_) {
      const auto given = ConstantOperand(context, 1);
      if (!given) return Unsupported("the pads are not known while planning");
      pads = *given;
    }
    if (context.has_input(3)) {
      const auto given = ConstantOperand(context, 3);
      if (!given) return Unsupported("the axes are not known while planning");
      axes = *given;
    } else {
      for (int d = 0; d < rank; ++d) axes.push_back(d);
    }
    if (pads.size() != 2 * axes.size()) return InvalidArgument("two pads for each dimension are needed");
    Shape begin = Shape::Filled(rank, 0), end = begin;
    for (size_t i = 0; i < axes.size(); ++i) {
      const int d = static_cast<int>(axes[i] < 0 ? axes[i] + rank : axes[i]);
      begin[d] = pads[i];
      end[d] = pads[axes.size() + i];
    }
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    std::vector<std::vector<int64_t>> positions(static_cast<size_t>(rank));
    for (int d = 0; d < rank; ++d) {
      QUERN_ASSIGN_OR_RETURN(positions[static_cast<size_t>(d)], PadPositions(mode_, in[d], begin[d], end[d]));
    }
    IndexedCopy copy = IndexedCopy::Prepare(in, positions, DTypeBytes(context.inputs[0].dtype));
    const bool has_value = context.has_input(2);
    return MakeStep([copy = std::move(copy), has_value, value = value_](const StepContext& c) {
      static constexpr char kZero[16] = {};
      const void* fill = has_value ? c.inputs[2] : value != 0 ? static_cast<const void*>(&value) : kZero;
      return copy.Run(c, c.inputs[0], fill, c.outputs[0]);
    });
  }
  KernelDescription Describe() const override { return Described("indexed copy", "Pad, " + mode_); }

 private:
  std::string mode_;
  std::vector<int64_t> pads_;
  bool old_;
  float value_;
};

std::string RejectPad(const Node& node, const CpuConfig&) {
  if (std::string why = RejectType(node); !why.empty()) return why;
  if (std::string why = RejectUnknown(node, 1, "pads"); !why.empty()) return why;
  if (std::string why = RejectUnknown(node, 3, "axes"); !why.empty()) return why;
  if (node.GetFloat("value", 0.0f) != 0 && node.input(0)->type().dtype != DType::kF32) return "a value of another type";
  const std::string mode = node.GetString("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") return "mode '" + mode + "'";
  return {};
}

class TileKernel final : public CpuKernel {
 public:
  uint64_t plan_time_inputs() const override { return 2; }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &in = context.inputs[0].shape, &out = context.outputs[0].shape;
    if (out.num_elements() == 0) return NothingToDo();
    return MakeStep([copy = RepeatedCopy(in, out, DTypeBytes(context.inputs[0].dtype))](const StepContext& c) {
      return copy.Run(c.inputs[0], c.outputs[0], *c.executor, c.cancel);
    });
  }
  KernelDescription Describe() const override { return Described("repeated copy", "Tile"); }
};

std::string RejectTile(const Node& node, const CpuConfig&) {
  if (node.opset() < 6) return "Tile of operator set 1";
  if (std::string why = RejectType(node); !why.empty()) return why;
  return RejectUnknown(node, 1, "repeats");
}

Result<std::unique_ptr<CpuKernel>> CompilePad(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new PadKernel(node));
}
Result<std::unique_ptr<CpuKernel>> CompileTile(const Node&, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new TileKernel());
}

constexpr CpuOp kOps[] = {
    {"", "Pad", RejectPad, CompilePad, kAllButData & ~uint32_t{0b100}},  // input 2, the fill value, is read by the run
    {"", "Tile", RejectTile, CompileTile, kAllButData},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsPadTile = kOps;

}  // namespace quern::cpu
