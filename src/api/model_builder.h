// ModelBuilder: the declarations of a model built node by node; a Graph is made of them when the model is used.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "graph/graph.h"

namespace quern::api {

class ModelBuilder {
 public:
  struct Node {
    std::string op_type, domain, name;
    std::vector<std::string> inputs, outputs;
    std::map<std::string, Attribute, std::less<>> attributes;
    // Subgraphs by attribute name, as they were when the node was added.
    std::vector<std::pair<std::string, std::shared_ptr<const ModelBuilder>>> subgraphs;
  };

  explicit ModelBuilder(std::string name) : name_(std::move(name)) {}

  void Import(std::string domain, int version) { imports_[std::move(domain)] = version; }
  // A name may be defined once; kInvalidArgument otherwise. Subgraphs nest kMaxDepth deep at most, and a graph may have
  // Limits::nodes by default; a session's limits may ask for less.
  Status AddInput(std::string name, ValueType type);
  Status AddConstant(std::string name, Value content);
  Status AddNode(Node node);
  void AddOutput(std::string name) { outputs_.push_back(std::move(name)); }

  // The graph of a whole model. kInvalidArgument for a name that nothing defines, or that is used before the node that
  // makes it, and for domains without an import.
  Result<std::unique_ptr<Graph>> Build() const;

 private:
  // Names that this and its subgraphs read and that it does not define, in order of first use.
  std::vector<std::string> FreeNames() const;
  // `captures` become inputs behind the formal ones; `types`: of the outer values.
  Result<std::unique_ptr<Graph>> Build(const std::map<std::string, int>& imports, std::span<const std::string> captures,
                                       std::span<const ValueType> types) const;
  Status Define(const std::string& name);

  std::string name_;
  std::map<std::string, int> imports_;
  std::vector<std::pair<std::string, ValueType>> inputs_;
  std::vector<std::pair<std::string, Value>> constants_;
  std::vector<Node> nodes_;
  std::vector<std::string> outputs_;
  std::set<std::string> defined_;
  int depth_ = 0;     // of subgraphs within subgraphs
  int64_t size_ = 0;  // nodes, those of a subgraph as often as it is used: what Build makes
};

}  // namespace quern::api
