// TreeEnsembleClassifier (of integer labels), TreeEnsembleRegressor and TreeEnsemble of ai.onnx.ml: the attributes are
// read once, blocks of rows go through all trees.
#include <algorithm>
#include <optional>

#include "ops/common/tree_classes.h"
#include "ops/common/tree_ensemble.h"
#include "provider/cpu/common/flat_trees.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// More features than any model has, for trees that are read before the input's extents are known.
constexpr int64_t kMostFeatures = int64_t{1} << 30;
constexpr int64_t kBlock = 64;  // rows of one task, where they are small

bool IsClassifier(const Node& node) { return node.op_type() == "TreeEnsembleClassifier"; }
bool IsVersion5(const Node& node) { return node.op_type() == "TreeEnsemble"; }

// The rows of a task: features as T, scores, and what a row's scores become.
template <typename T>
struct RowScratch {
  T* features;
  TreeScore<T>* scores;
  double* finished;

  static size_t Bytes(int64_t rows, int64_t features, int64_t targets) {
    const size_t bytes = static_cast<size_t>(rows * features) * sizeof(T) +
                         static_cast<size_t>(rows * targets) * sizeof(TreeScore<T>) +
                         static_cast<size_t>(targets) * sizeof(double);
    return (bytes + 127) / 64 * 64;
  }
  static RowScratch At(void* memory, int64_t rows, int64_t targets) {
    RowScratch s{};
    s.finished = static_cast<double*>(memory);
    s.scores = reinterpret_cast<TreeScore<T>*>(s.finished + targets);
    s.features = reinterpret_cast<T*>(s.scores + rows * targets);
    return s;
  }
};

template <typename T, typename From>
void Widen(const void* rows, int64_t n, T* to) {
  const From* from = static_cast<const From*>(rows);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
}
template <typename T>
const T* Features(DType dtype, const void* x, int64_t first, int64_t n, T* scratch) {
  if (dtype == DTypeOf<T>::value) return static_cast<const T*>(x) + first;
  switch (dtype) {
    case DType::kF32:
      Widen<T, float>(static_cast<const float*>(x) + first, n, scratch);
      break;
    case DType::kI32:
      Widen<T, int32_t>(static_cast<const int32_t*>(x) + first, n, scratch);
      break;
    default:
      Widen<T, int64_t>(static_cast<const int64_t*>(x) + first, n, scratch);
      break;
  }
  return scratch;
}

