#include <bit>
#include <cstring>
#include <limits>

#include "graph/text.h"
#include "graph/text_scanner.h"
#include "graph/verifier.h"

namespace quern {
namespace {

// A splat may not grow a few characters of text to more than this.
constexpr size_t kMaxSplatBytes = 4096;
constexpr int kMaxValueDepth = 16;

std::optional<DType> FindDType(std::string_view name) {
  for (int i = 1; i < 128; ++i) {
    const DType t = static_cast<DType>(i);
    if (GetDTypeInfo(t).block_bytes == 0 && t != DType::kString) continue;
    if (name == DTypeName(t)) return t;
  }
  return std::nullopt;
}

class Parser {
 public:
  Parser(std::string_view text, const Limits& limits) : in_(text), limits_(limits) {}

  Result<std::unique_ptr<Graph>> Parse() {
    QUERN_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, ParseGraph(0, nullptr));
    if (!in_.AtEnd()) return in_.Error("unexpected text after the graph");
    return graph;
  }
  Result<ValueType> ParseTypeAlone() {
    QUERN_ASSIGN_OR_RETURN(ValueType type, ParseType(0));
    if (!in_.AtEnd()) return in_.Error("unexpected text after the type");
    return type;
  }

 private:
  // A limit is reached here.
  Status Exceeded(const std::string& what) const {
    return Status(StatusCode::kResourceExhausted, in_.Error(what).message());
  }

  // `one` is called for each item until `end`, which is taken.
  template <typename One>
  Status List(std::string_view end, One one) {
    if (in_.Take(end)) return OkStatus();
    for (;;) {
      QUERN_RETURN_IF_ERROR(one());
      if (in_.Take(end)) return OkStatus();
      if (!in_.Take(",")) return in_.Error("expected ',' or '" + std::string(end) + "'");
    }
  }

  Result<std::unique_ptr<Graph>> ParseGraph(int depth, const Graph* outer) {
    if (depth > limits_.subgraph_depth) return Exceeded("subgraphs are nested too deeply");
    auto graph = std::make_unique<Graph>();
    if (!in_.TakeWord("graph")) return in_.Error("expected 'graph'");
    if (in_.Take("@")) {
      QUERN_ASSIGN_OR_RETURN(graph->name, in_.Name());
    }
    if (outer != nullptr) graph->opset_imports = outer->opset_imports;
    if (in_.TakeWord("opset")) {
      graph->opset_imports.clear();
      QUERN_RETURN_IF_ERROR(in_.Expect("("));
      QUERN_RETURN_IF_ERROR(List(")", [&]() -> Status {
        QUERN_ASSIGN_OR_RETURN(std::string domain, in_.String());
        QUERN_RETURN_IF_ERROR(in_.Expect(":"));
        QUERN_ASSIGN_OR_RETURN(const int version, Version());
        if (domain == "ai.onnx") domain.clear();
        if (!graph->opset_imports.emplace(std::move(domain), version).second) {
          return in_.Error("the domain is imported twice");
        }
        return OkStatus();
      }));
    }
    QUERN_RETURN_IF_ERROR(in_.Expect("{"));
    while (in_.TakeWord("metadata")) {
      QUERN_ASSIGN_OR_RETURN(std::string key, in_.String());
      QUERN_RETURN_IF_ERROR(in_.Expect("="));
      QUERN_ASSIGN_OR_RETURN(std::string value, in_.String());
      if (!graph->metadata.emplace(std::move(key), std::move(value)).second) return in_.Error("the key is used twice");
    }
    while (!in_.TakeWord("return")) {
      if (in_.TakeWord("input")) {
        QUERN_ASSIGN_OR_RETURN(Definition d, ParseDefinition(*graph));
        graph->AddInput(std::move(d.name), std::move(d.type))->set_data(std::move(d.data));
      } else if (in_.TakeWord("const")) {
        QUERN_ASSIGN_OR_RETURN(Definition d, ParseDefinition(*graph));
        QUERN_RETURN_IF_ERROR(in_.Expect("="));
        QUERN_ASSIGN_OR_RETURN(Value content, ParseValue(0));
        if (!content.has_value()) return in_.Error("a constant needs a content");
        GraphValue* v = graph->AddConstant(std::move(d.name), std::move(content));
        if (d.has_type) v->set_type(std::move(d.type));
        v->set_data(std::move(d.data));
      } else {
        QUERN_RETURN_IF_ERROR(ParseNode(*graph, depth));
      }
    }
    QUERN_RETURN_IF_ERROR(List("}", [&]() -> Status {
      QUERN_ASSIGN_OR_RETURN(GraphValue * v, Reference(*graph));
      if (v == nullptr) return in_.Error("a graph output cannot be omitted");
      graph->AddOutput(v);
      return OkStatus();
    }));
    return graph;
  }

