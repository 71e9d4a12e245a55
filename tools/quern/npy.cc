#include "npy.h"

#include <cstdlib>
#include <cstring>

#include "command.h"

namespace quern_tool {
namespace {

struct NpyType {
  std::int32_t dtype;
  const char* descr;
};
constexpr NpyType kTypes[] = {{QUERN_F32, "<f4"}, {QUERN_F64, "<f8"},  {QUERN_F16, "<f2"}, {QUERN_I8, "|i1"},
                              {QUERN_U8, "|u1"},  {QUERN_I16, "<i2"},  {QUERN_U16, "<u2"}, {QUERN_I32, "<i4"},
                              {QUERN_U32, "<u4"}, {QUERN_I64, "<i8"},  {QUERN_U64, "<u8"}, {QUERN_BOOL, "|b1"},
                              {QUERN_C64, "<c8"}, {QUERN_C128, "<c16"}};

// How a type is stored, null where it cannot be. NumPy has no bf16: its 16 bits are.
const char* DescrOf(std::int32_t dtype) {
  if (dtype == QUERN_BF16) return "<u2";
  for (const NpyType& t : kTypes) {
    if (t.dtype == dtype) return t.descr;
  }
  return nullptr;
}

// The text of the header's dictionary behind 'key':.
std::string HeaderField(const std::string& header, const std::string& key, const std::string& path) {
  std::size_t at = header.find("'" + key + "'");
  if (at == std::string::npos) throw Failure(path + ": the npy header has no '" + key + "'");
  at = header.find(':', at);
  if (at == std::string::npos) throw Failure(path + ": broken npy header");
  at = header.find_first_not_of(' ', at + 1);
  if (at == std::string::npos) throw Failure(path + ": broken npy header");
  const char open = header[at];
  const std::size_t end = open == '('    ? header.find(')', at)
                          : open == '\'' ? header.find('\'', at + 1)
                                         : header.find_first_of(",}", at);
  if (end == std::string::npos) throw Failure(path + ": broken npy header");
  return open == '(' || open == '\'' ? header.substr(at + 1, end - at - 1) : header.substr(at, end - at);
}

std::string Utf8(const char* data, std::size_t characters) {
  std::string text;
  for (std::size_t i = 0; i < characters; ++i) {
    std::uint32_t c;
    std::memcpy(&c, data + 4 * i, 4);
    if (c == 0) break;
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
    } else if (c < 0x10000) {
      text += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
               static_cast<char>(0x80 | (c & 0x3F))};
    } else {
      text += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)),
               static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
    }
  }
  return text;
}

std::vector<std::uint32_t> CodePoints(const std::string& text) {
  std::vector<std::uint32_t> points;
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
    std::uint32_t point = more == 0 ? c : c & (0x3F >> more);
    for (int k = 1; k <= more && i + static_cast<std::size_t>(k) < text.size(); ++k) {
      point = point << 6 | (static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]) & 0x3F);
    }
    points.push_back(point);
    i += static_cast<std::size_t>(more) + 1;
  }
  return points;
}

}  // namespace

