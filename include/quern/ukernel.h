/* ukernel.h: Quern's micro-kernels of matrix products for frameworks that have their own memory, threads and loops
 * (C99). libquern_ukernel.a has them and needs nothing but libc and libm. docs/ukernel-api.md walks through it.
 *
 * Rules
 * - Nothing here allocates, locks, starts threads, throws or keeps state. Every function may be called by any number of
 *   threads at once.
 * - Functions that are called once (select, plan, sizes, pack) check what they are given and return a
 *   quern_ukernel_status. Those of the hot path (enter, leave, tile, transform, run, run_block) do not check.
 * - Structs begin with struct_size, which their *_init function sets; it zeroes the rest, and zero is always the
 *   default. Later versions only append fields. Those without (layouts, operations, candidates, taps) have a fixed
 *   size; what is reserved in them is 0.
 * - Strides and offsets are in bytes unless said otherwise; extents (m, n, k, steps, units) are elements.
 * - Packed buffers begin at multiples of QUERN_UKERNEL_ALIGNMENT, as do scratch, panels and workspaces; anything else
 *   needs its elements' alignment only.
 * - The product is C[m][n] = sum over k of lhs[m][k] * rhs[k][n]; lhs are activations, rhs weights.
 */
#ifndef QUERN_UKERNEL_H_
#define QUERN_UKERNEL_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "quern/cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QUERN_UKERNEL_ABI_VERSION 1
#define QUERN_UKERNEL_ALIGNMENT 64
/* The ABI version that the library was built with. */
QUERN_UKERNEL_API int32_t quern_ukernel_abi_version(void);

typedef enum quern_ukernel_status {
  QUERN_UKERNEL_OK = 0,
  QUERN_UKERNEL_INVALID_ARGUMENT = 1, /* null, no size or unknown fields of a struct, a range outside of the operand */
  QUERN_UKERNEL_UNSUPPORTED = 2,      /* no kernel, layout or packer for it on this CPU */
  QUERN_UKERNEL_TOO_LARGE = 3         /* sizes that do not fit into size_t */
} quern_ukernel_status;
/* "ok", "invalid argument", "unsupported", "too large". */
QUERN_UKERNEL_API const char* quern_ukernel_status_name(int32_t status);

/* ---------------------------------------------------------------- formats and layouts */
typedef enum quern_ukernel_format {
  QUERN_UKERNEL_NONE = 0,
  QUERN_UKERNEL_F32 = 1,
  QUERN_UKERNEL_F16 = 2,
  QUERN_UKERNEL_BF16 = 3,
  QUERN_UKERNEL_I8 = 4,
  QUERN_UKERNEL_U8 = 5,
  QUERN_UKERNEL_I32 = 6,
  QUERN_UKERNEL_U4 = 7,    /* unsigned 4 bits, blocks along K with a scale each, zero point 8 unless given */
  QUERN_UKERNEL_I4 = 8,    /* signed 4 bits, a scale per column */
  QUERN_UKERNEL_U2 = 9,    /* likewise, 2 bits, zero point 2 */
  QUERN_UKERNEL_Q4_0 = 10, /* GGUF's blocks of 32: sources only */
  QUERN_UKERNEL_Q4_1 = 11,
  QUERN_UKERNEL_Q8_0 = 12,
  QUERN_UKERNEL_BF16X2 = 13, /* a float32 as the sum of two bf16 terms */
  QUERN_UKERNEL_BF16X3 = 14, /* of three */
  QUERN_UKERNEL_I8D = 15,    /* int8 rows quantized at run time from floats, a scale and a zero point per row */
  QUERN_UKERNEL_I8B = 16,    /* int8 in blocks of 32 along K, a float16 scale each */
  QUERN_UKERNEL_F64 = 17     /* by F64 to F64 alone, without operations on the results */
} quern_ukernel_format;
/* "f32", "i8d"; "?" for other numbers. */
QUERN_UKERNEL_API const char* quern_ukernel_format_name(int32_t format);

/* How far results may be from exact products and sums of the operands (docs/numerics.md). 0: float32. */
typedef enum quern_ukernel_precision {
  QUERN_UKERNEL_FP32 = 0,        /* at least as accurate as a loop of float32 multiply-adds */
  QUERN_UKERNEL_FP32_FAST = 1,   /* float32 split in two bf16 terms: relative error up to 1e-5 */
  QUERN_UKERNEL_FP16 = 2,        /* float16 sums over at most 32 k, those in float32 */
  QUERN_UKERNEL_BF16_INPUTS = 3, /* inputs rounded to bf16 */
  QUERN_UKERNEL_EXACT = 4,       /* integer kernels: the same bits everywhere */
  QUERN_UKERNEL_FP64 = 5         /* at least as accurate as a loop of float64 multiply-adds */
} quern_ukernel_precision;

typedef enum quern_ukernel_scaling {
  QUERN_UKERNEL_FIXED = 0,
  QUERN_UKERNEL_SVE_LANES = 1, /* times the 32-bit lanes of an SVE vector */
  QUERN_UKERNEL_SME_LANES = 2  /* of a streaming vector */
} quern_ukernel_scaling;

