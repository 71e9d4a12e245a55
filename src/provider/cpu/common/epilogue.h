// Epilogue lists of this provider's Conv and MatMul: bias, residual, activation, bounds, from a node's inputs and
// attributes.
#pragma once

#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "kernels/run_time_drivers.h"
#include "kernels/select.h"
#include "provider/cpu/cpu_op.h"
#include "tensor/tensor.h"
#include "ukernel/epilogue.h"

namespace quern::cpu {

// Compiled form: a constant bias is owned; of the residual, and of a bias that comes with the run, the place in the
// list is known and the pointer comes with each run.
struct EpilogueList {
  std::vector<ukernel::EpilogueOp> ops;
  Tensor bias, scale;  // keep the memory of their ops
  std::vector<float> slopes;
  int residual_op = -1;  // index of the kAddMatrix op whose data is input kResidualInput
  int bias_op = -1;      // index of the kAddVectorN op whose data is input kBiasInput, if that is no constant
};
inline constexpr int kBiasInput = 2;
inline constexpr int kResidualInput = 3;

// Reads inputs 2 and 3 and the attributes of an internal node, and, of products on integers, what quantization.h lists:
//   activation, activation_params: a name of ActivationOp's and its numbers; of PRelu, a slope for each column
//   residual_last                  1: the residual is added to what the activation gives, else before it
//   bounds                         the least and greatest result
Result<EpilogueList> MakeEpilogue(const Node& node);
// An error unless the input has the shape of output 0, as symbols promise and only numbers show.
Status CheckResultShaped(const BindContext& context, int input);
// The same for a result of that shape.
Status CheckShaped(const BindContext& context, int input, const Shape& result);
// " + residual + Silu + Clip", for reports; "" when there is nothing.
std::string ResidualAndActivationText(const Node& node);
// " + bias + residual + Silu, u8 stored", likewise.
std::string EpilogueText(const Node& node);

// Selection for this provider's CPU.
kernels::SelectOptions SelectOptionsFor(const CpuConfig& config);
// Those of the provider; never null.
std::shared_ptr<kernels::RunTimeDrivers> RunTimeDriversFor(const CpuConfig& config);
ukernel::Precision PrecisionFor(const CpuConfig& config);

// The name and reasons of a row, for reports.
KernelDescription DescribeRow(const kernels::GemmProblem& problem, const CpuConfig& config,
                              const kernels::LayoutChoice& layout, const kernels::GemmKernel* row, size_t m);

}  // namespace quern::cpu
