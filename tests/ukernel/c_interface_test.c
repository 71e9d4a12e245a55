/* The C interface of the micro-kernels in C99: enumeration, queries, choices for CPUs that are not there, errors. */
#include <stdio.h>
#include <stdlib.h>

#include <quern/ukernel.h>

static int failures = 0;
#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                          \
    }                                                                      \
  } while (0)

static quern_cpu Cpu(int32_t arch, uint64_t features) {
  quern_cpu cpu;
  quern_cpu_init(&cpu);
  cpu.arch = arch;
  cpu.features = features;
  cpu.l2_bytes = 2 << 20;
  cpu.l3_bytes = 32 << 20;
  return cpu;
}

static uint64_t Bit(int feature) { return (uint64_t)1 << feature; }

/* SSE4.1 to BMI2. */
static const uint64_t kHaswell = 0xff;

static quern_cpu SapphireRapids(void) {
  uint64_t features = kHaswell;
  int i;
  for (i = QUERN_X86_AVX512F; i <= QUERN_X86_AVX512FP16; ++i) features |= Bit(i);
  features |= Bit(QUERN_X86_AVXVNNI) | Bit(QUERN_X86_AMX_TILE) | Bit(QUERN_X86_AMX_INT8) | Bit(QUERN_X86_AMX_BF16);
  return Cpu(QUERN_CPU_X86_64, features);
}

static quern_ukernel_problem Problem(int32_t lhs, int32_t rhs, size_t n, size_t k) {
  quern_ukernel_problem p;
  quern_ukernel_problem_init(&p);
  p.lhs = lhs;
  p.rhs = rhs;
  p.n = n;
  p.k = k;
  p.any_host = 1;
  return p;
}

/* The ISA of the kernel that both stages come to; "" if there is none. */
static const char* Chosen(quern_ukernel_problem problem, quern_cpu cpu, size_t m) {
  static quern_ukernel_info info;
  quern_ukernel_layout layout;
  const quern_ukernel* kernel = NULL;
  problem.expected_m = m;
  if (quern_ukernel_select_layout(&problem, &cpu, &layout) != QUERN_UKERNEL_OK) return "";
  if (quern_ukernel_select(&problem, &cpu, &layout, m, &kernel, NULL, 0, NULL) != QUERN_UKERNEL_OK) return "";
  quern_ukernel_info_init(&info);
  EXPECT(quern_ukernel_get_info(kernel, &cpu, &info) == QUERN_UKERNEL_OK);
  return info.isa;
}

static void TestEnumeration(void) {
  const size_t count = quern_ukernel_count();
  size_t i, l;
  EXPECT(quern_ukernel_abi_version() == QUERN_UKERNEL_ABI_VERSION);
  EXPECT(count > 10);
  EXPECT(quern_ukernel_at(count) == NULL);
  EXPECT(quern_ukernel_find("gemm_no_such") == NULL && quern_ukernel_find(NULL) == NULL);
  for (i = 0; i < count; ++i) {
    const quern_ukernel* kernel = quern_ukernel_at(i);
    const quern_cpu none = Cpu(QUERN_CPU_X86_64, 0);
    quern_ukernel_info info;
    quern_ukernel_layout layout;
    char text[192];
    quern_ukernel_info_init(&info);
    EXPECT(quern_ukernel_get_info(kernel, NULL, &info) == QUERN_UKERNEL_OK);
    EXPECT(quern_ukernel_find(info.name) == kernel);
    EXPECT(strncmp(info.name, "gemm_", 5) == 0 && strstr(info.name, info.isa) != NULL);
    EXPECT(info.k_step > 0 && info.layout_count > 0 && info.lhs_forms != 0);
    EXPECT(info.scaled || (info.m_step > 0 && info.n_step > 0));
    EXPECT((info.arch == QUERN_CPU_ANY_ARCH) == (quern_ukernel_missing(kernel, &none) == NULL));
    for (l = 0; l < info.layout_count; ++l) {
      EXPECT(quern_ukernel_get_layout(kernel, l, &layout) == QUERN_UKERNEL_OK);
      EXPECT(quern_ukernel_layout_text(&layout, text, sizeof text) == strlen(text) && strstr(text, "[N/") != NULL);
    }
    EXPECT(quern_ukernel_get_layout(kernel, l, &layout) == QUERN_UKERNEL_INVALID_ARGUMENT);
  }
}

