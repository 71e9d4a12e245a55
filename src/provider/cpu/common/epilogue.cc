#include "provider/cpu/common/epilogue.h"

#include <limits>

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
    op.a = 1;
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

}  // namespace

Result<EpilogueList> MakeEpilogue(const Node& node) {
  EpilogueList list;
  if (const GraphValue* bias = node.input(kBiasInput)) {
    if (!bias->is_constant()) return Internal("the bias '" + bias->name() + "' is not constant");
    QUERN_ASSIGN_OR_RETURN(list.bias, bias->constant()->tensor().Clone());
    list.ops.push_back({.kind = EpilogueKind::kAddVectorN, .data = list.bias.raw_data()});
  }
  if (node.input(kResidualInput)) {
    list.residual_op = static_cast<int>(list.ops.size());
    list.ops.push_back({.kind = EpilogueKind::kAddMatrix});
  }
  if (const std::string* name = node.FindAttribute<std::string>("activation")) {
    QUERN_ASSIGN_OR_RETURN(const EpilogueOp op, ActivationOp(node, *name));
    list.ops.push_back(op);
  }
  return list;
}

std::string EpilogueText(const Node& node) {
  std::string text;
  if (node.input(kBiasInput)) text += " + bias";
  if (node.input(kResidualInput)) text += " + residual";
  if (const std::string* name = node.FindAttribute<std::string>("activation")) text += " + " + *name;
  return text;
}

kernels::SelectOptions SelectOptionsFor(const CpuConfig& config) {
  kernels::SelectOptions options;
  options.cpu = config.cpu.facts();
  options.rows = config.gemm_rows;
  return options;
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
