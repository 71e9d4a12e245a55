// SVMClassifier (of integer labels) and SVMRegressor of ai.onnx.ml: kernels of a block of rows with all support vectors
// at once in float32, then sums by coefficients, votes and probabilities in double.
#include <algorithm>
#include <optional>
#include <vector>

#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/svm_functions.h"

namespace quern::cpu {
namespace {

// Functions of the rows of a block, and features that are converted to float32: 1 MB, so that the second-level cache
// keeps them. Few rows would not make a product of matrices.
constexpr int64_t kBlockFloats = 262144, kFewestRows = 16;

constexpr size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Everything that is fixed when the node is compiled. The models view the node, which outlives the kernel.
struct Compiled {
  std::optional<SvmClassifier> classifier;
  SvmRegressor regressor;  // where there is no classifier
  int64_t features = 0;
  SvmFunctions functions;
  bool sums_kernels = false;  // by the coefficients; else the functions are what a sum would give

  int64_t num_decisions() const { return classifier ? classifier->num_decisions() : 1; }
};

// In eight sums, so that no addition waits for the one before.
double SumProducts(const float* a, const float* b, int64_t n) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int j = 0; j < kSums; ++j) sums[j] += double{a[i + j]} * double{b[i + j]};
  }
  for (; i < n; ++i) sums[0] += double{a[i]} * double{b[i]};
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Where the kernel is linear, a sum of products with vectors is the product with their sum.
struct VectorSum {
  std::vector<double> sum;
  void Add(const SvmClassifier& m, int64_t coefficient_row, int64_t first, int64_t count) {
    for (int64_t v = first; v < first + count; ++v) {
      AddVector(m.coefficients[static_cast<size_t>(coefficient_row * m.vectors + v)],
                m.support_vectors.data() + v * m.features);
    }
  }
  void AddVector(float coefficient, const float* vector) {
    for (size_t f = 0; f < sum.size(); ++f) sum[f] += double{coefficient} * double{vector[f]};
  }
  void MoveTo(std::vector<float>& weights) {
    for (double& v : sum) {
      weights.push_back(static_cast<float>(v));
      v = 0;
    }
  }
};
std::vector<float> PairWeights(const SvmClassifier& m) {
  std::vector<float> weights;
  VectorSum sum{std::vector<double>(static_cast<size_t>(m.features))};
  int64_t first_i = 0;
  for (int64_t i = 0; i < m.classes; ++i) {
    const int64_t count_i = m.vectors_per_class[static_cast<size_t>(i)];
    int64_t first_j = first_i + count_i;
    for (int64_t j = i + 1; j < m.classes; ++j) {
      const int64_t count_j = m.vectors_per_class[static_cast<size_t>(j)];
      sum.Add(m, j - 1, first_i, count_i);
      sum.Add(m, i, first_j, count_j);
      sum.MoveTo(weights);
      first_j += count_j;
    }
    first_i += count_i;
  }
  return weights;
}
std::vector<float> RegressorWeights(const SvmRegressor& m) {
  std::vector<float> weights;
  VectorSum sum{std::vector<double>(static_cast<size_t>(m.features))};
  for (int64_t v = 0; v < m.vectors; ++v) {
    sum.AddVector(m.coefficients[static_cast<size_t>(v)], m.support_vectors.data() + v * m.features);
  }
  sum.MoveTo(weights);
  return weights;
}

class SvmStep final : public CpuStep {
 public:
  SvmStep(const Compiled& model, const RowExtents& x, DType from, int concurrency)
      : model_(model), rows_(x.rows), from_(from), concurrency_(concurrency) {
    const int64_t count = model.functions.count();
    const bool converts = from != DType::kF32;
    const int64_t wide = std::max(count, converts ? model.features : 1);
    block_ = std::min(rows_, std::max(kFewestRows, kBlockFloats / wide));
    whole_ = model.functions.PlanRows(block_, concurrency);
    rest_ = model.functions.PlanRows(rows_ % block_, concurrency);
    const auto take = [&](size_t bytes) {
      const size_t at = scratch_;
      scratch_ += Aligned(bytes);
      return at;
    };
    values_at_ = take(static_cast<size_t>(block_ * count) * sizeof(float));
    features_at_ = take(converts ? static_cast<size_t>(block_ * model.features) * sizeof(float) : 0);
    workspace_at_ = take(std::max(whole_.workspace_bytes, rest_.workspace_bytes));
    slot_bytes_ = Aligned(static_cast<size_t>(SlotNumbers()) * sizeof(double));
    slots_at_ = take(slot_bytes_ * static_cast<size_t>(concurrency));
  }
  size_t scratch_bytes() const override { return scratch_; }

