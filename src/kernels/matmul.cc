// Matrix products over gemm_core: batches, run-time right sides, gathered left sides, zero points.
#include "kernels/matmul.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "ukernel/convert.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::RoundUp;

// Batches are spread over threads, one product each, when there are at least this many for each thread.
constexpr size_t kBatchesPerSlot = 2;
// Short rows of a right side that lie further apart than so many bytes share no pages and collide in the caches: for
// more rows of the left side than these they are packed.
constexpr size_t kFarBytes = 1024, kManyRows = 32;

bool HasFarRows(const GemmProblem& p, const ukernel::RhsSource& rhs) {
  return p.n * FormatBytes(p.rhs) <= kFarBytes && rhs.k_stride > static_cast<ptrdiff_t>(kFarBytes);
}

// Whether `op` sees one longer M when a batch of products of m rows, `stride` bytes apart, becomes one product.
bool MergesInto(const EpilogueOp& op, size_t m, ptrdiff_t stride) {
  switch (op.kind) {
    case EpilogueKind::kAddVectorM:
    case EpilogueKind::kMulVectorM:
    case EpilogueKind::kDivVectorM:
    case EpilogueKind::kAddOuter:
    case EpilogueKind::kRowSumSquares:
      return stride == static_cast<ptrdiff_t>(m * 4);
    case EpilogueKind::kRowMinMax:
      return stride == static_cast<ptrdiff_t>(m * 8);
    case EpilogueKind::kAddMatrix:
    case EpilogueKind::kMulMatrix:
      return stride == static_cast<ptrdiff_t>(m * op.row_stride);
    default:
      return stride == 0;
  }
}

EpilogueOp MovedTo(EpilogueOp op, ptrdiff_t bytes) {
  if (IsReduction(op.kind)) {
    op.out = static_cast<char*>(op.out) + bytes;
  } else if (op.data) {
    op.data = static_cast<const char*>(op.data) + bytes;
  }
  return op;
}

// dst[m][k] contiguous from any strides; along the source's shorter stride inside.
void Gather(const char* src, ptrdiff_t row_stride, ptrdiff_t k_stride, size_t k, size_t element, size_t m0, size_t m1,
            char* dst) {
  const auto copy = [&]<class T>(T) {
    constexpr size_t kTile = 16;  // rows read together while their columns share cache lines
    for (size_t m = m0; m < m1; m += kTile) {
      const size_t end = std::min(m1, m + kTile);
      for (size_t i = 0; i < k; ++i) {
        const char* column = src + static_cast<ptrdiff_t>(i) * k_stride;
        for (size_t r = m; r < end; ++r) {
          std::memcpy(dst + (r * k + i) * sizeof(T), column + static_cast<ptrdiff_t>(r) * row_stride, sizeof(T));
        }
      }
    }
  };
  if (element == 8) {
    copy(uint64_t{});
  } else if (element == 4) {
    copy(uint32_t{});
  } else if (element == 2) {
    copy(uint16_t{});
  } else {
    copy(uint8_t{});
  }
}

// out[m] = sum of the row's integers - k * zero point.
void SumRows(Format format, const char* lhs, ptrdiff_t row_stride, size_t k, const ZeroPoints& z, size_t m0, size_t m1,
             int32_t* out) {
  for (size_t m = m0; m < m1; ++m) {
    const char* row = lhs + static_cast<ptrdiff_t>(m) * row_stride;
    int32_t sum = 0;
    if (format == Format::kI8) {
      for (size_t i = 0; i < k; ++i) sum += static_cast<int8_t>(row[i]);
    } else {
      for (size_t i = 0; i < k; ++i) sum += static_cast<uint8_t>(row[i]);
    }
    out[m] = sum - static_cast<int32_t>(k) * (z.lhs_rows ? z.lhs_rows[m] : z.lhs);
  }
}

struct Offsets {
  ptrdiff_t lhs = 0, rhs = 0, dst = 0;
  ptrdiff_t ops[ukernel::kMaxEpilogueOps] = {};
};

Offsets OffsetsOf(std::span<const BatchDim> batch, size_t index, size_t op_count) {
  Offsets o;
  for (size_t d = batch.size(); d-- > 0;) {
    const ptrdiff_t i = static_cast<ptrdiff_t>(index % batch[d].count);
    index /= batch[d].count;
    o.lhs += i * batch[d].lhs;
    o.rhs += i * batch[d].rhs;
    o.dst += i * batch[d].dst;
    for (size_t k = 0; k < op_count; ++k) o.ops[k] += i * batch[d].ops[k];
  }
  return o;
}

}  // namespace

