// The peak loop that belongs to a row of products.
#include "ukernel/peak.h"

namespace quern::ukernel {
namespace {

// The format that instructions made for the row's left side multiply.
Format NarrowFormat(const GemmKernel& row) {
  switch (row.lhs) {
    case Format::kI8:
    case Format::kU8:
    case Format::kI8d:
    case Format::kI8b:
      return Format::kI8;
    case Format::kBf16:
    case Format::kBf16x2:
    case Format::kBf16x3:
      return Format::kBf16;
    case Format::kF16:
    case Format::kF64:
      return row.lhs;
    default:
      return row.precision == Precision::kFp16 ? Format::kF16 : Format::kF32;
  }
}

bool Serves(const PeakKernel& loop, Format multiplies, const GemmKernel& row, const CpuFacts& c) {
  if (!loop.run || loop.multiplies != multiplies || (loop.half_sums && row.precision != Precision::kFp16)) return false;
  // Rows of NEON that share the units of SME need it too.
  if (loop.m_scale != VectorScale::kFixed && row.cost.engine != Engine::kMatrix) return false;
  if (loop.isa.any_arch || row.isa.any_arch) return loop.isa.any_arch && row.isa.any_arch;
  return loop.isa.arch == row.isa.arch && row.isa.needs.ContainsAll(loop.isa.needs) && IsaRunsOn(loop.isa, c);
}

const PeakKernel* FastestOf(Format multiplies, const GemmKernel& row, const CpuFacts& c) {
  const PeakKernel* best = nullptr;
  for (const auto* list : AllPeakKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const PeakKernel& loop = list->rows[i];
      if (!Serves(loop, multiplies, row, c)) continue;
      if (!best || PeakOperations(loop, c) > PeakOperations(*best, c)) best = &loop;
    }
  }
  return best;
}

}  // namespace

const PeakKernel* PeakOf(const GemmKernel& row, const CpuFacts& c) {
  const Format narrow = NarrowFormat(row);
  const PeakKernel* found = FastestOf(narrow, row, c);
  // Only 16-bit floats become float32, where an ISA has no instruction for them.
  return found || narrow == Format::kI8 || narrow == Format::kF64 ? found : FastestOf(Format::kF32, row, c);
}

}  // namespace quern::ukernel