/* How packed weights lie in memory; plain data that may be stored with them. Units of n_unit columns follow one another
 * at a constant stride. A unit holds the elements [K / k_interleave][n_unit][k_interleave] (below 8 bits, 8/bits
 * groups of k_interleave share their bytes, the first in the low bits), then scales [K / block][n_unit], then offsets
 * likewise. After all units come, per column, sums over K, channel scales and bias. */
typedef struct quern_ukernel_layout {
  uint16_t element;        /* quern_ukernel_format */
  uint16_t n_unit;         /* columns of a unit; times the lanes if scaled */
  uint16_t n_scale;        /* quern_ukernel_scaling */
  uint16_t k_interleave;   /* consecutive k of a column that lie together */
  uint16_t k_multiple;     /* K is padded to a multiple of this, with zeros */
  uint16_t scale;          /* format of the scales per (column, block) */
  uint16_t offset;         /* per (column, block): U8 zero points, w = s*(q - z); F32 minima, w = s*q + m */
  uint16_t sums;           /* per column: I32 sums of the integers, F32 sums of the weights */
  uint16_t channel_scales; /* 1: float32 per column */
  uint16_t bias;           /* format of a bias per column, which epilogue operations may read */
  uint16_t reserved[6];    /* 0 */
} quern_ukernel_layout;
/* "f32 [N/16][K][16]", "qb4w [N/16][K/8][16][8] bf16 scales, sums". Writes at most `bytes` with the closing zero and
 * returns the whole length. */
QUERN_UKERNEL_API size_t quern_ukernel_layout_text(const quern_ukernel_layout* layout, char* text, size_t bytes);

/* ---------------------------------------------------------------- the kernels */
/* How a kernel addresses the left side: bits of a mask, or one of them. The k elements of a row are contiguous. */
typedef enum quern_ukernel_lhs_form {
  QUERN_UKERNEL_LHS_ROWS = 1,         /* row m at lhs + m*row_stride */
  QUERN_UKERNEL_LHS_TAPS = 2,         /* a list of rows at offsets: batch-reduce, convolution without im2col */
  QUERN_UKERNEL_LHS_ROW_POINTERS = 4, /* a pointer per row and tap */
  QUERN_UKERNEL_LHS_PACKED = 8        /* panels that quern_ukernel_pack_lhs made */
} quern_ukernel_lhs_form;

typedef struct quern_ukernel quern_ukernel; /* a kernel; lives as long as the program */

QUERN_UKERNEL_API size_t quern_ukernel_count(void);
/* NULL beyond the last one. The order may change from version to version; names stay. */
QUERN_UKERNEL_API const quern_ukernel* quern_ukernel_at(size_t index);
/* By name; NULL if there is none. */
QUERN_UKERNEL_API const quern_ukernel* quern_ukernel_find(const char* name);

typedef struct quern_ukernel_info {
  size_t struct_size;   /* bytes of this struct; in all structs that begin with it */
  char name[96];        /* gemm_<lhs>_<rhs>_<dst>_<rows>x<columns>x<k>_<isa> */
  const char* isa;      /* "avx512vnni"; of static storage */
  uint64_t needs;       /* features of `arch` */
  int32_t arch;         /* QUERN_CPU_ANY_ARCH: portable code */
  int32_t has_body;     /* 0: this build has no code for it */
  int32_t lhs;          /* as the kernel reads it */
  int32_t lhs_source;   /* as the operator has it: what quern_ukernel_pack_lhs reads where lhs is packed */
  int32_t rhs;          /* of the weights that it is for */
  int32_t acc;          /* accumulators: F32, I32 or F64 */
  int32_t precision;    /* quern_ukernel_precision */
  int32_t scaled;       /* m_step or n_step follow the vector length of the CPU */
  int32_t whole_panel;  /* a call takes any number of rows and columns and loops inside */
  int32_t has_mode;     /* quern_ukernel_enter and _leave do something */
  uint32_t lhs_forms;   /* mask of quern_ukernel_lhs_form */
  uint32_t fused;       /* mask of 1 << QUERN_UKERNEL_OP_...: operations that run on the accumulators in registers */
  size_t m_step;        /* rows of a tile on the given CPU */
  size_t n_step;        /* columns */
  size_t k_step;        /* K values that it takes at a time */
  size_t k_divisor;     /* K must be a multiple */
  size_t block_divisor; /* the length of blocks must be a multiple */
  size_t layout_count;  /* resident layouts that it accepts */
  size_t scratch_bytes; /* of quern_ukernel_args.scratch */
  quern_ukernel_layout consumed; /* as it reads the weights: another resident layout needs a transform */
  int32_t rhs_in_place;          /* also takes a matrix with contiguous columns as it is */
  int32_t packs_lhs;             /* the left side must be packed first */
} quern_ukernel_info;
static inline void quern_ukernel_info_init(quern_ukernel_info* info) {
  memset(info, 0, sizeof *info);
  info->struct_size = sizeof *info;
}
/* cpu may be NULL for kernels that are not scaled; else steps of scaled kernels are 0 where it lacks the vectors. */
QUERN_UKERNEL_API quern_ukernel_status quern_ukernel_get_info(const quern_ukernel* kernel, const quern_cpu* cpu,
                                                              quern_ukernel_info* info);
