// The JSON type of the command; the header is costly to compile, so only who needs it includes this.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace quern_tool {

using Json = nlohmann::ordered_json;

// A document that does not parse is `discarded`.
Json ParseJson(const std::string& text);
// Names come from files and need not be UTF-8: what is not is replaced.
std::string Dump(const Json& json, int indent = 2);
// A field as text, "" where it is absent or null.
std::string Text(const Json& object, const char* key);
// Of a node in the facts about a session: its name, or its first output, "=> y", when it has none.
std::string NodeName(const Json& node);
// Its operator, with the domain unless that is ai.onnx.
std::string Operator(const Json& node);

}  // namespace quern_tool
