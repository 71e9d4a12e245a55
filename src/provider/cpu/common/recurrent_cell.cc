#include "provider/cpu/common/recurrent_cell.h"

#include "ops/common/recurrent.h"

namespace quern::cpu {
namespace {

using ukernel::UnaryKind;

UnaryKind KindOf(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kAffine:
      return UnaryKind::kAffine;
    case ActivationKind::kElu:
      return UnaryKind::kElu;
    case ActivationKind::kHardSigmoid:
      return UnaryKind::kHardSigmoid;
    case ActivationKind::kLeakyRelu:
      return UnaryKind::kLeakyRelu;
    case ActivationKind::kRelu:
      return UnaryKind::kRelu;
    case ActivationKind::kScaledTanh:
      return UnaryKind::kScaledTanh;
    case ActivationKind::kSigmoid:
      return UnaryKind::kSigmoid;
    case ActivationKind::kSoftplus:
      return UnaryKind::kSoftplus;
    case ActivationKind::kSoftsign:
      return UnaryKind::kSoftsign;
    case ActivationKind::kTanh:
      return UnaryKind::kTanh;
    case ActivationKind::kThresholdedRelu:
      return UnaryKind::kThresholdedRelu;
  }
  return UnaryKind::kCopy;
}

}  // namespace

void GateFunction::Apply(const ukernel::VectorKernel& row, float* x, int64_t n) const {
  const auto unary = [&](UnaryKind k) {
    row.unary({.kind = k, .n = static_cast<size_t>(n), .x = x, .y = x, .a = a, .b = b});
  };
  switch (kind) {
    case UnaryKind::kAffine:
      for (int64_t i = 0; i < n; ++i) x[i] = a * x[i] + b;
      return;
    case UnaryKind::kScaledTanh:
      for (int64_t i = 0; i < n; ++i) x[i] *= b;
      unary(UnaryKind::kTanh);
      for (int64_t i = 0; i < n; ++i) x[i] *= a;
      return;
    default:
      unary(kind);
  }
}

void CellForm::Activate(const ukernel::VectorKernel& row, size_t i, float* x, int64_t n) const {
  if (bound < std::numeric_limits<float>::infinity()) {
    row.unary({.kind = UnaryKind::kClip, .n = static_cast<size_t>(n), .x = x, .y = x, .a = -bound, .b = bound});
  }
  functions[i].Apply(row, x, n);
}

Result<std::vector<CellForm>> ReadCellForms(const Node& node, int64_t directions) {
  std::vector<std::string> functions = {"Sigmoid", "Tanh", "Tanh"};
  if (node.op_type() == "GRU") functions = {"Sigmoid", "Tanh"};
  if (node.op_type() == "RNN") functions = {"Tanh"};
  QUERN_ASSIGN_OR_RETURN(const std::vector<Activation> activations, ReadActivations(node, functions, directions));
  CellForm form;
  if (const float* clip = node.FindAttribute<float>("clip")) form.bound = *clip;
  form.couples_gates = node.GetInt("input_forget", 0) != 0;
  std::vector<CellForm> forms(static_cast<size_t>(directions), form);
  for (size_t i = 0; i < activations.size(); ++i) {
    const Activation& a = activations[i];
    forms[i / functions.size()].functions.push_back(
        {KindOf(a.kind()), static_cast<float>(a.alpha), static_cast<float>(a.beta)});
  }
  return forms;
}

Status CheckSequenceLengths(const int32_t* lengths, int64_t batch, int64_t steps) {
  for (int64_t b = 0; lengths && b < batch; ++b) {
    if (lengths[b] >= 0 && lengths[b] <= steps) continue;
    return InvalidArgument("sequence_lens has the entry " + std::to_string(lengths[b]) + " but X has " +
                           std::to_string(steps) + " steps");
  }
  return OkStatus();
}

void FinishLstm(const ukernel::VectorKernel& row, const CellForm& form, int64_t n, float* gates, float* h, float* c) {
  float *in = gates, *out = gates + n, *forget = gates + 2 * n, *cell = gates + 3 * n;
  const bool peeps = !form.peepholes.empty();
  const auto peep = [&](float* gate, int64_t i) {
    const float* weights = form.peepholes.data() + i * n;
    for (int64_t k = 0; k < n; ++k) gate[k] += weights[k] * c[k];
  };
  if (peeps) {
    peep(in, 0);
    peep(forget, 2);
    form.Activate(row, 0, in, n);
    form.Activate(row, 0, forget, n);
  } else {
    form.Activate(row, 0, gates, 3 * n);
  }
  form.Activate(row, 1, cell, n);
  if (form.couples_gates) {
    for (int64_t i = 0; i < n; ++i) forget[i] = 1 - in[i];
  }
  for (int64_t i = 0; i < n; ++i) {
    c[i] = forget[i] * c[i] + in[i] * cell[i];
    h[i] = c[i];
  }
  if (peeps) {  // the output gate sees the new cell
    peep(out, 1);
    form.Activate(row, 0, out, n);
  }
  form.functions[2].Apply(row, h, n);
  for (int64_t i = 0; i < n; ++i) h[i] *= out[i];
}

}  // namespace quern::cpu
