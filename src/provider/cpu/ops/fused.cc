// Fused operators of com.microsoft: claimed here, computed as the operators that they stand for (cpu_split_fused).
#include <limits>

#include "provider/cpu/common/fused_operators.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {

const FusedActivation* FindFusedActivation(const Node& node) {
  static constexpr float kLargest = std::numeric_limits<float>::max();
  static constexpr FusedActivation kActivations[] = {{"Relu", "Relu", 14, 0, {}},
                                                     {"Sigmoid", "Sigmoid", 13, 0, {}},
                                                     {"Tanh", "Tanh", 13, 0, {}},
                                                     {"LeakyRelu", "LeakyRelu", 16, 1, {0.01f, 0}},
                                                     {"HardSigmoid", "HardSigmoid", 6, 2, {0.2f, 0.5f}},
                                                     {"Clip", "Clip", 13, 2, {-kLargest, kLargest}},
                                                     {"Elu", "Elu", 6, 1, {1, 0}},
                                                     {"HardSwish", "HardSwish", 14, 0, {}}};
  const std::string* name = node.FindAttribute<std::string>("activation");
  for (const FusedActivation& a : kActivations) {
    if (name && *name == a.name) return &a;
  }
  return nullptr;
}

namespace {

constexpr char kMicrosoft[] = "com.microsoft";

// What the parts need of each operand: float32 of known rank.
std::string RejectOperands(const Node& node, const CpuConfig&) {
  for (const GraphValue* v : node.inputs()) {
    if (!v) continue;
    if (v->type().dtype != DType::kF32) return std::string("type ") + DTypeName(v->type().dtype);
    if (!v->type().has_rank()) return "input '" + v->name() + "' is of unknown rank";
  }
  return {};
}

// Gelu and Swish take float64 too.
std::string RejectGelu(const Node& node, const CpuConfig&) {
  const DType dtype = node.input(0)->type().dtype;
  if (dtype != DType::kF32 && dtype != DType::kF64) return std::string("type ") + DTypeName(dtype);
  return {};
}

std::string RejectFusedConv(const Node& node, const CpuConfig& config) {
  if (std::string why = RejectOperands(node, config); !why.empty()) return why;
  const std::string activation = node.GetString("activation", "");
  if (!activation.empty() && !FindFusedActivation(node)) return "activation " + activation;
  return FindCpuOp("", "Conv")->reject(node, config);
}

std::string RejectSkipNorm(const Node& node, const CpuConfig& config) {
  if (std::string why = RejectOperands(node, config); !why.empty()) return why;
  for (int i = 1; i < 3; ++i) {
    if (node.output(i) && !node.output(i)->uses().empty()) return "the mean and deviation are wanted";
  }
  const Dims &x = *node.input(0)->type().shape, &scale = *node.input(2)->type().shape;
  if (x.empty() || scale.size() != 1 || !(scale[0] == x.back())) return "a scale or bias that broadcasts";
  return {};
}

std::string RejectGatedAdd(const Node& node, const CpuConfig& config) {
  return node.input(3) ? "a gate that is projected" : RejectOperands(node, config);
}

std::string RejectGatedNorm(const Node& node, const CpuConfig& config) {
  if (std::string why = RejectOperands(node, config); !why.empty()) return why;
  const Dims &x = *node.input(0)->type().shape, &scale = *node.input(1)->type().shape;
  if (!x.back().is_constant() || !scale[0].is_constant()) return "groups of unknown size";
  if (x.size() >= static_cast<size_t>(kMaxRank)) return "too many dimensions";
  return {};
}

// What is said of MatMulIntegerToFloat on bytes of the shape of input 0 and the inputs listed, -1 for those omitted.
std::string RejectProduct(const Node& node, DType a_type, std::initializer_list<int> others, const CpuConfig& config) {
  Graph probe;
  probe.opset_imports[kMicrosoft] = 1;
  NodeSpec spec{.name = node.name(), .domain = kMicrosoft, .op_type = "MatMulIntegerToFloat", .outputs = {"y"}};
  spec.inputs.push_back(probe.AddInput("a", ValueType::Tensor(a_type, node.input(0)->type().shape)));
  for (const int i : others) {
    const GraphValue* v = i < 0 ? nullptr : node.input(i);
    spec.inputs.push_back(v ? probe.AddInput("input" + std::to_string(i), v->type()) : nullptr);
  }
  return FindCpuOp(kMicrosoft, "MatMulIntegerToFloat")->reject(*probe.AddNode(std::move(spec)), config);
}

std::string RejectDynamicProduct(const Node& node, const CpuConfig& config) {
  if (node.input(0)->type().dtype != DType::kF32) return std::string("type ") + DTypeName(node.input(0)->type().dtype);
  return RejectProduct(node, DType::kU8, {1, -1, 2, -1, 3, 4}, config);
}

// Attention is split into the product that makes queries, keys and values, and attention on them.
std::string RejectAttentionForms(const Node& node) {
  if (node.GetInt("do_rotary", 0) != 0) return "rotary embedding";
  if (node.GetInt("past_present_share_buffer", 0) != 0) return "a cache that is a shared buffer";
  if (!node.input(1)->type().has_static_shape()) return "weights of unknown shape";
  return {};
}

std::string RejectAttention(const Node& node, const CpuConfig& config) {
  for (const int i : {0, 1, 2, 4, 5}) {
    const GraphValue* v = node.input(i);
    if (v && v->type().dtype != DType::kF32) return std::string("type ") + DTypeName(v->type().dtype);
  }
  if (std::string why = RejectAttentionForms(node); !why.empty()) return why;
  return FindCpuOp("", "MatMul")->reject(node, config);
}

std::string RejectQAttention(const Node& node, const CpuConfig& config) {
  if (const GraphValue* past = node.input(8); past && past->type().dtype != DType::kF32) {
    return std::string("type ") + DTypeName(past->type().dtype);
  }
  if (std::string why = RejectAttentionForms(node); !why.empty()) return why;
  return RejectProduct(node, node.input(0)->type().dtype, {1, 3, 4, 6, 7, 2}, config);
}

constexpr CpuOp kOps[] = {
    {kMicrosoft, "Attention", RejectAttention, nullptr},
    {kMicrosoft, "QAttention", RejectQAttention, nullptr},
    {kMicrosoft, "DynamicQuantizeMatMul", RejectDynamicProduct, nullptr},
    {kMicrosoft, "FusedConv", RejectFusedConv, nullptr},
    {kMicrosoft, "GatedAdd", RejectGatedAdd, nullptr},
    {kMicrosoft, "GatedRMSNorm", RejectGatedNorm, nullptr},
    {kMicrosoft, "FastGelu", RejectGelu, nullptr},
    {kMicrosoft, "BiasGelu", RejectGelu, nullptr},
    {kMicrosoft, "Gelu", RejectGelu, nullptr},
    {kMicrosoft, "QuickGelu", RejectGelu, nullptr},
    {kMicrosoft, "SkipLayerNormalization", RejectSkipNorm, nullptr},
    {kMicrosoft, "SkipSimplifiedLayerNormalization", RejectSkipNorm, nullptr},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsFused = kOps;

}  // namespace quern::cpu
