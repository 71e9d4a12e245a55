// Quantized convolutions and pooling of com.microsoft whose channels come last, which onnxruntime's optimizer writes
// for CPUs, become the standard's between transposes, which other passes move and cancel:
//   %y = com.microsoft::QLinearConv(%x, ...) {channels_last = 1}
// ->
//   %a = Transpose(%x) {perm = [0, 3, 1, 2]}   %b = QLinearConv(%a, ...)   %y = Transpose(%b) {perm = [0, 2, 3, 1]}
// and likewise com.microsoft::NhwcMaxPool, as MaxPool.
#include <algorithm>
#include <numeric>

#include "graph/rewriter.h"
#include "ops/common/plane_layout.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr const char* kDomain = "com.microsoft";

ValueType ChannelsSecond(const ValueType& type) { return ValueType::Tensor(type.dtype, ToChannelsSecond(*type.shape)); }

Result<bool> Convert(Graph& graph, Node* n) {
  const bool convolves = n->Is("QLinearConv", kDomain);
  if (!convolves && !n->Is("NhwcMaxPool", kDomain)) return false;
  const char* op_type = convolves ? "QLinearConv" : "MaxPool";
  const int since = convolves ? 10 : 12;  // pools bytes since 12
  const int opset = std::max(graph.opset(""), since);
  Attributes attributes = n->attributes();
  attributes.erase("channels_last");
  if (convolves && n->GetInt("channels_last", 0) == 0) {
    ReplaceNode(graph, n,
                {.name = n->name(),
                 .op_type = op_type,
                 .opset = opset,
                 .inputs = n->inputs(),
                 .attributes = std::move(attributes)});
    return true;
  }
  const ValueType &from = n->input(0)->type(), &to = n->output(0)->type();
  if (!from.has_rank() || !to.has_rank() || from.rank() < 3) return false;
  std::vector<int64_t> order(static_cast<size_t>(from.rank()));
  std::iota(order.begin(), order.end(), 0);
  Inserter inserter(graph, n);
  std::vector<GraphValue*> inputs = n->inputs();
  inputs[0] = inserter.Add("Transpose", opset, {inputs[0]}, ChannelsSecond(from), {{"perm", ToChannelsSecond(order)}});
  GraphValue* result = inserter.Add(op_type, opset, std::move(inputs), ChannelsSecond(to), std::move(attributes));
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = "Transpose",
               .opset = opset,
               .inputs = {result},
               .attributes = {{"perm", ToChannelsLast(order)}}});
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Convert); }

}  // namespace

extern const Pass kConvertChannelsLast = {
    "convert_channels_last", "onnxruntime's quantized operators of channels last as the standard's, transposed", Run};

}  // namespace quern
