#include "session/loose_extents.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "session/executable.h"

namespace quern {
namespace {

// Each extent that has one of the names becomes one that nothing is known of.
void ForgetNames(ValueType& type, const std::set<std::string>& names) {
  const auto lookup = [&](std::string_view symbol) {
    return names.contains(std::string(symbol)) ? std::optional<Dim>(Dim::Unknown()) : std::nullopt;
  };
  if (type.shape) {
    for (Dim& d : *type.shape) d = d.Substitute(lookup);
  }
  if (!type.element) return;
  ValueType element = *type.element;
  ForgetNames(element, names);
  type.element = std::make_shared<const ValueType>(std::move(element));
}

void ForgetNames(GraphValue* value, const std::set<std::string>& names) {
  if (!value || value->is_constant()) return;
  ValueType type = value->type();
  ForgetNames(type, names);
  value->set_type(std::move(type));
}

// Declared types of what is computed too: they would bring the names back.
void ForgetNames(Graph& graph, const std::set<std::string>& names) {
  for (GraphValue* input : graph.inputs()) ForgetNames(input, names);
  for (Node* n = graph.first_node(); n; n = n->next()) {
    for (GraphValue* output : n->outputs()) ForgetNames(output, names);
    for (const auto& [attribute, subgraph] : n->subgraphs()) ForgetNames(*subgraph, names);
  }
}

}  // namespace

LooseExtents::LooseExtents() = default;
LooseExtents::~LooseExtents() = default;

void LooseExtents::Examine(const Graph& graph) {
  std::unordered_map<std::string, std::pair<size_t, int>> first;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueType& type = graph.inputs()[i]->type();
    if (!type.is_tensor() || !type.shape) continue;
    for (int d = 0; d < type.rank(); ++d) {
      const std::string name((*type.shape)[static_cast<size_t>(d)].symbol());
      if (name.empty()) continue;
      const auto [known, is_new] = first.try_emplace(name, i, d);
      if (!is_new) shared_.push_back({i, known->second.first, d, known->second.second, name});
    }
  }
  if (!shared_.empty()) original_ = graph.Clone();
}

bool LooseExtents::Differs(const SharedExtent& e, std::span<const Value> inputs) {
  if (!inputs[e.input].is_tensor() || !inputs[e.first_input].is_tensor()) return false;
  const Tensor &t = inputs[e.input].tensor(), &first = inputs[e.first_input].tensor();
  return e.dim < t.rank() && e.first_dim < first.rank() && t.dim(e.dim) != first.dim(e.first_dim);
}

bool LooseExtents::Differ(std::span<const Value> inputs) const {
  return std::ranges::any_of(shared_, [&](const SharedExtent& e) { return Differs(e, inputs); });
}

Result<Executable*> LooseExtents::Find(const CompileEnv& env, std::span<const Value> inputs) {
  const std::lock_guard lock(mutex_);
  if (!executable_) {
    std::set<std::string> names;
    for (const SharedExtent& e : shared_) {
      if (Differs(e, inputs)) names.insert(e.name);
    }
    ForgetNames(*original_, names);
    CompileEnv inner = env;
    inner.is_subgraph = true;  // warnings about the model were given
    QUERN_ASSIGN_OR_RETURN(executable_, Executable::Compile(original_->Clone(), inner));
    original_ = nullptr;
  }
  serves_.store(true, std::memory_order_release);
  return executable_.get();
}

int64_t LooseExtents::plans_built() const {
  const std::lock_guard lock(mutex_);
  return executable_ ? executable_->plans_built() : 0;
}

}  // namespace quern