template <typename T>
class TreesKernel final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Create(const Node& node) {
    auto kernel = std::make_unique<TreesKernel>();
    const char* votes = "target";
    if (IsClassifier(node)) {
      QUERN_ASSIGN_OR_RETURN(kernel->classifier_, TreeClassifier<T>::Read(node));
      kernel->targets_.count = kernel->classifier_->classes.labels.size();
      votes = "class";
    } else {
      QUERN_ASSIGN_OR_RETURN(kernel->targets_, TreeTargets::Read(node));
      if (!IsVersion5(node)) {
        QUERN_ASSIGN_OR_RETURN(kernel->base_, ReadTreeNumbers<T>(node, "base_values"));
      }
      if (!kernel->base_.empty() && static_cast<int64_t>(kernel->base_.size()) != kernel->targets_.count) {
        return InvalidArgument("base_values has " + std::to_string(kernel->base_.size()) + " values for " +
                               std::to_string(kernel->targets_.count) + " targets");
      }
    }
    const int64_t targets = kernel->targets_.count;
    QUERN_ASSIGN_OR_RETURN(const TreeEnsemble<T> trees,
                           IsVersion5(node) ? TreeEnsemble<T>::Read5(node, targets, kMostFeatures)
                                            : TreeEnsemble<T>::Read(node, votes, targets, kMostFeatures));
    QUERN_ASSIGN_OR_RETURN(kernel->trees_, FlatTrees<T>::Make(trees));
    return std::unique_ptr<CpuKernel>(std::move(kernel));
  }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    QUERN_ASSIGN_OR_RETURN(const RowExtents x, RowExtents::Of(context.inputs[0].shape));
    const int64_t rows = x.rows, features = x.features, targets = targets_.count;
    if (trees_.num_features() > features) {
      return InvalidArgument("a node asks for feature " + std::to_string(trees_.num_features() - 1) +
                             ", the input has " + std::to_string(features) + " features");
    }
    if (rows == 0) return NothingToDo();
    const DType from = context.inputs[0].dtype;
    const bool in_place = from == DTypeOf<T>::value;
    constexpr int64_t kBlockElements = 32768;
    const int64_t wide = std::max<int64_t>(1, std::max(in_place ? 1 : features, targets));
    const int64_t block = std::clamp<int64_t>(kBlockElements / wide, 1, std::min(kBlock, rows));
    const size_t slot_bytes = RowScratch<T>::Bytes(block, in_place ? 0 : features, targets);
    const int concurrency = context.concurrency;
    const bool doubles = !classifier_ && context.outputs[0].dtype == DType::kF64;
    auto run = [=, this](const StepContext& c) {
      const auto task = [&](int slot, int64_t begin, int64_t end) {
        void* memory = static_cast<char*>(c.scratch) + static_cast<size_t>(slot) * slot_bytes;
        const RowScratch<T> s = RowScratch<T>::At(memory, block, targets);
        for (int64_t first = begin * block; first < std::min(rows, end * block); first += block) {
          const int64_t n = std::min(block, rows - first);
          const T* x = Features<T>(from, c.inputs[0], first * features, n * features, s.features);
          trees_.Score(x, n, features, targets_.aggregate, targets, s.scores);
          for (int64_t r = 0; r < n; ++r) Finish(c, first + r, {s.scores + r * targets, Count()}, s.finished, doubles);
        }
      };
      const int64_t work = block * (trees_.num_trees() * 8 + targets + 1);
      const int64_t grain = std::max<int64_t>(1, kCostlyGrain / work);
      return c.executor->ParallelFor((rows + block - 1) / block, grain, task, c.cancel, concurrency);
    };
    return MakeStep(std::move(run), slot_bytes * static_cast<size_t>(concurrency));
  }
  KernelDescription Describe() const override {
    return Described(std::string("trees (") + DTypeName(DTypeOf<T>::value) + ")",
                     std::to_string(trees_.num_trees()) + " trees, several rows walked at once");
  }

 private:
  size_t Count() const { return static_cast<size_t>(targets_.count); }

  void Finish(const StepContext& c, int64_t row, std::span<TreeScore<T>> scores, double* scratch, bool doubles) const {
    const std::span<double> finished(scratch, Count());
    const int64_t at = row * targets_.count;
    if (classifier_) {
      const TreeLabel label = classifier_->Finish(scores, finished, static_cast<float*>(c.outputs[1]) + at);
      static_cast<int64_t*>(c.outputs[0])[row] =
          label.is_number ? label.value : classifier_->classes.labels.ints()[static_cast<size_t>(label.value)];
      return;
    }
    for (size_t t = 0; t < Count(); ++t) {
      finished[t] = static_cast<double>(base_.empty() ? scores[t].value : scores[t].value + base_[t]);
    }
    ApplyPostTransform(targets_.transform, finished);
    if (doubles) {
      std::copy(finished.begin(), finished.end(), static_cast<double*>(c.outputs[0]) + at);
    } else {
      std::transform(finished.begin(), finished.end(), static_cast<float*>(c.outputs[0]) + at,
                     [](double v) { return static_cast<float>(v); });
    }
  }

  std::optional<TreeClassifier<T>> classifier_;
  TreeTargets targets_;
  std::vector<T> base_;
  FlatTrees<T> trees_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  if (IsClassifier(node)) {
    const Result<TreeClasses> classes = TreeClasses::ReadLabels(node);
    if (!classes.ok()) return classes.status().message();
    if (classes->labels.dtype() == DType::kString) return "the labels are strings";
    if (!node.output(0) || !node.output(1)) return "an output is omitted";
  }
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64, DType::kI32, DType::kI64});
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  const DType x = node.input(0)->type().dtype;
  const bool doubles =
      IsClassifier(node) ? TreeClassifierNeedsDoubles(node, x)
      : IsVersion5(node)
          ? x == DType::kF64 || HoldsDoubles(node, {"nodes_splits", "leaf_weights", "membership_values"})
          : x == DType::kF64 ||
                HoldsDoubles(node, {"nodes_values_as_tensor", "target_weights_as_tensor", "base_values_as_tensor"});
  return doubles ? TreesKernel<double>::Create(node) : TreesKernel<float>::Create(node);
}

constexpr char kMl[] = "ai.onnx.ml";
constexpr CpuOp kOps[] = {
    {kMl, "TreeEnsembleClassifier", Reject, Compile},
    {kMl, "TreeEnsembleRegressor", Reject, Compile},
    {kMl, "TreeEnsemble", Reject, Compile},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsTreeEnsembles = kOps;

}  // namespace quern::cpu
