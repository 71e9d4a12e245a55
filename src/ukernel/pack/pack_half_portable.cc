// Pairs of bf16 and of f16 from row-major float32, bf16 and f16 in portable C++.
#include "ukernel/pack/pack_converted.h"

namespace quern::ukernel {
namespace {

// Rounding to float16 is slow without instructions for it.
template <Format kFrom, Format kTo, bool kColumns>
constexpr PackKernel Row() {
  constexpr bool kSame = kFrom == kTo;
  constexpr float kCycles = kSame ? 0.5f : kTo == Format::kF16 ? 7.0f : kFrom == Format::kF16 ? 3.0f : 1.5f;
  PackKernel row = UnitRow(kTo == Format::kBf16 ? kBf16Pairs16 : kF16Pairs16, kColumns, kCycles, nullptr);
  row.source = kFrom;
  if constexpr (kSame) {
    row.run = PackUnits<2, 2, kColumns>;
  } else {
    row.run = PackConverted<kFrom, kTo, 2, kColumns>;
  }
  return row;
}

static constexpr PackKernel kRows[] = {
    Row<Format::kBf16, Format::kBf16, true>(), Row<Format::kBf16, Format::kBf16, false>(),
    Row<Format::kF32, Format::kBf16, true>(),  Row<Format::kF32, Format::kBf16, false>(),
    Row<Format::kF16, Format::kBf16, true>(),  Row<Format::kF16, Format::kBf16, false>(),
    Row<Format::kF16, Format::kF16, true>(),   Row<Format::kF16, Format::kF16, false>(),
    Row<Format::kF32, Format::kF16, true>(),   Row<Format::kF32, Format::kF16, false>(),
    Row<Format::kBf16, Format::kF16, true>(),  Row<Format::kBf16, Format::kF16, false>(),
};

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
