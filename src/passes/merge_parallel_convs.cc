// Convolutions of the same input at the same places whose results are added are one, with the sums of the weights, as
// blocks have that are trained with parallel branches (RepVGG, MobileOne):
//   %a = Conv(%x, %w, %b) {pads = [1, 1, 1, 1]}   %c = Conv(%x, %v)   %y = Add(%a, %c)     %w: [M,C,3,3], %v: [M,C,1,1]
// ->
//   %y = Conv(%x, %w + %v', %b) {pads = [1, 1, 1, 1]}      %v' is %v with zeros around it
// A result of the same shape may be added between. Weights and biases are finite float32 constants; the kernel of one
// lies within the other's, on its taps; nothing else reads the results. A BatchNormalization of the same input is a
// convolution by one weight a channel, and so is, beside a depthwise one, the input itself:
//   %a = Conv(%x, %w) {pads = [1, 1, 1, 1]}   %n = BatchNormalization(%x, ...)   %y = Add(%a, %n)
#include <algorithm>
#include <cmath>

#include "base/mapped_file.h"
#include "graph/rewriter.h"
#include "passes/channel_affine.h"
#include "passes/formula.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

// A convolution with constant weights.
struct Branch {
  const Node* conv = nullptr;  // null: of one weight a channel
  Tensor weights;              // [M, C / group, kernel...], contiguous
  std::optional<Tensor> bias;  // [M]
  std::vector<int64_t> pads;   // of all spatial dimensions: begins, then ends
  std::vector<int64_t> strides, dilations;
  int64_t group = 1;
};

std::optional<Tensor> FiniteFloats(const GraphValue* v) {
  if (v == nullptr || !v->is_constant() || !v->constant()->is_tensor()) return std::nullopt;
  Result<Tensor> t = v->constant()->tensor().Contiguous();
  if (!t.ok() || t->dtype() != DType::kF32) return std::nullopt;
  const auto finite = [](float f) { return std::isfinite(f); };
  return std::ranges::all_of(std::as_const(*t).values<float>(), finite) ? std::optional(*std::move(t)) : std::nullopt;
}

// Nothing when the value is not such a convolution's, or others read it.
std::optional<Branch> BranchOf(const GraphValue* v) {
  Branch b;
  b.conv = HasOneReader(v) ? ProducerOf(v, "Conv") : nullptr;
  if (b.conv == nullptr || b.conv->GetString("auto_pad", "NOTSET") != "NOTSET") return std::nullopt;
  std::optional<Tensor> weights = FiniteFloats(b.conv->input(1));
  if (!weights || weights->rank() < 3 || weights->num_elements() == 0) return std::nullopt;
  b.weights = *std::move(weights);
  if (b.conv->input(2) != nullptr) {
    b.bias = FiniteFloats(b.conv->input(2));
    if (!b.bias || b.bias->num_elements() != b.weights.dim(0)) return std::nullopt;
  }
  const auto spatial = static_cast<size_t>(b.weights.rank() - 2);
  b.pads = b.conv->GetInts("pads", std::vector<int64_t>(2 * spatial, 0));
  b.strides = b.conv->GetInts("strides", std::vector<int64_t>(spatial, 1));
  b.dilations = b.conv->GetInts("dilations", std::vector<int64_t>(spatial, 1));
  b.group = b.conv->GetInt("group", 1);
  if (b.pads.size() != 2 * spatial || b.strides.size() != spatial || b.dilations.size() != spatial) return std::nullopt;
  return b;
}