  Result<int> Version() {
    const size_t at = in_.position();
    QUERN_ASSIGN_OR_RETURN(const int64_t version, in_.Int());
    if (version < 0 || version > std::numeric_limits<int>::max()) return in_.ErrorAt(at, "no operator set version");
    return static_cast<int>(version);
  }

  // "%name", or "_" as null.
  Result<GraphValue*> Reference(const Graph& graph) {
    const size_t at = in_.position();
    if (in_.TakeWord("_")) return static_cast<GraphValue*>(nullptr);
    if (!in_.Take("%")) return in_.Error("expected a value ('%name' or '_')");
    QUERN_ASSIGN_OR_RETURN(const std::string name, in_.Name());
    GraphValue* v = graph.FindValue(name);
    if (v == nullptr) return in_.ErrorAt(at, "value '" + name + "' is not defined before");
    return v;
  }

  struct Definition {
    std::string name;
    ValueType type;
    bool has_type = false;
    std::optional<Dims> data;
  };
  Result<Definition> ParseDefinition(const Graph& graph) {
    Definition d;
    const size_t at = in_.position();
    QUERN_RETURN_IF_ERROR(in_.Expect("%"));
    QUERN_ASSIGN_OR_RETURN(d.name, in_.Name());
    if (d.name.empty()) return in_.ErrorAt(at, "a value needs a name");
    if (graph.FindValue(d.name) != nullptr) return in_.ErrorAt(at, "value '" + d.name + "' is defined twice");
    if (in_.Take(":")) {
      QUERN_ASSIGN_OR_RETURN(d.type, ParseType(0));
      d.has_type = true;
    }
    if (in_.TakeWord("data")) {
      QUERN_RETURN_IF_ERROR(in_.Expect("["));
      QUERN_ASSIGN_OR_RETURN(d.data, ParseDims());
    }
    return d;
  }

  // After "[".
  Result<Dims> ParseDims() {
    const size_t begin = in_.position();
    QUERN_ASSIGN_OR_RETURN(const std::string_view text, in_.UntilBracket());
    Dims dims;
    if (text.find_first_not_of(" \t") == std::string_view::npos) return dims;
    int parentheses = 0;
    bool quoted = false;
    size_t from = 0;
    for (size_t i = 0; i <= text.size(); ++i) {
      const char c = i < text.size() ? text[i] : ',';
      if (quoted && c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = !quoted;
      } else if (!quoted && c == '(') {
        ++parentheses;
      } else if (!quoted && c == ')') {
        --parentheses;
      }
      if (i < text.size() && (c != ',' || quoted || parentheses > 0)) continue;
      Result<Dim> d = Dim::Parse(text.substr(from, i - from));
      if (!d.ok()) return in_.ErrorAt(begin + from, d.status().message());
      dims.push_back(std::move(d).value());
      from = i + 1;
    }
    return dims;
  }

