// Convolutions of 8-bit integers: QLinearConv, claimed here and computed as this provider's Conv by
// cpu_convert_quantized_convs.
#include "provider/cpu/common/quantized_conv.h"

#include <cstdlib>
#include <limits>

#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

const Tensor* ConstantOf(const GraphValue* v) {
  return v && v->is_constant() && v->constant()->is_tensor() ? &v->constant()->tensor() : nullptr;
}

// What is said of a float32 convolution of these shapes.
std::string RejectAsConv(const Node& node, const GraphValue& x, const GraphValue& w, const CpuConfig& config) {
  Graph probe;
  probe.opset_imports[""] = 11;
  GraphValue* input = probe.AddInput("x", ValueType::Tensor(DType::kF32, x.type().shape));
  GraphValue* weights = probe.AddConstant("w", *w.constant());
  weights->set_type(w.type());
  const Node* conv = probe.AddNode({.name = node.name(),
                                    .op_type = "Conv",
                                    .inputs = {input, weights},
                                    .outputs = {"y"},
                                    .attributes = node.attributes()});
  return FindCpuOp("", "Conv")->reject(*conv, config);
}

std::string RejectQLinearConv(const Node& node, const CpuConfig& config) {
  for (int i = 1; i < node.num_inputs(); ++i) {
    if (node.input(i) && !ConstantOf(node.input(i))) return "input '" + node.input(i)->name() + "' comes with the run";
  }
  const GraphValue &x = *node.input(0), &w = *node.input(kQLinearWeight);
  if (std::string why = RejectAsConv(node, x, w, config); !why.empty()) return why;
  const int64_t channels = w.type().shape->front().value();
  for (const int i : {1, 2, 6, 7}) {
    if (ConstantOf(node.input(i))->num_elements() != 1) return "scales of several elements";
  }
  for (const int i : {4, 5}) {
    const int64_t count = ConstantOf(node.input(i))->num_elements();
    if (count != 1 && count != channels) return "scales that are not those of the channels";
  }
  if (LargestSum(node) > std::numeric_limits<int32_t>::max()) return "sums that may leave 32 bits";
  return {};
}

constexpr CpuOp kOps[] = {{"", "QLinearConv", RejectQLinearConv, nullptr}};

}  // namespace

int64_t LargestSum(const Node& node) {
  const Tensor& w = *ConstantOf(node.input(kQLinearWeight));
  const int64_t taps = w.shape().num_elements(1, w.rank());
  int64_t bias = 0;
  if (const Tensor* b = ConstantOf(node.input(kQLinearBias))) {
    const Result<Tensor> dense = b->Contiguous();
    if (!dense.ok()) return std::numeric_limits<int64_t>::max();
    for (const int32_t v : dense->values<int32_t>()) bias = std::max(bias, std::abs(int64_t{v}));
  }
  constexpr int64_t kProduct = 255 * 255;
  return taps > std::numeric_limits<int32_t>::max() ? std::numeric_limits<int64_t>::max() : taps * kProduct + bias;
}

extern const std::span<const CpuOp> kCpuOpsQuantizedConv = kOps;

}  // namespace quern::cpu
