// A convolution of blocks of pixels that lie in channels reads the pixels themselves, with larger windows and strides:
//   %k = SpaceToDepth(%x) {blocksize = b}   %y = Conv(%k, %w) {pads = p, strides = s}
// ->
//   %y = Conv(%x, %w with each channel's place within the block as a row and a column) {pads = b * p, strides = b * s}
// of as many multiplications and no move. More than 63 channels stay where the windows have more than one pixel: there
// are faster algorithms than the direct one for those.
#include <cstring>

#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr int64_t kMostChannels = 63, kMostPadded = int64_t{1} << 30;

// [o, b * b * c, kh, kw] -> [o, c, kh * b, kw * b]: SpaceToDepth's channels are the places of a block, row by row, then
// the channels of the image.
Result<Tensor> SpreadWeights(const Tensor& weights, int64_t b) {
  const int64_t channels = weights.dim(1) / (b * b), kh = weights.dim(2), kw = weights.dim(3);
  const Shape shape{weights.dim(0), channels, kh * b, kw * b};
  QUERN_ASSIGN_OR_RETURN(Tensor spread, Tensor::Allocate(weights.dtype(), shape));
  const size_t bytes = DTypeBytes(weights.dtype());
  const auto* from = static_cast<const std::byte*>(weights.raw_data());
  auto* to = static_cast<std::byte*>(spread.raw_data());
  for (int64_t o = 0; o < weights.dim(0); ++o) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t row = 0; row < kh * b; ++row) {
        for (int64_t column = 0; column < kw * b; ++column, to += bytes) {
          const int64_t place = row % b * b + column % b;
          const int64_t at = ((o * b * b + place) * channels + c) * kh * kw + row / b * kw + column / b;
          std::memcpy(to, from + static_cast<size_t>(at) * bytes, bytes);
        }
      }
    }
  }
  return spread;
}

// The numbers of an attribute times b; `missing` stands for each of `count` where it is not given.
std::optional<std::vector<int64_t>> Scaled(const Node& n, const char* name, size_t count, int64_t missing, int64_t b) {
  std::vector<int64_t> numbers = n.GetInts(name);
  if (numbers.empty()) numbers.assign(count, missing);
  if (numbers.size() != count) return std::nullopt;
  for (int64_t& number : numbers) {
    if (number < 0 || number > kMostPadded) return std::nullopt;
    number *= b;
  }
  return numbers;
}

// Whether both sides of the image are known to be made of whole blocks.
bool HasWholeBlocks(const GraphValue* image, int64_t b) {
  if (!image->type().has_rank() || image->type().rank() != 4) return false;
  const Dims& dims = *image->type().shape;
  const auto is_whole = [b](const Dim& d) { return d.is_constant() && d.value() % b == 0; };
  return is_whole(dims[2]) && is_whole(dims[3]);
}

Result<bool> Fuse(Graph& graph, Node* n) {
  if (!IsWhole(*n, "Conv") || n->GetInt("group", 1) != 1 || !HasOneReader(n->input(0))) return false;
  const Node* blocks = ProducerOf(n->input(0), "SpaceToDepth");
  const GraphValue* w = n->input(1);
  if (blocks == nullptr || w == nullptr || !w->is_constant() || !w->constant()->is_tensor()) return false;
  const int64_t b = blocks->GetInt("blocksize", 1);
  const std::string auto_pad = n->GetString("auto_pad", "NOTSET");
  const std::vector<int64_t> dilations = n->GetInts("dilations");
  if (b < 2 || b > kMostChannels || !HasWholeBlocks(blocks->input(0), b) ||
      (auto_pad != "NOTSET" && auto_pad != "VALID") ||
      std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; })) {
    return false;
  }
  const Tensor& weights = w->constant()->tensor();
  if (!weights.is_contiguous() || DTypeBytes(weights.dtype()) == 0 || weights.rank() != 4 ||
      weights.dim(1) % (b * b) != 0) {
    return false;
  }
  const bool is_pointwise = weights.dim(2) == 1 && weights.dim(3) == 1;
  if (weights.dim(1) > kMostChannels && !is_pointwise) return false;
  std::optional<std::vector<int64_t>> pads = Scaled(*n, "pads", 4, 0, b), strides = Scaled(*n, "strides", 2, 1, b);
  if (!pads || !strides) return false;
  QUERN_ASSIGN_OR_RETURN(Tensor spread, SpreadWeights(weights, b));
  Attributes attributes = n->attributes();
  attributes.erase("auto_pad");
  if (auto_pad == "VALID") pads->assign(4, 0);
  attributes["pads"] = std::move(*pads);
  attributes["strides"] = std::move(*strides);
  attributes["kernel_shape"] = std::vector<int64_t>{spread.dim(2), spread.dim(3)};
  std::vector<GraphValue*> inputs = n->inputs();
  inputs[0] = blocks->input(0);
  inputs[1] = Inserter(graph, n).Constant(std::move(spread), "_weights");
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = "Conv",
               .opset = n->opset(),
               .inputs = std::move(inputs),
               .attributes = std::move(attributes)});
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Fuse); }

}  // namespace

extern const Pass kFuseSpaceToDepth = {"fuse_space_to_depth", "blocks of pixels in channels of a convolution", Run};

}  // namespace quern
