// int8 units from row-major bytes, either way round, in portable C++.
#include "ukernel/pack/pack_i8.h"
#include "ukernel/transpose_f32.h"

namespace quern::ukernel {
namespace {

struct Lines {
  using Transpose = Transpose4;
  typedef int32_t Int4 __attribute__((vector_size(16)));
  struct Sums {
    Int4 of[4];
  };

  template <bool kTurn>
  static void Finish(char* line, Sums& sums) {
    for (int i = 0; i < 4; ++i) {
      Int4 x;
      __builtin_memcpy(&x, line + 16 * i, 16);
      if (kTurn) {
        x ^= Int4{} + static_cast<int32_t>(0x80808080u);
        __builtin_memcpy(line + 16 * i, &x, 16);
      }
      sums.of[i] += (x << 24 >> 24) + (x << 16 >> 24) + (x << 8 >> 24) + (x >> 24);
    }
  }
  static void Store(const Sums& sums, int32_t* out) {
    for (int i = 0; i < 16; ++i) out[i] += sums.of[i / 4][i % 4];
  }
};

static constexpr PackI8Rows kRows = MakePackI8Rows<Lines>(0.4f, 0.4f);

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