QUERN_UKERNEL_API quern_ukernel_status quern_ukernel_get_layout(const quern_ukernel* kernel, size_t index,
                                                                quern_ukernel_layout* layout);
/* What the CPU lacks to run the kernel: the first feature or the architecture by name; NULL if nothing. */
QUERN_UKERNEL_API const char* quern_ukernel_missing(const quern_ukernel* kernel, const quern_cpu* cpu);

/* ---------------------------------------------------------------- choosing */
/* What is multiplied, [M, K] by [K, N] with K = segments * k; M is given later. */
typedef struct quern_ukernel_problem {
  size_t struct_size;
  int32_t lhs;             /* F64 F32 F16 BF16 I8 U8; I8D: float32 rows that are quantized at run time */
  int32_t rhs;             /* of the weights as they are given: F64 F32 F16 BF16 I8 U8 U4 U2 Q4_0 Q4_1 Q8_0 */
  size_t n;                /* columns of the weights and the result; may be 0 */
  size_t k;                /* elements that are summed, per segment; may be 0 */
  size_t segments;         /* taps of a convolution; 0 is 1 */
  size_t block;            /* block-quantized weights: elements along K per scale (not for GGUF's) */
  int32_t scale;           /* format of their scales */
  int32_t zero_point;      /* U8: integer zero points are given; F32: float ones */
  int32_t channel_scales;  /* 1: a float32 scale per column (I8D by I8) */
  int32_t precision;       /* the least that is allowed */
  int32_t lhs_form;        /* how the left side is addressed, one of quern_ukernel_lhs_form; 0: rows */
  int32_t rhs_at_run_time; /* 1: packed for every product, which then costs */
  int32_t allow_expansion; /* 1: blocks may become floats in memory, 8 times larger */
  int32_t any_host;        /* 1: kernels without code in this build count: a choice for another machine */
  size_t expected_m;       /* for the layout; 0: few and many rows alike */
} quern_ukernel_problem;
static inline void quern_ukernel_problem_init(quern_ukernel_problem* problem) {
  memset(problem, 0, sizeof *problem);
  problem->struct_size = sizeof *problem;
}

/* Reasons of quern_ukernel_candidate. Of a kernel, whatever the layout: */
typedef enum quern_ukernel_reason {
  QUERN_UKERNEL_CHOSEN = 0,
  QUERN_UKERNEL_COSTS_MORE = 1, /* it would serve; see `cycles` */
  QUERN_UKERNEL_OTHER_LHS = 2,  /* reads another left side */
  QUERN_UKERNEL_OTHER_ARCH = 3,
  QUERN_UKERNEL_LACKS_FEATURE = 4, /* the CPU does */
  QUERN_UKERNEL_BY_NAME_ALONE = 5, /* portable twins of other kernels, for tests */
  QUERN_UKERNEL_NO_BODY = 6,       /* no code in this build */
  QUERN_UKERNEL_LESS_PRECISE = 7,
  QUERN_UKERNEL_K_DIVISOR = 8,
  QUERN_UKERNEL_BLOCK_DIVISOR = 9,
  QUERN_UKERNEL_OTHER_LHS_FORM = 10,
  QUERN_UKERNEL_OTHER_LAYOUT = 11,
  QUERN_UKERNEL_NO_TRANSFORM = 12, /* from the layout to what it reads */
  QUERN_UKERNEL_NO_LAYOUT = 13     /* none of its layouts keeps these weights */
} quern_ukernel_reason;
typedef struct quern_ukernel_candidate {
  const quern_ukernel* kernel;
  double cycles;  /* of the whole product on one core, an estimate; 0 for rejected ones */
  int32_t reason; /* quern_ukernel_reason */
  char text[124]; /* "needs sme2", "K % 32 != 0", "cost 1.8x of best"; "" for the chosen one */
} quern_ukernel_candidate;

/* At load: the layout that weights should be packed in, by what they then cost over few and many rows (or expected_m).
 * UNSUPPORTED: no kernel serves the problem on this CPU; quern_ukernel_select with a NULL layout says why. */
QUERN_UKERNEL_API quern_ukernel_status quern_ukernel_select_layout(const quern_ukernel_problem* problem,
                                                                   const quern_cpu* cpu, quern_ukernel_layout* layout);
/* Per M: the cheapest kernel that takes this layout. candidates (may be NULL, room for `capacity`, best
 * quern_ukernel_count()) gets every kernel with its reason: the chosen one first, then by cycles, then the rejected.
 * *count (may be NULL) gets their number. With a NULL layout, of the one that quern_ukernel_select_layout gives; where
 * there is none (UNSUPPORTED), the candidates say what each kernel lacks. */
