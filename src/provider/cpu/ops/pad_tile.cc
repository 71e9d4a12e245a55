// Pad (constant, edge, reflect, wrap) and Tile.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "provider/cpu/common/indexed_copy.h"
#include "provider/cpu/common/loops.h"

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

// `count` copies of the `bytes` at `from`, one behind the other. Short rows go in pieces, as calls of memcpy would take
// longer than they.
template <size_t kBytes>
void RepeatElements(const char* from, int64_t bytes, char* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i, to += bytes) {
    for (int64_t at = 0; at < bytes; at += kBytes) std::memcpy(to + at, from + at, kBytes);
  }
}
void Repeat(const char* from, int64_t bytes, size_t element_bytes, char* to, int64_t count) {
  constexpr int64_t kPiece = 16, kLong = 256;  // bytes
  if (bytes >= kLong) {
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, from, static_cast<size_t>(bytes));
    return;
  }
  if (bytes >= kPiece) {
    for (int64_t i = 0; i < count; ++i, to += bytes) {
      for (int64_t at = 0; at < bytes - kPiece; at += kPiece) std::memcpy(to + at, from + at, kPiece);
      std::memcpy(to + bytes - kPiece, from + bytes - kPiece, kPiece);
    }
    return;
  }
  const int64_t first = std::min(count, (kLong + bytes - 1) / bytes);  // then what is written is long enough to copy
  switch (element_bytes) {
    case 1:
      RepeatElements<1>(from, bytes, to, first);
      break;
    case 2:
      RepeatElements<2>(from, bytes, to, first);
      break;
    case 4:
      RepeatElements<4>(from, bytes, to, first);
      break;
    default:
      RepeatElements<8>(from, bytes, to, first);
  }
  const int64_t total = bytes * count;
  for (int64_t done = bytes * first; done < total;) {
    const int64_t next = std::min(done, total - done);
    std::memcpy(to + done, to, static_cast<size_t>(next));
    done += next;
  }
}

// A tensor repeated along its dimensions: each row several times, then what is written of a dimension as a whole.
class RepeatedCopy {
 public:
  RepeatedCopy(const Shape& in, const Shape& out, size_t element_bytes) : element_bytes_(element_bytes) {
    const auto bytes = static_cast<int64_t>(element_bytes);
    const Shape from = in.ContiguousStrides(), to = out.ContiguousStrides();
    for (int d = in.rank() - 1; d >= 0; --d) {
      const int64_t repeats = out[d] / in[d];
      if (Level& inner = levels_[std::max(0, depth_ - 1)]; depth_ > 0 && (in[d] == 1 || inner.repeats == 1)) {
        inner.extent *= in[d];
        inner.repeats *= repeats;
      } else {
        levels_[depth_++] = {in[d], repeats, from[d] * bytes, to[d] * bytes};
      }
    }
    if (depth_ == 0) levels_[depth_++] = {1, 1, bytes, bytes};
  }

  Status Run(const StepContext& c, const char* from, char* to) const {
    const Level& outer = levels_[depth_ - 1];
    const int64_t bytes = outer.extent * outer.to_bytes;
    const int64_t grain_bytes = 4 * kCheapGrain;
    if (depth_ == 1) {
      QUERN_RETURN_IF_ERROR(ForRange(
          c, outer.repeats, std::max<int64_t>(1, grain_bytes / bytes),
          [&](int64_t begin, int64_t end) { Repeat(from, bytes, element_bytes_, to + begin * bytes, end - begin); }));
      return OkStatus();
    }
    QUERN_RETURN_IF_ERROR(
        ForRange(c, outer.extent, std::max<int64_t>(1, grain_bytes / outer.to_bytes), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            Write(depth_ - 2, from + i * outer.from_bytes, to + i * outer.to_bytes);
          }
        }));
    return ForRange(c, outer.repeats - 1, std::max<int64_t>(1, grain_bytes / bytes), [&](int64_t begin, int64_t end) {
      Repeat(to, bytes, element_bytes_, to + (begin + 1) * bytes, end - begin);
    });
  }

 private:
  // A dimension, or several that are repeated as one: `extent` parts, which are from_bytes apart in the source and
  // to_bytes in the result.
  struct Level {
    int64_t extent, repeats, from_bytes, to_bytes;
  };

  void Write(int level, const char* from, char* to) const {
    const Level& l = levels_[static_cast<size_t>(level)];
    if (level == 0) return Repeat(from, l.extent * l.from_bytes, element_bytes_, to, l.repeats);
    for (int64_t i = 0; i < l.extent; ++i) Write(level - 1, from + i * l.from_bytes, to + i * l.to_bytes);
    const int64_t bytes = l.extent * l.to_bytes;
    Repeat(to, bytes, element_bytes_, to + bytes, l.repeats - 1);
  }

  size_t element_bytes_;
  int depth_ = 0;
  std::array<Level, kMaxRank> levels_{};  // from the innermost one on
};

class TileKernel final : public CpuKernel {
 public:
  uint64_t plan_time_inputs() const override { return 2; }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &in = context.inputs[0].shape, &out = context.outputs[0].shape;
    if (out.num_elements() == 0) return NothingToDo();
    return MakeStep([copy = RepeatedCopy(in, out, DTypeBytes(context.inputs[0].dtype))](const StepContext& c) {
      return copy.Run(c, static_cast<const char*>(c.inputs[0]), static_cast<char*>(c.outputs[0]));
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
