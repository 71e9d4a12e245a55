// LinearClassifier (of integer labels), LinearRegressor, Scaler and Normalizer of ai.onnx.ml. Sums are made in double
// and in the order of the features, so that labels do not depend on the path.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/common/linear_model.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

class LinearKernel final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Create(const Node& node) {
    auto k = std::make_unique<LinearKernel>();
    QUERN_ASSIGN_OR_RETURN(k->model_, LinearModel::Read(node));
    const LinearModel& m = k->model_;
    const Dims& x = *node.input(0)->type().shape;
    QUERN_ASSIGN_OR_RETURN(k->functions_, m.CountFunctions(node, x.empty() ? Dim::Unknown() : x.back()));
    k->features_ = m.CountFeatures(k->functions_);
    for (int64_t first = 0; first < k->functions_; first += kPanel) {
      const int64_t width = k->Width(first);
      for (int64_t f = 0; f < k->features_; ++f) {
        for (int64_t i = first; i < first + width; ++i) {
          k->weights_.push_back(
              i < k->functions_ ? static_cast<double>(m.coefficients[static_cast<size_t>(i * k->features_ + f)]) : 0.0);
        }
      }
    }
    k->offsets_.assign(m.intercepts.begin(), m.intercepts.end());
    return std::unique_ptr<CpuKernel>(std::move(k));
  }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    QUERN_ASSIGN_OR_RETURN(const RowExtents x, RowExtents::Of(context.inputs[0].shape));
    if (x.features != features_) {
      return InvalidArgument("the input has " + std::to_string(x.features) + " features, the model was made for " +
                             std::to_string(features_));
    }
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(FeatureTypeList{}, context.inputs[0].dtype, [&]<typename T>() {
      QUERN_ASSIGN_OR_RETURN(step, BindTyped<T>(x.rows, context.concurrency));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override {
    return Described("linear (f64)", std::to_string(functions_) + " functions of a row at once");
  }

 private:
  template <typename T>
  Result<std::unique_ptr<CpuStep>> BindTyped(int64_t rows, int concurrency) const {
    const size_t slot_bytes = (static_cast<size_t>(functions_ + kPanel) * sizeof(double) + 63) / 64 * 64;
    auto run = [=, this](const StepContext& c) {
      const auto task = [&](int slot, int64_t begin, int64_t end) {
        auto* scores =
            reinterpret_cast<double*>(static_cast<char*>(c.scratch) + static_cast<size_t>(slot) * slot_bytes);
        int64_t row = begin;
        for (; functions_ <= kFewFunctions && row + kRows <= end; row += kRows) ScoreRows<T>(c, row);
        for (; row < end; ++row) {
          const T* x = static_cast<const T*>(c.inputs[0]) + row * features_;
          for (int64_t first = 0; first < functions_; first += kPanel) Score(x, first, scores + first);
          for (size_t i = 0; i < offsets_.size(); ++i) scores[i] += offsets_[i];
          Finish(c, row, std::span<double>(scores, static_cast<size_t>(functions_)));
        }
      };
      const int64_t grain = std::max<int64_t>(1, kCheapGrain / std::max<int64_t>(1, features_ * functions_));
      return c.executor->ParallelFor(rows, grain, task, c.cancel, concurrency);
    };
    return MakeStep(std::move(run), slot_bytes * static_cast<size_t>(concurrency));
  }

  // Functions lie in panels of as many as there are sums in registers; the last one has a power of two.
  static constexpr int64_t kPanel = 16;
  // Of the panel that begins with function `first`, a multiple of kPanel.
  int64_t Width(int64_t first) const {
    return std::min(kPanel, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(functions_ - first))));
  }
  template <int kWidth, typename T>
  static void ScorePanel(const T* x, int64_t features, const double* w, double* scores) {
    double sums[kWidth] = {};
    for (int64_t f = 0; f < features; ++f, w += kWidth) {
      const double v = static_cast<double>(x[f]);
      for (int i = 0; i < kWidth; ++i) sums[i] += v * w[i];
    }
    std::copy_n(sums, kWidth, scores);
  }
  // Writes Width(first) scores.
  template <typename T>
  void Score(const T* x, int64_t first, double* scores) const {
    const double* w = weights_.data() + first * features_;
    switch (Width(first)) {
      case 1:
        return ScorePanel<1>(x, features_, w, scores);
      case 2:
        return ScorePanel<2>(x, features_, w, scores);
      case 4:
        return ScorePanel<4>(x, features_, w, scores);
      case 8:
        return ScorePanel<8>(x, features_, w, scores);
      default:
        return ScorePanel<kPanel>(x, features_, w, scores);
    }
  }

  // A row with few functions waits for its own sums: several rows at once have more of them.
  static constexpr int64_t kFewFunctions = 8, kRows = 16;
  template <typename T>
  void ScoreRows(const StepContext& c, int64_t first) const {
    const T* x = static_cast<const T*>(c.inputs[0]) + first * features_;
    double sums[kFewFunctions][kRows] = {};
    const double* w = weights_.data();
    const int64_t width = Width(0);
    for (int64_t f = 0; f < features_; ++f, w += width) {
      double v[kRows];
      for (int64_t r = 0; r < kRows; ++r) v[r] = static_cast<double>(x[r * features_ + f]);
      for (int64_t i = 0; i < functions_; ++i) {
        for (int64_t r = 0; r < kRows; ++r) sums[i][r] += v[r] * w[i];
      }
    }
    for (int64_t r = 0; r < kRows; ++r) {
      double scores[kFewFunctions];
      for (int64_t i = 0; i < functions_; ++i) scores[i] = sums[i][r];
      for (size_t i = 0; i < offsets_.size(); ++i) scores[i] += offsets_[i];
      Finish(c, first + r, std::span<double>(scores, static_cast<size_t>(functions_)));
    }
  }

  void Finish(const StepContext& c, int64_t row, std::span<double> scores) const {
    const std::span<const int64_t> labels = model_.labels.ints();
    float* out = static_cast<float*>(c.outputs[labels.empty() ? 0 : 1]) + row * model_.results;
    int64_t* label = labels.empty() ? nullptr : static_cast<int64_t*>(c.outputs[0]) + row;
    if (label && scores.size() < labels.size()) {
      *label = labels[scores[0] > 0];
      const std::array<double, 2> both = BinaryScores(model_.transform, scores[0], FirstScore::kComplement);
      out[0] = static_cast<float>(both[0]);
      out[1] = static_cast<float>(both[1]);
      return;
    }
    if (label) *label = labels[static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin())];
    ApplyPostTransform(model_.transform, scores);
    std::transform(scores.begin(), scores.end(), out, [](double v) { return static_cast<float>(v); });
  }

  LinearModel model_;  // views the node, which outlives the kernel
  int64_t functions_ = 1, features_ = 0;
  std::vector<double> weights_;  // (panels, features, functions of the panel)
  std::vector<double> offsets_;
};

