#include <chrono>
#include <string>

#include "graph/pass.h"
#include "graph/verifier.h"

namespace quern {
namespace {

Result<int> RunOnGraphs(Graph& graph, const Pass& pass, const void* context) {
  QUERN_ASSIGN_OR_RETURN(int changes, pass.run(graph, context));
  if (!pass.on_subgraphs) return changes;
  for (Node* n = graph.first_node(); n != nullptr; n = n->next()) {
    for (const auto& [attribute, subgraph] : n->subgraphs()) {
      Result<int> inner = RunOnGraphs(*subgraph, pass, context);
      if (!inner.ok()) return inner.status().WithContext(n->Describe() + ", subgraph '" + attribute + "'");
      changes += *inner;
    }
  }
  return changes;
}

}  // namespace

Result<std::vector<PassReport>> RunPasses(Graph& graph, std::span<const Pass* const> passes,
                                          const PassOptions& options) {
  QUERN_RETURN_IF_ERROR(Verify(graph, options.limits));
  std::vector<PassReport> reports;
  for (const Pass* pass : passes) {
    if (pass->required && options.skip.contains(pass->name)) {
      return InvalidArgument(std::string("pass ") + pass->name + " cannot be left out: kernels need what it makes");
    }
    reports.push_back({pass->name, 0, 0, options.skip.contains(pass->name), pass->required});
  }
  std::string changed;  // names of the passes that changed something in this round
  for (int round = 0; round < options.max_rounds; ++round) {
    changed.clear();
    for (size_t i = 0; i < passes.size(); ++i) {
      if (reports[i].skipped) continue;
      const auto start = std::chrono::steady_clock::now();
      const Result<int> changes = RunOnGraphs(graph, *passes[i], options.context);
      Status status = changes.status();
      if (status.ok() && *changes > 0) status = Verify(graph, options.limits);
      if (!status.ok()) return status.WithContext(std::string("pass ") + passes[i]->name);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      reports[i].changes += *changes;
      reports[i].seconds += seconds;
      if (*changes > 0) changed += std::string(changed.empty() ? "" : ", ") + passes[i]->name;
      if (*changes > 0 && options.after != nullptr) {
        options.after(graph, PassReport{passes[i]->name, *changes, seconds, false, passes[i]->required},
                      options.after_user);
      }
    }
    if (changed.empty()) break;
  }
  if (!changed.empty() && options.log != nullptr) {
    options.log->Log(LogLevel::kWarning, "graph '" + graph.name + "': passes end after " +
                                             std::to_string(options.max_rounds) + " rounds though " + changed +
                                             " still changed something");
  }
  return reports;
}

}  // namespace quern
