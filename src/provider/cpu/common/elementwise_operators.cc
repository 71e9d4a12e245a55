#include "provider/cpu/common/elementwise_operators.h"

#include "ops/common/dispatch.h"

namespace quern::cpu {

std::optional<UnaryKind> FindSmallPower(const Node& node) {
  const GraphValue *base = node.input(0), *exponent = node.input(1);
  if (!IsFloatType(base->type().dtype)) return std::nullopt;
  if (!exponent->is_constant() || exponent->constant()->tensor().num_elements() != 1) return std::nullopt;
  const Tensor& t = exponent->constant()->tensor();
  double e = 0;
  static_cast<void>(DispatchNumeric(t.dtype(), [&]<typename T>() {
    e = static_cast<double>(static_cast<ComputeType<T>>(*t.data<T>()));
    return OkStatus();
  }));
  if (e == 1) return UnaryKind::kCopy;
  if (e == 2) return UnaryKind::kSquare;
  if (e == 3) return UnaryKind::kCube;
  return std::nullopt;
}

}  // namespace quern::cpu
