#include "ops/common/matmul.h"

#include <string>

#include "ops/common/infer_common.h"

namespace quern {

Result<Dims> MatMulDims(const Node& node, const Dims& a, const Dims& b) {
  const auto fails = [&](const std::string& why) {
    return InvalidArgument(node.Describe() + ": shapes " + DimsToString(a) + " and " + DimsToString(b) + " " + why);
  };
  if (a.empty() || b.empty()) return fails("do not multiply: a scalar is no matrix");
  const Dim& inner_a = a.back();
  const Dim& inner_b = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (inner_a.is_constant() && inner_b.is_constant() && inner_a.value() != inner_b.value()) {
    return fails("do not multiply: " + inner_a.ToString() + " columns against " + inner_b.ToString() + " rows");
  }
  const Dims batch_a(a.begin(), a.end() - std::min<size_t>(2, a.size()));
  const Dims batch_b(b.begin(), b.end() - std::min<size_t>(2, b.size()));
  QUERN_ASSIGN_OR_RETURN(Dims result, BroadcastDims(node, batch_a, batch_b));
  if (a.size() > 1) result.push_back(a[a.size() - 2]);
  if (b.size() > 1) result.push_back(b.back());
  return result;
}

Status InferMatMul(InferContext& c, int a, int b, DType dtype) {
  const std::optional<Dims> left = c.input_shape(a), right = c.input_shape(b);
  ValueType type = ValueType::Tensor(dtype);
  if (left && right) {
    QUERN_ASSIGN_OR_RETURN(type.shape, MatMulDims(c.node(), *left, *right));
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

MatMulLoops MakeMatMulLoops(const Shape& a, const Shape& b) {
  MatMulLoops loops{a.rank() == 1 ? 1 : a[a.rank() - 2], b.rank() == 1 ? 1 : b.back(), a.back(), {}, {}};
  const auto batch_of = [](const Shape& s) { return Shape(s.span().first(std::max(0, s.rank() - 2))); };
  const Shape batch_a = batch_of(a), batch_b = batch_of(b);
  const Shape batch = *BroadcastShapes(batch_a, batch_b);
  const Shape stride_a = BroadcastStrides(batch_a, batch_a.ContiguousStrides(), batch);
  const Shape stride_b = BroadcastStrides(batch_b, batch_b.ContiguousStrides(), batch);
  // A batch may be of any size when its matrices are empty: nothing is to be done then.
  const int64_t count = loops.m == 0 || loops.n == 0 ? 0 : batch.num_elements(), size_a = loops.m * loops.k,
                size_b = loops.k * loops.n;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at_a = 0, at_b = 0;
    for (int d = batch.rank() - 1; d >= 0; --d) {
      at_a += rest % batch[d] * stride_a[d];
      at_b += rest % batch[d] * stride_b[d];
      rest /= batch[d];
    }
    loops.a_offset.push_back(at_a * size_a);
    loops.b_offset.push_back(at_b * size_b);
  }
  return loops;
}

}  // namespace quern
