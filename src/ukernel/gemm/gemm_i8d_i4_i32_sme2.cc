// Dynamic int8 rows by 4-bit weights with a scale per channel, on SME2: weights become int8 by a block transform.
#include "ukernel/gemm/rows_i8_sme.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_sme2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = RunSme<DotSme2, true>;
#else
static constexpr GemmRun kRun = nullptr;
#endif

constexpr GemmKernel Fours() {
  GemmKernel row = MakeSmeRows(Format::kI8d, 2, kRun).rows[0];
  row.rhs = Format::kI4;
  row.layouts[0] = U4Channels(VectorScale::kSme, 2, 4);
  row.layouts[1] = {};
  return row;
}

static constexpr GemmKernel kRows[] = {Fours()};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
