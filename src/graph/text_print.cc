#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "graph/text.h"

namespace quern {
namespace {

// Above these a tensor is printed as hex of its bytes: shorter, and quicker to read back.
constexpr int64_t kMaxNumbers = 1024;
// A tensor of equal elements is printed as one up to here; ParseGraph expands no more.
constexpr size_t kMaxSplatBytes = 4096;

// Length of the UTF-8 character at `s`, or 0 when the bytes are not one.
size_t Utf8Length(std::string_view s) {
  const unsigned char c = static_cast<unsigned char>(s[0]);
  const size_t n = c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  if (n == 0 || s.size() < n) return 0;
  for (size_t i = 1; i < n; ++i) {
    if ((static_cast<unsigned char>(s[i]) & 0xc0) != 0x80) return 0;
  }
  const unsigned char d = static_cast<unsigned char>(s[1]);
  const bool overlong = (c == 0xe0 && d < 0xa0) || (c == 0xf0 && d < 0x90);
  const bool outside = (c == 0xed && d >= 0xa0) || (c == 0xf4 && d >= 0x90);
  return overlong || outside ? 0 : n;
}

void AppendHexByte(std::string& out, unsigned char c) {
  constexpr char kHex[] = "0123456789abcdef";
  out += kHex[c >> 4];
  out += kHex[c & 15];
}

void AppendQuoted(std::string& out, std::string_view s) {
  out += '"';
  for (size_t i = 0; i < s.size();) {
    const unsigned char c = static_cast<unsigned char>(s[i]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += s[i++];
    } else if (c == '\n') {
      out += "\\n";
      ++i;
    } else if (c == '\t') {
      out += "\\t";
      ++i;
    } else if (c >= 0x20 && c < 0x7f) {
      out += s[i++];
    } else if (const size_t n = c >= 0x80 ? Utf8Length(s.substr(i)) : 0; n > 0) {
      out += s.substr(i, n);
      i += n;
    } else {
      out += "\\x";
      AppendHexByte(out, c);
      ++i;
    }
  }
  out += '"';
}

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Names of values, nodes and graphs: after "%" or "@".
void AppendName(std::string& out, std::string_view name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return IsWordChar(c) || c == '/' || c == '$' || c == '-';
  });
  if (plain) {
    out += name;
  } else {
    AppendQuoted(out, name);
  }
}

// Operators, domains and attributes.
void AppendWord(std::string& out, std::string_view word) {
  const bool plain = !word.empty() && !(word[0] >= '0' && word[0] <= '9') && word[0] != '.' && word != "_" &&
                     std::all_of(word.begin(), word.end(), IsWordChar);
  if (plain) {
    out += word;
  } else {
    AppendQuoted(out, word);
  }
}

// The shortest decimal that reads back to the same number; other NaNs than the usual one show their bits.
template <typename T, typename Bits>
void AppendFloat(std::string& out, T x, Bits bits, Bits usual_nan) {
  if (std::isnan(x)) {
    out += "nan";
    if (bits != usual_nan) {
      char buffer[32];
      const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<uint64_t>(bits), 16).ptr;
      out += "(0x";
      out.append(buffer, end);
      out += ")";
    }
    return;
  }
  if (std::isinf(x)) {
    out += x < 0 ? "-inf" : "inf";
    return;
  }
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x).ptr;
  const std::string_view digits(buffer, static_cast<size_t>(end - buffer));
  out += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}
void AppendFloat(std::string& out, float x) { AppendFloat(out, x, std::bit_cast<uint32_t>(x), uint32_t{0x7fc00000}); }

