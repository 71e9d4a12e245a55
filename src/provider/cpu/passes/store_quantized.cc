// A product on integers stores integers, where its result is quantized and nothing else reads it:
//   y = QuantizeLinear(quern.cpu.Conv(x, W, b, -, s), ys, yz)
//     ->  y = quern.cpu.Conv(x, W, b, -, s) {y_scale = ys, y_zero_point = yz, y_type}
// The epilogue rounds as QuantizeLinear does (common/epilogue.cc). Of operands that both come with the run:
//   y = QuantizeLinear(com.microsoft.MatMulIntegerToFloat(a, b, sa, sb, za, zb), ys, yz)
//     ->  y = QLinearMatMul(a, sa, za, b, sb, zb, ys, yz)
// which rounds once, by sa * sb / ys.
#include "graph/matcher.h"
#include "provider/cpu/common/quantization.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

bool IsOnIntegers(const Node& node) { return node.input(kScaleInput) && ProductType(node) == DType::kF32; }

Pattern Quantized(const char* product) {
  return Pattern::Op("QuantizeLinear",
                     {Pattern::Op(product, {}, kCpuDomain).As("product").MoreInputs().SingleUse().Where(IsOnIntegers),
                      Pattern::Constant(), Pattern::Constant().Optional()});
}

bool HasNoBias(const Node& product) { return !product.input(6); }

// The quantized product of run-time operands, if the node is one, in its place.
bool StoreOfRun(Graph& graph, Node* node) {
  static const Pattern kPattern = Pattern::Op(
      "QuantizeLinear",
      {Pattern::Op("MatMulIntegerToFloat", {}, "com.microsoft").As("product").MoreInputs().SingleUse().Where(HasNoBias),
       Pattern::Constant(), Pattern::Constant().Optional()});
  const std::optional<Match> m = kPattern.MatchNode(node);
  if (!m || !ByteQuantizationOf(*node)) return false;
  const auto zero_of = [&](GraphValue* given, const GraphValue& bytes) {
    if (given) return given;
    const bool is_signed = bytes.type().dtype == DType::kI8;
    return graph.AddConstant(graph.UniqueName(bytes.name() + "_zero"),
                             is_signed ? Tensor::Scalar(int8_t{0}) : Tensor::Scalar(uint8_t{0}));
  };
  const Node& p = *m->node("product");
  GraphValue *a_zero = zero_of(p.input(4), *p.input(0)), *b_zero = zero_of(p.input(5), *p.input(1));
  GraphValue* y_zero = zero_of(node->input(2), *node->output(0));
  Node* made =
      graph.AddNode({.name = p.name(),
                     .op_type = "QLinearMatMul",
                     .opset = 10,
                     .inputs = {p.input(0), p.input(2), a_zero, p.input(1), p.input(3), b_zero, node->input(1), y_zero},
                     .outputs = {graph.UniqueName(node->output(0)->name() + "_cpu")}},
                    node);
  made->output(0)->set_type(node->output(0)->type());
  graph.ReplaceAllUses(node->output(0), made->output(0));
  RemoveIfDead(graph, node);
  return true;
}

Result<int> Run(Graph& graph, const void*) {
  static const Pattern kPatterns[] = {Quantized("Conv"), Quantized("MatMul")};
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (StoreOfRun(graph, node)) {
      ++changes;
      continue;
    }
    for (const Pattern& pattern : kPatterns) {
      const std::optional<Match> m = pattern.MatchNode(node);
      if (!m) continue;
      const std::optional<Quantization> q = ByteQuantizationOf(*node);
      if (!q) continue;
      const DType type = node->output(0)->type().dtype;
      Node* product = m->node("product");
      product->SetAttribute("y_scale", q->scales[0]);
      product->SetAttribute("y_zero_point", int64_t{q->zero_points[0]});
      product->SetAttribute("y_type", static_cast<int64_t>(type));
      GraphValue* y = product->output(0);
      y->set_type(ValueType::Tensor(type, y->type().shape));
      graph.ReplaceAllUses(node->output(0), y);
      graph.Remove(node);
      ++changes;
      break;
    }
  }
  return changes;
}

}  // namespace

extern const Pass kStoreQuantized = {"cpu_store_quantized", "products on integers store integers", Run};

}  // namespace quern::cpu
