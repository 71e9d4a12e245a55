// QuantizeLinear, DequantizeLinear (for each tensor, each index of an axis, each block) and DynamicQuantizeLinear, as
// ONNX defines them: round half to even, then saturate.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/packed_bits.h"
#include "ops/common/any_types.h"
#include "ops/common/small_types.h"
#include "provider/cpu/common/constants.h"
#include "provider/cpu/common/dynamic_bytes.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/quantization.h"

namespace quern::cpu {
namespace {

constexpr TypeSet kStored = {DType::kI8, DType::kU8, DType::kI16, DType::kU16};
constexpr TypeSet kPacked = {DType::kI4, DType::kU4, DType::kI2, DType::kU2};

// Floats of 8 bits are quantized around zero alone: other zero points have to be known.
std::string RejectFloat8Zero(const Node& node, DType stored) {
  if (!kFloat8Types.Has(stored) || !node.input(2)) return {};
  const Tensor* zero = ConstantTensor(node.input(2));
  if (!zero) return "a zero point of " + std::string(DTypeName(stored)) + " that comes with the run";
  std::vector<float> values(static_cast<size_t>(zero->num_elements()));
  const Result<Tensor> dense = zero->Contiguous();
  if (!dense.ok()) return dense.status().message();
  LoadSmallFloats(*dense, 0, zero->num_elements(), values.data());
  const bool none = std::all_of(values.begin(), values.end(), [](float x) { return x == 0; });
  return none ? std::string() : "a zero point other than 0";
}

// Which scale belongs to which element: the input as [outer, extent, inner] around the axis that scales belong to,
// extent 1 for one scale. One scale for each index of the axis, or (block not 0) for each run of `block` indices of
// each line along it.
struct ScaleLoops {
  int64_t outer = 1, extent = 1, inner = 1, block = 0;

  static ScaleLoops Of(const Node& node, const Shape& x, const Shape& scale) {
    if (scale.num_elements() == 1) return {1, 1, x.num_elements(), 0};
    const int64_t axis = node.GetInt("axis", 1);
    const int a = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
    return {x.num_elements(0, a), x[a], x.num_elements(a + 1, x.rank()), node.GetInt("block_size", 0)};
  }

  // Calls f(index of the first scale, step of scales, first element, past the last) for runs that cover [begin, end).
  template <typename F>
  void ForRuns(int64_t begin, int64_t end, F f) const {
    const int64_t blocks = block ? (extent + block - 1) / block : 0;
    while (begin < end) {
      const int64_t line = begin / inner, within = begin % inner, o = line / extent, e = line % extent;
      int64_t stop = (line + 1) * inner, index = e, step = 0;
      if (block && inner == 1) {
        index = o * blocks + e / block;
        stop = o * extent + std::min(extent, (e / block + 1) * block);
      } else if (block) {
        index = (o * blocks + e / block) * inner + within;
        step = 1;
      } else if (inner == 1) {
        stop = (o + 1) * extent;
        step = 1;
      }
      stop = std::min(stop, end);
      f(index, step, begin, stop);
      begin = stop;
    }
  }
};

// Elements [first, first + count) of a type with several in a byte, as whole bytes.
void Unpack(const void* from, DType type, int64_t first, int64_t count, int8_t* to) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  const int bits = PackedBits(type);
  const bool is_signed = type == DType::kI4 || type == DType::kI2;
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t value = LoadPacked(bytes, first + i, bits);
    to[i] = is_signed ? SignExtend(value, bits) : static_cast<int8_t>(value);
  }
}

// DequantizeLinear of integers of 4 and 2 bits, a piece at a time as whole bytes.
class DequantizePackedKernel final : public CpuKernel {
 public:
  DequantizePackedKernel(const Node& node, const CpuConfig& config) : node_(node), row_(AffineRowFor(config)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const ScaleLoops loops = ScaleLoops::Of(node_, context.inputs[0].shape, context.inputs[1].shape);
    const DType packed = context.inputs[0].dtype;
    const DType whole = packed == DType::kI4 || packed == DType::kI2 ? DType::kI8 : DType::kU8;
    const bool has_zero = context.has_input(2);
    return MakeStep([=, row = row_, n = context.outputs[0].shape.num_elements()](const StepContext& c) {
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        constexpr int64_t kPiece = 512;
        int8_t x[kPiece], zero[kPiece];
        for (; begin < end; begin += kPiece) {
          loops.ForRuns(begin, std::min(end, begin + kPiece),
                        [&](int64_t index, int64_t step, int64_t first, int64_t last) {
                          Unpack(c.inputs[0], packed, first, last - first, x);
                          if (has_zero) Unpack(c.inputs[2], packed, index, step == 0 ? 1 : last - first, zero);
                          row->dequantize({.type = whole,
                                           .n = static_cast<size_t>(last - first),
                                           .x = x,
                                           .y = static_cast<float*>(c.outputs[0]) + first,
                                           .scale = static_cast<const float*>(c.inputs[1]) + index,
                                           .zero = has_zero ? zero : nullptr,
                                           .scale_step = static_cast<size_t>(step),
                                           .zero_step = static_cast<size_t>(has_zero ? step : 0)});
                        });
        }
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "integers of few bits to float32"); }

 private:
  const Node& node_;
  const ukernel::AffineKernel* row_;
};

// QuantizeLinear and DequantizeLinear: kRun of a row, on elements of `Args`.
template <typename Args, auto kRun>
class ScaleKernel final : public CpuKernel {
 public:
  static constexpr bool kStores = std::is_same_v<Args, ukernel::QuantizeRowArgs>;

