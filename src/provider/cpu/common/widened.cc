#include "provider/cpu/common/widened.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "ukernel/elementwise.h"

namespace quern::cpu {
namespace {

// Left out are operators that take 16-bit floats as they are (copies), or convert by rules of their own (Cast,
// QuantizeLinear).
bool ComputesInFloat(const Node& node) {
  static constexpr std::string_view kOnnx =
      " Abs Acos Acosh Add Affine ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization "
      "Ceil Celu Clip Col2Im Conv ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DequantizeLinear Div Einsum Elu "
      "Equal Erf Exp "
      "Floor GRU "
      "Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization "
      "HardSigmoid HardSwish Hardmax InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less "
      "LessOrEqual LinearAttention "
      "Log LogSoftmax LpNormalization LpPool MatMul Max MaxPool Mean MeanVarianceNormalization Min "
      "Mish Mod Mul Neg PRelu ParametricSoftplus Pow RMSNormalization RNN Reciprocal ReduceL1 ReduceL2 ReduceLogSum "
      "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Resize RoiAlign "
      "RotaryEmbedding Round Scale ScaledTanh Selu Shrink Sigmoid Sign SimplifiedLayerNormalization Sin Sinh "
      "STFT Softmax Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu TopK Upsample ";
  static constexpr std::string_view kMicrosoft =
      " Attention BiasGelu CausalConvWithState EmbedLayerNormalization FastGelu FusedConv GatedAdd GatedRMSNorm "
      "GatherBlockQuantized Gelu GroupQueryAttention LinearAttention LinearAttentionGate MRotaryEmbedding MatMulBnb4 "
      "MatMulNBits "
      "MoE MultiHeadAttention QMoE QuickGelu RotaryEmbedding SkipLayerNormalization SkipSimplifiedLayerNormalization ";
  if (node.Is("DequantizeLinear") && node.GetInt("output_dtype", 0) != 0) return false;  // says the type itself
  const std::string name = " " + node.op_type() + " ";
  if (node.domain().empty()) return kOnnx.find(name) != kOnnx.npos;
  return node.domain() == "com.microsoft" && kMicrosoft.find(name) != kMicrosoft.npos;
}

bool HoldsHalf(const GraphValue* v) { return v && v->type().kind == ValueKind::kTensor && IsHalf(v->type().dtype); }

Value Widened(const Value& constant) {
  constexpr int64_t kMostLookedAt = 64;  // reasons depend on the content of scalars and short lists only
  const Tensor& half = constant.tensor();
  if (half.num_elements() <= kMostLookedAt) return WidenConstant(half).value();
  // A stand-in of the shape, without memory of its own.
  static const Tensor one = Tensor::Scalar(1.0f);
  return Tensor::WrapStrided(DType::kF32, half.shape(), Shape::Filled(half.rank(), 0),
                             const_cast<void*>(static_cast<const void*>(one.raw_data())), one.owner());
}

}  // namespace

bool IsHalf(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

Result<Tensor> WidenConstant(const Tensor& half) {
  QUERN_ASSIGN_OR_RETURN(const Tensor from, half.Contiguous());
  QUERN_ASSIGN_OR_RETURN(Tensor to, Tensor::Allocate(DType::kF32, half.shape()));
  const ukernel::ElementwiseKernel* kernel = ukernel::SelectElementwiseRow(HostCpu().facts());
  kernel->unary(ukernel::UnaryKind::kConvert, half.dtype(), DType::kF32)(half.num_elements(), from.raw_data(),
                                                                         to.raw_data(), {});
  return to;
}

bool HasHalfInput(const Node& node) { return std::any_of(node.inputs().begin(), node.inputs().end(), HoldsHalf); }

std::string RejectWidened(const Node& node, const CpuConfig& config) {
  const GraphValue* found = *std::find_if(node.inputs().begin(), node.inputs().end(), HoldsHalf);
  const std::string type = std::string("type ") + DTypeName(found->type().dtype);
  const CpuOp* op = FindCpuOp(node.domain(), node.op_type());
  if (!op || !op->reject || !ComputesInFloat(node)) return type;

  Graph graph;  // the node as it would be
  NodeSpec spec{.name = node.name(),
                .domain = node.domain(),
                .op_type = node.op_type(),
                .opset = node.opset(),
                .attributes = node.attributes()};
  const auto widen = [&](const GraphValue* v) {
    ValueType t = v->type();
    if (HoldsHalf(v)) t.dtype = DType::kF32;
    return t;
  };
  for (int i = 0; i < node.num_inputs(); ++i) {
    const GraphValue* v = node.input(i);
    GraphValue* w = nullptr;
    const std::string name = "x" + std::to_string(i);
    if (v && v->is_constant()) {
      w = graph.AddConstant(name, HoldsHalf(v) ? Widened(*v->constant()) : *v->constant());
    } else if (v) {
      w = graph.AddInput(name, widen(v));
    }
    if (v) w->set_data(v->data());
    spec.inputs.push_back(w);
  }
  for (int i = 0; i < node.num_outputs(); ++i) spec.outputs.push_back(node.output(i) ? "y" + std::to_string(i) : "");
  const Node* made = graph.AddNode(std::move(spec));
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (!node.output(i)) continue;
    made->output(i)->set_type(widen(node.output(i)));
    if (!node.output(i)->uses().empty()) graph.AddOutput(made->output(i));
  }
  const std::string why = op->reject(*made, config);
  return why.empty() ? why : type + ", and as float32: " + why;
}

}  // namespace quern::cpu
