// ai.onnx.ml.FeatureVectorizer: rows of several inputs side by side, as floats; each input is cut or filled up with
// zeros to its number of columns in `inputdimensions`.
#include <algorithm>
#include <string>

#include "ops/common/eval_infer.h"
#include "ops/common/ml_rows.h"

namespace quern {
namespace {

// Columns that input i takes in the output, or what the attribute does not tell: all that it has.
Dim WidthOf(const Node& node, int i, const Dims& shape) {
  const std::span<const int64_t> given = ListAttribute<int64_t>(node, "inputdimensions");
  if (!given.empty()) return Dim(given[static_cast<size_t>(i)]);
  return shape.size() == 1 ? shape[0] : Product(Dims(shape.begin() + 1, shape.end()));
}

Status Infer(InferContext& c) {
  const std::span<const int64_t> given = ListAttribute<int64_t>(c.node(), "inputdimensions");
  if (!given.empty() && static_cast<int>(given.size()) != c.num_inputs()) {
    return c.Error("inputdimensions has " + std::to_string(given.size()) + " numbers for " +
                   std::to_string(c.num_inputs()) + " inputs");
  }
  constexpr int64_t kMost = int64_t{1} << 40;  // so that their sum does not overflow
  for (const int64_t n : given) {
    if (n < 0 || n > kMost) return c.Error("inputdimensions holds " + std::to_string(n) + ", which is no column count");
  }
  Dim rows = Dim::Unknown(), width(0);
  for (int i = 0; i < c.num_inputs(); ++i) {
    const std::optional<Dims> shape = c.input_shape(i);
    if (!shape) {
      width = width + (given.empty() ? Dim::Unknown() : Dim(given[static_cast<size_t>(i)]));
      continue;
    }
    if (shape->empty()) return c.Error("input " + std::to_string(i) + " is a scalar, [N,C] or [C] is needed");
    const Dim n = shape->size() == 1 ? Dim(1) : shape->front();
    if (rows.is_constant() && n.is_constant() && !(rows == n)) {
      return c.Error("input " + std::to_string(i) + " has " + n.ToString() + " rows, those before it " +
                     rows.ToString());
    }
    if (n.is_constant() || rows.has_unknown()) rows = n;
    width = width + WidthOf(c.node(), i, *shape);
  }
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, Dims{rows, width}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  if (y.num_elements() == 0) return OkStatus();
  std::fill_n(y.data<float>(), y.num_elements(), 0.0f);
  const int64_t rows = y.dim(0), width = y.dim(1);
  int64_t column = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Tensor& x = c.input(i);
    const int64_t columns = x.rank() == 1 ? x.dim(0) : x.shape().num_elements(1, x.rank());
    const Dims shape(x.shape().begin(), x.shape().end());
    const int64_t target = WidthOf(c.node(), i, shape).value();
    QUERN_RETURN_IF_ERROR(DispatchType(FeatureTypeList{}, x.dtype(), [&]<typename T>() {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t j = 0; j < std::min(columns, target); ++j) {
          y.data<float>()[r * width + column + j] = static_cast<float>(x.data<T>()[r * columns + j]);
        }
      }
      return OkStatus();
    }));
    column += target;
  }
  return OkStatus();
}

constexpr Param kInputs[] = {{"X", "T1", kFeatureTypes, Arity::kVariadic}};
constexpr AttrSpec kAttributes[] = {{"inputdimensions", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{1, kInputs, kFloatOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlFeatureVectorizer = {"ai.onnx.ml", "FeatureVectorizer", kVersions};

}  // namespace quern
