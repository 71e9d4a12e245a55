// int8 units from row-major bytes, either way round, in portable C++.
#include "ukernel/pack/pack_i8.h"
#include "ukernel/transpose_f32.h"

namespace quern::ukernel {
namespace {

struct Lines {
  using Transpose = Transpose4;
  typedef int32_t V __attribute__((vector_size(16)));

  static V GroupSums(V x) { return (x << 24 >> 24) + (x << 16 >> 24) + (x << 8 >> 24) + (x >> 24); }
};

static constexpr PackI8Rows kRows = MakePackI8Rows<Lines>(0.4f, 0.4f);

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
