// A BatchNormalization in inference after a linear operator moves into its weights, computed in double:
//   %a = Conv(%x, %w, %b)   %y = BatchNormalization(%a, %scale, %bias, %mean, %var)
// ->
//   %y = Conv(%x, %w * f, (%b - %mean) * f + %bias)      f = scale / sqrt(var + epsilon), per output channel
// Also after ConvTranspose and Gemm, and over the columns of a product whose rows are flattened between:
//   %p = MatMul(%x, %w)   %a = Add(%p, %b)   %r = Reshape(%a, [rows, channels])   %y = BatchNormalization(%r, ...)
// ->
//   %p = MatMul(%x, %w * f)   %a = Add(%p, (%b - %mean) * f + %bias)   %y = Reshape(%a, [rows, channels])
// The weights and all parameters must be constants, the inner results used nowhere else.
#include <cmath>
#include <cstring>

#include "base/mapped_file.h"
#include "graph/matcher.h"
#include "graph/rewriter.h"
#include "passes/channel_affine.h"
#include "passes/formula.h"
#include "passes/passes.h"

namespace quern {
namespace {

Result<Tensor> FromDoubles(DType dtype, const Shape& shape, const std::vector<double>& values) {
  QUERN_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(dtype, shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kF64) {
      t.data<double>()[i] = values[i];
    } else {
      t.data<float>()[i] = static_cast<float>(values[i]);
    }
  }
  return t;
}

// The output channel of each weight, as a function of its place in the row-major weights.
struct WeightLayout {
  int64_t channels;    // of the output
  int64_t group_size;  // output channels per group
  int64_t inner;       // weights per step of the channel's dimension
  int64_t per_group;   // weights per group (0: the channel's dimension counts all channels)
  int64_t ChannelOf(int64_t i) const {
    return per_group == 0 ? i / inner % channels : i / per_group * group_size + i / inner % group_size;
  }
};

// The weights times the factor of their channel, rounded once. Files may hold them unaligned.
template <typename T>
void Scale(const void* from, const WeightLayout& layout, const std::vector<double>& factors, std::span<T> to) {
  const auto* bytes = static_cast<const char*>(from);
  const auto inner = static_cast<size_t>(layout.inner);
  for (size_t at = 0; at < to.size(); at += inner) {
    const double factor = factors[static_cast<size_t>(layout.ChannelOf(static_cast<int64_t>(at)))];
    for (size_t i = at; i < at + inner; ++i) {
      T w;
      std::memcpy(&w, bytes + i * sizeof w, sizeof w);
      to[i] = static_cast<T>(static_cast<double>(w) * factor);
    }
  }
}
// Computed when they are asked for: packed, they need not stand in memory beside the file's.
Result<Tensor> Scaled(const Tensor& weights, const WeightLayout& layout, std::vector<double> factors) {
  QUERN_ASSIGN_OR_RETURN(const Tensor w, weights.Contiguous());
  const auto scale = [w, layout, factors = std::move(factors)](void* to) {
    const auto count = static_cast<size_t>(w.num_elements());
    if (w.dtype() == DType::kF64) {
      Scale(w.unaligned_data(), layout, factors, std::span(static_cast<double*>(to), count));
    } else {
      Scale(w.unaligned_data(), layout, factors, std::span(static_cast<float*>(to), count));
    }
  };
  return Tensor::Computed(w.dtype(), w.shape(), scale);
}

std::optional<WeightLayout> LayoutOf(const Node& n, const Shape& w) {
  if (n.Is("Conv") && w.rank() >= 3) return WeightLayout{w[0], w[0], w.num_elements(1, w.rank()), 0};
  if (n.Is("ConvTranspose") && w.rank() >= 3) {  // [input channels, output channels / group, ...]
    const int64_t group = n.GetInt("group", 1);
    if (group < 1 || w[0] % group != 0) return std::nullopt;
    const int64_t inner = w.num_elements(2, w.rank());
    return WeightLayout{w[1] * group, w[1], inner, w[0] / group * w[1] * inner};
  }
  if ((n.Is("Gemm") || n.Is("MatMul")) && w.rank() == 2) {
    const bool transposed = n.GetInt("transB", 0) != 0;
    return transposed ? WeightLayout{w[0], w[0], w[1], 0} : WeightLayout{w[1], w[1], 1, 0};
  }
  return std::nullopt;
}

// The bias as one number per channel; nothing when it is of another form.
std::optional<std::vector<double>> BiasOf(const Node& n, int64_t channels) {
  if (n.input(2) == nullptr) return std::vector<double>(static_cast<size_t>(channels), 0.0);
  std::optional<std::vector<double>> bias = DoublesOf(n.input(2));
  if (!bias || static_cast<int64_t>(bias->size()) != channels) return std::nullopt;
  const Shape& shape = n.input(2)->constant()->tensor().shape();
  // A Gemm's third input may also run along the rows.
  if (shape.rank() > 2 || shape.rank() == 0 || shape.back() != channels) return std::nullopt;
  if (n.Is("Gemm")) {
    for (double& b : *bias) b *= static_cast<double>(n.GetFloat("beta", 1.0f));
  }
  return bias;
}

// The linear operator's new weights and offsets; nothing when they are not constants of that form.
struct NewParameters {
  GraphValue *weights, *bias;
};
using MaybeParameters = std::optional<NewParameters>;
Result<MaybeParameters> Normalize(Graph& graph, const Node& norm, const Node& linear,
                                  std::optional<std::vector<double>> bias) {
  const std::optional<ChannelAffine> affine = ChannelAffineOf(norm);
  const GraphValue* w = linear.input(1);
  if (!affine || !bias || !w->constant()->is_tensor()) return MaybeParameters();
  const Tensor& old = w->constant()->tensor();
  const std::optional<WeightLayout> layout = LayoutOf(linear, old.shape());
  if (!layout || layout->channels != static_cast<int64_t>(affine->factor.size()) ||
      bias->size() != affine->factor.size() || old.num_elements() == 0 ||
      (old.dtype() != DType::kF32 && old.dtype() != DType::kF64)) {
    return MaybeParameters();
  }
  for (size_t c = 0; c < bias->size(); ++c) (*bias)[c] = (*bias)[c] * affine->factor[c] + affine->offset[c];
  QUERN_ASSIGN_OR_RETURN(Tensor new_weights, Scaled(old, *layout, affine->factor));
  QUERN_ASSIGN_OR_RETURN(Tensor new_bias, FromDoubles(old.dtype(), Shape{layout->channels}, *bias));
  const auto constant = [&](std::string name, Tensor t) {
    return graph.AddConstant(graph.UniqueName(std::move(name)), std::move(t));
  };
  return MaybeParameters({constant(w->name() + "_normalized", std::move(new_weights)),
                          constant(norm.output(0)->name() + "_bias", std::move(new_bias))});
}

Pattern Normalized(const char* op) {
  Pattern linear = Pattern::Op(op, {Pattern::Any(), Pattern::Constant(), Pattern::Constant().Optional()});
  return Pattern::Op("BatchNormalization", {std::move(linear).As("linear").SingleUse(), Pattern::Constant(),
                                            Pattern::Constant(), Pattern::Constant(), Pattern::Constant()});
}

// After a convolution or a Gemm.
Result<bool> FuseDirectly(Graph& graph, Node* norm) {
  static const Pattern kPatterns[] = {Normalized("Conv"), Normalized("ConvTranspose"), Normalized("Gemm")};
  Node* linear = nullptr;
  for (const Pattern& pattern : kPatterns) {
    if (const std::optional<Match> m = pattern.MatchNode(norm)) linear = m->node("linear");
  }
  if (linear == nullptr) return false;
  if (linear->opset() < 7 && linear->Is("Gemm")) return false;  // another broadcast of the bias
  const Tensor* w = linear->input(1)->constant()->is_tensor() ? &linear->input(1)->constant()->tensor() : nullptr;
  const std::optional<WeightLayout> layout = w ? LayoutOf(*linear, w->shape()) : std::nullopt;
  if (!layout) return false;
  QUERN_ASSIGN_OR_RETURN(const auto made, Normalize(graph, *norm, *linear, BiasOf(*linear, layout->channels)));
  if (!made) return false;
  NodeSpec spec{.name = linear->name(),
                .op_type = linear->op_type(),
                .opset = linear->opset(),
                .inputs = {linear->input(0), made->weights, made->bias},
                .attributes = linear->attributes()};
  if (linear->Is("Gemm")) spec.attributes.erase("beta");
  ReplaceNode(graph, norm, std::move(spec));
  return true;
}

// The producer of that operator if nothing else reads the value.
Node* OnlyProducerOf(const GraphValue* v, std::string_view op_type) {
  return HasOneReader(v) ? ProducerOf(v, op_type) : nullptr;
}

// Over the columns of a product, which a shape of two dimensions keeps.
Result<bool> FuseBehindRows(Graph& graph, Node* norm) {
  const auto has_rank = [](const GraphValue* v) { return v->type().has_rank(); };
  GraphValue* v = norm->input(0);
  if (!IsWhole(*norm, "BatchNormalization") || !has_rank(v) || v->type().rank() != 2) return false;
  Node* reshape = OnlyProducerOf(v, "Reshape");
  if (reshape != nullptr) {
    GraphValue* rows = reshape->input(0);
    if (!has_rank(rows) || rows->type().rank() < 1 || !(rows->type().shape->back() == v->type().shape->back())) {
      return false;
    }
    v = rows;
  }
  Node* add = OnlyProducerOf(v, "Add");
  Node* product = nullptr;
  GraphValue* offset = nullptr;
  for (int i = 0; add != nullptr && product == nullptr && i < 2; ++i) {
    product = OnlyProducerOf(add->input(i), "MatMul");
    offset = add->input(1 - i);
  }
  if (add == nullptr) product = OnlyProducerOf(v, "MatMul");
  if (product == nullptr || product->opset() < 7 || !has_rank(product->output(0)) ||
      product->output(0)->type().rank() < 2 || !product->input(1)->is_constant() || !has_rank(product->input(1)) ||
      product->input(1)->type().rank() != 2) {
    return false;
  }
  const auto columns = static_cast<size_t>(product->input(1)->type().shape->back().value());
  std::optional<std::vector<double>> bias(std::in_place, columns, 0.0);
  if (offset != nullptr) {
    if (!has_rank(offset) || offset->type().rank() != 1) return false;
    bias = DoublesOf(offset);
  }
  QUERN_ASSIGN_OR_RETURN(const auto made, Normalize(graph, *norm, *product, std::move(bias)));
  if (!made) return false;
  const auto insert = [&](const Node& like, std::vector<GraphValue*> inputs, const char* op_type) {
    Node* n = graph.AddNode({.name = like.name(),
                             .op_type = op_type,
                             .opset = like.opset(),
                             .inputs = std::move(inputs),
                             .outputs = {graph.UniqueName(like.output(0)->name() + "_normalized")}},
                            norm);
    n->output(0)->set_type(product->output(0)->type());
    return n->output(0);
  };
  GraphValue* scaled = insert(*product, {product->input(0), made->weights}, "MatMul");
  NodeSpec sum{.name = norm->name(), .op_type = "Add", .opset = product->opset(), .inputs = {scaled, made->bias}};
  if (reshape == nullptr) {
    ReplaceNode(graph, norm, std::move(sum));
    return true;
  }
  GraphValue* shifted = insert(add != nullptr ? *add : *product, std::move(sum.inputs), "Add");
  ReplaceNode(graph, norm,
              {.name = reshape->name(),
               .op_type = "Reshape",
               .opset = reshape->opset(),
               .inputs = {shifted, reshape->input(1)},
               .attributes = reshape->attributes()});
  return true;
}

Result<bool> Fuse(Graph& graph, Node* norm) {
  if (!norm->Is("BatchNormalization") || norm->output(0) == nullptr) return false;
  QUERN_ASSIGN_OR_RETURN(const bool fused, FuseDirectly(graph, norm));
  return fused ? Result<bool>(true) : FuseBehindRows(graph, norm);
}

Result<int> Run(Graph& graph, const void*) {
  QUERN_ASSIGN_OR_RETURN(const int changes, RewriteNodes(graph, Fuse));
  if (changes > 0) {  // the weights may view files that shrank meanwhile
    for (const auto& file : graph.mapped_files) QUERN_RETURN_IF_ERROR(file->CheckIntact());
  }
  return changes;
}

}  // namespace

extern const Pass kFuseConvBatchNorm = {"fuse_conv_batch_norm", "move BatchNormalization into the weights before it",
                                        Run};

}  // namespace quern
