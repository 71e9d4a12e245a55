// Value: whatever an ONNX edge may carry: tensor, string tensor, sequence, optional, map.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace quern {

struct StringTensor {
  Shape shape;
  std::vector<std::string> values;  // row-major
};

enum class ValueKind : uint8_t { kNone = 0, kTensor = 1, kStringTensor = 2, kSequence = 3, kOptional = 4, kMap = 5 };

class Value;
using ValueSequence = std::vector<Value>;
// ONNX maps: integer or string keys to a value (all of one kind).
struct ValueMap {
  std::variant<std::map<int64_t, Value>, std::map<std::string, Value>> entries;
};

// Copies share the content; content is never changed once shared.
class Value {
 public:
  Value() = default;      // kNone: an omitted optional input or output
  Value(Tensor t);        // NOLINT: implicit by design
  Value(StringTensor t);  // NOLINT
  // Not inline: they are in many functions, and large.
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();
  static Value Sequence(ValueSequence elements);
  static Value Map(ValueMap map);
  // An optional with an element, or (kNone) without.
  static Value Optional(Value element);

  ValueKind kind() const { return static_cast<ValueKind>(content_.index()); }
  bool has_value() const { return kind() != ValueKind::kNone; }
  bool is_tensor() const { return kind() == ValueKind::kTensor; }
  // Whether another Value shares the container.
  bool shares_container() const;
  // Each accessor requires its kind (checked).
  const Tensor& tensor() const { return Get<Tensor>(); }
  const StringTensor& strings() const { return *Get<std::shared_ptr<StringTensor>>(); }
  const ValueSequence& sequence() const;
  const ValueMap& map() const;
  // The element of an optional; kNone when it holds none.
  const Value& optional_element() const;

 private:
  struct OptionalBox;
  struct SequenceBox;
  struct MapBox;
  template <typename T>
  const T& Get() const {
    const T* p = std::get_if<T>(&content_);
    QUERN_CHECK(p != nullptr, "value is of another kind");
    return *p;
  }
  std::variant<std::monostate, Tensor, std::shared_ptr<StringTensor>, std::shared_ptr<SequenceBox>,
               std::shared_ptr<OptionalBox>, std::shared_ptr<MapBox>>
      content_;
};

const char* ValueKindName(ValueKind kind);

}  // namespace quern

extern template class std::vector<quern::Value>;
