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
  struct Sums {
    __m256i of[2];
  };

  template <bool kTurn>
  static void Finish(char* line, Sums& sums) {
    for (int i = 0; i < 2; ++i) {
      auto* p = reinterpret_cast<__m256i*>(line + 32 * i);
      __m256i x = _mm256_loadu_si256(p);
      if (kTurn) {
        x = _mm256_xor_si256(x, _mm256_set1_epi8(-128));
        _mm256_storeu_si256(p, x);
      }
      const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), x);
      sums.of[i] = _mm256_add_epi32(sums.of[i], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
  }
  static void Store(const Sums& sums, int32_t* out) {
    for (int i = 0; i < 2; ++i) {
      auto* p = reinterpret_cast<__m256i*>(out + 8 * i);
      _mm256_storeu_si256(p, _mm256_add_epi32(_mm256_loadu_si256(p), sums.of[i]));
    }
  }
#endif
};

static constexpr PackI8Rows kRows = MakePackI8Rows<Lines>(0.15f, 0.15f);

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
