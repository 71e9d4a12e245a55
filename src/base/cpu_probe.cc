// CPUID and arch_prctl, or the auxiliary vector and prctl; sysfs for caches. C library only.
#include "base/cpu_probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

namespace quern {
namespace {

using F = CpuFeature;

void SetModel(CpuProbe* cpu, const char* name) { std::snprintf(cpu->model, sizeof(cpu->model), "%s", name); }

#if defined(__x86_64__)

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Zeroes for a leaf that the CPU does not have.
Registers Cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

bool Bit(uint32_t word, int bit) { return (word >> bit) & 1; }

// Register states that the kernel saves, by bit: 1 SSE, 2 AVX, 5-7 AVX-512, 17-18 AMX.
uint64_t EnabledStates() {
  if (!Bit(Cpuid(1).ecx, 27)) return 0;  // OSXSAVE
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Linux gives AMX tile state to a process only when asked.
bool RequestAmxPermission() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureXtiledata = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

void ReadBrand(CpuProbe* cpu) {
  SetModel(cpu, "unknown x86-64 CPU");
  if (Cpuid(0x80000000).eax < 0x80000004) return;
  char text[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = Cpuid(0x80000002 + i);
    const uint32_t words[4] = {r.eax, r.ebx, r.ecx, r.edx};
    std::memcpy(text + 16 * i, words, 16);
  }
  const char* first = text;
  while (*first == ' ') ++first;
  size_t length = std::strlen(first);
  while (length && first[length - 1] == ' ') --length;
  if (!length) return;
  std::memcpy(cpu->model, first, length);
  cpu->model[length] = 0;
}

// Deterministic cache parameters: leaf 4 (Intel) or 0x8000001D (AMD), one cache per subleaf.
CacheSet CpuidCaches(bool amd) {
  CacheSet set;
  for (uint32_t i = 0; i < 16; ++i) {
    const Registers r = Cpuid(amd ? 0x8000001D : 4, i);
    const uint32_t type = r.eax & 31;  // 0 none, 1 data, 2 instructions, 3 both
    const uint32_t level = (r.eax >> 5) & 7;
    if (type == 0) break;
    CacheInfo c;
    c.line_bytes = (r.ebx & 0xfff) + 1;
    c.ways = (r.ebx >> 22) + 1;
    c.shared_by = ((r.eax >> 14) & 0xfff) + 1;
    c.bytes = uint64_t{c.ways} * (((r.ebx >> 12) & 0x3ff) + 1) * c.line_bytes * (uint64_t{r.ecx} + 1);
    if (type == 2) continue;
    if (level == 1) set.l1d = c;
    if (level == 2) set.l2 = c;
    if (level == 3) set.l3 = c;
  }
  return set;
}

constexpr uint32_t kZen5Family = 0x1a;

uint32_t Family() {
  const uint32_t id = Cpuid(1).eax, base = (id >> 8) & 15;
  return base == 15 ? 15 + ((id >> 20) & 255) : base;
}

// 512-bit FMA units, which no CPUID bit tells: two on Intel servers and from AMD's Zen 5, one on Intel's client parts
// (by model number) and on Zen 4, which issues halves.
uint8_t Fma512Ports(bool amd, bool amx) {
  if (amd) return Family() >= kZen5Family ? 2 : 1;
  if (amx) return 2;
  const uint32_t id = Cpuid(1).eax, model = ((id >> 4) & 15) | ((id >> 12) & 0xf0);
  constexpr uint32_t kClientModels[] = {0x66, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7};  // Cannon, Ice, Tiger, Rocket Lake
  for (const uint32_t client : kClientModels) {
    if (client == model) return 1;
  }
  return 2;
}

void DetectFeatures(CpuProbe* cpu) {
  struct Source {
    F feature;
    uint32_t word;
    int bit;
    uint64_t states;  // register states that must be enabled
  };
  constexpr uint64_t kSse = 0, kYmm = 0x6, kZmm = 0xe6, kTile = 0x60000;
  const Registers l1 = Cpuid(1), l7 = Cpuid(7), l71 = Cpuid(7, 1), l1e = Cpuid(0x1e, 1), l24 = Cpuid(0x24);
  const uint32_t avx10 = Bit(l71.edx, 19) ? l24.ebx & 0xff : 0;
  const Source sources[] = {
      {F::kSse41, l1.ecx, 19, kSse},        {F::kSse42, l1.ecx, 20, kSse},         {F::kPopcnt, l1.ecx, 23, kSse},
      {F::kAvx, l1.ecx, 28, kYmm},          {F::kAvx2, l7.ebx, 5, kYmm},           {F::kFma, l1.ecx, 12, kYmm},
      {F::kF16c, l1.ecx, 29, kYmm},         {F::kBmi2, l7.ebx, 8, kSse},           {F::kAvxVnni, l71.eax, 4, kYmm},
      {F::kAvxVnniInt8, l71.edx, 4, kYmm},  {F::kAvxVnniInt16, l71.edx, 10, kYmm}, {F::kAvxIfma, l71.eax, 23, kYmm},
      {F::kAvxNeConvert, l71.edx, 5, kYmm}, {F::kAvx512F, l7.ebx, 16, kZmm},       {F::kAvx512Bw, l7.ebx, 30, kZmm},
      {F::kAvx512Vl, l7.ebx, 31, kZmm},     {F::kAvx512Dq, l7.ebx, 17, kZmm},      {F::kAvx512Cd, l7.ebx, 28, kZmm},
      {F::kAvx512Vbmi, l7.ecx, 1, kZmm},    {F::kAvx512Vbmi2, l7.ecx, 6, kZmm},    {F::kAvx512Vnni, l7.ecx, 11, kZmm},
      {F::kAvx512Bf16, l71.eax, 5, kZmm},   {F::kAvx512Fp16, l7.edx, 23, kZmm},    {F::kAvx10_1, avx10 >= 1, 0, kZmm},
      {F::kAvx10_2, avx10 >= 2, 0, kZmm},   {F::kAmxTile, l7.edx, 24, kTile},      {F::kAmxInt8, l7.edx, 25, kTile},
      {F::kAmxBf16, l7.edx, 22, kTile},     {F::kAmxFp16, l71.eax, 21, kTile},     {F::kAmxFp8, l1e.eax, 4, kTile},
      {F::kAmxAvx512, l1e.eax, 7, kTile},
  };
  const uint64_t states = EnabledStates();
  const bool amx_wanted = Bit(l7.edx, 24) && (states & kTile) == kTile;
  const bool amx_permitted = amx_wanted && RequestAmxPermission();
  for (const Source& s : sources) {
    if (!Bit(s.word, s.bit)) continue;
    if ((states & s.states) != s.states) {
      cpu->unsaved.Set(s.feature);
    } else if (s.states == kTile && !amx_permitted) {
      cpu->refused.Set(s.feature);
    } else {
      cpu->features.Set(s.feature);
    }
  }
}

void Detect(CpuProbe* cpu) {
  ReadBrand(cpu);
  DetectFeatures(cpu);
#if defined(QUERN_EMULATE_AVX512)
  constexpr F kEmulated[] = {F::kAvx512F, F::kAvx512Bw, F::kAvx512Vl, F::kAvx512Dq, F::kAvx512Cd, F::kAvx512Vnni};
  for (const F f : kEmulated) cpu->features.Set(f);
#endif
  const Registers vendor = Cpuid(0);
  const bool amd = vendor.ebx == 0x68747541 || vendor.ebx == 0x6f677948;  // "Auth", "Hygo"
  cpu->caches = CpuidCaches(amd);
  cpu->fma_ports = cpu->features.Has(F::kFma) ? 2 : 1;
  cpu->fma512_ports = cpu->features.Has(F::kAvx512F) ? Fma512Ports(amd, cpu->features.Has(F::kAmxTile)) : 0;
  if (amd) {
    cpu->l1d_misses = Family() >= kZen5Family ? 124 : 24;  // AMD's optimization guides
    cpu->l3_read = 20;                                     // measured on Zen 4 and Zen 5
  }
}

#elif defined(__aarch64__)

// Cores that people meet, by MIDR implementer and part; 128-bit FMA units from Arm's software optimization guides.
struct Core {
  uint32_t implementer, part;
  const char* name;
  uint8_t fma_ports;
};
constexpr Core kCores[] = {
    {0x41, 0xd03, "Cortex-A53", 1},  {0x41, 0xd05, "Cortex-A55", 1},    {0x41, 0xd07, "Cortex-A57", 2},
    {0x41, 0xd08, "Cortex-A72", 2},  {0x41, 0xd0b, "Cortex-A76", 2},    {0x41, 0xd0c, "Neoverse N1", 2},
    {0x41, 0xd40, "Neoverse V1", 4}, {0x41, 0xd41, "Cortex-A78", 2},    {0x41, 0xd44, "Cortex-X1", 4},
    {0x41, 0xd46, "Cortex-A510", 1}, {0x41, 0xd47, "Cortex-A710", 2},   {0x41, 0xd48, "Cortex-X2", 4},
    {0x41, 0xd49, "Neoverse N2", 2}, {0x41, 0xd4d, "Cortex-A715", 2},   {0x41, 0xd4e, "Cortex-X3", 4},
    {0x41, 0xd4f, "Neoverse V2", 4}, {0x41, 0xd80, "Cortex-A520", 1},   {0x41, 0xd81, "Cortex-A720", 2},
    {0x41, 0xd82, "Cortex-X4", 4},   {0x41, 0xd83, "Neoverse V3AE", 4}, {0x41, 0xd84, "Neoverse V3", 4},
    {0x41, 0xd8e, "Neoverse N3", 2}, {0xc0, 0xac3, "Ampere-1", 2},
};

// Names the core that this thread runs on. Linux lets programs read MIDR_EL1 where it sets HWCAP_CPUID.
void IdentifyCore(bool midr_readable, CpuProbe* cpu) {
  SetModel(cpu, "unknown aarch64 CPU");
  cpu->fma_ports = 2;
  if (!midr_readable) return;
  uint64_t midr = 0;
  __asm__("mrs %0, MIDR_EL1" : "=r"(midr));
  const uint32_t implementer = (midr >> 24) & 0xff;
  const uint32_t part = (midr >> 4) & 0xfff;
  std::snprintf(cpu->model, sizeof(cpu->model), "aarch64 CPU of implementer %u, part %u", implementer, part);
  for (const Core& c : kCores) {
    if (c.implementer != implementer || c.part != part) continue;
    SetModel(cpu, c.name);
    cpu->fma_ports = c.fma_ports;
  }
}

// Vector length in bytes from PR_SVE_GET_VL or PR_SME_GET_VL.
uint32_t VectorBytes(int request) {
  const int value = prctl(request);
  return value < 0 ? 0 : static_cast<uint32_t>(value & 0xffff);
}

void Detect(CpuProbe* cpu) {
  struct Source {
    F feature;
    bool second;  // in AT_HWCAP2
    int bit;
  };
  // Bits of Linux's uapi/asm/hwcap.h; by number, so that an old header does not matter.
  static constexpr Source kSources[] = {
      {F::kNeon, false, 1},      {F::kFp16, false, 10},     {F::kDotProd, false, 20}, {F::kSve, false, 22},
      {F::kFhm, false, 23},      {F::kSve2, true, 1},       {F::kSveI8mm, true, 9},   {F::kSveBf16, true, 12},
      {F::kI8mm, true, 13},      {F::kBf16, true, 14},      {F::kSme, true, 23},      {F::kSmeI16i64, true, 24},
      {F::kSmeF64f64, true, 25}, {F::kSmeFa64, true, 30},   {F::kSve2p1, true, 36},   {F::kSme2, true, 37},
      {F::kSme2p1, true, 38},    {F::kSmeF16f16, true, 42},
  };
  constexpr int kPrSveGetVl = 51;
  constexpr int kPrSmeGetVl = 64;
  const uint64_t caps[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  for (const Source& s : kSources) {
    if ((caps[s.second] >> s.bit) & 1) cpu->features.Set(s.feature);
  }
  const auto vector_bytes = [&](F feature, int request) -> uint32_t {
    if (!cpu->features.Has(feature)) return 0;
    const uint32_t bytes = VectorBytes(request);
    if (bytes == 0) {
      cpu->features.Clear(feature);
      cpu->without_length.Set(feature);
    }
    return bytes;
  };
  cpu->sve_vector_bytes = vector_bytes(F::kSve, kPrSveGetVl);
  cpu->sme_vector_bytes = vector_bytes(F::kSme, kPrSmeGetVl);
  constexpr int kHwcapCpuid = 11;
  IdentifyCore((caps[0] >> kHwcapCpuid) & 1, cpu);
}

#else

void Detect(CpuProbe* cpu) { SetModel(cpu, "unknown CPU"); }

#endif

// The first line of a short file, without its end; empty if there is none.
struct Line {
  char text[256] = {};
};
Line ReadLine(const char* folder, int index, const char* name) {
  Line line;
  char path[320];
  std::snprintf(path, sizeof(path), "%s/index%d/%s", folder, index, name);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return line;
  const ssize_t got = read(file, line.text, sizeof(line.text) - 1);
  close(file);
  line.text[got > 0 ? got : 0] = 0;
  line.text[std::strcspn(line.text, "\n")] = 0;
  return line;
}

// A decimal number at the start of text, 0 if there is none; the text goes on behind it.
uint64_t TakeNumber(const char** text) {
  uint64_t value = 0;
  for (int i = 0; i < 18 && **text >= '0' && **text <= '9'; ++i, ++*text) {
    value = value * 10 + static_cast<uint64_t>(**text - '0');
  }
  return value;
}

uint64_t NumberOf(const Line& line) {
  const char* text = line.text;
  return TakeNumber(&text);
}

// "48K", "2048K", "16M".
uint64_t BytesOf(const Line& line) {
  const char* text = line.text;
  const uint64_t value = TakeNumber(&text);
  return *text == 'K' ? value << 10 : *text == 'M' ? value << 20 : *text == 'G' ? value << 30 : value;
}

// Number of CPUs in "0-3,8", at least 1.
uint32_t CountCpuList(const Line& line) {
  constexpr uint64_t kMost = 1 << 20;
  uint64_t count = 0;
  for (const char* at = line.text; *at >= '0' && *at <= '9';) {
    const uint64_t first = TakeNumber(&at);
    uint64_t last = first;
    if (*at == '-') {
      ++at;
      last = TakeNumber(&at);
    }
    count += last >= first ? last - first + 1 : 0;
    if (*at == ',') ++at;
  }
  return static_cast<uint32_t>(count < 1 ? 1 : count > kMost ? kMost : count);
}

uint32_t Saturate(uint64_t bytes) { return bytes > ~uint32_t{0} ? ~uint32_t{0} : static_cast<uint32_t>(bytes); }

}  // namespace

CpuProbe ProbeCpu() {
  CpuProbe cpu;
  Detect(&cpu);
  return cpu;
}

CacheSet ReadSysfsCaches(const char* folder) {
  CacheSet set;
  for (int i = 0; i < 16; ++i) {
    const uint64_t level = NumberOf(ReadLine(folder, i, "level"));
    if (level == 0 || std::strcmp(ReadLine(folder, i, "type").text, "Instruction") == 0) continue;
    CacheInfo c;
    c.bytes = BytesOf(ReadLine(folder, i, "size"));
    c.line_bytes = static_cast<uint32_t>(NumberOf(ReadLine(folder, i, "coherency_line_size")));
    c.ways = static_cast<uint32_t>(NumberOf(ReadLine(folder, i, "ways_of_associativity")));
    c.shared_by = CountCpuList(ReadLine(folder, i, "shared_cpu_list"));
    if (level == 1) set.l1d = c;
    if (level == 2) set.l2 = c;
    if (level == 3) set.l3 = c;
  }
  return set;
}

CacheSet HostCaches(const CacheSet& probed, int cpu) {
  char folder[64];
  std::snprintf(folder, sizeof(folder), "/sys/devices/system/cpu/cpu%d/cache", cpu);
  const CacheSet sysfs = ReadSysfsCaches(folder);
  CacheSet set = probed;
  // CPUID rounds the number of sharers up to what the numbering allows; sysfs counts CPUs that are there.
  const auto merge = [](CacheInfo* into, const CacheInfo& from) {
    if (into->bytes == 0) *into = from;
    if (from.bytes != 0) into->shared_by = from.shared_by;
  };
  merge(&set.l1d, sysfs.l1d);
  merge(&set.l2, sysfs.l2);
  merge(&set.l3, sysfs.l3);
  return set;
}

void SetCacheFacts(const CacheSet& caches, CpuFacts* facts) {
  // Threads of one core share its L1, so L2's sharers divided by L1's are the cores that share it.
  const uint32_t threads = caches.l1d.shared_by ? caches.l1d.shared_by : 1;
  const uint32_t l2_cores = caches.l2.shared_by > threads ? caches.l2.shared_by / threads : 1;
  if (caches.l1d.bytes) facts->l1d_bytes = Saturate(caches.l1d.bytes);
  if (caches.l2.bytes) facts->l2_bytes = Saturate(caches.l2.bytes / l2_cores);
  facts->l3_bytes = Saturate(caches.l3.bytes);
}

}  // namespace quern
