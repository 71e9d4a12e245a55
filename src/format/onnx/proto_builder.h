// Builds serialized ONNX messages for tests, field by field; independent of the reader's own code.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protozero/pbf_writer.hpp>

namespace quern::onnx_test {

// One message under construction: Message().Text(3, "name").Number(20, 7)...
class Message {
 public:
  Message& Text(int field, std::string_view text) {
    Writer().add_bytes(static_cast<protozero::pbf_tag_type>(field), text.data(), text.size());
    return *this;
  }
  Message& Number(int field, int64_t value) {
    Writer().add_int64(static_cast<protozero::pbf_tag_type>(field), value);
    return *this;
  }
  Message& Float(int field, float value) {
    Writer().add_float(static_cast<protozero::pbf_tag_type>(field), value);
    return *this;
  }
  Message& Double(int field, double value) {
    Writer().add_double(static_cast<protozero::pbf_tag_type>(field), value);
    return *this;
  }
  Message& Sub(int field, const Message& message) { return Text(field, message.bytes_); }
  Message& PackedNumbers(int field, const std::vector<int64_t>& values) {
    Writer().add_packed_int64(static_cast<protozero::pbf_tag_type>(field), values.begin(), values.end());
    return *this;
  }
  Message& PackedFloats(int field, const std::vector<float>& values) {
    Writer().add_packed_float(static_cast<protozero::pbf_tag_type>(field), values.begin(), values.end());
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  protozero::pbf_writer Writer() { return protozero::pbf_writer(bytes_); }
  std::string bytes_;
};

// TensorProto with dims, a data type and raw_data.
inline Message RawTensor(std::string_view name, int type, std::initializer_list<int64_t> dims, std::string_view raw) {
  Message m;
  for (int64_t d : dims) m.Number(1, d);
  return m.Number(2, type).Text(8, name).Text(9, raw);
}
template <typename T>
std::string Raw(std::initializer_list<T> values) {
  std::string raw(values.size() * sizeof(T), '\0');
  if (values.size() != 0) std::memcpy(raw.data(), values.begin(), raw.size());
  return raw;
}
inline Message FloatTensor(std::string_view name, std::initializer_list<int64_t> dims,
                           std::initializer_list<float> values) {
  return RawTensor(name, 1, dims, Raw<float>(values));
}
// TypeProto of a tensor; dims as text: a number, "" for neither value nor name, else a name.
inline Message TensorType(int type, std::initializer_list<std::string_view> dims) {
  Message shape;
  for (std::string_view d : dims) {
    Message dim;
    if (!d.empty() && (d[0] == '-' || (d[0] >= '0' && d[0] <= '9'))) {
      dim.Number(1, std::stoll(std::string(d)));
    } else if (!d.empty()) {
      dim.Text(2, d);
    }
    shape.Sub(1, dim);
  }
  return Message().Sub(1, Message().Number(1, type).Sub(2, shape));
}
inline Message ValueInfo(std::string_view name, const Message& type) { return Message().Text(1, name).Sub(2, type); }
inline Message FloatInfo(std::string_view name, std::initializer_list<std::string_view> dims) {
  return ValueInfo(name, TensorType(1, dims));
}
inline Message Attr(std::string_view name, int type) { return Message().Text(1, name).Number(20, type); }
inline Message NodeOf(std::string_view op, std::initializer_list<std::string_view> inputs,
                      std::initializer_list<std::string_view> outputs, std::string_view name = "",
                      std::string_view domain = "") {
  Message m;
  for (std::string_view i : inputs) m.Text(1, i);
  for (std::string_view o : outputs) m.Text(2, o);
  if (!name.empty()) m.Text(3, name);
  m.Text(4, op);
  if (!domain.empty()) m.Text(7, domain);
  return m;
}
// GraphProto from its parts.
struct GraphParts {
  std::vector<Message> nodes = {}, initializers = {}, inputs = {}, outputs = {}, value_info = {};
};
inline Message GraphOf(const GraphParts& parts) {
  Message m;
  for (const Message& n : parts.nodes) m.Sub(1, n);
  m.Text(2, "g");
  for (const Message& t : parts.initializers) m.Sub(5, t);
  for (const Message& v : parts.inputs) m.Sub(11, v);
  for (const Message& v : parts.outputs) m.Sub(12, v);
  for (const Message& v : parts.value_info) m.Sub(13, v);
  return m;
}
inline Message Import(std::string_view domain, int64_t version) { return Message().Text(1, domain).Number(2, version); }
inline Message ModelOf(const Message& graph, int64_t opset = 17, int64_t ir_version = 8) {
  return Message().Number(1, ir_version).Sub(8, Import("", opset)).Sub(7, graph);
}
// FunctionProto of the domain "local" from its parts.
struct FunctionParts {
  std::string name;
  std::vector<std::string> inputs = {}, outputs = {}, attributes = {};
  std::vector<Message> nodes = {}, defaults = {}, value_info = {};
  std::string overload = {};
  std::vector<Message> imports = {Import("", 17)};
};
inline Message FunctionOf(const FunctionParts& parts) {
  Message m;
  m.Text(1, parts.name);
  for (const std::string& s : parts.inputs) m.Text(4, s);
  for (const std::string& s : parts.outputs) m.Text(5, s);
  for (const std::string& s : parts.attributes) m.Text(6, s);
  for (const Message& n : parts.nodes) m.Sub(7, n);
  for (const Message& i : parts.imports) m.Sub(9, i);
  m.Text(10, "local");
  for (const Message& a : parts.defaults) m.Sub(11, a);
  for (const Message& v : parts.value_info) m.Sub(12, v);
  if (!parts.overload.empty()) m.Text(13, parts.overload);
  return m;
}
// An attribute of a body's node that refers to one of the function.
inline Message Ref(std::string_view name, int type, std::string_view of) { return Attr(name, type).Text(21, of); }
inline std::span<const std::byte> AsBytes(const std::string& s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

// The bytes with one to three bits flipped; in an allocation of its own, so that a sanitizer sees a read beyond.
inline std::string Damaged(std::string bytes, std::mt19937& random) {
  for (uint32_t flips = 1 + random() % 3; flips > 0; --flips) {
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
  }
  return bytes;
}

}  // namespace quern::onnx_test
