// A product of dequantized operands runs on the integers as they are stored:
//   y = MatMul(DequantizeLinear(x, sx, zx), DequantizeLinear(const W, sw, zw))
//     ->  y = quern.cpu.MatMul(x, W, -, -, sx * sw, zw) {x_zero_point = zx}
// Gemm with a bias and Conv (channels last, between transposes) likewise; a bias is int32 where it is dequantized by
// sx * sw, else float32. The weights of a Conv may come with the run, and so may both sides of a MatMul:
//   y = MatMul(DequantizeLinear(a, sa, za), DequantizeLinear(b, sb, zb))
//     ->  y = com.microsoft.MatMulIntegerToFloat(a, b, sa, sb, za, zb)
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/matcher.h"
#include "provider/cpu/common/constant_expression.h"
#include "provider/cpu/common/quantization.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

bool HoldsBytes(const GraphValue& v) { return IsByte(v.type().dtype); }

Pattern Dequantized(Pattern stored, const char* name) {
  return Pattern::Op("DequantizeLinear", {std::move(stored), Pattern::Constant(), Pattern::Constant().Optional()})
      .As(name);
}

Pattern Product(const char* op) {
  return Pattern::Op(
      op, {Dequantized(Pattern::Any("x").WhereValue(HoldsBytes), "x_real"),
           Dequantized(Pattern::Any("w").WhereValue(HoldsBytes), "w_real"), Pattern::Any("bias").Optional()});
}

// What the node multiplies, in numbers.
struct Integers {
  Quantization x;
  DType weights_type;
  Tensor weights;              // contiguous bytes; undefined where they come with the run
  int64_t taps = 1;            // products in a sum
  int64_t n = 0;               // output channels
  int64_t inner = 1;           // weight i belongs to channel i / inner % n
  std::vector<float> scales;   // [n], sx * sw
  std::vector<int32_t> zeros;  // [n], of the weights
};

std::optional<Integers> Read(const Node& node, const Match& m) {
  const std::optional<Quantization> x = QuantizationOf(*m.node("x_real")), w = QuantizationOf(*m.node("w_real"));
  if (!x || !w || !x->per_tensor()) return std::nullopt;
  const ValueType& type = m.value("w")->type();
  const Tensor* constant = ConstantTensor(m.value("w"));
  if (!constant && !node.Is("Conv")) return std::nullopt;
  if (!type.has_static_shape() || Product(*type.shape).is_constant(0)) return std::nullopt;
  Integers p;
  p.x = *x;
  p.weights_type = type.dtype;
  if (constant) {
    Result<Tensor> weights = constant->Contiguous();
    if (!weights.ok()) return std::nullopt;
    p.weights = std::move(weights).value();
  }
  Shape shape;
  for (const Dim& d : *type.shape) shape.push_back(d.value());
  const int channel_axis = node.Is("Conv") || node.GetInt("transB", 0) != 0 ? 0 : 1;
  if (node.Is("Conv") ? shape.rank() < 3 : shape.rank() != 2) return std::nullopt;
  p.n = shape[channel_axis];
  p.inner = shape.num_elements(channel_axis + 1, shape.rank());
  p.taps = shape.num_elements() / p.n;
  if (!w->per_tensor() && (w->axis != channel_axis || static_cast<int64_t>(w->scales.size()) != p.n))
    return std::nullopt;
  for (int64_t i = 0; i < p.n; ++i) {
    const size_t at = w->per_tensor() ? 0 : static_cast<size_t>(i);
    p.scales.push_back(x->scales[0] * w->scales[at]);
    p.zeros.push_back(w->zero_points[at]);
    if (!std::isnormal(p.scales.back())) return std::nullopt;
  }
  return p;
}

// The farthest that a byte may be from the zero point.
int64_t Farthest(DType type, int32_t zero) {
  const int64_t low = type == DType::kI8 ? -128 : 0;
  return std::max(std::abs(low - zero), std::abs(low + 255 - zero));
}

