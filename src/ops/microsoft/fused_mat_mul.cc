// com.microsoft.FusedMatMul: alpha * A * B, the matrices of A and B optionally transposed, or their first dimension
// taken for that of the rows.
#include <algorithm>
#include <utility>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/matmul.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

bool Transposes(const Node& node, const char* name) { return node.GetInt(name, 0) != 0; }

// The shape of an operand as the product sees it: with its first dimension behind the batch, if `batch` is asked for
// and there is a batch, then its last two swapped; vectors stay as they are.
template <typename S>
S Arranged(S shape, int rank, bool batch, bool swap) {
  if (batch && rank > 2) std::rotate(shape.begin(), shape.begin() + 1, shape.begin() + rank - 1);
  if (swap && rank > 1) std::swap(shape[rank - 1], shape[rank - 2]);
  return shape;
}
// The elements of an operand with its first dimension behind the batch: [first, batch, last] becomes [batch, first,
// last].
template <typename T>
std::vector<T> WithBatchFirst(const FloatInput<T>& x) {
  const Shape& shape = x.shape();
  const int64_t first = shape[0], last = shape.back(), batch = shape.num_elements(1, shape.rank() - 1);
  std::vector<T> moved;
  if (x.num_elements() == 0) return moved;
  moved.reserve(static_cast<size_t>(x.num_elements()));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t f = 0; f < first; ++f) {
      const T* row = x.data() + (f * batch + b) * last;
      moved.insert(moved.end(), row, row + last);
    }
  }
  return moved;
}

Status Infer(InferContext& c) {
  const Node& node = c.node();
  const std::optional<Dims> a = c.input_shape(0), b = c.input_shape(1);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (a && b) {
    QUERN_ASSIGN_OR_RETURN(
        type.shape,
        MatMulDims(
            node,
            Arranged(*a, static_cast<int>(a->size()), Transposes(node, "transBatchA"), Transposes(node, "transA")),
            Arranged(*b, static_cast<int>(b->size()), Transposes(node, "transBatchB"), Transposes(node, "transB"))));
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape &as = c.input(0).shape(), &bs = c.input(1).shape();
  const bool trans_a = Transposes(c.node(), "transA") && as.rank() > 1;
  const bool trans_b = Transposes(c.node(), "transB") && bs.rank() > 1;
  const bool batch_a = Transposes(c.node(), "transBatchA"), batch_b = Transposes(c.node(), "transBatchB");
  const MatMulLoops loops =
      MakeMatMulLoops(Arranged(as, as.rank(), batch_a, trans_a), Arranged(bs, bs.rank(), batch_b, trans_b));
  const double alpha = c.node().GetFloat("alpha", 1.0f);
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> a, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> b, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    std::vector<T> moved_a, moved_b;
    if (batch_a && as.rank() > 2) moved_a = WithBatchFirst(a);
    if (batch_b && bs.rank() > 2) moved_b = WithBatchFirst(b);
    const T *left = moved_a.empty() ? a.data() : moved_a.data(), *right = moved_b.empty() ? b.data() : moved_b.data();
    std::vector<double> row(static_cast<size_t>(loops.n));
    T* out = y.data();
    for (size_t i = 0; i < loops.a_offset.size(); ++i) {
      for (int64_t m = 0; m < loops.m; ++m, out += loops.n) {
        MultiplyRow<T, T, double>(loops.n, loops.k, left + loops.a_offset[i] + m * (trans_a ? 1 : loops.k),
                                  trans_a ? loops.m : 1, right + loops.b_offset[i], trans_b ? 1 : loops.n,
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
