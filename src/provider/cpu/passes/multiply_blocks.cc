// A product with weights that are dequantized by blocks, or have fewer than 8 bits, takes them as they are stored:
//   y = MatMul(a, DequantizeLinear(const W, const s, const z) {axis = 0, block_size = 32})     W: i4[K, N]
//     ->  y = com.microsoft.MatMulNBits(a, const B, const s', const z') {bits = 4, block_size = 32}
// also by way of a Transpose, and as a Gemm with one bias for each column. Exact: rows of `a` stay float32.
#include <algorithm>
#include <cstring>
#include <optional>

#include "base/packed_bits.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

constexpr int64_t kLeastBlock = 16;

struct Weights {
  Tensor stored, scale, zero;  // contiguous; zero may be undefined
  int64_t n = 0, k = 0;
  bool rows_are_columns = false;  // stored as [n, k], else [k, n]
  int bits = 0;
  bool is_signed = false;
  int64_t block = 0, blocks = 0;  // along k: elements of one, how many
  // Scale i of column c and block b is c * column_step + b * block_step.
  int64_t column_step = 0, block_step = 0;

  int64_t row_bytes() const { return blocks * block * bits / 8; }
  // From two's complement to the offset of MatMulNBits: of one element, and of all in a byte.
  int flip() const { return is_signed ? 1 << (bits - 1) : 0; }
  int flips() const { return flip() * (bits == 8 ? 1 : bits == 4 ? 0x11 : 0x55); }
};

int BitsOf(DType type) { return type == DType::kI8 || type == DType::kU8 ? 8 : PackedBits(type); }

uint8_t Load(const Tensor& t, int64_t i, int bits) {
  const auto* bytes = static_cast<const uint8_t*>(t.raw_data());
  return bits == 8 ? bytes[i] : LoadPacked(bytes, i, bits);
}

// Rows of two neighbouring k become bytes of two columns each, a line of each of 64 columns at a time.
void PackColumnsOf4Bits(const Weights& w, uint8_t* to) {
  constexpr int64_t kColumnBytes = 32, kRows = 128;
  const auto* from = static_cast<const uint8_t*>(w.stored.raw_data());
  const int64_t row = w.n / 2, stride = w.row_bytes();
  for (int64_t j0 = 0; j0 < row; j0 += kColumnBytes) {
    const int64_t j1 = std::min(row, j0 + kColumnBytes);
    for (int64_t k0 = 0; k0 < w.k; k0 += kRows) {
      for (int64_t k = k0; k < std::min(w.k, k0 + kRows); k += 2) {
        const uint8_t *even = from + k * row, *odd = k + 1 < w.k ? even + row : nullptr;
        for (int64_t j = j0; j < j1; ++j) {
          const int a = even[j], b = odd ? odd[j] : 0;
          uint8_t* at = to + 2 * j * stride + k / 2;
          at[0] = static_cast<uint8_t>(((a & 15) | b << 4) ^ w.flips());
          at[stride] = static_cast<uint8_t>((a >> 4 | (b & 0xf0)) ^ w.flips());
        }
      }
    }
  }
}

// [n][blocks][bytes of a block], as MatMulNBits takes them.
void Pack(const Weights& w, uint8_t* to) {
  const int64_t stride = w.row_bytes();
  std::memset(to, 0, static_cast<size_t>(w.n * stride));
  if (w.bits == 4 && !w.rows_are_columns && w.n % 2 == 0) return PackColumnsOf4Bits(w, to);
  if (w.rows_are_columns && w.k * w.bits % 8 == 0) {
    const auto* from = static_cast<const uint8_t*>(w.stored.raw_data());
    const int64_t bytes = w.k * w.bits / 8;
    for (int64_t n = 0; n < w.n; ++n) {
      for (int64_t i = 0; i < bytes; ++i) to[n * stride + i] = static_cast<uint8_t>(from[n * bytes + i] ^ w.flips());
    }
    return;
  }
  for (int64_t n = 0; n < w.n; ++n) {
    for (int64_t k = 0; k < w.k; ++k) {
      const int64_t at = w.rows_are_columns ? n * w.k + k : k * w.n + n;
      const auto element = static_cast<uint8_t>(Load(w.stored, at, w.bits) ^ w.flip());
      if (w.bits == 8) {
        to[n * stride + k] = element;
      } else {
        AppendPacked(to + n * stride, k, w.bits, element);
      }
    }
  }
}

// How the scales lie; false for a form that blocks along k do not have.
bool ReadScales(const Node& dequantize, Weights& w) {
  const int64_t given = dequantize.GetInt("axis", 1), axis = given < 0 ? given + 2 : given;
  const int64_t along_k = w.rows_are_columns ? 1 : 0;
  w.block = dequantize.GetInt("block_size", 0);
  if (w.block != 0) {
    if (axis != along_k || w.block < kLeastBlock || (w.block & (w.block - 1)) != 0) return false;
    w.blocks = (w.k + w.block - 1) / w.block;
    w.column_step = w.rows_are_columns ? w.blocks : 1;
    w.block_step = w.rows_are_columns ? 1 : w.n;
    return w.scale.rank() == 2 && w.scale.num_elements() == w.n * w.blocks;
  }
  for (w.block = 128; w.block > kLeastBlock && w.k % w.block != 0;) w.block /= 2;
  w.blocks = (w.k + w.block - 1) / w.block;
  if (w.scale.num_elements() == 1) return true;
  w.column_step = 1;
  return axis != along_k && w.scale.rank() == 1 && w.scale.num_elements() == w.n;
}

std::optional<Tensor> Contiguous(const GraphValue* value) {
  Result<Tensor> t = ConstantTensor(value)->Contiguous();
  return t.ok() ? std::optional<Tensor>(std::move(t).value()) : std::nullopt;
}

