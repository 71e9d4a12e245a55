// The document about micro-kernels:
//   cpu, can_run
//   kernels [{name, family, isa, arch, runs, reason, ...}]     reason: why not, when `runs` is false
//     gemm: lhs, rhs, dst, precision, tile [mr, nr, kr] (in vectors when "scaled"), consumes, layouts [name], fuses
//     dwconv: pixels, lanes, fuses;   vector, winograd, fourier: lanes;   elementwise, fold: vector_bytes;
//     pack: source, layout;
//     transform: from, to;   quantize: source, dst
//   selection {m, n, k, types, precision, calibrated, load {chosen, layouts [{name, score, resident_bytes, cycles,
//   kernel, reason}]},
//              call {chosen, kernels [{name, cycles, reason}]}}        reason: why not; absent for the chosen one
//   or selection {..., error} when no kernel serves the types
#include <algorithm>

#include "kernels/calibration.h"
#include "kernels/select.h"
#include "session/facts.h"
#include "session/facts_json.h"
#include "ukernel/affine.h"
#include "ukernel/dwconv.h"
#include "ukernel/elementwise.h"
#include "ukernel/epilogue.h"
#include "ukernel/fold.h"
#include "ukernel/fourier.h"
#include "ukernel/pack.h"
#include "ukernel/quantize.h"
#include "ukernel/transform.h"
#include "ukernel/vector.h"
#include "ukernel/winograd.h"

namespace quern {
namespace {

using kernels::GemmProblem;
using kernels::SelectionReport;
using ukernel::Format;
using ukernel::Isa;

Json FusedJson(uint32_t mask) {
  Json list = Json::array();
  for (size_t i = 0; i < static_cast<size_t>(ukernel::EpilogueKind::kCount); ++i) {
    const auto kind = static_cast<ukernel::EpilogueKind>(i);
    if (mask & EpilogueBit(kind)) list.push_back(EpilogueName(kind));
  }
  return list;
}

KernelGroup GroupOf(std::string_view family) {
  size_t i = 0;
  while (i < static_cast<size_t>(KernelGroup::kCount) && family != KernelGroupName(static_cast<KernelGroup>(i))) ++i;
  return static_cast<KernelGroup>(i);
}

// Name, family, ISA, and whether the CPU can run it.
Json RowJson(const std::string& name, const char* family, const Isa& isa, bool has_body, const CpuInfo& cpu) {
  std::string reason;
  if (!isa.any_arch && isa.arch != cpu.arch) {
    reason = std::string("code for ") + ArchName(isa.arch);
  } else if (const CpuFeature missing = cpu.features.FirstMissing(isa.needs);
             !isa.any_arch && missing != CpuFeature::kCount) {
    reason = std::string("needs ") + CpuFeatureName(missing);
  } else if (const KernelGroup group = GroupOf(family);
             cpu.facts().IsDisabled(group) && (!isa.any_arch || group == KernelGroup::kWinograd)) {
    reason = std::string(KernelGroupName(group)) + " is switched off";
  } else if (!has_body && cpu.arch == HostArch()) {
    reason = "this build has no body for it";
  }
  Json row = {{"name", name},
              {"family", family},
              {"isa", isa.name},
              {"arch", isa.any_arch ? "any" : ArchName(isa.arch)},
              {"runs", reason.empty()}};
  if (!reason.empty()) row["reason"] = reason;
  return row;
}

// Rows of pack, transform and quantize have no computed names: the file's stem, and the position where it has several.
template <typename List>
std::string PlainName(const List& list, size_t i) {
  return list.count == 1 ? list.stem : std::string(list.stem) + "#" + std::to_string(i);
}

void AddGemm(const CpuInfo& cpu, Json& rows) {
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const ukernel::GemmKernel& r = list->rows[i];
      Json row = RowJson(ukernel::Name(r).text, "gemm", r.isa, r.run != nullptr, cpu);
      row["lhs"] = FormatName(LhsSourceFormat(r));
      row["rhs"] = FormatName(r.rhs);
      row["dst"] = FormatName(r.dst);
      row["precision"] = PrecisionName(r.precision);
      row["tile"] = {r.mr, r.nr, r.kr};
      if (r.nr_scale != ukernel::VectorScale::kFixed) row["scaled"] = true;
      row["consumes"] = kernels::LayoutName(r.consumed);
      row["layouts"] = Json::array();
      for (const ukernel::PackLayout& l : r.layouts) {
        if (l.element != Format::kNone) row["layouts"].push_back(kernels::LayoutName(l));
      }
      row["fuses"] = FusedJson(r.fused);
      rows.push_back(std::move(row));
    }
  }
}

