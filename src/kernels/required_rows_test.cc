// The cells of the table of micro-kernels that must exist: for each kind of product, rows of each instruction set that
// a CPU with that set can be given.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/select.h"

namespace quern::kernels {
namespace {

using Isas = std::vector<std::string>;

struct Cell {
  const char* name;
  GemmProblem problem;
  Isas x86, arm;
  bool as_stored = false;  // by rows whose weights keep their format in memory
};

GemmProblem Of(Format lhs, Format rhs, Precision precision = Precision::kFp32) {
  return {.lhs = lhs, .rhs = rhs, .precision = precision};
}
GemmProblem Blocks(Format lhs, Format rhs, Format zero_point = Format::kNone) {
  GemmProblem p = Of(lhs, rhs);
  if (!IsGguf(rhs)) p.block = 32;
  p.scale = IsGguf(rhs) ? Format::kF16 : Format::kBf16;
  p.zero_point = zero_point;
  return p;
}
GemmProblem Channels(Format rhs) {
  GemmProblem p = Of(Format::kI8d, rhs);
  p.channel_scales = true;
  return p;
}

std::vector<Cell> Cells() {
  const Isas int8_x86 = {"portable", "avx2", "avxvnni", "avx512vnni", "avxvnniint8", "amxint8"};
  const Isas int8_arm = {"neon", "neondot", "neoni8mm", "sve", "svei8mm", "sme", "sme2"};
  const Isas dynamic_arm = {"neondot", "neoni8mm", "sve", "svei8mm", "sme", "sme2"};
  const Isas int8_blocks_arm = {"neondot", "neoni8mm", "sve", "svei8mm", "sme2"};
  const Isas weights_x86 = {"avx2", "avx512", "amxbf16"}, weights_arm = {"neon", "sme2"};
  std::vector<Cell> cells = {
      {"f32",
       Of(Format::kF32, Format::kF32),
       {"portable", "avx2", "avx512", "amxbf16"},
       {"neon", "sve", "sme", "sme2"}},
      {"f64", Of(Format::kF64, Format::kF64), {"portable", "avx2", "avx512"}, {"neon"}},
      {"f32 by two terms", Of(Format::kF32, Format::kF32, Precision::kFp32Fast), {"amxbf16"}, {}},
      {"bf16",
       Of(Format::kBf16, Format::kBf16),
       {"portable", "avx2", "avx512", "avx512bf16", "amxbf16"},
       {"neonbf16", "svebf16", "sme", "sme2"}},
      {"f16",
       Of(Format::kF16, Format::kF16, Precision::kFp16),
       {"portable", "avx2", "avx512", "avx512fp16", "amxfp16"},
       {"neon", "neonfp16", "sve", "sme", "sme2"}},
      {"f32 by f16",
       Of(Format::kF32, Format::kF16, Precision::kFp16),
       {"avx2", "avx512", "avx512fp16", "amxfp16"},
       {"neon", "sve", "sme", "sme2"},
       true},
      {"i8", Of(Format::kI8, Format::kI8, Precision::kExact), int8_x86, int8_arm},
      {"u8", Of(Format::kU8, Format::kI8, Precision::kExact), int8_x86, int8_arm},
      {"dynamic by channels", Channels(Format::kI8), int8_x86, dynamic_arm},
      {"dynamic by 4-bit channels", Channels(Format::kI4), int8_x86, dynamic_arm},
      {"dynamic by 4-bit blocks", Blocks(Format::kI8d, Format::kU4), int8_x86, dynamic_arm},
      {"dynamic by 4-bit blocks with zero points", Blocks(Format::kI8d, Format::kU4, Format::kU8), int8_x86,
       dynamic_arm},
      {"dynamic by 2-bit blocks", Blocks(Format::kI8d, Format::kU2), int8_x86, dynamic_arm},
      {"dynamic by 8-bit blocks", Blocks(Format::kI8d, Format::kU8, Format::kU8), int8_x86, dynamic_arm},
      {"int8 blocks by q4_0", Blocks(Format::kI8b, Format::kQ4_0), int8_x86, int8_blocks_arm},
      {"int8 blocks by q4_1", Blocks(Format::kI8b, Format::kQ4_1, Format::kF32), int8_x86, int8_blocks_arm},
      {"int8 blocks by q8_0", Blocks(Format::kI8b, Format::kQ8_0), int8_x86, int8_blocks_arm},
      {"f32 by 4-bit blocks", Blocks(Format::kF32, Format::kU4), weights_x86, weights_arm},
      {"f32 by 8-bit blocks", Blocks(Format::kF32, Format::kQ8_0), weights_x86, weights_arm},
  };
  for (Cell& c : cells) {
    c.problem.n = 512;
    c.problem.k = 512;
  }
  return cells;
}

// Everything that an architecture has.
CpuFacts Everything(Arch arch) {
  CpuFacts cpu;
  cpu.arch = arch;
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const auto f = static_cast<CpuFeature>(i);
    if (CpuFeatureArch(f) == arch) cpu.features.Set(f);
  }
  if (arch == Arch::kAArch64) cpu.sve_vector_bytes = cpu.sme_vector_bytes = 32;
  return cpu;
}

// Instruction sets whose rows may serve the problem, by whatever layout.
std::set<std::string> Serving(const GemmProblem& problem, Arch arch, bool as_stored = false) {
  const SelectOptions options{.cpu = Everything(arch), .ignore_missing_bodies = true};
  std::set<std::string> isas;
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      if (as_stored && row.layouts[0].element != problem.rhs) continue;
      if (RejectionReason(row, problem, options, nullptr).empty()) isas.insert(row.isa.name);
    }
  }
  return isas;
}

