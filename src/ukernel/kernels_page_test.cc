// docs/kernels.md is made from the rows of all families: QUERN_WRITE_DOCS=1 writes it, else the test compares.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ukernel/affine.h"
#include "ukernel/choose.h"
#include "ukernel/dwconv.h"
#include "ukernel/elementwise.h"
#include "ukernel/epilogue.h"
#include "ukernel/fold.h"
#include "ukernel/fourier.h"
#include "ukernel/pack.h"
#include "ukernel/peak.h"
#include "ukernel/quantize.h"
#include "ukernel/sum_order.h"
#include "ukernel/transform.h"
#include "ukernel/vector.h"
#include "ukernel/winograd.h"

namespace quern::ukernel {
namespace {

// Instruction sets that no machine of ours has had so far; all of Arm runs under an emulator.
constexpr const char* kNeverNative[] = {"amxbf16", "amxint8", "amxfp16", "avx512fp16", "avxvnniint8"};

std::string Ran(const Isa& isa) {
  const bool arm = !isa.any_arch && isa.arch == Arch::kAArch64;
  const bool never = std::any_of(std::begin(kNeverNative), std::end(kNeverNative),
                                 [&](const char* name) { return std::strcmp(name, isa.name) == 0; });
  return arm || never ? "emulated only" : "native";
}

std::string Needs(const Isa& isa) {
  if (isa.any_arch) return "nothing";
  std::string list = std::string(ArchName(isa.arch)) + ":";
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const auto f = static_cast<CpuFeature>(i);
    if (isa.needs.Has(f)) list += std::string(" ") + CpuFeatureName(f);
  }
  return list;
}

std::string Layout(const PackLayout& l) {
  char text[kReasonBytes];
  LayoutText(l, text, sizeof(text));
  return text;
}

std::string Number(double x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", x);
  return text;
}

std::string Extent(size_t x, VectorScale scale) {
  return std::to_string(x) + (scale == VectorScale::kFixed ? "" : "v");
}

const char* EngineName(Engine e) {
  switch (e) {
    case Engine::kScalar:
      return "scalar";
    case Engine::kVector:
      return "vector";
    case Engine::kVector512:
      return "512-bit vector";
    case Engine::kMatrix:
      return "matrix";
  }
  return "?";
}

// Sets of fused operations have numbers: rows share few.
class FusedSets {
 public:
  std::string Name(uint32_t mask) {
    if (mask == 0) return "nothing";
    const auto at = std::find(sets_.begin(), sets_.end(), mask);
    const auto index = at - sets_.begin();
    if (at == sets_.end()) sets_.push_back(mask);
    return "set " + std::to_string(index + 1);
  }
  std::string Legend() const {
    std::string page = "\nFused operations (`EpilogueKind` in `ukernel/epilogue.h`):\n\n";
    for (size_t s = 0; s < sets_.size(); ++s) {
      page += "- set " + std::to_string(s + 1) + ":";
      for (size_t i = 0; i < static_cast<size_t>(EpilogueKind::kCount); ++i) {
        const auto kind = static_cast<EpilogueKind>(i);
        if (sets_[s] & EpilogueBit(kind)) page += std::string(" ") + EpilogueName(kind);
      }
      page += "\n";
    }
    return page;
  }

