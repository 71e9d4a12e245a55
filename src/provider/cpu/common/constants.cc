#include "provider/cpu/common/constants.h"

namespace quern::cpu {

const Tensor* ConstantTensor(const GraphValue* value) {
  return value && value->is_constant() && value->constant()->is_tensor() ? &value->constant()->tensor() : nullptr;
}

bool IsRow(const Dims& shape, const Dims& y) {
  return !shape.empty() && shape.size() <= y.size() && shape.back() == y.back() && Product(shape) == y.back();
}

bool IsConstantRow(const GraphValue& value, const Dims& y) {
  return ConstantTensor(&value) && value.type().shape && IsRow(*value.type().shape, y);
}

}  // namespace quern::cpu
