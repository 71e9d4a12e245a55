#include "provider/describe_nodes.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "graph/text.h"

namespace quern {

using Json = nlohmann::ordered_json;

bool AsksForProfile(const char* options_json) {
  const Json options = Json::parse(options_json ? options_json : "", nullptr, /*allow_exceptions=*/false);
  return options.is_object() && options.contains("profile") && options["profile"] == true;
}

char* TextOf(const Json& document) {
  return strdup(document.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

Json NodeName(const Node& node) {
  Json outputs = Json::array();
  for (const GraphValue* v : node.outputs()) outputs.push_back(v ? v->name() : "");
  return {{"name", node.name()}, {"op", node.op_type()}, {"domain", node.domain()}, {"outputs", std::move(outputs)}};
}

void AddTimes(const NodeTimes::Sum& sum, Json& entry) {
  entry["runs"] = sum.runs;
  entry["seconds"] = sum.seconds;
  entry["operations"] = sum.operations;
  entry["bytes"] = sum.bytes;
  entry["denormal_runs"] = sum.denormal_runs;
}

const char* DescribeNodes(const Graph& graph, const char* kernel, const char* why, bool planned,
                          const NodeTimes* times) {
  Json doc;
  doc["text"] = PrintGraph(graph, {});
  doc["nodes"] = Json::array();
  if (times) doc["profile"] = Json::array();
  size_t index = 0;
  for (const Node* n = graph.first_node(); n; n = n->next(), ++index) {
    Json node = NodeName(*n);
    node["kernel"] = kernel ? kernel : n->op_type();
    if (times) {
      doc["profile"].push_back(node);
      AddTimes(times->sum(index), doc["profile"].back());
    }
    node["why"] = why;
    doc["nodes"].push_back(std::move(node));
  }
  if (planned) {
    doc["workspace_bytes"] = 0;
    doc["steps"] = Json::array();
    for (const Json& n : doc["nodes"]) {
      doc["steps"].push_back({{"node", n["name"]}, {"op", n["op"]}, {"kernel", n["kernel"]}});
    }
  }
  return TextOf(doc);
}

}  // namespace quern
