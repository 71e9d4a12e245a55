// Convolutions of 8-bit integers, QLinearConv and ConvInteger: claimed here, computed as this provider's Conv
// (cpu_convert_quantized_convs).
#include "provider/cpu/common/quantized_conv.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "provider/cpu/common/constants.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

// What is said of a float32 convolution of these shapes.
std::string RejectAsConv(const Node& node, const GraphValue& x, const GraphValue& w, const CpuConfig& config) {
  Graph probe;
  probe.opset_imports[""] = 11;
  GraphValue* input = probe.AddInput("x", ValueType::Tensor(DType::kF32, x.type().shape));
  GraphValue* weights = probe.AddInput("w", ValueType::Tensor(DType::kF32, w.type().shape));
  const Node* conv = probe.AddNode({.name = node.name(),
                                    .op_type = "Conv",
                                    .inputs = {input, weights},
                                    .outputs = {"y"},
                                    .attributes = node.attributes()});
  return FindCpuOp("", "Conv")->reject(*conv, config);
}

std::string RejectQLinearConv(const Node& node, const CpuConfig& config) {
  for (int i = 1; i < node.num_inputs(); ++i) {
    if (i != kQLinearWeight && node.input(i) && !ConstantTensor(node.input(i)))
      return "input '" + node.input(i)->name() + "' comes with the run";
  }
  const GraphValue &x = *node.input(0), &w = *node.input(kQLinearWeight);
  if (std::string why = RejectAsConv(node, x, w, config); !why.empty()) return why;
  const int64_t channels = w.type().shape->front().value();
  for (const int i : {1, 2, 6, 7}) {
    if (ConstantTensor(node.input(i))->num_elements() != 1) return "scales of several elements";
  }
  for (const int i : {4, 5}) {
    const int64_t count = ConstantTensor(node.input(i))->num_elements();
    if (count != 1 && count != channels) return "scales that are not those of the channels";
  }
  if (LargestSum(w, ConstantTensor(node.input(kQLinearBias))) > std::numeric_limits<int32_t>::max()) {
    return "sums that may leave 32 bits";
  }
  return {};
}

// Zero points may come with the run, as those of DynamicQuantizeLinear do.
std::string RejectConvInteger(const Node& node, const CpuConfig& config) {
  const GraphValue &x = *node.input(kIntegerX), &w = *node.input(kIntegerWeight);
  if (std::string why = RejectAsConv(node, x, w, config); !why.empty()) return why;
  if (const GraphValue* zero = node.input(kIntegerXZero)) {
    if (!Product(*zero->type().shape).is_constant(1)) return "zero points of several elements";
  }
  if (const GraphValue* zero = node.input(kIntegerWeightZero)) {
    const Tensor* t = ConstantTensor(zero);
    if (!t && ConstantTensor(&w)) return "a zero point of constant weights that comes with the run";
    if (!t && !Product(*zero->type().shape).is_constant(1)) return "zero points of channels that come with the run";
    if (t && t->num_elements() != 1 && t->num_elements() != w.type().shape->front().value()) {
      return "zero points that are not those of the channels";
    }
  }
  if (LargestSum(w, nullptr) > std::numeric_limits<int32_t>::max()) return "sums that may leave 32 bits";
  return {};
}

constexpr CpuOp kOps[] = {
    {"", "QLinearConv", RejectQLinearConv, nullptr},
    {"", "ConvInteger", RejectConvInteger, nullptr},
};

}  // namespace

int64_t LargestSum(const GraphValue& weights, const Tensor* bias) {
  constexpr int64_t kProduct = 255 * 255, kMany = int64_t{1} << 31;
  int64_t taps = 1;
  for (int d = 1; d < weights.type().rank(); ++d) taps = std::min(taps * (*weights.type().shape)[d].value(), kMany);
  int64_t largest = 0;
  if (bias) {
    const Result<Tensor> dense = bias->Contiguous();
    if (!dense.ok()) return std::numeric_limits<int64_t>::max();
    for (const int32_t v : dense->values<int32_t>()) largest = std::max(largest, std::abs(int64_t{v}));
  }
  return taps * kProduct + largest;
}

extern const std::span<const CpuOp> kCpuOpsQuantizedConv = kOps;

}  // namespace quern::cpu
