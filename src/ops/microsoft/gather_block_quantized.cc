// com.microsoft.GatherBlockQuantized: Gather of data that is quantized by blocks along one axis. An index outside the
// data gives zeros.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/float_io.h"
#include "ops/common/gather_block_quantized.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"
#include "ops/common/integer_io.h"
#include "ops/common/small_types.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

enum Input { kData, kIndices, kScales, kZeroPoints };

Status CheckExtent(const InferContext& c, const char* what, int axis, const Dim& extent, int64_t needed) {
  if (!extent.is_constant() || extent.value() == needed) return OkStatus();
  return c.Error(std::string(what) + " have " + std::to_string(extent.value()) + " elements along dimension " +
                 std::to_string(axis) + ", " + std::to_string(needed) + " are needed");
}

Status Infer(InferContext& c) {
  const std::optional<Dims> data = c.input_shape(kData), indices = c.input_shape(kIndices),
                            scales = c.input_shape(kScales), zeros = c.input_shape(kZeroPoints);
  ValueType type = ValueType::Tensor(c.input_dtype(kScales));
  if (!data) {
    c.SetOutputType(0, std::move(type));
    return OkStatus();
  }
  const int rank = static_cast<int>(data->size());
  QUERN_ASSIGN_OR_RETURN(const BlockGather g, BlockGather::Read(c.node(), c.input_dtype(kData), rank));
  if (c.HasInput(kZeroPoints) && IsSmallFloat(c.input_dtype(kData))) {
    return c.Error("data of a float type have no zero points");
  }
  for (const auto& [what, shape] : {std::pair("the scales", &scales), std::pair("the zero points", &zeros)}) {
    if (*shape && static_cast<int>((*shape)->size()) != rank) {
      return c.Error(std::string(what) + " have shape " + DimsToString(**shape) + ", as many dimensions as the data (" +
                     std::to_string(rank) + ") are needed");
    }
  }
  const bool broadcasts = IsSmallFloat(c.input_dtype(kData));
  for (int axis = 0; axis < rank; ++axis) {
    if (!(*data)[axis].is_constant()) continue;
    int64_t extent = (*data)[axis].value(), of_zeros = extent;
    if (axis == g.quantize_axis) {
      extent = g.Blocks(extent);
      of_zeros = (extent + g.packed - 1) / g.packed;
    }
    if (scales && !(broadcasts && axis != g.quantize_axis && (*scales)[axis].is_constant(1))) {
      QUERN_RETURN_IF_ERROR(CheckExtent(c, "the scales", axis, (*scales)[axis], extent));
    }
    if (zeros) QUERN_RETURN_IF_ERROR(CheckExtent(c, "the zero points", axis, (*zeros)[axis], of_zeros));
  }
  if (indices) {
    Dims out(data->begin(), data->begin() + g.gather_axis);
    out.insert(out.end(), indices->begin(), indices->end());
    out.insert(out.end(), data->begin() + g.gather_axis + 1, data->end());
    out.back() = out.back() * Dim(g.packed);
    type.shape = std::move(out);
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

// The integers of a tensor whose bytes hold `packed` of them, the first in the lowest bits, each line of `count` from a
// byte on.
std::vector<float> Unpack(const Tensor& t, int64_t packed, int64_t count) {
  const auto* bytes = static_cast<const uint8_t*>(t.raw_data());
  const int64_t line_bytes = (count + packed - 1) / packed, lines = t.num_elements() / std::max<int64_t>(1, line_bytes);
  const int bits = static_cast<int>(8 / packed);
  std::vector<float> values;
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t byte = bytes[line * line_bytes + i / packed];
      values.push_back(static_cast<float>(byte >> (i % packed * bits) & ((1 << bits) - 1)));
    }
  }
  return values;
}

// All elements of the data or the zero points; `count` of them along the last dimension.
std::vector<float> Values(const Tensor& t, const BlockGather& g, int64_t count) {
  if (t.dtype() == DType::kU8) return Unpack(t, g.packed, count);
  std::vector<float> values(static_cast<size_t>(t.num_elements()));
  if (IsSmallFloat(t.dtype())) {
    LoadSmallFloats(t, 0, t.num_elements(), values.data());
  } else {
    const std::vector<int32_t> integers = WidenIntegers(t);
    std::copy(integers.begin(), integers.end(), values.begin());
  }
  return values;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Tensor &data = c.input(kData), &scales = c.input(kScales);
  QUERN_ASSIGN_OR_RETURN(const BlockGather g, BlockGather::Read(c.node(), data.dtype(), data.shape().rank()));
  Shape shape = data.shape();
  const int rank = shape.rank();
  shape[rank - 1] *= g.packed;
  const std::vector<float> values = Values(data, g, shape[rank - 1]);
  std::vector<float> scale(static_cast<size_t>(scales.num_elements()));
  WidenFloats<float>(scales.dtype(), scales.raw_data(), scales.num_elements(), scale.data());
  std::vector<float> zero(scale.size(), g.ZeroPoint(data.dtype()));
  if (c.HasInput(kZeroPoints)) zero = Values(c.input(kZeroPoints), g, scales.shape()[rank - 1]);
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadInts(c, kIndices));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  Shape block = shape;
  block[g.quantize_axis] = scales.shape()[g.quantize_axis];
  const Shape strides = shape.ContiguousStrides();
  const Shape scale_strides = BroadcastStrides(scales.shape(), scales.shape().ContiguousStrides(), block);
  const int64_t extent = shape[g.gather_axis], per_block = g.block_size > 0 ? g.block_size : shape[g.quantize_axis];
  Shape gathered = shape;
  gathered[g.gather_axis] = static_cast<int64_t>(indices.size());
  IndexCounter at(gathered);
  for (int64_t i = 0; i < gathered.num_elements(); ++i, at.Next()) {
    int64_t element = 0, parameter = 0;
    bool inside = true;
    for (int d = 0; d < rank; ++d) {
      int64_t position = at.index()[d];
      if (d == g.gather_axis) {
        position = indices[static_cast<size_t>(position)];
        inside = position >= -extent && position < extent;
        position = !inside ? 0 : position < 0 ? position + extent : position;
      }
      element += position * strides[d];
      parameter += (d == g.quantize_axis ? position / per_block : position) * scale_strides[d];
    }
    y[i] = inside ? (values[element] - zero[parameter]) * scale[parameter] : 0.0f;
  }
  y.Finish();
  return OkStatus();
}

constexpr TypeSet kDataTypes = TypeSet{DType::kU8, DType::kI4, DType::kU4, DType::kF4E2M1} | kFloat8Types;
constexpr TypeSet kScaleTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"data", "T1", kDataTypes},
                             {"indices", "Tind", TypeSet{DType::kI32, DType::kI64}},
                             {"scales", "T2", kScaleTypes},
                             {"zero_points", "T1", kDataTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T2", kScaleTypes}};
constexpr AttrSpec kAttributes[] = {{"bits", AttrType::kInt, false, "4"},
                                    {"block_size", AttrType::kInt, false, "128"},
                                    {"gather_axis", AttrType::kInt, false, "0"},
                                    {"quantize_axis", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftGatherBlockQuantized = {"com.microsoft", "GatherBlockQuantized",
                                                                        kVersions};

}  // namespace quern
