#include "json.h"

namespace quern_tool {

Json ParseJson(const std::string& text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

std::string Dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

std::string Text(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return "";
  return it->is_string() ? it->get<std::string>() : Dump(*it, -1);
}

std::string NodeName(const Json& node) {
  const std::string name = Text(node, "name");
  if (!name.empty() || !node.contains("outputs")) return name;
  for (const Json& output : node["outputs"]) {
    if (output.is_string() && !output.get<std::string>().empty()) return "=> " + output.get<std::string>();
  }
  return name;
}

std::string Operator(const Json& node) {
  const std::string domain = Text(node, "domain");
  return domain.empty() ? Text(node, "op") : domain + "::" + Text(node, "op");
}

}  // namespace quern_tool