  Result<DType> ParseDType() {
    const size_t at = in_.position();
    const std::string_view word = in_.Word();
    const std::optional<DType> dtype = FindDType(word);
    if (!dtype) return in_.ErrorAt(at, "'" + std::string(word) + "' is no element type");
    return *dtype;
  }

  Result<ValueType> ParseType(int depth) {
    if (depth > limits_.type_depth) return Exceeded("the type is nested too deeply");
    ValueType type;
    if (in_.TakeWord("none")) {
      type.kind = ValueKind::kNone;
      return type;
    }
    const bool map = in_.TakeWord("map"), sequence = !map && in_.TakeWord("seq");
    if (map || sequence || in_.TakeWord("opt")) {
      type.kind = map ? ValueKind::kMap : sequence ? ValueKind::kSequence : ValueKind::kOptional;
      QUERN_RETURN_IF_ERROR(in_.Expect("<"));
      if (map) {
        if (!in_.Take("?")) {
          QUERN_ASSIGN_OR_RETURN(type.dtype, ParseDType());
        }
        QUERN_RETURN_IF_ERROR(in_.Expect(","));
      }
      QUERN_ASSIGN_OR_RETURN(ValueType element, ParseType(depth + 1));
      QUERN_RETURN_IF_ERROR(in_.Expect(">"));
      if (!(element == ValueType{})) type.element = std::make_shared<const ValueType>(std::move(element));
      return type;
    }
    if (in_.Take("?")) {
      if (!in_.Take("[")) return type;
    } else {
      QUERN_ASSIGN_OR_RETURN(const DType dtype, ParseDType());
      type = ValueType::Tensor(dtype);
      QUERN_RETURN_IF_ERROR(in_.Expect("["));
    }
    if (in_.Take("*")) {
      QUERN_RETURN_IF_ERROR(in_.Expect("]"));
      return type;
    }
    QUERN_ASSIGN_OR_RETURN(type.shape, ParseDims());
    if (type.shape->size() > static_cast<size_t>(limits_.rank)) return Exceeded("too many dimensions");
    return type;
  }

  Status ParseNode(Graph& graph, int depth) {
    if (++num_nodes_ > limits_.nodes) return Exceeded("too many nodes");
    std::vector<Definition> outputs;
    if (in_.Take("(")) {
      QUERN_RETURN_IF_ERROR(in_.Expect(")"));
      QUERN_RETURN_IF_ERROR(in_.Expect("="));
    } else {
      QUERN_RETURN_IF_ERROR(List("=", [&]() -> Status {
        outputs.emplace_back();
        if (in_.TakeWord("_")) return OkStatus();
        if (in_.Peek() != '%') return in_.Error("expected 'input', 'const', 'return' or a node ('%name = ...')");
        QUERN_ASSIGN_OR_RETURN(outputs.back(), ParseDefinition(graph));
        return OkStatus();
      }));
    }
    NodeSpec spec;
    QUERN_ASSIGN_OR_RETURN(spec.op_type, in_.WordOrString());
    if (in_.Take("::")) {
      spec.domain = std::move(spec.op_type);
      QUERN_ASSIGN_OR_RETURN(spec.op_type, in_.WordOrString());
    }
    const bool has_opset = in_.Take("#");
    if (has_opset) {
      QUERN_ASSIGN_OR_RETURN(spec.opset, Version());
    }
    const int opset = spec.opset;
    QUERN_RETURN_IF_ERROR(in_.Expect("("));
    QUERN_RETURN_IF_ERROR(List(")", [&]() -> Status {
      QUERN_ASSIGN_OR_RETURN(GraphValue * v, Reference(graph));
      spec.inputs.push_back(v);
      return OkStatus();
    }));
    if (in_.TakeWord("captures")) {
      QUERN_RETURN_IF_ERROR(in_.Expect("("));
      QUERN_RETURN_IF_ERROR(List(")", [&]() -> Status {
        QUERN_ASSIGN_OR_RETURN(GraphValue * v, Reference(graph));
        if (v == nullptr) return in_.Error("a capture cannot be omitted");
        spec.captures.push_back(v);
        return OkStatus();
      }));
    }
    if (in_.Take("{")) {
      QUERN_RETURN_IF_ERROR(List("}", [&]() -> Status {
        QUERN_ASSIGN_OR_RETURN(std::string key, in_.WordOrString());
        QUERN_RETURN_IF_ERROR(in_.Expect("="));
        QUERN_ASSIGN_OR_RETURN(Attribute attribute, ParseAttribute(graph, depth));
        if (!spec.attributes.emplace(std::move(key), std::move(attribute)).second) {
          return in_.Error("the attribute is given twice");
        }
        return OkStatus();
      }));
    }
    if (in_.Take("@")) {
      QUERN_ASSIGN_OR_RETURN(spec.name, in_.Name());
    }
    Node* node = graph.AddNode(std::move(spec));
    if (has_opset) node->set_opset(opset);
    for (Definition& d : outputs) {
      if (graph.FindValue(d.name) != nullptr) return in_.Error("value '" + d.name + "' is defined twice");
      GraphValue* v = graph.AddNodeOutput(node, std::move(d.name));
      if (v == nullptr) continue;
      v->set_type(std::move(d.type));
      v->set_data(std::move(d.data));
    }
    return OkStatus();
  }

