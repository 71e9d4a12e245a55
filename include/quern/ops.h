/* ops.h: whole operators of Quern for a framework with a graph, threads and memory of its own (C99).
 *
 *   quern_ops_matmul_create(&spec, &options, &op);            packs the weights: once
 *   quern_ops_matmul_workspace(op, &args, executor, &bytes);  for the sizes of a call
 *   quern_ops_matmul_run(op, &args, &run);                    any number of times
 *   quern_ops_explain(op, rows, &json);                       which micro-kernel runs, and why no other
 *   quern_ops_free(op);
 *
 * Rules, beside those of quern.h (status codes, struct_size, element types, strides in elements):
 * - An operator is immutable once created: several threads may run it at once, each with a workspace of its own. What a
 *   spec points to (weights, bias, scales) is not needed after creation.
 * - Workspaces and runs allocate nothing. A run uses the executor that it is given (quern_executor_from_host makes one
 * of a framework's own parallel-for), or the calling thread alone; the workspace must have been asked for with an
 * executor of the same concurrency, for the same sizes.
 * - Outputs must not overlap any operand.
 * Micro-kernels without drivers, threads or memory: ukernel.h.
 */
#ifndef QUERN_OPS_H_
#define QUERN_OPS_H_

#include "quern/quern.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_op quern_op;
QUERN_API void quern_ops_free(quern_op* op);

typedef struct quern_ops_options {
  size_t struct_size;       /* bytes of this struct, set by its init function; in all structs here */
  const char* cpu;          /* "native", "haswell,-fma"...; NULL: QUERN_CPU or native. It must be able to run here */
  const char* precision;    /* "fp32" (default), "fp32-fast", "fp16", "bf16": what float results may differ by */
  const char* kernel;       /* only the micro-kernel of this name (see `quern kernels`); NULL: the cheapest */
  quern_executor* executor; /* packs the weights; NULL: the calling thread */
} quern_ops_options;
static inline void quern_ops_options_init(quern_ops_options* options) {
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
}

/* What a run takes besides its operands. */
typedef struct quern_ops_run {
  size_t struct_size;
  quern_executor* executor; /* NULL: the calling thread */
  quern_cancel* cancel;     /* may be NULL */
  void* workspace;          /* 64-byte aligned; contents undefined, before and after */
  size_t workspace_bytes;   /* at least what the operator's workspace function said for these sizes */
} quern_ops_run;
static inline void quern_ops_run_init(quern_ops_run* run) {
  memset(run, 0, sizeof *run);
  run->struct_size = sizeof *run;
}

/* x is the value, alpha and beta those of the epilogue. */
typedef enum quern_activation {
  QUERN_ACTIVATION_NONE = 0,
  QUERN_ACTIVATION_RELU = 1,
  QUERN_ACTIVATION_CLAMP = 2,        /* min(max(x, alpha), beta) */
  QUERN_ACTIVATION_LEAKY_RELU = 3,   /* x < 0 ? alpha * x : x; alpha finite */
  QUERN_ACTIVATION_HARD_SIGMOID = 4, /* min(max(alpha * x + beta, 0), 1) */
  QUERN_ACTIVATION_HARD_SWISH = 5,   /* x * min(max(x / 6 + 1/2, 0), 1) */
  QUERN_ACTIVATION_SIGMOID = 6,
  QUERN_ACTIVATION_SILU = 7, /* x * sigmoid(x) */
  QUERN_ACTIVATION_TANH = 8,
  QUERN_ACTIVATION_ELU = 9, /* x < 0 ? alpha * (exp(x) - 1) : x */
  QUERN_ACTIVATION_GELU = 10,
  QUERN_ACTIVATION_GELU_TANH = 11
} quern_activation;

/* What happens to a result while it is in cache, in this order: bias, scale, residual, activation, the result's type. N
 * is the columns of a product, the output channels of a convolution. */
