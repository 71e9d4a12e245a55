/* A linear layer with 4-bit weights (blocks of 32 along K, a float32 scale each) and rows quantized to int8 as they
 * come, from float tensors to a float result, split over two threads by the caller: ukernel_qb4w [M N K].
 * Only quern/ukernel.h, libquern_ukernel.a, libm and threads are needed. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <quern/ukernel.h>

enum { kBlock = 32, kThreads = 2 };

static void Check(quern_ukernel_status status, const char* what) {
  if (status == QUERN_UKERNEL_OK) return;
  fprintf(stderr, "error: %s: %s\n", what, quern_ukernel_status_name(status));
  exit(1);
}

static void* Allocate(void** memory, size_t bytes) {
  char* p = malloc(bytes + QUERN_UKERNEL_ALIGNMENT);
  if (!p) exit(1);
  *memory = p;
  return p + (QUERN_UKERNEL_ALIGNMENT - (uintptr_t)p % QUERN_UKERNEL_ALIGNMENT) % QUERN_UKERNEL_ALIGNMENT;
}

static float Random(void) { return (float)rand() / (float)RAND_MAX - 0.5f; }

/* Weights as [n][k] floats to what QUERN_UKERNEL_U4 sources hold: per column and block 16 bytes, the lower k in the low
 * half, w = scale * (q - 8). */
static void QuantizeWeights(const float* w, size_t n, size_t k, unsigned char* q, float* scales) {
  const size_t blocks = (k + kBlock - 1) / kBlock;
  for (size_t col = 0; col < n; ++col) {
    for (size_t b = 0; b < blocks; ++b) {
      unsigned char* out = q + (col * blocks + b) * kBlock / 2;
      float largest = 0;
      for (size_t i = 0; i < kBlock && b * kBlock + i < k; ++i) {
        const float x = w[col * k + b * kBlock + i];
        if (fabsf(x) > fabsf(largest)) largest = x;
      }
      const float scale = largest / -8; /* the largest becomes -8, which has no counterpart */
      scales[col * blocks + b] = scale;
      for (size_t i = 0; i < kBlock; ++i) {
        const size_t at = b * kBlock + i;
        const float x = scale != 0 && at < k ? roundf(w[col * k + at] / scale) + 8 : 8;
        const unsigned u = x > 15 ? 15 : x < 0 ? 0 : (unsigned)x;
        if (i % 2 == 0) out[i / 2] = (unsigned char)u;
        if (i % 2 == 1) out[i / 2] |= (unsigned char)(u << 4);
      }
    }
  }
}

/* What a thread does: its rows of the left side, and its columns of the product. */
typedef struct Task {
  const quern_ukernel_plan* plan;
  const quern_ukernel_lhs_source* source;
  size_t m, m_begin, m_end;
  void* packed_rows;
  quern_ukernel_block block;
  void* workspace;
  quern_ukernel_status status;
} Task;

static void* PackRows(void* argument) {
  Task* t = argument;
  t->status = quern_ukernel_pack_lhs(t->plan, t->m, t->source, t->m_begin, t->m_end, t->packed_rows, NULL);
  return NULL;
}

static void* Multiply(void* argument) {
  Task* t = argument;
  quern_ukernel_run_block(t->plan, &t->block, t->workspace);
  return NULL;
}

static void OnThreads(void* (*function)(void*), Task* tasks) {
  pthread_t threads[kThreads];
  for (int i = 1; i < kThreads; ++i) {
    if (pthread_create(&threads[i], NULL, function, &tasks[i])) exit(1);
  }
  function(&tasks[0]);
  for (int i = 1; i < kThreads; ++i) pthread_join(threads[i], NULL);
}

/* Where part `index` of `all` begins, at a multiple of `step`. */
static size_t PartBegin(size_t all, size_t step, int index) {
  const size_t steps = (all + step - 1) / step;
  const size_t at = steps * (size_t)index / kThreads * step;
  return at < all ? at : all;
}