  // int, float, string, value, graph or type.
  Result<Attribute> ParseOneAttribute(const Graph& graph, int depth) {
    if (in_.Peek() == '"') {
      QUERN_ASSIGN_OR_RETURN(std::string s, in_.String());
      return Attribute(std::move(s));
    }
    if (in_.PeekWord("graph")) {
      QUERN_ASSIGN_OR_RETURN(std::unique_ptr<Graph> g, ParseGraph(depth + 1, &graph));
      return Attribute(GraphPtr(std::move(g)));
    }
    if (in_.TakeWord("value")) {
      QUERN_ASSIGN_OR_RETURN(Value v, ParseValue(0));
      return Attribute(std::move(v));
    }
    if (in_.TakeWord("type")) {
      QUERN_ASSIGN_OR_RETURN(ValueType t, ParseType(0));
      return Attribute(std::move(t));
    }
    const size_t at = in_.position();
    const std::string_view token = in_.Number();
    if (token.empty()) return in_.Error("expected an attribute's value");
    if (token.find_first_not_of("0123456789", token[0] == '-' ? 1 : 0) == std::string_view::npos) {
      QUERN_ASSIGN_OR_RETURN(const int64_t i, in_.ToInt(token, at));
      return Attribute(i);
    }
    QUERN_ASSIGN_OR_RETURN(const uint32_t bits, (in_.FloatBits<float, uint32_t>(token, at)));
    return Attribute(std::bit_cast<float>(bits));
  }

  // Appends to a list attribute; false when the item is of another kind.
  template <typename T>
  static bool Append(Attribute& list, Attribute& item) {
    T* value = std::get_if<T>(&item);
    std::vector<T>* values = std::get_if<std::vector<T>>(&list);
    if (value == nullptr || values == nullptr) return false;
    values->push_back(std::move(*value));
    return true;
  }

