// Rotary embeddings, as exporters write them, become one node:
//   %h = Concat(-%x[..., size / 2 :], %x[..., : size / 2])      %y = %x * %cos + %h * %sin
// ->
//   %c = %cos[..., : size / 2] (and of the sines)   %y = RotaryEmbedding(%x, %c, %s)
// where the cosines and sines are alike for all heads and hold each number twice (paired_angles.h); those of one batch
// are expanded to all. The halves a and b of x are Slices or a Split, and may as well be turned one by one:
//   Concat(a * %cos - b * %sin, b * %cos + a * %sin)        ->  RotaryEmbedding
// and pairs may be neighbours instead of halves:
//   %h = Reshape(Concat(-%x[..., 1 :: 2], %x[..., :: 2]) of a new last axis)  ->  RotaryEmbedding {interleaved = 1}
// Heads of which only the first elements are turned, and joined to the rest again, become one node as well
// {rotary_embedding_dim}. Where x is [batch, length, heads, size], or the Transpose of such a value, the rows of all
// heads are turned {num_heads}; attend_within_rows may then take the transpose away. Nothing else reads the values in
// between.
#include "graph/rewriter.h"
#include "ops/common/permutation.h"
#include "passes/formula.h"
#include "passes/passes.h"
#include "passes/rotation.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

constexpr int kRotarySince = 23;
const std::vector<int64_t> kHeadsFirst = {0, 2, 1, 3};

class Fuser {
 public:
  Fuser(Graph& graph, const Rotation& rotation) : graph_(graph), last_(rotation.last), rotation_(rotation) {}

  // False where the number of heads is needed and not known.
  bool Fuse() {
    const bool length_first = rotation_.order == HeadOrder::kLengthFirst;
    GraphValue* apart = length_first ? rotation_.x : HeadsApart();
    if (apart != nullptr && !IsSmallExtent((*apart->type().shape)[2])) {
      if (length_first) return false;
      apart = nullptr;
    }
    std::vector<GraphValue*> inputs = {rotation_.x, Cache(rotation_.cosines), Cache(rotation_.sines)};
    std::map<std::string, Attribute, std::less<>> attributes = {
        {"interleaved", int64_t{rotation_.pairing == Pairing::kNeighbours}}};
    if (rotation_.rotated > 0) attributes["rotary_embedding_dim"] = rotation_.rotated;
    if (apart == nullptr) {
      ReplaceNode(graph_, last_,
                  {.name = last_->name(),
                   .op_type = "RotaryEmbedding",
                   .opset = kRotarySince,
                   .inputs = std::move(inputs),
                   .attributes = std::move(attributes)});
      return true;
    }
    const Dims& shape = *apart->type().shape;
    const int64_t heads = shape[2].value(), size = shape[3].value();
    const ValueType rows = ValueType::Tensor(apart->type().dtype, Dims{shape[0], shape[1], heads * size});
    inputs[0] = Add("Reshape", 13, {apart, Numbers({0, 0, heads * size})}, rows);
    attributes["num_heads"] = heads;
    GraphValue* turned = Add("RotaryEmbedding", kRotarySince, std::move(inputs), rows, std::move(attributes));
    turned->producer()->set_name(last_->name());
    std::vector<GraphValue*> split = {turned, Numbers({0, 0, heads, size})};
    if (length_first) {
      ReplaceNode(graph_, last_, {.op_type = "Reshape", .opset = 13, .inputs = std::move(split)});
      return true;
    }
    GraphValue* back = Add("Reshape", 13, std::move(split), apart->type());
    ReplaceNode(graph_, last_,
                {.op_type = "Transpose", .opset = 13, .inputs = {back}, .attributes = {{"perm", kHeadsFirst}}});
    return true;
  }

