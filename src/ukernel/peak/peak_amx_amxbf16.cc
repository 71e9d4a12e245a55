// The bfloat16 product peak of AMX.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include "ukernel/peak/peak_amx.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Dot {
  template <int C, int A, int B>
  static void Run() {
    amx::DotBf16<C, A, B>();
  }
};
// Without the high exponent bit elements stay below 2: no sum becomes infinite or NaN.
static constexpr auto kRun = RunPeakAmx<Dot, 0xbfff>;
static constexpr double kOperations = kAmxTiles * AmxOperations(2);
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
static constexpr double kOperations = 0;
#endif

static constexpr PeakKernel kRows[] = {{.isa = kIsa,
                                        .engine = "amx",
                                        .unit = "GFLOP/s",
                                        .multiplies = Format::kBf16,
                                        .operations = kOperations,
                                        .run = kRun}};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
