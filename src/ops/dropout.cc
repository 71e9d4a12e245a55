// Dropout: the input unchanged (inference), or (training) random elements set to 0 and the others scaled up.
#include <vector>

#include "base/round_to_odd.h"
#include "ops/common/any_types.h"
#include "ops/common/infer_common.h"
#include "ops/common/random.h"
#include "ops/common/scalar_input.h"
#include "ops/common/small_types.h"

namespace quern {
namespace {

constexpr int kBoolMaskSince = 10;  // before, the mask had the type of the data
constexpr int kInputsSince = 12;    // before, ratio and mode were attributes

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferSameAsInput(c, 0, 0));
  const bool old = c.node().opset() < kBoolMaskSince;
  c.SetOutputType(1, ValueType::Tensor(old ? c.input_dtype(0) : DType::kBool, c.input_shape(0)));
  return OkStatus();
}

// Whether elements are dropped, and how often.
struct Training {
  bool active = false;
  double ratio = 0;
};
Result<Training> ReadTraining(EvalContext& c) {
  const Node& node = c.node();
  Training t;
  if (node.opset() < kInputsSince) {
    t = {node.opset() < 7 && node.GetInt("is_test", 0) == 0, node.GetFloat("ratio", 0.5f)};
  } else if (c.HasInput(2)) {
    if (c.input(2).num_elements() != 1) return c.Error("training_mode must be one bool");
    t = {*c.input(2).data<bool>(), 0.5};
    if (t.active && c.HasInput(1) && IsSmallFloat(c.input(1).dtype()) && c.input(1).num_elements() == 1) {
      float ratio = 0;
      LoadSmallFloats(c.input(1), 0, 1, &ratio);
      t.ratio = static_cast<double>(ratio);
    } else if (t.active && c.HasInput(1)) {
      QUERN_ASSIGN_OR_RETURN(t.ratio, ReadFloatScalar(c, 1));
    }
  }
  if (t.active && !(t.ratio >= 0 && t.ratio < 1)) {
    return c.Error("the ratio is " + std::to_string(t.ratio) + "; 0 <= ratio < 1 is needed");
  }
  t.active = t.active && t.ratio > 0;
  return t;
}

// Output 1: whether each element is kept.
Status WriteMask(EvalContext& c, const std::vector<bool>& kept) {
  const bool old = c.node().opset() < kBoolMaskSince;
  const Shape shape = c.input(0).shape();
  QUERN_ASSIGN_OR_RETURN(const Tensor mask, c.AllocateOutput(1, old ? c.input(0).dtype() : DType::kBool, shape));
  return DispatchType(Types<bool, float, double, Float16>{}, mask.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < mask.num_elements(); ++i) {
      mask.data<T>()[i] = static_cast<T>(static_cast<ComputeType<T>>(kept.empty() || kept[i]));
    }
    return OkStatus();
  });
}

// y = x / (1 - ratio) where kept, else 0.
Status Drop(const Tensor& x, const std::vector<bool>& kept, double ratio, const Tensor& y) {
  const auto scaled = [&](int64_t i, double value) { return kept[i] ? value / (1.0 - ratio) : 0.0; };
  const int64_t n = x.num_elements();
  if (IsSmallFloat(x.dtype())) {
    std::vector<float> values(static_cast<size_t>(n));
    LoadSmallFloats(x, 0, n, values.data());
    for (int64_t i = 0; i < n; ++i) values[i] = RoundToOdd(scaled(i, static_cast<double>(values[i])));
    StoreSmallFloats(values.data(), 0, n, SmallFloatRules(), y);
    return OkStatus();
  }
  return DispatchFloat(x.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < n; ++i) {
      y.data<T>()[i] = FromDouble<T>(scaled(i, static_cast<double>(static_cast<ComputeType<T>>(x.data<T>()[i]))));
    }
    return OkStatus();
  });
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Training training, ReadTraining(c));
  std::vector<bool> kept;  // empty: all
  if (!training.active) {
    c.SetOutput(0, c.input_value(0));
  } else {
    const Tensor& x = c.input(0);
    QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, x.dtype(), x.shape()));
    RandomStream stream = RandomStream::ForNode(c.node());
    kept.resize(static_cast<size_t>(x.num_elements()));
    for (size_t i = 0; i < kept.size(); ++i) kept[i] = stream.Uniform() >= training.ratio;
    QUERN_RETURN_IF_ERROR(Drop(x, kept, training.ratio, y));
  }
  return c.HasOutput(1) ? WriteMask(c, kept) : OkStatus();
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

extern constinit const OpDefinition kOpDropout = {"", "Dropout", kVersions,
                                                  "Training: a seed names the stream of NumPy's RandomState.", false};

}  // namespace quern
