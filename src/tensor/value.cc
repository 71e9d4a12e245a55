#include "tensor/value.h"

namespace quern {

struct Value::SequenceBox {
  ValueSequence elements;
};
struct Value::OptionalBox {
  Value element;
};
struct Value::MapBox {
  ValueMap map;
};

Value::Value(Tensor t) : content_(std::move(t)) {}
Value::Value(StringTensor t) : content_(std::make_shared<StringTensor>(std::move(t))) {}
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Value Value::Sequence(ValueSequence elements) {
  Value v;
  v.content_ = std::make_shared<SequenceBox>(SequenceBox{std::move(elements)});
  return v;
}
Value Value::Map(ValueMap map) {
  Value v;
  v.content_ = std::make_shared<MapBox>(MapBox{std::move(map)});
  return v;
}
Value Value::Optional(Value element) {
  Value v;
  v.content_ = std::make_shared<OptionalBox>(OptionalBox{std::move(element)});
  return v;
}
bool Value::shares_container() const {
  switch (kind()) {
    case ValueKind::kSequence:
      return Get<std::shared_ptr<SequenceBox>>().use_count() > 1;
    case ValueKind::kOptional:
      return Get<std::shared_ptr<OptionalBox>>().use_count() > 1;
    case ValueKind::kMap:
      return Get<std::shared_ptr<MapBox>>().use_count() > 1;
    default:
      return false;
  }
}
const ValueSequence& Value::sequence() const { return Get<std::shared_ptr<SequenceBox>>()->elements; }
const ValueMap& Value::map() const { return Get<std::shared_ptr<MapBox>>()->map; }
const Value& Value::optional_element() const { return Get<std::shared_ptr<OptionalBox>>()->element; }

const char* ValueKindName(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNone:
      return "none";
    case ValueKind::kTensor:
      return "tensor";
    case ValueKind::kStringTensor:
      return "string tensor";
    case ValueKind::kSequence:
      return "sequence";
    case ValueKind::kOptional:
      return "optional";
    case ValueKind::kMap:
      return "map";
  }
  return "unknown";
}

}  // namespace quern

template class std::vector<quern::Value>;