QUERN_UKERNEL_API quern_ukernel_status quern_ukernel_select(const quern_ukernel_problem* problem, const quern_cpu* cpu,
                                                            const quern_ukernel_layout* layout, size_t m,
                                                            const quern_ukernel** kernel,
                                                            quern_ukernel_candidate* candidates, size_t capacity,
                                                            size_t* count);

/* ---------------------------------------------------------------- a plan: steps, sizes and offsets */
/* Everything that follows from (kernel, layout, problem, CPU). A plain value, filled by quern_ukernel_make_plan;
 * callers read it. Work may be cut anywhere along M at multiples of m_unit and along N at multiples of n_unit. Cut at
 * multiples of m_step and n_step, results have the same bits however many parts there are (those of integer
 * accumulators always have). */
typedef struct quern_ukernel_plan {
  size_t struct_size;
  const quern_ukernel* kernel; /* that the plan is for */
  quern_ukernel_layout layout; /* of the packed weights */
  size_t n;                    /* the problem's: columns, */
  size_t k;                    /* elements of K per segment, */
  size_t segments;             /* at least 1, */
  size_t block;        /* elements along K per scale (32 for GGUF's blocks), 0 where weights have no scales per block */
  size_t m_step;       /* rows of a tile */
  size_t n_step;       /* columns of a tile */
  size_t k_step;       /* blocks of K begin at multiples of this (of whole K when segments > 1) */
  size_t m_unit;       /* parts of M begin at multiples of this: rows of a packed panel, else 1 */
  size_t n_unit;       /* parts of N: columns of a unit */
  size_t vector_bytes; /* that operands are packed for; 0 for fixed layouts */
  int32_t whole_panel; /* a call takes any number of rows and columns */
  int32_t packs_lhs;   /* the left side goes through quern_ukernel_pack_lhs */
  int32_t transforms;  /* a block of K of the weights goes through quern_ukernel_transform before it is read */
  int32_t acc;         /* format of accumulators, 4 bytes each (F64: 8) */
  int32_t lhs_source;  /* format of the rows that are given */
  int32_t dynamic;     /* rows are quantized at run time: quern_ukernel_dynamic_ops */
  size_t scratch_bytes;   /* of quern_ukernel_args.scratch, per thread */
  size_t rhs_bytes;       /* of the packed weights */
  size_t rhs_units;       /* units of n_unit columns that they consist of, the last one padded */
  size_t rhs_unit_stride; /* bytes from the start of a unit to that of the next */
  size_t rhs_sums_offset; /* from the start of the packed weights, as the next ones */
  size_t rhs_channel_scales_offset;
  size_t rhs_bias_offset;
  size_t lhs_panel_stride; /* of the packed left side; with m_unit 1, its row stride */
  uint64_t internal[40];   /* the library's own, without pointers to the caller's memory; neither read nor written */
} quern_ukernel_plan;
static inline void quern_ukernel_plan_init(quern_ukernel_plan* plan) {
  memset(plan, 0, sizeof *plan);
  plan->struct_size = sizeof *plan;
}
/* UNSUPPORTED: the kernel cannot serve the problem on this CPU or does not take the layout, or the layout cannot keep
 * the weights. */
QUERN_UKERNEL_API quern_ukernel_status quern_ukernel_make_plan(const quern_ukernel* kernel,
                                                               const quern_ukernel_layout* layout,
                                                               const quern_ukernel_problem* problem,
                                                               const quern_cpu* cpu, quern_ukernel_plan* plan);
/* Where column n (a multiple of n_unit) of the packed weights begins. */
QUERN_UKERNEL_API size_t quern_ukernel_rhs_offset(const quern_ukernel_plan* plan, size_t n);
/* Where a tap's elements begin within each unit, for quern_ukernel_tap.rhs_offset. */
QUERN_UKERNEL_API size_t quern_ukernel_rhs_tap_offset(const quern_ukernel_plan* plan, size_t tap);
/* Bytes of the packed left side of m rows. */
QUERN_UKERNEL_API quern_ukernel_status quern_ukernel_lhs_bytes(const quern_ukernel_plan* plan, size_t m, size_t* bytes);
/* Where the panel of row m (a multiple of m_unit) begins in it. */
QUERN_UKERNEL_API size_t quern_ukernel_lhs_offset(const quern_ukernel_plan* plan, size_t m);
/* Where element (m, n) of a matrix of this format is. */
QUERN_UKERNEL_API size_t quern_ukernel_dst_offset(size_t m, size_t n, size_t row_stride, int32_t format);
/* Bytes of the transformed weights of n columns (from a multiple of n_unit) over k elements; 0 where the plan does not
 * transform. */
QUERN_UKERNEL_API size_t quern_ukernel_panel_bytes(const quern_ukernel_plan* plan, size_t n, size_t k);

