#include "tensor/copy_value.h"

#include <algorithm>

namespace quern {
namespace {

bool OwnsItsTensors(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kTensor:
      return value.tensor().owner() != nullptr;
    case ValueKind::kSequence:
      return std::ranges::all_of(value.sequence(), OwnsItsTensors);
    case ValueKind::kOptional:
      return OwnsItsTensors(value.optional_element());
    case ValueKind::kMap:
      return std::visit(
          [](const auto& entries) {
            return std::ranges::all_of(entries, [](const auto& entry) { return OwnsItsTensors(entry.second); });
          },
          value.map().entries);
    default:
      return true;
  }
}

}  // namespace

Result<Value> CopyValue(const Value& value, CopyOf which) {
  // A container is as many allocations as it has elements.
  if (which == CopyOf::kBorrowedTensors && OwnsItsTensors(value)) return value;
  switch (value.kind()) {
    case ValueKind::kTensor: {
      QUERN_ASSIGN_OR_RETURN(Tensor copy, value.tensor().Clone());
      return Value(std::move(copy));
    }
    case ValueKind::kSequence: {
      ValueSequence elements;
      elements.reserve(value.sequence().size());
      for (const Value& v : value.sequence()) {
        QUERN_ASSIGN_OR_RETURN(Value copy, CopyValue(v, which));
        elements.push_back(std::move(copy));
      }
      return Value::Sequence(std::move(elements));
    }
    case ValueKind::kOptional: {
      QUERN_ASSIGN_OR_RETURN(Value copy, CopyValue(value.optional_element(), which));
      return Value::Optional(std::move(copy));
    }
    case ValueKind::kMap: {
      ValueMap map = value.map();
      auto copy_all = [&](auto& entries) -> Status {
        for (auto& [key, v] : entries) {
          QUERN_ASSIGN_OR_RETURN(v, CopyValue(v, which));
        }
        return OkStatus();
      };
      QUERN_RETURN_IF_ERROR(std::visit(copy_all, map.entries));
      return Value::Map(std::move(map));
    }
    default:
      return value;
  }
}

}  // namespace quern
