// The document about a CPU:
//   name, model, arch, is_host, can_run (absent reason "cannot_run"), features [name], absent [{feature, reason}],
//   disabled [name of a KernelGroup],
//   caches {l1d, l2, l3: {bytes, line_bytes, ways, shared_by}}, sve_vector_bytes, sme_vector_bytes, fma_ports,
//   fma512_ports, l1d_misses, sme_units, known [name of a CPU that can be asked for]
//   cores {usable, physical, fast, quota, sme_units, sme_units_known, default_threads}
//                                                           of the host; quota and SME units where there are such
//   peaks [{name, unit, value, best}]                                      measured, one core
//   peak_threads, and in each entry of peaks all_value, all_best             measured, that many threads at once
#include "kernels/peak.h"
#include "parallel/topology.h"
#include "session/facts.h"
#include "session/facts_json.h"

namespace quern {
namespace {

Json CacheJson(const CacheInfo& cache) {
  if (cache.bytes == 0) return nullptr;
  return {
      {"bytes", cache.bytes}, {"line_bytes", cache.line_bytes}, {"ways", cache.ways}, {"shared_by", cache.shared_by}};
}

}  // namespace

Result<std::string> CpuReport(const CpuInfo& cpu, Measure measure) {
  const Status can_run = CheckCanRun(cpu);
  if (measure != Measure::kNothing) QUERN_RETURN_IF_ERROR(can_run);
  Json doc = NewDocument("cpu");
  doc["name"] = cpu.name;
  doc["model"] = cpu.model;
  doc["arch"] = ArchName(cpu.arch);
  doc["can_run"] = can_run.ok();
  if (!can_run.ok()) doc["cannot_run"] = can_run.message();
  doc["features"] = Json::array();
  doc["absent"] = Json::array();
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const auto feature = static_cast<CpuFeature>(i);
    if (CpuFeatureArch(feature) != cpu.arch) continue;
    if (cpu.features.Has(feature)) {
      doc["features"].push_back(CpuFeatureName(feature));
    } else {
      doc["absent"].push_back({{"feature", CpuFeatureName(feature)}, {"reason", AbsentReason(cpu, feature)}});
    }
  }
  doc["disabled"] = Json::array();
  for (size_t i = 0; i < static_cast<size_t>(KernelGroup::kCount); ++i) {
    const auto group = static_cast<KernelGroup>(i);
    if (cpu.facts().IsDisabled(group)) doc["disabled"].push_back(KernelGroupName(group));
  }
  doc["caches"] = {{"l1d", CacheJson(cpu.l1d)}, {"l2", CacheJson(cpu.l2)}, {"l3", CacheJson(cpu.l3)}};
  if (cpu.sve_vector_bytes) doc["sve_vector_bytes"] = cpu.sve_vector_bytes;
  if (cpu.sme_vector_bytes) doc["sme_vector_bytes"] = cpu.sme_vector_bytes;
  doc["fma_ports"] = cpu.fma_ports;
  if (cpu.fma512_ports) doc["fma512_ports"] = cpu.fma512_ports;
  doc["l1d_misses"] = cpu.l1d_misses;
  if (cpu.sme_units) doc["sme_units"] = cpu.sme_units;
  doc["known"] = Json::array();
  for (std::string_view name : CpuNames()) doc["known"].push_back(std::string(name));
  const Topology topology = HostTopology();
  Json cores = {{"usable", topology.cpus.size()},
                {"physical", topology.physical_cores},
                {"fast", topology.fast_cores},
                {"default_threads", topology.default_threads}};
  if (topology.quota_cpus > 0) cores["quota"] = topology.quota_cpus;
  if (topology.sme_units > 0) {
    cores["sme_units"] = topology.sme_units;
    cores["sme_units_known"] = topology.sme_units_known;
  }
  doc["cores"] = std::move(cores);
  if (measure != Measure::kNothing) {
    kernels::PeakOptions options;
    if (measure == Measure::kOneCore) {  // for a benchmark that waits for it
      options.rounds = 5;
      options.seconds_per_round = 0.02;
    }
    const std::vector<kernels::Peak> one = kernels::MeasurePeaks(cpu, options);
    std::vector<kernels::Peak> all;
    if (measure == Measure::kAllCores) {
      options.threads = topology.running_cpus;
      all = kernels::MeasurePeaks(cpu, options);
      doc["peak_threads"] = options.threads;
    }
    doc["peaks"] = Json::array();
    for (const kernels::Peak& p : one) {
      Json peak = {{"name", p.name}, {"unit", p.unit}, {"value", p.value}, {"best", p.best}};
      for (const kernels::Peak& a : all) {
        if (a.name != p.name) continue;
        peak["all_value"] = a.value;
        peak["all_best"] = a.best;
      }
      doc["peaks"].push_back(std::move(peak));
    }
  }
  return Dump(doc);
}

}  // namespace quern
