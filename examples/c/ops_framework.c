/* A toy framework that keeps its tensors and its threads, with Quern under its matmul.
 *
 * The framework has a tensor type and a parallel-for over two POSIX threads. Its matmul asks Quern for an operator with
 * packed weights the first time that it meets these weights, keeps a workspace of its own, and runs on its own threads.
 */
#include <pthread.h>
#include <quern/ops.h>
#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- the framework */
typedef struct tensor {
  size_t rows, cols;
  float* data;
} tensor;

typedef void (*range_task)(void* context, int32_t slot, int64_t begin, int64_t end);

typedef struct half {
  range_task task;
  void* context;
  int64_t begin, end;
} half;

static void* run_half(void* argument) {
  const half* h = argument;
  h->task(h->context, 1, h->begin, h->end);
  return NULL;
}

/* What a quern_host_executor wants: task is called until [0, total) is covered, each slot by one thread at a time. */
static void parallel_for(void* user, int64_t total, int64_t grain, range_task task, void* context) {
  half other;
  pthread_t thread;
  (void)user;
  (void)grain;
  other.task = task;
  other.context = context;
  other.begin = total / 2;
  other.end = total;
  if (pthread_create(&thread, NULL, run_half, &other) != 0) {
    task(context, 0, 0, total);
    return;
  }
  task(context, 0, 0, total / 2);
  pthread_join(thread, NULL);
}

/* ---------------------------------------------------------------- Quern under its matmul */
typedef struct linear {
  quern_op* op;
  size_t n, k;
  void* memory; /* what was allocated; the workspace is 64-byte aligned within it */
  quern_ops_run run;
} linear;

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, quern_error_message());
  return 1;
}

/* weights: [n][k], as most frameworks keep them. */
static int linear_create(linear* l, const float* weights, const float* bias, size_t n, size_t k,
                         quern_executor* executor) {
  quern_ops_epilogue epilogue;
  quern_matmul_spec spec;
  memset(l, 0, sizeof *l);
  l->n = n;
  l->k = k;
  quern_ops_epilogue_init(&epilogue);
  epilogue.bias = bias;
  epilogue.activation = QUERN_ACTIVATION_RELU;
  quern_matmul_spec_init(&spec);
  spec.lhs = spec.rhs = spec.dst = QUERN_F32;
  spec.n = n;
  spec.k = k;
  spec.rhs_data = weights;
  spec.rhs_k_stride = 1;
  spec.rhs_n_stride = (ptrdiff_t)k;
  spec.epilogue = &epilogue;
  quern_ops_run_init(&l->run);
  l->run.executor = executor;
  return quern_ops_matmul_create(&spec, NULL, &l->op) == QUERN_OK ? 0 : fail("create");
}

static int linear_run(linear* l, const tensor* x, const tensor* y) {
  quern_matmul_args args;
  size_t bytes = 0;
  quern_matmul_args_init(&args);
  args.m = x->rows;
  args.lhs = x->data;
  args.dst = y->data;
  if (quern_ops_matmul_workspace(l->op, &args, l->run.executor, &bytes) != QUERN_OK) return fail("workspace");
  if (bytes > l->run.workspace_bytes) { /* a larger batch than before */
    free(l->memory);
    l->memory = malloc(bytes + 63);
    if (!l->memory) return 1;
    l->run.workspace = (void*)(((uintptr_t)l->memory + 63) / 64 * 64);
    l->run.workspace_bytes = bytes;
  }
  return quern_ops_matmul_run(l->op, &args, &l->run) == QUERN_OK ? 0 : fail("run");
}

static void linear_free(linear* l) {
  quern_ops_free(l->op);
  free(l->memory);
}

int main(void) {
  enum { M = 50, N = 192, K = 300 };
  static float weights[N * K], bias[N], input[M * K], output[M * N];
  const tensor x = {M, K, input}, y = {M, N, output};
  quern_host_executor host;
  quern_executor* executor = NULL;
  linear layer;
  char* json = NULL;
  double worst = 0;
  size_t i, m, n, k;
  for (i = 0; i < N * K; ++i) weights[i] = (float)(i * 7919 % 1000) / 500.0f - 1.0f;
  for (i = 0; i < M * K; ++i) input[i] = (float)(i * 104729 % 1000) / 500.0f - 1.0f;
  for (i = 0; i < N; ++i) bias[i] = (float)i / N;

  quern_host_executor_init(&host);
  host.concurrency = 2;
  host.run = parallel_for;
  if (quern_executor_from_host(&host, &executor) != QUERN_OK) return fail("executor");
  if (linear_create(&layer, weights, bias, N, K, executor) || linear_run(&layer, &x, &y)) return 1;

  for (m = 0; m < M; ++m) {
    for (n = 0; n < N; ++n) {
      double sum = bias[n];
      double error;
      for (k = 0; k < K; ++k) sum += (double)input[m * K + k] * weights[n * K + k];
      error = output[m * N + n] - (sum > 0 ? sum : 0);
      if (error < 0) error = -error;
      if (error > worst) worst = error;
    }
  }
  printf("largest error against double precision: %g\n", worst);
  if (quern_ops_explain(layer.op, M, &json) != QUERN_OK) return fail("explain");
  printf("%s\n", json);
  quern_buffer_free(json);
  linear_free(&layer);
  quern_executor_free(executor);
  return worst < 1e-3 ? 0 : 1;
}
