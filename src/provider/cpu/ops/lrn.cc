// LRN, channels first: each element over a power of the squares of its neighbours in the channel dimension.
#include <cmath>

#include "provider/cpu/common/moments.h"

namespace quern::cpu {
namespace {

class LrnKernel final : public CpuKernel {
 public:
  explicit LrnKernel(const Node& node)
      : size_(node.GetInt("size", 1)),
        alpha_(node.GetFloat("alpha", 1e-4f)),
        beta_(node.GetFloat("beta", 0.75f)),
        bias_(node.GetFloat("bias", 1.0f)) {}

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.rank() < 2) return InvalidArgument("the input of shape " + shape.ToString() + " has no channels");
    const int64_t channels = shape[1], plane = shape.num_elements(2, shape.rank());
    constexpr int64_t kPiece = 256;  // neighbouring elements whose sums are kept
    const int64_t pieces = (plane + kPiece - 1) / kPiece;
    return ByFloatType(context, [=, this]<typename T>() {
      return MakeStep([=, before = (size_ - 1) / 2, after = size_ - 1 - (size_ - 1) / 2,
                       scale = static_cast<T>(alpha_) / static_cast<T>(size_), beta = static_cast<T>(beta_),
                       bias = static_cast<T>(bias_)](const StepContext& c) {
        const auto* x = static_cast<const T*>(c.inputs[0]);
        auto* y = static_cast<T*>(c.outputs[0]);
        const bool three_quarters = beta == T{0.75};
        return ForItems(c, shape[0] * channels * pieces, kPiece * 4, kCostlyGrain, [&](int64_t item) {
          const int64_t image = item / (channels * pieces), channel = item / pieces % channels;
          const int64_t first = item % pieces * kPiece, n = std::min(kPiece, plane - first);
          const T* from = x + image * channels * plane + first;
          T sums[kPiece] = {};
          const int64_t last = std::min(channels - 1, channel + after);
          for (int64_t k = std::max<int64_t>(0, channel - before); k <= last; ++k) {
            for (int64_t i = 0; i < n; ++i) sums[i] += from[k * plane + i] * from[k * plane + i];
          }
          const T* own = from + channel * plane;
          T* to = y + (image * channels + channel) * plane + first;
          for (int64_t i = 0; i < n; ++i) {
            const T s = bias + scale * sums[i];
            const T root = std::sqrt(s);
            to[i] = own[i] / (three_quarters ? root * std::sqrt(root) : std::pow(s, beta));
          }
        });
      });
    });
  }
  KernelDescription Describe() const override { return Described("lrn", "plain loops over pieces of a channel"); }

 private:
  int64_t size_;
  float alpha_, beta_, bias_;
};

std::string Reject(const Node& node, const CpuConfig&) { return RejectMixedFloats(node); }

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new LrnKernel(node));
}

constexpr CpuOp kOps[] = {{"", "LRN", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsLrn = kOps;

}  // namespace quern::cpu
