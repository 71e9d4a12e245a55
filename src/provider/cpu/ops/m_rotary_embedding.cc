// MRotaryEmbedding of com.microsoft in float32: the angles of each element, taken from three places of the caches, then
// the rotation of its heads.
#include <cstring>

#include "ops/common/position_streams.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

enum Input { kX, kPositions, kCosines, kSines };

class MRotaryKernel final : public CpuKernel {
 public:
  MRotaryKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)),
        sections_(node.GetInts("mrope_section")),
        sections_interleave_(node.GetInt("mrope_layout", 0) == 1),
        heads_(node.GetInt("num_heads", 0)),
        interleaved_(node.GetInt("interleaved", 0) != 0),
        scale_(node.GetFloat("scale", 1.0f)) {}
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {kX};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[kX].shape;
    if (shape.num_elements() == 0) return NothingToDo();
    Sizes s;
    s.flat = shape.rank() == 3;
    s.length = s.flat ? shape[1] : shape[2];
    s.elements = shape[0] * s.length;
    s.heads = s.flat ? heads_ : shape[1];
    s.size = s.flat ? shape[2] / heads_ : shape[3];
    s.rows = context.inputs[kCosines].shape[0];
    s.half = context.inputs[kCosines].shape[1];
    auto run = [=, row = row_, interleaved = interleaved_, scale = scale_,
                streams = PositionStreams(sections_, sections_interleave_)](const StepContext& c) {
      const auto* positions = static_cast<const int64_t*>(c.inputs[kPositions]);
      for (int64_t i = 0; i < 3 * s.elements; ++i) {
        if (positions[i] >= 0 && positions[i] < s.rows) continue;
        return InvalidArgument("position " + std::to_string(positions[i]) + " is outside of the caches of " +
                               std::to_string(s.rows) + " rows");
      }
      const auto floats = [&](int i) { return static_cast<const float*>(c.inputs[i]); };
      return ForItems(c, s.elements, s.heads * s.size, kCheapGrain, [&](int64_t element) {
        float* cosines = static_cast<float*>(c.scratch) + 2 * element * s.half;
        float* sines = cosines + s.half;
        for (int64_t i = 0; i < s.half; ++i) {
          const int64_t at = positions[streams[i] * s.elements + element] * s.half + i;
          cosines[i] = scale * floats(kCosines)[at];
          sines[i] = scale * floats(kSines)[at];
        }
        const int64_t b = element / s.length, t = element % s.length;
        for (int64_t h = 0; h < s.heads; ++h) {
          const int64_t at = (s.flat ? element * s.heads + h : (b * s.heads + h) * s.length + t) * s.size;
          const float* x = floats(kX) + at;
          float* y = static_cast<float*>(c.outputs[0]) + at;
          row->rotate({.half = static_cast<size_t>(s.half),
                       .interleaved = interleaved,
                       .cosines = cosines,
                       .sines = sines,
                       .x = x,
                       .y = y});
          const auto tail = static_cast<size_t>(s.size - 2 * s.half) * sizeof(float);
          if (x != y) std::memcpy(y + 2 * s.half, x + 2 * s.half, tail);
        }
      });
    };
    return MakeStep(std::move(run), static_cast<size_t>(2 * s.elements * s.half) * sizeof(float));
  }
  KernelDescription Describe() const override { return Described(*row_, "rotation of each head"); }

 private:
  struct Sizes {
    bool flat = false;                      // [batch, length, heads * size], else [batch, heads, length, size]
    int64_t elements = 0, length = 0;       // of all samples, of one
    int64_t heads = 0, size = 0, half = 0;  // of a head 2 * half numbers are turned
    int64_t rows = 0;                       // of the caches
  };

  const ukernel::VectorKernel* row_;
  std::vector<int64_t> sections_;
  bool sections_interleave_;
  int64_t heads_;
  bool interleaved_;
  float scale_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  for (const GraphValue* v : node.inputs()) {
    if (std::string why = RejectUnlessType(v, {DType::kF32, DType::kI64}); !why.empty()) return why;
  }
  return {};
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new MRotaryKernel(node, *context.config));
}

constexpr CpuOp kOps[] = {{"com.microsoft", "MRotaryEmbedding", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsMRotaryEmbedding = kOps;

}  // namespace quern::cpu
