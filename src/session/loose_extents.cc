#include "session/loose_extents.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "session/executable.h"

namespace quern {
namespace {

// Each symbol becomes what `to(symbol, dimension)` gives, an optional<Dim>.
template <typename To>
void Replace(ValueType& type, To to) {
  for (size_t d = 0; type.shape && d < type.shape->size(); ++d) {
    (*type.shape)[d] = (*type.shape)[d].Substitute([&](std::string_view symbol) { return to(symbol, d); });
  }
  if (!type.element) return;
  ValueType element = *type.element;
  Replace(element, to);
  type.element = std::make_shared<const ValueType>(std::move(element));
}

template <typename To>
void Replace(GraphValue* value, To to) {
  if (!value || value->is_constant()) return;
  ValueType type = value->type();
  Replace(type, to);
  value->set_type(std::move(type));
}

// In the declared types of all that is computed, in subgraphs too.
template <typename To>
void ReplaceInside(Graph& graph, To to) {
  for (Node* n = graph.first_node(); n; n = n->next()) {
    for (GraphValue* output : n->outputs()) Replace(output, to);
    for (const auto& [attribute, subgraph] : n->subgraphs()) {
      for (GraphValue* input : subgraph->inputs()) Replace(input, to);
      ReplaceInside(*subgraph, to);
    }
  }
}

// Extents of inputs get names of their own: that they are not negative counts. What is declared of what is computed
// would bring the old names back.
void NameApart(Graph& graph, const std::set<std::string>& names) {
  const auto is_one = [&](std::string_view symbol) { return names.contains(std::string(symbol)); };
  for (GraphValue* input : graph.inputs()) {
    Replace(input, [&](std::string_view symbol, size_t d) {
      return is_one(symbol) ? std::optional(Dim::Symbol(input->name() + "." + std::to_string(d))) : std::nullopt;
    });
  }
  ReplaceInside(graph, [&](std::string_view symbol, size_t) {
    return is_one(symbol) ? std::optional(Dim::Unknown()) : std::nullopt;
  });
}

// The formula that the name of an extent is, of the symbols in `known`; nothing for other names, nor for a formula to
// which a number is added: "past + 1" is what exporters write for one new element, and others take that model too.
template <typename Known>
std::optional<Dim> FormulaOf(const std::string& name, const Known& known) {
  Result<Dim> formula = Dim::Parse(name);
  if (!formula.ok() || formula->is_constant() || !formula->symbol().empty() || formula->has_unknown()) return {};
  const std::vector<std::string> symbols = formula->symbols();
  const bool covered =
      std::ranges::all_of(symbols, [&](const std::string& s) { return s != name && known.contains(s); });
  const Result<int64_t> of_zeros = formula->Evaluate([](std::string_view) { return std::optional<int64_t>(0); });
  return covered && of_zeros.ok() && *of_zeros == 0 ? std::optional<Dim>(*std::move(formula)) : std::nullopt;
}

}  // namespace

LooseExtents::LooseExtents() = default;
LooseExtents::~LooseExtents() = default;

void LooseExtents::Examine(Graph& graph) {
  std::unordered_map<std::string, Place> first;
  const auto for_each_name = [&](auto f) {
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const ValueType& type = graph.inputs()[i]->type();
      for (int d = 0; type.is_tensor() && type.shape && d < type.rank(); ++d) {
        const std::string name((*type.shape)[static_cast<size_t>(d)].symbol());
        if (!name.empty()) f(name, Place{i, d});
      }
    }
  };
  for_each_name([&](const std::string& name, Place at) {
    const auto [known, is_new] = first.try_emplace(name, at);
    if (!is_new) tied_.push_back({at, name, Dim::Symbol(name), {{name, known->second}}});
  });
  std::map<std::string, Dim, std::less<>> formulas;
  for_each_name([&](const std::string& name, Place at) {
    const std::optional<Dim> formula = FormulaOf(name, first);
    if (!formula) return;
    TiedExtent tied{at, name, *formula, {}};
    for (const std::string& s : formula->symbols()) tied.of.emplace_back(s, first.at(s));
    tied_.push_back(std::move(tied));
    formulas.emplace(name, *formula);
  });
  // A formula of what is a formula itself stays a name.
  std::erase_if(formulas, [&](const auto& entry) {
    return std::ranges::any_of(entry.second.symbols(), [&](const std::string& s) { return formulas.contains(s); });
  });
  if (tied_.empty()) return;
  original_ = graph.Clone();
  if (formulas.empty()) return;
  const auto formula = [&](std::string_view symbol, size_t) {
    const auto found = formulas.find(symbol);
    return found == formulas.end() ? std::nullopt : std::optional<Dim>(found->second);
  };
  for (GraphValue* input : graph.inputs()) Replace(input, formula);
  ReplaceInside(graph, formula);
}

bool LooseExtents::Differs(const TiedExtent& e, std::span<const Value> inputs) {
  const auto extent = [&](const Place& p) -> std::optional<int64_t> {
    if (!inputs[p.input].is_tensor() || p.dim >= inputs[p.input].tensor().rank()) return std::nullopt;
    return inputs[p.input].tensor().dim(p.dim);
  };
  const std::optional<int64_t> given = extent(e.at);
  if (!given) return false;
  if (!e.formula.symbol().empty()) {  // one name, which the others have
    const std::optional<int64_t> other = extent(e.of.front().second);
    return other && *other != *given;
  }
  const bool all = std::ranges::all_of(e.of, [&](const auto& symbol) { return extent(symbol.second).has_value(); });
  if (!all) return false;
  const Result<int64_t> expected = e.formula.Evaluate([&](std::string_view name) -> std::optional<int64_t> {
    for (const auto& [symbol, place] : e.of) {
      if (symbol == name) return extent(place);
    }
    return std::nullopt;
  });
  return !expected.ok() || *expected != *given;
}

bool LooseExtents::Differ(std::span<const Value> inputs) const {
  return std::ranges::any_of(tied_, [&](const TiedExtent& e) { return Differs(e, inputs); });
}

Result<Executable*> LooseExtents::Find(const CompileEnv& env, std::span<const Value> inputs) {
  const std::lock_guard lock(mutex_);
  if (!executable_) {
    std::set<std::string> names;
    for (const TiedExtent& e : tied_) {
      if (Differs(e, inputs)) names.insert(e.name);
    }
    std::string list;
    for (const std::string& name : names) list.append(list.empty() ? "" : ", ").append(name);
    ProcessLogger().Log(LogLevel::kInfo, "inputs differ in extents that the model names alike (" + list +
                                             "): it is compiled again without the names");
    NameApart(*original_, names);
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
