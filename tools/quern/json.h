// The JSON type of the command; the header is costly to compile, so only who needs it includes this.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace quern_tool {

using Json = nlohmann::ordered_json;

// Names come from files and need not be UTF-8: what is not is replaced.
inline std::string Dump(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}
// A field as text, "" where it is absent or null.
inline std::string Text(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return "";
  return it->is_string() ? it->get<std::string>() : Dump(*it, -1);
}

}  // namespace quern_tool
