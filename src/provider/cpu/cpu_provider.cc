#include "provider/cpu/cpu_provider.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include "graph/text.h"
#include "kernels/peak.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/widened.h"
#include "provider/cpu/cpu_executable.h"
#include "provider/cpu/plan_time.h"
#include "provider/cpu/sized/sized_provider.h"
#include "provider/describe_nodes.h"

namespace quern::cpu {
namespace {

struct CpuProvider {
  CpuConfig config;
  std::shared_ptr<Executor> executor;
  MemoryBudget weights;  // of all its executables

  CpuProvider(CpuConfig c, std::shared_ptr<Executor> e)
      : config(std::move(c)), executor(std::move(e)), weights(config.limits.memory_bytes) {
    config.run_time_drivers = std::make_shared<kernels::RunTimeDrivers>(SelectOptionsFor(config));
  }
};

// The first operand that plans must know and that is known only when a run brings it.
const GraphValue* OperandOfRun(const Node& node, const CpuOp& op) {
  for (int i = 0; i < std::min(node.num_inputs(), 32); ++i) {
    const GraphValue* v = node.input(i);
    if ((op.planned_inputs >> i & 1) && v && !IsKnownToPlan(*v)) return v;
  }
  return nullptr;
}

// Operators on elements or memory of one float32 input whose kernels ask for no rank before a plan has it; what else
// they read is constant.
bool TakesAnyRank(const Node& node) {
  static constexpr std::array<std::string_view, 12> kOperators = {
      "Abs", "Exp", "Identity", "LeakyRelu", "Log", "Neg", "Relu", "Sigmoid", "Squeeze", "Sqrt", "Tanh", "Unsqueeze"};
  if (!node.domain().empty() || std::ranges::find(kOperators, node.op_type()) == kOperators.end()) return false;
  const GraphValue* axes = node.num_inputs() > 1 ? node.input(1) : nullptr;
  return node.input(0)->type().is_tensor() && node.input(0)->type().dtype == DType::kF32 &&
         (!axes || (axes->is_constant() && axes->type().rank() <= 1));
}

// Empty when the provider takes the node.
std::string WhyNot(const Node& node, const CpuConfig& config) {
  if (IsPlanTimeNode(node)) return {};
  const CpuOp* op = FindCpuOp(node.domain(), node.op_type());
  if (!op) return "no CPU kernel for " + node.op_type();
  if (const auto version = FindOpVersion(node); !version.ok()) return version.status().message();
  const bool any_rank = TakesAnyRank(node);
  for (const GraphValue* v : node.inputs()) {
    if (v && (v->type().kind != ValueKind::kTensor || v->type().dtype == DType::kUndefined ||
              (!v->type().shape && !any_rank))) {
      return "input '" + v->name() + "' is a " + TypeToString(v->type()) + ", its type must be known";
    }
  }
  if (const GraphValue* v = OperandOfRun(node, *op)) return "input '" + v->name() + "' comes with the run";
  if (!any_rank && !ShapesFollow(node)) return "the output's size depends on data";
  if (!op->reject) return {};
  const std::string why = op->reject(node, config);
  return !why.empty() && HasHalfInput(node) ? RejectWidened(node, config) : why;
}

int32_t ClaimNodes(void* self, const quern_graph_view* view, quern_claim_sink* sink) {
  const auto& provider = *static_cast<CpuProvider*>(self);
  for (int32_t i = 0; i < static_cast<int32_t>(view->nodes.size()); ++i) {
    const std::string why = WhyNot(*view->nodes[i].node, provider.config);
    if (why.empty()) {
      HostApi()->claim(sink, &i, 1, 0);
    } else if (!FindSizedOp(view->nodes[i].node->domain(), view->nodes[i].node->op_type())) {
      HostApi()->reject(sink, i, why.c_str());
    }
  }
  return 0;
}

int32_t Compile(void* self, const quern_graph_view* cluster, const char* options_json, void** executable) {
  auto& provider = *static_cast<CpuProvider*>(self);
  Result<std::unique_ptr<CpuExecutable>> exe = CpuExecutable::Compile(
      *cluster->graph, provider.config, *provider.executor, &provider.weights, AsksForProfile(options_json));
  if (!exe.ok()) return ReportStatus(exe.status());
  *executable = std::move(exe).value().release();
  return 0;
}

int32_t Plan(void*, void* executable, const quern_plan_args* args, quern_plan_sink* sink, void** out) {
  auto& exe = *static_cast<CpuExecutable*>(executable);
  Result<std::unique_ptr<CpuPlan>> plan = CpuPlan::Build(exe, *args);
  if (!plan.ok()) return ReportStatus(plan.status());
  for (int i = 0; i < exe.num_outputs(); ++i) {
    const TensorSpec& spec = (*plan)->output(i).spec;
    HostApi()->set_output(sink, i, static_cast<int32_t>(spec.dtype), spec.shape.rank(), spec.shape.begin());
  }
  HostApi()->set_workspace(sink, (*plan)->workspace_bytes());
  *out = std::move(plan).value().release();
  return 0;
}

int32_t Run(void*, void* plan, const quern_run_args* args, void**) {
  return ReportStatus(static_cast<const CpuPlan*>(plan)->Run(*args));
}

using Json = nlohmann::ordered_json;

void AddDescription(const KernelDescription& d, Json& out) {
  out["kernel"] = d.kernel;
  out["why"] = d.why;
  if (!d.layout.empty()) out["layout"] = d.layout;
  if (d.packed_bytes > 0) out["packed_bytes"] = d.packed_bytes;
  for (const auto& [row, reason] : d.rejected) out["rejected"].push_back({{"kernel", row}, {"reason", reason}});
}

// The name of what runs for each node: for the shapes of the plan, when there is one.
std::vector<std::string> KernelNames(const CpuExecutable& exe, const CpuPlan* plan) {
  std::vector<std::string> names;
  for (const CompiledNode& n : exe.nodes()) names.push_back(n.kernel ? n.kernel->Describe().kernel : "plan");
  if (!plan) return names;
  for (const BoundSteps::Step& s : plan->steps().steps) {
    if (s.node < 0) continue;
    if (std::string name = s.step->Describe().kernel; !name.empty()) names[s.node] = std::move(name);
  }
  return names;
}

// Of the steps that run side by side: the group, from 1 on, and in it the worker ("2.1"); empty for others.
std::vector<std::string> PlacesSideBySide(const CpuPlan& plan) {
  std::vector<std::string> places(plan.steps().steps.size());
  int group = 0;
  for (const SideBySide& g : plan.side_by_side()) {
    ++group;
    for (size_t w = 0; w < g.workers.size(); ++w) {
      for (const StepRange& range : g.workers[w]) {
        for (size_t i = range.first; i < range.end; ++i) {
          places[i] = std::to_string(group) + "." + std::to_string(w + 1);
        }
      }
    }
  }
  return places;
}

Json ProfileJson(const CpuExecutable& exe, const CpuPlan* plan) {
  const std::vector<std::string> kernels = KernelNames(exe, plan);
  Json list = Json::array();
  for (size_t i = 0; i < exe.nodes().size(); ++i) {
    Json node = NodeName(*exe.nodes()[i].node);
    node["kernel"] = kernels[i];
    if (const std::string peak = kernels::PeakNameOf(kernels[i]); !peak.empty()) node["peak"] = peak;
    AddTimes(exe.times()->sum(i), node);
    list.push_back(std::move(node));
  }
  if (const NodeTimes::Sum copies = exe.times()->sum(exe.nodes().size()); copies.runs > 0) {
    list.push_back(
        {{"name", "copies"}, {"op", "copy"}, {"domain", ""}, {"outputs", Json::array()}, {"kernel", "copy"}});
    AddTimes(copies, list.back());
  }
  return list;
}

// {"text", "passes": [], "nodes": [{"name", "op", "domain", "outputs", "kernel", "why", "layout", "packed_bytes",
// "rejected": []}], "steps": [], "profile": []}
const char* DescribeExecutable(void*, void* executable, void* plan) {
  const auto& exe = *static_cast<const CpuExecutable*>(executable);
  Json doc;
  doc["text"] = PrintGraph(exe.graph(), {});
  for (const PassReport& p : exe.passes()) {
    doc["passes"].push_back({{"name", p.name}, {"changes", p.changes}, {"seconds", p.seconds}});
    if (p.skipped) doc["passes"].back()["skipped"] = true;
    if (p.required) doc["passes"].back()["required"] = true;
  }
  doc["nodes"] = Json::array();
  for (const CompiledNode& n : exe.nodes()) {
    Json node = NodeName(*n.node);
    if (n.kernel) {
      AddDescription(n.kernel->Describe(), node);
    } else {
      node["kernel"] = "plan";
      node["why"] = "small integers that follow from shapes: computed once per plan";
    }
    doc["nodes"].push_back(std::move(node));
  }
  if (plan) {
    const auto& p = *static_cast<const CpuPlan*>(plan);
    doc["workspace_bytes"] = p.workspace_bytes();
    doc["steps"] = Json::array();
    const std::vector<std::string> places = PlacesSideBySide(p);
    for (size_t i = 0; i < p.steps().steps.size(); ++i) {
      const BoundSteps::Step& s = p.steps().steps[i];
      Json step;
      if (!places[i].empty()) step["side_by_side"] = places[i];
      if (s.node >= 0) {
        step["node"] = exe.nodes()[s.node].node->name();
        step["op"] = exe.nodes()[s.node].node->op_type();
        const GraphValue* out = exe.nodes()[s.node].node->output(0);
        if (out) step["output"] = out->name();
      } else {
        step["op"] = "copy";
      }
      KernelDescription d = s.step->Describe();
      if (d.kernel.empty() && s.node >= 0) d = exe.nodes()[s.node].kernel->Describe();
      AddDescription(d, step);
      step["scratch_bytes"] = s.step->scratch_bytes();
      doc["steps"].push_back(std::move(step));
    }
  }
  if (exe.times()) doc["profile"] = ProfileJson(exe, static_cast<const CpuPlan*>(plan));
  return TextOf(doc);
}

}  // namespace

std::shared_ptr<Provider> MakeCpuProvider(CpuConfig config, std::shared_ptr<Executor> executor) {
  quern_provider p{};
  p.struct_size = sizeof p;
  p.abi_version = QUERN_PROVIDER_ABI_VERSION;
  p.self = new CpuProvider(std::move(config), std::move(executor));
  p.name = "cpu";
  p.version = "1";
  p.flags = QUERN_PROVIDER_STRIDED;
  p.claim = ClaimNodes;
  p.compile = Compile;
  p.destroy_executable = [](void*, void* e) { delete static_cast<CpuExecutable*>(e); };
  p.plan = Plan;
  p.destroy_plan = [](void*, void* plan) { delete static_cast<CpuPlan*>(plan); };
  p.run = Run;
  p.describe = DescribeExecutable;
  p.release_text = [](void*, const char* text) { free(const_cast<char*>(text)); };
  p.destroy = [](void* self) { delete static_cast<CpuProvider*>(self); };
  return Provider::Create(p).value();
}

}  // namespace quern::cpu
