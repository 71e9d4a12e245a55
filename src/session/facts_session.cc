// The document about a session:
//   neutral {passes [{name, changes, seconds, skipped}], nodes, operators}
//   partition {providers [name], nodes [{name, op, domain, outputs, elements [per output a number, a formula of extents
//              as text, or null], provider, cluster, rejections [{provider, reason}]}],
//              clusters [{provider, nodes, inputs [name], outputs [name]}]}
//   compiled {packed_bytes, clusters [{provider, passes}], nodes [{name, op, domain, outputs, provider, cluster,
//   kernel,
//             why, layout, packed_bytes, rejected [{kernel, reason}]}]}      nodes as the providers run them
//   plan {source "last run" or "declared shapes", plans_built, inputs [{name, dtype, shape}], arena_bytes,
//         steps [{provider, cluster, workspace_bytes, steps [{node, op, kernel, scratch_bytes, side_by_side}]}],
//         values [{name, dtype, shape, place, bytes, offset}]}               null when shapes are not known
//                       side_by_side "GROUP.WORKER": steps of one group run at the same time, those of one worker one
//                       after another; absent for others
//   profile {clusters [{provider, nodes, runs, seconds}],
//            nodes [{name, op, domain, outputs, provider, cluster, kernel, runs, seconds, operations, bytes,
//            denormal_runs, peak}]}
//                       `peak` is the name of the measured loop (cpu: peaks) that bounds the kernel's arithmetic, where
//                       one does; the others are sums over all runs since the session was made, of a session that is
//                       profiled; `operations` are the multiplications and additions of products, `bytes` the operands
//                       and results, `denormal_runs` the runs in which the calling thread took or made
//                       denormal numbers that are not flushed. A node without runs is a view, or known to the plan. Of
//                       a provider that does not tell, clusters only. Nodes that run side by side have the time that
//                       each took: together more than the run's
//   subgraphs [{node, attribute, neutral, partition, compiled, plan, profile}]        of If, Loop, Scan
//   pack_cache {folder, limit_bytes, found, found_bytes, stored, stored_bytes, damaged, removed}
//                       weights since the session was made; absent without such a cache
//   compiled_for [{name, type, dtype, shape}]     the inputs for whose shapes the last run had the graph compiled; else
//   absent
#include <algorithm>
#include <array>

#include "base/mapped_file.h"
#include "graph/text.h"
#include "session/executable.h"
#include "session/facts.h"
#include "session/facts_json.h"
#include "session/plan.h"

