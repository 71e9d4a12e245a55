#include "session/neutral.h"

#include "graph/verifier.h"
#include "ops/infer.h"
#include "passes/passes.h"
#include "provider/host.h"

namespace quern {

Result<std::vector<PassReport>> RunNeutralStage(Graph& graph, const std::set<std::string>& skip, const Limits& limits,
                                                bool warn, bool one_opset) {
  NeutralPassContext context{limits};
  if (const auto import = graph.opset_imports.find(""); one_opset && import != graph.opset_imports.end()) {
    context.newest_opset = import->second;
  }
  PassOptions options;
  options.skip = skip;
  options.context = &context;
  options.log = &ProcessLogger();
  options.limits = limits;
  std::vector<std::string> warnings;
  InferOptions infer;
  infer.limits = limits;
  infer.warnings = &warnings;
  QUERN_RETURN_IF_ERROR(Verify(graph, limits));
  QUERN_RETURN_IF_ERROR(InferShapes(graph, infer));
  if (warn) {
    for (const std::string& w : warnings) ProcessLogger().Log(LogLevel::kWarning, w);
  }
  infer.warnings = nullptr;
  QUERN_ASSIGN_OR_RETURN(std::vector<PassReport> reports, RunPasses(graph, NeutralPasses(), options));
  QUERN_RETURN_IF_ERROR(InferShapes(graph, infer));
  return reports;
}

}  // namespace quern