void AddDwConv(const CpuInfo& cpu, Json& rows) {
  for (const auto* list : ukernel::AllDwConvKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const ukernel::DwConvKernel& r = list->rows[i];
      Json row = RowJson(ukernel::Name(r).text, "dwconv", r.isa, r.run != nullptr, cpu);
      row["pixels"] = r.pixels;
      row["lanes"] = r.lanes;
      row["fuses"] = FusedJson(r.fused);
      rows.push_back(std::move(row));
    }
  }
}

void AddPack(const CpuInfo& cpu, Json& rows) {
  for (const auto* list : ukernel::AllPackKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      Json row = RowJson(PlainName(*list, i), "pack", list->rows[i].isa, list->rows[i].run != nullptr, cpu);
      row["source"] = FormatName(list->rows[i].source);
      row["layout"] = kernels::LayoutName(list->rows[i].layout);
      rows.push_back(std::move(row));
    }
  }
}

void AddTransform(const CpuInfo& cpu, Json& rows) {
  for (const auto* list : ukernel::AllTransformKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      Json row = RowJson(PlainName(*list, i), "transform", list->rows[i].isa, list->rows[i].run != nullptr, cpu);
      row["from"] = kernels::LayoutName(list->rows[i].from);
      row["to"] = kernels::LayoutName(list->rows[i].to);
      rows.push_back(std::move(row));
    }
  }
}

void AddQuantize(const CpuInfo& cpu, Json& rows) {
  for (const auto* list : ukernel::AllLhsPackKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      Json row = RowJson(PlainName(*list, i), "quantize", list->rows[i].isa, list->rows[i].run != nullptr, cpu);
      row["source"] = FormatName(list->rows[i].source);
      row["dst"] = FormatName(list->rows[i].layout.element);
      rows.push_back(std::move(row));
    }
  }
}

// Of a family with one row for each ISA; `body` and `width` of a row.
template <class Kernel, class Body, class Width>
void AddIsaRows(const char* family, std::span<const ukernel::KernelList<Kernel>* const> lists, const CpuInfo& cpu,
                Json& rows, Body body, const char* unit, Width width) {
  for (const auto* list : lists) {
    for (size_t i = 0; i < list->count; ++i) {
      const Kernel& r = list->rows[i];
      Json row = RowJson(ukernel::Name(r).text, family, r.isa, body(r) != nullptr, cpu);
      row[unit] = width(r);
      rows.push_back(std::move(row));
    }
  }
}

void AddVector(const CpuInfo& cpu, Json& rows) {
  AddIsaRows(
      "vector", ukernel::AllVectorKernels(), cpu, rows, [](const auto& r) { return r.unary; }, "lanes",
      [](const auto& r) { return r.lanes; });
}
void AddElementwise(const CpuInfo& cpu, Json& rows) {
  AddIsaRows(
      "elementwise", ukernel::AllElementwiseKernels(), cpu, rows, [](const auto& r) { return r.unary; }, "vector_bytes",
      [](const auto& r) { return r.vector_bytes; });
}
void AddFold(const CpuInfo& cpu, Json& rows) {
  AddIsaRows(
      "fold", ukernel::AllFoldKernels(), cpu, rows, [](const auto& r) { return r.f64.fold; }, "vector_bytes",
      [](const auto& r) { return r.vector_bytes; });
}
void AddAffine(const CpuInfo& cpu, Json& rows) {
  AddIsaRows(
      "affine", ukernel::AllAffineKernels(), cpu, rows, [](const auto& r) { return r.quantize; }, "vector_bytes",
      [](const auto& r) { return r.vector_bytes; });
}
void AddFourier(const CpuInfo& cpu, Json& rows) {
  AddIsaRows(
      "fourier", ukernel::AllFourierKernels(), cpu, rows, [](const auto& r) { return r.pass; }, "lanes",
      [](const auto& r) { return r.lanes; });
}
void AddWinograd(const CpuInfo& cpu, Json& rows) {
  AddIsaRows(
      "winograd", ukernel::AllWinogradKernels(), cpu, rows, [](const auto& r) { return r.tiles2.input; }, "lanes",
      [](const auto& r) { return r.lanes; });
}

