#include "provider/node_work.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace quern {
namespace {

using Operands = std::span<const OperandType>;

double Count(const Shape& shape) {
  double count = 1;
  for (const int64_t d : shape) count *= static_cast<double>(d);
  return count;
}

const OperandType* At(Operands operands, int index) {
  const auto i = static_cast<size_t>(index);
  return i < operands.size() && operands[i].dtype != DType::kUndefined ? &operands[i] : nullptr;
}

double Dimension(const OperandType& operand, int d) {
  const int rank = operand.shape.rank(), at = d < 0 ? d + rank : d;
  return at >= 0 && at < rank ? static_cast<double>(operand.shape[at]) : 1;
}

// w: [O, C/g, kernel...]; each result is a sum over the others.
double Convolution(const OperandType* y, const OperandType* w) {
  return y && w ? 2 * Count(y->shape) * Count(w->shape) / std::max(Dimension(*w, 0), 1.0) : 0;
}

// w: [C, O/g, kernel...]; each element of x goes to the others.
double TransposedConvolution(const OperandType* x, const OperandType* w) { return Convolution(x, w); }

// The CPU provider's chain of a 1x1, a depthwise and a 1x1 convolution (x, w, b, w, b, w, b), of which the first or the
// last may be missing; the first is of all pixels of x.
double ConvolutionChain(Operands in, const OperandType* y) {
  const OperandType* x = At(in, 0);
  if (!x || !y) return 0;
  const auto pixels = [](const OperandType& t) { return Count(t.shape) / std::max(Dimension(t, -1), 1.0); };
  const auto weights = [&](int i) { return At(in, i) ? Count(At(in, i)->shape) : 0; };
  return 2 * (pixels(*x) * weights(1) + pixels(*y) * (weights(3) + weights(5)));
}

// The sums run over dimension k of a.
double Product(const OperandType* y, const OperandType* a, int k) {
  return y && a ? 2 * Count(y->shape) * Dimension(*a, k) : 0;
}

// Every step of each direction multiplies by all of w [directions, gates, input] and r [directions, gates, hidden].
double Recurrent(const OperandType* x, const OperandType* w, const OperandType* r) {
  if (!x || !w || !r) return 0;
  return 2 * Dimension(*x, 0) * Dimension(*x, 1) * (Count(w->shape) + Count(r->shape));
}

// Each element of q meets each key, and each element of y is a sum over them.
double Scores(double q, double y, double keys) { return 2 * keys * (q + y); }

// Rows that a key operand [batch, rows, width], [batch, heads, rows, size] or a packed one of rank 5 brings.
double Rows(const OperandType* k) { return !k ? 0 : Dimension(*k, k->shape.rank() == 4 ? 2 : 1); }

// Rows of a cache [batch, heads, rows, size], or of keys and values together [2, batch, heads, rows, size].
double PastRows(const OperandType* past) { return !past ? 0 : Dimension(*past, -2); }

double AttentionOperations(const Node& node, Operands in, Operands out) {
  const OperandType *q = At(in, 0), *k = At(in, 1), *y = At(out, 0);
  if (!q || !y) return 0;
  const std::string_view op = node.op_type();
  const double results = Count(y->shape);
  if (op == "MultiHeadAttention") {
    // Without keys, queries, keys and values lie in one operand.
    const double queries = Count(q->shape) / (k ? 1 : 3);
    return Scores(queries, results, Rows(k ? k : q) + PastRows(At(in, 6)));
  }
  if (op == "GroupQueryAttention") return Scores(results, results, Rows(k ? k : q) + PastRows(At(in, 3)));
  if (node.domain() == "com.microsoft") {  // Attention and QAttention: the projection belongs to them
    const bool quantized = op == "QAttention";
    const double keys = Rows(q) + PastRows(At(in, quantized ? 8 : 4));
    return Scores(results, results, keys) + (k ? 2 * Count(q->shape) * Dimension(*k, -1) : 0);
  }
  if (node.domain().empty()) return Scores(Count(q->shape), results, Rows(k) + PastRows(At(in, 4)));
  // The CPU provider's own: [batch, length, q + k + v].
  const std::vector<int64_t> widths = node.GetInts("qkv_hidden_sizes");
  const double width = widths.empty() ? Dimension(*y, -1) : static_cast<double>(widths[0]);
  return Scores(Dimension(*q, 0) * Dimension(*q, 1) * width, results, Rows(q) + PastRows(At(in, 2)));
}

bool IsMixture(const Node& node) { return node.op_type() == "MoE" || node.op_type() == "QMoE"; }

// Choices of an expert that the tokens of a mixture make.
double Choices(const Node& node, Operands in) {
  const OperandType* x = At(in, 0);
  return x ? Count(x->shape) / std::max(Dimension(*x, -1), 1.0) * static_cast<double>(node.GetInt("k", 1)) : 0;
}

// Each choice multiplies by W1 [experts, rows, hidden], W2 and, where there is one, W3.
double MixtureOperations(const Node& node, Operands in) {
  const bool quantized = node.op_type() == "QMoE";
  const OperandType *x = At(in, 0), *w1 = At(in, 2), *w3 = At(in, quantized ? 8 : 6);
  if (!x || !w1) return 0;
  const double rows = Dimension(*w1, 1), units = node.GetInt("swiglu_fusion", 0) > 0 ? rows / 2 : rows;
  return 2 * Choices(node, in) * Dimension(*x, -1) * (rows + units + (w3 ? units : 0));
}

// The share of the weights that a node reads at most.
double ReadShare(const Node& node, Operands in) {
  const OperandType* w1 = IsMixture(node) ? At(in, 2) : nullptr;
  return w1 ? std::min(1.0, Choices(node, in) / std::max(Dimension(*w1, 0), 1.0)) : 1;
}

double Operations(const Node& node, Operands in, Operands out) {
  const std::string_view op = node.op_type();
  const OperandType *x = At(in, 0), *second = At(in, 1), *y = At(out, 0);
  const auto is = [&](auto... names) { return ((op == names) || ...); };
  if (is("Conv", "FusedConv", "ConvInteger", "DeformConv")) return Convolution(y, second);
  if (is("ConvChain")) return ConvolutionChain(in, y);
  if (is("QLinearConv")) return Convolution(y, At(in, 3));
  if (is("ConvTranspose")) return TransposedConvolution(x, second);
  if (is("MatMul", "FusedMatMul")) return Product(y, x, node.GetInt("transA", 0) != 0 ? -2 : -1);
  if (is("MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QLinearMatMul", "MatMulNBits",
         "MatMulBnb4")) {
    return Product(y, x, -1);
  }
  if (is("Gemm", "FusedGemm", "QGemm")) return Product(y, x, node.GetInt("transA", 0) != 0 ? 0 : 1);
  if (is("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")) return Recurrent(x, second, At(in, 2));
  if (is("Attention", "QAttention", "MultiHeadAttention", "GroupQueryAttention")) {
    return AttentionOperations(node, in, out);
  }
  if (IsMixture(node)) return MixtureOperations(node, in);
  return 0;
}

// Operators that read as much of their operands as they write, not all of a table.
bool ReadsAPart(std::string_view op) {
  static constexpr std::array<std::string_view, 7> kOperators = {
      "Gather", "GatherElements", "GatherND", "Slice", "Compress", "EmbedLayerNormalization", "GatherBlockQuantized"};
  return std::ranges::find(kOperators, op) != kOperators.end();
}

double BytesOf(const OperandType& operand) {
  const Result<size_t> bytes = TensorBytes(operand.dtype, operand.shape);
  return bytes.ok() ? static_cast<double>(*bytes) : 0;
}

}  // namespace

NodeWork WorkOf(const Node& node, Operands inputs, Operands outputs, size_t packed_bytes) {
  NodeWork work;
  double written = 0;
  for (const OperandType& o : outputs) written += o.dtype == DType::kUndefined ? 0 : BytesOf(o);
  work.bytes = written + static_cast<double>(packed_bytes) * ReadShare(node, inputs);
  const bool part = ReadsAPart(node.op_type());
  for (const OperandType& o : inputs) {
    if (o.dtype == DType::kUndefined || (o.constant && packed_bytes > 0)) continue;
    work.bytes += part ? std::min(BytesOf(o), written) : BytesOf(o);
  }
  work.operations = Operations(node, inputs, outputs);
  return work;
}

}  // namespace quern
