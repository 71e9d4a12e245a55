// LRN: each element over a power of the squares of its neighbours in the channel dimension. ONNX's with channels first,
// and quern.cpu's with channels last.
#include <algorithm>
#include <cmath>

#include "provider/cpu/common/moments.h"

namespace quern::cpu {
namespace {

constexpr int64_t kPiece = 256;  // neighbouring elements whose sums are kept

// y = x / s^beta for n (at most kPiece) elements; s is lost. x and y may be the same.
void DivideByPower(const ukernel::VectorKernel& row, int64_t n, const float* x, float* s, float beta, float* y) {
  using ukernel::BinaryKind;
  using ukernel::UnaryKind;
  const auto count = static_cast<size_t>(n);
  const auto unary = [&](UnaryKind kind, const float* from, float* to) {
    row.unary({.kind = kind, .n = count, .x = from, .y = to});
  };
  const auto binary = [&](BinaryKind kind, const float* a, const float* b, float* to) {
    row.binary({.kind = kind, .n = count, .x = a, .z = b, .y = to});
  };
  if (beta == 0.75f || beta == 0.5f) {
    float root[kPiece];
    unary(UnaryKind::kSqrt, s, root);
    if (beta == 0.75f) {
      unary(UnaryKind::kSqrt, root, s);
      binary(BinaryKind::kMul, root, s, root);
    }
    binary(BinaryKind::kDiv, x, root, y);
  } else if (beta == 1.0f) {
    binary(BinaryKind::kDiv, x, s, y);
  } else {
    // e^(-beta log s), an error of a few times beta |log s| units in the last place.
    const float factor = -beta;
    unary(UnaryKind::kLog, s, s);
    row.binary({.kind = BinaryKind::kMul, .n = count, .x = s, .z = &factor, .y = s, .z_step = 0});
    unary(UnaryKind::kExp, s, s);
    binary(BinaryKind::kMul, x, s, y);
  }
}

struct LrnAttributes {
  explicit LrnAttributes(const Node& node)
      : size(node.GetInt("size", 1)),
        alpha(node.GetFloat("alpha", 1e-4f)),
        beta(node.GetFloat("beta", 0.75f)),
        bias(node.GetFloat("bias", 1.0f)) {}
  int64_t size;
  float alpha, beta, bias;
};

class LrnKernel final : public CpuKernel {
 public:
  LrnKernel(const Node& node, const CpuConfig& config) : rows_(config), dtype_(node.input(0)->type().dtype), a_(node) {}

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.rank() < 2) return InvalidArgument("the input of shape " + shape.ToString() + " has no channels");
    const int64_t channels = shape[1], plane = shape.num_elements(2, shape.rank());
    const int64_t pieces = (plane + kPiece - 1) / kPiece;
    return ByFloatType(context, [=, this]<typename T>() {
      return MakeStep([=, this, before = (a_.size - 1) / 2, after = a_.size - 1 - (a_.size - 1) / 2,
                       scale = static_cast<T>(a_.alpha) / static_cast<T>(a_.size), beta = static_cast<T>(a_.beta),
                       bias = static_cast<T>(a_.bias)](const StepContext& c) {
        const auto* x = static_cast<const T*>(c.inputs[0]);
        auto* y = static_cast<T*>(c.outputs[0]);
        const ukernel::FoldFunctions<T> folds = rows_.Of<T>();
        return ForItems(c, shape[0] * channels * pieces, std::min(kPiece, plane) * 4, kCheapGrain, [&](int64_t item) {
          const int64_t image = item / (channels * pieces), channel = item / pieces % channels;
          const int64_t first = item % pieces * kPiece, n = std::min(kPiece, plane - first);
          const int64_t from = std::max<int64_t>(0, channel - before), last = std::min(channels - 1, channel + after);
          const int64_t at = image * channels * plane + first;
          T sums[kPiece];
          folds.fold_rows({.kind = ukernel::FoldKind::kSumSquares,
                           .rows = static_cast<size_t>(last - from + 1),
                           .n = static_cast<size_t>(n),
                           .x = x + at + from * plane,
                           .row_stride = plane,
                           .scale = scale,
                           .y = sums});
          for (int64_t i = 0; i < n; ++i) sums[i] += bias;
          const T* own = x + at + channel * plane;
          T* to = y + at + channel * plane;
          if constexpr (std::is_same_v<T, float>) {
            if (scale >= 0 && bias >= 0) return DivideByPower(*rows_.vector, n, own, sums, beta, to);
          }
          for (int64_t i = 0; i < n; ++i) to[i] = own[i] / std::pow(sums[i], beta);
        });
      });
    });
  }
  KernelDescription Describe() const override { return rows_.Describe(dtype_, "LRN, a fold of channels by pieces"); }

