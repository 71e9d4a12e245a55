// Transpose: permutes the dimensions; without `perm` it reverses them.
#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"
#include "ops/common/permutation.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (shape) {
    QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, ReadPermutation(c.node(), static_cast<int>(shape->size())));
    Dims out;
    for (int64_t p : perm) out.push_back((*shape)[p]);
    type.shape = std::move(out);
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(c, 0));
  const int rank = in.shape().rank();
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, ReadPermutation(c.node(), rank));
  const Shape dense = in.shape().ContiguousStrides();
  Shape out_shape, strides;
  for (int64_t p : perm) {
    out_shape.push_back(in.shape()[static_cast<int>(p)]);
    strides.push_back(dense[static_cast<int>(p)]);
  }
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, in.dtype(), out_shape));
  const int64_t last = rank > 0 ? out_shape.back() : 1;
  const int64_t rows = last > 0 ? out_shape.num_elements() / last : 0;
  QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
    const Shape outer(out_shape.span().first(rank > 0 ? rank - 1 : 0));
    IndexCounter at(outer);
    T* y = out.data<T>();
    const int64_t stride = rank > 0 ? strides.back() : 1;
    for (int64_t r = 0; r < rows; ++r, at.Next()) {
      int64_t offset = 0;
      for (int d = 0; d < outer.rank(); ++d) offset += at.index()[d] * strides[d];
      const T* x = in.data<T>() + offset;
      for (int64_t i = 0; i < last; ++i) *y++ = x[i * stride];
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {{"perm", AttrType::kInts}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kDataOfAnyType<kSince>, kOutputOfAnyType<kSince>, kAttributes, Infer, Evaluate};
constexpr OpVersion kVersions[] = {kVersion<1>, kVersion<13>, kVersion<21>, kVersion<23>, kVersion<24>, kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpTranspose = {"", "Transpose", kVersions};

}  // namespace quern
