// BitShift: X moved by Y bits to the left or right. A right shift of a negative number fills with its sign; an amount
// outside [0, bits) leaves nothing but that fill.
#include <limits>
#include <type_traits>

#include "ops/common/bitwise.h"

namespace quern {
namespace {

template <typename T>
using Bits = std::make_unsigned_t<T>;

template <typename T>
bool IsInRange(T amount) {
  return static_cast<Bits<T>>(amount) < std::numeric_limits<Bits<T>>::digits;  // a negative one becomes a large one
}

struct ShiftedLeft {
  template <typename T>
  T operator()(T x, T amount) const {
    if (!IsInRange(amount)) return T{0};
    return static_cast<T>(static_cast<uint64_t>(static_cast<Bits<T>>(x)) << static_cast<int>(amount));
  }
};

struct ShiftedRight {
  template <typename T>
  T operator()(T x, T amount) const {
    if (IsInRange(amount)) return static_cast<T>(x >> static_cast<int>(amount));
    if constexpr (std::is_signed_v<T>) return static_cast<T>(x < 0 ? -1 : 0);
    return T{0};
  }
};

Result<bool> IsLeft(const Node& node) {
  const std::string direction = node.GetString("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return InvalidArgument(node.Describe() + ": direction '" + direction + "' is neither LEFT nor RIGHT");
  }
  return direction == "LEFT";
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(IsLeft(c.node()).status());
  return InferBroadcast(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const bool left, IsLeft(c.node()));
  return left ? EvaluateBitwise<ShiftedLeft>(c) : EvaluateBitwise<ShiftedRight>(c);
}

constexpr AttrSpec kAttributes[] = {{"direction", AttrType::kString, true}};
constexpr Param kInputs11[] = {{"X", "T", kUnsignedIntTypes}, {"Y", "T", kUnsignedIntTypes}};
constexpr Param kOutputs11[] = {{"Z", "T", kUnsignedIntTypes}};
constexpr Param kInputs28[] = {{"X", "T", kIntegerTypes}, {"Y", "T", kIntegerTypes}};
constexpr Param kOutputs28[] = {{"Z", "T", kIntegerTypes}};
constexpr OpVersion kVersions[] = {{11, kInputs11, kOutputs11, kAttributes, Infer, Evaluate},
                                   {28, kInputs28, kOutputs28, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpBitShift = {"", "BitShift", kVersions};

}  // namespace quern
