// One product on one thread or on a pool of several, ready to be timed.
#pragma once

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/cpu.h"
#include "base/random_numbers.h"
#include "kernels/matmul.h"
#include "kernels/packed_rhs.h"
#include "kernels/peak.h"
#include "parallel/thread_pool.h"
#include "ukernel/convert.h"

namespace quern::kernels {

// Of the operands as GemmProblem has them, and of the result. Dynamic rows by int8 or int4 have channel scales; results
// of bytes are requantized with a scale for each column. float64 gives float64.
struct GemmTypes {
  Format lhs = Format::kF32, rhs = Format::kF32, dst = Format::kF32;
  Precision precision = Precision::kFp32;  // of floats
};

// Weights below 8 bits, and bytes that float32 rows meet, come in blocks of so many with a float32 scale each.
constexpr size_t kBlock = 32;

class GemmCase {
 public:
  // kUnsupported when no row of the CPU serves it. The weights' copies together have at least `rhs_bytes`: runs take
  // them in turn.
  static Result<GemmCase> Make(const CpuInfo& cpu, GemmTypes types, size_t m, size_t n, size_t k,
                               std::string_view row = {}, size_t rhs_bytes = 0, int threads = 1) {
    GemmCase c;
    if (threads > 1) c.pool_ = std::make_unique<ThreadPool>(ThreadPoolOptions{.threads = threads});
    if (types.lhs == Format::kF64) types.dst = Format::kF64;
    SelectOptions options;
    options.cpu = cpu.facts();
    options.force_row = row;
    c.m_ = m;
    c.problem_ = {.lhs = types.lhs, .rhs = types.rhs, .n = n, .k = k, .expected_m = m};
    const bool fours = types.rhs == Format::kI4;
    c.problem_.channel_scales = types.lhs == Format::kI8d && (types.rhs == Format::kI8 || fours);
    c.problem_.precision = types.precision;
    const bool bytes_in_blocks = types.lhs == Format::kF32 || (types.lhs == Format::kI8d && types.rhs == Format::kU8);
    const bool blocks = !fours && FormatBits(types.rhs) < (bytes_in_blocks ? 16 : 8);
    if (blocks) {
      c.problem_.block = kBlock;
      c.problem_.scale = Format::kF32;
    }
    c.dst_bytes_ = FormatBytes(types.dst);
    c.last_.format = types.dst;
    c.ends_ = c.dst_bytes_ < 4;
    if (c.dst_bytes_ == 1) {
      QUERN_ASSIGN_OR_RETURN(c.result_scales_, AlignedBuffer::Allocate(n * sizeof(float)));
      for (size_t i = 0; i < n; ++i) c.result_scales_.as<float>()[i] = 1e-3f;
      c.last_.kind = ukernel::EpilogueKind::kRequantize;
      c.last_.data = c.result_scales_.data();
    }
    QUERN_ASSIGN_OR_RETURN(const LayoutChoice layout, SelectLayout(c.problem_, options));
    QUERN_ASSIGN_OR_RETURN(c.matmul_, MatMul::Create(c.problem_, options, layout));
    c.lhs_format_ = IsDynamic(types.lhs) ? Format::kF32 : types.lhs;
    QUERN_ASSIGN_OR_RETURN(c.lhs_, Random(c.lhs_format_, m * k, 1));
    QUERN_ASSIGN_OR_RETURN(c.rhs_, Random(types.rhs, k * n, 2));
    QUERN_ASSIGN_OR_RETURN(c.dst_,
                           AlignedBuffer::Allocate(m * n * std::max<size_t>(c.dst_bytes_, 4), {.huge_pages = true}));
    InlineExecutor executor;
    const ptrdiff_t element = static_cast<ptrdiff_t>(FormatBytes(types.rhs));
    ukernel::RhsSource source{.format = types.rhs,
                              .data = c.rhs_.data(),
                              .k_stride = static_cast<ptrdiff_t>(n) * element,
                              .n_stride = element};
    if (blocks) {  // as MatMulNBits has them
      const size_t count = ukernel::CeilDiv(k, kBlock);
      source.block_stride = static_cast<ptrdiff_t>(kBlock * FormatBits(types.rhs) / 8);
      source.n_stride = static_cast<ptrdiff_t>(count) * source.block_stride;
      QUERN_ASSIGN_OR_RETURN(c.scales_, Random(Format::kF32, n * count, 3));
      source.scales = c.scales_.data();
      source.scale_block_stride = 4;
      source.scale_n_stride = static_cast<ptrdiff_t>(count) * 4;
    }
    if (fours) source.n_stride = static_cast<ptrdiff_t>(ukernel::CeilDiv(k, 2));  // a row of each column
    do {
      QUERN_ASSIGN_OR_RETURN(PackedRhs packed, PackedRhs::Pack(c.problem_, layout, source, executor, options.cpu));
      c.packed_.push_back(std::move(packed));
    } while (c.packed_.size() * c.packed_[0].packed_bytes() < rhs_bytes);
    c.plan_ = c.matmul_.Plan(c.Args(0), c.threads());
    QUERN_ASSIGN_OR_RETURN(c.workspace_, AlignedBuffer::Allocate(c.plan_.workspace_bytes));
    return c;
  }

