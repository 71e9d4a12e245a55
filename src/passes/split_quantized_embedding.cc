// QEmbedLayerNormalization of com.microsoft, which onnxruntime's quantizer writes for BERT, reads rows of its tables of
// bytes, so that these stay as they are:
//   %y, %count = com.microsoft::QEmbedLayerNormalization(%words, %segments, %table, ...)
// ->
//   %w = Gather(%table, %words)   %a = DequantizeLinear(%w, ...)
//   %p = Slice(%positions, 0, length of %words)   %b = DequantizeLinear(%p, ...)   %s = Add(%a, %b)
//   %y = LayerNormalization(%s, DequantizeLinear(%gamma, ...), DequantizeLinear(%beta, ...))
// with the rows of the segments in the sum; the count of words, where it is wanted, is that of ones in the mask:
//   %c = ReduceSum(Cast(Equal(%mask, 1)))
#include <algorithm>

#include "graph/rewriter.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

enum Input { kWordIds, kSegmentIds, kWords, kPositions, kSegments, kGamma, kBeta, kMask };
constexpr int kScaleOfTable = 8 - kWords, kZeroOfTable = 13 - kWords;  // inputs from one of a table on
constexpr int kSince = 17;                                             // LayerNormalization

class Splitter {
 public:
  Splitter(Graph& graph, Node* n)
      : node_(*n),
        inserter_(graph, n),
        opset_(std::max(kSince, graph.opset(""))),
        hidden_(n->input(kWords)->type().shape->back()) {}

  // Input `table`, or the part `of` it, as numbers of shape `dims`.
  GraphValue* Numbers(Input table, GraphValue* of, Dims dims) {
    return inserter_.Add("DequantizeLinear", opset_,
                         {of, node_.input(table + kScaleOfTable), node_.input(table + kZeroOfTable)},
                         ValueType::Tensor(DType::kF32, std::move(dims)));
  }
  // The rows of a table for each of the ids.
  GraphValue* Rows(Input table, Input ids) {
    Dims dims = *node_.input(kWordIds)->type().shape;
    dims.push_back(hidden_);
    GraphValue* rows = inserter_.Add("Gather", opset_, {node_.input(table), node_.input(ids)},
                                     ValueType::Tensor(node_.input(table)->type().dtype, dims));
    return Numbers(table, rows, std::move(dims));
  }
  // As many rows of the positions as there are words.
  GraphValue* PositionRows() {
    const ValueType numbers = ValueType::Tensor(DType::kI64, Dims{1});
    const Dim& length = node_.input(kWordIds)->type().shape->back();
    GraphValue* end = length.is_constant()
                          ? inserter_.Ints({length.value()})
                          : inserter_.Add("Shape", opset_, {node_.input(kWordIds)}, numbers, {{"start", int64_t{1}}});
    GraphValue* zero = inserter_.Ints({0});
    const Dims dims = {length, hidden_};
    GraphValue* rows = inserter_.Add("Slice", opset_, {node_.input(kPositions), zero, end, zero},
                                     ValueType::Tensor(node_.input(kPositions)->type().dtype, dims));
    return Numbers(kPositions, rows, dims);
  }
  GraphValue* Sum() {
    GraphValue* words = Rows(kWords, kWordIds);
    GraphValue* sum = inserter_.Add("Add", opset_, {words, PositionRows()}, words->type());
    if (!node_.input(kSegmentIds)) return sum;
    return inserter_.Add("Add", opset_, {sum, Rows(kSegments, kSegmentIds)}, words->type());
  }
  // How many words of a sample the mask keeps; none where there is no mask.
  GraphValue* Counts() {
    const Dims shape = *node_.input(kWordIds)->type().shape;
    const ValueType ints = ValueType::Tensor(DType::kI32, shape);
    GraphValue* kept = nullptr;
    if (GraphValue* mask = node_.input(kMask)) {
      GraphValue* one = inserter_.Constant(Tensor::Scalar(int32_t{1}), "_one");
      kept = inserter_.Add("Equal", opset_, {mask, one}, ValueType::Tensor(DType::kBool, shape));
      kept = inserter_.Add("Cast", opset_, {kept}, ints, {{"to", static_cast<int64_t>(DType::kI32)}});
    } else {
      kept = inserter_.Add("Sub", opset_, {node_.input(kWordIds), node_.input(kWordIds)}, ints);
    }
    return inserter_.Add("ReduceSum", opset_, {kept, inserter_.Ints({1})},
                         ValueType::Tensor(DType::kI32, Dims{shape[0]}), {{"keepdims", int64_t{0}}});
  }
  NodeSpec Norm() {
    GraphValue* sum = Sum();
    GraphValue* gamma = Numbers(kGamma, node_.input(kGamma), {hidden_});
    GraphValue* beta = Numbers(kBeta, node_.input(kBeta), {hidden_});
    return {.name = node_.name(),
            .op_type = "LayerNormalization",
            .opset = opset_,
            .inputs = {sum, gamma, beta},
            .attributes = {{"epsilon", node_.GetFloat("epsilon", 1e-12f)}}};
  }

 private:
  const Node& node_;
  Inserter inserter_;
  int opset_;
  Dim hidden_;
};

Result<bool> Split(Graph& graph, Node* n) {
  if (!n->Is("QEmbedLayerNormalization", "com.microsoft")) return false;
  if (!n->input(kWordIds)->type().has_rank() || !n->input(kWords)->type().has_rank()) return false;
  // A single row would be added to every word, however many there are.
  const ValueType& positions = n->input(kPositions)->type();
  if (!positions.has_rank() || !positions.shape->front().is_constant() || positions.shape->front().value() <= 1) {
    return false;
  }
  Splitter splitter(graph, n);
  GraphValue* counts = n->output(1);
  if (counts && (!counts->uses().empty() || counts->is_graph_output())) ReplaceValue(graph, counts, splitter.Counts());
  ReplaceNode(graph, n, splitter.Norm());
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Split); }

}  // namespace

extern const Pass kSplitQuantizedEmbedding = {"split_quantized_embedding",
                                              "sums of quantized embeddings as rows of their tables", Run};

}  // namespace quern
