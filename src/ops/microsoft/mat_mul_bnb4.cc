// com.microsoft.MatMulBnb4: A by the transpose of a weight in a 4-bit format of bitsandbytes.
#include <string>
#include <vector>

#include "ops/common/bnb4_weight.h"
#include "ops/common/float_io.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kA, kB, kAbsmax };

Status CheckCount(const InferContext& c, int i, int64_t wanted) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape) return OkStatus();
  const Dim count = Product(*shape);
  if (!count.is_constant() || count.value() == wanted) return OkStatus();
  return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) + "; " +
                 std::to_string(wanted) + " elements are needed");
}

Status Infer(InferContext& c) {
  // The product of gradients, by the weight as it is: onnxruntime's own CPU kernel gives other numbers than its
  // description.
  if (c.node().GetInt("transB", 1) != 1) {
    return Unsupported(c.node().Describe() + ": the product by a weight that is not transposed ('transB' = " +
                       std::to_string(c.node().GetInt("transB", 1)) + ") is not supported");
  }
  QUERN_ASSIGN_OR_RETURN(const Bnb4Weight w, ReadBnb4Weight(c.node()));
  std::optional<Dims> shape = c.input_shape(kA);
  if (shape) {
    if (shape->empty() || (shape->back().is_constant() && shape->back().value() != w.k)) {
      return c.Error("A has shape " + DimsToString(*shape) +
                     "; its last dimension must be 'K' = " + std::to_string(w.k));
    }
    shape->back() = w.n;
  }
  QUERN_RETURN_IF_ERROR(CheckCount(c, kB, w.bytes()));
  QUERN_RETURN_IF_ERROR(CheckCount(c, kAbsmax, w.blocks()));
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(kA), std::move(shape)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const Bnb4Weight w, ReadBnb4Weight(c.node()));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> a, ReadFloats<float>(c, kA));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> absmax, ReadFloats<float>(c, kAbsmax));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  std::vector<float> weight(static_cast<size_t>(w.elements()));
  DequantizeBnb4(w, c.input(kB).data<uint8_t>(), absmax.data(), weight.data());
  const int64_t rows = a.num_elements() / w.k;
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < w.n; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < w.k; ++k) sum += static_cast<double>(a[m * w.k + k]) * weight[n * w.k + k];
      y[m * w.n + n] = static_cast<float>(sum);
    }
  }
  y.Finish();
  return OkStatus();
}

constexpr TypeSet kATypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"A", "T1", kATypes}, {"B", "T2", TypeSet{DType::kU8}}, {"absmax", "T1", kATypes}};
constexpr Param kOutputs[] = {{"Y", "T1", kATypes}};
constexpr AttrSpec kAttributes[] = {{"K", AttrType::kInt, true},
                                    {"N", AttrType::kInt, true},
                                    {"block_size", AttrType::kInt, true},
                                    {"quant_type", AttrType::kInt, true},
                                    {"training_mode", AttrType::kInt, false, "0"},
                                    {"transB", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftMatMulBnb4 = {"com.microsoft", "MatMulBnb4", kVersions};

}  // namespace quern
