#include "base/cpu.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/cpu_names.h"

namespace quern {
namespace {

using F = CpuFeature;

// feature, prerequisite: the first cannot be used without the second. A prerequisite's own rows stand before.
struct Dependency {
  F feature;
  F needs;
};
constexpr Dependency kDependencies[] = {
    {F::kSse42, F::kSse41},
    {F::kAvx, F::kSse42},
    {F::kAvx2, F::kAvx},
    {F::kFma, F::kAvx},
    {F::kF16c, F::kAvx},
    {F::kAvxVnni, F::kAvx2},
    {F::kAvxVnniInt8, F::kAvx2},
    {F::kAvxVnniInt16, F::kAvx2},
    {F::kAvxIfma, F::kAvx2},
    {F::kAvxNeConvert, F::kAvx2},
    {F::kAvx512F, F::kAvx2},
    {F::kAvx512F, F::kFma},
    {F::kAvx512F, F::kF16c},
    {F::kAvx512Bw, F::kAvx512F},
    {F::kAvx512Vl, F::kAvx512F},
    {F::kAvx512Dq, F::kAvx512F},
    {F::kAvx512Cd, F::kAvx512F},
    {F::kAvx512Vbmi, F::kAvx512Bw},
    {F::kAvx512Vbmi2, F::kAvx512Bw},
    {F::kAvx512Vnni, F::kAvx512F},
    {F::kAvx512Bf16, F::kAvx512Bw},
    {F::kAvx512Fp16, F::kAvx512Bw},
    {F::kAvx10_1, F::kAvx512Fp16},
    {F::kAvx10_1, F::kAvx512Vl},
    {F::kAvx10_2, F::kAvx10_1},
    {F::kAmxInt8, F::kAmxTile},
    {F::kAmxBf16, F::kAmxTile},
    {F::kAmxFp16, F::kAmxTile},
    {F::kAmxFp8, F::kAmxTile},
    {F::kAmxAvx512, F::kAmxTile},
    {F::kAmxAvx512, F::kAvx10_2},
    {F::kFp16, F::kNeon},
    {F::kFhm, F::kFp16},
    {F::kDotProd, F::kNeon},
    {F::kI8mm, F::kNeon},
    {F::kBf16, F::kNeon},
    {F::kSve, F::kFp16},
    {F::kSveI8mm, F::kSve},
    {F::kSveI8mm, F::kI8mm},
    {F::kSveBf16, F::kSve},
    {F::kSveBf16, F::kBf16},
    {F::kSve2, F::kSve},
    {F::kSve2p1, F::kSve2},
    {F::kSme, F::kBf16},
    {F::kSmeFa64, F::kSme},
    {F::kSmeFa64, F::kSve2},
    {F::kSme2, F::kSme},
    {F::kSme2p1, F::kSme2},
    {F::kSmeF16f16, F::kSme2},
    {F::kSmeI16i64, F::kSme},
    {F::kSmeF64f64, F::kSme},
};

// Names of families: the feature that all of the family depend on.
struct FamilyName {
  std::string_view name;
  F root;
};
constexpr FamilyName kFamilies[] = {
    {"sse4", F::kSse41}, {"avx512", F::kAvx512F}, {"avx10", F::kAvx10_1}, {"amx", F::kAmxTile}};

CpuInfo GenericCpu() {
  CpuInfo cpu;
  cpu.arch = HostArch();
  cpu.name = "generic";
  if (cpu.arch == Arch::kAArch64) {
    cpu.model = "any 64-bit Arm CPU";
    cpu.features = CpuFeatures(F::kNeon);  // part of the architecture
  } else {
    cpu.model = "any x86-64 CPU";
  }
  cpu.l1d = {32 << 10, 64, 8, 1};
  cpu.l2 = {512 << 10, 64, 8, 1};
  cpu.fma_ports = 1;
  return cpu;
}

std::optional<CpuInfo> CpuByName(std::string_view name) {
  if (name == "native") return HostCpu();
  if (name == "generic") return GenericCpu();
  return NamedCpu(name);
}

F FeatureByName(std::string_view name) {
  for (const FamilyName& family : kFamilies) {
    if (family.name == name) return family.root;
  }
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    if (name == CpuFeatureName(static_cast<F>(i))) return static_cast<F>(i);
  }
  return F::kCount;
}

std::string KnownFeatures(Arch arch) {
  std::string list;
  const auto add = [&](std::string_view name) {
    if (!list.empty()) list += ' ';
    list += name;
  };
  for (const FamilyName& family : kFamilies) {
    if (CpuFeatureArch(family.root) == arch) add(family.name);
  }
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    if (CpuFeatureArch(static_cast<F>(i)) == arch) add(CpuFeatureName(static_cast<F>(i)));
  }
  list += "; micro-kernels:";
  for (size_t i = 0; i < static_cast<size_t>(KernelGroup::kCount); ++i)
    add(KernelGroupName(static_cast<KernelGroup>(i)));
  return list;
}

KernelGroup GroupByName(std::string_view name) {
  size_t i = 0;
  while (i < static_cast<size_t>(KernelGroup::kCount) && name != KernelGroupName(static_cast<KernelGroup>(i))) ++i;
  return static_cast<KernelGroup>(i);
}

std::string Quoted(std::string_view text) {
  std::string quoted(1, '\'');
  quoted += text;
  quoted += '\'';
  return quoted;
}

}  // namespace