static void TestChoices(void) {
  const quern_cpu haswell = Cpu(QUERN_CPU_X86_64, kHaswell), plain = Cpu(QUERN_CPU_X86_64, 0);
  const quern_cpu neon = Cpu(QUERN_CPU_AARCH64, Bit(QUERN_ARM_NEON));
  const quern_ukernel_problem f32 = Problem(QUERN_UKERNEL_F32, QUERN_UKERNEL_F32, 1024, 1024);
  quern_ukernel_problem fast = f32, blocks = Problem(QUERN_UKERNEL_I8D, QUERN_UKERNEL_U4, 512, 512);
  quern_cpu sme = neon;
  blocks.block = 32;
  blocks.scale = QUERN_UKERNEL_F32;
  sme.features |= Bit(QUERN_ARM_BF16) | Bit(QUERN_ARM_SME) | Bit(QUERN_ARM_SME2);
  sme.sme_vector_bytes = 64;
  fast.precision = QUERN_UKERNEL_FP32_FAST;
  EXPECT(strcmp(Chosen(f32, haswell, 128), "avx2") == 0);
  EXPECT(strcmp(Chosen(f32, plain, 128), "portable") == 0);
  EXPECT(strncmp(Chosen(f32, neon, 128), "neon", 4) == 0);
  EXPECT(strncmp(Chosen(f32, sme, 1024), "sme", 3) == 0);
  EXPECT(strncmp(Chosen(fast, SapphireRapids(), 1024), "amx", 3) == 0);
  EXPECT(strcmp(Chosen(fast, haswell, 1024), "avx2") == 0);
  EXPECT(strcmp(Chosen(blocks, haswell, 16), "avx2") == 0);
  blocks.zero_point = QUERN_UKERNEL_U8;
  EXPECT(strcmp(Chosen(blocks, haswell, 16), "avx2") == 0);
}

static void TestCandidates(void) {
  quern_ukernel_candidate all[1024], few[3];
  const quern_cpu haswell = Cpu(QUERN_CPU_X86_64, kHaswell);
  const quern_ukernel_problem p = Problem(QUERN_UKERNEL_F32, QUERN_UKERNEL_F32, 256, 256);
  const quern_ukernel* kernel = NULL;
  size_t count = 0, i;
  int costs = 0, lacks = 0, other = 0;
  EXPECT(quern_ukernel_select(&p, &haswell, NULL, 64, &kernel, all, 1024, &count) == QUERN_UKERNEL_OK);
  EXPECT(count == quern_ukernel_count() && count <= 1024);
  EXPECT(all[0].kernel == kernel && all[0].reason == QUERN_UKERNEL_CHOSEN && all[0].text[0] == 0);
  for (i = 1; i < count; ++i) {
    EXPECT(all[i].reason != QUERN_UKERNEL_CHOSEN && all[i].text[0] != 0);
    EXPECT((all[i].reason == QUERN_UKERNEL_COSTS_MORE) == (all[i].cycles > 0));
    if (all[i].reason == QUERN_UKERNEL_COSTS_MORE) {
      EXPECT(all[i].cycles >= all[i - 1].cycles && strncmp(all[i].text, "cost ", 5) == 0);
      ++costs;
    }
    lacks += all[i].reason == QUERN_UKERNEL_LACKS_FEATURE && strncmp(all[i].text, "needs ", 6) == 0;
    other += all[i].reason == QUERN_UKERNEL_OTHER_ARCH;
  }
  EXPECT(costs > 0 && lacks > 0 && other > 0);
  EXPECT(quern_ukernel_select(&p, &haswell, NULL, 64, &kernel, few, 3, &count) == QUERN_UKERNEL_OK);
  EXPECT(count == quern_ukernel_count());
  for (i = 0; i < 3; ++i) EXPECT(few[i].kernel == all[i].kernel && few[i].reason == all[i].reason);
  {
    /* Nothing multiplies int32. */
    const quern_ukernel_problem none = Problem(QUERN_UKERNEL_I32, QUERN_UKERNEL_F32, 256, 256);
    quern_ukernel_layout layout;
    EXPECT(quern_ukernel_select_layout(&none, &haswell, &layout) == QUERN_UKERNEL_UNSUPPORTED);
    EXPECT(quern_ukernel_select(&none, &haswell, NULL, 64, &kernel, all, 1024, &count) == QUERN_UKERNEL_UNSUPPORTED);
    EXPECT(kernel == NULL && all[0].reason != QUERN_UKERNEL_CHOSEN && all[0].text[0] != 0);
  }
}