constexpr TypeSet kFeatures = {DType::kF32, DType::kF64, DType::kI64, DType::kI32};

std::string RejectLinear(const Node& node, const CpuConfig&) {
  if (node.op_type() == "LinearClassifier") {
    if (!ListAttribute<std::string>(node, "classlabels_strings").empty()) return "the labels are strings";
    const size_t labels = ListAttribute<int64_t>(node, "classlabels_ints").size();
    if (labels == 0) return "no labels";
    const Dims& x = *node.input(0)->type().shape;
    const bool tells = !ListAttribute<float>(node, "intercepts").empty() || (!x.empty() && x.back().is_constant());
    if (labels == 2 && !tells) return "the number of features is not known";
    if (!node.output(0) || !node.output(1)) return "an output is omitted";
  }
  return RejectUnlessType(node.input(0), kFeatures);
}
Result<std::unique_ptr<CpuKernel>> CompileLinear(const Node& node, const CompileContext&) {
  return LinearKernel::Create(node);
}

// (x - offset) * scale.
class ScalerKernel final : public CpuKernel {
 public:
  explicit ScalerKernel(const Node& node)
      : offset_(ListAttribute<float>(node, "offset")), scale_(ListAttribute<float>(node, "scale")) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const int64_t features = shape.rank() == 0 ? 1 : shape.back(), n = shape.num_elements();
    for (const std::span<const float> list : {offset_, scale_}) {
      if (list.size() > 1 && static_cast<int64_t>(list.size()) != features) {
        return InvalidArgument("offset or scale has " + std::to_string(list.size()) + " values; 1 or " +
                               std::to_string(features) + ", one per feature, are needed");
      }
    }
    if (n == 0) return NothingToDo();
    std::vector<double> offset(static_cast<size_t>(features), 0.0), scale(static_cast<size_t>(features), 1.0);
    for (size_t i = 0; i < offset.size(); ++i) {
      if (!offset_.empty()) offset[i] = static_cast<double>(offset_[offset_.size() == 1 ? 0 : i]);
      if (!scale_.empty()) scale[i] = static_cast<double>(scale_[scale_.size() == 1 ? 0 : i]);
    }
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(FeatureTypeList{}, context.inputs[0].dtype, [&]<typename T>() {
      QUERN_ASSIGN_OR_RETURN(step, MakeStep([=](const StepContext& c) {
                               return ForItems(c, n / features, features, kCheapGrain, [&](int64_t row) {
                                 const T* x = static_cast<const T*>(c.inputs[0]) + row * features;
                                 float* y = static_cast<float*>(c.outputs[0]) + row * features;
                                 for (int64_t i = 0; i < features; ++i) {
                                   y[i] =
                                       static_cast<float>((static_cast<double>(x[i]) - offset[static_cast<size_t>(i)]) *
                                                          scale[static_cast<size_t>(i)]);
                                 }
                               });
                             }));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override { return Described("scaler (f64)", "plain loop by row"); }

 private:
  std::span<const float> offset_, scale_;
};

enum class Norm : uint8_t { kMax, kL1, kL2 };

class NormalizerKernel final : public CpuKernel {
 public:
  explicit NormalizerKernel(const Node& node) {
    const std::string name = node.GetString("norm", "MAX");
    norm_ = name == "MAX" ? Norm::kMax : name == "L1" ? Norm::kL1 : Norm::kL2;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    QUERN_ASSIGN_OR_RETURN(const RowExtents s, RowExtents::Of(context.inputs[0].shape));
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(FeatureTypeList{}, context.inputs[0].dtype, [&]<typename T>() {
      QUERN_ASSIGN_OR_RETURN(step, MakeStep([s, norm = norm_](const StepContext& c) {
                               return ForItems(c, s.rows, s.features * 4, kCheapGrain, [&](int64_t row) {
                                 const int64_t at = row * s.features;
                                 Normalize(norm, s.features, static_cast<const T*>(c.inputs[0]) + at,
                                           static_cast<float*>(c.outputs[0]) + at);
                               });
                             }));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override { return Described("normalizer (f64)", "plain loop by row"); }

 private:
  template <typename T>
  static void Normalize(Norm norm, int64_t n, const T* x, float* y) {
    double divisor = norm == Norm::kMax ? -std::numeric_limits<double>::infinity() : 0;
    for (int64_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(x[i]);
      divisor = norm == Norm::kMax ? std::max(divisor, v) : divisor + (norm == Norm::kL1 ? std::abs(v) : v * v);
    }
    if (norm == Norm::kL2) divisor = std::sqrt(divisor);
    for (int64_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(x[i]);
      y[i] = static_cast<float>(divisor == 0 ? v : v / divisor);
    }
  }
  Norm norm_;
};

std::string RejectRows(const Node& node, const CpuConfig&) {
  const std::string norm = node.GetString("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") return "norm '" + norm + "'";
  return RejectUnlessType(node.input(0), kFeatures);
}
template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new Kernel(node));
}

constexpr char kMl[] = "ai.onnx.ml";
constexpr CpuOp kOps[] = {
    {kMl, "LinearClassifier", RejectLinear, CompileLinear},
    {kMl, "LinearRegressor", RejectLinear, CompileLinear},
    {kMl, "Scaler", RejectRows, Compile<ScalerKernel>},
    {kMl, "Normalizer", RejectRows, Compile<NormalizerKernel>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsLinearModels = kOps;

}  // namespace quern::cpu