struct Family {
  const char* name;
  void (*add)(const CpuInfo& cpu, Json& rows);
};
constexpr Family kFamilies[] = {{"gemm", AddGemm},           {"dwconv", AddDwConv},           {"winograd", AddWinograd},
                                {"vector", AddVector},       {"elementwise", AddElementwise}, {"fold", AddFold},
                                {"affine", AddAffine},       {"fourier", AddFourier},         {"pack", AddPack},
                                {"transform", AddTransform}, {"quantize", AddQuantize}};

constexpr Format kOperandFormats[] = {Format::kF64, Format::kF32,  Format::kF16,  Format::kBf16, Format::kI8,
                                      Format::kU8,  Format::kI8d,  Format::kI8b,  Format::kI4,   Format::kU4,
                                      Format::kU2,  Format::kQ4_0, Format::kQ4_1, Format::kQ8_0};

Result<Format> ParseFormat(const std::string& name) {
  std::string known;
  for (Format f : kOperandFormats) {
    if (name == FormatName(f) || (name == "u4" && f == Format::kU4) || (name == "u2" && f == Format::kU2)) return f;
    known += std::string(known.empty() ? "" : ", ") + FormatName(f);
  }
  return InvalidArgument("'" + name + "' is no operand type; known are " + known);
}

// "f32,f32,f32[,precision]".
Result<GemmProblem> ParseTypes(const std::string& types) {
  std::vector<std::string> parts(1);
  for (char c : types) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() < 3 || parts.size() > 4) {
    return InvalidArgument("types '" + types + "' are not LHS,RHS,DST[,PRECISION], as in f32,f32,f32");
  }
  GemmProblem problem;
  QUERN_ASSIGN_OR_RETURN(problem.lhs, ParseFormat(parts[0]));
  QUERN_ASSIGN_OR_RETURN(problem.rhs, ParseFormat(parts[1]));
  const bool blocks = problem.rhs == Format::kU4 || problem.rhs == Format::kU2;
  const bool gguf = problem.rhs == Format::kQ4_0 || problem.rhs == Format::kQ4_1 || problem.rhs == Format::kQ8_0;
  if (blocks) problem.block = 32, problem.scale = Format::kBf16;
  if (gguf) problem.block = 32, problem.scale = Format::kF16;
  problem.channel_scales = problem.lhs == Format::kI8d && (problem.rhs == Format::kI8 || problem.rhs == Format::kI4);
  const bool integers = (problem.lhs == Format::kI8 || problem.lhs == Format::kU8) &&
                        (problem.rhs == Format::kI8 || problem.rhs == Format::kU8);
  const bool doubles = problem.lhs == Format::kF64 && problem.rhs == Format::kF64;
  const std::string dst = integers ? "i32" : doubles ? "f64" : "f32";
  if (parts[2] != dst) {
    return InvalidArgument("a product of " + parts[0] + " by " + parts[1] + " accumulates in " + dst + ", not '" +
                           parts[2] + "'");
  }
  if (integers) problem.precision = ukernel::Precision::kExact;
  if (parts.size() == 4) {
    constexpr ukernel::Precision kModes[] = {ukernel::Precision::kFp32, ukernel::Precision::kFp32Fast,
                                             ukernel::Precision::kFp16, ukernel::Precision::kBf16};
    const auto* mode = std::find_if(std::begin(kModes), std::end(kModes),
                                    [&](ukernel::Precision p) { return parts[3] == PrecisionName(p); });
    if (mode == std::end(kModes)) {
      return InvalidArgument("there is no precision '" + parts[3] + "'; known are fp32, fp32-fast, fp16 and bf16");
    }
    problem.precision = *mode;
  }
  return problem;
}

