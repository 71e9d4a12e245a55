// GatherBlockQuantized of com.microsoft: rows of a table of 2, 4 or 8 bits, dequantized as they are read. The table
// stays as the model has it.
#include <algorithm>

#include "ops/common/gather_block_quantized.h"
#include "provider/cpu/common/indices.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// Element `i` of elements of `bits` bits, the first in the lowest ones of a byte.
int BitsAt(const uint8_t* bytes, int64_t i, int bits) {
  const int64_t first = i * bits;
  return bytes[first / 8] >> (first % 8) & ((1 << bits) - 1);
}

// y[i] = (x[i] - zero) * scale for elements of kBits bits from a byte on, whose bits `flip` swaps so that they count
// from the lowest number on.
template <int kBits>
void DequantizeBlock(const uint8_t* x, int64_t n, int flip, int zero, float scale, float* y) {
  constexpr int kPerByte = 8 / kBits, kMask = (1 << kBits) - 1;
  const int64_t whole = n / kPerByte;
  for (int64_t i = 0; i < whole; ++i) {
    for (int k = 0; k < kPerByte; ++k) {
      y[i * kPerByte + k] = static_cast<float>(((x[i] >> (k * kBits) & kMask) ^ flip) - zero) * scale;
    }
  }
  for (int64_t i = whole * kPerByte; i < n; ++i) y[i] = static_cast<float>((BitsAt(x, i, kBits) ^ flip) - zero) * scale;
}

using DequantizeFn = void (*)(const uint8_t* x, int64_t n, int flip, int zero, float scale, float* y);
DequantizeFn DequantizeFor(int bits) {
  return bits == 2 ? DequantizeBlock<2> : bits == 4 ? DequantizeBlock<4> : DequantizeBlock<8>;
}

// Lines are those of the last dimension, along which the data are quantized.
class GatherBlocksKernel final : public CpuKernel {
 public:
  explicit GatherBlocksKernel(const Node& node) : node_(node) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &data = context.inputs[0].shape, &scales = context.inputs[2].shape;
    const DType type = context.inputs[0].dtype;
    const int rank = data.rank();
    QUERN_ASSIGN_OR_RETURN(const BlockGather g, BlockGather::Read(node_, type, rank));
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    const int64_t extent = data[0], lines = data.num_elements(1, rank - 1);  // of an index
    const int64_t columns = data[rank - 1] * g.packed, blocks = scales[rank - 1];
    const int64_t zeros = (blocks + g.packed - 1) / g.packed * g.packed;  // of a line, with what fills its last byte
    const int64_t count = context.inputs[1].shape.num_elements();
    const bool wide = context.inputs[1].dtype == DType::kI64;
    const int flip = type == DType::kI4 ? 8 : 0, otherwise = static_cast<int>(g.ZeroPoint(type)) ^ flip;
    return MakeStep([=, dequantize = DequantizeFor(g.bits)](const StepContext& c) {
      const auto* x = static_cast<const uint8_t*>(c.inputs[0]);
      const auto* scale = static_cast<const float*>(c.inputs[2]);
      const auto* zero = c.inputs.size() > 3 ? static_cast<const uint8_t*>(c.inputs[3]) : nullptr;
      return ForItems(c, count * lines, columns, kCheapGrain, [&](int64_t item) {
        float* y = static_cast<float*>(c.outputs[0]) + item * columns;
        const int64_t index = Wrapped(IndexAt(c.inputs[1], wide, item / lines), extent);
        if (index < 0 || index >= extent) {
          std::fill_n(y, columns, 0.0f);
          return;
        }
        const int64_t line = index * lines + item % lines;
        for (int64_t b = 0; b < blocks; ++b) {
          const int64_t first = b * g.block_size;
          dequantize(x + (line * columns + first) * g.bits / 8, std::min(g.block_size, columns - first), flip,
                     zero ? BitsAt(zero, line * zeros + b, g.bits) ^ flip : otherwise, scale[line * blocks + b],
                     y + first);
        }
      });
    });
  }
  KernelDescription Describe() const override { return Described("gather of blocks", "dequantizes the rows it reads"); }

 private:
  const Node& node_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  const ValueType& data = node.input(0)->type();
  const int rank = static_cast<int>(data.shape->size());
  if (data.dtype != DType::kU8 && data.dtype != DType::kI4 && data.dtype != DType::kU4) {
    return std::string("type ") + DTypeName(data.dtype);
  }
  if (const DType scales = node.input(2)->type().dtype; scales != DType::kF32) {
    return std::string("type ") + DTypeName(scales);
  }
  const Result<BlockGather> g = BlockGather::Read(node, data.dtype, rank);
  if (!g.ok()) return std::string(g.status().message());
  if (rank < 2 || g->gather_axis != 0 || g->quantize_axis != rank - 1) return "other axes than the first and the last";
  const Dim& columns = data.shape->back();
  if (g->bits * g->packed < 8 && !(columns.is_constant() && columns.value() % 2 == 0)) {
    return "rows that end within a byte";
  }
  return {};
}
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new GatherBlocksKernel(node));
}

constexpr CpuOp kOps[] = {{"com.microsoft", "GatherBlockQuantized", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsGatherBlockQuantized = kOps;

}  // namespace quern::cpu
