// int8 units from row-major bytes with AVX2: 8 x 8 transposes of groups, sums by multiply-add.
#include "ukernel/pack/pack_i8.h"

#if QUERN_ISA_HERE
#include "ukernel/transpose_f32_avx.h"
#endif

namespace quern::ukernel {
namespace {

struct Lines {
#if QUERN_ISA_HERE
  using Transpose = Transpose8;
  typedef int32_t V __attribute__((vector_size(32)));

  static V GroupSums(V x) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), (__m256i)x);
    return (V)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
#endif
};

static constexpr PackI8Rows kRows = MakePackI8Rows<Lines>(0.15f, 0.15f);

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
