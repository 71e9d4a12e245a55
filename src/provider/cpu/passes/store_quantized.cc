// A product on integers stores integers, where its result is quantized and nothing else reads it:
//   y = QuantizeLinear(quern.cpu.Conv(x, W, b, -, s), ys, yz)
//     ->  y = quern.cpu.Conv(x, W, b, -, s) {y_scale = ys, y_zero_point = yz, y_type}
// The epilogue rounds as QuantizeLinear does (common/epilogue.cc).
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

Result<int> Run(Graph& graph, const void*) {
  static const Pattern kPatterns[] = {Quantized("Conv"), Quantized("MatMul")};
  int changes = 0;
  for (Node* node : graph.nodes()) {
    for (const Pattern& pattern : kPatterns) {
      const std::optional<Match> m = pattern.MatchNode(node);
      if (!m) continue;
      const std::optional<Quantization> q = QuantizationOf(*node);
      const DType type = node->output(0)->type().dtype;
      if (!q || !q->per_tensor() || (type != DType::kI8 && type != DType::kU8)) continue;
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
