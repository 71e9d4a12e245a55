// A Pad of the spatial dimensions becomes padding of the convolution or pool behind it:
//   %p = Pad(%x, [0, 0, 1, 1, 0, 0, 2, 2])   %y = Conv(%p, %w) {pads = [1, 1, 0, 0]}
// ->
//   %y = Conv(%x, %w) {pads = [2, 2, 2, 2]}
// where what it pads with is what the operator pads with: zeros before a Conv, the zero point before a ConvInteger or
// QLinearConv, zeros that count before an AveragePool (count_include_pad), -infinity before a MaxPool. Pads are
// constants that take nothing away; nothing else reads the padded value.
#include <algorithm>
#include <limits>

#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

constexpr int64_t kMostPadded = int64_t{1} << 30;  // more goes to no operator

struct Padding {
  std::vector<int64_t> begin, end;  // of the spatial dimensions
};

// The pads of a Pad with constant mode on [N, C, ...] that leaves batch and channels as they are.
std::optional<Padding> ReadPadding(const Node& pad) {
  if (pad.GetString("mode", "constant") != "constant" || !pad.input(0)->type().has_rank()) return std::nullopt;
  const auto rank = static_cast<size_t>(pad.input(0)->type().rank());
  std::optional<std::vector<int64_t>> pads = pad.opset() < 11 ? pad.GetInts("pads") : IntsOf(pad.input(1));
  std::vector<int64_t> axes;
  for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  if (pad.input(3) != nullptr) {
    const auto given = IntsOf(pad.input(3));
    if (!given) return std::nullopt;
    axes = *given;
  }
  if (!pads || rank < 3 || pads->size() != 2 * axes.size()) return std::nullopt;
  std::vector<int64_t> begin(rank, 0), end(rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] + (axes[i] < 0 ? static_cast<int64_t>(rank) : 0);
    if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
    begin[static_cast<size_t>(axis)] = (*pads)[i];
    end[static_cast<size_t>(axis)] = (*pads)[axes.size() + i];
  }
  const auto is_padding = [](int64_t n) { return n >= 0 && n <= kMostPadded; };
  if (begin[0] != 0 || begin[1] != 0 || end[0] != 0 || end[1] != 0) return std::nullopt;
  if (!std::all_of(begin.begin(), begin.end(), is_padding) || !std::all_of(end.begin(), end.end(), is_padding)) {
    return std::nullopt;
  }
  return Padding{{begin.begin() + 2, begin.end()}, {end.begin() + 2, end.end()}};
}

std::optional<double> NumberOf(const GraphValue* v) {
  if (const std::optional<double> number = ScalarOf(v, 1)) return number;
  const auto integers = IntsOf(v);
  return integers && integers->size() == 1 ? std::optional(static_cast<double>(integers->front())) : std::nullopt;
}

// What the Pad fills with, where that is a constant.
std::optional<double> FillOf(const Node& pad) {
  if (pad.opset() < 11) return static_cast<double>(pad.GetFloat("value", 0.0f));
  return pad.input(2) != nullptr ? NumberOf(pad.input(2)) : std::optional(0.0);
}

// A zero point that is missing is 0.
bool IsZeroPoint(const GraphValue* v, double number) { return v != nullptr ? NumberOf(v) == number : number == 0; }

// The lists of a node that have one entry, or two, for each spatial dimension.
std::vector<int64_t> ListOf(const Node& n, std::string_view name, size_t size, int64_t missing) {
  std::vector<int64_t> list = n.GetInts(name);
  return list.empty() ? std::vector<int64_t>(size, missing) : list;
}

// Whether each window of a pool holds an element, and none begins behind the input.
bool FillsWindows(const Node& pool, const std::vector<int64_t>& pads) {
  const size_t spatial = pads.size() / 2;
  const std::vector<int64_t> kernel = ListOf(pool, "kernel_shape", spatial, 0);
  const std::vector<int64_t> dilations = ListOf(pool, "dilations", spatial, 1);
  if (pool.GetInt("ceil_mode", 0) != 0 || kernel.size() != spatial || dilations.size() != spatial) return false;
  for (size_t d = 0; d < spatial; ++d) {
    if (dilations[d] != 1 || pads[d] >= kernel[d] || pads[spatial + d] >= kernel[d]) return false;
  }
  return true;
}

// Whether the operator pads with that number itself; `own` are its pads now, `pads` those it would get.
bool PadsWith(const Node& n, double fill, const std::vector<int64_t>& own, const std::vector<int64_t>& pads) {
  if (n.Is("Conv")) return fill == 0;
  if (n.Is("ConvInteger") || n.Is("QLinearConv")) return IsZeroPoint(n.input(2), fill);
  if (n.Is("MaxPool")) {
    return fill == -std::numeric_limits<double>::infinity() && n.output(1) == nullptr && FillsWindows(n, pads);
  }
  const bool counts = n.GetInt("count_include_pad", 0) != 0 ||
                      std::all_of(own.begin(), own.end(), [](int64_t pad) { return pad == 0; });
  return n.Is("AveragePool") && n.opset() >= 7 && fill == 0 && counts && FillsWindows(n, pads);
}

Result<bool> Fuse(Graph& graph, Node* n) {
  const Node* pad = n->output(0) != nullptr && HasOneReader(n->input(0)) ? ProducerOf(n->input(0), "Pad") : nullptr;
  const std::string auto_pad = n->GetString("auto_pad", "NOTSET");
  if (pad == nullptr || (auto_pad != "NOTSET" && auto_pad != "VALID")) return false;
  const std::optional<Padding> padding = ReadPadding(*pad);
  const std::optional<double> fill = FillOf(*pad);
  if (!padding || !fill) return false;
  const size_t spatial = padding->begin.size();
  std::vector<int64_t> own =
      auto_pad == "VALID" ? std::vector<int64_t>(2 * spatial, 0) : ListOf(*n, "pads", 2 * spatial, 0);
  if (own.size() != 2 * spatial || std::any_of(own.begin(), own.end(), [](int64_t p) { return p > kMostPadded; })) {
    return false;
  }
  std::vector<int64_t> pads = own;
  for (size_t d = 0; d < spatial; ++d) {
    pads[d] += padding->begin[d];
    pads[spatial + d] += padding->end[d];
  }
  if (!PadsWith(*n, *fill, own, pads)) return false;
  std::map<std::string, Attribute, std::less<>> attributes = n->attributes();
  attributes.erase("auto_pad");
  attributes["pads"] = std::move(pads);
  if (n->Is("AveragePool")) attributes["count_include_pad"] = int64_t{1};
  std::vector<GraphValue*> inputs = n->inputs();
  inputs[0] = pad->input(0);
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = n->op_type(),
               .opset = n->opset(),
               .inputs = std::move(inputs),
               .attributes = std::move(attributes)});
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Fuse); }

}  // namespace

extern const Pass kFusePad = {"fuse_pad", "padding into convolutions and pools", Run};

}  // namespace quern