TEST(RequiredRows, AreThere) {
  for (const Cell& cell : Cells()) {
    for (Arch arch : {Arch::kX86_64, Arch::kAArch64}) {
      const std::set<std::string> serving = Serving(cell.problem, arch, cell.as_stored);
      for (const std::string& isa : arch == Arch::kX86_64 ? cell.x86 : cell.arm) {
        EXPECT_EQ(serving.count(isa), 1u) << cell.name << " on " << isa << ": no row";
      }
    }
  }
}

// Convolution by taps: rows that are read in place through pointers, or prepared.
TEST(RequiredRows, Convolve) {
  for (GemmProblem p :
       {Of(Format::kF32, Format::kF32), Of(Format::kF16, Format::kF16), Of(Format::kBf16, Format::kBf16),
        Of(Format::kU8, Format::kI8, Precision::kExact), Of(Format::kI8, Format::kI8, Precision::kExact)}) {
    p.n = 64;
    p.k = 64;
    p.segments = 9;
    p.lhs_form = ukernel::kLhsRowPointers;
    for (Arch arch : {Arch::kX86_64, Arch::kAArch64}) {
      std::set<std::string> serving = Serving(p, arch);
      serving.erase("portable");
      EXPECT_GE(serving.size(), 3u) << FormatName(p.lhs) << " on " << ArchName(arch);
    }
  }
}

// Attention: heads of one type, or of float32 by caches of float16; keys and values come with the run.
TEST(RequiredRows, Attend) {
  for (GemmProblem p : {Of(Format::kF32, Format::kF32), Of(Format::kF16, Format::kF16),
                        Of(Format::kBf16, Format::kBf16), Of(Format::kF32, Format::kF16)}) {
    p.rhs_constant = false;
    for (const bool values : {false, true}) {
      p.rhs_contiguous = values;
      for (const auto& [arch, isas] :
           {std::pair{Arch::kX86_64, Isas{"portable", "avx2", "avx512"}}, std::pair{Arch::kAArch64, Isas{"neon"}}}) {
        const std::set<std::string> serving = Serving(p, arch);
        for (const std::string& isa : isas) {
          EXPECT_TRUE(serving.contains(isa)) << FormatName(p.lhs) << " by " << FormatName(p.rhs) << " on " << isa;
        }
      }
    }
  }
}

}  // namespace
}  // namespace quern::kernels