  Result<Attribute> ParseAttribute(const Graph& graph, int depth) {
    for (const auto& [word, empty] : {std::pair<std::string_view, Attribute>{"ints", std::vector<int64_t>{}},
                                      {"floats", std::vector<float>{}},
                                      {"strings", std::vector<std::string>{}},
                                      {"values", std::vector<Value>{}},
                                      {"graphs", std::vector<GraphPtr>{}}}) {
      if (!in_.TakeWord(word)) continue;
      QUERN_RETURN_IF_ERROR(in_.Expect("["));
      QUERN_RETURN_IF_ERROR(in_.Expect("]"));
      return empty;
    }
    if (!in_.Take("[")) return ParseOneAttribute(graph, depth);
    Attribute list;
    int64_t count = 0;
    QUERN_RETURN_IF_ERROR(List("]", [&]() -> Status {
      const size_t at = in_.position();
      if (++count > limits_.attribute_elements) return Exceeded("the list is too long");
      QUERN_ASSIGN_OR_RETURN(Attribute item, ParseOneAttribute(graph, depth));
      if (count == 1) {
        switch (item.index()) {
          case 0:
            list = std::vector<int64_t>();
            break;
          case 1:
            list = std::vector<float>();
            break;
          case 2:
            list = std::vector<std::string>();
            break;
          case 3:
            list = std::vector<Value>();
            break;
          case 4:
            list = std::vector<GraphPtr>();
            break;
          default:
            return in_.ErrorAt(at, "types do not form lists");
        }
      }
      if (Append<int64_t>(list, item) || Append<float>(list, item) || Append<std::string>(list, item) ||
          Append<Value>(list, item) || Append<GraphPtr>(list, item)) {
        return OkStatus();
      }
      return in_.ErrorAt(at, "the items of a list must be of one kind");
    }));
    if (count == 0) return in_.Error("an empty list needs its kind (ints, floats, strings, values or graphs)");
    return list;
  }

  Result<Value> ParseValue(int depth) {
    if (depth > kMaxValueDepth) return in_.Error("the value is nested too deeply");
    if (in_.TakeWord("none")) return Value();
    if (in_.TakeWord("seq")) {
      ValueSequence elements;
      QUERN_RETURN_IF_ERROR(in_.Expect("["));
      QUERN_RETURN_IF_ERROR(List("]", [&]() -> Status {
        QUERN_ASSIGN_OR_RETURN(Value v, ParseValue(depth + 1));
        elements.push_back(std::move(v));
        return OkStatus();
      }));
      return Value::Sequence(std::move(elements));
    }
    if (in_.TakeWord("opt")) {
      QUERN_RETURN_IF_ERROR(in_.Expect("("));
      if (in_.Take(")")) return Value::Optional(Value());
      QUERN_ASSIGN_OR_RETURN(Value v, ParseValue(depth + 1));
      QUERN_RETURN_IF_ERROR(in_.Expect(")"));
      return Value::Optional(std::move(v));
    }
    if (in_.TakeWord("map")) {
      if (in_.TakeWord("i64")) return ParseMap<int64_t>(depth, [&] { return in_.Int(); });
      if (in_.TakeWord("string")) return ParseMap<std::string>(depth, [&] { return in_.String(); });
      return in_.Error("expected 'i64' or 'string' keys");
    }
    return ParseTensor();
  }

  template <typename Key, typename ParseKey>
  Result<Value> ParseMap(int depth, ParseKey parse_key) {
    std::map<Key, Value> entries;
    QUERN_RETURN_IF_ERROR(in_.Expect("{"));
    QUERN_RETURN_IF_ERROR(List("}", [&]() -> Status {
      QUERN_ASSIGN_OR_RETURN(Key key, parse_key());
      QUERN_RETURN_IF_ERROR(in_.Expect(":"));
      QUERN_ASSIGN_OR_RETURN(Value v, ParseValue(depth + 1));
      if (!entries.emplace(std::move(key), std::move(v)).second) return in_.Error("the key is used twice");
      return OkStatus();
    }));
    return Value::Map(ValueMap{std::move(entries)});
  }

