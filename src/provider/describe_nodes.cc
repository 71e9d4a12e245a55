#include "provider/describe_nodes.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "graph/text.h"

namespace quern {

const char* DescribeNodes(const Graph& graph, const char* kernel, const char* why, bool planned) {
  using Json = nlohmann::ordered_json;
  Json doc;
  doc["text"] = PrintGraph(graph, {});
  doc["nodes"] = Json::array();
  for (const Node* n = graph.first_node(); n; n = n->next()) {
    Json outputs = Json::array();
    for (const GraphValue* v : n->outputs()) outputs.push_back(v ? v->name() : "");
    doc["nodes"].push_back({{"name", n->name()},
                            {"op", n->op_type()},
                            {"domain", n->domain()},
                            {"outputs", outputs},
                            {"kernel", kernel ? kernel : n->op_type()},
                            {"why", why}});
  }
  if (planned) {
    doc["workspace_bytes"] = 0;
    doc["steps"] = Json::array();
    for (const Json& n : doc["nodes"]) {
      doc["steps"].push_back({{"node", n["name"]}, {"op", n["op"]}, {"kernel", n["kernel"]}});
    }
  }
  return strdup(doc.dump().c_str());
}

}  // namespace quern
