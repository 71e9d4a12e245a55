// RotaryEmbedding of float32, that of ai.onnx and that of com.microsoft.
#include <cstring>

#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// Which inputs hold what; both operators take [batch, length, heads * size] or [batch, heads, length, size].
struct Inputs {
  int cosines, sines, positions;
  bool first_position;  // positions of one dimension are that of the first element
};
constexpr Inputs kOnnx = {1, 2, 3, false}, kMicrosoft = {2, 3, 1, true};

// Positions that come with the run lie within the caches.
Status CheckPositions(const int64_t* positions, int64_t count, int64_t rows) {
  for (int64_t i = 0; i < count; ++i) {
    if (positions[i] >= 0 && positions[i] < rows) continue;
    return InvalidArgument("position " + std::to_string(positions[i]) + " is outside of the caches of " +
                           std::to_string(rows) + " rows");
  }
  return OkStatus();
}

class RotaryKernel final : public CpuKernel {
 public:
  RotaryKernel(const Node& node, const Inputs& inputs, const CpuConfig& config)
      : inputs_(inputs),
        row_(VectorRowFor(config)),
        heads_(node.GetInt("num_heads", 0)),
        interleaved_(node.GetInt("interleaved", 0) != 0) {}
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const Shape& caches = context.inputs[inputs_.cosines].shape;
    if (shape.num_elements() == 0) return NothingToDo();
    const bool flat = shape.rank() == 3;
    const int64_t length = flat ? shape[1] : shape[2], half = caches.back();
    const int64_t heads = !flat ? shape[1] : heads_ > 0 ? heads_ : shape[2] / (2 * half);
    const int64_t size = flat ? shape[2] / heads : shape[3];
    const bool given = context.has_input(inputs_.positions);
    const bool from_one = given && inputs_.first_position && context.inputs[inputs_.positions].shape.rank() == 1;
    const int64_t count = !given ? 0 : context.inputs[inputs_.positions].shape.num_elements();
    const int64_t rows = std::min(caches[0], context.inputs[inputs_.sines].shape[0]);
    const int64_t needed = from_one ? 1 : shape[0] * length;
    if (given && count != needed) {
      return InvalidArgument("position_ids has " + std::to_string(count) + " entries; " + std::to_string(needed) +
                             " are needed");
    }
    return MakeStep(
        [=, inputs = inputs_, kernel = row_, interleaved = interleaved_, batch = shape[0]](const StepContext& c) {
          const auto floats = [&](int i) { return static_cast<const float*>(c.inputs[i]); };
          const auto* positions = given ? static_cast<const int64_t*>(c.inputs[inputs.positions]) : nullptr;
          if (from_one) {
            QUERN_RETURN_IF_ERROR(CheckPositions(positions, 1, rows - length + 1));
          } else if (given) {
            QUERN_RETURN_IF_ERROR(CheckPositions(positions, count, rows));
          }
          return ForItems(c, batch * length * heads, size, kCheapGrain, [&](int64_t item) {
            // In the order of memory.
            const int64_t b = item / (length * heads), rest = item % (length * heads);
            const int64_t s = flat ? rest / heads : rest % length;
            const int64_t row = !given ? b * length + s : from_one ? positions[0] + s : positions[b * length + s];
            const float* x = floats(0) + item * size;
            float* y = static_cast<float*>(c.outputs[0]) + item * size;
            kernel->rotate({.half = static_cast<size_t>(half),
                            .interleaved = interleaved,
                            .cosines = floats(inputs.cosines) + row * half,
                            .sines = floats(inputs.sines) + row * half,
                            .x = x,
                            .y = y});
            const auto tail = static_cast<size_t>(size - 2 * half) * sizeof(float);
            if (x != y) std::memcpy(y + 2 * half, x + 2 * half, tail);
          });
        });
  }
  KernelDescription Describe() const override { return Described(*row_, "rotation of each head"); }

 private:
  Inputs inputs_;
  const ukernel::VectorKernel* row_;
  int64_t heads_;
  bool interleaved_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  for (const GraphValue* v : node.inputs()) {
    if (std::string why = RejectUnlessType(v, {DType::kF32, DType::kI64}); !why.empty()) return why;
  }
  return {};
}

template <const Inputs& kInputs>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new RotaryKernel(node, kInputs, *context.config));
}

constexpr CpuOp kOps[] = {
    {"", "RotaryEmbedding", Reject, Compile<kOnnx>},
    {"com.microsoft", "RotaryEmbedding", Reject, Compile<kMicrosoft>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsRotaryEmbedding = kOps;

}  // namespace quern::cpu
