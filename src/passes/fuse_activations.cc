// Activations that are written out become one node:
//   %y = %x * Sigmoid(a * %x)                      ->  %y = Swish(%x) {alpha = a}
//   %y = Log(Exp(%x) + 1)                          ->  %y = Softplus(%x)
//   %y = %x * Tanh(Softplus(%x))                   ->  %y = Mish(%x)
//   %y = Clip(a * %x + b, 0, c) / c                ->  %y = HardSigmoid(%x) {alpha = a / c, beta = b / c}
//   %y = %x * Clip(%x + 3, 0, 6) / 6               ->  %y = HardSwish(%x)
//   %y = %x * HardSigmoid(%x) {1 / 6, 0.5}         ->  %y = HardSwish(%x)
//   %y = Max(%x, a * %x), 0 < a < 1; PRelu(%x, a)  ->  %y = LeakyRelu(%x) {alpha = a}
//   %y = Where(%x < 0, a * %x, %x)                 ->  %y = LeakyRelu(%x) {alpha = a}
//   %y = Min(Max(%x, a), b)                        ->  %y = Clip(%x, a, b), or Relu(%x)
// in any order of the products and bounds. Nothing else reads the values in between. A Softplus is finite where its Exp
// is not.
#include <cmath>
#include <limits>

#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kBoundsSince = 13;    // Clip and Relu as they are written here
constexpr int kBFloat16Since = 22;  // of the activations that came before that type

struct Activation {
  const char* op_type;
  int since;
  GraphValue* x;
  std::map<std::string, Attribute, std::less<>> attributes = {};
};

bool IsProduct(const Node& n) { return IsWhole(n, "Mul") || IsWhole(n, "Div"); }

// The number `a` in a * x, nothing for other values. In between nothing else reads.
std::optional<double> MultipleOf(GraphValue* v, const GraphValue* x) {
  if (v == x) return 1;
  if (!HasOneReader(v)) return std::nullopt;
  const Factored p = FactorsOf(v);
  return p.factors.size() == 1 && p.factors[0] == x ? std::optional(p.number) : std::nullopt;
}

// Calls gated(x, gate) for a product of two values in both orders, until it gives something.
template <typename F>
std::optional<Activation> FromFactors(const Node& n, F gated) {
  if (!IsProduct(n)) return std::nullopt;
  const Factored p = FactorsOf(n.output(0));
  for (size_t i = 0; p.factors.size() == 2 && i < 2; ++i) {
    if (!HasOneReader(p.factors[1 - i])) continue;
    if (std::optional<Activation> a = gated(p.factors[i], p.factors[1 - i], p.number)) return a;
  }
  return std::nullopt;
}

std::optional<Activation> ReadSwish(const Node& n) {
  return FromFactors(n, [](GraphValue* x, GraphValue* gate, double number) -> std::optional<Activation> {
    const Node* sigmoid = ProducerOf(gate, "Sigmoid");
    if (sigmoid == nullptr || number != 1) return std::nullopt;
    const std::optional<double> alpha = MultipleOf(sigmoid->input(0), x);
    if (!alpha) return std::nullopt;
    return Activation{"Swish", 24, x, {{"alpha", static_cast<float>(*alpha)}}};
  });
}

std::optional<Activation> ReadMish(const Node& n) {
  return FromFactors(n, [](GraphValue* x, GraphValue* gate, double number) -> std::optional<Activation> {
    const Node* tanh = ProducerOf(gate, "Tanh");
    if (tanh == nullptr || number != 1 || !HasOneReader(tanh->input(0))) return std::nullopt;
    const Node* softplus = ProducerOf(tanh->input(0), "Softplus");
    if (softplus == nullptr || softplus->input(0) != x) return std::nullopt;
    return Activation{"Mish", 18, x};
  });
}

std::optional<Activation> ReadSoftplus(const Node& n) {
  if (!IsWhole(n, "Log") || !HasOneReader(n.input(0))) return std::nullopt;
  const auto sum = ShiftedOf(n.input(0));
  if (!sum || sum->number != 1 || !HasOneReader(sum->value)) return std::nullopt;
  const Node* exp = ProducerOf(sum->value, "Exp");
  return exp != nullptr ? std::optional(Activation{"Softplus", 1, exp->input(0)}) : std::nullopt;
}

// A value between two numbers.
struct Bounded {
  GraphValue* value;
  double low = -kInfinity, high = kInfinity;

  void Narrow(double from, double to) {
    low = std::fmax(low, from);
    high = std::fmin(high, to);
  }
};

