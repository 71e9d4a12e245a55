// float32 products on NEON: units of 8 columns, four K values of each row loaded at once and used by lane.
#include "ukernel/gemm/tile_f32.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_neon.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun8x8 = DispatchTileF32<Vector, 8, 1>;
static constexpr GemmRun kRun6x16 = DispatchTileF32<Vector, 6, 2>;

// A unit of SME is a matrix with contiguous columns: 16 of them at a time.
void RunSmeUnit(const GemmArgs& a) {
  constexpr size_t kColumns = 16;
  GemmArgs part = a;
  part.rhs_form = RhsForm::kInPlace;
  part.rhs_k_stride = 2 * a.vector_bytes;
  for (size_t n = 0; n < a.n; n += kColumns) {
    part.n = a.n - n < kColumns ? a.n - n : kColumns;
    part.n0 = a.n0 + n;
    part.rhs = static_cast<const float*>(a.rhs) + n;
    part.acc = static_cast<float*>(a.acc) + n;
    part.dst = static_cast<float*>(a.dst) + n;
    DispatchTileF32<Vector, 6, 2>(part);
  }
}
static constexpr GemmRun kRunSmeUnit = RunSmeUnit;
#else
static constexpr GemmRun kRun8x8 = nullptr, kRun6x16 = nullptr, kRunSmeUnit = nullptr;
#endif

constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, float overhead, GemmRun run) {
  const float vectors = nr / 4.0f;
  return TileF32Row(kF32x8, mr, nr,
                    {.engine = Engine::kVector,
                     .step_row = vectors / 2 * overhead,
                     .step_min = vectors * 0.5f,
                     .row = vectors * 2,
                     .tile = 30},
                    run);
}

// Few rows by weights that are resident for SME, whose vector length gives the unit.
constexpr GemmKernel SmeUnit() {
  GemmKernel row = Tile(6, 16, 1.0f, kRunSmeUnit);
  row.isa = {kIsa.name, kIsa.needs.With(CpuFeature::kSme), kIsa.any_arch, kIsa.arch, kIsa.emulated};
  row.nr = 2;
  row.nr_scale = VectorScale::kSme;
  row.consumed = row.layouts[0] = kF32Sme;
  row.cost.step_row = 0.25f;  // per lane: two columns of the unit
  row.cost.step_min = 0.25f;
  row.cost.row = 16;
  return row;
}

static constexpr GemmKernel kRows[] = {
    Tile(8, 8, 1.05f, kRun8x8),  // two loads of weights for 16 multiply-adds
    Tile(6, 16, 1.0f, kRun6x16),
    SmeUnit(),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
