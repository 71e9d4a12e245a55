#include "provider/cpu/passes/sink_reshape.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "provider/cpu/passes/edit.h"
#include "tensor/tensor.h"

namespace quern::cpu {
namespace {

constexpr int kMostLinks = 32;  // that are followed in search of transposes

// Dimensions [from, from_end) before the Reshape that hold the same elements as [to, to_end) behind it.
struct Run {
  size_t from, from_end, to, to_end;
};

bool IsOne(const Dim& d) { return d.is_constant(1); }

// The shortest run that begins at two dimensions; nothing where none is known to have equal extents.
std::optional<Run> ShortestRun(const Dims& before, size_t from, const Dims& behind, size_t to) {
  std::optional<Run> best;
  Dim left = 1;
  for (size_t i = from; i < before.size(); ++i) {
    left = left * before[i];
    Dim right = 1;
    for (size_t k = to; k < behind.size(); ++k) {
      right = right * behind[k];
      if (!(left == right)) continue;
      if (!best || i + k + 2 < best->from_end + best->to_end) best = Run{from, i + 1, to, k + 1};
      break;
    }
  }
  return best;
}

// The runs of both shapes, in order.
std::optional<std::vector<Run>> MatchRuns(const Dims& before, const Dims& behind) {
  std::vector<Run> runs;
  size_t i = 0, k = 0;
  while (i < before.size() && k < behind.size()) {
    const std::optional<Run> run = ShortestRun(before, i, behind, k);
    if (!run) return std::nullopt;
    runs.push_back(*run);
    i = run->from_end;
    k = run->to_end;
  }
  const auto from = before.begin() + static_cast<std::ptrdiff_t>(i),
             to = behind.begin() + static_cast<std::ptrdiff_t>(k);
  if (runs.empty() || !std::all_of(from, before.end(), IsOne) || !std::all_of(to, behind.end(), IsOne)) {
    return std::nullopt;
  }
  runs.back().from_end = before.size();
  runs.back().to_end = behind.size();
  return runs;
}

// The Reshape of what was transposed, and the Transpose behind it.
struct Moved {
  Dims dims;
  std::vector<int64_t> shape;  // as Reshape takes it
  Permutation permutation;
};

// Where each run lies in the source: at the dimension that it begins with, not counting those of 1. Nothing when the
// dimensions of a run do not follow each other there.
std::optional<std::vector<int64_t>> PlacesInSource(const std::vector<Run>& runs, const Dims& source,
                                                   const Permutation& p) {
  std::vector<int64_t> places;
  for (const Run& run : runs) {
    int64_t begin = -1, last = -1;
    for (size_t i = run.from; i < run.from_end; ++i) {
      if (IsOne(source[p[i]])) continue;
      if (begin < 0) {
        begin = p[i];
      } else if (p[i] < last || !std::all_of(source.begin() + last + 1, source.begin() + p[i], IsOne)) {
        return std::nullopt;
      }
      last = p[i];
    }
    places.push_back(begin < 0 ? p[run.from] : begin);
  }
  return places;
}

std::optional<Moved> Move(const Dims& source, const Permutation& p, const Dims& behind) {
  Dims before;
  for (int64_t axis : p) before.push_back(source[axis]);
  const auto is_empty = [](const Dim& d) { return d.is_constant(0); };
  if (std::any_of(source.begin(), source.end(), is_empty)) return std::nullopt;
  const auto runs = MatchRuns(before, behind);
  const auto places = runs ? PlacesInSource(*runs, source, p) : std::nullopt;
  if (!places) return std::nullopt;
  std::vector<size_t> order(runs->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return (*places)[a] < (*places)[b]; });
  Moved moved;
  moved.permutation.resize(behind.size());
  bool has_open_extent = false;
  for (size_t r : order) {
    const Run& run = (*runs)[r];
    const bool is_single = run.from_end - run.from == 1 && run.to_end - run.to == 1;
    for (size_t k = run.to; k < run.to_end; ++k) {
      const auto at = static_cast<int64_t>(moved.dims.size());
      moved.permutation[k] = at;
      moved.dims.push_back(behind[k]);
      if (behind[k].is_constant()) {
        moved.shape.push_back(behind[k].value());
      } else if (is_single && p[run.from] == at) {
        moved.shape.push_back(0);  // copies the extent
      } else if (!has_open_extent) {
        moved.shape.push_back(-1);
        has_open_extent = true;
      } else {
        return std::nullopt;
      }
    }
  }
  return moved;
}

// Whether all readers are Transposes, at once or behind nothing but what transposes move through; `links` are the
// nodes that may still be looked at.
bool LeadsToTransposes(const GraphValue* v, int& links) {
  static constexpr std::string_view kLinks = " Add Clip Concat Mul Relu Reshape Sigmoid Sub ";
  return std::ranges::all_of(v->uses(), [&](const Use& use) {
    if (use.node == nullptr || links-- == 0) return false;
    if (use.node->Is("Transpose")) return true;
    return use.node->domain().empty() && kLinks.find(" " + use.node->op_type() + " ") != kLinks.npos &&
           LeadsToTransposes(use.node->output(0), links);
  });
}

}  // namespace

bool SinkReshape(Graph& graph, Node* node) {
  if (!node->Is("Reshape") || !node->output(0)->type().has_rank()) return false;
  const Node* transpose = node->input(0)->producer();
  const std::optional<Permutation> p = TransposePermutation(transpose);
  int links = kMostLinks;
  if (!p || node->output(0)->uses().empty() || !LeadsToTransposes(node->output(0), links)) return false;
  GraphValue* source = transpose->input(0);
  const std::optional<Moved> moved = Move(*source->type().shape, *p, *node->output(0)->type().shape);
  if (!moved) return false;
  const auto rank = static_cast<int64_t>(moved->shape.size());
  GraphValue* shape = graph.AddConstant(graph.UniqueName(node->output(0)->name() + "_shape"),
                                        Tensor::FromValues<int64_t>(Shape{rank}, moved->shape));
  Node* reshape = graph.AddNode({.name = node->name(),
                                 .op_type = "Reshape",
                                 .opset = 13,
                                 .inputs = {source, shape},
                                 .outputs = {graph.UniqueName(node->output(0)->name() + "_cl")}},
                                node);
  reshape->output(0)->set_type(ValueType::Tensor(source->type().dtype, moved->dims));
  graph.ReplaceAllUses(node->output(0), TransposeValue(graph, reshape->output(0), moved->permutation, node));
  RemoveIfDead(graph, node);
  return true;
}

}  // namespace quern::cpu