// Whether no sum of products leaves int32, whatever the input holds.
bool SumsFit(const Integers& p, DType x_type, const int32_t* bias) {
  const int64_t farthest = Farthest(x_type, p.x.zero_points[0]);
  const auto fits = [&](auto sum_of_weights) {
    for (int64_t c = 0; c < p.n; ++c) {
      const int64_t most = sum_of_weights(c) * farthest + (bias ? std::abs(int64_t{bias[c]}) : 0);
      if (most > std::numeric_limits<int32_t>::max()) return false;
    }
    return true;
  };
  // By their type alone, as all but very long sums do; then by what they are.
  if (fits([&](int64_t c) { return p.taps * Farthest(p.weights_type, p.zeros[static_cast<size_t>(c)]); })) return true;
  if (!p.weights.defined()) return false;
  const bool is_signed = p.weights_type == DType::kI8;
  const auto* bytes = static_cast<const uint8_t*>(p.weights.raw_data());
  const int64_t outer = p.taps / p.inner;
  return fits([&](int64_t c) {
    int64_t sum = 0;
    for (int64_t o = 0; o < outer; ++o) {
      const uint8_t* line = bytes + (o * p.n + c) * p.inner;
      for (int64_t i = 0; i < p.inner; ++i) {
        const int64_t w = is_signed ? int64_t{static_cast<int8_t>(line[i])} : int64_t{line[i]};
        sum += std::abs(w - p.zeros[static_cast<size_t>(c)]);
      }
    }
    return sum;
  });
}

// Exporters give a bias the scale sx * sw, rounded once or twice.
bool IsProductScale(float scale, float product) { return std::fabs(scale - product) <= 1e-6f * product; }

// The bias as [n]: int32 where it counts products, else float32; undefined where there is none. Nothing when it is of
// another form or comes with the run.
std::optional<Tensor> BiasOf(const GraphValue* bias, const Integers& p, const CompileContext& context) {
  if (!bias) return Tensor();
  if (!bias->type().shape || !IsRow(*bias->type().shape, Dims{1, p.n})) return std::nullopt;
  const auto row = [&](const Tensor& t) -> std::optional<Tensor> {
    const Result<Tensor> dense = t.Contiguous();
    if (!dense.ok()) return std::nullopt;
    return dense->Reshaped(Shape{p.n});
  };
  if (const Tensor* constant = ConstantTensor(bias)) {
    return constant->dtype() == DType::kF32 ? row(*constant) : std::nullopt;
  }
  const Node* node = DequantizedConstant(bias, *context.config);
  if (!node) return std::nullopt;
  const Tensor* stored = ConstantTensor(node->input(0));
  const std::optional<Quantization> q = QuantizationOf(*node);
  if (q && stored->dtype() == DType::kI32) {
    bool counts = true;
    for (size_t c = 0; c < p.scales.size(); ++c) {
      const size_t at = q->per_tensor() ? 0 : c;
      counts = counts && q->zero_points[at] == 0 && IsProductScale(q->scales[at], p.scales[c]);
    }
    if (counts) return row(*stored);
  }
  const Result<Tensor> real = ComputeConstant(*node, context);
  return real.ok() ? row(*real) : std::nullopt;
}

// Whether the node's attributes are those of a plain product or of a convolution that the driver takes.
bool IsPlain(const Node& node, const CpuConfig& config) {
  if (node.Is("Conv")) return FindCpuOp(kCpuDomain, "Conv")->reject(node, config).empty();
  if (!node.Is("Gemm")) return true;
  return !node.GetInt("transA", 0) && node.GetFloat("alpha", 1) == 1 &&
         (!node.input(2) || node.GetFloat("beta", 1) == 1);
}