/* ---------------------------------------------------------------- packing */
/* What packing or transforming found. */
enum {
  /* Numbers that lose more by a split in bf16 terms than its precision says (infinities, NaN, exponents near the ends
   * of the range, one number that outweighs all others of its row or column): compute these rows or columns with a
   * kernel of QUERN_UKERNEL_FP32 that reads float32 rows; it takes the same packed weights. */
  QUERN_UKERNEL_SPLIT_UNSAFE = 1,
  /* Few numbers of some row or column count beside its largest: as SPLIT_UNSAFE, but only where rows and columns that
   * meet both have this flag. */
  QUERN_UKERNEL_SPLIT_FEW = 2
};

/* Weights as they are. Strides may be anything, negative or zero too. */
typedef struct quern_ukernel_rhs_source {
  size_t struct_size;
  /* F64 F32 F16 BF16 I8 U8: element (segment s, k, n) at data + s*segment_stride + k*k_stride + n*n_stride.
   * U4 U2, U8 with scales: uint8 [n][ceil(K / block)][block*bits/8] at n*n_stride + block*block_stride, the lowest k in
   * the low bits (MatMulNBits). Q4_0 Q4_1 Q8_0: GGUF's blocks at n*n_stride + block*block_stride. */
  int32_t format;
  int32_t scale_format; /* F32 F16 BF16 */
  const void* data;     /* the first element or block; the caller's, read by the packing only, as all pointers here */
  ptrdiff_t k_stride, n_stride, segment_stride, block_stride; /* bytes, as `format` says; others are not read */
  const void* scales; /* at n*scale_n_stride + block*scale_block_stride; w = scale * (q - zero point) */
  ptrdiff_t scale_n_stride, scale_block_stride; /* bytes */
  /* Per (n, block); NULL: 2^(bits - 1). In the weights' format, packed along blocks in rows at n*zero_point_n_stride;
   * or F32 F16 BF16 elements along blocks. */
  const void* zero_points;
  ptrdiff_t zero_point_n_stride; /* bytes */
  int32_t zero_point_format;     /* of what zero_points points to */
  const float* channel_scales;   /* [n]; NULL packs ones */
  const void* bias;              /* [n] of the layout's bias format; NULL packs zeros */
} quern_ukernel_rhs_source;
static inline void quern_ukernel_rhs_source_init(quern_ukernel_rhs_source* source) {
  memset(source, 0, sizeof *source);
  source->struct_size = sizeof *source;
}
/* Packs the columns [n_begin, n_end) into `packed`, which is the whole buffer of rhs_bytes; ranges may be packed by
 * several threads at once. n_begin is a multiple of n_unit, n_end one or N. *flags (may be NULL): what was found. */
QUERN_UKERNEL_API quern_ukernel_status quern_ukernel_pack_rhs(const quern_ukernel_plan* plan,
                                                              const quern_ukernel_rhs_source* source, size_t n_begin,
                                                              size_t n_end, void* packed, uint32_t* flags);

/* One segment of K: a kernel position of a convolution, or one product of a batch-reduce. */
typedef struct quern_ukernel_tap {
  ptrdiff_t lhs_offset; /* bytes from lhs */
  size_t rhs_offset;    /* bytes from the start of each unit: quern_ukernel_rhs_tap_offset */
} quern_ukernel_tap;

/* Rows as they are, addressed in one of the forms but PACKED. */
typedef struct quern_ukernel_lhs_source {
  size_t struct_size;
  int32_t format;                  /* 0: the plan's lhs_source */
  int32_t form;                    /* quern_ukernel_lhs_form; 0: rows */
  const void* data;                /* ROWS: row 0; TAPS: what the taps' offsets count from. Not used by ROW_POINTERS */
  ptrdiff_t row_stride;            /* bytes from row to row, for ROWS and TAPS; the elements of a row are neighbours */
  const quern_ukernel_tap* taps;   /* one per segment; rhs_offset is not read */
  const void* const* row_pointers; /* row m of segment s: row_pointers[s*row_pointer_pitch + m] */
  size_t row_pointer_pitch;        /* pointers */
  ptrdiff_t row_pointer_offset;    /* bytes, added to each pointer but zero_row */
  const void* zero_row;            /* the row of padding, never moved: k elements; NULL: there is none */
} quern_ukernel_lhs_source;
static inline void quern_ukernel_lhs_source_init(quern_ukernel_lhs_source* source) {
  memset(source, 0, sizeof *source);
  source->struct_size = sizeof *source;
}
/* Packs the rows [m_begin, m_end) of m into `packed` (the whole buffer of quern_ukernel_lhs_bytes), quantizing or
 * splitting them as the kernel reads them; ranges may be packed by several threads at once. m_begin is a multiple of
 * m_unit, m_end one or m. UNSUPPORTED where the plan reads rows as they are (packs_lhs is 0). */
QUERN_UKERNEL_API quern_ukernel_status quern_ukernel_pack_lhs(const quern_ukernel_plan* plan, size_t m,
                                                              const quern_ukernel_lhs_source* source, size_t m_begin,
                                                              size_t m_end, void* packed, uint32_t* flags);

