#include "provider/cpu/cpu_infer.h"

#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

Status (*Lookup(const Node& node))(InferContext&) {
  const CpuOp* op = node.domain() == kCpuDomain ? FindCpuOp(kCpuDomain, node.op_type()) : nullptr;
  return op ? op->infer : nullptr;
}

InferOptions Options() {
  InferOptions options;
  options.lookup = Lookup;
  return options;
}

}  // namespace

Status InferClusterTypes(Graph& graph) { return InferShapes(graph, Options()); }

Result<std::vector<const GraphValue*>> UpdateCluster(const Graph& graph, std::span<const ValueType> inputs,
                                                     std::span<const Value> contents, ShapeTable& table) {
  return UpdateConcrete(graph, inputs, contents, Options(), table);
}

}  // namespace quern::cpu
