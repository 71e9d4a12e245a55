// What the models of ai.onnx.ml share: an input of [N, F] (or [F], one row) as rows of features, and class labels.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/op.h"

namespace quern {

inline constexpr TypeSet kFeatureTypes = {DType::kF32, DType::kF64, DType::kI64, DType::kI32};
inline constexpr TypeSet kLabelTypes = {DType::kString, DType::kI64};
using FeatureTypeList = Types<float, double, int64_t, int32_t>;

// N and F of an input of shape [N, F], or [F] for one row.
struct RowDims {
  Dim rows, features;
};
inline Result<RowDims> RowDimsOf(const InferContext& c, int i) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape) return RowDims{Dim::Unknown(), Dim::Unknown()};
  if (shape->size() != 1 && shape->size() != 2) {
    return c.Error("input " + std::to_string(i) + " has shape " + DimsToString(*shape) + ", [N,F] or [F] is needed");
  }
  return RowDims{shape->size() == 1 ? Dim(1) : shape->front(), shape->back()};
}

// The same of a shape whose extents are known.
struct RowExtents {
  int64_t rows = 0, features = 0;

  static Result<RowExtents> Of(const Shape& shape) {
    if (shape.rank() == 1) return RowExtents{1, shape[0]};
    if (shape.rank() == 2) return RowExtents{shape[0], shape[1]};
    return InvalidArgument("the input has shape " + shape.ToString() + ", [N,F] or [F] is needed");
  }
};

// An error unless the number of features is `needed` or not known. Context: of inference or evaluation.
template <typename Context>
Status CheckFeatures(const Context& c, const Dim& features, int64_t needed) {
  if (!features.is_constant() || features.is_constant(needed)) return OkStatus();
  return c.Error("the input has " + features.ToString() + " features, the model was made for " +
                 std::to_string(needed));
}

// A numeric input of shape [N, F] or [F] as rows of T (float or double).
template <typename T>
class FeatureRows {
 public:
  static Result<FeatureRows> Make(EvalContext& c, int i) {
    const Tensor& x = c.input(i);
    const Result<RowExtents> extents = RowExtents::Of(x.shape());
    if (!extents.ok()) return extents.status().WithContext(c.node().Describe());
    FeatureRows r;
    r.extents_ = *extents;
    r.values_.reserve(static_cast<size_t>(x.num_elements()));
    QUERN_RETURN_IF_ERROR(
        DispatchType(Types<float, double, int64_t, int32_t, Float16>{}, x.dtype(), [&]<typename From>() {
          for (const From v : x.values<From>()) r.values_.push_back(static_cast<T>(static_cast<ComputeType<From>>(v)));
          return OkStatus();
        }).WithContext(c.node().Describe()));
    return r;
  }

  int64_t num_rows() const { return extents_.rows; }
  int64_t num_features() const { return extents_.features; }
  std::span<const T> row(int64_t n) const {
    const int64_t features = extents_.features;
    return std::span<const T>(values_).subspan(static_cast<size_t>(n * features), static_cast<size_t>(features));
  }

 private:
  RowExtents extents_;
  std::vector<T> values_;
};

// A list attribute; empty when it is absent.
template <typename T>
std::span<const T> ListAttribute(const Node& node, std::string_view name) {
  const std::vector<T>* list = node.FindAttribute<std::vector<T>>(name);
  return list != nullptr ? std::span<const T>(*list) : std::span<const T>();
}

// Row `i` of `weights`, as long as `x`, times x, plus element i of `offsets` unless there are none.
inline double LinearScore(std::span<const double> x, std::span<const float> weights, std::span<const float> offsets,
                          int64_t i) {
  double sum = 0;
  const float* w = weights.data() + static_cast<size_t>(i) * x.size();
  for (size_t j = 0; j < x.size(); ++j) sum += x[j] * double{w[j]};
  return offsets.empty() ? sum : sum + double{offsets[static_cast<size_t>(i)]};
}

// The labels of classes or keys of maps: strings or integers. Views the attributes of the node.
class ClassLabels {
 public:
  // At most one of the two attributes may hold something; none gives an empty list of integers.
  static Result<ClassLabels> Read(const Node& node, std::string_view ints, std::string_view strings) {
    ClassLabels labels;
    labels.ints_ = ListAttribute<int64_t>(node, ints);
    labels.strings_ = ListAttribute<std::string>(node, strings);
    if (!labels.ints_.empty() && !labels.strings_.empty()) {
      return InvalidArgument(node.Describe() + ": attributes '" + std::string(ints) + "' and '" + std::string(strings) +
                             "' are both given, one of them is needed");
    }
    return labels;
  }

  DType dtype() const { return strings_.empty() ? DType::kI64 : DType::kString; }
  int64_t size() const { return static_cast<int64_t>(strings_.empty() ? ints_.size() : strings_.size()); }
  std::span<const int64_t> ints() const { return ints_; }
  std::span<const std::string> strings() const { return strings_; }

 private:
  std::span<const int64_t> ints_;
  std::span<const std::string> strings_;
};

// Output i of a classifier: a label per row.
class LabelOutput {
 public:
  static Result<LabelOutput> Make(EvalContext& c, int i, const ClassLabels& labels, int64_t rows) {
    QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, i, labels.dtype(), Shape{rows}));
    return LabelOutput(labels, std::move(out));
  }
  // The label of class `index`, in [0, size).
  void Set(int64_t row, int64_t index) {
    if (labels_.dtype() == DType::kString) {
      out_.data<std::string>()[row] = labels_.strings()[static_cast<size_t>(index)];
    } else {
      out_.data<int64_t>()[row] = labels_.ints()[static_cast<size_t>(index)];
    }
  }
  // A number in place of a label; for integer labels.
  void SetNumber(int64_t row, int64_t number) { out_.data<int64_t>()[row] = number; }
  Status Finish() { return out_.Finish(); }

 private:
  LabelOutput(const ClassLabels& labels, ElementOutput out) : labels_(labels), out_(std::move(out)) {}
  ClassLabels labels_;
  ElementOutput out_;
};

// Outputs of a classifier: labels [N] and scores [N, num_scores].
inline void SetClassifierTypes(InferContext& c, const Dim& rows, const ClassLabels& labels, int64_t num_scores) {
  c.SetOutputType(0, ValueType::Tensor(labels.dtype(), Dims{rows}));
  c.SetOutputType(1, ValueType::Tensor(DType::kF32, Dims{rows, Dim(num_scores)}));
}

inline constexpr Param kClassifierInputs[] = {{"X", "T1", kFeatureTypes}};
inline constexpr Param kClassifierOutputs[] = {{"Y", "T2", kLabelTypes}, {"Z", "", {DType::kF32}}};
inline constexpr Param kFeatureInputs[] = {{"X", "T", kFeatureTypes}};
inline constexpr Param kFloatOutputs[] = {{"Y", "", {DType::kF32}}};

}  // namespace quern