Result<MatMul> MatMul::Create(const GemmProblem& problem, const SelectOptions& options, const LayoutChoice& layout) {
  MatMul m;
  m.problem_ = problem;
  m.layout_ = layout;
  m.cpu_ = options.cpu;
  m.eligible_ = EligibleRows(problem, options, layout);
  if (m.eligible_.empty()) {
    return Unsupported("no micro-kernel of this CPU takes weights laid out as " + LayoutName(layout.layout));
  }
  if (options.force_row.empty()) {
    m.fallbacks_ = m.eligible_;
    return m;
  }
  SelectOptions all = options;
  all.force_row = {};
  m.fallbacks_ = EligibleRows(problem, all, layout);
  return m;
}

const GemmKernel* MatMul::RowFor(size_t m) const { return SelectRow(eligible_, problem_, cpu_, layout_.layout, m); }

Format MatMul::accumulator() const { return eligible_.front()->dst; }

MatMulPlan MatMul::Plan(const MatMulArgs& args, int concurrency) const {
  MatMulPlan p;
  const size_t element = FormatBytes(IsDynamic(problem_.lhs) ? Format::kF32 : problem_.lhs);
  const size_t k = problem_.k * problem_.segments;
  p.gather_lhs = args.lhs_k_stride != 0 && args.lhs_k_stride != static_cast<ptrdiff_t>(element) && k > 1;
  p.m = args.m;
  p.lhs_row_stride = args.lhs_row_stride;
  p.dst_row_stride = args.dst_row_stride;
  p.batch_dims = args.batch.size();
  bool has_matrix = false;
  for (size_t i = 0; i < args.op_count; ++i) {
    has_matrix |= args.ops[i].kind == EpilogueKind::kAddMatrix || args.ops[i].kind == EpilogueKind::kMulMatrix;
  }
  // Batches that share the right side and continue the rows are more rows.
  while (p.batch_dims > 0 && !p.gather_lhs && !args.zero_points.lhs_rows) {
    const BatchDim& d = args.batch[p.batch_dims - 1];
    bool merges = d.count == 1;
    if (!merges && d.rhs == 0) {
      const ptrdiff_t rows = static_cast<ptrdiff_t>(p.m);
      merges =
          p.m == 1 ? d.dst > 0 && !has_matrix : d.lhs == rows * p.lhs_row_stride && d.dst == rows * p.dst_row_stride;
      for (size_t i = 0; merges && i < args.op_count; ++i) merges = MergesInto(args.ops[i], p.m, d.ops[i]);
      if (merges && p.m == 1) {
        p.lhs_row_stride = d.lhs;
        p.dst_row_stride = d.dst;
      }
    }
    if (!merges) break;
    p.m *= d.count;
    --p.batch_dims;
  }
  p.rhs_shared = args.packed_rhs == nullptr;
  for (size_t d = 0; d < p.batch_dims; ++d) {
    p.batch_count *= args.batch[d].count;
    if (args.batch[d].rhs != 0) p.rhs_shared = false;
  }

  const bool run_time = args.packed_rhs == nullptr;
  GemmProblem as_given = problem_;
  as_given.rhs_contiguous &= run_time && args.rhs.format == problem_.rhs && args.rhs.k_stride >= 0 &&
                             args.rhs.n_stride == static_cast<ptrdiff_t>(FormatBytes(problem_.rhs)) &&
                             !(p.m > kManyRows && HasFarRows(problem_, args.rhs));
  const GemmKernel& row = *SelectRow(eligible_, as_given, cpu_, layout_.layout, p.m);
  p.rhs_in_place = !IsInt8(problem_.lhs) && !IsDynamic(problem_.lhs) && ReadsInPlace(row, as_given, cpu_, p.m);
  const GemmKernel* fallback = nullptr;
  if (ComputesOnTerms(row)) {
    fallback = SelectSplitFallback(fallbacks_, problem_, cpu_, layout_.layout, p.m);
  }
  const GemmShape shape{.m = p.m, .in_place = p.rhs_in_place, .ops = args.ops, .op_count = args.op_count};
  concurrency = RowConcurrency(row, cpu_, concurrency);
  const size_t slots = static_cast<size_t>(std::max(concurrency, 1));
  p.parallel_batches = slots > 1 && p.batch_count >= kBatchesPerSlot * slots;
  p.gemm = PlanGemm(problem_, cpu_, layout_, row, fallback, shape, p.parallel_batches ? 1 : concurrency);
  p.slots = p.parallel_batches ? concurrency : p.gemm.slots;

  size_t at = 0;
  const auto take = [&](size_t bytes) {
    const size_t begin = at;
    at = RoundUp(at + bytes, ukernel::kPackAlignment);
    return begin;
  };
  const bool packs = run_time && !p.rhs_in_place;
  if (packs) p.rhs_packer = ukernel::FindPackKernel(layout_.layout, args.rhs, cpu_, ukernel::Lookup::kRun);
  const size_t rhs_bytes = packs ? p.gemm.rhs_geometry.total_bytes : 0;
  p.area_offset = p.rhs_shared ? RoundUp(rhs_bytes, ukernel::kPackAlignment) : 0;
  p.gather_offset = take(p.gather_lhs ? p.m * k * element : 0);
  p.rhs_offset = take(p.rhs_shared ? 0 : rhs_bytes);
  if (IsInt8(problem_.lhs)) {
    p.sums_offset = take(p.m * 4);
    p.rows_offset = take(p.m * 4);
    p.zeros_offset = take(problem_.n * 4);
  }
  p.core_offset = take(p.gemm.workspace_bytes);
  p.area_stride = RoundUp(at, 4096) + ukernel::kPackAlignment;
  p.workspace_bytes = p.area_offset + p.area_stride * (p.parallel_batches ? slots : 1);
  return p;
}

