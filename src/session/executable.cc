#include "session/executable.h"

#include <algorithm>
#include <unordered_map>

#include "base/mapped_file.h"
#include "session/execution.h"
#include "session/neutral.h"
#include "session/plan.h"

namespace quern {
namespace {

std::string InputName(const Graph& graph, size_t i) { return "input '" + graph.inputs()[i]->name() + "'"; }

// A C++ bool of other bits than 0 and 1 is undefined wherever it is read.
Status CheckBools(const Graph& graph, size_t input, const Tensor& t) {
  QUERN_ASSIGN_OR_RETURN(const Tensor dense, t.Contiguous());
  const auto* bytes = static_cast<const uint8_t*>(dense.raw_data());
  const int64_t n = dense.num_elements();
  uint8_t all = 0;
  for (int64_t i = 0; i < n; ++i) all |= bytes[i];
  if (all <= 1) return OkStatus();
  return InvalidArgument(InputName(graph, input) + " is of type bool and holds a byte that is neither 0 nor 1");
}

}  // namespace

Result<std::unique_ptr<Executable>> Executable::Compile(std::unique_ptr<Graph> graph, const CompileEnv& env) {
  std::unique_ptr<Executable> exe(new Executable());
  exe->env_ = env;
  exe->graph_ = std::move(graph);
  exe->loose_.Examine(*exe->graph_);
  // What inference finds odd in a subgraph, that of the whole graph has told.
  QUERN_ASSIGN_OR_RETURN(exe->passes_, RunNeutralStage(*exe->graph_, env.skip_passes, env.limits, !env.is_subgraph));
  exe->graph_->DropFilePages();
  if (!env.in_variant) exe->variants_.Examine(*exe->graph_);
  QUERN_ASSIGN_OR_RETURN(exe->partition_, PartitionGraph(*exe->graph_, env.providers));
  QUERN_RETURN_IF_ERROR(exe->CompileSteps());
  exe->FindLifetimes();
  // What passes and providers read of mapped weights must have been the file's.
  QUERN_RETURN_IF_ERROR(exe->CheckFiles());
  exe->graph_->DropFilePages();
  return exe;
}

Status Executable::CheckFiles() const {
  for (const auto& file : graph_->mapped_files) QUERN_RETURN_IF_ERROR(file->CheckIntact());
  for (const auto& [graph, subgraph] : subgraphs_) QUERN_RETURN_IF_ERROR(subgraph->CheckFiles());
  return env_.pack_cache ? env_.pack_cache->CheckIntact() : OkStatus();
}

Executable::~Executable() {
  {
    std::lock_guard lock(mutex_);
    plans_.clear();
  }
  for (CompiledStep& s : steps_) {
    if (s.executable) s.provider->abi().destroy_executable(s.provider->abi().self, s.executable);
  }
}

Status Executable::CompileSteps() {
  // Subgraphs first: a provider's compile may ask nothing of them, but a run does.
  CompileEnv inner = env_;
  inner.is_subgraph = true;
  for (Node* n = graph_->first_node(); n; n = n->next()) {
    for (const auto& [attribute, subgraph] : n->subgraphs()) {
      Result<std::unique_ptr<Executable>> sub = Compile(subgraph->Clone(), inner);
      if (!sub.ok()) return sub.status().WithContext(n->Describe() + ": subgraph '" + attribute + "'");
      subgraphs_[subgraph.get()] = std::move(sub).value();
    }
  }
  std::unordered_map<const GraphValue*, int> slot_of;
  auto slot = [&](const GraphValue* v) {
    auto [it, fresh] = slot_of.emplace(v, static_cast<int>(slots_.size()));
    if (fresh) slots_.push_back({.value = v});
    return it->second;
  };
  for (size_t i = 0; i < graph_->inputs().size(); ++i) {
    const int s = slot(graph_->inputs()[i]);
    slots_[s].input_index = static_cast<int>(i);
  }
  for (Cluster& cluster : partition_.clusters) {
    CompiledStep s;
    s.provider = env_.providers[cluster.provider];
    const int index = static_cast<int>(steps_.size());
    for (const GraphValue* v : cluster.inputs) {
      s.inputs.push_back(slot(v));
      slots_[s.inputs.back()].last_reader = index;
    }
    for (const GraphValue* v : cluster.outputs) {
      s.outputs.push_back(slot(v));
      slots_[s.outputs.back()].producer = index;
    }
    const quern_provider& abi = s.provider->abi();
    const quern_graph_view view(cluster.graph);
    const std::string options =
        "{\"threads\":" + std::to_string(env_.concurrency) + (env_.profile ? ",\"profile\":true}" : "}");
    QUERN_RETURN_IF_ERROR(s.provider->Compile(view, options.c_str(), &s.executable));
    const bool device = s.provider->has_own_memory();
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      s.device_inputs.push_back(device && abi.input_kind &&
                                abi.input_kind(abi.self, s.executable, static_cast<int>(i)));
    }
    for (size_t i = 0; i < s.outputs.size(); ++i) {
      s.device_outputs.push_back(device && abi.output_kind &&
                                 abi.output_kind(abi.self, s.executable, static_cast<int>(i)));
    }
    s.cluster = std::move(cluster);
    steps_.push_back(std::move(s));
  }
  partition_.clusters.clear();
  if (env_.profile) times_ = std::make_unique<NodeTimes>(steps_.size());
  for (size_t i = 0; i < graph_->outputs().size(); ++i) {
    output_slots_.push_back(slot(graph_->outputs()[i]));
    Slot& s = slots_[output_slots_.back()];
    if (s.output_index < 0) s.output_index = static_cast<int>(i);
    s.last_reader = static_cast<int>(steps_.size());
  }
  return OkStatus();
}

