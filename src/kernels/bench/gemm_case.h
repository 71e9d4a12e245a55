// One float32 product on one thread, ready to be timed.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/cpu.h"
#include "kernels/matmul.h"
#include "kernels/packed_rhs.h"
#include "kernels/peak.h"

namespace quern::kernels {

class GemmCase {
 public:
  // kUnsupported when no row of the CPU serves it.
  static Result<GemmCase> Make(const CpuInfo& cpu, size_t m, size_t n, size_t k, std::string_view row = {}) {
    GemmCase c;
    SelectOptions options;
    options.cpu = cpu.facts();
    options.force_row = row;
    c.m_ = m;
    c.problem_ = {.n = n, .k = k, .expected_m = m};
    QUERN_ASSIGN_OR_RETURN(const LayoutChoice layout, SelectLayout(c.problem_, options));
    QUERN_ASSIGN_OR_RETURN(c.matmul_, MatMul::Create(c.problem_, options, layout));
    QUERN_ASSIGN_OR_RETURN(c.lhs_, AlignedBuffer::Allocate(m * k * 4, {.huge_pages = true}));
    QUERN_ASSIGN_OR_RETURN(c.rhs_, AlignedBuffer::Allocate(k * n * 4, {.huge_pages = true}));
    QUERN_ASSIGN_OR_RETURN(c.dst_, AlignedBuffer::Allocate(m * n * 4, {.huge_pages = true}));
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < m * k; ++i) c.lhs_.as<float>()[i] = normal(rng);
    for (size_t i = 0; i < k * n; ++i) c.rhs_.as<float>()[i] = normal(rng);
    InlineExecutor executor;
    const ukernel::RhsSource source{.data = c.rhs_.data(), .k_stride = static_cast<ptrdiff_t>(n * 4), .n_stride = 4};
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
    a.lhs_row_stride = static_cast<ptrdiff_t>(problem_.k * 4);
    a.packed_rhs = &packed_;
    a.dst = const_cast<std::byte*>(dst_.data());
    a.dst_row_stride = static_cast<ptrdiff_t>(problem_.n * 4);
    return a;
  }

  size_t m_ = 0;
  GemmProblem problem_;
  MatMul matmul_;
  MatMulPlan plan_;
  PackedRhs packed_;
  AlignedBuffer lhs_, rhs_, dst_, workspace_;
};

}  // namespace quern::kernels
