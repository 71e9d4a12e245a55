// The document about a model:
//   name, opsets {domain: version}, metadata {key: text}
//   inputs, outputs [{name, type, dtype, shape}]       a symbolic extent is text
//   nodes, operators [{op, domain, count}]             subgraphs included
//   parameters {tensors, elements, bytes, by_dtype [{dtype, tensors, elements, bytes}]}
#include <algorithm>
#include <map>

#include "session/facts.h"
#include "session/facts_json.h"

namespace quern {
namespace {

struct Counts {
  std::map<std::pair<std::string, std::string>, int64_t> operators;
  struct Size {
    int64_t tensors = 0, elements = 0, bytes = 0;
  };
  std::map<std::string, Size> parameters;  // by dtype
};

void CountValue(const Value& value, Counts& counts) {
  if (value.is_tensor()) {
    const Tensor& t = value.tensor();
    Counts::Size& size = counts.parameters[DTypeName(t.dtype())];
    ++size.tensors;
    size.elements += t.num_elements();
    size.bytes += static_cast<int64_t>(t.bytes());
  } else if (value.kind() == ValueKind::kStringTensor) {
    Counts::Size& size = counts.parameters["string"];
    ++size.tensors;
    size.elements += value.strings().shape.num_elements();
    for (const std::string& s : value.strings().values) size.bytes += static_cast<int64_t>(s.size());
  }
}

void Count(const Graph& graph, Counts& counts) {
  for (const GraphValue* v : graph.constants()) CountValue(*v->constant(), counts);
  for (const Node* n = graph.first_node(); n; n = n->next()) {
    ++counts.operators[{n->op_type(), n->domain()}];
    if (n->Is("Constant")) {
      if (const Value* value = n->FindAttribute<Value>("value")) CountValue(*value, counts);
    }
    for (const auto& [attribute, subgraph] : n->subgraphs()) Count(*subgraph, counts);
  }
}

Json OperatorList(const Counts& counts) {
  std::vector<std::pair<std::pair<std::string, std::string>, int64_t>> sorted(counts.operators.begin(),
                                                                              counts.operators.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  Json list = Json::array();
  for (const auto& [op, count] : sorted) {
    list.push_back({{"op", op.first}, {"domain", op.second}, {"count", count}});
  }
  return list;
}

}  // namespace

Json OperatorsJson(const Graph& graph) {
  Counts counts;
  Count(graph, counts);
  return OperatorList(counts);
}

std::string ModelFacts(const Graph& graph) {
  Counts counts;
  Count(graph, counts);
  Json doc = NewDocument("model");
  doc["name"] = graph.name;
  doc["opsets"] = Json::object();
  for (const auto& [domain, version] : graph.opset_imports) doc["opsets"][domain] = version;
  doc["metadata"] = Json::object();
  for (const auto& [key, text] : graph.metadata) doc["metadata"][key] = text;
  doc["inputs"] = ValuesJson(graph.inputs());
  doc["outputs"] = ValuesJson(graph.outputs());
  int64_t nodes = 0;
  for (const auto& [op, count] : counts.operators) nodes += count;
  doc["nodes"] = nodes;
  doc["operators"] = OperatorList(counts);
  Counts::Size all;
  Json by_dtype = Json::array();
  for (const auto& [dtype, size] : counts.parameters) {
    all.tensors += size.tensors;
    all.elements += size.elements;
    all.bytes += size.bytes;
    by_dtype.push_back(
        {{"dtype", dtype}, {"tensors", size.tensors}, {"elements", size.elements}, {"bytes", size.bytes}});
  }
  doc["parameters"] = {
      {"tensors", all.tensors}, {"elements", all.elements}, {"bytes", all.bytes}, {"by_dtype", std::move(by_dtype)}};
  return Dump(doc);
}

}  // namespace quern
