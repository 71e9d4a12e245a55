#include "ops/common/trilu.h"

#include "ops/common/elements.h"
#include "ops/common/infer_common.h"

namespace quern {

Status InferTrilu(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  if (shape && shape->size() < 2)
    return c.Error("the input has shape " + DimsToString(*shape) + ", a matrix is needed");
  return InferSameAsInput(c, 0, 0);
}

Status EvaluateTrilu(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(c, 0));
  const Shape& shape = in.shape();
  if (shape.rank() < 2) return c.Error("the input has shape " + shape.ToString() + ", a matrix is needed");
  const bool upper = c.node().GetInt("upper", 1) != 0;
  int64_t k = 0;
  if (c.HasInput(1)) {
    QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> ks, ReadInts(c, 1));
    if (ks.size() != 1) return c.Error("k must be a scalar");
    k = ks[0];
  }
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, in.dtype(), shape));
  const int64_t rows = shape[shape.rank() - 2], columns = shape.back();
  const int64_t matrices = shape.num_elements(0, shape.rank() - 2);
  QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
    const T* x = in.data<T>();
    T* y = out.data<T>();
    for (int64_t m = 0; m < matrices; ++m) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j, ++x) *y++ = (upper ? j - i >= k : j - i <= k) ? *x : T{};
      }
    }
    return OkStatus();
  }));
  return out.Finish();
}

}  // namespace quern
