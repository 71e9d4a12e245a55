#include "provider/cpu/common/epilogue.h"

#include <cmath>
#include <limits>

#include "provider/cpu/common/quantization.h"

namespace quern::cpu {
namespace {

using ukernel::EpilogueKind;
using ukernel::EpilogueOp;

Result<EpilogueOp> ActivationOp(const Node& node, const std::string& name) {
  const auto* given = node.FindAttribute<std::vector<float>>("activation_params");
  auto param = [&](size_t i, float otherwise) { return given && i < given->size() ? (*given)[i] : otherwise; };
  EpilogueOp op;
  op.a = param(0, 0);
  op.b = param(1, 0);
  if (name == "Relu") {
    op.kind = EpilogueKind::kClamp;
    op.a = 0;
    op.b = std::numeric_limits<float>::infinity();
  } else if (name == "Clip") {
    op.kind = EpilogueKind::kClamp;
  } else if (name == "LeakyRelu") {
    op.kind = EpilogueKind::kLeakyRelu;
  } else if (name == "PRelu") {
    op.kind = EpilogueKind::kPrelu;
  } else if (name == "Sigmoid") {
    op.kind = EpilogueKind::kSigmoid;
  } else if (name == "Tanh") {
    op.kind = EpilogueKind::kTanh;
  } else if (name == "HardSigmoid") {
    op.kind = EpilogueKind::kHardSigmoid;
  } else if (name == "HardSwish") {
    op.kind = EpilogueKind::kHardSwish;
  } else if (name == "Silu") {
    op.kind = EpilogueKind::kSilu;
    op.a = param(0, 1);
  } else if (name == "Elu") {
    op.kind = EpilogueKind::kElu;
  } else if (name == "Gelu") {
    op.kind = EpilogueKind::kGelu;
  } else if (name == "GeluTanh") {
    op.kind = EpilogueKind::kGeluTanh;
  } else if (name == "Softplus") {
    op.kind = EpilogueKind::kSoftplus;
  } else {
    return Internal("no epilogue for the activation '" + name + "'");
  }
  return op;
}

bool HasResidualLast(const Node& node) { return node.GetInt("residual_last", 0) != 0; }

// The op that stores float32 results as integers: rint(y / y_scale) + y_zero_point.
EpilogueOp StoringOp(const Node& node) {
  EpilogueOp op;
  op.kind = EpilogueKind::kRequantize;
  op.format = ukernel::FormatOf(ProductType(node));
  op.scale = 1 / node.GetFloat("y_scale", 1);
  op.integer = static_cast<int32_t>(node.GetInt("y_zero_point", 0));
  return op;
}

// Stored integers grow with the numbers they stand for, so bounds on these are bounds on those. False when what is left
// is not a range of several integers.
bool NarrowTo(const EpilogueOp& clamp, float y_scale, EpilogueOp& storing) {
  const float zero = static_cast<float>(storing.integer);
  storing.a = std::nearbyint(clamp.a / y_scale) + zero;
  storing.b = std::nearbyint(clamp.b / y_scale) + zero;
  const bool is_signed = storing.format == ukernel::Format::kI8;
  const float low = is_signed ? -128.0f : 0.0f, high = is_signed ? 127.0f : 255.0f;
  return std::max(storing.a, low) < std::min(storing.b, high);
}

}  // namespace

Result<EpilogueList> MakeEpilogue(const Node& node) {
  EpilogueList list;
  const GraphValue *bias = node.input(kBiasInput), *scale = node.input(kScaleInput);
  EpilogueOp bias_op{.kind = EpilogueKind::kAddVectorN};
  if (bias && bias->is_constant()) {
    QUERN_ASSIGN_OR_RETURN(list.bias, bias->constant()->tensor().Clone());
    bias_op.data = list.bias.raw_data();
  }
  const bool integer_bias = bias && bias->type().dtype == DType::kI32, real_bias = bias && !integer_bias;
  const std::string* name = node.FindAttribute<std::string>("activation");
  EpilogueOp activation;
  if (name) {
    QUERN_ASSIGN_OR_RETURN(activation, ActivationOp(node, *name));
    if (activation.kind == EpilogueKind::kPrelu) {
      list.slopes = *node.FindAttribute<std::vector<float>>("activation_params");
      activation.data = list.slopes.data();
    }
  }
  const auto* bounds = node.FindAttribute<std::vector<float>>("bounds");
  const bool stores = IsInt8(ukernel::FormatOf(ProductType(node)));
  EpilogueOp storing = stores ? StoringOp(node) : EpilogueOp{};
  if (integer_bias) list.ops.push_back(bias_op);
  if (scale) {
    QUERN_ASSIGN_OR_RETURN(list.scale, scale->constant()->tensor().Clone());
    const bool bounded = (!name || activation.kind == EpilogueKind::kClamp) && !bounds;
    const float y_scale = node.GetFloat("y_scale", 1);
    if (stores && bounded && !real_bias && !node.input(kResidualInput) &&
        (!name || NarrowTo(activation, y_scale, storing))) {
      // clamp(rint(acc * r) + zero point), r = s_x * s_w / s_y
      for (float& s : list.scale.values<float>()) s /= y_scale;
      storing.data = list.scale.raw_data();
      list.ops.push_back(storing);
      return list;
    }
    list.ops.push_back({.kind = EpilogueKind::kMulVectorN, .data = list.scale.raw_data()});
  }
  if (real_bias && !bias->is_constant()) list.bias_op = static_cast<int>(list.ops.size());
  if (real_bias) list.ops.push_back(bias_op);
  if (name && HasResidualLast(node)) list.ops.push_back(activation);
  if (node.input(kResidualInput)) {
    list.residual_op = static_cast<int>(list.ops.size());
    list.ops.push_back({.kind = EpilogueKind::kAddMatrix});
  }
  if (name && !HasResidualLast(node)) list.ops.push_back(activation);
  if (bounds) list.ops.push_back({.kind = EpilogueKind::kClamp, .a = (*bounds)[0], .b = (*bounds)[1]});
  if (stores) {
    storing.a = storing.b = 0;
    list.ops.push_back(storing);
  }
  return list;
}

Status CheckResultShaped(const BindContext& context, int input) {
  return CheckShaped(context, input, context.outputs[0].shape);
}

Status CheckShaped(const BindContext& context, int input, const Shape& result) {
  const Shape& given = context.inputs[static_cast<size_t>(input)].shape;
  if (given == result) return OkStatus();
  return InvalidArgument("input " + std::to_string(input) + " has shape " + given.ToString() +
                         " but the model promises that of the result, " + result.ToString());
}

std::string ResidualAndActivationText(const Node& node) {
  const std::string residual = node.input(kResidualInput) ? " + residual" : "";
  const std::string* name = node.FindAttribute<std::string>("activation");
  const std::string activation = name ? " + " + *name : "";
  std::string text = HasResidualLast(node) ? activation + residual : residual + activation;
  if (node.FindAttribute<std::vector<float>>("bounds")) text += " + Clip";
  return text;
}

std::string EpilogueText(const Node& node) {
  std::string text;
  if (node.input(kBiasInput)) text += " + bias";
  text += ResidualAndActivationText(node);
  if (node.input(kScaleInput)) {
    text += std::string(", ") + DTypeName(node.input(0)->type().dtype) + " by " +
            DTypeName(node.input(1)->type().dtype) + ", stored as " + DTypeName(ProductType(node));
  }
  return text;
}

kernels::SelectOptions SelectOptionsFor(const CpuConfig& config) {
  kernels::SelectOptions options;
  options.cpu = config.cpu.facts();
  options.rows = config.gemm_rows;
  return options;
}

std::shared_ptr<kernels::RunTimeDrivers> RunTimeDriversFor(const CpuConfig& config) {
  return config.run_time_drivers ? config.run_time_drivers
                                 : std::make_shared<kernels::RunTimeDrivers>(SelectOptionsFor(config));
}

ukernel::Precision PrecisionFor(const CpuConfig& config) {
  if (config.precision == "fp32-fast") return ukernel::Precision::kFp32Fast;
  if (config.precision == "bf16") return ukernel::Precision::kBf16;
  return ukernel::Precision::kFp32;
}

KernelDescription DescribeRow(const kernels::GemmProblem& problem, const CpuConfig& config,
                              const kernels::LayoutChoice& layout, const kernels::GemmKernel* row, size_t m) {
  KernelDescription d;
  d.layout = kernels::LayoutName(layout.layout);
  if (!row) return d;
  d.kernel = ukernel::Name(*row).text;
  kernels::SelectionReport report;
  kernels::ExplainRow(problem, SelectOptionsFor(config), layout, m, &report);
  size_t eligible = 0;
  for (const kernels::RowCandidate& c : report.rows) {
    eligible += c.cycles > 0;
    if (c.row != row) d.rejected.emplace_back(c.name, c.reason);
  }
  d.why = "cheapest of " + std::to_string(eligible) + " rows for " + std::to_string(m) + "x" +
          std::to_string(problem.n) + "x" + std::to_string(problem.k * problem.segments);
  return d;
}

}  // namespace quern::cpu
