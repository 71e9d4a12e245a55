/* A float32 product C = A B with Quern's micro-kernels alone, step by step: ukernel_gemm [M N K].
 * Only quern/ukernel.h, libquern_ukernel.a and libm are needed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <quern/ukernel.h>

static void Check(quern_ukernel_status status, const char* what) {
  if (status == QUERN_UKERNEL_OK) return;
  fprintf(stderr, "error: %s: %s\n", what, quern_ukernel_status_name(status));
  exit(1);
}

/* The library allocates nothing: all memory is ours. Packed operands begin at multiples of 64 bytes. */
static void* Allocate(void** memory, size_t bytes) {
  char* p = malloc(bytes + QUERN_UKERNEL_ALIGNMENT);
  if (!p) exit(1);
  *memory = p;
  return p + (QUERN_UKERNEL_ALIGNMENT - (uintptr_t)p % QUERN_UKERNEL_ALIGNMENT) % QUERN_UKERNEL_ALIGNMENT;
}

static float Random(void) { return (float)rand() / (float)RAND_MAX - 0.5f; }

int main(int argc, char** argv) {
  const size_t m = argc == 4 ? (size_t)atol(argv[1]) : 123;
  const size_t n = argc == 4 ? (size_t)atol(argv[2]) : 77;
  const size_t k = argc == 4 ? (size_t)atol(argv[3]) : 201;
  float* a = malloc(m * k * sizeof *a); /* row-major */
  float* b = malloc(k * n * sizeof *b);
  float* c = malloc(m * n * sizeof *c);
  void* memory[4];
  if (!a || !b || !c) return 1;
  for (size_t i = 0; i < m * k; ++i) a[i] = Random();
  for (size_t i = 0; i < k * n; ++i) b[i] = Random();

  /* 1. The CPU, a plain struct. A host that knows its CPUs may fill it itself. */
  quern_cpu cpu;
  quern_cpu_init(&cpu);
  quern_cpu_detect(&cpu);

  /* 2. Choose: at load the layout of the weights, then the kernel for M rows. */
  quern_ukernel_problem problem;
  quern_ukernel_problem_init(&problem);
  problem.lhs = QUERN_UKERNEL_F32;
  problem.rhs = QUERN_UKERNEL_F32;
  problem.n = n;
  problem.k = k;
  quern_ukernel_layout layout;
  const quern_ukernel* kernel = NULL;
  quern_ukernel_candidate candidates[3]; /* the best three; all of them would say what each lacks */
  size_t count = 0;
  Check(quern_ukernel_select_layout(&problem, &cpu, &layout), "select a layout");
  Check(quern_ukernel_select(&problem, &cpu, &layout, m, &kernel, candidates, 3, &count), "select a kernel");
  char text[128];
  quern_ukernel_layout_text(&layout, text, sizeof text);
  printf("weights as %s\n", text);
  for (size_t i = 0; i < 3 && i < count; ++i) {
    quern_ukernel_info info;
    quern_ukernel_info_init(&info);
    Check(quern_ukernel_get_info(candidates[i].kernel, &cpu, &info), "query");
    printf("%s: %s\n", info.name, candidates[i].text[0] ? candidates[i].text : "chosen");
  }

  /* 3. The plan: steps, sizes, offsets. */
  quern_ukernel_plan plan;
  quern_ukernel_plan_init(&plan);
  Check(quern_ukernel_make_plan(kernel, &layout, &problem, &cpu, &plan), "plan");

  /* 4. Pack: the weights once; the rows of this product where the kernel asks for it. */
  quern_ukernel_rhs_source weights;
  quern_ukernel_rhs_source_init(&weights);
  weights.format = QUERN_UKERNEL_F32;
  weights.data = b;
  weights.k_stride = (ptrdiff_t)(n * sizeof *b);
  weights.n_stride = sizeof *b;
  void* packed_b = Allocate(&memory[0], plan.rhs_bytes);
  Check(quern_ukernel_pack_rhs(&plan, &weights, 0, n, packed_b, NULL), "pack the weights");
  memory[1] = NULL;
  const void* rows = a;
  if (plan.packs_lhs) {
    size_t bytes = 0;
    quern_ukernel_lhs_source source;
    quern_ukernel_lhs_source_init(&source);
    source.data = a;
    source.row_stride = (ptrdiff_t)(k * sizeof *a);
    Check(quern_ukernel_lhs_bytes(&plan, m, &bytes), "size of the packed rows");
    void* packed_a = Allocate(&memory[1], bytes);
    Check(quern_ukernel_pack_lhs(&plan, m, &source, 0, m, packed_a, NULL), "pack the rows");
    rows = packed_a;
  }

  /* 5. Run, tile by tile. quern_ukernel_run_block has these loops; threads would each take a part of them. */
  quern_ukernel_op relu; /* what the kernel does to results while they are in registers */
  quern_ukernel_op_init(&relu, QUERN_UKERNEL_OP_CLAMP);
  relu.a = 0;
  relu.b = INFINITY;
  const size_t fused = quern_ukernel_fused_ops(kernel, &relu, 1);
  quern_ukernel_block block;
  quern_ukernel_block_init(&block);
  block.m = block.m_end = m;
  block.lhs = rows;
  block.lhs_row_stride = (ptrdiff_t)(k * sizeof *a);
  block.rhs = packed_b;
  block.dst = c;
  block.dst_row_stride = n * sizeof *c;
  block.ops = &relu;
  block.op_count = fused;
  block.scratch = Allocate(&memory[2], plan.scratch_bytes);
  void* panel = Allocate(&memory[3], quern_ukernel_panel_bytes(&plan, plan.n_step, k));
  block.panel = panel;
  quern_ukernel_enter(kernel); /* AMX: the tile configuration, once around all calls of a thread */
  for (size_t col = 0; col < n; col += plan.n_step) {
    block.n_end = col + plan.n_step < n ? col + plan.n_step : n;
    block.panel_n = col;
    if (plan.transforms) quern_ukernel_transform(&plan, packed_b, col, block.n_end, 0, k, panel);
    quern_ukernel_args tile;
    for (size_t row = 0; row < m; row += tile.m) {
      quern_ukernel_tile(&plan, &block, row, col, &tile);
      quern_ukernel_run(kernel, &tile);
      if (!fused) {
        quern_ukernel_apply_ops(&plan, &relu, 1, row, tile.m, col, tile.n, tile.dst, tile.dst_row_stride,
                                QUERN_UKERNEL_F32, tile.dst, tile.dst_row_stride);
      }
    }
  }
  quern_ukernel_leave(kernel);

  /* Against plain loops. */
  double difference = 0, norm = 0;
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t l = 0; l < k; ++l) sum += (double)a[i * k + l] * b[l * n + j];
      sum = sum > 0 ? sum : 0;
      difference += (sum - c[i * n + j]) * (sum - c[i * n + j]);
      norm += sum * sum;
    }
  }
  const double error = norm > 0 ? sqrt(difference / norm) : sqrt(difference);
  printf("%zu x %zu x %zu, relative error %.2g\n", m, n, k, error);
  for (int i = 0; i < 4; ++i) free(memory[i]);
  free(a);
  free(b);
  free(c);
  return error < 1e-6 * (1 + (double)k / 1000) ? 0 : 1;
}