/* ---------------------------------------------------------------- operations on results */
/* x is the value at row m, column n. Vectors and matrices are indexed by the position in the whole output. On an I32
 * accumulator operations stay in int32 (wrapping) up to the first that is not marked; that one sees float32, rounded to
 * nearest even. Float arithmetic is float32, one rounding per operation. F64 accumulators take none of them. */
typedef enum quern_ukernel_op_kind {
  QUERN_UKERNEL_OP_ADD_VECTOR_N = 0,     /* x + data[n]              (integer too: data of the accumulator's type) */
  QUERN_UKERNEL_OP_MUL_VECTOR_N = 1,     /* x * data[n] */
  QUERN_UKERNEL_OP_ADD_VECTOR_M = 2,     /* x + data[m]              (integer too) */
  QUERN_UKERNEL_OP_MUL_VECTOR_M = 3,     /* x * data[m] */
  QUERN_UKERNEL_OP_DIV_VECTOR_M = 4,     /* x / data[m] */
  QUERN_UKERNEL_OP_ADD_OUTER = 5,        /* x + data[m] * data2[n]   (integer too) */
  QUERN_UKERNEL_OP_ADD_OUTER_SCALAR = 6, /* x + a * data2[n]         (integer too: `integer` for a) */
  QUERN_UKERNEL_OP_ADD_MATRIX = 7,       /* x + data[m][n], `format` F32 F16 BF16, row_stride */
  QUERN_UKERNEL_OP_MUL_MATRIX = 8,       /* x * data[m][n] */
  QUERN_UKERNEL_OP_ADD_SCALAR = 9,       /* x + a                    (integer too: `integer`) */
  QUERN_UKERNEL_OP_MUL_SCALAR = 10,      /* x * a */
  QUERN_UKERNEL_OP_CLAMP = 11,           /* min(max(x, a), b); NaN stays. Relu is a = 0, b = infinity */
  QUERN_UKERNEL_OP_LEAKY_RELU = 12,      /* x < 0 ? a * x : x; a finite */
  QUERN_UKERNEL_OP_PRELU = 13,           /* x < 0 ? data[n] * x : x; data finite */
  QUERN_UKERNEL_OP_HARD_SIGMOID = 14,    /* clamp(a*x + b, 0, 1) */
  QUERN_UKERNEL_OP_HARD_SWISH = 15,      /* x * clamp(x/6 + 1/2, 0, 1) */
  QUERN_UKERNEL_OP_SIGMOID = 16,
  QUERN_UKERNEL_OP_SILU = 17, /* x * sigmoid(a*x) */
  QUERN_UKERNEL_OP_TANH = 18,
  QUERN_UKERNEL_OP_ELU = 19,  /* x < 0 ? a * (exp(x) - 1) : x */
  QUERN_UKERNEL_OP_GELU = 20, /* with erf */
  QUERN_UKERNEL_OP_GELU_TANH = 21,
  QUERN_UKERNEL_OP_SOFTPLUS = 22,
  QUERN_UKERNEL_OP_EXP = 23,
  QUERN_UKERNEL_OP_REQUANTIZE = 24,     /* clamp(rint(x * scale) + integer) stored as `format` I8 or U8, the range
                                           narrowed to [a, b] if a < b; scale is data[n] if data is given */
  QUERN_UKERNEL_OP_CONVERT = 25,        /* stored as `format` F32 F16 BF16. Both end the list but for reductions */
  QUERN_UKERNEL_OP_ROW_MIN_MAX = 26,    /* float32 out[m][2] = {min, max} combined with what is there */
  QUERN_UKERNEL_OP_ROW_SUM_SQUARES = 27 /* float32 out[m] += x*x */
} quern_ukernel_op_kind;
typedef struct quern_ukernel_op {
  int32_t kind;         /* quern_ukernel_op_kind, which says what the other fields mean */
  int32_t format;       /* of the matrix (ADD_MATRIX, MUL_MATRIX); of what is stored (REQUANTIZE, CONVERT) */
  const void* data;     /* [N], [M] or a matrix [M][N], of the whole output; the caller's, read by each run */
  const void* data2;    /* [N], for ADD_OUTER and ADD_OUTER_SCALAR */
  size_t row_stride;    /* bytes between rows of a matrix */
  float a, b;           /* numbers of the kind's formula */
  float scale;          /* of REQUANTIZE without data: result units per unit of the accumulator */
  int32_t integer;      /* ADD_SCALAR and ADD_OUTER_SCALAR on int32; the zero point of REQUANTIZE */
  void* out;            /* of reductions; callers that split N give each part its own */
  uint64_t reserved[2]; /* 0 */
} quern_ukernel_op;
static inline void quern_ukernel_op_init(quern_ukernel_op* op, int32_t kind) {
  memset(op, 0, sizeof *op);
  op->kind = kind;
  op->format = QUERN_UKERNEL_F32;
  op->scale = 1;
}
#define QUERN_UKERNEL_MAX_OPS 8 /* of a list; those of quern_ukernel_dynamic_ops come on top */
/* "add_vector_n"; NULL for other numbers. */
QUERN_UKERNEL_API const char* quern_ukernel_op_name(int32_t kind);
/* The format of results after ops[0..count) on accumulators of format `acc`. */
QUERN_UKERNEL_API int32_t quern_ukernel_result_format(int32_t acc, const quern_ukernel_op* ops, size_t count);
/* How many of the first operations the kernel runs itself. */
QUERN_UKERNEL_API size_t quern_ukernel_fused_ops(const quern_ukernel* kernel, const quern_ukernel_op* ops,
                                                 size_t count);
