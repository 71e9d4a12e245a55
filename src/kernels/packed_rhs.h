// PackedRhs: the right side of a product in its resident form, packed once and immutable, or packed by each run into
// memory of the run's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/content_hash.h"
#include "base/status.h"
#include "kernels/packed_store.h"
#include "kernels/select.h"
#include "parallel/cancel.h"
#include "parallel/executor.h"
#include "ukernel/pack.h"

namespace quern::kernels {

// Copies share the bytes. Several batches (groups of a convolution, a constant batched operand) lie one after another.
class PackedRhs {
 public:
  PackedRhs() = default;

  // Packs `batches` right sides, `source_batch_stride` bytes apart (channel scales and bias: n elements apart, scales
  // and zero points of blocks: n rows apart). Units are spread over the executor. 4-bit blocks stay 4-bit. What the
  // store has is not packed. kUnsupported when the layout cannot be made from the source.
  static Result<PackedRhs> Pack(const GemmProblem& problem, const LayoutChoice& choice,
                                const ukernel::RhsSource& source, const Packing& packing, const CpuFacts& cpu,
                                size_t batches = 1, ptrdiff_t source_batch_stride = 0);
  // The same for sources that are computed first, where the store does not have the result under the key: one for the
  // columns [n0, n1) after the other, each good until the next. Together they make about `chunk_bytes` of packed
  // weights.
  struct Columns {
    ukernel::RhsSource source;  // as if column 0 were where it would lie before n0
    ptrdiff_t batch_stride = 0;
  };
  using Derive = std::function<Result<Columns>(size_t n0, size_t n1)>;
  static Result<PackedRhs> PackDerived(const GemmProblem& problem, const LayoutChoice& choice,
                                       const std::optional<ContentKey>& key, const Derive& derive,
                                       const Packing& packing, const CpuFacts& cpu, size_t batches, size_t chunk_bytes);

  // The form alone, of right sides that come with each run: data() is not to be asked for.
  static PackedRhs Describe(const GemmProblem& problem, const LayoutChoice& choice, size_t batches = 1);
  // Packs into memory of packed_bytes(), 64-byte aligned, on at most max_slots slots; allocates nothing. The source is
  // one that CanPackRhs takes.
  Status PackInto(std::byte* to, const ukernel::RhsSource& source, Executor& executor, const CpuFacts& cpu,
                  ptrdiff_t source_batch_stride, const CancelToken* cancel = nullptr, int max_slots = 0) const;

  const LayoutChoice& choice() const { return choice_; }
  const PackLayout& layout() const { return choice_.layout; }
  const ukernel::RhsShape& shape() const { return shape_; }
  const ukernel::RhsGeometry& geometry() const { return geometry_; }
  size_t batches() const { return batches_; }
  size_t packed_bytes() const { return geometry_.total_bytes * batches_; }
  // ukernel::GemmArgs::rhs_pair_bound of all batches, where the CPU has use for it (0 else).
  uint16_t pair_bound() const { return pair_bound_; }
  // ukernel::GemmArgs::rhs_wide_groups of a batch, where the bound is beyond what all bytes may be multiplied by, but
  // few groups are.
  ukernel::WideGroups wide_groups(size_t batch = 0) const {
    if (wide_begin_.empty()) return {};
    return {wide_begin_.data() + batch * (geometry_.units + 1), wide_at_.data()};
  }
  const std::byte* data(size_t batch = 0) const { return bytes_.get() + batch * geometry_.total_bytes; }

 private:
  // Some units of each batch, the same of all.
  struct UnitRange {
    size_t first = 0, count = 0;
  };
  // Of those units, batch after batch, [begin, end). The vectors behind the units must be zero.
  Status PackUnits(const UnitRange& units, int64_t begin, int64_t end, std::byte* to, const ukernel::RhsSource& source,
                   Executor& executor, const CpuFacts& cpu, ptrdiff_t source_batch_stride, const CancelToken* cancel,
                   int max_slots) const;
  // With the bytes of the store, or of fill(packed, its bytes), which packs all units.
  template <class Fill>
  static Result<PackedRhs> Make(const GemmProblem& problem, const LayoutChoice& choice,
                                const std::optional<ContentKey>& key, const Packing& packing, const CpuFacts& cpu,
                                size_t batches, Fill fill);
  template <class Fill>
  Status FindBytes(const std::optional<ContentKey>& key, const Packing& packing, Fill fill);
  void ClearVectors(std::byte* to) const;
  void FindPairs();

  LayoutChoice choice_;
  ukernel::RhsShape shape_;
  ukernel::RhsGeometry geometry_;
  size_t batches_ = 0;
  uint16_t pair_bound_ = 0;
  std::vector<uint32_t> wide_begin_, wide_at_;  // batch after batch
  std::shared_ptr<const std::byte> bytes_;      // of a buffer of its own, or of the store
};

}  // namespace quern::kernels
