// Which layouts only the generic packer makes: none but float16 of blocks, which no product takes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ukernel/gemm.h"
#include "ukernel/pack.h"

namespace quern::ukernel {
namespace {

struct Source {
  RhsSource source;
  std::string name;
};

// Every kind of source, dense ones either way round.
std::vector<Source> Sources() {
  static const char present = 0;
  std::vector<Source> all;
  for (Format f : {Format::kF64, Format::kF32, Format::kF16, Format::kBf16, Format::kI8, Format::kU8}) {
    const auto element = static_cast<ptrdiff_t>(FormatBytes(f));
    all.push_back({{.format = f, .k_stride = 1024, .n_stride = element}, std::string(FormatName(f)) + " columns"});
    all.push_back({{.format = f, .k_stride = element, .n_stride = 1024}, std::string(FormatName(f)) + " K"});
  }
  for (Format f : {Format::kU4, Format::kI4}) all.push_back({{.format = f}, std::string(FormatName(f)) + " channels"});
  for (Format f : {Format::kU8, Format::kU4, Format::kU2}) {
    all.push_back({{.format = f, .scales = &present}, std::string(FormatName(f)) + " blocks"});
  }
  for (Format f : {Format::kQ4_0, Format::kQ4_1, Format::kQ8_0}) all.push_back({{.format = f}, FormatName(f)});
  return all;
}

// Selection takes float16 from float16 alone, for its range.
bool IsNeverAskedFor(const PackLayout& l, const RhsSource& s) {
  const bool blocks = IsGguf(s.format) || s.scales != nullptr;
  return blocks && l.element == Format::kF16;
}

// The least CPU that runs a row: what it needs, and the target's baseline.
CpuFacts LeastCpu(const Isa& isa, Arch arch) {
  CpuFacts cpu{.arch = arch, .features = isa.needs};
  if (arch == Arch::kAArch64) cpu.features.Set(CpuFeature::kNeon);
  return cpu;
}

TEST(PackCoverage, EveryLayoutHasAFastPackerOnEveryCpuThatReadsIt) {
  size_t checked = 0;
  for (const auto* list : AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      for (const Arch arch : {Arch::kX86_64, Arch::kAArch64}) {
        if (!row.isa.any_arch && row.isa.arch != arch) continue;
        const CpuFacts cpu = LeastCpu(row.isa, arch);
        for (const PackLayout& l : row.layouts) {
          if (l.element == Format::kNone) continue;
          for (const auto& [source, name] : Sources()) {
            if (!CanPackRhs(l, source) || IsNeverAskedFor(l, source)) continue;
            EXPECT_NE(FindPackKernel(l, source, cpu, Lookup::kCost), nullptr)
                << list->stem << ", units of " << l.n_unit << (l.n_scale == VectorScale::kFixed ? " " : " lanes of ")
                << FormatName(l.element) << " by " << l.k_interleave << " k, from " << name << " on " << ArchName(arch);
            ++checked;
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 1000u);
}

}  // namespace
}  // namespace quern::ukernel
