// com.microsoft.MatMulNBits: A by a weight of 2, 4 or 8 bits: w = (q - zero point) * scale per block along K.
#include <string>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kA, kB, kScales, kZeroPoints, kGroupIndex, kBias };

struct Sizes {
  int64_t n, k, bits, block, blocks;
  int64_t block_bytes() const { return block * bits / 8; }
  int64_t zero_row_bytes() const { return (blocks * bits + 7) / 8; }
};

Result<Sizes> ReadSizes(const Node& node) {
  Sizes s{node.GetInt("N", 0), node.GetInt("K", 0), node.GetInt("bits", 4), node.GetInt("block_size", 0), 0};
  const auto fails = [&](const std::string& why) { return InvalidArgument(node.Describe() + ": " + why); };
  constexpr int64_t kMost = int64_t{1} << 31;
  if (s.n < 1 || s.k < 1 || s.n > kMost || s.k > kMost) return fails("attributes 'N' and 'K' are out of range");
  if (s.bits != 2 && s.bits != 4 && s.bits != 8)
    return fails("'bits' is " + std::to_string(s.bits) + "; 2, 4 or 8 is needed");
  if (s.block < 16 || s.block > kMost || (s.block & (s.block - 1)) != 0) {
    return fails("'block_size' is " + std::to_string(s.block) + "; a power of two of at least 16 is needed");
  }
  s.blocks = (s.k + s.block - 1) / s.block;
  return s;
}

Status CheckCount(const InferContext& c, int i, int64_t wanted, int64_t other) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape) return OkStatus();
  const Dim count = Product(*shape);
  if (!count.is_constant() || count.value() == wanted || count.value() == other) return OkStatus();
  return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) + "; " +
                 std::to_string(wanted) + " elements are needed");
}

Status Infer(InferContext& c) {
  if (c.node().GetInt("weight_prepacked", 0) != 0) {
    return Unsupported(c.node().Describe() + ": weights in a provider's own layout ('weight_prepacked' = " +
                       std::to_string(c.node().GetInt("weight_prepacked", 0)) + ") are not supported");
  }
  QUERN_ASSIGN_OR_RETURN(const Sizes s, ReadSizes(c.node()));
  std::optional<Dims> shape = c.input_shape(kA);
  if (shape) {
    if (shape->empty() || (shape->back().is_constant() && shape->back().value() != s.k)) {
      return c.Error("A has shape " + DimsToString(*shape) +
                     "; its last dimension must be 'K' = " + std::to_string(s.k));
    }
    shape->back() = s.n;
  }
  QUERN_RETURN_IF_ERROR(CheckCount(c, kB, s.n * s.blocks * s.block_bytes(), -1));
  QUERN_RETURN_IF_ERROR(CheckCount(c, kScales, s.n * s.blocks, -1));
  const bool packed = c.input_dtype(kZeroPoints) == DType::kU8;
  if (c.HasInput(kZeroPoints)) {
    QUERN_RETURN_IF_ERROR(CheckCount(c, kZeroPoints, packed ? s.n * s.zero_row_bytes() : s.n * s.blocks, -1));
  }
  if (c.HasInput(kGroupIndex)) QUERN_RETURN_IF_ERROR(CheckCount(c, kGroupIndex, s.k, s.blocks * s.block));
  if (c.HasInput(kBias)) QUERN_RETURN_IF_ERROR(CheckCount(c, kBias, s.n, -1));
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(kA), std::move(shape)));
  return OkStatus();
}

// Element i of packed unsigned integers of `bits`, the first in the lowest bits.
int Unpack(const uint8_t* bytes, int64_t i, int64_t bits) {
  const int64_t per_byte = 8 / bits;
  return (bytes[i / per_byte] >> (i % per_byte * bits)) & ((1 << bits) - 1);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const Sizes s, ReadSizes(c.node()));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> a, ReadFloats<float>(c, kA));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> scales, ReadFloats<float>(c, kScales));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> bias, ReadFloats<float>(c, kBias));
  FloatInput<float> float_zeros;
  const uint8_t* packed_zeros = nullptr;
  if (c.HasInput(kZeroPoints)) {
    if (c.input(kZeroPoints).dtype() == DType::kU8) {
      packed_zeros = c.input(kZeroPoints).data<uint8_t>();
    } else {
      QUERN_ASSIGN_OR_RETURN(float_zeros, ReadFloats<float>(c, kZeroPoints));
    }
  }
  const int32_t* groups = c.HasInput(kGroupIndex) ? c.input(kGroupIndex).data<int32_t>() : nullptr;
  for (int64_t k = 0; groups && k < s.k; ++k) {
    if (groups[k] < 0 || groups[k] >= s.blocks) {
      return c.Error("g_idx has the entry " + std::to_string(groups[k]) + " but there are " + std::to_string(s.blocks) +
                     " groups");
    }
  }
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  const uint8_t* weights = c.input(kB).data<uint8_t>();
  const int64_t rows = a.num_elements() / s.k;
  std::vector<float> column(static_cast<size_t>(s.k));
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t k = 0; k < s.k; ++k) {
      const int64_t group = groups ? groups[k] : k / s.block;
      const int q = Unpack(weights + (n * s.blocks + k / s.block) * s.block_bytes(), k % s.block, s.bits);
      float zero = static_cast<float>(1 << (s.bits - 1));
      if (packed_zeros) zero = static_cast<float>(Unpack(packed_zeros + n * s.zero_row_bytes(), group, s.bits));
      if (float_zeros) zero = float_zeros[n * s.blocks + group];
      column[k] = (static_cast<float>(q) - zero) * scales[n * s.blocks + group];
    }
    for (int64_t m = 0; m < rows; ++m) {
      double sum = bias ? static_cast<double>(bias[n]) : 0.0;
      for (int64_t k = 0; k < s.k; ++k) sum += static_cast<double>(a[m * s.k + k]) * column[k];
      y[m * s.n + n] = static_cast<float>(sum);
    }
  }
  y.Finish();
  return OkStatus();
}

constexpr TypeSet kATypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr TypeSet kZeroTypes = kATypes | TypeSet{DType::kU8};

constexpr Param kInputs[] = {{"A", "T1", kATypes},
                             {"B", "T2", TypeSet{DType::kU8}},
                             {"scales", "T1", kATypes},
                             {"zero_points", "T3", kZeroTypes, Arity::kOptional},
                             {"g_idx", "T4", kI32Type, Arity::kOptional},
                             {"bias", "T1", kATypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T1", kATypes}};
constexpr AttrSpec kAttributes[] = {{"K", AttrType::kInt, true},
                                    {"N", AttrType::kInt, true},
                                    {"accuracy_level", AttrType::kInt, false, "0"},
                                    {"bits", AttrType::kInt, false, "4"},
                                    {"block_size", AttrType::kInt, true},
                                    {"weight_prepacked", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftMatMulNBits = {"com.microsoft", "MatMulNBits", kVersions};

}  // namespace quern