/* The rest needs a kernel that runs here: the portable one does. */
static void TestErrors(void) {
  const quern_cpu plain = Cpu(QUERN_CPU_ANY_ARCH, 0);
  quern_ukernel_problem p = Problem(QUERN_UKERNEL_F32, QUERN_UKERNEL_F32, 20, 30);
  quern_ukernel_layout layout, broken;
  const quern_ukernel* kernel = NULL;
  quern_ukernel_plan plan;
  quern_ukernel_rhs_source source;
  quern_ukernel_lhs_source rows;
  quern_cpu unset;
  size_t bytes = 0;
  char* memory;
  char* packed;
  float weights[1] = {0};
  p.any_host = 0;
  EXPECT(quern_ukernel_select_layout(NULL, &plain, &layout) == QUERN_UKERNEL_INVALID_ARGUMENT);
  EXPECT(quern_ukernel_select_layout(&p, NULL, &layout) == QUERN_UKERNEL_INVALID_ARGUMENT);
  EXPECT(quern_ukernel_select_layout(&p, &plain, NULL) == QUERN_UKERNEL_INVALID_ARGUMENT);
  memset(&unset, 0, sizeof unset);
  EXPECT(quern_ukernel_select_layout(&p, &unset, &layout) == QUERN_UKERNEL_INVALID_ARGUMENT);
  p.lhs = 999;
  EXPECT(quern_ukernel_select_layout(&p, &plain, &layout) == QUERN_UKERNEL_INVALID_ARGUMENT);
  p.lhs = QUERN_UKERNEL_F32;
  p.n = (size_t)-1 / 8;
  EXPECT(quern_ukernel_select_layout(&p, &plain, &layout) == QUERN_UKERNEL_TOO_LARGE);
  p.n = 20;
  p.segments = (size_t)1 << 50;
  EXPECT(quern_ukernel_select_layout(&p, &plain, &layout) == QUERN_UKERNEL_TOO_LARGE);
  p.segments = 0;
  EXPECT(quern_ukernel_select_layout(&p, &plain, &layout) == QUERN_UKERNEL_OK);
  EXPECT(quern_ukernel_select(&p, &plain, &layout, 5, &kernel, NULL, 0, NULL) == QUERN_UKERNEL_OK);
  {
    /* A struct of a later version whose new field is set. */
    struct {
      quern_ukernel_problem known;
      size_t later;
    } newer;
    memset(&newer, 0, sizeof newer);
    newer.known = p;
    newer.known.struct_size = sizeof newer;
    EXPECT(quern_ukernel_select_layout(&newer.known, &plain, &layout) == QUERN_UKERNEL_OK);
    newer.later = 1;
    EXPECT(quern_ukernel_select_layout(&newer.known, &plain, &layout) == QUERN_UKERNEL_INVALID_ARGUMENT);
  }

  quern_ukernel_plan_init(&plan);
  EXPECT(quern_ukernel_make_plan(NULL, &layout, &p, &plain, &plan) == QUERN_UKERNEL_INVALID_ARGUMENT);
  broken = layout;
  broken.n_unit = 7;
  EXPECT(quern_ukernel_make_plan(kernel, &broken, &p, &plain, &plan) == QUERN_UKERNEL_UNSUPPORTED);
  broken.reserved[0] = 1;
  EXPECT(quern_ukernel_make_plan(kernel, &broken, &p, &plain, &plan) == QUERN_UKERNEL_INVALID_ARGUMENT);
  EXPECT(quern_ukernel_make_plan(kernel, &layout, &p, &plain, &plan) == QUERN_UKERNEL_OK);
  EXPECT(plan.rhs_bytes >= 20 * 30 * sizeof(float) && plan.rhs_bytes % QUERN_UKERNEL_ALIGNMENT == 0);
  EXPECT(quern_ukernel_rhs_offset(&plan, plan.n_unit) == plan.rhs_unit_stride);
  EXPECT(quern_ukernel_dst_offset(3, 4, 100, QUERN_UKERNEL_F16) == 308);

  memory = malloc(plan.rhs_bytes + QUERN_UKERNEL_ALIGNMENT);
  packed = memory + (QUERN_UKERNEL_ALIGNMENT - (uintptr_t)memory % QUERN_UKERNEL_ALIGNMENT);
  quern_ukernel_rhs_source_init(&source);
  source.format = QUERN_UKERNEL_F32;
  EXPECT(quern_ukernel_pack_rhs(&plan, &source, 0, 20, packed, NULL) == QUERN_UKERNEL_INVALID_ARGUMENT);
  source.data = weights; /* both strides 0: one number everywhere */
  EXPECT(quern_ukernel_pack_rhs(&plan, &source, 0, 20, packed, NULL) == QUERN_UKERNEL_OK);
  EXPECT(quern_ukernel_pack_rhs(&plan, &source, 0, 20, packed + 4, NULL) == QUERN_UKERNEL_INVALID_ARGUMENT);
  EXPECT(quern_ukernel_pack_rhs(&plan, &source, 1, 20, packed, NULL) == QUERN_UKERNEL_INVALID_ARGUMENT);
  EXPECT(quern_ukernel_pack_rhs(&plan, &source, 0, 21, packed, NULL) == QUERN_UKERNEL_INVALID_ARGUMENT);
  EXPECT(quern_ukernel_pack_rhs(&plan, &source, 0, 20, NULL, NULL) == QUERN_UKERNEL_INVALID_ARGUMENT);
  source.format = QUERN_UKERNEL_I8;
  EXPECT(quern_ukernel_pack_rhs(&plan, &source, 0, 20, packed, NULL) == QUERN_UKERNEL_UNSUPPORTED);
  quern_ukernel_lhs_source_init(&rows);
  rows.data = weights;
  EXPECT(plan.packs_lhs || quern_ukernel_lhs_bytes(&plan, 5, &bytes) == QUERN_UKERNEL_UNSUPPORTED);
  EXPECT(plan.packs_lhs || quern_ukernel_pack_lhs(&plan, 5, &rows, 0, 5, packed, NULL) == QUERN_UKERNEL_UNSUPPORTED);
  free(memory);

  p.lhs = QUERN_UKERNEL_I8D;
  p.rhs = QUERN_UKERNEL_I8;
  EXPECT(quern_ukernel_select_layout(&p, &plain, &layout) == QUERN_UKERNEL_OK);
  EXPECT(quern_ukernel_select(&p, &plain, &layout, 5, &kernel, NULL, 0, NULL) == QUERN_UKERNEL_OK);
  EXPECT(quern_ukernel_make_plan(kernel, &layout, &p, &plain, &plan) == QUERN_UKERNEL_OK && plan.packs_lhs);
  EXPECT(quern_ukernel_lhs_bytes(&plan, (size_t)-1 / 4, &bytes) == QUERN_UKERNEL_TOO_LARGE);
  EXPECT(quern_ukernel_lhs_bytes(&plan, 5, &bytes) == QUERN_UKERNEL_OK && bytes >= 5 * 30);
  memory = malloc(bytes + QUERN_UKERNEL_ALIGNMENT);
  packed = memory + (QUERN_UKERNEL_ALIGNMENT - (uintptr_t)memory % QUERN_UKERNEL_ALIGNMENT);
  EXPECT(quern_ukernel_pack_lhs(&plan, 5, &rows, 0, 6, packed, NULL) == QUERN_UKERNEL_INVALID_ARGUMENT);
  EXPECT(quern_ukernel_pack_lhs(&plan, 5, &rows, 0, 5, packed + 4, NULL) == QUERN_UKERNEL_INVALID_ARGUMENT);
  rows.form = 257;
  EXPECT(quern_ukernel_pack_lhs(&plan, 5, &rows, 0, 5, packed, NULL) == QUERN_UKERNEL_INVALID_ARGUMENT);
  rows.form = QUERN_UKERNEL_LHS_ROW_POINTERS;
  EXPECT(quern_ukernel_pack_lhs(&plan, 5, &rows, 0, 5, packed, NULL) == QUERN_UKERNEL_INVALID_ARGUMENT);
  rows.form = 0;
  rows.format = QUERN_UKERNEL_I8;
  EXPECT(quern_ukernel_pack_lhs(&plan, 5, &rows, 0, 5, packed, NULL) == QUERN_UKERNEL_UNSUPPORTED);
  free(memory);
}

int main(void) {
  TestEnumeration();
  TestChoices();
  TestCandidates();
  TestErrors();
  printf("%d failures\n", failures);
  return failures != 0;
}