// Narrows to what a Clip says; false when its bounds come with the run, or are none.
bool NarrowByClip(const Node& clip, Bounded& b) {
  std::optional<double> low = -kInfinity, high = kInfinity;
  if (clip.opset() < 11) {
    constexpr float kNone = std::numeric_limits<float>::infinity();
    low = static_cast<double>(clip.GetFloat("min", -kNone));
    high = static_cast<double>(clip.GetFloat("max", kNone));
  } else {
    if (clip.input(1) != nullptr) low = ScalarOf(clip.input(1), 0);
    if (clip.input(2) != nullptr) high = ScalarOf(clip.input(2), 0);
  }
  if (!low || !high || std::isnan(*low) || std::isnan(*high)) return false;
  b.Narrow(*low, *high);
  return true;
}

// Moves from the value to what the node that makes it bounds; false when it bounds nothing.
bool TakeBound(Bounded& b) {
  const int rank = b.value->type().has_rank() ? b.value->type().rank() : -1;
  const Node* n = b.value->producer();
  if (n == nullptr || n->output(0) != b.value) return false;
  if (IsWhole(*n, "Relu")) {
    b.Narrow(0, kInfinity);
    b.value = n->input(0);
    return true;
  }
  if (IsWhole(*n, "Clip")) {
    if (!NarrowByClip(*n, b)) return false;
    b.value = n->input(0);
    return true;
  }
  const bool is_max = IsWhole(*n, "Max");
  if ((!is_max && !IsWhole(*n, "Min")) || n->num_inputs() != 2) return false;
  for (int i = 0; i < 2; ++i) {
    const std::optional<double> number = ScalarOf(n->input(i), rank);
    if (!number || std::isnan(*number) || n->input(1 - i) == nullptr) continue;
    b.Narrow(is_max ? *number : -kInfinity, is_max ? kInfinity : *number);
    b.value = n->input(1 - i);
    return true;
  }
  return false;
}

// What bounds the value, taken off; bounds that leave no range are none. `v` itself may have any readers.
std::optional<Bounded> BoundedOf(GraphValue* v) {
  Bounded b{v};
  if (!TakeBound(b)) return std::nullopt;
  while (HasOneReader(b.value) && TakeBound(b)) {
  }
  return b.low < b.high ? std::optional(b) : std::nullopt;
}

// alpha * x + beta, between 0 and 1
struct Ramp {
  GraphValue* x;
  double alpha, beta;
};

// What `number` times the value is.
std::optional<Ramp> RampOf(GraphValue* v, double number) {
  const std::optional<Bounded> b = BoundedOf(v);
  if (!b || b->low != 0 || !IsAbout(number * b->high, 1) || !HasOneReader(b->value)) return std::nullopt;
  const auto sum = ShiftedOf(b->value);
  if (!sum) return std::nullopt;
  Ramp ramp{sum->value, number, number * sum->number};
  if (!HasOneReader(sum->value)) return ramp;
  const Factored p = FactorsOf(sum->value);
  if (p.factors.size() != 1) return ramp;
  ramp.x = p.factors[0];
  ramp.alpha *= p.number;
  return ramp;
}

std::optional<Activation> ReadHardSigmoid(const Node& n) {
  std::optional<Ramp> ramp;
  if (IsProduct(n)) {
    const Factored p = FactorsOf(n.output(0));
    if (p.factors.size() == 1 && HasOneReader(p.factors[0])) ramp = RampOf(p.factors[0], p.number);
  } else {
    ramp = RampOf(n.output(0), 1);
  }
  if (!ramp) return std::nullopt;
  return Activation{"HardSigmoid",
                    6,
                    ramp->x,
                    {{"alpha", static_cast<float>(ramp->alpha)}, {"beta", static_cast<float>(ramp->beta)}}};
}

std::optional<Activation> ReadHardSwish(const Node& n) {
  return FromFactors(n, [](GraphValue* x, GraphValue* gate, double number) -> std::optional<Activation> {
    std::optional<Ramp> ramp = RampOf(gate, number);
    if (const Node* whole = ProducerOf(gate, "HardSigmoid"); whole != nullptr && number == 1) {
      ramp = Ramp{whole->input(0), static_cast<double>(whole->GetFloat("alpha", 0.2f)),
                  static_cast<double>(whole->GetFloat("beta", 0.5f))};
    }
    if (!ramp || ramp->x != x || !IsAbout(ramp->alpha, 1.0 / 6) || !IsAbout(ramp->beta, 0.5)) return std::nullopt;
    return Activation{"HardSwish", 14, x};
  });
}