typedef struct quern_ops_epilogue {
  size_t struct_size;
  const void* bias;    /* [N] of float32, or of int32 where integers are multiplied; NULL: none */
  const float* scales; /* [N], for products of integers with results that are not int32; NULL: `scale` */
  float scale;         /* 0 counts as 1 */
  int32_t zero_point;  /* of int8 and uint8 results: clamp(rint(x * scale) + zero_point) */
  int32_t residual;    /* not 0: each run adds a float32 tensor of the result's shape. For float results */
  int32_t activation;  /* quern_activation; for int8 and uint8 results: none or relu */
  float alpha, beta;   /* of the activation's formula */
} quern_ops_epilogue;
static inline void quern_ops_epilogue_init(quern_ops_epilogue* epilogue) {
  memset(epilogue, 0, sizeof *epilogue);
  epilogue->struct_size = sizeof *epilogue;
}

/* ---------------------------------------------------------------- matrix products
 * dst [m][n] = lhs [m][k] x rhs [k][n], or a batch of them. */
typedef struct quern_matmul_spec {
  size_t struct_size;
  /* lhs: F32, F16, BF16, I8, U8. rhs: those; constant ones also U4, U2 in blocks (see below), Q4_0, Q4_1, Q8_0.
   * dst: F32, F16, BF16; I32, or by scales F32, I8, U8 where both sides are integers.
   * F64 by F64 to F64, without an epilogue. */
  int32_t lhs, rhs, dst;
  /* Not 0: rows of a float32 lhs are quantized to int8 by each run, by their own range (as XNNPACK's qd8); rhs is I8,
   * U4, U2, or a block format. */
  int32_t dynamic_quantization;
  size_t n; /* columns of rhs and dst */
  size_t k; /* columns of lhs, rows of rhs: what is summed */
  /* A constant right side, packed at creation; NULL: each run brings its own. Element (i, j) lies at i*rhs_k_stride +
   * j*rhs_n_stride; both 0: row-major [k][n]. Several (of constant ones) lie rhs_batch_stride apart; 0: n*k.
   * Block formats, U4 and U2: dense rows along k, one for each of the n columns; strides are not used. */
  const void* rhs_data;
  ptrdiff_t rhs_k_stride, rhs_n_stride, rhs_batch_stride; /* elements */
  size_t rhs_batches;                                     /* 0 counts as 1 */
  /* U4, U2 (MatMulNBits): rows [n][ceil(k/block)][block*bits/8], low bits first; scales [n][ceil(k/block)] of
   * scale_type (F32, F16, BF16); zero_points packed along the blocks of a row, NULL: 2^(bits-1). */
  size_t block;                /* elements along k that share a scale */
  const void* scales;          /* weight = scale * (stored - zero point) */
  int32_t scale_type;          /* quern_dtype of scales */
  const void* zero_points;     /* of the weights' type */
  const float* channel_scales; /* [n], of int8 weights with dynamic quantization; NULL: ones */
  /* Integers: the result is the sum over k of (a - lhs_zero_point) * (w - rhs_zero_point). */
  int32_t lhs_zero_point, rhs_zero_point;
  const int32_t* rhs_zero_points;     /* [n] instead of rhs_zero_point; NULL: that */
  const quern_ops_epilogue* epilogue; /* may be NULL */
  size_t expected_m;                  /* rows of most calls; 0: unknown */
} quern_matmul_spec;
static inline void quern_matmul_spec_init(quern_matmul_spec* spec) {
  memset(spec, 0, sizeof *spec);
  spec->struct_size = sizeof *spec;
}

