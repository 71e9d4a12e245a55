// float32 convolution over groups of few channels on portable C++.
#include "ukernel/dwconv/tile_grouped.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_portable.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Lanes {
  typedef int32_t Index __attribute__((vector_size(16)));
  static Index LoadIndex(const int32_t* p) { return Index{p[0], p[1], p[2], p[3]}; }
  static Index Next(Index i) { return i + 1; }
  static Vector::Reg Spread(Vector::Reg x, Index i) { return Vector::Reg{x[i[0]], x[i[1]], x[i[2]], x[i[3]]}; }
};

static constexpr DwConvRun kRun = RunGrouped<Vector, Lanes, 2>;
#else
static constexpr DwConvRun kRun = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {GroupedRow(kIsa, 16, 4, 2, Engine::kScalar, 8, 12, kRun)};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