namespace {

// One run: the products of a batch one after the other, in one area of the workspace.
class Products {
 public:
  Products(const GemmProblem& problem, const LayoutChoice& layout, const MatMulPlan& plan, const MatMulArgs& args,
           const RunResources& resources)
      : problem_(problem), layout_(layout), p_(plan), a_(args), r_(resources) {}

  // Where the shared right side is; packs it if there is one.
  Status PackShared() {
    if (!p_.rhs_shared || p_.rhs_in_place || a_.rhs_is_packed) return OkStatus();
    return PackRunTime(0, static_cast<std::byte*>(r_.workspace));
  }

  Status Run(size_t index, size_t area) {
    char* base = static_cast<char*>(r_.workspace) + p_.area_offset + area * p_.area_stride;
    const Offsets o = OffsetsOf(a_.batch.first(p_.batch_dims), index, a_.op_count);
    GemmOperands g;
    g.lhs = static_cast<const char*>(a_.lhs) + o.lhs;
    g.lhs_row_stride = p_.lhs_row_stride;
    g.dst = static_cast<char*>(a_.dst) + o.dst;
    g.dst_row_stride = static_cast<size_t>(p_.dst_row_stride);
    const size_t k = problem_.k * problem_.segments;
    if (p_.gather_lhs) {
      const size_t element = FormatBytes(p_.gemm.lhs_format);
      char* out = base + p_.gather_offset;
      QUERN_RETURN_IF_ERROR(ForEach(r_, slots(), p_.m, 16, [&](size_t begin, size_t end) {
        Gather(static_cast<const char*>(g.lhs), a_.lhs_row_stride, a_.lhs_k_stride, k, element, begin, end, out);
      }));
      g.lhs = out;
      g.lhs_row_stride = static_cast<ptrdiff_t>(k * element);
    }
    if (a_.packed_rhs) {
      g.rhs = a_.packed_rhs->data(static_cast<size_t>(o.rhs));
      g.rhs_pair_bound = a_.packed_rhs->pair_bound();
      g.rhs_wide_groups = a_.packed_rhs->wide_groups(static_cast<size_t>(o.rhs));
    } else if (p_.rhs_in_place) {
      g.rhs_form = ukernel::RhsForm::kInPlace;
      g.rhs = static_cast<const std::byte*>(a_.rhs.data) + o.rhs;
      g.rhs_k_stride = static_cast<size_t>(a_.rhs.k_stride);
    } else if (p_.rhs_shared) {
      g.rhs = static_cast<const std::byte*>(r_.workspace);
    } else {
      std::byte* packed = reinterpret_cast<std::byte*>(base + p_.rhs_offset);
      if (packed != last_packed_ || o.rhs != last_rhs_) QUERN_RETURN_IF_ERROR(PackRunTime(o.rhs, packed));
      last_packed_ = packed;
      last_rhs_ = o.rhs;
      g.rhs = packed;
    }
    EpilogueOp ops[ukernel::kMaxEpilogueOps + 2];
    size_t count = 0;
    QUERN_RETURN_IF_ERROR(AddZeroPoints(g, base, ops, &count));
    for (size_t i = 0; i < a_.op_count; ++i) ops[count++] = MovedTo(a_.ops[i], o.ops[i]);
    g.ops = ops;
    g.op_count = count;
    g.backwards = a_.backwards;
    RunResources inner = r_;
    inner.workspace = base + p_.core_offset;
    inner.workspace_bytes = p_.gemm.workspace_bytes;
    if (p_.parallel_batches) inner.cancel = nullptr;  // the region over the batch looks at it
    return RunGemm(p_.gemm, g, inner);
  }

 private:
  int slots() const { return p_.parallel_batches ? 1 : p_.slots; }