  ScaleKernel(const Node& node, const CpuConfig& config) : node_(node), row_(AffineRowFor(config)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const ScaleLoops loops = ScaleLoops::Of(node_, context.inputs[0].shape, context.inputs[1].shape);
    const DType stored = kStores ? context.outputs[0].dtype : context.inputs[0].dtype;
    const bool has_zero = context.has_input(2) && IsIntegerType(stored);
    QUERN_ASSIGN_OR_RETURN(const SmallFloatRules rules, ReadSmallFloatRules(node_));
    const auto x_bytes = static_cast<int64_t>(DTypeBytes(context.inputs[0].dtype)),
               y_bytes = static_cast<int64_t>(DTypeBytes(context.outputs[0].dtype)),
               zero_bytes = static_cast<int64_t>(DTypeBytes(stored));
    return MakeStep([=, row = row_, n = context.outputs[0].shape.num_elements()](const StepContext& c) {
      const auto* x = static_cast<const char*>(c.inputs[0]);
      const auto* scale = static_cast<const float*>(c.inputs[1]);
      const auto* zero = has_zero ? static_cast<const char*>(c.inputs[2]) : nullptr;
      auto* y = static_cast<char*>(c.outputs[0]);
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        loops.ForRuns(begin, end, [&](int64_t index, int64_t step, int64_t first, int64_t last) {
          using X = decltype(Args::x);
          using Y = decltype(Args::y);
          Args args{.type = stored,
                    .n = static_cast<size_t>(last - first),
                    .x = static_cast<X>(static_cast<const void*>(x + first * x_bytes)),
                    .y = static_cast<Y>(static_cast<void*>(y + first * y_bytes)),
                    .scale = scale + index,
                    .zero = zero ? zero + index * zero_bytes : nullptr,
                    .scale_step = static_cast<size_t>(step),
                    .zero_step = static_cast<size_t>(zero ? step : 0)};
          if constexpr (kStores) args.overflow = rules.overflow;
          (row->*kRun)(args);
        });
      });
    });
  }
  KernelDescription Describe() const override {
    const bool integers = IsIntegerType((kStores ? node_.output(0) : node_.input(0))->type().dtype);
    if (!integers) return Described(*row_, kStores ? "float32 to 8 bits" : "8 bits to float32");
    return Described(*row_, kStores ? "float32 to integers" : "integers to float32");
  }

 private:
  const Node& node_;
  const ukernel::AffineKernel* row_;
};
using QuantizeKernel = ScaleKernel<ukernel::QuantizeRowArgs, &ukernel::AffineKernel::quantize>;
using DequantizeKernel = ScaleKernel<ukernel::DequantizeRowArgs, &ukernel::AffineKernel::dequantize>;

class DynamicQuantizeKernel final : public CpuKernel {
 public:
  DynamicQuantizeKernel(const Node&, const CpuConfig& config)
      : row_(VectorRowFor(config)), affine_(AffineRowFor(config)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    return MakeStep([n = context.inputs[0].shape.num_elements(), row = row_, affine = affine_](const StepContext& c) {
      const auto* x = static_cast<const float*>(c.inputs[0]);
      const DynamicQuantization q = DynamicQuantizationOf(*row, x, n);
      if (c.outputs[1]) *static_cast<float*>(c.outputs[1]) = q.scale;
      if (c.outputs[2]) *static_cast<uint8_t*>(c.outputs[2]) = q.zero_point;
      auto* y = static_cast<uint8_t*>(c.outputs[0]);
      if (!y) return OkStatus();
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        QuantizeBytes(*affine, q, x + begin, end - begin, y + begin);
      });
    });
  }
  KernelDescription Describe() const override {
    return Described(*row_, "range by folds, then quantized by " + std::string(ukernel::Name(*affine_).text));
  }

 private:
  const ukernel::VectorKernel* row_;
  const ukernel::AffineKernel* affine_;
};

std::string RejectQuantize(const Node& node, const CpuConfig&) {
  for (int i : {0, 1}) {
    if (std::string why = RejectUnlessType(node.input(i), {DType::kF32}); !why.empty()) return why;
  }
  if (std::string why = RejectUnlessType(node.output(0), kStored | kFloat8Types); !why.empty()) return "to " + why;
  if (std::string why = RejectFloat8Zero(node, node.output(0)->type().dtype); !why.empty()) return why;
  return DividesInFloat(node) ? std::string() : "precision other than float32";
}

std::string RejectDequantize(const Node& node, const CpuConfig&) {
  constexpr TypeSet kTypes = kStored | kPacked | TypeSet{DType::kI32} | kFloat8Types;
  if (std::string why = RejectUnlessType(node.input(0), kTypes); !why.empty()) return why;
  if (std::string why = RejectFloat8Zero(node, node.input(0)->type().dtype); !why.empty()) return why;
  if (std::string why = RejectUnlessType(node.input(1), {DType::kF32}); !why.empty()) return why;
  if (std::string why = RejectUnlessType(node.output(0), {DType::kF32}); !why.empty()) return "to " + why;
  return {};
}

std::string RejectDynamic(const Node& node, const CpuConfig&) { return RejectUnlessType(node.input(0), {DType::kF32}); }

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new Kernel(node, *context.config));
}

Result<std::unique_ptr<CpuKernel>> CompileDequantize(const Node& node, const CompileContext& context) {
  const bool packed = kPacked.Has(node.input(0)->type().dtype);
  return packed ? Compile<DequantizePackedKernel>(node, context) : Compile<DequantizeKernel>(node, context);
}

constexpr CpuOp kOps[] = {
    {"", "QuantizeLinear", RejectQuantize, Compile<QuantizeKernel>},
    {"", "DequantizeLinear", RejectDequantize, CompileDequantize},
    {"", "DynamicQuantizeLinear", RejectDynamic, Compile<DynamicQuantizeKernel>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsQuantize = kOps;

}  // namespace quern::cpu