template <typename T>
T Load(const uint8_t* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

bool PrintsAsNumbers(DType t) {
  return t == DType::kF32 || t == DType::kF64 || t == DType::kF16 || t == DType::kBF16 || t == DType::kBool ||
         (t >= DType::kU8 && t <= DType::kI64) || t == DType::kU32 || t == DType::kU64;
}

void AppendElement(std::string& out, DType dtype, const uint8_t* p) {
  switch (dtype) {
    case DType::kF32:
      AppendFloat(out, Load<float>(p));
      break;
    case DType::kF64:
      AppendFloat(out, Load<double>(p), Load<uint64_t>(p), uint64_t{0x7ff8000000000000});
      break;
    case DType::kF16:
      AppendFloat(out, F16BitsToF32(Load<uint16_t>(p)), Load<uint16_t>(p), uint16_t{0x7e00});
      break;
    case DType::kBF16:
      AppendFloat(out, Bf16BitsToF32(Load<uint16_t>(p)), Load<uint16_t>(p), uint16_t{0x7fc0});
      break;
    case DType::kBool:
      out += *p == 1 ? "true" : *p == 0 ? "false" : std::to_string(*p);
      break;
    case DType::kU8:
      out += std::to_string(*p);
      break;
    case DType::kI8:
      out += std::to_string(Load<int8_t>(p));
      break;
    case DType::kU16:
      out += std::to_string(Load<uint16_t>(p));
      break;
    case DType::kI16:
      out += std::to_string(Load<int16_t>(p));
      break;
    case DType::kU32:
      out += std::to_string(Load<uint32_t>(p));
      break;
    case DType::kI32:
      out += std::to_string(Load<int32_t>(p));
      break;
    case DType::kU64:
      out += std::to_string(Load<uint64_t>(p));
      break;
    default:
      out += std::to_string(Load<int64_t>(p));
      break;
  }
}

// FNV-1a
struct Digest {
  uint64_t hash = 0xcbf29ce484222325;
  void Add(const void* data, size_t bytes) {
    const uint8_t* p = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * 0x100000001b3;
  }
};

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}
  std::string Take() { return std::move(out_); }

  // `outer` is the graph around a subgraph.
  void Print(const Graph& graph, int indent, const Graph* outer) {
    out_ += "graph";
    if (!graph.name.empty()) {
      out_ += " @";
      AppendName(out_, graph.name);
    }
    if (outer != nullptr ? graph.opset_imports != outer->opset_imports : !graph.opset_imports.empty()) {
      out_ += " opset(";
      List(graph.opset_imports, [&](const auto& import) {
        AppendQuoted(out_, import.first);
        out_ += ": " + std::to_string(import.second);
      });
      out_ += ")";
    }
    out_ += " {\n";
    for (const auto& [key, value] : graph.metadata) {
      Line(indent + 1, "metadata ");
      AppendQuoted(out_, key);
      out_ += " = ";
      AppendQuoted(out_, value);
      out_ += "\n";
    }
    for (const GraphValue* v : graph.inputs()) {
      Line(indent + 1, "input ");
      Definition(*v);
      out_ += "\n";
    }
    for (const GraphValue* v : graph.constants()) {
      Line(indent + 1, "const ");
      Reference(v);
      if (!(v->type() == TypeOf(*v->constant()))) out_ += ": " + TypeToString(v->type());
      Data(*v);
      out_ += " = ";
      Content(*v->constant());
      out_ += "\n";
    }
    for (const Node* n = graph.first_node(); n != nullptr; n = n->next()) {
      Line(indent + 1, "");
      Print(*n, indent + 1, true);
      out_ += "\n";
    }
    Line(indent + 1, graph.outputs().empty() ? "return" : "return ");
    List(graph.outputs(), [&](const GraphValue* v) { Reference(v); });
    out_ += "\n";
    Line(indent, "}");
  }

  void Print(const Node& n, int indent, bool with_subgraphs) {
    if (n.outputs().empty()) out_ += "()";
    List(n.outputs(), [&](const GraphValue* v) {
      if (v == nullptr) {
        out_ += "_";
      } else {
        Definition(*v);
      }
    });
    out_ += " = ";
    if (!n.domain().empty()) {
      AppendWord(out_, n.domain());
      out_ += "::";
    }
    AppendWord(out_, n.op_type());
    if (n.opset() != n.graph()->opset(n.domain())) out_ += "#" + std::to_string(n.opset());
    out_ += "(";
    List(n.inputs(), [&](const GraphValue* v) { Reference(v); });
    out_ += ")";
    if (!n.captures().empty()) {
      out_ += " captures(";
      List(n.captures(), [&](const GraphValue* v) { Reference(v); });
      out_ += ")";
    }
    if (!n.attributes().empty()) {
      const bool broken = with_subgraphs && !n.subgraphs().empty();
      out_ += broken ? " {\n" : " {";
      bool first = true;
      for (const auto& [key, attribute] : n.attributes()) {
        if (!first) out_ += broken ? ",\n" : ", ";
        first = false;
        if (broken) Line(indent + 1, "");
        AppendWord(out_, key);
        out_ += " = ";
        Print(attribute, n, indent + 1, with_subgraphs);
      }
      if (broken) {
        out_ += "\n";
        Line(indent, "}");
      } else {
        out_ += "}";
      }
    }
    if (!n.name().empty()) {
      out_ += " @";
      AppendName(out_, n.name());
    }
  }

 private:
  void Line(int indent, std::string_view text) {
    out_.append(static_cast<size_t>(indent) * 2, ' ');
    out_ += text;
  }

  template <typename Items, typename One>
  void List(const Items& items, One one) {
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ", ";
      first = false;
      one(item);
    }
  }

  void Reference(const GraphValue* v) {
    if (v == nullptr) {
      out_ += "_";
      return;
    }
    out_ += "%";
    AppendName(out_, v->name());
  }

  void Data(const GraphValue& v) {
    if (v.data()) out_ += " data " + DimsToString(*v.data());
  }

  void Definition(const GraphValue& v) {
    Reference(&v);
    if (const std::string type = TypeToString(v.type()); type != "?") out_ += ": " + type;
    Data(v);
  }

  void Print(const Attribute& attribute, const Node& n, int indent, bool with_subgraphs) {
    const auto graph = [&](const GraphPtr& g) {
      if (with_subgraphs) {
        Print(*g, indent, n.graph());
      } else {
        out_ += "graph {...}";
      }
    };
    const auto list = [&](const auto& items, const char* kind, auto one) {
      if (items.empty()) out_ += std::string(kind) + " ";
      out_ += "[";
      List(items, one);
      out_ += "]";
    };
    const auto value = [&](const Value& v) {
      out_ += "value ";
      Content(v);
    };
    switch (attribute.index()) {
      case 0:
        out_ += std::to_string(std::get<0>(attribute));
        break;
      case 1:
        AppendFloat(out_, std::get<1>(attribute));
        break;
      case 2:
        AppendQuoted(out_, std::get<2>(attribute));
        break;
      case 3:
        value(std::get<3>(attribute));
        break;
      case 4:
        graph(std::get<4>(attribute));
        break;
      case 5:
        out_ += "type " + TypeToString(std::get<5>(attribute));
        break;
      case 6:
        list(std::get<6>(attribute), "ints", [&](int64_t x) { out_ += std::to_string(x); });
        break;
      case 7:
        list(std::get<7>(attribute), "floats", [&](float x) { AppendFloat(out_, x); });
        break;
      case 8:
        list(std::get<8>(attribute), "strings", [&](const std::string& s) { AppendQuoted(out_, s); });
        break;
      case 9:
        list(std::get<9>(attribute), "values", value);
        break;
      default:
        list(std::get<10>(attribute), "graphs", graph);
        break;
    }
  }

  void Elided(uint64_t size, const char* unit, const Digest& digest) {
    out_ += " <" + std::to_string(size) + " " + unit + ", digest ";
    for (int shift = 56; shift >= 0; shift -= 8) AppendHexByte(out_, static_cast<unsigned char>(digest.hash >> shift));
    out_ += ">";
  }

  void Content(const Tensor& strided) {
    out_ += std::string(DTypeName(strided.dtype())) + strided.shape().ToString();
    const Result<Tensor> copy = strided.Contiguous();
    if (!copy.ok()) {  // only without memory
      out_ += " <no memory>";
      return;
    }
    const Tensor& t = *copy;
    const uint8_t* bytes = static_cast<const uint8_t*>(t.raw_data());
    const int64_t count = t.num_elements();
    const size_t element = DTypeBytes(t.dtype());
    const bool numbers = PrintsAsNumbers(t.dtype());
    bool splat = numbers && count > 1 && t.bytes() <= kMaxSplatBytes;
    for (size_t i = element; splat && i < t.bytes(); i += element) splat = std::memcmp(bytes, bytes + i, element) == 0;
    if (splat) {
      out_ += " splat ";
      AppendElement(out_, t.dtype(), bytes);
    } else if (count > options_.max_elements && !options_.full_constants) {
      Digest digest;
      digest.Add(bytes, t.bytes());
      Elided(t.bytes(), "bytes", digest);
    } else if (numbers && count <= kMaxNumbers) {
      out_ += " {";
      for (int64_t i = 0; i < count; ++i) {
        if (i > 0) out_ += ", ";
        AppendElement(out_, t.dtype(), bytes + static_cast<size_t>(i) * element);
      }
      out_ += "}";
    } else {
      out_ += " hex \"";
      for (size_t i = 0; i < t.bytes(); ++i) AppendHexByte(out_, bytes[i]);
      out_ += "\"";
    }
  }

  void Content(const StringTensor& t) {
    out_ += "string" + t.shape.ToString();
    if (static_cast<int64_t>(t.values.size()) > options_.max_elements && !options_.full_constants) {
      Digest digest;
      for (const std::string& s : t.values) digest.Add(s.c_str(), s.size() + 1);
      Elided(t.values.size(), "strings", digest);
      return;
    }
    out_ += " {";
    List(t.values, [&](const std::string& s) { AppendQuoted(out_, s); });
    out_ += "}";
  }

  void Content(const Value& v) {
    switch (v.kind()) {
      case ValueKind::kNone:
        out_ += "none";
        break;
      case ValueKind::kTensor:
        Content(v.tensor());
        break;
      case ValueKind::kStringTensor:
        Content(v.strings());
        break;
      case ValueKind::kSequence:
        out_ += "seq [";
        List(v.sequence(), [&](const Value& e) { Content(e); });
        out_ += "]";
        break;
      case ValueKind::kOptional:
        out_ += "opt (";
        if (v.optional_element().has_value()) Content(v.optional_element());
        out_ += ")";
        break;
      case ValueKind::kMap: {
        const auto& entries = v.map().entries;
        out_ += entries.index() == 0 ? "map i64 {" : "map string {";
        if (const auto* ints = std::get_if<0>(&entries)) {
          List(*ints, [&](const auto& e) {
            out_ += std::to_string(e.first) + ": ";
            Content(e.second);
          });
        } else {
          List(std::get<1>(entries), [&](const auto& e) {
            AppendQuoted(out_, e.first);
            out_ += ": ";
            Content(e.second);
          });
        }
        out_ += "}";
        break;
      }
    }
  }

  const PrintOptions& options_;
  std::string out_;
};

}  // namespace

std::string PrintGraph(const Graph& graph, const PrintOptions& options) {
  Printer printer(options);
  printer.Print(graph, 0, nullptr);
  return printer.Take() + "\n";
}

std::string PrintNode(const Node& node, const PrintOptions& options) {
  Printer printer(options);
  printer.Print(node, 0, false);
  return printer.Take();
}

}  // namespace quern