// What a Where takes for positive and negative elements of the positive choice; null for other conditions.
struct Choice {
  GraphValue *positive = nullptr, *negative = nullptr;
};
Choice ReadSign(const Node& where) {
  if (where.num_inputs() != 3 || where.input(1) == nullptr || where.input(2) == nullptr) return {};
  for (const auto& [op_type, is_positive] :
       {std::pair{"Greater", true}, {"GreaterOrEqual", true}, {"Less", false}, {"LessOrEqual", false}}) {
    const Node* compares = HasOneReader(where.input(0)) ? ProducerOf(where.input(0), op_type) : nullptr;
    GraphValue* x = where.input(is_positive ? 1 : 2);
    if (compares == nullptr || compares->input(0) != x || !x->type().has_rank()) continue;
    if (ScalarOf(compares->input(1), x->type().rank()) != 0.0) continue;
    return {x, where.input(is_positive ? 2 : 1)};
  }
  return {};
}

std::optional<Activation> ReadLeakyRelu(const Node& n) {
  const auto leaky = [](GraphValue* x, double alpha) {
    return Activation{"LeakyRelu", 6, x, {{"alpha", static_cast<float>(alpha)}}};
  };
  if (IsWhole(n, "PRelu")) {
    const auto slope = ScalarOf(n.input(1), n.output(0)->type().rank());
    return slope ? std::optional(leaky(n.input(0), *slope)) : std::nullopt;
  }
  if (IsWhole(n, "Where")) {
    const Choice c = ReadSign(n);
    const std::optional<double> slope = c.positive != nullptr ? MultipleOf(c.negative, c.positive) : std::nullopt;
    return slope ? std::optional(leaky(c.positive, *slope)) : std::nullopt;
  }
  if (!IsWhole(n, "Max") || n.num_inputs() != 2 || n.input(1) == nullptr) return std::nullopt;
  for (int i = 0; i < 2; ++i) {
    const std::optional<double> slope = MultipleOf(n.input(1 - i), n.input(i));
    if (slope && *slope > 0 && *slope < 1) return leaky(n.input(i), *slope);
  }
  return std::nullopt;
}

bool ReplaceByClip(Graph& graph, Node* n, const Bounded& b) {
  if (b.value->type().dtype != DType::kF32) return false;
  const auto bound = [&](const char* what, double number) -> GraphValue* {
    if (std::isinf(number)) return nullptr;
    return graph.AddConstant(graph.UniqueName(n->output(0)->name() + what), Tensor::Scalar(static_cast<float>(number)));
  };
  std::vector<GraphValue*> inputs = {b.value, bound("_low", b.low)};
  if (GraphValue* high = bound("_high", b.high)) inputs.push_back(high);
  ReplaceNode(graph, n, {.name = n->name(), .op_type = "Clip", .opset = kBoundsSince, .inputs = std::move(inputs)});
  return true;
}

Result<bool> Fuse(Graph& graph, Node* n, int newest) {
  const GraphValue* y = n->output(0);
  if (!n->domain().empty() || y == nullptr || !y->type().is_tensor() || !IsFloatType(y->type().dtype) ||
      !y->type().has_rank()) {
    return false;
  }
  const auto fits = [&](const GraphValue* x) {
    return x->type().is_tensor() && x->type().has_rank() && x->type().rank() == y->type().rank();
  };
  for (const auto& read : {ReadSwish, ReadMish, ReadSoftplus, ReadHardSwish, ReadHardSigmoid, ReadLeakyRelu}) {
    std::optional<Activation> a = read(*n);
    if (!a || !fits(a->x)) continue;
    if (y->type().dtype == DType::kF64 && !a->attributes.empty()) continue;  // attributes are float32
    const int since = y->type().dtype == DType::kBF16 ? std::max(a->since, kBFloat16Since) : a->since;
    if (newest < since) continue;
    ReplaceNode(graph, n,
                {.name = n->name(),
                 .op_type = a->op_type,
                 .opset = since,
                 .inputs = {a->x},
                 .attributes = std::move(a->attributes)});
    return true;
  }
  if (newest < kBoundsSince || (!IsWhole(*n, "Max") && !IsWhole(*n, "Min"))) return false;
  const std::optional<Bounded> b = BoundedOf(n->output(0));
  if (!b || !fits(b->value)) return false;
  if (b->low != 0 || b->high != kInfinity) return ReplaceByClip(graph, n, *b);
  ReplaceNode(graph, n, {.name = n->name(), .op_type = "Relu", .opset = kBoundsSince, .inputs = {b->value}});
  return true;
}

Result<int> Run(Graph& graph, const void* context) {
  const int newest = NewestOpset(context);
  return RewriteNodes(graph, [newest](Graph& g, Node* n) { return Fuse(g, n, newest); });
}

}  // namespace

extern const Pass kFuseActivations = {"fuse_activations", "activations that are written out", Run};

}  // namespace quern
