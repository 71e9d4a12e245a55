// FieldReader: walks one protobuf message with protozero, with 64-bit lengths checked and errors instead of exceptions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include <protozero/pbf_reader.hpp>

#include "base/status.h"

namespace quern::onnx {

// `text` in quotes for a message: control characters replaced, cut after 100 bytes, since names come from files.
std::string Quoted(std::string_view text);

// Usage:
//   FieldReader r(message, base);
//   while (r.Next()) switch (r.field()) { case 1: x = r.Int64(); break; default: r.Skip(); }
//   QUERN_RETURN_IF_ERROR(r.status());
// After an error, readers return zeroes and Next() returns false. Errors are kCorrupt (kResourceExhausted for a field
// of 4 GB or more, which protozero's 32-bit lengths would truncate) and name the byte, counted from `base`.
class FieldReader {
 public:
  FieldReader(std::string_view message, const char* base) : reader_(message.data(), message.size()), base_(base) {}

  bool Next();
  int field() const { return field_; }
  bool is_length_delimited() const { return wire_type_ == protozero::pbf_wire_type::length_delimited; }

  // The value of the current field; call exactly one of these per Next().
  int64_t Int64();  // int32, int64, uint64 and enum
  float Float();
  std::string_view Bytes();  // strings, bytes and messages; views the message
  void Skip();

  // Calls visit(uint64_t) for the values of a repeated varint field, packed or not.
  template <typename Visit>
  void Varints(Visit visit) {
    if (!is_length_delimited()) {
      const uint64_t value = static_cast<uint64_t>(Int64());
      if (status_.ok()) visit(value);
      return;
    }
    const std::string_view packed = Bytes();
    const char* p = packed.data();
    const char* end = p + packed.size();
    uint64_t value = 0;
    while (p != end && DecodeVarint(&p, end, &value)) visit(value);
  }

  // Calls visit(T) for the values of a repeated float or double field, packed or not.
  template <typename T, typename Visit>
  void Fixed(Visit visit) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
    if (!is_length_delimited()) {
      const T value = FixedScalar<T>();
      if (status_.ok()) visit(value);
      return;
    }
    const std::string_view packed = Bytes();
    if (packed.size() % sizeof(T) != 0) {
      Fail("packed length " + std::to_string(packed.size()) + " is not a multiple of " + std::to_string(sizeof(T)));
      return;
    }
    for (size_t i = 0; i < packed.size(); i += sizeof(T)) {
      T value;
      std::memcpy(&value, packed.data() + i, sizeof(T));
      visit(value);
    }
  }

  const Status& status() const { return status_; }

 private:
  template <typename T>
  T FixedScalar();
  bool DecodeVarint(const char** p, const char* end, uint64_t* value);
  bool Expect(protozero::pbf_wire_type type);
  void Fail(std::string what, StatusCode code = StatusCode::kCorrupt);

  protozero::pbf_reader reader_;
  const char* base_;
  const char* start_ = nullptr;  // of the current field
  int field_ = 0;
  protozero::pbf_wire_type wire_type_ = protozero::pbf_wire_type::unknown;
  Status status_;
};

}  // namespace quern::onnx