#define QUERN_OPS_MAX_BATCH_DIMS 6
typedef struct quern_matmul_args {
  size_t struct_size;
  size_t m;                      /* rows of lhs and dst, of each entry of a batch */
  const void* lhs;               /* [m][k] of the spec's type */
  ptrdiff_t lhs_row_stride;      /* elements from row to row; 0: k */
  const void* rhs;               /* where the spec has no rhs_data; laid out as its strides say */
  void* dst;                     /* [m][n] of the spec's type */
  ptrdiff_t dst_row_stride;      /* elements; 0: n */
  const float* residual;         /* [m][n], where the epilogue has one */
  ptrdiff_t residual_row_stride; /* elements; 0: n */
  /* A batch: dimensions from the outermost, and how far apart their entries lie; 0 repeats. For a constant right side,
   * rhs strides count its batches. */
  size_t batch_dims;                                          /* 0: one product */
  size_t batch[QUERN_OPS_MAX_BATCH_DIMS];                     /* entries of each dimension */
  ptrdiff_t lhs_batch_strides[QUERN_OPS_MAX_BATCH_DIMS];      /* elements */
  ptrdiff_t rhs_batch_strides[QUERN_OPS_MAX_BATCH_DIMS];      /* elements, or batches of a constant right side */
  ptrdiff_t dst_batch_strides[QUERN_OPS_MAX_BATCH_DIMS];      /* elements */
  ptrdiff_t residual_batch_strides[QUERN_OPS_MAX_BATCH_DIMS]; /* elements */
} quern_matmul_args;
static inline void quern_matmul_args_init(quern_matmul_args* args) {
  memset(args, 0, sizeof *args);
  args->struct_size = sizeof *args;
}
QUERN_API quern_status quern_ops_matmul_create(const quern_matmul_spec* spec, const quern_ops_options* options,
                                               quern_op** out);
/* Of the args only sizes and strides count. executor may be NULL. */
QUERN_API quern_status quern_ops_matmul_workspace(const quern_op* op, const quern_matmul_args* args,
                                                  const quern_executor* executor, size_t* bytes);
QUERN_API quern_status quern_ops_matmul_run(const quern_op* op, const quern_matmul_args* args,
                                            const quern_ops_run* run);

/* ---------------------------------------------------------------- convolution
 * 1 to 3 spatial dimensions, groups; depthwise ones, and kn2row's and Winograd's algorithms where they are faster, by
 * themselves.
 * Spatial extents stand in the order of the tensor, the width last. */
typedef enum quern_conv_layout {
  QUERN_NHWC = 0, /* [images][...height, width][channels] */
  QUERN_NCHW = 1  /* [images][channels][...height, width]: the input, and results of all but the direct algorithm, are
                     transposed in the workspace */
} quern_conv_layout;
typedef struct quern_conv_spec {
  size_t struct_size;
  int32_t input, filters, dst;      /* F32, F16, BF16, I8, U8 as lhs, rhs, dst of a product */
  int32_t layout;                   /* quern_conv_layout, of input, dst and residual */
  int32_t spatial;                  /* 1, 2 or 3; 0 counts as 2 */
  size_t in_channels, out_channels; /* of all groups */
  size_t groups;                    /* divides both; 0 counts as 1 */
  size_t kernel[3];                 /* taps along each spatial dimension */
  size_t stride[3], dilation[3];    /* pixels; 0 counts as 1 */
  size_t pad_begin[3], pad_end[3];  /* pixels of padding before and behind the input */
  /* Element (out channel, channel within its group, spatial...) by strides; all 0: dense in that order. */
  const void* filter_data;
  ptrdiff_t filter_strides[5];                 /* elements; 2 + spatial of them count */
  int32_t input_zero_point, filter_zero_point; /* integers: padding stands for the zero point */
  const int32_t* filter_zero_points;           /* [out_channels] instead; NULL: that */
  const quern_ops_epilogue* epilogue;          /* may be NULL */
  size_t expected_pixels;                      /* of the output of one image; 0: unknown */
} quern_conv_spec;
static inline void quern_conv_spec_init(quern_conv_spec* spec) {
  memset(spec, 0, sizeof *spec);
  spec->struct_size = sizeof *spec;
}
typedef struct quern_conv_args {
  size_t struct_size;
  size_t images;         /* of the batch */
  size_t in[3];          /* spatial extents of the input, pixels */
  const void* input;     /* of the spec's type and layout, with in_channels channels */
  void* dst;             /* likewise, with out_channels and the extents that quern_ops_conv_output gives */
  const float* residual; /* of dst's shape, dense, where the epilogue has one; else not read */
  ptrdiff_t in_pixel_stride, dst_pixel_stride; /* NHWC: elements from a pixel to the next; 0: its channels */
} quern_conv_args;
static inline void quern_conv_args_init(quern_conv_args* args) {
  memset(args, 0, sizeof *args);
  args->struct_size = sizeof *args;
}
QUERN_API quern_status quern_ops_conv_create(const quern_conv_spec* spec, const quern_ops_options* options,
                                             quern_op** out);
