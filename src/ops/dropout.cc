// Dropout: the input unchanged (inference); training with a ratio above 0 is refused.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferSameAsInput(c, 0, 0));
  const bool old = c.node().opset() < 10;  // the mask had the type of the data
  c.SetOutputType(1, ValueType::Tensor(old ? c.input_dtype(0) : DType::kBool, c.input_shape(0)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  const Tensor& x = c.input(0);
  bool training = c.node().opset() < 7 && c.node().GetInt("is_test", 0) == 0;
  double ratio = c.node().GetFloat("ratio", 0.5f);
  if (c.HasInput(2)) training = c.input(2).num_elements() == 1 && *c.input(2).data<bool>();
  if (c.HasInput(1)) {
    QUERN_RETURN_IF_ERROR(DispatchFloat(c.input(1).dtype(), [&]<typename T>() {
      if (c.input(1).num_elements() == 1) ratio = static_cast<ComputeType<T>>(*c.input(1).data<T>());
      return OkStatus();
    }));
  }
  if (training && ratio != 0) {
    return Unsupported(c.node().Describe() +
                       ": dropout with a ratio above 0 is for training; export the model for inference");
  }
  c.SetOutput(0, c.input_value(0));
  if (!c.HasOutput(1)) return OkStatus();
  const DType mask_type = c.node().opset() < 10 ? x.dtype() : DType::kBool;
  QUERN_ASSIGN_OR_RETURN(const Tensor mask, c.AllocateOutput(1, mask_type, x.shape()));
  if (mask_type == DType::kBool) {
    std::fill_n(mask.data<bool>(), mask.num_elements(), true);
    return OkStatus();
  }
  return DispatchFloat(mask_type, [&]<typename T>() {
    std::fill_n(mask.data<T>(), mask.num_elements(), T(1));
    return OkStatus();
  });
}

constexpr TypeSet kTypes1 = {DType::kF32, DType::kF64, DType::kF16};
constexpr TypeSet kTypes22 = kFloatTypes | kFloat8Types;
constexpr AttrSpec kAttributes6[] = {{"is_test", AttrType::kInt, false, "0"},
                                     {"ratio", AttrType::kFloat, false, "0.5"}};
constexpr AttrSpec kAttributes7[] = {{"ratio", AttrType::kFloat, false, "0.5"}};
constexpr AttrSpec kAttributes12[] = {{"seed", AttrType::kInt}};
constexpr Param kInputs6[] = {{"data", "T", kTypes1}};
constexpr Param kOutputs6[] = {{"output", "T", kTypes1}, {"mask", "T", kTypes1, Arity::kOptional}};
constexpr Param kOutputs10[] = {{"output", "T", kTypes1}, {"mask", "T1", kBoolType, Arity::kOptional}};
constexpr Param kInputs12[] = {{"data", "T", kTypes1},
                               {"ratio", "T1", kTypes1, Arity::kOptional},
                               {"training_mode", "T2", kBoolType, Arity::kOptional}};
constexpr Param kOutputs12[] = {{"output", "T", kTypes1}, {"mask", "T2", kBoolType, Arity::kOptional}};
constexpr Param kInputs13[] = {{"data", "T", kFloatTypes},
                               {"ratio", "T1", kTypes1, Arity::kOptional},
                               {"training_mode", "T2", kBoolType, Arity::kOptional}};
constexpr Param kOutputs13[] = {{"output", "T", kFloatTypes}, {"mask", "T2", kBoolType, Arity::kOptional}};
constexpr Param kInputs22[] = {{"data", "T", kTypes22},
                               {"ratio", "T1", kTypes22, Arity::kOptional},
                               {"training_mode", "T2", kBoolType, Arity::kOptional}};
constexpr Param kOutputs22[] = {{"output", "T", kTypes22}, {"mask", "T2", kBoolType, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{1, kInputs6, kOutputs6, kAttributes6, Infer, Evaluate},
                                   {6, kInputs6, kOutputs6, kAttributes6, Infer, Evaluate},
                                   {7, kInputs6, kOutputs6, kAttributes7, Infer, Evaluate},
                                   {10, kInputs6, kOutputs10, kAttributes7, Infer, Evaluate},
                                   {12, kInputs12, kOutputs12, kAttributes12, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, kAttributes12, Infer, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes12, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpDropout = {"", "Dropout", kVersions};

}  // namespace quern