void Executable::FindLifetimes() {
  const int count = static_cast<int>(steps_.size());
  for (Slot& s : slots_) s.last_use = std::max(s.last_reader, s.producer);
  for (const CompiledStep& step : steps_) {
    const bool accessible = step.provider->memory_is_host_accessible();
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      Slot& s = slots_[step.inputs[k]];
      if (step.device_inputs[k] && accessible && !s.home && s.input_index < 0) s.home = step.provider.get();
      if (!step.device_inputs[k] && step.provider->may_defer()) s.last_use = count;
    }
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      Slot& s = slots_[step.outputs[k]];
      if (step.device_outputs[k] && accessible) s.home = step.provider.get();
    }
  }
}

namespace {

// True unless an element of a sequence or map contradicts what is declared of it: operators rely on element types. The
// values of maps are single elements, whose shape files seldom tell.
bool ElementsFit(const ValueType& type, const Value& value) {
  if (value.kind() == ValueKind::kSequence && type.kind == ValueKind::kSequence && type.element) {
    return std::all_of(value.sequence().begin(), value.sequence().end(),
                       [&](const Value& v) { return ElementsFit(*type.element, v); });
  }
  if (value.kind() == ValueKind::kMap && type.kind == ValueKind::kMap && type.element) {
    ValueType element = *type.element;
    element.shape.reset();
    return std::visit(
        [&](const auto& map) {
          using Key = typename std::remove_cvref_t<decltype(map)>::key_type;
          const DType keys = std::is_same_v<Key, std::string> ? DType::kString : DType::kI64;
          const auto fits = [&](const auto& entry) { return ElementsFit(element, entry.second); };
          return (map.empty() || type.dtype == DType::kUndefined || type.dtype == keys) &&
                 std::all_of(map.begin(), map.end(), fits);
        },
        value.map().entries);
  }
  if (value.is_tensor() && type.kind == ValueKind::kTensor) return IsTensorWithin(value.tensor(), type);
  return MergeTypes(type, TypeOf(value)).ok();
}

}  // namespace

