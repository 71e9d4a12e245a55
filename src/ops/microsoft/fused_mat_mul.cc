// com.microsoft.FusedMatMul: alpha * A * B, the matrices of A and B optionally transposed.
#include <utility>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/matmul.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

// A shape with its last two dimensions swapped; vectors stay as they are.
template <typename S>
S Swapped(S shape, int rank, bool swap) {
  if (swap && rank > 1) std::swap(shape[rank - 1], shape[rank - 2]);
  return shape;
}
bool Transposes(const Node& node, const char* name) { return node.GetInt(name, 0) != 0; }

Status Infer(InferContext& c) {
  for (const char* name : {"transBatchA", "transBatchB"}) {
    if (Transposes(c.node(), name)) {
      return Unsupported(c.node().Describe() + ": attribute '" + name + "' = 1 is not supported");
    }
  }
  const std::optional<Dims> a = c.input_shape(0), b = c.input_shape(1);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (a && b) {
    QUERN_ASSIGN_OR_RETURN(
        type.shape, MatMulDims(c.node(), Swapped(*a, static_cast<int>(a->size()), Transposes(c.node(), "transA")),
                               Swapped(*b, static_cast<int>(b->size()), Transposes(c.node(), "transB"))));
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape &as = c.input(0).shape(), &bs = c.input(1).shape();
  const bool trans_a = Transposes(c.node(), "transA") && as.rank() > 1;
  const bool trans_b = Transposes(c.node(), "transB") && bs.rank() > 1;
  const MatMulLoops loops = MakeMatMulLoops(Swapped(as, as.rank(), trans_a), Swapped(bs, bs.rank(), trans_b));
  const double alpha = c.node().GetFloat("alpha", 1.0f);
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> a, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> b, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    std::vector<double> row(static_cast<size_t>(loops.n));
    T* out = y.data();
    for (size_t i = 0; i < loops.a_offset.size(); ++i) {
      for (int64_t m = 0; m < loops.m; ++m, out += loops.n) {
        MultiplyRow<T, T, double>(loops.n, loops.k, a.data() + loops.a_offset[i] + m * (trans_a ? 1 : loops.k),
                                  trans_a ? loops.m : 1, b.data() + loops.b_offset[i], trans_b ? 1 : loops.n,
                                  trans_b ? loops.k : 1, row.data());
        for (int64_t j = 0; j < loops.n; ++j) out[j] = static_cast<T>(alpha * row[j]);
      }
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs[] = {{"A", "T", kFloatTypes}, {"B", "T", kFloatTypes}};
constexpr Param kOutputs[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "1"},
                                    {"transA", AttrType::kInt, false, "0"},
                                    {"transB", AttrType::kInt, false, "0"},
                                    {"transBatchA", AttrType::kInt, false, "0"},
                                    {"transBatchB", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftFusedMatMul = {"com.microsoft", "FusedMatMul", kVersions};

}  // namespace quern
