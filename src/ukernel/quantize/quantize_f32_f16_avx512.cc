// float32 rows to float16 rows.
#include "ukernel/quantize/convert_rows.h"

#if QUERN_ISA_HERE
#include <immintrin.h>
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Narrow {
  static constexpr size_t kLanes = 16;
  static constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  static void Run(const char* from, uint16_t* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(_mm512_loadu_ps(from), kNearest));
  }
  static void One(const char* from, uint16_t* to) {
    float x;
    __builtin_memcpy(&x, from, sizeof(x));
    *to = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
  }
};
static constexpr auto kRun = ConvertRows<Narrow, float, uint16_t>;
#else
static constexpr decltype(LhsPackKernel::run) kRun = nullptr;
#endif

static constexpr LhsPackKernel kRows[] = {{.isa = kIsa,
                                           .layout = kF16Rows,
                                           .source = Format::kF32,
                                           .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
                                           .cycles_per_element = 0.15f,
                                           .run = kRun}};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
