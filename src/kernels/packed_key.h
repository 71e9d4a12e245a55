// Keys of packed weights in a PackedStore: the content of the source, how it is packed, and the version of the packers.
#pragma once

#include <optional>
#include <span>

#include "base/content_hash.h"
#include "kernels/packed_store.h"
#include "ukernel/pack.h"

namespace quern::kernels {

// One dimension of elements in memory.
struct StridedExtent {
  size_t count;
  ptrdiff_t stride;  // bytes
};
// Adds the elements, `element` bytes each, and how the dimensions lie. False when they do not fill one piece of memory.
bool AddStrided(ContentHash& hash, const void* data, size_t element, std::span<const StridedExtent> extents,
                const Packing& packing);

// Starts a key of the packing's store: the version of the packers, the layout and the extents of what is packed.
ContentHash StartPackedKey(const Packing& packing, const ukernel::PackLayout& layout, const ukernel::RhsShape& shape,
                           size_t batches);
// The key of `batches` sources, `batch_stride` bytes apart; nothing where AddStrided gives none.
std::optional<ContentKey> PackedKeyOf(const Packing& packing, const ukernel::PackLayout& layout,
                                      const ukernel::RhsShape& shape, const ukernel::RhsSource& source, size_t batches,
                                      ptrdiff_t batch_stride);

}  // namespace quern::kernels
