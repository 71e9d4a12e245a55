#include "ops/common/eval_infer.h"

#include <algorithm>
#include <string>

namespace quern {
namespace {

// Shows concrete inputs to an inference function.
class ConcreteInferContext final : public InferContext {
 public:
  // `outputs`: how many there may be, those that the node omits among them.
  ConcreteInferContext(EvalContext& eval, size_t outputs) : eval_(eval), outputs_(outputs) {
    types_.reserve(eval.num_inputs());
    for (int i = 0; i < eval.num_inputs(); ++i) {
      types_.push_back(eval.HasInput(i) ? TypeOf(eval.input_value(i)) : ValueType{});
    }
  }
  const Node& node() const override { return eval_.node(); }
  const ValueType& input_type(int i) const override { return types_[i]; }
  const Value* input_constant(int i) const override { return eval_.HasInput(i) ? &eval_.input_value(i) : nullptr; }
  std::optional<Dims> input_data(int i) const override {
    if (!eval_.HasInput(i) || !eval_.input_value(i).is_tensor()) return std::nullopt;
    const Tensor& t = eval_.input(i);
    if (!IsIntegerType(t.dtype()) || t.rank() > 1) {
      no_list_ = i;
      return std::nullopt;
    }
    Result<std::vector<int64_t>> values = ToInt64s(t);
    if (!values.ok()) return std::nullopt;
    return Dims(values->begin(), values->end());
  }
  void SetOutputType(int i, ValueType type) override {
    if (i < static_cast<int>(outputs_.size())) outputs_[i] = std::move(type);
  }
  void SetOutputData(int, Dims) override {}
  Result<std::vector<ValueType>> InferSubgraph(std::string_view, std::vector<ValueType>) override {
    return Internal(node().Describe() + ": subgraphs are not inferred during evaluation");
  }
  const std::vector<ValueType>& outputs() const { return outputs_; }
  // Why output i has no shape: an input that should be a list of integers is none.
  Status Undetermined(int i) const {
    if (no_list_ < 0) return Error("its inputs do not determine the shape of output " + std::to_string(i));
    return Error("input '" + node().input(no_list_)->name() + "' is a " + TypeToString(types_[no_list_]) +
                 "; integers in at most one dimension are needed");
  }

 private:
  mutable int no_list_ = -1;  // the last input that was asked for its elements and has no list of them
  EvalContext& eval_;
  std::vector<ValueType> types_, outputs_;
};

}  // namespace

Result<InferredOutputs> InferredOutputs::Make(EvalContext& context, Status (*infer)(InferContext&)) {
  const Result<const OpVersion*> version = FindOpVersion(context.node());  // none for a provider's own operators
  const int outputs = std::max(context.num_outputs(), version.ok() ? static_cast<int>((*version)->outputs.size()) : 0);
  ConcreteInferContext infer_context(context, static_cast<size_t>(outputs));
  QUERN_RETURN_IF_ERROR(infer(infer_context));
  InferredOutputs result;
  for (int i = 0; i < outputs; ++i) {
    const ValueType& type = infer_context.outputs()[i];
    Shape shape;
    if (type.has_static_shape()) {
      if (type.rank() > kMaxRank) return context.Error("output " + std::to_string(i) + " has too many dimensions");
      for (const Dim& d : *type.shape) {
        if (d.value() < 0) {
          return context.Error("output " + std::to_string(i) + " would have shape " + DimsToString(*type.shape));
        }
        shape.push_back(d.value());
      }
    } else if (context.HasOutput(i)) {
      return infer_context.Undetermined(i);
    }
    result.dtypes_.push_back(type.dtype);
    result.shapes_.push_back(shape);
  }
  return result;
}

Result<Tensor> InferredOutputs::Allocate(EvalContext& context, int i) const {
  if (context.HasOutput(i)) return context.AllocateOutput(i, dtypes_[i], shapes_[i]);
  return Tensor::Allocate(dtypes_[i], shapes_[i]);
}

}  // namespace quern