Status Executable::CheckInputs(std::span<const Value> inputs, bool planned) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& v = inputs[i];
    if (planned && v.is_tensor() && v.tensor().dtype() != DType::kBool) continue;
    const ValueType& type = graph_->inputs()[i]->type();
    if (!v.has_value()) {
      if (graph_->inputs()[i]->uses().empty() || type.kind == ValueKind::kOptional) continue;
      return InvalidArgument(InputName(*graph_, i) + " is missing; it is a " + TypeToString(type));
    }
    if (type.kind == ValueKind::kOptional) continue;
    const bool kind_known = type.kind != ValueKind::kNone && !(type.is_tensor() && type.dtype == DType::kUndefined);
    if (kind_known && v.kind() != type.kind) {
      return InvalidArgument(InputName(*graph_, i) + " is a " + TypeToString(type) + ", a " + ValueKindName(v.kind()) +
                             " was given");
    }
    if (!v.is_tensor()) {
      if (!ElementsFit(type, v)) {
        return InvalidArgument(InputName(*graph_, i) + " is a " + TypeToString(type) + ", its elements are others; a " +
                               TypeToString(TypeOf(v)) + " was given");
      }
      continue;
    }
    const Tensor& t = v.tensor();
    if (type.dtype != DType::kUndefined && t.dtype() != type.dtype) {
      return InvalidArgument(InputName(*graph_, i) + " has element type " + DTypeName(type.dtype) + ", " +
                             DTypeName(t.dtype()) + " was given");
    }
    // What a graph gives to its subgraphs was checked, or is made by operators.
    if (t.dtype() == DType::kBool && !env_.is_subgraph) QUERN_RETURN_IF_ERROR(CheckBools(*graph_, i, t));
    if (type.shape && !IsTensorWithin(t, type)) {
      return InvalidArgument(InputName(*graph_, i) + " has shape " + DimsToString(*type.shape) + ", " +
                             t.shape().ToString() + " was given");
    }
  }
  return OkStatus();
}

std::shared_ptr<SessionPlan> Executable::KeptPlan(uint64_t hash, std::span<const Value> inputs,
                                                  std::span<const Value> outputs, std::span<const Shape> planned_dims) {
  const std::lock_guard lock(mutex_);
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (!(*it)->key().Matches(hash, inputs, outputs, planned_dims)) continue;
    plans_.splice(plans_.begin(), plans_, it);
    return plans_.front();
  }
  return nullptr;
}

Result<std::shared_ptr<SessionPlan>> Executable::FindPlan(std::span<const Value> inputs, std::span<const Value> outputs,
                                                          std::span<const Shape> planned_dims, size_t most) {
  const uint64_t hash = PlanKey::Hash(inputs, outputs, planned_dims);
  const std::lock_guard building(building_);
  if (std::shared_ptr<SessionPlan> kept = KeptPlan(hash, inputs, outputs, planned_dims)) return kept;
  auto plan = std::make_shared<SessionPlan>(*this, PlanKey(inputs, outputs, planned_dims));
  QUERN_RETURN_IF_ERROR(plan->Build(inputs, outputs, planned_dims));
  CountPlan();
  const std::lock_guard lock(mutex_);
  while (plans_.size() >= most) {
    plans_.erase(std::next(plans_.begin(), static_cast<std::ptrdiff_t>(eviction_.Pick(plans_.size()))));
  }
  plans_.push_front(plan);
  return plan;
}