  Result<Value> ParseTensor() {
    QUERN_ASSIGN_OR_RETURN(const DType dtype, ParseDType());
    QUERN_RETURN_IF_ERROR(in_.Expect("["));
    const size_t at = in_.position();
    Shape shape;
    QUERN_RETURN_IF_ERROR(List("]", [&]() -> Status {
      QUERN_ASSIGN_OR_RETURN(const int64_t extent, in_.Int());
      if (extent < 0 || shape.rank() == kMaxRank) return in_.ErrorAt(at, "negative extent or too many dimensions");
      shape.push_back(extent);
      return OkStatus();
    }));
    const std::optional<int64_t> count = CheckedProduct(shape.span());
    if (!count) return in_.ErrorAt(at, "the shape is too large");
    if (in_.Take("<")) {
      return in_.Error("this constant was printed without its content: print with full constants to read it back");
    }
    if (dtype == DType::kString) {
      StringTensor strings{shape, {}};
      QUERN_RETURN_IF_ERROR(in_.Expect("{"));
      QUERN_RETURN_IF_ERROR(List("}", [&]() -> Status {
        QUERN_ASSIGN_OR_RETURN(std::string s, in_.String());
        strings.values.push_back(std::move(s));
        return OkStatus();
      }));
      if (static_cast<int64_t>(strings.values.size()) != *count) return WrongCount(at, *count, strings.values.size());
      return Value(std::move(strings));
    }
    const Result<size_t> bytes = TensorBytes(dtype, shape);
    if (!bytes.ok()) return in_.ErrorAt(at, bytes.status().message());
    if (static_cast<int64_t>(*bytes) > limits_.tensor_bytes) return Exceeded("the tensor is too large");
    // Collected first: memory must follow the text, not the shape that it claims.
    std::vector<uint8_t> content;
    if (in_.TakeWord("hex")) {
      QUERN_RETURN_IF_ERROR(ParseHex(content));
      if (content.size() != *bytes) return WrongCount(at, static_cast<int64_t>(*bytes), content.size(), "bytes");
    } else if (in_.TakeWord("splat")) {
      if (*bytes > kMaxSplatBytes) return in_.ErrorAt(at, "too large for a splat: give all elements");
      QUERN_RETURN_IF_ERROR(ParseElement(dtype, content));
      const std::vector<uint8_t> element = content;
      content.clear();
      while (content.size() < *bytes) content.insert(content.end(), element.begin(), element.end());
    } else {
      QUERN_RETURN_IF_ERROR(in_.Expect("{"));
      int64_t found = 0;
      QUERN_RETURN_IF_ERROR(List("}", [&]() -> Status {
        ++found;
        return ParseElement(dtype, content);
      }));
      if (found != *count) return WrongCount(at, *count, static_cast<size_t>(found));
    }
    QUERN_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(dtype, shape));
    if (!content.empty()) std::memcpy(t.raw_data(), content.data(), content.size());
    return Value(std::move(t));
  }

  Status WrongCount(size_t at, int64_t expected, size_t found, const char* unit = "elements") {
    return in_.ErrorAt(
        at, "the shape has " + std::to_string(expected) + " " + unit + " but " + std::to_string(found) + " are given");
  }

  Status ParseHex(std::vector<uint8_t>& content) {
    QUERN_ASSIGN_OR_RETURN(const std::string digits, in_.String());
    if (digits.size() % 2 != 0) return in_.Error("odd number of hexadecimal digits");
    content.reserve(digits.size() / 2);
    int byte = 0;
    for (size_t i = 0; i < digits.size(); ++i) {
      const char c = digits[i];
      const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (value < 0) return in_.Error("expected hexadecimal digits");
      byte = byte * 16 + value;
      if (i % 2 == 0) continue;
      content.push_back(static_cast<uint8_t>(byte));
      byte = 0;
    }
    return OkStatus();
  }

  template <typename T>
  static void Store(T x, std::vector<uint8_t>& content) {
    const size_t at = content.size();
    content.resize(at + sizeof x);
    std::memcpy(content.data() + at, &x, sizeof x);
  }

