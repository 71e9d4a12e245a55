// Convolutions of integers become this provider's:
//   y = QLinearConv(x, sx, zx, W, sw, zw, sy, zy, b)
//     ->  y = quern.cpu.Conv(x, W, b, -, sx * sw / sy, zw) {x_zero_point = zx, y_zero_point = zy, y_type}
// Results are those of ONNX's formula: rint(sum * (sx * sw / sy)) + zy.
//   y = ConvInteger(x, W, zx, zw)  ->  y = quern.cpu.Conv(x, W, -, -, -, zw, zx) {y_type = int32}
#include <algorithm>

#include "provider/cpu/common/quantization.h"
#include "provider/cpu/common/quantized_conv.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

int32_t ByteAt(const Tensor& t, int64_t i) { return cpu::ByteAt(t.raw_data(), t.dtype(), i); }

class Converter {
 public:
  Converter(Graph& graph, Node* node) : graph_(graph), node_(node) {}

  Status ConvertInteger() {
    channels_ = node_->input(kIntegerWeight)->type().shape->front().value();
    std::vector<GraphValue*> inputs(7, nullptr);
    inputs[0] = node_->input(kIntegerX);
    inputs[1] = node_->input(kIntegerWeight);
    GraphValue* zero = node_->input(kIntegerWeightZero);
    if (zero && !ConstantTensor(zero)) {
      inputs[kWeightZeroInput] = zero;
    } else if (zero) {
      QUERN_ASSIGN_OR_RETURN(const Tensor given, ConstantTensor(zero)->Contiguous());
      for (int64_t c = 0; c < channels_; ++c) zeros_.push_back(ByteAt(given, given.num_elements() == 1 ? 0 : c));
      inputs[kWeightZeroInput] = Constant("_zeros", Tensor::FromValues<int32_t>(Shape{channels_}, zeros_));
    }
    inputs[kInputZeroInput] = node_->input(kIntegerXZero);
    ReplaceByProduct(std::move(inputs));
    return OkStatus();
  }

  Status ConvertQLinear() {
    for (int i = 1; i < node_->num_inputs(); ++i) {
      if (!node_->input(i) || i == kQLinearWeight) continue;
      QUERN_ASSIGN_OR_RETURN(constants_[i], ConstantTensor(node_->input(i))->Contiguous());
    }
    channels_ = node_->input(kQLinearWeight)->type().shape->front().value();
    const float x_scale = constants_[kQLinearXScale].data<float>()[0];
    const float y_scale = constants_[kQLinearYScale].data<float>()[0];
    const auto each = [&](int input, int64_t c) { return constants_[input].num_elements() == 1 ? 0 : c; };
    for (int64_t c = 0; c < channels_; ++c) {
      const float w_scale = constants_[kQLinearWeightScale].data<float>()[each(kQLinearWeightScale, c)];
      factors_.push_back(x_scale * w_scale / y_scale);
      zeros_.push_back(ByteAt(constants_[kQLinearWeightZero], each(kQLinearWeightZero, c)));
    }
    ConvertProducts();
    return OkStatus();
  }

 private:
  GraphValue* Constant(const char* what, Tensor t) {
    return graph_.AddConstant(graph_.UniqueName(node_->output(0)->name() + what), Value(t));
  }
  // This provider's Conv on integers; of its type the result tells.
  Node* ReplaceByProduct(std::vector<GraphValue*> inputs) {
    const DType type = node_->output(0)->type().dtype;
    Node* product = ReplaceChannelsLast(graph_, node_, "Conv", std::move(inputs), type);
    product->SetAttribute("y_type", static_cast<int64_t>(type));
    return product;
  }

  void ConvertProducts() {
    std::vector<GraphValue*> inputs = {node_->input(0), node_->input(kQLinearWeight), node_->input(kQLinearBias),
                                       nullptr,
                                       Constant("_factors", Tensor::FromValues<float>(Shape{channels_}, factors_))};
    if (std::any_of(zeros_.begin(), zeros_.end(), [](int32_t z) { return z != 0; })) {
      inputs.push_back(Constant("_zeros", Tensor::FromValues<int32_t>(Shape{channels_}, zeros_)));
    }
    Node* product = ReplaceByProduct(std::move(inputs));
    product->SetAttribute("x_zero_point", int64_t{ByteAt(constants_[kQLinearXZero], 0)});
    product->SetAttribute("y_scale", 1.0f);
    product->SetAttribute("y_zero_point", int64_t{ByteAt(constants_[kQLinearYZero], 0)});
  }

  Graph& graph_;
  Node* node_;
  Tensor constants_[9];
  int64_t channels_ = 0;
  std::vector<float> factors_;  // of each channel
  std::vector<int32_t> zeros_;  // of its weights
};

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  for (Node* node : graph.nodes()) {
    const bool integer = node->Is("ConvInteger");
    if (!integer && !node->Is("QLinearConv")) continue;
    Converter converter(graph, node);
    QUERN_RETURN_IF_ERROR(integer ? converter.ConvertInteger() : converter.ConvertQLinear());
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kConvertQuantizedConvs = {"cpu_convert_quantized_convs", "convolutions of integers to fusable form",
                                            Run, /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