namespace quern {
namespace {

constexpr std::array<std::string_view, 5> kStages = {"neutral", "partition", "compiled", "plan", "profile"};

Json PassesJson(std::span<const PassReport> passes) {
  Json list = Json::array();
  for (const PassReport& p : passes) {
    Json pass = {{"name", p.name}, {"changes", p.changes}, {"seconds", p.seconds}};
    if (p.skipped) pass["skipped"] = true;
    list.push_back(std::move(pass));
  }
  return list;
}

// What a provider says of a cluster; null when it says nothing.
Json Describe(const CompiledStep& step, void* plan) {
  const quern_provider& abi = step.provider->abi();
  if (!abi.describe) return nullptr;
  const char* text = abi.describe(abi.self, step.executable, plan);
  if (!text) return nullptr;
  Json doc = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (abi.release_text) abi.release_text(abi.self, text);
  return doc.is_object() ? doc : Json();
}

Json PackCacheJson(const PackCache& cache) {
  const PackCache::Counts counts = cache.counts();
  return {{"folder", cache.folder()},  {"limit_bytes", cache.limit_bytes()},
          {"found", counts.found},     {"found_bytes", counts.found_bytes},
          {"stored", counts.stored},   {"stored_bytes", counts.stored_bytes},
          {"damaged", counts.damaged}, {"removed", counts.removed}};
}

Json NeutralJson(const Executable& exe) {
  return {{"passes", PassesJson(exe.passes())},
          {"nodes", exe.graph().num_nodes()},
          {"operators", OperatorsJson(exe.graph())}};
}

// How many elements the value has: a number, a formula of symbolic extents, or null where its rank is not known.
Json ElementsJson(const GraphValue* v) {
  if (!v || !v->type().is_tensor() || !v->type().shape) return nullptr;
  const Dim elements = Product(*v->type().shape);
  if (elements.is_constant()) return elements.value();
  return elements.ToString();
}

Json PartitionJson(const Executable& exe) {
  Json doc;
  doc["providers"] = Json::array();
  for (const auto& p : exe.env().providers) {  // one of several parts is named once
    if (doc["providers"].empty() || doc["providers"].back() != p->name()) doc["providers"].push_back(p->name());
  }
  doc["nodes"] = Json::array();
  for (const Assignment& a : exe.partition().assignments) {
    Json node = NodeJson(*a.node);
    node["elements"] = Json::array();
    for (const GraphValue* v : a.node->outputs()) node["elements"].push_back(ElementsJson(v));
    node["provider"] = exe.env().providers[a.provider]->name();
    node["cluster"] = a.cluster;
    node["rejections"] = Json::array();
    for (const auto& [provider, reason] : a.rejections) {
      node["rejections"].push_back({{"provider", exe.env().providers[provider]->name()}, {"reason", reason}});
    }
    doc["nodes"].push_back(std::move(node));
  }
  doc["clusters"] = Json::array();
  for (const CompiledStep& s : exe.steps()) {
    Json inputs = Json::array(), outputs = Json::array();
    for (const GraphValue* v : s.cluster.inputs) inputs.push_back(v->name());
    for (const GraphValue* v : s.cluster.outputs) outputs.push_back(v->name());
    doc["clusters"].push_back({{"provider", s.provider->name()},
                               {"nodes", s.cluster.nodes.size()},
                               {"inputs", std::move(inputs)},
                               {"outputs", std::move(outputs)}});
  }
  return doc;
}

Json CompiledJson(const Executable& exe) {
  Json doc;
  int64_t packed = 0;
  Json clusters = Json::array(), nodes = Json::array();
  for (size_t i = 0; i < exe.steps().size(); ++i) {
    const CompiledStep& step = exe.steps()[i];
    Json said = Describe(step, nullptr);
    Json cluster = {{"provider", step.provider->name()}};
    if (said.contains("passes")) cluster["passes"] = std::move(said["passes"]);
    clusters.push_back(std::move(cluster));
    if (!said.contains("nodes") || !said["nodes"].is_array()) {
      said["nodes"] = Json::array();
      for (const Node* n : step.cluster.nodes) said["nodes"].push_back(NodeJson(*n));
    }
    for (Json& node : said["nodes"]) {
      if (!node.is_object()) continue;
      node["provider"] = step.provider->name();
      node["cluster"] = i;
      if (node.contains("packed_bytes") && node["packed_bytes"].is_number_integer()) {
        packed += node["packed_bytes"].get<int64_t>();
      }
      nodes.push_back(std::move(node));
    }
  }
  doc["packed_bytes"] = packed;
  doc["clusters"] = std::move(clusters);
  doc["nodes"] = std::move(nodes);
  return doc;
}

const char* PlaceName(SlotPlan::Place place) {
  switch (place) {
    case SlotPlan::Place::kRuntime:
      return "found at run time";
    case SlotPlan::Place::kInput:
      return "input";
    case SlotPlan::Place::kArena:
      return "arena";
    case SlotPlan::Place::kOutput:
      return "output";
    case SlotPlan::Place::kHome:
      return "provider memory";
  }
  return "?";
}

// A plan for the declared input shapes; null when they are not all numbers.
Result<std::shared_ptr<SessionPlan>> PlanDeclaredShapes(const Executable& exe) {
  std::vector<Value> inputs, outputs(exe.graph().outputs().size());
  for (const GraphValue* v : exe.graph().inputs()) {
    const ValueType& type = v->type();
    if (type.kind != ValueKind::kTensor || type.dtype == DType::kUndefined || !type.has_static_shape()) {
      return std::shared_ptr<SessionPlan>();
    }
    Shape shape;
    for (const Dim& d : *type.shape) {
      if (shape.rank() == kMaxRank) return std::shared_ptr<SessionPlan>();
      shape.push_back(d.value());
    }
    QUERN_RETURN_IF_ERROR(TensorBytes(type.dtype, shape).status());
    inputs.push_back(Tensor::Wrap(type.dtype, shape, nullptr));  // planning looks at types only
  }
  auto plan = std::make_shared<SessionPlan>(exe, PlanKey(inputs, outputs, {}));
  QUERN_RETURN_IF_ERROR(plan->Build(inputs, outputs, {}));
  return plan;
}

Result<Json> PlanJson(const Executable& exe) {
  std::shared_ptr<SessionPlan> plan = exe.LastPlan();
  const char* source = plan ? "last run" : "declared shapes";
  if (!plan) {
    QUERN_ASSIGN_OR_RETURN(plan, PlanDeclaredShapes(exe));
    if (!plan) return Json();
  }
  Json doc = {{"source", source}, {"plans_built", exe.plans_built()}};
  doc["inputs"] = Json::array();
  Json values = Json::array();
  for (size_t s = 0; s < exe.slots().size(); ++s) {
    const SlotPlan& slot = plan->slots()[s];
    Json value = {{"name", exe.slots()[s].value->name()}};
    if (slot.known) {
      value["dtype"] = DTypeName(slot.dtype);
      value["shape"] = std::vector<int64_t>(slot.shape.begin(), slot.shape.end());
    }
    if (exe.slots()[s].input_index >= 0) doc["inputs"].push_back(value);
    value["place"] = PlaceName(slot.place);
    if (slot.known) value["bytes"] = slot.bytes;
    if (slot.place == SlotPlan::Place::kArena) value["offset"] = slot.offset;
    values.push_back(std::move(value));
  }
  doc["arena_bytes"] = plan->arena_bytes();
  doc["steps"] = Json::array();
  for (size_t i = 0; i < exe.steps().size(); ++i) {
    const CompiledStep& step = exe.steps()[i];
    const StepPlan& planned = plan->steps()[i];
    Json entry = {{"provider", step.provider->name()}, {"cluster", i}};
    if (planned.plan) {
      entry["workspace_bytes"] = planned.workspace_bytes;
      Json said = Describe(step, planned.plan);
      if (said.contains("steps")) entry["steps"] = std::move(said["steps"]);
    } else {
      entry["planned"] = "when it runs: the shapes of its inputs depend on data";
    }
    doc["steps"].push_back(std::move(entry));
  }
  doc["values"] = std::move(values);
  return doc;
}

Json ProfileJson(const Executable& exe) {
  const std::shared_ptr<SessionPlan> plan = exe.LastPlan();
  Json clusters = Json::array(), nodes = Json::array();
  for (size_t i = 0; i < exe.steps().size(); ++i) {
    const CompiledStep& step = exe.steps()[i];
    const NodeTimes::Sum sum = exe.times()->sum(i);
    clusters.push_back({{"provider", step.provider->name()},
                        {"nodes", step.cluster.nodes.size()},
                        {"runs", sum.runs},
                        {"seconds", sum.seconds}});
    Json said = Describe(step, plan ? plan->steps()[i].plan : nullptr);
    if (!said.contains("profile") || !said["profile"].is_array()) continue;
    for (Json& node : said["profile"]) {
      if (!node.is_object()) continue;
      node["provider"] = step.provider->name();
      node["cluster"] = i;
      nodes.push_back(std::move(node));
    }
  }
  return {{"clusters", std::move(clusters)}, {"nodes", std::move(nodes)}};
}

// Members of one executable, and of those of its subgraphs.
Status AddStages(const Executable& general, std::string_view stage, Json& doc) {
  const Executable& exe = general.serving();
  if (&exe != &general) {
    for (const GraphValue* v : exe.graph().inputs()) doc["compiled_for"].push_back(ValueJson(*v));
  }
  const bool all = stage == "all";
  if (all || stage == "neutral") doc["neutral"] = NeutralJson(exe);
  if (all || stage == "partition") doc["partition"] = PartitionJson(exe);
  if (all || stage == "compiled") doc["compiled"] = CompiledJson(exe);
  if (all || stage == "plan") {
    QUERN_ASSIGN_OR_RETURN(doc["plan"], PlanJson(exe));
  }
  if (exe.times() && (all || stage == "profile")) doc["profile"] = ProfileJson(exe);
  for (const Node* n = exe.graph().first_node(); n; n = n->next()) {
    for (const auto& [attribute, subgraph] : n->subgraphs()) {
      const auto it = exe.subgraphs().find(subgraph.get());
      if (it == exe.subgraphs().end()) continue;
      Json sub = NodeJson(*n);
      sub["attribute"] = attribute;
      QUERN_RETURN_IF_ERROR(AddStages(*it->second, stage, sub));
      doc["subgraphs"].push_back(std::move(sub));
    }
  }
  return OkStatus();
}

Result<std::string> TextOf(const Executable& executable, std::string_view stage) {
  if (stage == "neutral") return PrintGraph(executable.graph());
  if (stage != "partition" && stage != "compiled") {
    return InvalidArgument("there is no text for stage '" + std::string(stage) +
                           "'; known are neutral, partition and compiled");
  }
  std::string text;
  for (const CompiledStep& step : executable.steps()) {
    if (!text.empty()) text += '\n';
    text += std::string("# provider ") + step.provider->name() + '\n';
    Json said = stage == "compiled" ? Describe(step, nullptr) : Json();
    if (said.contains("text") && said["text"].is_string()) {
      text += said["text"].get<std::string>();
    } else {
      text += PrintGraph(*step.cluster.graph);
    }
  }
  return text;
}

}  // namespace

Result<std::string> SessionFacts(const Executable& executable, std::string_view stage) {
  if (stage != "all" && std::find(kStages.begin(), kStages.end(), stage) == kStages.end()) {
    return InvalidArgument("there is no stage '" + std::string(stage) +
                           "'; known are neutral, partition, compiled, plan, profile and all");
  }
  if (stage == "profile" && !executable.times()) {
    return InvalidArgument("the session is not profiled: set the session option profile");
  }
  Json doc = NewDocument("session");
  QUERN_RETURN_IF_ERROR(AddStages(executable, stage, doc));
  if (const PackCache* cache = executable.env().pack_cache.get()) doc["pack_cache"] = PackCacheJson(*cache);
  return Dump(doc);
}

Result<std::string> SessionText(const Executable& executable, std::string_view stage) {
  QUERN_ASSIGN_OR_RETURN(std::string text, TextOf(executable.serving(), stage));
  // Constants read of a file that was cut short would be zeros.
  for (const auto& file : executable.graph().mapped_files) QUERN_RETURN_IF_ERROR(file->CheckIntact());
  return text;
}

}  // namespace quern
