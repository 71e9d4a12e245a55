// The int8 product peak of AMX.
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
    amx::DotI8<C, A, B>();
  }
};
static constexpr auto kRun = RunPeakAmx<Dot, 0xffff>;
static constexpr double kOperations = kAmxTiles * AmxOperations(1);
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
static constexpr double kOperations = 0;
#endif

static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "amx", .unit = "GOP/s", .multiplies = Format::kI8, .operations = kOperations, .run = kRun}};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
