// What the documents share. Included by facts_*.cc only: the JSON header is costly to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace quern {

using Json = nlohmann::ordered_json;

inline constexpr int kFactsVersion = 1;

inline Json NewDocument(const char* kind) { return {{"version", kFactsVersion}, {"kind", kind}}; }

// Names come from files and need not be UTF-8: what is not is replaced.
inline std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Numbers, and strings for symbolic extents; null when the rank is not known.
inline Json ShapeJson(const ValueType& type) {
  if (!type.shape) return nullptr;
  Json shape = Json::array();
  for (const Dim& d : *type.shape) {
    if (d.is_constant()) {
      shape.push_back(d.value());
    } else {
      shape.push_back(d.ToString());
    }
  }
  return shape;
}

inline Json ValueJson(const GraphValue& value) {
  return {{"name", value.name()},
          {"type", TypeToString(value.type())},
          {"dtype", DTypeName(value.type().dtype)},
          {"shape", ShapeJson(value.type())}};
}

template <typename Values>
Json ValuesJson(const Values& values) {
  Json list = Json::array();
  for (const GraphValue* v : values) list.push_back(ValueJson(*v));
  return list;
}

inline Json NodeJson(const Node& node) {
  Json outputs = Json::array();
  for (const GraphValue* v : node.outputs()) outputs.push_back(v ? v->name() : "");
  return {{"name", node.name()}, {"op", node.op_type()}, {"domain", node.domain()}, {"outputs", outputs}};
}

// [{"op", "domain", "count"}], most frequent first; subgraphs included.
Json OperatorsJson(const Graph& graph);

}  // namespace quern