  Status PackRunTime(ptrdiff_t offset, std::byte* packed) {
    ukernel::RhsSource s = a_.rhs;
    s.data = static_cast<const char*>(s.data) + offset;
    const ukernel::RhsGeometry& g = p_.gemm.rhs_geometry;
    if (r_.counters) r_.counters->rhs_packed_bytes.fetch_add(g.total_bytes, std::memory_order_relaxed);
    const size_t grain = (size_t{16} << 10) / (g.unit_stride + 1) + 1;
    return ForEach(r_, slots(), g.units, grain, [&](size_t begin, size_t end) {
      (p_.rhs_packer ? p_.rhs_packer->run : ukernel::PackRhs)(layout_.layout, p_.gemm.rhs_shape, s, begin, end, packed);
    });
  }

  // sum (a - za)(w - zw) = sum a*w' - za * sum w' - zw' * (sum a - K*za), where w' and zw' are what is stored (u8 less
  // 128).
  Status AddZeroPoints(const GemmOperands& g, char* base, EpilogueOp* ops, size_t* count) {
    if (!IsInt8(problem_.lhs)) return OkStatus();
    const ZeroPoints& z = a_.zero_points;
    const std::byte* sums = g.rhs + p_.gemm.rhs_geometry.sums_offset;
    if (z.lhs_rows) {
      int32_t* rows = reinterpret_cast<int32_t*>(base + p_.rows_offset);
      for (size_t m = 0; m < p_.m; ++m) rows[m] = -z.lhs_rows[m];
      ops[(*count)++] = {.kind = EpilogueKind::kAddOuter, .data = rows, .data2 = sums};
    } else if (z.lhs != 0) {
      ops[(*count)++] = {.kind = EpilogueKind::kAddOuterScalar, .data2 = sums, .integer = -z.lhs};
    }
    const int32_t shift = problem_.rhs == Format::kU8 && layout_.layout.element == Format::kI8 ? 128 : 0;
    if (!z.rhs_columns && z.rhs == shift) return OkStatus();
    int32_t* zeros = reinterpret_cast<int32_t*>(base + p_.zeros_offset);
    for (size_t n = 0; n < problem_.n; ++n) zeros[n] = shift - (z.rhs_columns ? z.rhs_columns[n] : z.rhs);
    int32_t* row_sums = reinterpret_cast<int32_t*>(base + p_.sums_offset);
    const size_t k = problem_.k * problem_.segments;
    QUERN_RETURN_IF_ERROR(ForEach(r_, slots(), p_.m, 32, [&](size_t begin, size_t end) {
      SumRows(problem_.lhs, static_cast<const char*>(g.lhs), g.lhs_row_stride, k, z, begin, end, row_sums);
    }));
    ops[(*count)++] = {.kind = EpilogueKind::kAddOuter, .data = row_sums, .data2 = zeros};
    return OkStatus();
  }

  const GemmProblem& problem_;
  const LayoutChoice& layout_;
  const MatMulPlan& p_;
  const MatMulArgs& a_;
  const RunResources& r_;
  const std::byte* last_packed_ = nullptr;
  ptrdiff_t last_rhs_ = 0;
};

}  // namespace

Status MatMul::Run(const MatMulArgs& args, const RunResources& resources) const {
  const int concurrency = resources.executor ? resources.executor->concurrency() : 1;
  return Run(Plan(args, concurrency), args, resources);
}

Status MatMul::Run(const MatMulPlan& plan, const MatMulArgs& args, const RunResources& resources) const {
  if (resources.workspace_bytes < plan.workspace_bytes) {
    return InvalidArgument("the workspace has " + std::to_string(resources.workspace_bytes) +
                           " bytes, the plan needs " + std::to_string(plan.workspace_bytes));
  }
  if (args.packed_rhs && !(args.packed_rhs->choice() == layout_)) {
    return InvalidArgument("the packed weights are laid out as " + LayoutName(args.packed_rhs->layout()));
  }
  if (plan.m == 0 || problem_.n == 0 || plan.batch_count == 0) return OkStatus();
  Products products(problem_, layout_, plan, args, resources);
  QUERN_RETURN_IF_ERROR(products.PackShared());
  if (!plan.parallel_batches) {
    for (size_t i = 0; i < plan.batch_count; ++i) QUERN_RETURN_IF_ERROR(products.Run(i, 0));
    return OkStatus();
  }
  if (resources.counters) resources.counters->regions.fetch_add(1, std::memory_order_relaxed);
  return resources.executor->ParallelFor(
      static_cast<int64_t>(plan.batch_count), 1,
      [&](int slot, int64_t begin, int64_t end) {
        Products own(problem_, layout_, plan, args, resources);
        for (int64_t i = begin; i < end; ++i) {
          // Nothing can fail here: sizes were checked, and an inner run has no executor to be cancelled.
          (void)own.Run(static_cast<size_t>(i), static_cast<size_t>(slot)).ok();
        }
      },
      resources.cancel, plan.slots);
}

}  // namespace quern::kernels