int main(int argc, char** argv) {
  const size_t m = argc == 4 ? (size_t)atol(argv[1]) : 37;
  const size_t n = argc == 4 ? (size_t)atol(argv[2]) : 300;
  const size_t k = argc == 4 ? (size_t)atol(argv[3]) : 448;
  const size_t blocks = (k + kBlock - 1) / kBlock;
  float* x = malloc(m * k * sizeof *x);
  float* w = malloc(n * k * sizeof *w); /* [n][k], as linear layers have them */
  float* y = malloc(m * n * sizeof *y);
  float* scales = malloc(n * blocks * sizeof *scales);
  float* bias = malloc(n * sizeof *bias);
  unsigned char* q = malloc(n * blocks * kBlock / 2);
  void* memory[2 + kThreads];
  if (!x || !w || !y || !scales || !bias || !q) return 1;
  for (size_t i = 0; i < m * k; ++i) x[i] = Random();
  for (size_t i = 0; i < n * k; ++i) w[i] = Random();
  for (size_t i = 0; i < n; ++i) bias[i] = Random();
  QuantizeWeights(w, n, k, q, scales);

  quern_cpu cpu;
  quern_cpu_init(&cpu);
  quern_cpu_detect(&cpu);
  quern_ukernel_problem problem;
  quern_ukernel_problem_init(&problem);
  problem.lhs = QUERN_UKERNEL_I8D; /* float32 rows, quantized when they are packed */
  problem.rhs = QUERN_UKERNEL_U4;
  problem.n = n;
  problem.k = k;
  problem.block = kBlock;
  problem.scale = QUERN_UKERNEL_F32;
  quern_ukernel_layout layout;
  const quern_ukernel* kernel = NULL;
  Check(quern_ukernel_select_layout(&problem, &cpu, &layout), "select a layout");
  Check(quern_ukernel_select(&problem, &cpu, &layout, m, &kernel, NULL, 0, NULL), "select a kernel");
  quern_ukernel_plan plan;
  quern_ukernel_plan_init(&plan);
  Check(quern_ukernel_make_plan(kernel, &layout, &problem, &cpu, &plan), "plan");
  quern_ukernel_info info;
  quern_ukernel_info_init(&info);
  Check(quern_ukernel_get_info(kernel, &cpu, &info), "query");
  char text[128];
  quern_ukernel_layout_text(&layout, text, sizeof text);
  printf("%s, weights as %s: %zu bytes\n", info.name, text, plan.rhs_bytes);

  /* The weights, once. */
  quern_ukernel_rhs_source weights;
  quern_ukernel_rhs_source_init(&weights);
  weights.format = QUERN_UKERNEL_U4;
  weights.data = q;
  weights.block_stride = kBlock / 2;
  weights.n_stride = (ptrdiff_t)(blocks * kBlock / 2);
  weights.scales = scales;
  weights.scale_format = QUERN_UKERNEL_F32;
  weights.scale_block_stride = sizeof *scales;
  weights.scale_n_stride = (ptrdiff_t)(blocks * sizeof *scales);
  void* packed_weights = Allocate(&memory[0], plan.rhs_bytes);
  Check(quern_ukernel_pack_rhs(&plan, &weights, 0, n, packed_weights, NULL), "pack the weights");

  /* Every product: threads quantize rows, meet, and multiply columns. Parts that begin at whole steps give the same
   * bits however many threads there are. */
  quern_ukernel_lhs_source rows;
  quern_ukernel_lhs_source_init(&rows);
  rows.data = x;
  rows.row_stride = (ptrdiff_t)(k * sizeof *x);
  size_t bytes = 0;
  Check(quern_ukernel_lhs_bytes(&plan, m, &bytes), "size of the packed rows");
  void* packed_rows = Allocate(&memory[1], bytes);
  quern_ukernel_op add_bias;
  quern_ukernel_op_init(&add_bias, QUERN_UKERNEL_OP_ADD_VECTOR_N);
  add_bias.data = bias;
  Task tasks[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    Task* t = &tasks[i];
    memset(t, 0, sizeof *t);
    t->plan = &plan;
    t->source = &rows;
    t->m = m;
    t->m_begin = PartBegin(m, plan.m_unit, i);
    t->m_end = PartBegin(m, plan.m_unit, i + 1);
    t->packed_rows = packed_rows;
    quern_ukernel_block_init(&t->block);
    t->block.m = t->block.m_end = m;
    t->block.n_begin = PartBegin(n, plan.n_step, i);
    t->block.n_end = PartBegin(n, plan.n_step, i + 1);
    t->block.lhs = packed_rows;
    t->block.rhs = packed_weights;
    t->block.dst = y;
    t->block.dst_row_stride = n * sizeof *y;
    t->block.ops = &add_bias;
    t->block.op_count = 1;
    t->workspace = Allocate(&memory[2 + i], quern_ukernel_workspace_bytes(&plan, &t->block));
  }
  OnThreads(PackRows, tasks);
  for (int i = 0; i < kThreads; ++i) Check(tasks[i].status, "pack the rows");
  OnThreads(Multiply, tasks);

  /* Against float64: first the 4-bit weights as they are, so that what is left is the rows' quantization; then the
   * float weights that they stand for. */
  double of_rows = 0, of_all = 0, norm = 0;
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double quantized = bias[j], full = bias[j];
      for (size_t l = 0; l < k; ++l) {
        const unsigned byte = q[(j * blocks + l / kBlock) * (kBlock / 2) + l % kBlock / 2];
        const int u = (int)(l % 2 ? byte >> 4 : byte & 15);
        quantized += x[i * k + l] * (double)scales[j * blocks + l / kBlock] * (u - 8);
        full += (double)x[i * k + l] * w[j * k + l];
      }
      of_rows += (quantized - y[i * n + j]) * (quantized - y[i * n + j]);
      of_all += (full - y[i * n + j]) * (full - y[i * n + j]);
      norm += full * full;
    }
  }
  norm = norm > 0 ? norm : 1; /* nothing to multiply */
  of_rows = sqrt(of_rows / norm);
  of_all = sqrt(of_all / norm);
  printf("%zu x %zu x %zu on %d threads: relative error %.2g of the int8 rows, %.2g of the 4-bit weights too\n", m, n,
         k, kThreads, of_rows, of_all);
  for (int i = 0; i < 2 + kThreads; ++i) free(memory[i]);
  free(x);
  free(w);
  free(y);
  free(scales);
  free(bias);
  free(q);
  return of_rows < 0.01 && of_all < 0.15 ? 0 : 1;
}