 private:
  std::vector<uint32_t> sets_;
};

std::string LeftSide(const GemmKernel& r) {
  std::string forms;
  const auto add = [&](const char* text) { forms += (forms.empty() ? "" : ", ") + std::string(text); };
  if (IsPrepared(r)) {
    const LhsLayout& l = r.lhs_layout;
    const std::string unit = Extent(l.m_unit, l.m_scale);
    add((std::string(FormatName(l.element)) +
         (r.lhs_forms & kLhsPacked ? " panels [M/" + unit + "][K/" + std::to_string(l.k_interleave) + "][" + unit +
                                         "][" + std::to_string(l.k_interleave) + "]"
                                   : " rows") +
         " packed from " + FormatName(LhsSourceFormat(r)))
            .c_str());
    return forms;
  }
  if (r.lhs_forms & kLhsRows) add("rows");
  if (r.lhs_forms & kLhsTaps) add("taps");
  if (r.lhs_forms & kLhsRowPointers) add("row pointers");
  return forms;
}

std::string Layouts(const GemmKernel& r) {
  std::string list;
  for (const PackLayout& l : r.layouts) {
    if (l.element == Format::kNone) break;
    list += (list.empty() ? "" : "<br>") + Layout(l);
    if (!SameElements(l, r.consumed)) list += " (read as " + Layout(r.consumed) + ")";
  }
  return list + (r.rhs_in_place ? "<br>in place" : "");
}

std::string Cost(const GemmKernel& r) {
  const GemmCost& c = r.cost;
  std::string text = std::string(EngineName(c.engine)) + ": step_row " + Number(c.step_row);
  const auto add = [&](const char* name, double x, double usual) {
    if (x != usual) text += std::string(", ") + name + " " + Number(x);
  };
  const GemmCost usual;
  add("step_load", c.step_load, usual.step_load);
  add("step_min", c.step_min, usual.step_min);
  add("row", c.row, usual.row);
  add("tile", c.tile, usual.tile);
  add("call", c.call, usual.call);
  add("read", c.read, usual.read);
  add("m_grain", c.m_grain, usual.m_grain);
  return text;
}

std::string Line(std::initializer_list<std::string> cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

// A heading, what the family does, and the table's head.
std::string Family(const char* name, const char* what, std::initializer_list<std::string> columns) {
  std::string rule = "|";
  for (size_t i = 0; i < columns.size(); ++i) rule += "---|";
  return std::string("\n## ") + name + "\n\n" + what + "\n\n" + Line(columns) + rule + "\n";
}

template <class Kernel, class Visit>
void ForEach(std::span<const KernelList<Kernel>* const> lists, Visit visit) {
  for (const KernelList<Kernel>* list : lists) {
    for (size_t i = 0; i < list->count; ++i) {
      visit(list->rows[i], list->count == 1 ? std::string(list->stem) : list->stem + ("#" + std::to_string(i)));
    }
  }
}

// What the column of that name says, and the bounds that tests demand.
std::string Sums(const std::set<SumOrder>& orders) {
  std::string page = "\nSums, that is in which order a call adds up the products of an element:\n\n";
  for (const SumOrder order : orders) page += std::string("- ") + TextOf(order).name + ": " + TextOf(order).text + "\n";
  return page +
         "\nPortable rows round products and sums where others have a fused multiply-add. With several blocks of K, a "
         "call goes "
         "on\nfrom the sums of the block before, or adds its own to them; they lie in memory as float32. Rows "
         "that read\nblocks of weights as f32 multiply weights that a block transform rounded to float32.\n\n"
         "Errors, by precision, that tests demand of each row:\n\n"
         "- exact, and all rows with integer left sides (`i8d`, `i8b`): the same bits as the portable row.\n"
         "- fp32: relative Frobenius error against float64 at most 1e-6 (random normal data, K = 1024), fp64 2e-15; "
         "with float "
         "left\n"
         "  sides also a median over seeds of |C - C64| / |A||B| that is at most that of a sequential float32 loop of "
         "fused\n"
         "  multiply-adds (portable rows: of multiplications and additions), one row and whole tiles, normal and "
         "badly\n"
         "  scaled data.\n"
         "- fp32-fast: at most 1e-5. fp16: at most 3e-3. bf16: at most 5e-3.\n";
}

std::string GemmTable(FusedSets& sets) {
  std::string page =
      Family("gemm",
             "Matrix products. Tiles are rows x columns x K step; `v` marks multiples of the vector's 32-bit lanes. "
             "A call computes one, with `many tiles` also several one below the other, with `whole panels` any number.",
             {"row", "left, right, accumulator", "tile", "left side", "resident layouts", "precision", "sums", "fuses",
              "cost", "ran"});
  std::set<SumOrder> orders;
  ForEach(AllGemmKernels(), [&](const GemmKernel& r, const std::string&) {
    page += Line({std::string("`") + Name(r).text + "`" + (r.only_forced ? " (by name alone)" : ""),
                  std::string(FormatName(r.lhs)) + ", " + FormatName(r.rhs) + ", " + FormatName(r.dst),
                  Extent(r.mr, r.mr_scale) + " x " + Extent(r.nr, r.nr_scale) + " x " + std::to_string(r.kr) +
                      (r.whole_panel  ? ", whole panels"
                       : r.many_tiles ? ", many tiles"
                                      : ""),
                  LeftSide(r), Layouts(r), PrecisionName(r.precision), TextOf(SumOrderOf(r)).name, sets.Name(r.fused),
                  Cost(r), Ran(r.isa)});
    orders.insert(SumOrderOf(r));
  });
  EXPECT_EQ(orders.size(), static_cast<size_t>(SumOrder::kCount) - 1) << "an order that no row has";
  return page + Sums(orders);
}

// Of families whose rows are one per instruction set.
template <class Kernel, class Width>
std::string IsaTable(const char* family, const char* what, std::span<const KernelList<Kernel>* const> lists,
                     const char* unit, Width width) {
  std::string page = Family(family, what, {"row", "instruction set", unit, "ran"});
  ForEach(lists, [&](const Kernel& r, const std::string& name) {
    page += Line({"`" + name + "`", r.isa.name, std::to_string(width(r)), Ran(r.isa)});
  });
  return page;
}

std::string Page() {
  std::string page =
      "# Micro-kernels\n\nMade from the rows by `ukernel_test` with QUERN_WRITE_DOCS=1. "
      "[performance.md](performance.md) "
      "has what they reach;\n`quern kernels --shape MxNxK --types LHS,RHS,DST --cpu NAME` says which one a product "
      "gets, "
      "and why not the others;\n[ukernel-api.md](ukernel-api.md) is how to call them from C.\n\n"
      "\"emulated only\": the row has never run on a CPU that has its instructions; its tests run under an emulator "
      "(Arm), or\nwith those instructions in plain C++ (x86-64). Cost terms are cycles, `GemmCost` in "
      "`ukernel/gemm.h` has the formula.\n";
  page += Family("Instruction sets", "By the last part of a row's name.", {"name", "needs", "ran"});
  std::vector<Isa> isas;  // as the row says that needs the least
  const auto add_isa = [&](const auto& r, const std::string&) {
    const auto same = [&](const Isa& x) { return std::string_view(x.name) == r.isa.name; };
    const auto found = std::find_if(isas.begin(), isas.end(), same);
    if (found == isas.end()) {
      isas.push_back(r.isa);
    } else if (found->needs.ContainsAll(r.isa.needs)) {
      *found = r.isa;
    }
  };
  ForEach(AllGemmKernels(), add_isa);
  ForEach(AllPackKernels(), add_isa);
  ForEach(AllLhsPackKernels(), add_isa);
  ForEach(AllTransformKernels(), add_isa);
  ForEach(AllPeakKernels(), add_isa);
  for (const Isa& isa : isas) page += Line({isa.name, Needs(isa), Ran(isa)});
  FusedSets sets;
  page += GemmTable(sets);
  ForEach(AllDwConvKernels(), [&](const DwConvKernel& r, const std::string&) { sets.Name(r.fused); });
  page += sets.Legend();
  page += Family("pack", "Fast packers of the right side; the generic one makes every layout.",
                 {"row", "from", "layout", "cycles per element", "ran"});
  ForEach(AllPackKernels(), [&](const PackKernel& r, const std::string& name) {
    const char* along = r.contiguous_n ? ", contiguous columns" : r.contiguous_k ? ", contiguous K" : "";
    page += Line({"`" + name + "`", std::string(FormatName(r.source)) + along, Layout(r.layout),
                  Number(static_cast<double>(r.cycles_per_element)), Ran(r.isa)});
  });
  page += Family("quantize", "Fast packers of the left side; the generic one makes every form.",
                 {"row", "from", "to", "cycles per element", "ran"});
  ForEach(AllLhsPackKernels(), [&](const LhsPackKernel& r, const std::string& name) {
    const LhsLayout& l = r.layout;
    page += Line({"`" + name + "`", FormatName(r.source),
                  std::string(FormatName(l.element)) + ", units of " + Extent(l.m_unit, l.m_scale),
                  Number(static_cast<double>(r.cycles_per_element)), Ran(r.isa)});
  });
  page += Family("transform", "A block of K from its resident form to what a row reads.",
                 {"row", "from", "to", "cycles per element", "ran"});
  ForEach(AllTransformKernels(), [&](const TransformKernel& r, const std::string& name) {
    page += Line({"`" + name + "`", Layout(r.from), Layout(r.to), Number(static_cast<double>(r.cycles_per_element)),
                  Ran(r.isa)});
  });
  page += Family("dwconv", "Depthwise convolution, and over groups of at most 16 channels, NHWC.",
                 {"row", "pixels x lanes", "fuses", "ran"});
  ForEach(AllDwConvKernels(), [&](const DwConvKernel& r, const std::string&) {
    page += Line({std::string("`") + Name(r).text + "`", std::to_string(r.pixels) + " x " + std::to_string(r.lanes),
                  sets.Name(r.fused), Ran(r.isa)});
  });
  page += IsaTable(
      "vector",
      "Float32 loops: elementwise, reductions, pools, softmax, normalization, rotary embedding, interpolation; "
      "transposes.",
      AllVectorKernels(), "lanes", [](const VectorKernel& r) { return r.lanes; });
  page += IsaTable("winograd", "Transforms of 3x3 convolutions.", AllWinogradKernels(), "lanes",
                   [](const WinogradKernel& r) { return r.lanes; });
  page += IsaTable("fourier", "Steps of discrete Fourier transforms of float32, for DFT and STFT.", AllFourierKernels(),
                   "lanes", [](const FourierKernel& r) { return r.lanes; });
  page += IsaTable("fold", "Reductions and pools of any type.", AllFoldKernels(), "bytes of a vector",
                   [](const FoldKernel& r) { return r.vector_bytes; });
  page += IsaTable("affine",
                   "Quantization and dequantization of float32, f16 and bf16 (per tensor, row, channel, block; "
                   "integers and floats of 8 "
                   "bits), requantization of int32 sums, averages of bytes.",
                   AllAffineKernels(), "bytes of a vector", [](const AffineKernel& r) { return r.vector_bytes; });
  page +=
      IsaTable("elementwise",
               "Elementwise operators of any type, and conversions between all number types, floats of 8, 6 and 4 bits "
               "among them.",
               AllElementwiseKernels(), "bytes of a vector", [](const ElementwiseKernel& r) { return r.vector_bytes; });
  return page;
}

TEST(KernelsPage, IsUpToDate) {
  const std::string path = QUERN_TEST_DOCS "/kernels.md";
  const std::string page = Page();
  if (std::getenv("QUERN_WRITE_DOCS")) std::ofstream(path) << page;
  std::ifstream file(path);
  const std::string there{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(there, page) << path << " is out of date: run this test with QUERN_WRITE_DOCS=1";
}

}  // namespace
}  // namespace quern::ukernel
