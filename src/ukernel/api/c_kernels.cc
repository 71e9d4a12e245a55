// Kernels, formats and layouts as the C interface shows them.
#include "base/c_cpu.h"
#include "ukernel/api/c_types.h"

namespace quern::ukernel {
namespace {

size_t LayoutCount(const GemmKernel& r) {
  size_t count = 0;
  while (count < kMaxLayouts && r.layouts[count].element != Format::kNone) ++count;
  return count;
}

}  // namespace
}  // namespace quern::ukernel

using namespace quern;
using namespace quern::ukernel;

extern "C" {

int32_t quern_ukernel_abi_version(void) { return QUERN_UKERNEL_ABI_VERSION; }

const char* quern_ukernel_status_name(int32_t status) {
  switch (status) {
    case QUERN_UKERNEL_OK:
      return "ok";
    case QUERN_UKERNEL_INVALID_ARGUMENT:
      return "invalid argument";
    case QUERN_UKERNEL_UNSUPPORTED:
      return "unsupported";
    case QUERN_UKERNEL_TOO_LARGE:
      return "too large";
    default:
      return "unknown";
  }
}

const char* quern_cpu_feature_name(int32_t arch, int32_t feature) {
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const auto f = static_cast<CpuFeature>(i);
    if (CArch(CpuFeatureArch(f)) == arch && CFeature(f) == feature) return CpuFeatureName(f);
  }
  return nullptr;
}

const char* quern_ukernel_format_name(int32_t format) {
  Format f;
  return FromC(format, &f) ? FormatName(f) : "?";
}

const char* quern_ukernel_op_name(int32_t kind) {
  const EpilogueKind k = KindFromC(kind);
  return k == EpilogueKind::kCount ? nullptr : EpilogueName(k);
}

size_t quern_ukernel_layout_text(const quern_ukernel_layout* layout, char* text, size_t bytes) {
  PackLayout l;
  if (bytes) text[0] = 0;
  return layout && FromC(*layout, &l) ? LayoutText(l, text, bytes) : 0;
}

size_t quern_ukernel_count(void) {
  size_t count = 0;
  for (const auto* list : AllGemmKernels()) count += list->count;
  return count;
}

const quern_ukernel* quern_ukernel_at(size_t index) {
  for (const auto* list : AllGemmKernels()) {
    if (index < list->count) return ToC(&list->rows[index]);
    index -= list->count;
  }
  return nullptr;
}

const quern_ukernel* quern_ukernel_find(const char* name) {
  if (!name) return nullptr;
  for (const auto* list : AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      if (std::strcmp(Name(list->rows[i]).text, name) == 0) return ToC(&list->rows[i]);
    }
  }
  return nullptr;
}

quern_ukernel_status quern_ukernel_get_info(const quern_ukernel* kernel, const quern_cpu* cpu,
                                            quern_ukernel_info* info) {
  CpuFacts facts;
  if (!kernel || (cpu && !FromC(cpu, &facts))) return QUERN_UKERNEL_INVALID_ARGUMENT;
  const GemmKernel& r = *FromC(kernel);
  quern_ukernel_info c;
  quern_ukernel_info_init(&c);
  const KernelName name = Name(r);
  static_assert(sizeof(c.name) == sizeof(name.text));
  std::memcpy(c.name, name.text, sizeof(c.name));
  c.isa = r.isa.name;
  c.arch = r.isa.any_arch ? QUERN_CPU_ANY_ARCH : CArch(r.isa.arch);
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const auto f = static_cast<CpuFeature>(i);
    if (r.isa.needs.Has(f)) c.needs |= uint64_t{1} << CFeature(f);
  }
  c.has_body = r.run != nullptr;
  c.lhs = ToC(r.lhs);
  c.lhs_source = ToC(LhsSourceFormat(r));
  c.rhs = ToC(r.rhs);
  c.acc = ToC(r.dst);
  c.precision = ToC(r.precision);
  c.scaled = r.mr_scale != VectorScale::kFixed || r.nr_scale != VectorScale::kFixed;
  c.whole_panel = r.whole_panel;
  c.has_mode = r.enter_mode != nullptr;
  c.lhs_forms = r.lhs_forms;
  c.fused = MaskToC(r.fused);
  c.m_step = TileM(r, facts);
  c.n_step = TileN(r, facts);
  c.k_step = r.kr;
  c.k_divisor = r.k_divisor;
  c.block_divisor = r.block_divisor;
  c.layout_count = LayoutCount(r);
  c.scratch_bytes = r.scratch_bytes;
  c.consumed = ToC(r.consumed);
  c.rhs_in_place = r.rhs_in_place;
  c.packs_lhs = IsPrepared(r);
  return WriteStruct(c, info) ? QUERN_UKERNEL_OK : QUERN_UKERNEL_INVALID_ARGUMENT;
}

quern_ukernel_status quern_ukernel_get_layout(const quern_ukernel* kernel, size_t index, quern_ukernel_layout* layout) {
  if (!kernel || !layout || index >= LayoutCount(*FromC(kernel))) return QUERN_UKERNEL_INVALID_ARGUMENT;
  *layout = ToC(FromC(kernel)->layouts[index]);
  return QUERN_UKERNEL_OK;
}

const char* quern_ukernel_missing(const quern_ukernel* kernel, const quern_cpu* cpu) {
  CpuFacts facts;
  if (!kernel || !FromC(cpu, &facts)) return "a CPU";
  const Isa& isa = FromC(kernel)->isa;
  if (isa.any_arch) return nullptr;
  if (isa.arch != facts.arch) return ArchName(isa.arch);
  const CpuFeature missing = facts.features.FirstMissing(isa.needs);
  return missing == CpuFeature::kCount ? nullptr : CpuFeatureName(missing);
}

}  // extern "C"
