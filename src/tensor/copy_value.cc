#include "tensor/copy_value.h"

#include <algorithm>

namespace quern {
namespace {

// Whether `test` holds for the value and all that it contains.
template <typename Test>
bool AllWithin(const Value& value, Test test) {
  if (!test(value)) return false;
  const auto within = [&](const Value& v) { return AllWithin(v, test); };
  switch (value.kind()) {
    case ValueKind::kSequence:
      return std::ranges::all_of(value.sequence(), within);
    case ValueKind::kOptional:
      return within(value.optional_element());
    case ValueKind::kMap:
      return std::visit(
          [&](const auto& entries) {
            return std::ranges::all_of(entries, [&](const auto& entry) { return within(entry.second); });
          },
          value.map().entries);
    default:
      return true;
  }
}

bool OwnsItsTensors(const Value& value) {
  return AllWithin(value, [](const Value& v) { return !v.is_tensor() || v.tensor().owner() != nullptr; });
}

}  // namespace

bool OwnsAlone(const Value& value) {
  // Tensors that share an owner follow each other, as the values of a map over a row do.
  const std::shared_ptr<const void>* owner = nullptr;
  long others = 0;  // that hold it, as far as is seen
  const auto alone = [&](const Value& v) {
    if (!v.is_tensor()) return !v.shares_container();
    const std::shared_ptr<const void>& its = v.tensor().owner();
    if (owner && its == *owner) return --others >= 0;
    if (others != 0) return false;
    owner = &its;
    others = its.use_count() - 1;
    return others >= 0;
  };
  return AllWithin(value, alone) && others == 0;
}

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