  template <typename T>
  Status StoreInteger(std::string_view token, size_t at, std::vector<uint8_t>& content) {
    if constexpr (std::is_signed_v<T>) {
      QUERN_ASSIGN_OR_RETURN(const int64_t x, in_.ToInt(token, at));
      if (x < std::numeric_limits<T>::min() || x > std::numeric_limits<T>::max()) {
        return in_.ErrorAt(at, "the integer is out of range");
      }
      Store(static_cast<T>(x), content);
    } else {
      QUERN_ASSIGN_OR_RETURN(const uint64_t x, in_.ToUnsigned(token, at));
      if (x > std::numeric_limits<T>::max()) return in_.ErrorAt(at, "the integer is out of range");
      Store(static_cast<T>(x), content);
    }
    return OkStatus();
  }

  // 16-bit floats: the number must be one that the type has; NaNs carry the 16 bits themselves.
  template <typename Half>
  Status StoreHalf(std::string_view token, size_t at, std::vector<uint8_t>& content) {
    if (token == "nan" && in_.Peek() == '(') {
      QUERN_RETURN_IF_ERROR(in_.Expect("("));
      const size_t bits_at = in_.position();
      const std::string_view digits = in_.Number();
      uint16_t bits = 0;
      bool valid = digits.starts_with("0x") && digits.size() == 6;
      for (size_t i = 2; valid && i < digits.size(); ++i) {
        const char c = digits[i];
        const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        valid = value >= 0;
        bits = static_cast<uint16_t>(bits * 16 + (value & 15));
      }
      const float as_float = static_cast<float>(Half::FromBits(bits));
      if (!valid || as_float == as_float) return in_.ErrorAt(bits_at, "expected the four digits of a NaN");
      Store(bits, content);
      return in_.Expect(")");
    }
    QUERN_ASSIGN_OR_RETURN(const uint32_t bits, (in_.FloatBits<float, uint32_t>(token, at)));
    Store(Half(std::bit_cast<float>(bits)).bits, content);
    return OkStatus();
  }

  Status ParseElement(DType dtype, std::vector<uint8_t>& content) {
    const size_t at = in_.position();
    const std::string_view token = in_.Number();
    switch (dtype) {
      case DType::kF32: {
        QUERN_ASSIGN_OR_RETURN(const uint32_t bits, (in_.FloatBits<float, uint32_t>(token, at)));
        Store(bits, content);
        return OkStatus();
      }
      case DType::kF64: {
        QUERN_ASSIGN_OR_RETURN(const uint64_t bits, (in_.FloatBits<double, uint64_t>(token, at)));
        Store(bits, content);
        return OkStatus();
      }
      case DType::kF16:
        return StoreHalf<Float16>(token, at, content);
      case DType::kBF16:
        return StoreHalf<BFloat16>(token, at, content);
      case DType::kBool:
        if (token == "true" || token == "false") {
          content.push_back(token == "true");
          return OkStatus();
        }
        return StoreInteger<uint8_t>(token, at, content);
      case DType::kU8:
        return StoreInteger<uint8_t>(token, at, content);
      case DType::kI8:
        return StoreInteger<int8_t>(token, at, content);
      case DType::kU16:
        return StoreInteger<uint16_t>(token, at, content);
      case DType::kI16:
        return StoreInteger<int16_t>(token, at, content);
      case DType::kU32:
        return StoreInteger<uint32_t>(token, at, content);
      case DType::kI32:
        return StoreInteger<int32_t>(token, at, content);
      case DType::kU64:
        return StoreInteger<uint64_t>(token, at, content);
      case DType::kI64:
        return StoreInteger<int64_t>(token, at, content);
      default:
        return in_.ErrorAt(at, std::string("elements of ") + DTypeName(dtype) + " are given as hex");
    }
  }

  TextScanner in_;
  const Limits& limits_;
  int64_t num_nodes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Graph>> ParseGraph(std::string_view text, const Limits& limits) {
  QUERN_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, Parser(text, limits).Parse());
  QUERN_RETURN_IF_ERROR(Verify(*graph, limits));
  return graph;
}

Result<ValueType> ParseType(std::string_view text, const Limits& limits) {
  return Parser(text, limits).ParseTypeAlone();
}

}  // namespace quern
