#include "format/onnx/field_reader.h"

#include <bit>

#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

namespace quern::onnx {

static_assert(std::endian::native == std::endian::little, "ONNX stores little endian; big-endian hosts need swaps");

std::string Quoted(std::string_view text) {
  constexpr size_t kLongest = 100;
  std::string out = "'";
  for (char c : text.substr(0, kLongest)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() > kLongest) out += "...";
  return out + "'";
}

void FieldReader::Fail(std::string what, StatusCode code) {
  if (!status_.ok()) return;
  if (field_ > 0) what = "field " + std::to_string(field_) + ": " + what;
  status_ = Status(code, what + " at byte " + std::to_string(start_ - base_));
}

bool FieldReader::DecodeVarint(const char** p, const char* end, uint64_t* value) {
  try {
    *value = protozero::decode_varint(p, end);
    return true;
  } catch (const protozero::end_of_buffer_exception&) {
    Fail("truncated");
  } catch (const protozero::exception&) {
    Fail("a number of more than 10 bytes");
  }
  return false;
}

bool FieldReader::Next() {
  if (!status_.ok() || reader_.length() == 0) return false;
  field_ = 0;
  start_ = reader_.data().data();
  const char* p = start_;
  uint64_t key = 0;
  if (!DecodeVarint(&p, start_ + reader_.length(), &key)) return false;
  if (key > UINT32_MAX) {  // protozero would cut it to 32 bits
    Fail("invalid field number");
    return false;
  }
  try {
    reader_.next();
  } catch (const protozero::unknown_pbf_wire_type_exception&) {
    Fail("unknown wire type " + std::to_string(key & 7));
    return false;
  } catch (const protozero::exception&) {
    Fail("invalid field number");
    return false;
  }
  field_ = static_cast<int>(reader_.tag());
  wire_type_ = reader_.wire_type();
  return true;
}

bool FieldReader::Expect(protozero::pbf_wire_type type) {
  if (!status_.ok()) return false;
  if (wire_type_ == type) return true;
  Fail("has wire type " + std::to_string(static_cast<int>(wire_type_)) + ", expected " +
       std::to_string(static_cast<int>(type)));
  return false;
}

int64_t FieldReader::Int64() {
  if (!Expect(protozero::pbf_wire_type::varint)) return 0;
  try {
    return reader_.get_int64();
  } catch (const protozero::exception&) {
    Fail("truncated");
  }
  return 0;
}

template <typename T>
T FieldReader::FixedScalar() {
  constexpr bool kIsFloat = std::is_same_v<T, float>;
  if (!Expect(kIsFloat ? protozero::pbf_wire_type::fixed32 : protozero::pbf_wire_type::fixed64)) return 0;
  try {
    if constexpr (kIsFloat) {
      return reader_.get_float();
    } else {
      return reader_.get_double();
    }
  } catch (const protozero::exception&) {
    Fail("truncated");
  }
  return 0;
}
template float FieldReader::FixedScalar<float>();
template double FieldReader::FixedScalar<double>();

float FieldReader::Float() { return FixedScalar<float>(); }

std::string_view FieldReader::Bytes() {
  if (!Expect(protozero::pbf_wire_type::length_delimited)) return {};
  const char* p = reader_.data().data();
  const char* end = p + reader_.length();
  uint64_t length = 0;
  if (!DecodeVarint(&p, end, &length)) return {};
  const uint64_t rest = static_cast<uint64_t>(end - p);
  if (length > rest) {
    Fail("claims " + std::to_string(length) + " bytes where " + std::to_string(rest) + " are left: truncated");
    return {};
  }
  if (length > UINT32_MAX) {
    Fail("has " + std::to_string(length) +
             " bytes; fields of 4 GB or more are not read, save the weights as external data instead",
         StatusCode::kResourceExhausted);
    return {};
  }
  try {
    const protozero::data_view view = reader_.get_view();
    return {view.data(), view.size()};
  } catch (const protozero::exception&) {
    Fail("truncated");
  }
  return {};
}

void FieldReader::Skip() {
  if (is_length_delimited()) {
    Bytes();  // not protozero's skip(), which cuts the length to 32 bits
    return;
  }
  if (!status_.ok()) return;
  try {
    reader_.skip();
  } catch (const protozero::exception&) {
    Fail("truncated");
  }
}

}  // namespace quern::onnx
