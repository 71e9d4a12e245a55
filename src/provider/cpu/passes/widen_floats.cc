// Operators of 16-bit floats whose kernels are those of float32:
//   y = Softmax(x)  ->  y = Cast(Softmax(Cast(x, f32)), f16)
// Constants are widened once. Between two such operators nothing is rounded: results are nearer to the exact ones, and
// to onnxruntime's on CPUs that add no 16-bit floats.
#include <map>

#include "provider/cpu/common/widened.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

class Widener {
 public:
  explicit Widener(Graph& graph) : graph_(graph) {}

  Status Widen(Node* node) {
    NodeSpec spec{.name = node->name(),
                  .domain = node->domain(),
                  .op_type = node->op_type(),
                  .opset = node->opset(),
                  .attributes = node->attributes()};
    for (int i = 0; i < node->num_inputs(); ++i) {
      QUERN_ASSIGN_OR_RETURN(GraphValue* const v, Float32(node->input(i), node));
      spec.inputs.push_back(v);
    }
    for (const GraphValue* v : node->outputs()) {
      spec.outputs.push_back(v ? graph_.UniqueName(v->name() + "_f32") : "");
    }
    Node* made = graph_.AddNode(std::move(spec), node);
    for (int i = 0; i < node->num_outputs(); ++i) {
      GraphValue *old = node->output(i), *v = made->output(i);
      if (!old) continue;
      v->set_type(old->type());
      v->set_data(old->data());
      if (IsHalf(old->type().dtype)) {
        v->set_type(Typed(*old, DType::kF32));
        GraphValue* rounded = Cast(v, old->type().dtype, node);
        unrounded_[rounded] = v;
        v = rounded;
      }
      graph_.ReplaceAllUses(old, v);
    }
    graph_.Remove(node);
    return OkStatus();
  }
  // Roundings that no one reads any more.
  void Finish() {
    for (const auto& [rounded, from] : unrounded_) {
      if (rounded->uses().empty()) graph_.Remove(rounded->producer());
    }
  }

 private:
  static ValueType Typed(const GraphValue& like, DType dtype) {
    ValueType t = like.type();
    t.dtype = dtype;
    return t;
  }
  GraphValue* Cast(GraphValue* v, DType to, Node* before) {
    Node* cast = graph_.AddNode({.op_type = "Cast",
                                 .opset = 13,
                                 .inputs = {v},
                                 .outputs = {graph_.UniqueName(v->name() + "_" + DTypeName(to))},
                                 .attributes = {{"to", static_cast<int64_t>(to)}}},
                                before);
    cast->output(0)->set_type(Typed(*v, to));
    return cast->output(0);
  }
  Result<GraphValue*> Float32(GraphValue* v, Node* before) {
    if (!v || !IsHalf(v->type().dtype)) return v;
    if (const auto found = unrounded_.find(v); found != unrounded_.end()) return found->second;
    GraphValue*& wide = wide_[v];
    if (wide) return wide;
    if (v->is_constant()) {
      Result<Tensor> widened = WidenConstant(v->constant()->tensor());
      if (!widened.ok()) return widened.status().WithContext("constant '" + v->name() + "' as float32");
      wide = graph_.AddConstant(graph_.UniqueName(v->name() + "_f32"), std::move(widened).value());
    } else {
      wide = Cast(v, DType::kF32, before);
    }
    return wide;
  }

  Graph& graph_;
  std::map<const GraphValue*, GraphValue*> wide_;  // nodes are seen in order: a Cast stands before all later readers
  std::map<GraphValue*, GraphValue*> unrounded_;
};

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  Widener widener(graph);
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (!HasHalfInput(*node)) continue;
    const CpuOp* op = FindCpuOp(node->domain(), node->op_type());
    if (!op || !op->reject || op->reject(*node, context.config).empty()) continue;
    if (!RejectWidened(*node, context.config).empty()) continue;
    QUERN_RETURN_IF_ERROR(widener.Widen(node));
    ++changes;
  }
  widener.Finish();
  return changes;
}

}  // namespace

extern const Pass kWidenFloats = {"cpu_widen_floats", "operators of 16-bit floats to those of float32", Run,
                                  /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