/* Spatial extents of the output: `spatial` numbers. An input that the kernel does not fit in is an error. */
QUERN_API quern_status quern_ops_conv_output(const quern_op* op, const size_t* in, size_t* out);
QUERN_API quern_status quern_ops_conv_workspace(const quern_op* op, const quern_conv_args* args,
                                                const quern_executor* executor, size_t* bytes);
QUERN_API quern_status quern_ops_conv_run(const quern_op* op, const quern_conv_args* args, const quern_ops_run* run);

/* ---------------------------------------------------------------- attention
 * Of each head: y = softmax(scale * q k^T + mask) v, blocks of queries by blocks of keys with online softmax, so that
 * the workspace does not grow with long sequences of keys. Scores, softmax and sums are float32. The operator is made
 * for one set of sizes. */
typedef struct quern_attention_spec {
  size_t struct_size;
  size_t batch, heads;          /* samples; heads of queries and results in each */
  size_t kv_heads;              /* divides heads: heads that share keys and values are neighbours; 0: heads */
  size_t queries, keys;         /* rows of q and y; rows of k and v */
  size_t head_size, value_size; /* elements of a row of q and k; of v and y. value_size 0: head_size */
  float scale;                  /* 0: 1 / sqrt(head_size) */
  float softcap;                /* scores become softcap * tanh(score / softcap); 0: no */
  int32_t causal;               /* not 0: query i sees the keys up to keys - queries + i */
  /* From a sample, a head, a row to the next; all 0: dense [batch][heads][rows][size]. Elements of a row are
   * neighbours. [batch][rows][heads][size] has {rows*heads*size, size, heads*size}. */
  ptrdiff_t q_strides[3], k_strides[3], v_strides[3], y_strides[3]; /* elements */
  int32_t concurrency; /* of the executors that runs will have; 0 counts as 1 */
  /* Of queries; of keys and values; of results: F32, F16, BF16. 0: float32 for queries, the queries' type for others.
   * Keys are of the queries' type, or F16 for F32. Where values are BF16, probabilities are rounded to it. */
  int32_t q_type, kv_type, y_type;
} quern_attention_spec;
static inline void quern_attention_spec_init(quern_attention_spec* spec) {
  memset(spec, 0, sizeof *spec);
  spec->struct_size = sizeof *spec;
}
typedef struct quern_attention_args {
  size_t struct_size;
  const void *q, *k, *v; /* of the spec's types */
  void* y;               /* [batch][heads][queries][value_size] by its strides */
  /* Added to the scores, -infinity hides a key; NULL: none. Element (sample, head, query, key) by strides, 0 repeats;
   * the keys are neighbours. A query that sees no key gives zeros. */
  const float* mask;
  ptrdiff_t mask_strides[3]; /* elements from a sample, a head, a query to the next */
} quern_attention_args;
static inline void quern_attention_args_init(quern_attention_args* args) {
  memset(args, 0, sizeof *args);
  args->struct_size = sizeof *args;
}
QUERN_API quern_status quern_ops_attention_create(const quern_attention_spec* spec, const quern_ops_options* options,
                                                  quern_op** out);
QUERN_API quern_status quern_ops_attention_workspace(const quern_op* op, size_t* bytes);
QUERN_API quern_status quern_ops_attention_run(const quern_op* op, const quern_attention_args* args,
                                               const quern_ops_run* run);

/* The choice made, as JSON: operator, algorithm, cpu, packed_bytes, and for each of its products the kernel, the layout
 * of the right side and every other kernel with the reason why not. rows: of a call's left side (output pixels of an
 * image for convolutions; not used by attention). Freed by quern_buffer_free. */
QUERN_API quern_status quern_ops_explain(const quern_op* op, size_t rows, char** json);

#ifdef __cplusplus
}
#endif
#endif
