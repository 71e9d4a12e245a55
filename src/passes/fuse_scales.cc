// A scale or shift of each channel behind a BatchNormalization in inference moves into its parameters:
//   %n = BatchNormalization(%x, %s, %b, %mean, %var)   %m = Mul(%n, f)   %y = Add(%m, o)
// ->
//   %y = BatchNormalization(%x, %s * f, %b * f + o, %mean, %var)
// The numbers are constants, one for each channel or one for all; nothing else reads the values in between.
#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

const Tensor* Floats(const GraphValue* v) {
  if (v == nullptr || !v->is_constant() || !v->constant()->is_tensor()) return nullptr;
  const Tensor& t = v->constant()->tensor();
  return t.dtype() == DType::kF32 && t.is_contiguous() ? &t : nullptr;
}

// Whether the constant broadcasts to [N, channels, ...] of that rank as one number for each channel, or one for all.
bool IsOfChannels(const Tensor& t, int rank, int64_t channels) {
  if (t.rank() > rank) return false;
  for (int d = 0; d < t.rank(); ++d) {
    const bool is_channel = rank - t.rank() + d == 1;
    if (t.dim(d) != 1 && !(is_channel && t.dim(d) == channels)) return false;
  }
  return true;
}

bool IsInference(const Node& norm) {
  for (int i = 1; i < norm.num_outputs(); ++i) {
    if (norm.output(i) != nullptr) return false;
  }
  return norm.opset() >= 7 && norm.GetInt("training_mode", 0) == 0 && norm.GetInt("spatial", 1) == 1;
}

Result<bool> Fuse(Graph& graph, Node* n) {
  const bool scales = IsWhole(*n, "Mul");
  if (!scales && !IsWhole(*n, "Add")) return false;
  for (int i = 0; i < 2; ++i) {
    Node* norm = ProducerOf(n->input(i), "BatchNormalization");
    if (norm == nullptr || !HasOneReader(norm->output(0)) || !IsInference(*norm) ||
        !norm->input(0)->type().has_rank()) {
      continue;
    }
    const Tensor *scale = Floats(norm->input(1)), *bias = Floats(norm->input(2)), *by = Floats(n->input(1 - i));
    if (scale == nullptr || bias == nullptr || by == nullptr || scale->num_elements() != bias->num_elements() ||
        !IsOfChannels(*by, norm->input(0)->type().rank(), scale->num_elements())) {
      continue;
    }
    QUERN_ASSIGN_OR_RETURN(Tensor new_scale, scale->Clone());
    QUERN_ASSIGN_OR_RETURN(Tensor new_bias, bias->Clone());
    for (int64_t c = 0; c < scale->num_elements(); ++c) {
      const float number = by->data<float>()[by->num_elements() == 1 ? 0 : c];
      if (scales) {
        new_scale.data<float>()[c] *= number;
        new_bias.data<float>()[c] *= number;
      } else {
        new_bias.data<float>()[c] += number;
      }
    }
    const auto constant = [&](const GraphValue* old, Tensor t) {
      return graph.AddConstant(graph.UniqueName(old->name() + "_scaled"), std::move(t));
    };
    std::vector<GraphValue*> inputs = norm->inputs();
    inputs[1] = constant(inputs[1], std::move(new_scale));
    inputs[2] = constant(inputs[2], std::move(new_bias));
    ReplaceNode(graph, n,
                {.name = norm->name(),
                 .op_type = "BatchNormalization",
                 .opset = norm->opset(),
                 .inputs = std::move(inputs),
                 .attributes = norm->attributes()});
    return true;
  }
  return false;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Fuse); }

}  // namespace

extern const Pass kFuseScales = {"fuse_scales", "scales and shifts of channels into normalizations", Run};

}  // namespace quern