  Status Run(const StepContext& c) const override {
    char* memory = static_cast<char*>(c.scratch);
    auto* values = reinterpret_cast<float*>(memory + values_at_);
    const int64_t count = model_.functions.count();
    for (int64_t first = 0; first < rows_; first += block_) {
      const SvmFunctions::Plan& plan = rows_ - first < block_ ? rest_ : whole_;
      const float* x = Features(c, first, plan.rows, reinterpret_cast<float*>(memory + features_at_));
      QUERN_RETURN_IF_ERROR(model_.functions.Run(c, plan, memory + workspace_at_, x, values));
      const auto task = [&](int slot, int64_t begin, int64_t end) {
        void* numbers = memory + slots_at_ + static_cast<size_t>(slot) * slot_bytes_;
        for (int64_t r = begin; r < end; ++r) FinishRow(c, first + r, values + r * count, numbers);
      };
      const int64_t sums = SlotNumbers() + (model_.sums_kernels ? count * CoefficientRows() : 0);
      QUERN_RETURN_IF_ERROR(
          c.executor->ParallelFor(plan.rows, std::max<int64_t>(1, kCheapGrain / sums), task, c.cancel, concurrency_));
    }
    return OkStatus();
  }
  KernelDescription Describe() const override { return model_.functions.Describe(block_); }

 private:
  // Of a row: the decisions, the sums of each class's vectors, what scores need, and votes.
  int64_t SlotNumbers() const {
    if (!model_.classifier) return 1;
    const SvmClassifier& m = *model_.classifier;
    const int64_t sums = model_.sums_kernels ? m.classes * (m.classes - 1) : 0;
    return m.num_decisions() + sums + m.work_doubles() + m.classes;
  }

  int64_t CoefficientRows() const { return model_.classifier ? model_.classifier->classes - 1 : 1; }

  const float* Features(const StepContext& c, int64_t first, int64_t rows, float* converted) const {
    const int64_t at = first * model_.features, n = rows * model_.features;
    if (from_ == DType::kF32) return static_cast<const float*>(c.inputs[0]) + at;
    const auto convert = [&]<typename T>(const T* x) {
      std::transform(x + at, x + at + n, converted, [](T v) { return static_cast<float>(v); });
    };
    if (from_ == DType::kF64) {
      convert(static_cast<const double*>(c.inputs[0]));
    } else if (from_ == DType::kI64) {
      convert(static_cast<const int64_t*>(c.inputs[0]));
    } else {
      convert(static_cast<const int32_t*>(c.inputs[0]));
    }
    return converted;
  }

  void FinishRow(const StepContext& c, int64_t row, const float* values, void* numbers) const {
    if (!model_.classifier) {
      const SvmRegressor& m = model_.regressor;
      const double sum =
          model_.sums_kernels ? SumProducts(m.coefficients.data(), values, m.vectors) : double{values[0]};
      static_cast<float*>(c.outputs[0])[row] = m.Finish(sum + m.rho);
      return;
    }
    const SvmClassifier& m = *model_.classifier;
    auto* doubles = static_cast<double*>(numbers);
    const auto take = [&](int64_t n) {
      const std::span<double> taken(doubles, static_cast<size_t>(n));
      doubles += n;
      return taken;
    };
    const std::span<double> decisions = take(m.num_decisions());
    if (model_.sums_kernels) {
      SumPairs(m, values, take(m.classes * (m.classes - 1)), decisions);
    } else {
      const int64_t step = m.vectors == 0 ? 0 : 1;
      for (size_t i = 0; i < decisions.size(); ++i) {
        decisions[i] = double{values[i]} + double{m.rho[i * static_cast<size_t>(step)]};
      }
    }
    const std::span<double> work = take(m.work_doubles());
    const std::span<int64_t> votes(reinterpret_cast<int64_t*>(doubles), static_cast<size_t>(m.classes));
    const int64_t chosen = m.Choose(decisions, votes);
    static_cast<int64_t*>(c.outputs[0])[row] = m.labels.ints()[static_cast<size_t>(chosen)];
    m.WriteScores(decisions, work, static_cast<float*>(c.outputs[1]) + row * m.num_scores());
  }