/* The operations that make real numbers of products of dynamically quantized rows; they come before all others. Writes
 * at most 3 and returns their number, 0 where the plan is not dynamic. packed_lhs are the packed rows, of m in all. */
QUERN_UKERNEL_API size_t quern_ukernel_dynamic_ops(const quern_ukernel_plan* plan, const void* packed_lhs, size_t m,
                                                   const void* packed_rhs, quern_ukernel_op* ops);
/* Runs ops on a block of m x n results at (m0, n0) of the output: what a kernel does not fuse. src is of src_format F32
 * or I32; dst, of quern_ukernel_result_format(src_format, ...), may be src. */
QUERN_UKERNEL_API void quern_ukernel_apply_ops(const quern_ukernel_plan* plan, const quern_ukernel_op* ops,
                                               size_t count, size_t m0, size_t m, size_t n0, size_t n, const void* src,
                                               size_t src_row_stride, int32_t src_format, void* dst,
                                               size_t dst_row_stride);

/* ---------------------------------------------------------------- running */
/* Kernels with a mode (AMX tile configuration) run between these, on the same thread; once around many calls. Others
 * do nothing. */
QUERN_UKERNEL_API void quern_ukernel_enter(const quern_ukernel* kernel);
QUERN_UKERNEL_API void quern_ukernel_leave(const quern_ukernel* kernel);

/* One call of a kernel. It computes acc[m][n] (+)= sum over taps and k for a tile; with last_k it then runs the fused
 * operations and writes dst. quern_ukernel_tile fills it. Nothing may alias dst or acc, but acc may be dst where both
 * have the accumulator's format. */
typedef struct quern_ukernel_args {
  size_t struct_size;
  size_t m, n;                     /* up to the plan's steps; any number with whole_panel */
  size_t k;                        /* elements per tap */
  int32_t lhs_form;                /* one of quern_ukernel_lhs_form */
  int32_t rhs_in_place;            /* 1: rhs is a matrix, element (k, n) at rhs + k*rhs_k_stride + n*element size */
  const void* lhs;                 /* first row or panel, at the block's first k */
  ptrdiff_t lhs_row_stride;        /* PACKED: between panels */
  const void* lhs_scales;          /* I8B: float32 scales of the first row's blocks from the block's first k on */
  const quern_ukernel_tap* taps;   /* TAPS: tap_count of them, offsets from lhs and rhs */
  size_t tap_count;                /* TAPS and ROW_POINTERS; 1 otherwise */
  const void* const* row_pointers; /* as in quern_ukernel_lhs_source, from the tile's first row on */
  size_t row_pointer_pitch;        /* pointers from a tap's first row to the next tap's */
  ptrdiff_t row_pointer_offset;    /* bytes, added to each pointer but zero_row: moves the call along K */
  const void* zero_row;            /* the row of padding, k elements */
  const void* rhs;                 /* elements of the first unit at the block's first k */
  size_t rhs_unit_stride;          /* bytes from a unit of columns to the next; not in place */
  size_t rhs_k_stride;             /* bytes from k to the next, in place */
  size_t rhs_tap_stride;           /* ROW_POINTERS: bytes within a unit, from tap to tap */
  const void* rhs_scales;          /* of the first unit at the block's first k, [block][n_unit], units as far apart as
                                      those of rhs */
  const void* rhs_offsets;         /* zero points or minima, likewise; NULL: none */
  int32_t rhs_scale_format;        /* quern_ukernel_format of rhs_scales: F32 F16 BF16, or NONE */
  int32_t rhs_offset_format;       /* of rhs_offsets: U8 zero points, F32 minima, NONE: the zero point 2^(bits-1) */
  size_t block;                    /* elements along K per scale */
  const void* rhs_sums;            /* the layout's sums [N], at the tile's first column */
  int32_t first_k;                 /* 1: start from zero; 0: from acc */
  int32_t last_k;                  /* 1: run ops and write dst; 0: write acc */
  void* acc;                       /* accumulators of the tile, [m][n] of 4 bytes; not used with first_k and last_k */
  size_t acc_row_stride;           /* bytes from row to row */
  void* dst;                       /* results of the tile, [m][n] of quern_ukernel_result_format */
  size_t dst_row_stride;           /* bytes from row to row */
  const quern_ukernel_op* ops;     /* only operations that the kernel fuses */
  size_t op_count;                 /* of ops */
  size_t m0, n0;                   /* position of the tile in the output, for the ops' operands */
  size_t vector_bytes;             /* of SVE or streaming vectors that the operands were packed for: the plan's */
  void* scratch;                   /* the plan's scratch_bytes, the thread's own */
  int32_t stream_into_l1;          /* 1: few rows ask for weights ahead into L1, 0: into L2; a matter of speed alone */
} quern_ukernel_args;
static inline void quern_ukernel_args_init(quern_ukernel_args* args) {
  memset(args, 0, sizeof *args);
  args->struct_size = sizeof *args;
}