 private:
  const FoldRows rows_;
  const DType dtype_;
  const LrnAttributes a_;
};

// Pixels are rows of channels. Their squares stand with zeros between them, so that one sum of shifted pieces serves as
// many pixels as a piece holds; longer rows are worked on in parts.
class LrnLastKernel final : public CpuKernel {
 public:
  LrnLastKernel(const Node& node, const CpuConfig& config) : row_(VectorRowFor(config)), a_(node) {}

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const int64_t channels = shape.back(), pixels = shape.num_elements(0, shape.rank() - 1);
    if (channels == 0 || pixels == 0) return NothingToDo();
    const int64_t parts = (channels + kPiece - a_.size) / (kPiece - a_.size + 1);
    const int64_t part = (channels + parts - 1) / parts, width = part + a_.size - 1;
    const int64_t together = kPiece / width, rows = pixels * parts;
    return MakeStep([=, this](const StepContext& c) {
      const auto* x = static_cast<const float*>(c.inputs[0]);
      auto* y = static_cast<float*>(c.outputs[0]);
      const int64_t blocks = (rows + together - 1) / together;
      return ForItems(c, blocks, kPiece * (a_.size + 4), kCheapGrain, [&](int64_t block) {
        Normalize(x, y, channels, parts, part, block * together, std::min(rows, (block + 1) * together));
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "LRN, shifted sums of pixels"); }

 private:
  // Rows [begin, end): row r is part r % parts of the channels of pixel r / parts.
  void Normalize(const float* x, float* y, int64_t channels, int64_t parts, int64_t part, int64_t begin,
                 int64_t end) const {
    const int64_t width = part + a_.size - 1, before = (a_.size - 1) / 2, after = a_.size - 1 - before;
    const int64_t n = (end - begin) * width;
    // The square of a row's channel i stands at before + i, so the neighbours of channel i are summed at i.
    float squares[2 * kPiece] = {}, sums[kPiece], own[kPiece] = {};
    const auto channels_of = [&](int64_t row) { return std::min(part, channels - row % parts * part); };
    for (int64_t r = begin; r < end; ++r) {
      const int64_t first = r % parts * part, at = (r - begin) * width;
      const int64_t from = std::max<int64_t>(0, first - before), to = std::min(channels, first + part + after);
      const float* pixel = x + r / parts * channels;
      row_->binary({.kind = ukernel::BinaryKind::kMul,
                    .n = static_cast<size_t>(to - from),
                    .x = pixel + from,
                    .z = pixel + from,
                    .y = squares + at + before + from - first});
      std::copy_n(pixel + first, channels_of(r), own + at);
    }
    std::copy_n(squares, n, sums);
    for (int64_t k = 1; k < a_.size; ++k) {
      row_->binary(
          {.kind = ukernel::BinaryKind::kAdd, .n = static_cast<size_t>(n), .x = sums, .z = squares + k, .y = sums});
    }
    const float scale = a_.alpha / static_cast<float>(a_.size);
    for (int64_t i = 0; i < n; ++i) sums[i] = sums[i] * scale + a_.bias;
    DivideByPower(*row_, n, own, sums, a_.beta, own);
    for (int64_t r = begin; r < end; ++r) {
      std::copy_n(own + (r - begin) * width, channels_of(r), y + r / parts * channels + r % parts * part);
    }
  }

  const ukernel::VectorKernel* row_;
  const LrnAttributes a_;
};

std::string Reject(const Node& node, const CpuConfig&) { return RejectMixedFloats(node); }

// Sums that fit a piece, and whose powers are real numbers.
std::string RejectLast(const Node& node, const CpuConfig&) {
  const ValueType& x = node.input(0)->type();
  if (x.dtype != DType::kF32) return std::string("type ") + DTypeName(x.dtype);
  const LrnAttributes a(node);
  if (a.size < 1 || a.size > kPiece / 2) return "size " + std::to_string(a.size);
  if (!(a.alpha >= 0) || !(a.bias >= 0)) return "powers of negative sums";
  return {};
}

Status InferLast(InferContext& c) {
  c.SetOutputType(0, c.input_type(0));
  return OkStatus();
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new LrnKernel(node, *context.config));
}
Result<std::unique_ptr<CpuKernel>> CompileLast(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new LrnLastKernel(node, *context.config));
}

constexpr CpuOp kOps[] = {
    {"", "LRN", Reject, Compile},
    {kCpuDomain, "LRN", RejectLast, CompileLast, 0, InferLast},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsLrn = kOps;

}  // namespace quern::cpu