  void Run() {
    next_ = (next_ + 1) % packed_.size();
    const Status status = matmul_.Run(
        plan_, Args(next_),
        {.executor = pool_.get(), .workspace = workspace_.data(), .workspace_bytes = plan_.workspace_bytes});
    QUERN_CHECK(status.ok(), status.message().c_str());
  }
  double operations() const { return 2.0 * static_cast<double>(m_) * static_cast<double>(problem_.n * problem_.k); }
  double rhs_bytes() const { return static_cast<double>(packed_[0].packed_bytes()); }
  const GemmKernel& row() const { return *plan_.gemm.main.row; }
  std::string row_name() const { return ukernel::Name(row()).text; }
  const MatMulPlan& plan() const { return plan_; }

  int threads() const { return pool_ ? pool_->concurrency() : 1; }

  // Runs for about `seconds`, of processor time or, on several threads, of the clock; runs per second.
  double Slice(double seconds) {
    return PerSecond(seconds, [&] { Run(); });
  }
  // The same for reading the weights alone, a part on each thread.
  double ReadSlice(double seconds) {
    return PerSecond(seconds, [&] {
      next_ = (next_ + 1) % packed_.size();
      const char* p = reinterpret_cast<const char*>(packed_[next_].data());
      const size_t bytes = packed_[next_].packed_bytes();
      if (!pool_) return Read(p, bytes);
      const size_t part = bytes / static_cast<size_t>(threads());
      const Status status = pool_->ParallelFor(threads(), 1, [&](int, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) Read(p + static_cast<size_t>(i) * part, part);
      });
      QUERN_CHECK(status.ok(), status.message().c_str());
    });
  }

 private:
  double Now() const {
    if (!pool_) return ThreadSeconds();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  template <class F>
  double PerSecond(double seconds, F f) {
    const double begin = Now();
    double done = 0, spent = 0;
    do {
      f();
      ++done;
      spent = Now() - begin;
    } while (spent < seconds);
    return done / spent;
  }

  // Four streams at once.
  static void Read(const char* p, size_t bytes) {
    typedef uint64_t Line __attribute__((vector_size(64)));
    constexpr size_t kStreams = 4;
    Line sums[kStreams] = {};
    const size_t apart = bytes / kStreams / sizeof(Line) * sizeof(Line);
    for (size_t i = 0; i < apart; i += sizeof(Line)) {
      for (size_t j = 0; j < kStreams; ++j) {
        Line x;
        __builtin_memcpy(&x, p + j * apart + i, sizeof(x));
        sums[j] += x;
      }
    }
    for (Line& s : sums) asm volatile("" : : "r"(&s) : "memory");  // keeps compilers from dropping the loop
  }

  static Result<AlignedBuffer> Random(Format f, size_t count, uint32_t seed) {
    const size_t bytes = ukernel::CeilDiv(count * FormatBits(f), 8);
    QUERN_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(bytes, {.huge_pages = true}));
    std::mt19937 rng(seed);
    NormalNumbers<float> normal;
    char* p = buffer.as<char>();
    if (FormatBits(f) <= 8) {
      for (size_t i = 0; i < bytes; ++i) p[i] = static_cast<char>(rng());
      return buffer;
    }
    for (size_t i = 0; i < count; ++i) ukernel::StoreNumber(f, p + i * FormatBytes(f), double{normal(rng)});
    return buffer;
  }

  MatMulArgs Args(size_t copy) const {
    MatMulArgs a;
    a.m = m_;
    a.lhs = lhs_.data();
    a.lhs_row_stride = static_cast<ptrdiff_t>(problem_.k * FormatBytes(lhs_format_));
    a.packed_rhs = &packed_[copy];
    a.dst = const_cast<std::byte*>(dst_.data());
    a.dst_row_stride = static_cast<ptrdiff_t>(problem_.n * dst_bytes_);
    a.ops = &last_;
    a.op_count = ends_ ? 1 : 0;
    return a;
  }

  size_t m_ = 0, next_ = 0, dst_bytes_ = 4;
  bool ends_ = false;  // with `last_`
  EpilogueOp last_{.kind = ukernel::EpilogueKind::kConvert};
  GemmProblem problem_;
  Format lhs_format_ = Format::kF32;
  MatMul matmul_;
  MatMulPlan plan_;
  std::vector<PackedRhs> packed_;
  AlignedBuffer lhs_, rhs_, scales_, result_scales_, dst_, workspace_;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace quern::kernels
