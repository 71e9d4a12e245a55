#include "provider/cpu/common/constants.h"

namespace quern::cpu {

const Tensor* ConstantTensor(const GraphValue* value) {
  return value && value->is_constant() && value->constant()->is_tensor() ? &value->constant()->tensor() : nullptr;
}

}  // namespace quern::cpu
