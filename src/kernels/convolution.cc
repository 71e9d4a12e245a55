#include "kernels/convolution.h"

#include "kernels/conv_cost.h"

namespace quern::kernels {

bool Convolution::IsDepthwise(const ConvProblem& p) {
  const auto is_float = [](Format f) { return f == Format::kF32 || f == Format::kF16 || f == Format::kBf16; };
  const bool types = (is_float(p.lhs) && is_float(p.rhs)) || (IsInt8(p.lhs) && IsInt8(p.rhs));
  return types && p.kernel_d == 1 && p.groups > 1 && p.groups == p.in_channels;
}

bool Convolution::IsGrouped(const ConvProblem& p, const SelectOptions& options) {
  if (p.kernel_d != 1 || p.groups <= 1 || p.in_channels != p.out_channels || p.in_channels % p.groups ||
      p.in_channels == p.groups || p.rhs != p.lhs || !options.force_row.empty()) {
    return false;
  }
  DwSelectOptions dw_options;
  dw_options.cpu = options.cpu;
  const DwConvProblem d = DepthwiseProblem(p);
  const ukernel::DwConvKernel* row = SelectDwRow(d, dw_options);
  if (!row || !row->isa.any_arch) return row != nullptr;
  // Products may have better rows than a portable one.
  ConvProblem of_group = p;
  of_group.groups = 1;
  of_group.in_channels /= p.groups;
  of_group.out_channels /= p.groups;
  const double products = static_cast<double>(p.groups) * DirectCycles(of_group, options);
  return products == 0 || static_cast<double>(ExpectedPixels(p)) * DwPixelCycles(*row, options.cpu, d) <= products;
}

ConvAlgorithm Convolution::AlgorithmFor(const ConvProblem& problem, bool flat, const SelectOptions& options,
                                        const ConvWeights& weights, Rejections* rejections) {
  if (flat && IsDepthwise(problem)) return ConvAlgorithm::kDepthwise;
  if (flat && IsGrouped(problem, options)) return ConvAlgorithm::kGrouped;
  Rejections why;
  why.kn2row = Kn2RowConv::RejectionReason(problem, options, weights);
  why.winograd = WinogradConv::RejectionReason(problem, options, weights);
  ConvAlgorithm algorithm = why.winograd.empty() ? ConvAlgorithm::kWinograd : ConvAlgorithm::kDirect;
  if (why.kn2row.empty() &&
      (algorithm == ConvAlgorithm::kDirect ||
       kWorthwhileShare * Kn2RowConv::Cycles(problem, options) < WinogradConv::Cycles(problem, options))) {
    algorithm = ConvAlgorithm::kKn2Row;
  }
  if (rejections) *rejections = std::move(why);
  return algorithm;
}

Result<Convolution> Convolution::Create(const ConvProblem& problem, bool flat, const SelectOptions& options,
                                        const ConvWeights& weights, const Packing& packing) {
  Convolution c;
  c.algorithm_ = AlgorithmFor(problem, flat, options, weights, &c.rejections_);
  switch (c.algorithm_) {
    case ConvAlgorithm::kDepthwise:
    case ConvAlgorithm::kGrouped: {
      DwSelectOptions dw_options;
      dw_options.cpu = options.cpu;
      QUERN_ASSIGN_OR_RETURN(c.depthwise_, DwConv::Create(DepthwiseProblem(problem), dw_options, weights));
      break;
    }
    case ConvAlgorithm::kKn2Row: {
      QUERN_ASSIGN_OR_RETURN(c.kn2row_, Kn2RowConv::Create(problem, options, weights, packing));
      break;
    }
    case ConvAlgorithm::kWinograd: {
      QUERN_ASSIGN_OR_RETURN(c.winograd_, WinogradConv::Create(problem, options, weights, packing));
      break;
    }
    case ConvAlgorithm::kDirect: {
      QUERN_ASSIGN_OR_RETURN(c.direct_, Conv::Create(problem, options, weights, packing));
      break;
    }
  }
  return c;
}

size_t Convolution::packed_bytes() const {
  switch (algorithm_) {
    case ConvAlgorithm::kDepthwise:
    case ConvAlgorithm::kGrouped:
      return depthwise_.packed_bytes();
    case ConvAlgorithm::kKn2Row:
      return kn2row_.weights().packed_bytes();
    case ConvAlgorithm::kWinograd:
      return winograd_.weights().packed_bytes();
    case ConvAlgorithm::kDirect:
      break;
  }
  return direct_.weights().packed_bytes();
}

ConvolutionPlan Convolution::Plan(const ConvArgs& args, int concurrency) const {
  ConvolutionPlan p;
  switch (algorithm_) {
    case ConvAlgorithm::kDepthwise:
    case ConvAlgorithm::kGrouped:
      p.workspace_bytes = depthwise_.WorkspaceBytes(args, concurrency);
      break;
    case ConvAlgorithm::kKn2Row:
      p.kn2row = kn2row_.Plan(args, concurrency);
      p.workspace_bytes = p.kn2row.workspace_bytes;
      break;
    case ConvAlgorithm::kWinograd:
      p.winograd = winograd_.Plan(args, concurrency);
      p.workspace_bytes = p.winograd.workspace_bytes;
      break;
    case ConvAlgorithm::kDirect:
      p.direct = direct_.Plan(args, concurrency);
      p.workspace_bytes = p.direct.workspace_bytes;
      break;
  }
  return p;
}

Status Convolution::Run(const ConvolutionPlan& plan, const ConvArgs& args, const RunResources& resources) const {
  switch (algorithm_) {
    case ConvAlgorithm::kDepthwise:
    case ConvAlgorithm::kGrouped:
      return depthwise_.Run(args, resources);
    case ConvAlgorithm::kKn2Row:
      return kn2row_.Run(plan.kn2row, args, resources);
    case ConvAlgorithm::kWinograd:
      return winograd_.Run(plan.winograd, args, resources);
    case ConvAlgorithm::kDirect:
      break;
  }
  return direct_.Run(plan.direct, args, resources);
}

}  // namespace quern::kernels
