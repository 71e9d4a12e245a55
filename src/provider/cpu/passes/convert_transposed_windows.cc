// A transposed convolution becomes a convolution whose channels are the phases of its output:
//   y = ConvTranspose(x, w, b)  ->  y = Slice(DepthToSpace(Conv(x, w', b'), stride, "CRD"))
// with Reshape and Transpose where the strides differ or there are not two spatial dimensions, and without what would
// do nothing. TransposedWindow has the formula.
#include <algorithm>
#include <array>
#include <limits>

#include "provider/cpu/common/transposed_window.h"
#include "provider/cpu/passes/replacing_chain.h"

namespace quern::cpu {
namespace {

// [channels * phases, input channels / groups, taps...] from [input channels, channels / groups, kernel...].
Result<Tensor> PhaseWeights(const TransposedWindow& t, const Tensor& w) {
  const int rank = static_cast<int>(t.taps.size());
  const int64_t in = w.dim(0) / t.groups, out = w.dim(1), phases = t.phases();
  Shape shape{t.groups * out * phases, in};
  for (int64_t n : t.taps) shape.push_back(n);
  QUERN_ASSIGN_OR_RETURN(Tensor made, Tensor::Allocate(DType::kF32, shape));
  // Extents of three dimensions, those that are missing 1.
  const auto volume = [rank](const std::vector<int64_t>& list) {
    std::array<int64_t, 3> v = {1, 1, 1};
    std::copy(list.begin(), list.end(), v.end() - rank);
    return v;
  };
  const auto taps = volume(t.taps), stride = volume(t.strides), kernel = volume(t.kernel);
  float* to = made.data<float>();
  for (int64_t o = 0; o < t.groups * out; ++o) {
    for (int64_t phase = 0; phase < phases; ++phase) {
      for (int64_t i = 0; i < in; ++i) {
        const int64_t plane = (o / out * in + i) * out + o % out;
        const float* from = w.data<float>() + plane * kernel[0] * kernel[1] * kernel[2];
        for (int64_t tap = 0; tap < taps[0] * taps[1] * taps[2]; ++tap) {
          const int64_t z = stride[0] * (taps[0] - 1 - tap / (taps[1] * taps[2])) + phase / (stride[1] * stride[2]);
          const int64_t y = stride[1] * (taps[1] - 1 - tap / taps[2] % taps[1]) + phase / stride[2] % stride[1];
          const int64_t x = stride[2] * (taps[2] - 1 - tap % taps[2]) + phase % stride[2];
          const bool inside = z < kernel[0] && y < kernel[1] && x < kernel[2];
          *to++ = inside ? from[(z * kernel[1] + y) * kernel[2] + x] : 0.0f;
        }
      }
    }
  }
  return made;
}

Result<Tensor> PhaseBias(const TransposedWindow& t, const Tensor& bias) {
  QUERN_ASSIGN_OR_RETURN(Tensor made, Tensor::Allocate(DType::kF32, Shape{bias.num_elements() * t.phases()}));
  for (int64_t i = 0; i < made.num_elements(); ++i) made.data<float>()[i] = bias.data<float>()[i / t.phases()];
  return made;
}

// A Reshape's entry: the extent, or what stands for the only one that is not known.
int64_t Entry(const Dim& d) { return d.is_constant() ? d.value() : -1; }

Status Convert(Graph& graph, Node* node) {
  QUERN_ASSIGN_OR_RETURN(const TransposedWindow t, ReadTransposedWindow(*node));
  QUERN_ASSIGN_OR_RETURN(const Tensor weights, ConstantTensor(node->input(1))->Transient());
  QUERN_ASSIGN_OR_RETURN(Tensor phase_weights, PhaseWeights(t, weights));
  const int64_t channels = weights.dim(1) * t.groups, phases = t.phases();
  const Dims x = *node->input(0)->type().shape, y = *node->output(0)->type().shape;
  const int rank = static_cast<int>(t.taps.size());

  std::vector<GraphValue*> parameters;
  auto add = [&](Tensor tensor, const char* what) {
    parameters.push_back(graph.AddConstant(graph.UniqueName(node->output(0)->name() + what), tensor));
  };
  add(std::move(phase_weights), "_phase_weights");
  if (node->input(2)) {
    QUERN_ASSIGN_OR_RETURN(const Tensor bias, ConstantTensor(node->input(2))->Contiguous());
    QUERN_ASSIGN_OR_RETURN(Tensor phase_bias, PhaseBias(t, bias));
    add(std::move(phase_bias), "_phase_bias");
  }
  Dims phase_extents, whole;  // of the convolution; of the interleaved phases
  for (int d = 0; d < rank; ++d) {
    const Dim extent = x[d + 2] + (t.pads_begin[d] + t.pads_end[d] - (t.taps[d] - 1) * t.dilations[d]);
    phase_extents.push_back(extent);
    whole.push_back(y[d + 2] + (t.begin[d] + t.end[d]));
  }
  const auto shape = [&](std::vector<Dim> front, const Dims& spatial) {
    front.insert(front.begin(), x[0]);
    front.insert(front.end(), spatial.begin(), spatial.end());
    return front;
  };
  std::vector<int64_t> pads = t.pads_begin;
  pads.insert(pads.end(), t.pads_end.begin(), t.pads_end.end());
  ReplacingChain chain{graph, node, node->input(0)};
  chain.Add("Conv", 11, parameters, shape({channels * phases}, phase_extents),
            {{"kernel_shape", t.taps}, {"dilations", t.dilations}, {"pads", pads}, {"group", t.groups}});
  if (phases > 1 && rank == 2 && t.strides[0] == t.strides[1]) {
    chain.Add("DepthToSpace", 13, {}, shape({channels}, whole),
              {{"blocksize", t.strides[0]}, {"mode", std::string("CRD")}});
  } else if (phases > 1) {
    std::vector<int64_t> apart = {0, channels};
    apart.insert(apart.end(), t.strides.begin(), t.strides.end());
    std::vector<int64_t> order = {0, 1}, joined = {0, 0};
    Dims split = {Dim(channels)}, woven = {Dim(channels)};
    for (int64_t s : t.strides) split.push_back(s);
    for (int d = 0; d < rank; ++d) {
      apart.push_back(Entry(phase_extents[d]));
      joined.push_back(Entry(whole[d]));
      order.insert(order.end(), {2 + rank + d, 2 + d});
      woven.insert(woven.end(), {phase_extents[d], Dim(t.strides[d])});
    }
    chain.Add("Reshape", 13, {chain.Constant(apart)}, shape(split, phase_extents), {});
    chain.Add("Transpose", 13, {}, shape(woven, {}), {{"perm", order}});
    chain.Add("Reshape", 13, {chain.Constant(joined)}, shape({channels}, whole), {});
  }
  if (t.crops()) {
    std::vector<int64_t> ends, axes;
    for (int d = 0; d < rank; ++d) {
      ends.push_back(t.end[d] == 0 ? std::numeric_limits<int64_t>::max() : -t.end[d]);
      axes.push_back(d + 2);
    }
    chain.Add("Slice", 13, {chain.Constant(t.begin), chain.Constant(ends), chain.Constant(axes)}, y, {});
  }
  graph.ReplaceAllUses(node->output(0), chain.value);
  RemoveIfDead(graph, node);
  return OkStatus();
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const CpuConfig& config = static_cast<const CpuPassContext*>(pass_context)->config;
  int changes = 0;
  for (Node* node : graph.nodes()) {
    // Others wait for their weights to be folded, or become blocks.
    const GraphValue* weights = node->Is("ConvTranspose") ? node->input(1) : nullptr;
    if (!weights || !weights->is_constant() || !RejectPhases(*node, config).empty()) continue;
    QUERN_RETURN_IF_ERROR(Convert(graph, node));
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kConvertTransposedWindows = {"cpu_convert_transposed_windows",
                                               "transposed convolutions to convolutions of the output's phases", Run,
                                               /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