quern::Value ReadNpy(const std::string& path) {
  const std::string file = ReadFile(path);
  if (file.size() < 12 || file.compare(0, 6, "\x93NUMPY") != 0) throw Failure(path + ": not an npy file");
  const int version = file[6];
  std::size_t header_bytes = 0, start = 0;
  if (version == 1) {
    header_bytes = static_cast<unsigned char>(file[8]) | static_cast<std::size_t>(static_cast<unsigned char>(file[9]))
                                                             << 8;
    start = 10;
  } else if (version == 2 || version == 3) {
    for (int i = 3; i >= 0; --i)
      header_bytes = header_bytes << 8 | static_cast<unsigned char>(file[static_cast<std::size_t>(8 + i)]);
    start = 12;
  } else {
    throw Failure(path + ": npy version " + std::to_string(version) + " is not supported");
  }
  if (header_bytes > file.size() - start) throw Failure(path + ": cut short in its header");
  const std::string header = file.substr(start, header_bytes);
  const std::string descr = HeaderField(header, "descr", path);
  const bool fortran = HeaderField(header, "fortran_order", path) == "True";
  quern::Shape shape;
  std::size_t count = 1;
  const std::string dims = HeaderField(header, "shape", path);
  for (const char* p = dims.c_str(); *p;) {
    char* end = nullptr;
    const long long d = std::strtoll(p, &end, 10);
    if (end == p) {
      ++p;
      continue;
    }
    if (d < 0 || __builtin_mul_overflow(count, static_cast<std::size_t>(d), &count)) {
      throw Failure(path + ": its shape is too large");
    }
    shape.push_back(d);
    p = end;
  }
  const char* data = file.data() + start + header_bytes;
  const std::size_t bytes = file.size() - start - header_bytes;
  if (descr.size() > 2 && descr[1] == 'U') {
    const std::size_t width = static_cast<std::size_t>(std::strtoul(descr.c_str() + 2, nullptr, 10));
    if (descr[0] == '>' || fortran) throw Failure(path + ": strings must be little endian, in C order");
    if (width > bytes || (width > 0 && count > bytes / 4 / width)) throw Failure(path + ": cut short");
    std::vector<std::string> strings;
    for (std::size_t i = 0; i < count; ++i) strings.push_back(Utf8(data + i * width * 4, width));
    return quern::Value::Strings(shape, strings);
  }
  std::string wanted = descr;
  if (!wanted.empty() && wanted[0] == '=') wanted[0] = '<';
  for (const NpyType& t : kTypes) {
    if (wanted != t.descr) continue;
    const std::size_t element = quern_dtype_block_bytes(t.dtype);
    if (count > bytes / element) throw Failure(path + ": cut short");
    quern::Value value = quern::Value::Tensor(t.dtype, shape);
    auto* to = static_cast<char*>(value.raw_data());
    if (!fortran || shape.size() < 2) {
      if (count > 0) std::memcpy(to, data, count * element);
      return value;
    }
    std::vector<std::size_t> index(shape.size());
    for (std::size_t i = 0; i < count; ++i) {  // i counts in Fortran order: the first index runs fastest
      std::size_t at = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) at = at * static_cast<std::size_t>(shape[d]) + index[d];
      std::memcpy(to + at * element, data + i * element, element);
      for (std::size_t d = 0; d < shape.size() && ++index[d] == static_cast<std::size_t>(shape[d]); ++d) index[d] = 0;
    }
    return value;
  }
  throw Failure(path + ": element type '" + descr + "' is not supported");
}

bool CanWriteNpy(const quern::Value& value) {
  if (value.kind() == QUERN_KIND_STRINGS) return true;
  return value.kind() == QUERN_KIND_TENSOR && DescrOf(value.dtype()) != nullptr;
}

void WriteNpy(const std::string& path, const quern::Value& value) {
  std::string descr, body;
  const std::int64_t count = value.num_elements();
  if (value.kind() == QUERN_KIND_STRINGS) {
    std::size_t width = 1;
    std::vector<std::vector<std::uint32_t>> strings;
    for (std::int64_t i = 0; i < count; ++i) {
      strings.push_back(CodePoints(value.string(static_cast<std::size_t>(i))));
      width = std::max(width, strings.back().size());
    }
    descr = "<U" + std::to_string(width);
    for (auto& s : strings) {
      s.resize(width);
      body.append(reinterpret_cast<const char*>(s.data()), width * 4);
    }
  } else {
    descr = DescrOf(value.dtype());
    body.assign(static_cast<const char*>(value.raw_data()), count > 0 ? value.bytes() : 0);
  }
  std::string shape;
  for (std::int64_t d : value.shape()) shape += std::to_string(d) + ", ";
  if (value.shape().size() > 1) shape.resize(shape.size() - 2);
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += {1, 0, static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  WriteFile(path, file + header + body);
}

}  // namespace quern_tool