/* A part of a product: rows [m_begin, m_end) by columns [n_begin, n_end) over one block of K. Pointers are to the whole
 * operands. */
typedef struct quern_ukernel_block {
  size_t struct_size;
  size_t m_begin, m_end;           /* m_begin a multiple of the plan's m_unit */
  size_t n_begin, n_end;           /* n_begin a multiple of n_unit */
  size_t k_begin, k_end;           /* multiples of k_step (the last one is K); 0, 0: the whole K, as segments need it */
  size_t m;                        /* rows of the whole packed left side, for the dynamic operations of run_block */
  const void* lhs;                 /* packed, where the plan packs; else rows (or the image of TAPS) */
  ptrdiff_t lhs_row_stride;        /* where it is not packed */
  int32_t lhs_form;                /* where it is not packed: ROWS (0), TAPS or ROW_POINTERS, with these */
  int32_t reserved;                /* 0 */
  const quern_ukernel_tap* taps;   /* TAPS: tap_count of them, offsets from lhs and from the start of each unit */
  size_t tap_count;                /* 0: the segments */
  const void* const* row_pointers; /* ROW_POINTERS, as in quern_ukernel_lhs_source: row m of tap t at [t*pitch + m] */
  size_t row_pointer_pitch;        /* pointers from a tap's row 0 to the next tap's */
  ptrdiff_t row_pointer_offset;    /* bytes, added to each pointer but zero_row */
  const void* zero_row;            /* the row of padding, k elements; NULL: there is none */
  const void* rhs;                 /* packed weights, from their start */
  const void* panel;               /* quern_ukernel_tile of a plan that transforms: what quern_ukernel_transform made */
  size_t panel_n;                  /* first column of the panel, a multiple of n_unit */
  void* dst;                       /* the whole output, [M][N] of quern_ukernel_result_format after all ops */
  size_t dst_row_stride;           /* bytes from row to row */
  void* acc;                   /* several blocks of K: accumulators of the whole output, [M][N] of 4 bytes; may be dst
                                  where that has the accumulator's format */
  size_t acc_row_stride;       /* bytes from row to row */
  const quern_ukernel_op* ops; /* quern_ukernel_tile: only those that the kernel fuses; run_block: any */
  size_t op_count;             /* of ops */
  void* scratch;               /* quern_ukernel_tile: the plan's scratch_bytes, the thread's own */
} quern_ukernel_block;
static inline void quern_ukernel_block_init(quern_ukernel_block* block) {
  memset(block, 0, sizeof *block);
  block->struct_size = sizeof *block;
}

/* Brings the weights of columns [n_begin, n_end) over K values [k_begin, k_end) (0, 0: all) into the form that the
 * kernel reads: once per panel and block of K, whatever M. panel has quern_ukernel_panel_bytes. Returns flags. */
QUERN_UKERNEL_API uint32_t quern_ukernel_transform(const quern_ukernel_plan* plan, const void* packed_rhs,
                                                   size_t n_begin, size_t n_end, size_t k_begin, size_t k_end,
                                                   void* panel);
/* Fills args for the tile at row m, column n of the block: at most m_step x n_step, within the block (with whole_panel:
 * all of the block from there on). */
QUERN_UKERNEL_API void quern_ukernel_tile(const quern_ukernel_plan* plan, const quern_ukernel_block* block, size_t m,
                                          size_t n, quern_ukernel_args* args);
/* The kernel itself. */
QUERN_UKERNEL_API void quern_ukernel_run(const quern_ukernel* kernel, const quern_ukernel_args* args);

/* All of a block on the calling thread: mode, transforms, tiles, dynamic operations, operations that the kernel fuses
 * or not. panel and scratch of the block are not used; workspace has quern_ukernel_workspace_bytes. Returns flags: with
 * SPLIT_UNSAFE, columns of the block should be computed again by a kernel of QUERN_UKERNEL_FP32. */
QUERN_UKERNEL_API size_t quern_ukernel_workspace_bytes(const quern_ukernel_plan* plan,
                                                       const quern_ukernel_block* block);
QUERN_UKERNEL_API uint32_t quern_ukernel_run_block(const quern_ukernel_plan* plan, const quern_ukernel_block* block,
                                                   void* workspace);

#ifdef __cplusplus
}
#endif

#endif /* QUERN_UKERNEL_H_ */
