// float32 rows to panels of K by rows: SME's left side.
#include "ukernel/quantize/lhs_rows.h"
#include "ukernel/transpose_f32.h"

namespace quern::ukernel {
namespace {

uint32_t Run(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s, size_t panel_begin, size_t panel_end,
             void* packed) {
  constexpr size_t kSide = Transpose4::kSide;
  const LhsGeometry g = DescribeLhs(layout, shape);
  const size_t line = g.m_unit * sizeof(float);
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    char* out = static_cast<char*>(packed) + panel * g.panel_stride;
    const size_t first = panel * g.m_unit;
    const size_t rows = shape.m - first < g.m_unit ? shape.m - first : g.m_unit;
    const bool gaps = rows < g.m_unit || shape.segments > 1;
    for (size_t i = gaps ? 0 : g.padded_k * line; i < g.panel_stride; i += 4) __builtin_memset(out + i, 0, 4);
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      char* to = out + segment * g.segment_k * line;
      const size_t whole_rows = rows / kSide * kSide, whole_k = shape.k / kSide * kSide;
      for (size_t r = 0; r < whole_rows; r += kSide) {
        if (s.form != kLhsRowPointers) {
          const char* from = SourceRow(s, segment, first + r);
          for (size_t k = 0; k < whole_k; k += kSide) {
            Transpose4::Run(from + k * sizeof(float), s.row_stride, to + k * line + r * sizeof(float), line);
          }
        }
      }
      for (size_t r = 0; r < rows; ++r) {
        const char* from = SourceRow(s, segment, first + r);
        const size_t begin = r < whole_rows && s.form != kLhsRowPointers ? whole_k : 0;
        for (size_t k = begin; k < shape.k; ++k) {
          __builtin_memcpy(to + k * line + r * sizeof(float), from + k * sizeof(float), sizeof(float));
        }
      }
    }
  }
  return kPackFine;
}

static constexpr LhsPackKernel kRows[] = {
    {.isa = kIsa,
     .layout = kF32SmePanels,
     .source = Format::kF32,
     .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
     .cycles_per_element = 0.7f,
     .run = Run},
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