CpuFacts CpuInfo::facts() const {
  CpuFacts f;
  f.arch = arch;
  f.features = features;
  SetCacheFacts({l1d, l2, l3}, &f);
  f.sve_vector_bytes = sve_vector_bytes;
  f.sme_vector_bytes = sme_vector_bytes;
  f.sme_units = static_cast<uint16_t>(std::clamp(sme_units, 0, 0xffff));
  f.fma_ports = fma_ports;
  f.fma512_ports = fma512_ports;
  f.l1d_misses = l1d_misses;
  f.disabled = disabled;
  f.l2_read = l2_read;
  f.l3_read = l3_read;
  f.memory_read = memory_read;
  return f;
}

CpuFeatures CloseFeatures(CpuFeatures features, std::vector<AbsentFeature>* absent) {
  for (const Dependency& d : kDependencies) {
    if (!features.Has(d.feature) || features.Has(d.needs)) continue;
    features.Clear(d.feature);
    if (absent) absent->push_back({d.feature, std::string("needs ") + CpuFeatureName(d.needs)});
  }
  return features;
}

std::string AbsentReason(const CpuInfo& cpu, CpuFeature feature) {
  if (feature >= F::kCount || cpu.features.Has(feature)) return "";
  // The last word counts: a feature may be absent for several reasons.
  for (auto a = cpu.absent.rbegin(); a != cpu.absent.rend(); ++a) {
    if (a->feature == feature) return a->reason;
  }
  if (CpuFeatureArch(feature) != cpu.arch) return std::string("a feature of ") + ArchName(CpuFeatureArch(feature));
  return "the CPU lacks it";
}

std::vector<std::string_view> CpuNames() {
  std::vector<std::string_view> names = {"native", "generic"};
  for (std::string_view name : NamedCpuNames()) names.push_back(name);
  return names;
}

Result<CpuInfo> CpuFromSpec(std::string_view spec) {
  const size_t comma = std::min(spec.find(','), spec.size());
  const std::string_view name = spec.substr(0, comma);
  std::optional<CpuInfo> found = CpuByName(name);
  if (!found) {
    std::string known;
    for (std::string_view n : CpuNames()) known += " " + std::string(n);
    return InvalidArgument("unknown CPU " + Quoted(name) + "; known are" + known);
  }
  CpuInfo cpu = *std::move(found);
  for (std::string_view rest = spec.substr(comma); !rest.empty();) {
    rest.remove_prefix(1);  // the comma
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(word.size());
    if (word.size() < 2 || word[0] != '-') {
      return InvalidArgument(Quoted(word) + " in CPU " + Quoted(spec) + ": after the name, only '-feature' is allowed");
    }
    if (const KernelGroup group = GroupByName(word.substr(1)); group != KernelGroup::kCount) {
      cpu.name += "," + std::string(word);
      cpu.disabled |= static_cast<uint16_t>(1u << static_cast<unsigned>(group));
      continue;
    }
    const F feature = FeatureByName(word.substr(1));
    if (feature == F::kCount || CpuFeatureArch(feature) != cpu.arch) {
      return InvalidArgument("unknown feature " + Quoted(word.substr(1)) + " in CPU " + Quoted(spec) + "; " +
                             ArchName(cpu.arch) + " has " + KnownFeatures(cpu.arch));
    }
    cpu.name += "," + std::string(word);
    if (!cpu.features.Has(feature)) continue;
    cpu.features.Clear(feature);
    cpu.absent.push_back({feature, "switched off by " + Quoted(word)});
    cpu.features = CloseFeatures(cpu.features, &cpu.absent);
  }
  if (!cpu.features.Has(F::kSve)) cpu.sve_vector_bytes = 0;
  if (!cpu.features.Has(F::kSme)) cpu.sme_vector_bytes = 0, cpu.sme_units = 0;
  if (!cpu.features.Has(F::kAvx512F)) cpu.fma512_ports = 0;
  return cpu;
}

Result<CpuInfo> CpuFromEnvironment() {
  const char* spec = std::getenv("QUERN_CPU");
  if (!spec || !*spec) return CpuFromSpec("native");
  Result<CpuInfo> cpu = CpuFromSpec(spec);
  if (!cpu.ok()) return cpu.status().WithContext("QUERN_CPU");
  return cpu;
}

Status CheckCanRun(const CpuInfo& cpu, const CpuInfo& host) {
  const std::string what = "code for CPU " + Quoted(cpu.name) + " cannot run here: ";
  if (cpu.arch != host.arch) {
    return Unsupported(what + "it is " + ArchName(cpu.arch) + ", this machine is " + ArchName(host.arch));
  }
  std::string missing;
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const F f = static_cast<F>(i);
    if (!cpu.features.Has(f) || host.features.Has(f)) continue;
    if (!missing.empty()) missing += ", ";
    missing += std::string(CpuFeatureName(f)) + " (" + AbsentReason(host, f) + ")";
  }
  if (!missing.empty()) return Unsupported(what + "this machine lacks " + missing);
  // Packed weights and tiles follow the vector length, so another length is another machine.
  const auto other_length = [&](const char* kind, uint32_t wants, uint32_t has) {
    return Unsupported(what + "it has " + kind + " vectors of " + std::to_string(wants) + " bytes, this machine of " +
                       std::to_string(has));
  };
  if (cpu.sve_vector_bytes && cpu.sve_vector_bytes != host.sve_vector_bytes) {
    return other_length("SVE", cpu.sve_vector_bytes, host.sve_vector_bytes);
  }
  if (cpu.sme_vector_bytes && cpu.sme_vector_bytes != host.sme_vector_bytes) {
    return other_length("SME", cpu.sme_vector_bytes, host.sme_vector_bytes);
  }
  return OkStatus();
}

}  // namespace quern
