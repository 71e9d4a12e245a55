// Packing of right sides over the executor.
#include "kernels/packed_rhs.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "base/aligned_buffer.h"
#include "kernels/packed_key.h"
#include "ukernel/pair_bound.h"

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

Status CannotPack(const ukernel::RhsSource& source, const PackLayout& layout) {
  return Unsupported(std::string(FormatName(source.format)) + " weights cannot be packed as " + LayoutName(layout));
}

// Whether the row that is fastest for many rows of this type by the layout goes by the bound of pairs.
bool BestUsesPairs(Format lhs, const PackLayout& layout, const CpuFacts& cpu) {
  const GemmKernel* best = nullptr;
  float least = 0;
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (const GemmKernel& row : std::span(list->rows, list->count)) {
      const bool serves = row.lhs == lhs && AcceptsLayout(row, layout) && row.run && !row.only_forced;
      if (!serves || !ukernel::IsaRunsOn(row.isa, cpu)) continue;
      const size_t m = TileM(row, cpu), n = TileN(row, cpu);
      const float cycles = GemmTileCycles(row, cpu, m, n, 256) / static_cast<float>(m * n);
      if (best && cycles >= least) continue;
      best = &row;
      least = cycles;
    }
  }
  return best && best->uses_pairs;
}

}  // namespace

Result<PackedRhs> PackedRhs::Pack(const GemmProblem& problem, const LayoutChoice& choice,
                                  const ukernel::RhsSource& source, const Packing& packing, const CpuFacts& cpu,
                                  size_t batches, ptrdiff_t source_batch_stride) {
  std::optional<ContentKey> key;
  if (packing.store != nullptr) {
    key = PackedKeyOf(packing, choice.layout, RhsShapeOf(problem, choice.vector_bytes), source, batches,
                      source_batch_stride);
  }
  return Make(problem, choice, key, packing, cpu, batches, [&](const PackedRhs& r, std::byte* to) -> Status {
    if (!ukernel::CanPackRhs(choice.layout, source)) return CannotPack(source, choice.layout);
    // Batch after batch: columns of all batches would read some sources' pages again and again.
    const auto all = static_cast<int64_t>(r.geometry_.units * batches);
    const auto together = static_cast<int64_t>(Packing::kDropBytes / (r.geometry_.unit_stride + 1) + 1);
    for (int64_t begin = 0; begin < all; begin += together) {
      const int64_t end = std::min(begin + together, all);
      QUERN_RETURN_IF_ERROR(r.PackUnits({0, r.geometry_.units}, begin, end, to, source, packing.executor, cpu,
                                        source_batch_stride, nullptr, 0));
      if (end - begin == together) packing.DropSource();
    }
    return OkStatus();
  });
}

Result<PackedRhs> PackedRhs::PackDerived(const GemmProblem& problem, const LayoutChoice& choice,
                                         const std::optional<ContentKey>& key, const Derive& derive,
                                         const Packing& packing, const CpuFacts& cpu, size_t batches,
                                         size_t chunk_bytes) {
  return Make(problem, choice, key, packing, cpu, batches, [&](const PackedRhs& r, std::byte* to) -> Status {
    const size_t units = r.geometry_.units, unit = r.geometry_.n_unit;
    const size_t unit_bytes = r.geometry_.unit_stride * batches;
    const size_t together = std::max<size_t>(1, chunk_bytes / (unit_bytes + 1));
    size_t made = 0;
    for (size_t begin = 0; begin < units; begin += together) {
      const size_t count = std::min(together, units - begin);
      QUERN_ASSIGN_OR_RETURN(const Columns columns, derive(begin * unit, std::min((begin + count) * unit, problem.n)));
      if (!ukernel::CanPackRhs(choice.layout, columns.source)) return CannotPack(columns.source, choice.layout);
      QUERN_RETURN_IF_ERROR(r.PackUnits({begin, count}, 0, static_cast<int64_t>(count * batches), to, columns.source,
                                        packing.executor, cpu, columns.batch_stride, nullptr, 0));
      made += count * unit_bytes;
      if (made < Packing::kDropBytes) continue;
      packing.DropSource();
      made = 0;
    }
    return OkStatus();
  });
}

