#include "kernels/packed_key.h"

#include <algorithm>
#include <vector>

namespace quern::kernels {
namespace {

using ukernel::Format;
using ukernel::FormatBits;
using ukernel::FormatBytes;
using ukernel::RhsSource;

bool AddRows(ContentHash& hash, const void* data, size_t rows, ptrdiff_t row_stride, size_t count, ptrdiff_t stride,
             size_t element, const Packing& packing) {
  const StridedExtent extents[] = {{rows, row_stride}, {count, stride}};
  return AddStrided(hash, data, element, extents, packing);
}

void AddVector(ContentHash& hash, const void* data, size_t count) {
  hash.AddNumber(data != nullptr);
  if (data != nullptr) hash.AddBytes(data, count * sizeof(float));
}

// Blocks along K, their scales and zero points; batches follow one another in the latter two.
bool AddBlocks(ContentHash& hash, const RhsSource& s, size_t blocks, size_t n, size_t batches, ptrdiff_t batch_stride,
               const Packing& packing) {
  const StridedExtent data[] = {{batches, batch_stride}, {n, s.n_stride}, {blocks, s.block_stride}};
  if (s.block_stride <= 0 || !AddStrided(hash, s.data, static_cast<size_t>(s.block_stride), data, packing))
    return false;
  hash.AddNumber(static_cast<uint64_t>(s.scale_format));
  hash.AddNumber(static_cast<uint64_t>(s.zero_point_format));
  hash.AddNumber(s.scales != nullptr);
  hash.AddNumber(s.zero_points != nullptr);
  if (s.scales != nullptr && !AddRows(hash, s.scales, batches * n, s.scale_n_stride, blocks, s.scale_block_stride,
                                      FormatBytes(s.scale_format), packing)) {
    return false;
  }
  if (s.zero_points == nullptr) return true;
  const size_t bytes = ukernel::CeilDiv(blocks * FormatBits(s.zero_point_format), 8);
  return AddRows(hash, s.zero_points, batches * n, s.zero_point_n_stride, 1, 0, bytes, packing);
}

}  // namespace

bool AddStrided(ContentHash& hash, const void* data, size_t element, std::span<const StridedExtent> extents,
                const Packing& packing) {
  std::vector<StridedExtent> dims;
  hash.AddNumber(element);
  for (const StridedExtent& e : extents) {
    hash.AddNumber(e.count);
    if (e.count == 0) return true;
    if (e.count == 1) continue;
    hash.AddNumber(static_cast<uint64_t>(e.stride));
    dims.push_back(e);
  }
  std::sort(dims.begin(), dims.end(),
            [](const StridedExtent& a, const StridedExtent& b) { return a.stride < b.stride; });
  size_t bytes = element;
  for (const StridedExtent& e : dims) {
    if (e.stride != static_cast<ptrdiff_t>(bytes)) return false;
    bytes *= e.count;
  }
  for (size_t at = 0; at < bytes;) {
    const size_t piece = std::min(Packing::kDropBytes, bytes - at);
    hash.AddBytes(static_cast<const char*>(data) + at, piece);
    at += piece;
    if (piece == Packing::kDropBytes) packing.DropSource();
  }
  return true;
}

ContentHash StartPackedKey(const Packing& packing, const ukernel::PackLayout& layout, const ukernel::RhsShape& shape,
                           size_t batches) {
  ContentHash hash(packing.store->seed());
  hash.AddText(QUERN_PACKERS);
  for (const size_t number :
       {static_cast<size_t>(layout.element), size_t{layout.n_unit}, static_cast<size_t>(layout.n_scale),
        size_t{layout.k_interleave}, size_t{layout.k_multiple}, static_cast<size_t>(layout.scale),
        static_cast<size_t>(layout.offset), static_cast<size_t>(layout.sums), size_t{layout.channel_scales},
        static_cast<size_t>(layout.bias), shape.k, shape.n, shape.segments, shape.block, shape.vector_bytes, batches}) {
    hash.AddNumber(number);
  }
  return hash;
}

std::optional<ContentKey> PackedKeyOf(const Packing& packing, const ukernel::PackLayout& layout,
                                      const ukernel::RhsShape& shape, const RhsSource& s, size_t batches,
                                      ptrdiff_t batch_stride) {
  ContentHash hash = StartPackedKey(packing, layout, shape, batches);
  hash.AddNumber(static_cast<uint64_t>(s.format));
  const bool blocks = shape.block != 0 || ukernel::IsGguf(s.format);
  const StridedExtent dense[] = {
      {batches, batch_stride}, {shape.segments, s.segment_stride}, {shape.k, s.k_stride}, {shape.n, s.n_stride}};
  const bool whole =
      blocks ? AddBlocks(hash, s, ukernel::CeilDiv(shape.k, shape.block), shape.n, batches, batch_stride, packing)
             : AddStrided(hash, s.data, FormatBytes(s.format), dense, packing);
  if (!whole) return std::nullopt;
  AddVector(hash, s.channel_scales, batches * shape.n);
  AddVector(hash, s.bias, batches * shape.n);
  return hash.Finish();
}

}  // namespace quern::kernels
