// Packing of right sides over the executor.
#include "kernels/packed_rhs.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/aligned_buffer.h"
#include "kernels/packed_key.h"

namespace quern::kernels {
namespace {

// Units packed by one task at least: small matrices are not worth a hand-over.
constexpr size_t kTaskBytes = 64 << 10;
// Units of a row-major source (K x N) that a task takes if all threads have as many: a few at a time are short reads of
// every row, at half the bandwidth.
constexpr int64_t kRowUnits = 16;
// What is smaller is packed in less time than a file is opened in.
constexpr size_t kLeastStoredBytes = 64 << 10;

const void* Advance(const void* p, ptrdiff_t bytes) { return p ? static_cast<const char*>(p) + bytes : nullptr; }

}  // namespace

Result<PackedRhs> PackedRhs::Pack(const GemmProblem& problem, const LayoutChoice& choice,
                                  const ukernel::RhsSource& source, const Packing& packing, const CpuFacts& cpu,
                                  size_t batches, ptrdiff_t source_batch_stride) {
  std::optional<ContentKey> key;
  if (packing.store != nullptr) {
    key = PackedKeyOf(packing, choice.layout, RhsShapeOf(problem, choice.vector_bytes), source, batches,
                      source_batch_stride);
  }
  return PackDerived(
      problem, choice, key, [&](size_t, size_t) -> Result<Columns> { return Columns{source, source_batch_stride}; },
      packing, cpu, batches, Packing::kDropBytes);
}

Result<PackedRhs> PackedRhs::PackDerived(const GemmProblem& problem, const LayoutChoice& choice,
                                         const std::optional<ContentKey>& key, const Derive& derive,
                                         const Packing& packing, const CpuFacts& cpu, size_t batches,
                                         size_t chunk_bytes) {
  PackedRhs r = Describe(problem, choice, batches);
  PackedStore* store = key && r.packed_bytes() >= kLeastStoredBytes ? packing.store : nullptr;
  if (store != nullptr && (r.bytes_ = store->Find(*key, r.packed_bytes())) != nullptr) return r;
  QUERN_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(r.packed_bytes(), {.huge_pages = true}));
  r.ClearVectors(buffer.data());
  const size_t units = r.geometry_.units, unit = r.geometry_.n_unit;
  const size_t together = std::max<size_t>(1, chunk_bytes / (r.geometry_.unit_stride * batches + 1));
  size_t read = 0;
  for (size_t begin = 0; begin < units; begin += together) {
    const size_t end = std::min(begin + together, units);
    QUERN_ASSIGN_OR_RETURN(const Columns columns, derive(begin * unit, std::min(end * unit, problem.n)));
    if (!ukernel::CanPackRhs(choice.layout, columns.source)) {
      return Unsupported(std::string(FormatName(columns.source.format)) + " weights cannot be packed as " +
                         LayoutName(choice.layout));
    }
    QUERN_RETURN_IF_ERROR(r.PackUnits(begin, end, buffer.data(), columns.source, packing.executor, cpu,
                                      columns.batch_stride, nullptr, 0));
    read += (end - begin) * r.geometry_.unit_stride * batches;
    if (read >= Packing::kDropBytes) {
      packing.DropSource();
      read = 0;
    }
  }
  const auto owner = std::make_shared<const AlignedBuffer>(std::move(buffer));
  r.bytes_ = {owner, owner->data()};
  if (store != nullptr) store->Put(*key, {owner->data(), r.packed_bytes()});
  return r;
}

PackedRhs PackedRhs::Describe(const GemmProblem& problem, const LayoutChoice& choice, size_t batches) {
  PackedRhs r;
  r.choice_ = choice;
  r.shape_ = RhsShapeOf(problem, choice.vector_bytes);
  r.geometry_ = ukernel::DescribeRhs(choice.layout, r.shape_);
  r.batches_ = batches;
  return r;
}

// Nothing writes the gaps between the vectors after the units: they are part of the packed bytes.
void PackedRhs::ClearVectors(std::byte* to) const {
  for (size_t b = 0; b < batches_; ++b) {
    std::byte* base = to + b * geometry_.total_bytes;
    std::memset(base + geometry_.sums_offset, 0, geometry_.total_bytes - geometry_.sums_offset);
  }
}

Status PackedRhs::PackInto(std::byte* to, const ukernel::RhsSource& source, Executor& executor, const CpuFacts& cpu,
                           ptrdiff_t source_batch_stride, const CancelToken* cancel, int max_slots) const {
  ClearVectors(to);
  return PackUnits(0, geometry_.units, to, source, executor, cpu, source_batch_stride, cancel, max_slots);
}

Status PackedRhs::PackUnits(size_t from, size_t until, std::byte* to, const ukernel::RhsSource& source,
                            Executor& executor, const CpuFacts& cpu, ptrdiff_t source_batch_stride,
                            const CancelToken* cancel, int max_slots) const {
  const ukernel::PackKernel* fast = ukernel::FindPackKernel(layout(), source, cpu, ukernel::Lookup::kRun);
  const auto units = static_cast<int64_t>(until - from), all = units * static_cast<int64_t>(batches_);
  const int64_t share = all / executor.SlotCount(max_slots);
  const int64_t least = fast && fast->contiguous_n ? std::min(kRowUnits, share) : 1;
  const int64_t grain = std::max(least, static_cast<int64_t>(kTaskBytes / (geometry_.unit_stride + 1) + 1));
  auto pack = [&](int, int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t batch = begin / units;
      const int64_t first = begin % units;
      const int64_t last = std::min(units, first + (end - begin));
      const ptrdiff_t b = static_cast<ptrdiff_t>(batch);
      const ptrdiff_t columns = b * static_cast<ptrdiff_t>(shape_.n);
      ukernel::RhsSource s = source;
      s.data = Advance(s.data, b * source_batch_stride);
      s.scales = Advance(s.scales, columns * s.scale_n_stride);
      s.zero_points = Advance(s.zero_points, columns * s.zero_point_n_stride);
      if (s.channel_scales) s.channel_scales += columns;
      s.bias = Advance(s.bias, columns * 4);
      std::byte* base = to + static_cast<size_t>(batch) * geometry_.total_bytes;
      (fast ? fast->run : ukernel::PackRhs)(layout(), shape_, s, from + static_cast<size_t>(first),
                                            from + static_cast<size_t>(last), base);
      begin += last - first;
    }
  };
  return executor.ParallelFor(all, grain, pack, cancel, max_slots);
}

}  // namespace quern::kernels