  // The pair (i, j) takes the vectors of i with row j - 1 of the coefficients, those of j with row i.
  static void SumPairs(const SvmClassifier& m, const float* kernels, std::span<double> sums,
                       std::span<double> decisions) {
    const auto width = static_cast<size_t>(m.classes - 1);
    int64_t first = 0;
    for (size_t i = 0; i <= width; ++i) {
      const int64_t count = m.vectors_per_class[i];
      for (size_t r = 0; r < width; ++r) {
        const float* w = m.coefficients.data() + static_cast<int64_t>(r) * m.vectors + first;
        sums[i * width + r] = SumProducts(w, kernels + first, count);
      }
      first += count;
    }
    size_t pair = 0;
    for (size_t i = 0; i <= width; ++i) {
      for (size_t j = i + 1; j <= width; ++j, ++pair) {
        decisions[pair] = sums[i * width + j - 1] + sums[j * width + i] + double{m.rho[pair]};
      }
    }
  }

  const Compiled& model_;
  int64_t rows_, block_ = 1;
  DType from_;
  int concurrency_;
  SvmFunctions::Plan whole_, rest_;
  size_t scratch_ = 0, values_at_ = 0, features_at_ = 0, workspace_at_ = 0, slots_at_ = 0, slot_bytes_ = 0;
};

class SvmKernelOp final : public CpuKernel {
 public:
  explicit SvmKernelOp(Compiled model) : model_(std::move(model)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    QUERN_ASSIGN_OR_RETURN(const RowExtents x, RowExtents::Of(context.inputs[0].shape));
    if (x.features != model_.features) {
      return InvalidArgument("the input has " + std::to_string(x.features) + " features, the model was made for " +
                             std::to_string(model_.features));
    }
    if (x.rows == 0) return NothingToDo();
    return std::unique_ptr<CpuStep>(new SvmStep(model_, x, context.inputs[0].dtype, context.concurrency));
  }
  KernelDescription Describe() const override { return model_.functions.Describe(1); }

 private:
  Compiled model_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  if (node.op_type() == "SVMClassifier") {
    if (!ListAttribute<std::string>(node, "classlabels_strings").empty()) return "the labels are strings";
    if (!node.output(0) || !node.output(1)) return "an output is omitted";
  }
  return RejectUnlessType(node.input(0), kFeatureTypes);
}

int64_t RowsIfKnown(const Node& node) {
  const Dims& x = *node.input(0)->type().shape;
  return x.size() == 1 ? 1 : x.size() == 2 && x[0].is_constant() ? x[0].value() : 0;
}

Result<std::unique_ptr<CpuKernel>> CompileClassifier(const Node& node, const CompileContext& context) {
  Compiled c;
  QUERN_ASSIGN_OR_RETURN(c.classifier, SvmClassifier::Read(node));
  const SvmClassifier& m = *c.classifier;
  c.features = m.features;
  std::span<const float> vectors = m.vectors == 0 ? m.coefficients : m.support_vectors;
  std::vector<float> weights;
  if (m.vectors > 0 && m.kernel.type == SvmKernel::Type::kLinear && m.pairs <= m.vectors) {
    weights = PairWeights(m);
    vectors = weights;
  } else {
    c.sums_kernels = m.vectors > 0;
  }
  QUERN_ASSIGN_OR_RETURN(c.functions, SvmFunctions::Create(m.kernel, vectors, m.features, RowsIfKnown(node), context));
  return std::unique_ptr<CpuKernel>(new SvmKernelOp(std::move(c)));
}

Result<std::unique_ptr<CpuKernel>> CompileRegressor(const Node& node, const CompileContext& context) {
  Compiled c;
  QUERN_ASSIGN_OR_RETURN(c.regressor, SvmRegressor::Read(node));
  const SvmRegressor& m = c.regressor;
  c.features = m.features;
  SvmKernel kernel = m.kernel;
  std::span<const float> vectors = m.vectors == 0 ? m.coefficients : m.support_vectors;
  std::vector<float> weights;
  if (m.vectors == 0) {
    kernel = SvmKernel();
  } else if (kernel.type == SvmKernel::Type::kLinear) {
    weights = RegressorWeights(m);
    vectors = weights;
  } else {
    c.sums_kernels = true;
  }
  QUERN_ASSIGN_OR_RETURN(c.functions, SvmFunctions::Create(kernel, vectors, m.features, RowsIfKnown(node), context));
  return std::unique_ptr<CpuKernel>(new SvmKernelOp(std::move(c)));
}

constexpr char kMl[] = "ai.onnx.ml";
constexpr CpuOp kOps[] = {
    {kMl, "SVMClassifier", Reject, CompileClassifier},
    {kMl, "SVMRegressor", Reject, CompileRegressor},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsSvm = kOps;

}  // namespace quern::cpu