template <class Fill>
Result<PackedRhs> PackedRhs::Make(const GemmProblem& problem, const LayoutChoice& choice,
                                  const std::optional<ContentKey>& key, const Packing& packing, const CpuFacts& cpu,
                                  size_t batches, Fill fill) {
  PackedRhs r = Describe(problem, choice, batches);
  QUERN_RETURN_IF_ERROR(r.FindBytes(key, packing, fill));
  if (BestUsesPairs(problem.lhs, choice.layout, cpu)) r.FindPairs();
  return r;
}

void PackedRhs::FindPairs() {
  ukernel::PairCounts counts{};
  for (size_t b = 0; b < batches_; ++b) {
    pair_bound_ = std::max(pair_bound_, ukernel::FindPairBound(choice_.layout, geometry_, data(b), &counts));
  }
  // A wide group costs three more, so that lists pay where they are short: up to the bound by which all bytes may be
  // multiplied, or to one that leaves few bytes beyond.
  const size_t all = std::accumulate(counts.begin(), counts.end(), size_t{0});
  size_t narrow = counts.size() - 1, wide = 0;
  while (narrow > ukernel::kMostOfNarrowPair && wide + counts[narrow] <= all / 16) wide += counts[narrow--];
  if (narrow > ukernel::kMostOfNarrowPair) {
    narrow = counts.size() - 1, wide = 0;
    while (wide + counts[narrow] <= all / 64) wide += counts[narrow--];
  }
  if (wide == 0) return;
  const size_t units = geometry_.units;
  wide_begin_.resize(batches_ * (units + 1));
  wide_at_.resize(wide);
  for (size_t b = 0, count = 0; b < batches_; ++b) {
    count += ukernel::ListWideGroups(choice_.layout, geometry_, data(b), static_cast<unsigned>(narrow),
                                     &wide_begin_[b * (units + 1)], wide_at_.data() + count, wide - count, count);
  }
  pair_bound_ = static_cast<uint16_t>(narrow);
}

template <class Fill>
Status PackedRhs::FindBytes(const std::optional<ContentKey>& key, const Packing& packing, Fill fill) {
  PackedStore* store = key && packed_bytes() >= kLeastStoredBytes ? packing.store : nullptr;
  if (store != nullptr && (bytes_ = store->Find(*key, packed_bytes())) != nullptr) return OkStatus();
  QUERN_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(packed_bytes(), {.huge_pages = true}));
  ClearVectors(buffer.data());
  QUERN_RETURN_IF_ERROR(fill(*this, buffer.data()));
  const auto owner = std::make_shared<const AlignedBuffer>(std::move(buffer));
  bytes_ = {owner, owner->data()};
  if (store != nullptr) store->Put(*key, bytes_, packed_bytes());
  return OkStatus();
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
  return PackUnits({0, geometry_.units}, 0, static_cast<int64_t>(geometry_.units * batches_), to, source, executor, cpu,
                   source_batch_stride, cancel, max_slots);
}

Status PackedRhs::PackUnits(const UnitRange& range, int64_t from, int64_t until, std::byte* to,
                            const ukernel::RhsSource& source, Executor& executor, const CpuFacts& cpu,
                            ptrdiff_t source_batch_stride, const CancelToken* cancel, int max_slots) const {
  const ukernel::PackKernel* fast = ukernel::FindPackKernel(layout(), source, cpu, ukernel::Lookup::kRun);
  const auto units = static_cast<int64_t>(range.count);
  const int64_t share = (until - from) / executor.SlotCount(max_slots);
  const int64_t least = fast && fast->contiguous_n ? std::min(kRowUnits, share) : 1;
  const int64_t grain = std::max(least, static_cast<int64_t>(kTaskBytes / (geometry_.unit_stride + 1) + 1));
  auto pack = [&](int, int64_t begin, int64_t end) {
    begin += from;
    end += from;
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
      (fast ? fast->run : ukernel::PackRhs)(layout(), shape_, s, range.first + static_cast<size_t>(first),
                                            range.first + static_cast<size_t>(last), base);
      begin += last - first;
    }
  };
  return executor.ParallelFor(until - from, grain, pack, cancel, max_slots);
}

}  // namespace quern::kernels
