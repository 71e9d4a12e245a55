#include "ops/common/gather_block_quantized.h"

#include <string>

#include "ops/common/infer_common.h"
#include "ops/common/small_types.h"

namespace quern {

Result<BlockGather> BlockGather::Read(const Node& node, DType data, int rank) {
  const auto error = [&](const std::string& what) { return InvalidArgument(node.Describe() + ": " + what); };
  BlockGather g;
  QUERN_ASSIGN_OR_RETURN(g.gather_axis, NormalizeAxis(node, node.GetInt("gather_axis", 0), rank));
  QUERN_ASSIGN_OR_RETURN(g.quantize_axis, NormalizeAxis(node, node.GetInt("quantize_axis", 1), rank));
  g.block_size = node.GetInt("block_size", 128);
  const bool whole = IsSmallFloat(data) && g.block_size == 0;
  if (!whole && (g.block_size < 16 || (g.block_size & (g.block_size - 1)) != 0)) {
    return error("attribute 'block_size' is " + std::to_string(g.block_size) + ", a power of two from 16 on is needed");
  }
  g.bits = data == DType::kI4 || data == DType::kU4 || data == DType::kF4E2M1 ? 4 : 8;
  if (data != DType::kU8) return g;
  const int64_t bits = node.GetInt("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) {
    return error("attribute 'bits' is " + std::to_string(bits) + ", 2, 4 or 8 are needed");
  }
  if (g.gather_axis != 0 || g.quantize_axis != rank - 1 || rank < 2) {
    return error("data of type u8 are gathered along their first and quantized along their last dimension");
  }
  g.bits = static_cast<int>(bits);
  g.packed = 8 / bits;
  return g;
}

int64_t BlockGather::Blocks(int64_t extent) const {
  if (block_size == 0) return 1;
  const int64_t per_block = block_size / packed;  // of elements as declared
  return extent / per_block + (extent % per_block != 0);
}

float BlockGather::ZeroPoint(DType data) const {
  return data == DType::kU8 ? static_cast<float>(int64_t{1} << (bits - 1)) : 0.0f;
}

}  // namespace quern
