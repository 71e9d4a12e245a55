// The document about a CPU:
//   name, model, arch, is_host, can_run (absent reason "cannot_run"), features [name], absent [{feature, reason}],
//   caches {l1d, l2, l3: {bytes, line_bytes, ways, shared_by}}, sve_vector_bytes, sme_vector_bytes, fma_ports,
//   fma512_ports, known [name of a CPU that can be asked for]
//   cores {usable, physical, fast, quota, sme_units, default_threads}       of the host; quota and sme_units where
//   known peaks [{name, unit, value, best}]                            measured, one core
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

Result<std::string> CpuReport(const CpuInfo& cpu, bool measure) {
  const Status can_run = CheckCanRun(cpu);
  if (measure) QUERN_RETURN_IF_ERROR(can_run);
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
  doc["caches"] = {{"l1d", CacheJson(cpu.l1d)}, {"l2", CacheJson(cpu.l2)}, {"l3", CacheJson(cpu.l3)}};
  if (cpu.sve_vector_bytes) doc["sve_vector_bytes"] = cpu.sve_vector_bytes;
  if (cpu.sme_vector_bytes) doc["sme_vector_bytes"] = cpu.sme_vector_bytes;
  doc["fma_ports"] = cpu.fma_ports;
  if (cpu.fma512_ports) doc["fma512_ports"] = cpu.fma512_ports;
  doc["known"] = Json::array();
  for (std::string_view name : CpuNames()) doc["known"].push_back(std::string(name));
  const Topology topology = HostTopology();
  Json cores = {{"usable", topology.cpus.size()},
                {"physical", topology.physical_cores},
                {"fast", topology.fast_cores},
                {"default_threads", topology.default_threads}};
  if (topology.quota_cpus > 0) cores["quota"] = topology.quota_cpus;
  if (topology.sme_units > 0) cores["sme_units"] = topology.sme_units;
  doc["cores"] = std::move(cores);
  if (measure) {
    doc["peaks"] = Json::array();
    for (const kernels::Peak& p : kernels::MeasurePeaks(cpu)) {
      doc["peaks"].push_back({{"name", p.name}, {"unit", p.unit}, {"value", p.value}, {"best", p.best}});
    }
  }
  return Dump(doc);
}

}  // namespace quern