// A value that is added to the convolution's as one of the same form with one tap.
Result<std::optional<Branch>> OneTapBeside(const Branch& conv, const GraphValue* v) {
  using Made = std::optional<Branch>;
  const GraphValue* x = conv.conv->input(0);
  const int64_t channels = conv.weights.dim(0), of_group = conv.weights.dim(1);
  if (of_group * conv.group != channels) return Made();
  std::optional<ChannelAffine> affine;
  if (v == x && of_group == 1) {
    affine = ChannelAffine{.factor = std::vector<double>(static_cast<size_t>(channels), 1.0), .offset = {}};
  } else if (const Node* norm = HasOneReader(v) ? ProducerOf(v, "BatchNormalization") : nullptr) {
    if (norm->input(0) == x) affine = ChannelAffineOf(*norm);
  }
  if (!affine || static_cast<int64_t>(affine->factor.size()) != channels) return Made();
  const std::vector<float> factor(affine->factor.begin(), affine->factor.end());
  const std::vector<float> offset(affine->offset.begin(), affine->offset.end());
  const auto finite = [](float f) { return std::isfinite(f); };
  if (!std::ranges::all_of(factor, finite) || !std::ranges::all_of(offset, finite)) return Made();
  Shape shape = Shape::Filled(conv.weights.rank(), 1);
  shape[0] = channels;
  shape[1] = of_group;
  Branch b;
  QUERN_ASSIGN_OR_RETURN(b.weights, Tensor::Allocate(DType::kF32, shape));
  std::ranges::fill(b.weights.values<float>(), 0.0f);
  for (int64_t c = 0; c < channels; ++c) {
    b.weights.data<float>()[c * of_group + c % of_group] = factor[static_cast<size_t>(c)];
  }
  if (!offset.empty()) b.bias = Tensor::FromValues<float>(Shape{channels}, offset);
  b.pads.assign(conv.pads.size(), 0);
  b.strides.assign(conv.strides.size(), 1);
  b.dilations.assign(conv.dilations.size(), 1);
  b.group = conv.group;
  return Made(std::move(b));
}

Result<std::optional<Branch>> BranchBeside(const Branch& conv, const GraphValue* v) {
  if (std::optional<Branch> b = BranchOf(v)) return b->conv->input(0) == conv.conv->input(0) ? b : std::nullopt;
  return OneTapBeside(conv, v);
}

// The tap of the outer kernel, by dimension, on which the inner one begins; nothing where they do not lie so.
std::optional<std::vector<int64_t>> PlaceWithin(const Branch& outer, const Branch& inner) {
  const size_t spatial = outer.strides.size();
  if (inner.strides != outer.strides || inner.group != outer.group || inner.weights.rank() != outer.weights.rank() ||
      inner.weights.dim(0) != outer.weights.dim(0) || inner.weights.dim(1) != outer.weights.dim(1)) {
    return std::nullopt;
  }
  std::vector<int64_t> place;
  for (size_t d = 0; d < spatial; ++d) {
    const int axis = static_cast<int>(d) + 2;
    const int64_t inner_taps = inner.weights.dim(axis), taps = outer.weights.dim(axis), dilation = outer.dilations[d];
    if (inner_taps > 1 && inner.dilations[d] != dilation) return std::nullopt;
    const int64_t before = outer.pads[d] - inner.pads[d], after = outer.pads[spatial + d] - inner.pads[spatial + d];
    if (dilation < 1 || before < 0 || before % dilation != 0) return std::nullopt;
    const int64_t first = before / dilation;
    if (first + inner_taps > taps || after != (taps - inner_taps - first) * dilation) return std::nullopt;
    place.push_back(first);
  }
  return place;
}

// The sums of the weights; the inner ones stand from `place` on.
Result<Tensor> SumOfWeights(const Branch& outer, const Branch& inner, const std::vector<int64_t>& place) {
  QUERN_ASSIGN_OR_RETURN(Tensor sums, outer.weights.Clone());
  const int rank = sums.rank();
  const float* from = inner.weights.data<float>();
  for (int64_t i = 0; i < inner.weights.num_elements(); ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t first = axis < 2 ? 0 : place[static_cast<size_t>(axis - 2)];
      at += (rest % inner.weights.dim(axis) + first) * step;
      rest /= inner.weights.dim(axis);
      step *= sums.dim(axis);
    }
    sums.data<float>()[at] += from[i];
  }
  return sums;
}