// The weights that `right`, [K, N] or with `transposed` [N, K], is made of.
std::optional<Weights> ReadWeights(const GraphValue* right, bool transposed) {
  const Node* node = right->producer();
  if (const std::optional<Permutation> p = TransposePermutation(node); p && *p == Permutation{1, 0}) {
    node = node->input(0)->producer();
    transposed = !transposed;
  }
  if (!node || !node->Is("DequantizeLinear") || node->output(0)->type().dtype != DType::kF32) return std::nullopt;
  for (const GraphValue* v : node->inputs()) {
    if (v && !ConstantTensor(v)) return std::nullopt;
  }
  const Tensor& stored = *ConstantTensor(node->input(0));
  Weights w;
  w.bits = BitsOf(stored.dtype());
  w.is_signed = stored.dtype() == DType::kI8 || stored.dtype() == DType::kI4 || stored.dtype() == DType::kI2;
  // Whole bytes with one scale, or one for each column, have products of integers; or they become float32.
  if ((w.bits != 8 && w.bits != 4 && w.bits != 2) || (w.bits == 8 && node->GetInt("block_size", 0) == 0)) {
    return std::nullopt;
  }
  if (!IsIntegerType(stored.dtype()) || stored.rank() != 2 || stored.num_elements() == 0) return std::nullopt;
  if (node->input(1)->type().dtype != DType::kF32) return std::nullopt;
  w.rows_are_columns = transposed;
  w.n = stored.dim(transposed ? 0 : 1);
  w.k = stored.dim(transposed ? 1 : 0);
  const std::optional<Tensor> elements = Contiguous(node->input(0)), scale = Contiguous(node->input(1)),
                              zero = node->input(2) ? Contiguous(node->input(2)) : Tensor();
  if (!elements || !scale || !zero) return std::nullopt;
  w.stored = *elements;
  w.scale = *scale;
  w.zero = *zero;
  return ReadScales(*node, w) ? std::optional<Weights>(std::move(w)) : std::nullopt;
}

Tensor Scales(const Weights& w) {
  Tensor t = Tensor::Allocate(DType::kF32, Shape{w.n * w.blocks}).value();
  const auto* from = w.scale.data<float>();
  float* to = t.data<float>();
  for (int64_t n = 0; n < w.n; ++n) {
    for (int64_t b = 0; b < w.blocks; ++b) *to++ = from[n * w.column_step + b * w.block_step];
  }
  return t;
}

// Each column's zero points begin at a byte.
Tensor Zeros(const Weights& w) {
  const int64_t row = (w.blocks * w.bits + 7) / 8;
  Tensor t = Tensor::Allocate(DType::kU8, Shape{w.n * row}).value();
  auto* to = t.data<uint8_t>();
  for (int64_t n = 0; n < w.n; ++n, to += row) {
    for (int64_t b = 0; b < w.blocks; ++b) {
      uint8_t zero = static_cast<uint8_t>(w.flip());
      if (w.zero.defined()) zero ^= Load(w.zero, n * w.column_step + b * w.block_step, w.bits);
      if (w.bits == 8) {
        to[b] = zero;
      } else {
        AppendPacked(to, b, w.bits, zero);
      }
    }
  }
  return t;
}

bool IsProduct(const Node& node) {
  if (node.Is("MatMul")) return true;
  if (!node.Is("Gemm") || node.GetFloat("alpha", 1) != 1 || node.GetInt("transA", 0) != 0) return false;
  const GraphValue* bias = node.input(2);
  return !bias || (node.GetFloat("beta", 1) == 1 && IsConstantRow(*bias, *node.output(0)->type().shape));
}

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (!IsProduct(*node) || node->input(0)->type().dtype != DType::kF32 || !node->input(0)->type().has_rank())
      continue;
    if (node->input(0)->type().rank() == 0 || !node->output(0)->type().shape) continue;
    const std::optional<Weights> w = ReadWeights(node->input(1), node->GetInt("transB", 0) != 0);
    if (!w) continue;
    const auto constant = [&](Tensor t, const char* suffix) {
      return graph.AddConstant(graph.UniqueName(node->input(1)->name() + suffix), std::move(t));
    };
    QUERN_ASSIGN_OR_RETURN(Tensor packed, Tensor::Computed(DType::kU8, Shape{w->n, w->blocks, w->block * w->bits / 8},
                                                           [w = *w](void* to) { Pack(w, static_cast<uint8_t*>(to)); }));
    GraphValue* bias = nullptr;
    if (node->input(2)) {
      QUERN_ASSIGN_OR_RETURN(const Tensor row, ConstantTensor(node->input(2))->Contiguous());
      bias = constant(row.Reshaped(Shape{w->n}), "_bias");
    }
    std::vector<GraphValue*> inputs = {node->input(0),
                                       constant(std::move(packed), "_blocks"),
                                       constant(Scales(*w), "_scales"),
                                       constant(Zeros(*w), "_zeros"),
                                       nullptr,
                                       bias};
    Node* made = AddProductOfBlocks(graph, *node, std::move(inputs), node->output(0)->type(), node);
    made->SetAttribute("K", w->k);
    made->SetAttribute("N", w->n);
    made->SetAttribute("bits", int64_t{w->bits});
    made->SetAttribute("block_size", w->block);
    graph.ReplaceAllUses(node->output(0), made->output(0));
    RemoveIfDead(graph, node);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kMultiplyBlocks = {"cpu_multiply_blocks", "products with weights of few bits, or scaled by blocks",
                                     Run,
                                     /*on_subgraphs=*/true};

}  // namespace quern::cpu