bool Rewrite(Graph& graph, Node* node, const Match& m, const CompileContext& context) {
  if (!node->input(0)->type().shape || node->input(0)->type().rank() == 0 || !node->output(0)->type().shape ||
      !node->input(1)->type().shape) {
    return false;
  }
  const std::optional<Integers> p = Read(*node, m);
  if (!p || !IsPlain(*node, *context.config)) return false;
  const std::optional<Tensor> bias = BiasOf(node->input(2), *p, context);
  if (!bias) return false;
  const bool counted = bias->defined() && bias->dtype() == DType::kI32;
  if (!SumsFit(*p, m.value("x")->type().dtype, counted ? bias->data<int32_t>() : nullptr)) return false;

  const auto constant = [&](const char* what, Tensor content) {
    return graph.AddConstant(graph.UniqueName(m.value("w")->name() + what), std::move(content));
  };
  std::vector<GraphValue*> inputs = {m.value("x"), m.value("w"), nullptr, nullptr};
  if (bias->defined()) inputs[2] = constant("_bias", *bias);
  inputs.push_back(constant("_product_scale", Tensor::FromValues<float>(Shape{p->n}, p->scales)));
  if (std::any_of(p->zeros.begin(), p->zeros.end(), [](int32_t z) { return z != 0; })) {
    inputs.push_back(constant("_zeros", Tensor::FromValues<int32_t>(Shape{p->n}, p->zeros)));
  }
  Node* product = nullptr;
  if (node->Is("Conv")) {
    product = ReplaceChannelsLast(graph, node, "Conv", std::move(inputs), DType::kF32);
  } else {
    product = AddInternal(graph, "MatMul", *node, std::move(inputs), node->output(0)->type(), node);
    product->SetAttribute("transB", node->GetInt("transB", 0));
    graph.ReplaceAllUses(node->output(0), product->output(0));
    RemoveIfDead(graph, node);
  }
  product->SetAttribute("x_zero_point", int64_t{p->x.zero_points[0]});
  return true;
}

// Fewer rows of a product do not make up for packing the other side as integers.
constexpr int64_t kFewestRowsOfRun = 8;

// A MatMul whose sides both come with the run.
bool RewriteOfRun(Graph& graph, Node* node, const Match& m, const CpuConfig& config) {
  const GraphValue &a = *m.value("x"), &b = *m.value("w");
  if (!node->Is("MatMul") || ConstantTensor(&b) || !a.type().shape || a.type().rank() == 0) return false;
  const std::optional<Quantization> qa = QuantizationOf(*m.node("x_real")), qb = QuantizationOf(*m.node("w_real"));
  if (!qa || !qb || !qa->per_tensor() || !qb->per_tensor()) return false;
  if (!std::isnormal(qa->scales[0] * qb->scales[0])) return false;
  const int64_t largest = Farthest(a.type().dtype, qa->zero_points[0]) * Farthest(b.type().dtype, qb->zero_points[0]);
  const Dims& dims = *a.type().shape;
  const Dim k = dims.back(), rows = dims.size() > 1 ? dims[dims.size() - 2] : Dim(1);
  if (rows.is_constant() && rows.value() < kFewestRowsOfRun) return false;
  if (!k.is_constant() || k.value() > std::numeric_limits<int32_t>::max() / largest) return false;
  const Node &x = *m.node("x_real"), &w = *m.node("w_real");
  Node* product = graph.AddNode({.name = node->name(),
                                 .domain = "com.microsoft",
                                 .op_type = "MatMulIntegerToFloat",
                                 .opset = 1,
                                 .inputs = {m.value("x"), m.value("w"), x.input(1), w.input(1), x.input(2), w.input(2)},
                                 .outputs = {graph.UniqueName(node->output(0)->name() + "_cpu")}},
                                node);
  product->output(0)->set_type(node->output(0)->type());
  if (!FindCpuOp("com.microsoft", "MatMulIntegerToFloat")->reject(*product, config).empty()) {
    graph.Remove(product);
    return false;
  }
  graph.ReplaceAllUses(node->output(0), product->output(0));
  RemoveIfDead(graph, node);
  return true;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  static const Pattern kPatterns[] = {Product("Conv"), Product("MatMul"), Product("Gemm")};
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  for (Node* node : graph.nodes()) {
    for (const Pattern& pattern : kPatterns) {
      if (const std::optional<Match> m = pattern.MatchNode(node)) {
        changes += Rewrite(graph, node, *m, {&context.config, context.executor}) ||
                   RewriteOfRun(graph, node, *m, context.config);
        break;
      }
    }
  }
  return changes;
}

}  // namespace

extern const Pass kMultiplyStored = {"cpu_multiply_stored", "products of dequantized operands on integers", Run};

}  // namespace quern::cpu