// The two as one, with its weights and bias; nothing where neither lies within the other. `a` is a node's.
Result<std::optional<NodeSpec>> Merged(Graph& graph, const Branch& a, const Branch& b) {
  using Made = std::optional<NodeSpec>;
  const bool swapped = !PlaceWithin(a, b);
  const Branch &outer = swapped ? b : a, &inner = swapped ? a : b;
  const std::optional<std::vector<int64_t>> place = PlaceWithin(outer, inner);
  if (!place) return Made();
  const auto constant = [&](std::string name, Tensor t) {
    return graph.AddConstant(graph.UniqueName(std::move(name)), std::move(t));
  };
  QUERN_ASSIGN_OR_RETURN(Tensor weights, SumOfWeights(outer, inner, *place));
  std::vector<GraphValue*> inputs = {outer.conv->input(0),
                                     constant(outer.conv->input(1)->name() + "_sum", std::move(weights))};
  if (outer.bias && inner.bias) {
    QUERN_ASSIGN_OR_RETURN(Tensor bias, outer.bias->Clone());
    for (int64_t i = 0; i < bias.num_elements(); ++i) bias.data<float>()[i] += inner.bias->data<float>()[i];
    inputs.push_back(constant(outer.conv->input(2)->name() + "_sum", std::move(bias)));
  } else if (const Branch& biased = outer.bias ? outer : inner; biased.bias) {
    inputs.push_back(biased.conv ? biased.conv->input(2)
                                 : constant(outer.conv->input(1)->name() + "_bias", *biased.bias));
  }
  return Made({.name = outer.conv->name(),
               .op_type = "Conv",
               .opset = outer.conv->opset(),
               .inputs = std::move(inputs),
               .attributes = outer.conv->attributes()});
}

Result<bool> Merge(Graph& graph, Node* add) {
  if (!IsWhole(*add, "Add") || add->opset() < 7 || add->input(0) == add->input(1)) return false;
  for (int i = 0; i < 2; ++i) {
    const std::optional<Branch> a = BranchOf(add->input(i));
    if (!a) continue;
    GraphValue* other = add->input(1 - i);
    QUERN_ASSIGN_OR_RETURN(std::optional<Branch> b, BranchBeside(*a, other));
    if (b) {
      QUERN_ASSIGN_OR_RETURN(std::optional<NodeSpec> merged, Merged(graph, *a, *b));
      if (!merged) continue;
      ReplaceNode(graph, add, *std::move(merged));
      return true;
    }
    // %y = (%other + %b) + %a -> %y = %other + (%b and %a), where all have one shape
    const Node* sum = HasOneReader(other) ? ProducerOf(other, "Add") : nullptr;
    for (int k = 0; sum != nullptr && sum->opset() >= 7 && k < 2; ++k) {
      QUERN_ASSIGN_OR_RETURN(b, BranchBeside(*a, sum->input(k)));
      GraphValue *rest = sum->input(1 - k), *shape = add->input(i);
      if (!b || rest == sum->input(k) || !rest->type().has_rank() || !shape->type().has_rank() ||
          *rest->type().shape != *shape->type().shape) {
        continue;
      }
      QUERN_ASSIGN_OR_RETURN(std::optional<NodeSpec> merged, Merged(graph, *a, *b));
      if (!merged) continue;
      merged->outputs = {graph.UniqueName(shape->name() + "_sum")};
      Node* conv = graph.AddNode(*std::move(merged), add);
      conv->output(0)->set_type(shape->type());
      ReplaceNode(graph, add,
                  {.name = add->name(), .op_type = "Add", .opset = add->opset(), .inputs = {rest, conv->output(0)}});
      return true;
    }
  }
  return false;
}

Result<int> Run(Graph& graph, const void*) {
  QUERN_ASSIGN_OR_RETURN(const int changes, RewriteNodes(graph, Merge));
  if (changes > 0) {  // the weights may view files that shrank meanwhile
    for (const auto& file : graph.mapped_files) QUERN_RETURN_IF_ERROR(file->CheckIntact());
  }
  return changes;
}

}  // namespace

extern const Pass kMergeParallelConvs = {"merge_parallel_convs", "added convolutions of the same input to one", Run};

}  // namespace quern