Result<Json> SelectionJson(const CpuInfo& cpu, const KernelQuery& query) {
  QUERN_ASSIGN_OR_RETURN(GemmProblem problem, ParseTypes(query.types.empty() ? "f32,f32,f32" : query.types));
  problem.n = static_cast<size_t>(query.n);
  problem.k = static_cast<size_t>(query.k);
  problem.expected_m = static_cast<size_t>(query.m);
  QUERN_ASSIGN_OR_RETURN(const auto calibration, kernels::CalibrationFromEnvironment(cpu));
  CpuInfo measured = cpu;
  kernels::SelectOptions options;
  if (calibration) {
    calibration->ApplyTo(measured);
    options.rows = calibration->rows();
  }
  options.cpu = measured.facts();
  options.ignore_missing_bodies = !CanRun(cpu);
  Json doc = {{"m", query.m},
              {"n", query.n},
              {"k", query.k},
              {"types", query.types.empty() ? "f32,f32,f32" : query.types},
              {"precision", PrecisionName(problem.precision)},
              {"calibrated", calibration != nullptr}};
  SelectionReport report;
  const Result<kernels::LayoutChoice> layout = kernels::SelectLayout(problem, options, &report);
  Json layouts = Json::array();
  for (const kernels::LayoutCandidate& c : report.layouts) {
    Json entry = {{"name", c.name}};
    if (c.score > 0) {
      entry["score"] = c.score;
      entry["resident_bytes"] = c.resident_bytes;
      entry["cycles"] = c.cycles[0];
      if (c.rows[0]) entry["kernel"] = ukernel::Name(*c.rows[0]).text;
    }
    if (!c.reason.empty()) entry["reason"] = c.reason;
    layouts.push_back(std::move(entry));
  }
  doc["load"] = {{"layouts", std::move(layouts)}};
  if (layout.ok()) {
    doc["load"]["chosen"] = kernels::LayoutName(layout->layout);
    kernels::ExplainRow(problem, options, *layout, static_cast<size_t>(query.m), &report);
  } else {
    doc["error"] = layout.status().message();
  }
  Json rows = Json::array();
  for (const kernels::RowCandidate& c : report.rows) {
    Json entry = {{"name", c.name}};
    if (c.cycles > 0) entry["cycles"] = c.cycles;
    if (!c.reason.empty()) entry["reason"] = c.reason;
    if (c.reason.empty() && layout.ok()) doc["call"]["chosen"] = c.name;
    rows.push_back(std::move(entry));
  }
  doc["call"]["kernels"] = std::move(rows);
  return doc;
}

}  // namespace

Result<std::string> KernelReport(const CpuInfo& cpu, const KernelQuery& query) {
  Json doc = NewDocument("kernels");
  doc["cpu"] = cpu.name;
  doc["can_run"] = CanRun(cpu);
  doc["kernels"] = Json::array();
  bool found = false;
  std::string known;
  for (const Family& family : kFamilies) {
    known += std::string(known.empty() ? "" : ", ") + family.name;
    if (!query.family.empty() && query.family != family.name) continue;
    family.add(cpu, doc["kernels"]);
    found = true;
  }
  if (!found) return InvalidArgument("there is no kernel family '" + query.family + "'; known are " + known);
  const bool shape = query.m != 0 || query.n != 0 || query.k != 0;
  if (shape && (query.m < 1 || query.n < 1 || query.k < 1)) {
    return InvalidArgument("m, n and k must all be above zero");
  }
  if (!shape && !query.types.empty()) return InvalidArgument("types need a shape: m, n and k");
  if (shape) {
    QUERN_ASSIGN_OR_RETURN(doc["selection"], SelectionJson(cpu, query));
  }
  return Dump(doc);
}

}  // namespace quern