Status Executable::Run(std::span<const Value> inputs, std::span<Value> outputs, const RunEnv& env,
                       std::span<const Shape> planned_dims) {
  // A declared scalar takes any tensor of one element: models in the field are fed [1] there. An optional that is not
  // given holds nothing.
  std::vector<Value> adapted;
  for (size_t i = 0; i < inputs.size() && i < graph_->inputs().size(); ++i) {
    const ValueType& declared = graph_->inputs()[i]->type();
    Value value;
    if (!inputs[i].has_value() && declared.kind == ValueKind::kOptional) {
      value = Value::Optional(Value());
    } else if (inputs[i].is_tensor() && declared.shape && declared.shape->empty()) {
      const Tensor& t = inputs[i].tensor();
      if (t.rank() > 0 && t.num_elements() == 1) value = t.Reshaped(Shape{});
    }
    if (!value.has_value()) continue;
    if (adapted.empty()) adapted.assign(inputs.begin(), inputs.end());
    adapted[i] = std::move(value);
  }
  if (!adapted.empty()) {
    RunEnv own = env;
    own.given_away = adapted;
    return Run(adapted, outputs, own, planned_dims);
  }
  if (inputs.size() != graph_->inputs().size()) {
    return InvalidArgument("the model takes " + std::to_string(graph_->inputs().size()) + " inputs, " +
                           std::to_string(inputs.size()) + " were given");
  }
  if (outputs.size() != graph_->outputs().size()) {
    return InvalidArgument("the model gives " + std::to_string(graph_->outputs().size()) + " outputs, " +
                           std::to_string(outputs.size()) + " slots were given");
  }
  if (!env.want.empty() && env.want.size() != outputs.size()) {
    return InvalidArgument("`want` has " + std::to_string(env.want.size()) + " entries for " +
                           std::to_string(outputs.size()) + " outputs");
  }
  if (env.depth > env_.limits.subgraph_depth) return ResourceExhausted("subgraphs call one another too deeply");
  // What has a plan here fits the names of extents, and no variant serves it.
  std::shared_ptr<SessionPlan> plan =
      KeptPlan(PlanKey::Hash(inputs, outputs, planned_dims), inputs, outputs, planned_dims);
  QUERN_RETURN_IF_ERROR(CheckInputs(inputs, plan != nullptr));
  if (!plan && loose_.Differ(inputs)) {
    QUERN_ASSIGN_OR_RETURN(Executable * loose, loose_.Find(env_, inputs));
    return loose->Run(inputs, outputs, env, planned_dims);
  }
  loose_.NoneServes();
  if (plan || !planned_dims.empty()) variants_.NoneServes();
  if (!plan) {
    if (planned_dims.empty()) {
      if (Executable* variant = variants_.Find(*graph_, env_, inputs)) return variant->Run(inputs, outputs, env);
    }
    const size_t most = env.depth > 0
                            ? PlansKeptWithinARun(env_.plan_cache_size, static_cast<size_t>(graph_->num_nodes()))
                            : static_cast<size_t>(std::max(env_.plan_cache_size, 1));
    Result<std::shared_ptr<SessionPlan>> found = FindPlan(inputs, outputs, planned_dims, most);
    if (!found.ok() && !planned_dims.empty()) {
      // The larger shapes need not fit together (inputs that grow in ways the caller cannot see): these ones do.
      planned_dims = {};
      found = FindPlan(inputs, outputs, planned_dims, most);
    }
    QUERN_ASSIGN_OR_RETURN(plan, std::move(found));
  }
  QUERN_ASSIGN_OR_RETURN(std::unique_ptr<ExecutionContext> context, plan->Acquire());
  Status status = context->Run(*this, inputs, outputs, env, !planned_dims.empty());
  plan->Release(std::move(context));
  QUERN_RETURN_IF_ERROR(status);
  return env.depth > 0 ? OkStatus() : CheckFiles();  // whoever runs the outermost graph looks after all of them
}

Result<std::vector<std::optional<Shape>>> Executable::OutputShapes(std::span<const Value> inputs) const {
  if (loose_.Differ(inputs)) {
    QUERN_ASSIGN_OR_RETURN(const Executable* loose, loose_.Find(env_, inputs));
    return loose->OutputShapes(inputs);
  }
  QUERN_ASSIGN_OR_RETURN(const std::vector<SlotType> types, InferSlots(*this, inputs, {}));
  std::vector<std::optional<Shape>> shapes;
  for (int s : output_slots_) shapes.push_back(types[s].shape);
  return shapes;
}

std::shared_ptr<SessionPlan> Executable::LastPlan() const {
  std::lock_guard lock(mutex_);
  return plans_.empty() ? nullptr : plans_.front();
}

int64_t Executable::plans_built() const {
  int64_t n = plans_built_.load(std::memory_order_relaxed) + variants_.plans_built() + loose_.plans_built();
  for (const auto& [graph, sub] : subgraphs_) n += sub->plans_built();
  return n;
}

}  // namespace quern
