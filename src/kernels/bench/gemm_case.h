// Products of floats on one thread, ready to be timed.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/cpu.h"
#include "kernels/matmul.h"
#include "kernels/packed_rhs.h"
#include "kernels/peak.h"
#include "ukernel/convert.h"

namespace quern::kernels {

// Formats of the operands and of the result.
struct GemmTypes {
  Format lhs = Format::kF32, rhs = Format::kF32, dst = Format::kF32;
};

class GemmCase {
 public:
  // kUnsupported when no row of the CPU serves it.
  static Result<GemmCase> Make(const CpuInfo& cpu, size_t m, size_t n, size_t k, std::string_view row = {},
                               GemmTypes types = {}, Precision precision = Precision::kFp32) {
    GemmCase c;
    SelectOptions options;
    options.cpu = cpu.facts();
    options.force_row = row;
    c.m_ = m;
    c.types_ = types;
    c.convert_.format = types.dst;
    c.problem_ = {.lhs = types.lhs, .rhs = types.rhs, .n = n, .k = k, .precision = precision, .expected_m = m};
    QUERN_ASSIGN_OR_RETURN(const LayoutChoice layout, SelectLayout(c.problem_, options));
    QUERN_ASSIGN_OR_RETURN(c.matmul_, MatMul::Create(c.problem_, options, layout));
    QUERN_ASSIGN_OR_RETURN(c.lhs_, AlignedBuffer::Allocate(m * k * FormatBytes(types.lhs), {.huge_pages = true}));
    QUERN_ASSIGN_OR_RETURN(c.rhs_, AlignedBuffer::Allocate(k * n * FormatBytes(types.rhs), {.huge_pages = true}));
    QUERN_ASSIGN_OR_RETURN(c.dst_, AlignedBuffer::Allocate(m * n * 4, {.huge_pages = true}));
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    const auto fill = [&](AlignedBuffer& to, Format f, size_t count) {
      for (size_t i = 0; i < count; ++i) ukernel::StoreFloat(f, to.data() + i * FormatBytes(f), normal(rng));
    };
    fill(c.lhs_, types.lhs, m * k);
    fill(c.rhs_, types.rhs, k * n);
    InlineExecutor executor;
    const auto element = static_cast<ptrdiff_t>(FormatBytes(types.rhs));
    const ukernel::RhsSource source{.format = types.rhs,
                                    .data = c.rhs_.data(),
                                    .k_stride = static_cast<ptrdiff_t>(n) * element,
                                    .n_stride = element};
    QUERN_ASSIGN_OR_RETURN(c.packed_, PackedRhs::Pack(c.problem_, layout, source, executor, options.cpu));
    c.plan_ = c.matmul_.Plan(c.Args(), 1);
    QUERN_ASSIGN_OR_RETURN(c.workspace_, AlignedBuffer::Allocate(c.plan_.workspace_bytes));
    return c;
  }

  void Run() {
    const Status status =
        matmul_.Run(plan_, Args(), {.workspace = workspace_.data(), .workspace_bytes = plan_.workspace_bytes});
    QUERN_CHECK(status.ok(), status.message().c_str());
  }
  double operations() const { return 2.0 * static_cast<double>(m_) * static_cast<double>(problem_.n * problem_.k); }
  std::string row_name() const { return ukernel::Name(*plan_.gemm.main.row).text; }
  const MatMulPlan& plan() const { return plan_; }

  // Runs for about `seconds` of processor time; GFLOP/s.
  double Slice(double seconds) {
    const double begin = ThreadSeconds();
    double done = 0, spent = 0;
    do {
      Run();
      done += operations();
      spent = ThreadSeconds() - begin;
    } while (spent < seconds);
    return done / spent / 1e9;
  }

 private:
  MatMulArgs Args() const {
    MatMulArgs a;
    a.m = m_;
    a.lhs = lhs_.data();
    a.lhs_row_stride = static_cast<ptrdiff_t>(problem_.k * FormatBytes(types_.lhs));
    a.packed_rhs = &packed_;
    a.dst = const_cast<std::byte*>(dst_.data());
    a.dst_row_stride = static_cast<ptrdiff_t>(problem_.n * FormatBytes(types_.dst));
    a.ops = &convert_;
    a.op_count = types_.dst == Format::kF32 ? 0 : 1;
    return a;
  }

  size_t m_ = 0;
  GemmTypes types_;
  EpilogueOp convert_{.kind = ukernel::EpilogueKind::kConvert};
  GemmProblem problem_;
  MatMul matmul_;
  MatMulPlan plan_;
  PackedRhs packed_;
  AlignedBuffer lhs_, rhs_, dst_, workspace_;
};

}  // namespace quern::kernels