 private:
  // [batch, length, heads, size], of which x is the transposed form, or null.
  GraphValue* HeadsApart() const {
    const Node* transpose = ProducerOf(rotation_.x, "Transpose");
    if (transpose == nullptr) return nullptr;
    const ValueType& from = transpose->input(0)->type();
    if (!from.has_rank() || from.rank() != 4 || !IsSmallExtent(from.shape->back())) return nullptr;
    const Result<std::vector<int64_t>> perm = ReadPermutation(*transpose, 4);
    return perm.ok() && *perm == kHeadsFirst ? transpose->input(0) : nullptr;
  }
  GraphValue* Add(const char* op_type, int opset, std::vector<GraphValue*> inputs, ValueType type,
                  std::map<std::string, Attribute, std::less<>> attributes = {}) {
    Node* n = graph_.AddNode({.op_type = op_type,
                              .opset = opset,
                              .inputs = std::move(inputs),
                              .outputs = {graph_.UniqueName(last_->output(0)->name() + "_part")},
                              .attributes = std::move(attributes)},
                             last_);
    n->output(0)->set_type(std::move(type));
    return n->output(0);
  }
  GraphValue* Numbers(const std::vector<int64_t>& numbers) {
    const auto n = static_cast<int64_t>(numbers.size());
    return graph_.AddConstant(graph_.UniqueName(last_->output(0)->name() + "_numbers"),
                              Tensor::FromValues<int64_t>(Shape{n}, numbers));
  }

  // The operand of an Unsqueeze of that axis, or null.
  static GraphValue* Without(const GraphValue* v, int64_t axis) {
    const Node* unsqueeze = ProducerOf(v, "Unsqueeze");
    if (unsqueeze == nullptr) return nullptr;
    Dims shape = *v->type().shape;
    shape.erase(shape.begin() + axis);
    const ValueType& before = unsqueeze->input(0)->type();
    return before.has_rank() && *before.shape == shape ? unsqueeze->input(0) : nullptr;
  }
  // One number of each pair, [batch, length, size / 2].
  GraphValue* Cache(GraphValue* v) {
    const DType dtype = v->type().dtype;
    const bool heads_first = rotation_.order == HeadOrder::kHeadsFirst;
    const int64_t heads_at = v->type().rank() - (heads_first ? 3 : 2);
    // Of three dimensions, heads that come first serve as the batch.
    bool has_heads = v->type().rank() == 4 || (v->type().rank() == 3 && !heads_first);
    if (GraphValue* before = has_heads ? Without(v, heads_at) : nullptr) {
      v = before;
      has_heads = false;
    }
    Dims shape = *v->type().shape;
    if (!rotation_.is_half) {
      const int64_t size = shape.back().value();
      const bool halves = rotation_.pairing == Pairing::kHalves;
      shape.back() = size / 2;
      v = Add("Slice", 13,
              {v, Numbers({0}), Numbers({halves ? size / 2 : size}), Numbers({-1}), Numbers({halves ? 1 : 2})},
              ValueType::Tensor(dtype, shape));
    }
    if (has_heads) {
      shape.erase(shape.begin() + heads_at);
      v = Add("Squeeze", 13, {v, Numbers({heads_at})}, ValueType::Tensor(dtype, shape));
    }
    if (shape.size() == 2) {
      shape.insert(shape.begin(), Dim(1));
      v = Add("Unsqueeze", 13, {v, Numbers({0})}, ValueType::Tensor(dtype, shape));
    }
    const Dim batch = (*rotation_.x->type().shape)[0];
    if (shape[0] == batch) return v;
    GraphValue* images = Add("Shape", 15, {rotation_.x}, ValueType::Tensor(DType::kI64, Dims{Dim(1)}),
                             {{"start", int64_t{0}}, {"end", int64_t{1}}});
    GraphValue* to = Add("Concat", 13, {images, Numbers({1, 1})}, ValueType::Tensor(DType::kI64, Dims{Dim(3)}),
                         {{"axis", int64_t{0}}});
    shape[0] = batch;
    return Add("Expand", 13, {v, to}, ValueType::Tensor(dtype, std::move(shape)));
  }

  Graph& graph_;
  Node* last_;
  Rotation rotation_;
};

Result<bool> FuseRotation(Graph& graph, Node* n) {
  Node* before = IsWhole(*n, "Concat") ? n->input(0)->producer() : nullptr;
  for (Node* from : {n, before}) {
    const std::optional<Rotation> r = from != nullptr ? ReadRotation(from) : std::nullopt;
    if (r && r->last == n) return Fuser(graph, *r).Fuse();
  }
  return false;
}

Result<int> Run(Graph& graph, const void* context) {
  return NewestOpset(context) < kRotarySince ? Result<int>(0) : RewriteNodes(graph, FuseRotation);
}

}  // namespace

extern const Pass kFuseRotary = {"fuse_rotary", "rotary embeddings that are written out", Run};

}  // namespace quern
