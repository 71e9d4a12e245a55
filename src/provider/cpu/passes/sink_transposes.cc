// Transposes move from the inputs of an operator to its outputs, where others may cancel them:
//   Add(Transpose(x, p), Transpose(y, p))  ->  Transpose(Add(x, y), p)
// for elementwise operators (constants are permuted), quantization with one scale, Concat, Split, Pad, Slice, Softmax,
// reductions and Resize (axes are renamed), LRN (this provider's takes channels last), shuffles of channels
// (sink_shuffle.h) and Reshape (sink_reshape.h). An operand that has no such transpose gets the inverse one; the move
// is made only when it takes away more transposes than it adds.
#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "provider/cpu/passes/edit.h"
#include "provider/cpu/passes/sink_reshape.h"
#include "provider/cpu/passes/sink_shuffle.h"
#include "tensor/tensor.h"

namespace quern::cpu {
namespace {

bool IsElementwise(const Node& node) {
  static constexpr std::string_view kOps =
      " Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil "
      "Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity "
      "IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round "
      "Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu Where "
      "Xor ";
  static const std::set<std::string_view> kOnBytes = {"QLinearAdd", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid"};
  return node.domain().empty() ? kOps.find(" " + node.op_type() + " ") != kOps.npos
                               : node.domain() == "com.microsoft" && kOnBytes.contains(node.op_type());
}

bool IsSingleElement(const GraphValue* v) {
  return v->type().shape &&
         std::all_of(v->type().shape->begin(), v->type().shape->end(), [](const Dim& d) { return d.is_constant(1); });
}

bool IsQuantizationByOneScale(const Node& node) {
  return (node.Is("QuantizeLinear") || node.Is("DequantizeLinear")) && IsSingleElement(node.input(1));
}

bool CanPermute(const GraphValue* constant, const Permutation& p) {
  const Tensor* t = ConstantTensor(constant);
  return t && DTypeBytes(t->dtype()) > 0 && t->rank() <= static_cast<int>(p.size()) && t->is_contiguous();
}

// A constant (CanPermute) as it would be before Transpose(p) of rank p.size(): ones are put before its dimensions
// first.
Result<Tensor> PermutedConstant(const GraphValue* v, const Permutation& inverse) {
  const Tensor& t = *ConstantTensor(v);
  const int rank = static_cast<int>(inverse.size());
  Shape from = Shape::Filled(rank, 1);
  for (int i = 0; i < t.rank(); ++i) from[rank - t.rank() + i] = t.dim(i);
  const Shape dense = from.ContiguousStrides();
  Shape to, strides;
  for (int64_t i : inverse) {
    to.push_back(from[static_cast<int>(i)]);
    strides.push_back(dense[static_cast<int>(i)]);
  }
  // Copies care for no alignment.
  return Tensor::WrapStrided(t.dtype(), to, strides, const_cast<void*>(t.unaligned_data()), t.owner()).Clone();
}

GraphValue* IntConstant(Graph& graph, std::string_view name, const std::vector<int64_t>& values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return graph.AddConstant(graph.UniqueName(name), Tensor::FromValues<int64_t>(shape, values));
}

std::optional<std::vector<int64_t>> ConstantInts(const GraphValue* v) {
  const Tensor* t = ConstantTensor(v);
  if (!t) return std::nullopt;
  Result<std::vector<int64_t>> values = ToInt64s(*t);
  return values.ok() ? std::optional(*values) : std::nullopt;
}

// How a node is written again on permuted operands. Data operands are the inputs that carry the permuted dimensions.
struct Rewrite {
  std::vector<int> data_inputs;                        // others stay, unless replaced
  std::map<int, std::vector<int64_t>> new_int_inputs;  // inputs that become these constants
  std::map<int, GraphValue*> new_inputs;
  std::map<std::string, Attribute, std::less<>> attributes;
  Permutation output_permutation;  // put after every output
  bool is_internal = false;        // the operator of this provider with that name
};

int64_t Normalized(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

// The list with entry i moved to p[i] (pads and scales hold one entry per dimension).
template <typename T>
std::vector<T> Scatter(const std::vector<T>& list, const Permutation& p) {
  std::vector<T> out(list.size());
  for (size_t i = 0; i < p.size(); ++i) out[p[i]] = list[i];
  return out;
}

std::optional<Rewrite> RewriteReduction(const Node& node, const Permutation& p, int rank) {
  Rewrite r{{0}, {}, {}, node.attributes(), p};
  const bool keep = node.GetInt("keepdims", 1) != 0;
  std::vector<int64_t> axes;
  if (node.input(1)) {
    const auto values = ConstantInts(node.input(1));
    if (!values) return std::nullopt;
    axes = *values;
  } else {
    axes = node.GetInts("axes");
  }
  if (axes.empty()) return std::nullopt;
  std::vector<int64_t> moved;
  std::set<int64_t> reduced;  // in the output order of the transpose
  for (int64_t a : axes) {
    reduced.insert(Normalized(a, rank));
    moved.push_back(p[Normalized(a, rank)]);
  }
  if (node.input(1)) {
    r.new_int_inputs[1] = moved;
  } else {
    r.attributes.insert_or_assign("axes", moved);
  }
  if (!keep) {
    // What is left of the permutation: source dimensions that stay, numbered anew.
    std::vector<int64_t> left;
    for (int i = 0; i < rank; ++i) {
      if (!reduced.contains(i)) left.push_back(p[i]);
    }
    std::vector<int64_t> sorted = left;
    std::sort(sorted.begin(), sorted.end());
    r.output_permutation.clear();
    for (int64_t d : left) {
      r.output_permutation.push_back(std::lower_bound(sorted.begin(), sorted.end(), d) - sorted.begin());
    }
  }
  return r;
}

std::optional<Rewrite> RewriteResize(Graph& graph, const Node& node, const Permutation& p, int rank) {
  if (node.FindAttribute<std::vector<int64_t>>("axes")) return std::nullopt;
  Rewrite r{{0}, {}, {}, node.attributes(), p};
  if (node.FindAttribute<float>("height_scale")) return std::nullopt;  // only ever of the last two dimensions
  if (const auto* values = node.FindAttribute<std::vector<float>>("scales")) {
    if (static_cast<int>(values->size()) != rank) return std::nullopt;
    r.attributes.insert_or_assign("scales", Scatter(*values, p));
  }
  const int scales = node.opset() < 11 ? 1 : 2;
  if (const GraphValue* sizes = node.input(3)) {
    const auto values = ConstantInts(sizes);
    if (!values || static_cast<int>(values->size()) != rank) return std::nullopt;
    r.new_int_inputs[3] = Scatter(*values, p);
  }
  if (const GraphValue* roi = node.opset() < 11 ? nullptr : node.input(1)) {
    const Tensor* t = ConstantTensor(roi);
    if (node.GetString("coordinate_transformation_mode", "") == "tf_crop_and_resize" || !t) return std::nullopt;
  }
  if (const GraphValue* s = node.input(scales)) {
    const Tensor* t = ConstantTensor(s);
    if (!t || t->dtype() != DType::kF32) return std::nullopt;
    if (t->num_elements() == rank) {
      const auto values = t->values<float>();
      const std::vector<float> moved = Scatter(std::vector<float>(values.begin(), values.end()), p);
      GraphValue* c =
          graph.AddConstant(graph.UniqueName(s->name() + "_t"), Tensor::FromValues<float>(Shape{rank}, moved));
      r.new_inputs[scales] = c;
    }
  }
  return r;
}

std::optional<Rewrite> RewriteSlice(const Node& node, const Permutation& p, int rank) {
  if (node.opset() < 10) {
    Rewrite r{{0}, {}, {}, node.attributes(), p};
    std::vector<int64_t> axes = node.GetInts("axes");
    for (size_t i = axes.size(); i < node.GetInts("starts").size(); ++i) axes.push_back(static_cast<int64_t>(i));
    for (int64_t& a : axes) a = p[Normalized(a, rank)];
    r.attributes.insert_or_assign("axes", axes);
    return r;
  }
  const auto starts = ConstantInts(node.input(1));
  if (!starts || !ConstantInts(node.input(2)) || (node.input(4) && !ConstantInts(node.input(4)))) return std::nullopt;
  std::vector<int64_t> axes;
  if (node.input(3)) {
    const auto values = ConstantInts(node.input(3));
    if (!values) return std::nullopt;
    axes = *values;
  } else {
    for (size_t i = 0; i < starts->size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  for (int64_t& a : axes) a = p[Normalized(a, rank)];
  Rewrite r{{0}, {}, {}, node.attributes(), p};
  r.new_int_inputs[3] = axes;
  return r;
}

std::optional<Rewrite> RewriteFor(Graph& graph, const Node& node, const Permutation& p, const CpuConfig& config) {
  const int rank = static_cast<int>(p.size());
  if (IsQuantizationByOneScale(node)) return Rewrite{{0}, {}, {}, node.attributes(), p};
  if (IsElementwise(node)) {
    Rewrite r{{}, {}, {}, node.attributes(), p};
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (node.Is("Clip") && i > 0) break;
      if (node.input(i)) r.data_inputs.push_back(i);
    }
    if (node.Is("QLinearAdd", "com.microsoft") || node.Is("QLinearMul", "com.microsoft")) {
      r.data_inputs = {0, 3};
    } else if (!node.domain().empty()) {
      r.data_inputs = {0};
    }
    return r;
  }
  if (node.Is("QLinearConcat", "com.microsoft")) {
    Rewrite r{{}, {}, {}, node.attributes(), p};
    for (int i = 2; i < node.num_inputs(); i += 3) r.data_inputs.push_back(i);
    r.attributes.insert_or_assign("axis", p[Normalized(node.GetInt("axis", 0), rank)]);
    return r;
  }
  // Pools that can take channels last as they are.
  if ((node.Is("QLinearAveragePool", "com.microsoft") || node.Is("QLinearGlobalAveragePool", "com.microsoft")) &&
      node.GetInt("channels_last", 0) == 0 && p == ToChannelsFirst(rank)) {
    Rewrite r{{0}, {}, {}, node.attributes(), p};
    r.attributes.insert_or_assign("channels_last", int64_t{1});
    return r;
  }
  if (node.Is("Concat")) {
    Rewrite r{{}, {}, {}, node.attributes(), p};
    for (int i = 0; i < node.num_inputs(); ++i) r.data_inputs.push_back(i);
    r.attributes.insert_or_assign("axis", p[Normalized(node.GetInt("axis", 0), rank)]);
    return r;
  }
  if (node.Is("Split") || ((node.Is("Softmax") || node.Is("LogSoftmax")) && node.opset() >= 13)) {
    Rewrite r{{0}, {}, {}, node.attributes(), p};
    r.attributes.insert_or_assign("axis", p[Normalized(node.GetInt("axis", node.Is("Split") ? 0 : -1), rank)]);
    return r;
  }
  if (node.Is("Pad") && !node.input(3)) {
    Rewrite r{{0}, {}, {}, node.attributes(), p};
    std::optional<std::vector<int64_t>> pads = node.opset() < 11 ? node.GetInts("pads") : ConstantInts(node.input(1));
    if (!pads || static_cast<int>(pads->size()) != 2 * rank) return std::nullopt;
    std::vector<int64_t> moved = Scatter(std::vector<int64_t>(pads->begin(), pads->begin() + rank), p);
    const std::vector<int64_t> ends = Scatter(std::vector<int64_t>(pads->begin() + rank, pads->end()), p);
    moved.insert(moved.end(), ends.begin(), ends.end());
    if (node.opset() < 11) {
      r.attributes.insert_or_assign("pads", moved);
    } else {
      r.new_int_inputs[1] = moved;
    }
    return r;
  }
  if (node.Is("LRN") && p == ToChannelsFirst(rank) && FindCpuOp(kCpuDomain, "LRN")->reject(node, config).empty()) {
    return Rewrite{{0}, {}, {}, node.attributes(), p, true};
  }
  if (node.Is("Slice")) return RewriteSlice(node, p, rank);
  if (node.Is("Resize") || node.Is("Upsample")) return RewriteResize(graph, node, p, rank);
  if (node.Is("ReduceMean") || node.Is("ReduceSum") || node.Is("ReduceMax") || node.Is("ReduceMin")) {
    return RewriteReduction(node, p, rank);
  }
  return std::nullopt;
}

// The permutation of the first transposed operand, if moving it below the node takes more away than it adds.
std::optional<Permutation> WorthMoving(const Node& node) {
  for (const GraphValue* v : node.inputs()) {
    if (!v || !v->type().shape) continue;
    const std::optional<Permutation> p = TransposePermutation(v->producer());
    if (!p) continue;
    int gained = 0, added = 0;
    std::set<const GraphValue*> seen;
    for (const GraphValue* w : node.inputs()) {
      if (!w || !seen.insert(w).second || w->is_constant()) continue;
      if (TransposePermutation(w->producer()) == p) {
        gained += w->uses().size() == 1 ||
                          std::all_of(w->uses().begin(), w->uses().end(), [&](const Use& u) { return u.node == &node; })
                      ? 2
                      : 1;
      } else if (!IsSingleElement(w)) {
        if (!w->type().shape || w->type().rank() != static_cast<int>(p->size())) return std::nullopt;
        added += 2;
      }
    }
    return gained > added ? p : std::nullopt;
  }
  return std::nullopt;
}

Result<bool> Sink(Graph& graph, Node* node, const CpuConfig& config) {
  const std::optional<Permutation> p = WorthMoving(*node);
  if (!p) return false;
  for (const GraphValue* v : node->outputs()) {
    if (!v || !v->type().shape) return false;
    if (IsElementwise(*node) && v->type().rank() != static_cast<int>(p->size())) return false;
  }
  std::optional<Rewrite> r = RewriteFor(graph, *node, *p, config);
  if (!r) return false;
  const Permutation inverse = Inverse(*p);
  std::vector<GraphValue*> inputs = node->inputs();
  std::map<int, Tensor> permuted;
  for (int i : r->data_inputs) {
    const GraphValue* v = inputs[i];
    if (!v->is_constant() || (IsSingleElement(v) && IsElementwise(*node))) continue;
    if (!CanPermute(v, inverse)) return false;
    QUERN_ASSIGN_OR_RETURN(permuted[i], PermutedConstant(v, inverse));
  }
  // Nothing stands in the way from here on: the graph changes.
  for (int i : r->data_inputs) {
    GraphValue*& v = inputs[i];
    if (TransposePermutation(v->producer()) == p) {
      v = v->producer()->input(0);
    } else if (const auto constant = permuted.find(i); constant != permuted.end()) {
      v = graph.AddConstant(graph.UniqueName(v->name() + "_t"), constant->second);
    } else if (!(IsSingleElement(v) && IsElementwise(*node))) {
      v = TransposeValue(graph, v, inverse, node);
    }
  }
  for (auto& [i, values] : r->new_int_inputs) {
    while (static_cast<int>(inputs.size()) <= i) inputs.push_back(nullptr);
    inputs[i] = IntConstant(graph, node->op_type() + "_axes", values);
  }
  for (auto& [i, value] : r->new_inputs) inputs[i] = value;
  NodeSpec spec{.name = node->name(),
                .domain = r->is_internal ? kCpuDomain : node->domain(),
                .op_type = node->op_type(),
                .opset = r->is_internal ? 1 : node->opset(),
                .inputs = std::move(inputs),
                .outputs = {},
                .attributes = r->attributes,
                .captures = {}};
  for (const GraphValue* v : node->outputs()) spec.outputs.push_back(v ? graph.UniqueName(v->name() + "_cl") : "");
  Node* moved = graph.AddNode(std::move(spec), node);
  const Permutation back = Inverse(r->output_permutation);
  for (int i = 0; i < node->num_outputs(); ++i) {
    GraphValue* old = node->output(i);
    if (!old) continue;
    Dims dims;
    for (int64_t d : back) dims.push_back((*old->type().shape)[d]);
    moved->output(i)->set_type(ValueType::Tensor(old->type().dtype, std::move(dims)));
    graph.ReplaceAllUses(old, TransposeValue(graph, moved->output(i), r->output_permutation, node));
  }
  RemoveIfDead(graph, node);
  return true;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const CpuConfig& config = static_cast<const CpuPassContext*>(pass_context)->config;
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (SinkShuffle(graph, node)) {
      ++changes;
      continue;
    }
    QUERN_ASSIGN_OR_RETURN(const bool sunk, Sink(graph, node, config));
    changes += sunk;
  }
  // A shuffle begins with a Reshape that could move too.
  if (changes > 0) return changes;
  for (Node* node : graph.nodes()) changes += SinkReshape(graph, node);
  return changes;
}

}  // namespace

extern const Pass kSinkTransposes = {"cpu_sink_transposes", "move transposes towards the outputs", Run};

}  // namespace quern::cpu
