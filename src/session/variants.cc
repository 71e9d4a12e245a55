#include "session/variants.h"

#include <algorithm>

#include "session/executable.h"
#include "session/neutral.h"

namespace quern {
namespace {

constexpr size_t kMostVariants = 4;
// Each variant packs the weights again.
constexpr size_t kMostConstantBytes = size_t{256} << 20;

// Nodes that keep what follows from being compiled well: Ifs, and those whose results have no known rank.
size_t CountUnsettled(const Graph& graph) {
  size_t count = 0;
  for (const Node* n = graph.first_node(); n; n = n->next()) {
    const bool unknown = std::any_of(n->outputs().begin(), n->outputs().end(), [](const GraphValue* v) {
      return v && v->type().is_tensor() && !v->type().shape;
    });
    if (unknown || n->Is("If")) ++count;
  }
  return count;
}

size_t ConstantBytes(const Graph& graph) {
  size_t bytes = 0;
  for (const GraphValue* v : graph.constants()) {
    if (v->constant()->is_tensor()) bytes += v->constant()->tensor().bytes();
  }
  for (const Node* n = graph.first_node(); n; n = n->next()) {
    for (const auto& [attribute, subgraph] : n->subgraphs()) bytes += ConstantBytes(*subgraph);
  }
  return bytes;
}

std::unique_ptr<Graph> CloneForShapes(const Graph& graph, std::span<const Value> inputs) {
  std::unique_ptr<Graph> clone = graph.Clone();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) continue;
    const Shape& shape = inputs[i].tensor().shape();
    ValueType type = clone->inputs()[i]->type();
    type.dtype = inputs[i].tensor().dtype();
    type.shape = Dims(shape.begin(), shape.end());
    clone->inputs()[i]->set_type(std::move(type));
  }
  return clone;
}

}  // namespace

ShapeVariants::ShapeVariants() = default;
ShapeVariants::~ShapeVariants() = default;

void ShapeVariants::Examine(const Graph& graph) {
  const bool symbolic = std::any_of(graph.inputs().begin(), graph.inputs().end(), [](const GraphValue* v) {
    return v->type().is_tensor() && !v->type().has_static_shape();
  });
  if (!symbolic) return;
  unsettled_ = CountUnsettled(graph);
  if (unsettled_ == 0) return;
  most_ = std::min(kMostVariants, kMostConstantBytes / std::max<size_t>(ConstantBytes(graph), 1));
}

Executable* ShapeVariants::Find(const Graph& graph, const CompileEnv& env, std::span<const Value> inputs) {
  if (most_ == 0) return nullptr;
  const Variant* kept = FindKept(inputs);
  if (!kept && !full_.load(std::memory_order_acquire)) {
    const std::lock_guard compiling(compiling_);
    kept = FindKept(inputs);
    if (!kept && !full_.load(std::memory_order_relaxed)) {
      auto made = std::make_unique<Variant>();
      for (const Value& v : inputs) made->inputs.push_back(InputOf(v));
      made->executable = Compile(graph, env, inputs);
      const std::lock_guard lock(mutex_);
      variants_.push_back(std::move(made));
      kept = variants_.back().get();
      if (variants_.size() >= most_) full_.store(true, std::memory_order_release);
    }
  }
  Executable* executable = kept ? kept->executable.get() : nullptr;
  last_.store(executable, std::memory_order_release);
  return executable;
}

// Null where numbers settle nothing, or do not fit together: the general executable then says why.
std::unique_ptr<Executable> ShapeVariants::Compile(const Graph& graph, const CompileEnv& env,
                                                   std::span<const Value> inputs) const {
  std::unique_ptr<Graph> clone = CloneForShapes(graph, inputs);
  if (!RunNeutralStage(*clone, env.skip_passes, env.limits, /*warn=*/false).ok()) return nullptr;
  if (CountUnsettled(*clone) >= unsettled_) return nullptr;
  CompileEnv inner = env;
  inner.is_subgraph = true;  // warnings about the model were given
  inner.in_variant = true;
  Result<std::unique_ptr<Executable>> executable = Executable::Compile(std::move(clone), inner);
  return executable.ok() ? std::move(executable).value() : nullptr;
}

ShapeVariants::Input ShapeVariants::InputOf(const Value& value) {
  if (!value.is_tensor()) return {value.kind(), DType::kUndefined, {}};
  return {value.kind(), value.tensor().dtype(), value.tensor().shape()};
}

const ShapeVariants::Variant* ShapeVariants::FindKept(std::span<const Value> inputs) const {
  const std::lock_guard lock(mutex_);
  for (const auto& v : variants_) {
    bool same = true;
    for (size_t i = 0; same && i < inputs.size(); ++i) {
      same = InputOf(inputs[i]) == v->inputs[i];
    }
    if (same) return v.get();
  }
  return nullptr;
}

int64_t ShapeVariants::plans_built() const {
  const std::lock_guard lock(mutex_);
  int64_t n = 0;
  for (const auto& v : variants_) n += v->executable ? v->executable->plans_built() : 0;
  return n;
}

}  // namespace quern
