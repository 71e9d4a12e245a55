/* quern.h: the C ABI of Quern (C99). Load or build a model, make a session, run it.
 *
 * Rules
 * - Functions return quern_status: 0 is success, else the reason's class; quern_error_message() gives the calling
 *   thread's last failure in words (it names the node, tensor or byte and says what to do).
 * - Opaque handles are made by *_create, *_load, ... and freed by the function of the same family; NULL may be freed.
 *   A handle keeps what it needs of others alive: a model may be freed once its session exists.
 * - A session may be run by several threads at once. Other handles are used by one thread at a time.
 * - Names and strings are UTF-8, zero-terminated; those returned live as long as their handle unless said otherwise.
 * - Element types are ONNX's TensorProto.DataType numbers; block formats (QUERN_Q4_0...) follow from 64.
 * - Strides count elements.
 * - Structs begin with struct_size, which their *_init function sets; it zeroes the rest, and zero is always the
 * default. The functions are inline, so that the size is the one the caller was compiled with; a binding of another
 * language does as they do. Later versions only append fields: the library reads and writes no more than struct_size
 * bytes, and refuses fields beyond those it knows unless they are zero. In an array of structs all have the same size.
 */
#ifndef QUERN_H_
#define QUERN_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define QUERN_API __attribute__((visibility("default")))
#else
#define QUERN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define QUERN_ABI_VERSION 1
/* "0.1.0", and the ABI version the library was built with. */
QUERN_API const char* quern_version(void);
QUERN_API int32_t quern_abi_version(void);

typedef enum quern_status {
  QUERN_OK = 0,
  QUERN_INVALID_ARGUMENT = 1,
  QUERN_UNSUPPORTED = 2,
  QUERN_NOT_FOUND = 3,
  QUERN_CORRUPT = 4,
  QUERN_RESOURCE_EXHAUSTED = 5,
  QUERN_CANCELLED = 6,
  QUERN_IO_ERROR = 7,
  QUERN_INTERNAL = 8
} quern_status;
/* The calling thread's last failure; "" when there was none. Valid until its next failing call. */
QUERN_API const char* quern_error_message(void);
/* "invalid argument", "unsupported"... */
QUERN_API const char* quern_status_name(int32_t status);

typedef enum quern_dtype {
  QUERN_UNDEFINED = 0,
  QUERN_F32 = 1,
  QUERN_U8 = 2,
  QUERN_I8 = 3,
  QUERN_U16 = 4,
  QUERN_I16 = 5,
  QUERN_I32 = 6,
  QUERN_I64 = 7,
  QUERN_STRING = 8,
  QUERN_BOOL = 9,
  QUERN_F16 = 10,
  QUERN_F64 = 11,
  QUERN_U32 = 12,
  QUERN_U64 = 13,
  QUERN_C64 = 14,
  QUERN_C128 = 15,
  QUERN_BF16 = 16,
  QUERN_F8E4M3FN = 17,
  QUERN_F8E4M3FNUZ = 18,
  QUERN_F8E5M2 = 19,
  QUERN_F8E5M2FNUZ = 20,
  QUERN_U4 = 21,
  QUERN_I4 = 22,
  QUERN_F4E2M1 = 23,
  QUERN_F8E8M0 = 24,
  QUERN_U2 = 25,
  QUERN_I2 = 26,
  QUERN_F6E2M3 = 27,
  QUERN_F6E3M2 = 28,
  QUERN_Q4_0 = 64,
  QUERN_Q4_1 = 65,
  QUERN_Q8_0 = 66
} quern_dtype;
/* "f32", "q4_0"...; elements and bytes of a block (1 and the element size for plain types). */
QUERN_API const char* quern_dtype_name(int32_t dtype);
QUERN_API size_t quern_dtype_block_elements(int32_t dtype);
QUERN_API size_t quern_dtype_block_bytes(int32_t dtype);

typedef enum quern_kind {
  QUERN_KIND_NONE = 0,
  QUERN_KIND_TENSOR = 1,
  QUERN_KIND_STRINGS = 2,
  QUERN_KIND_SEQUENCE = 3,
  QUERN_KIND_OPTIONAL = 4,
  QUERN_KIND_MAP = 5
} quern_kind;

/* ---------------------------------------------------------------- log */
typedef enum quern_log_level {
  QUERN_LOG_VERBOSE = 0,
  QUERN_LOG_INFO = 1,
  QUERN_LOG_WARNING = 2,
  QUERN_LOG_ERROR = 3,
  QUERN_LOG_OFF = 4
} quern_log_level;
/* Process-wide. callback may be called by any thread, one call at a time; NULL restores standard error. */
QUERN_API void quern_set_log(quern_log_level lowest, void (*callback)(void* user, quern_log_level, const char* message),
                             void* user);

/* ---------------------------------------------------------------- values */
typedef struct quern_value quern_value;
typedef void (*quern_release_fn)(void* user, void* data);

/* A tensor with memory of its own, uninitialised. */
QUERN_API quern_status quern_tensor_create(int32_t dtype, int32_t rank, const int64_t* dims, quern_value** out);
/* A tensor over the caller's memory, without a copy. strides NULL: contiguous; otherwise 0 (repeated) or positive, for
 * whole-byte types. data must be aligned for an element. bytes: size of the memory, checked against what dims and
 * strides reach. release (may be NULL) is called once, when nothing uses the memory any more, and never when this call
 * fails. */
QUERN_API quern_status quern_tensor_wrap(int32_t dtype, int32_t rank, const int64_t* dims, const int64_t* strides,
                                         void* data, size_t bytes, quern_release_fn release, void* user,
                                         quern_value** out);
/* values: row-major, copied. lengths (may be NULL: zero-terminated) in bytes. */
QUERN_API quern_status quern_strings_create(int32_t rank, const int64_t* dims, const char* const* values,
                                            const size_t* lengths, quern_value** out);
/* Elements are shared, not taken: the caller still frees its handles. */
QUERN_API quern_status quern_sequence_create(const quern_value* const* elements, size_t count, quern_value** out);
QUERN_API quern_status quern_optional_create(const quern_value* element /* NULL: empty */, quern_value** out);
/* keys: an i64 tensor or a strings value of rank 1; one value per key. */
QUERN_API quern_status quern_map_create(const quern_value* keys, const quern_value* const* values, size_t count,
                                        quern_value** out);
QUERN_API quern_value* quern_value_share(const quern_value* value); /* another handle on the same content */
QUERN_API void quern_value_free(quern_value* value);

QUERN_API quern_kind quern_value_kind(const quern_value* value);
/* Tensors and strings. */
QUERN_API int32_t quern_value_dtype(const quern_value* value);
QUERN_API int32_t quern_value_rank(const quern_value* value);
QUERN_API const int64_t* quern_value_dims(const quern_value* value);
QUERN_API const int64_t* quern_value_strides(const quern_value* value); /* NULL for strings */
QUERN_API void* quern_value_data(const quern_value* value);             /* first element; NULL unless a tensor */
QUERN_API size_t quern_value_bytes(const quern_value* value);           /* of the contiguous form */
QUERN_API quern_status quern_value_string(const quern_value* value, size_t index, const char** text, size_t* length);
/* Sequences, optionals (0 or 1) and maps: number of elements; a new handle on one. */
QUERN_API size_t quern_value_count(const quern_value* value);
QUERN_API quern_status quern_value_element(const quern_value* value, size_t index, quern_value** out);
/* Keys of a map as an i64 tensor or strings value. */
QUERN_API quern_status quern_value_keys(const quern_value* value, quern_value** out);
/* The values of a map whose values are all scalars of type `dtype`: `count` of them, in the order of its keys, to
 * `out`, an array of that type. */
QUERN_API quern_status quern_value_map_numbers(const quern_value* value, int32_t dtype, void* out, size_t count);
/* From and to serialized TensorProto (kinds TENSOR and STRINGS alike), SequenceProto, OptionalProto, MapProto. The kind
 * says which to read; bytes are copied. *bytes is freed by quern_buffer_free. name may be NULL. */
QUERN_API quern_status quern_value_from_proto(quern_kind kind, const void* bytes, size_t size, quern_value** out);
QUERN_API quern_status quern_value_to_proto(const quern_value* value, const char* name, void** bytes, size_t* size);
QUERN_API void quern_buffer_free(void* bytes);

/* ---------------------------------------------------------------- models */
typedef struct quern_model quern_model;
/* What an untrusted model may ask for; going beyond is QUERN_RESOURCE_EXHAUSTED. 0: the default, in brackets. Give the
 * same limits to the model and to its sessions. */
typedef struct quern_limits {
  size_t struct_size;
  uint64_t model_bytes;  /* a model file, or its bytes in memory (64 GiB) */
  uint64_t tensor_bytes; /* one tensor: initializer, constant or computed value (64 GiB) */
  uint64_t memory_bytes; /* all that a session or run holds at once (256 GiB) */
  uint64_t folded_bytes; /* a value that constant folding may create; a larger one is computed by each run (64 MiB) */
  uint64_t nodes;        /* in all graphs of a model together (2 million) */
  uint64_t attribute_elements; /* in one list attribute (2^28) */
  uint64_t loop_iterations;    /* of one Loop (2^24: minutes even when the body does next to nothing) */
  uint64_t subgraph_depth;     /* graphs within graphs (32; more than 128 is taken as 128, which stacks hold) */
  uint64_t type_depth;         /* sequence of optional of ... (16; at most 128) */
  uint64_t rank;               /* dimensions of a tensor (16, which is also the most) */
} quern_limits;
static inline void quern_limits_init(quern_limits* limits) {
  memset(limits, 0, sizeof *limits);
  limits->struct_size = sizeof *limits;
}
/* Sets a limit by the name of its field; an unknown name is QUERN_INVALID_ARGUMENT and the message lists all. */
QUERN_API quern_status quern_limits_set(quern_limits* limits, const char* name, uint64_t value);

/* ONNX files; the file is mapped and must not change while the model or a session of it lives. limits may be NULL. */
QUERN_API quern_status quern_model_load(const char* path, const quern_limits* limits, quern_model** out);
/* The bytes must outlive the model and its sessions unless copy is not 0. folder: where external data lies, NULL when
 * there is none. */
QUERN_API quern_status quern_model_load_memory(const void* bytes, size_t size, int32_t copy, const char* folder,
                                               const quern_limits* limits, quern_model** out);
/* The text form that quern_model_text prints with full constants. */
QUERN_API quern_status quern_model_parse(const char* text, const quern_limits* limits, quern_model** out);
QUERN_API void quern_model_free(quern_model* model);
/* JSON facts: inputs, outputs, operators with counts, parameters, opsets, metadata. Freed by quern_buffer_free. */
QUERN_API quern_status quern_model_facts(const quern_model* model, char** json);
/* Readable text form of the graph. full_constants: 0 shortens large constants (then it does not parse back). */
QUERN_API quern_status quern_model_text(const quern_model* model, int32_t full_constants, char** text);
typedef struct quern_save_options {
  size_t struct_size;
  const char*
      format;        /* "onnx" (default), or "text": the text form with full constants, which quern_model_parse reads */
  const char* stage; /* "file" (default): the graph as it was read or built; "neutral": as the graph passes leave it,
                        which give standard operators only; initializers that are inputs too become constants */
  const char* const* skip_passes; /* names of graph passes to leave out */
  size_t num_skip_passes;
  int32_t external_data;      /* 1: large initializers go to a file beside the model, which may then exceed 2 GB */
  uint64_t external_bytes;    /* the least size of those; 0: default (1024) */
  const char* external_name;  /* of that file; NULL: the model's with ".data" behind it */
  const quern_limits* limits; /* read during the call; may be NULL */
} quern_save_options;
static inline void quern_save_options_init(quern_save_options* options) {
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
}
/* Writes the model to a file, which is replaced as a whole or not at all, also when it is the one that the model was
 * read from. Functions are inlined and sparse tensors dense, as the model shows them. options may be NULL. */
QUERN_API quern_status quern_model_save(const quern_model* model, const char* path, const quern_save_options* options);

/* Building a model node by node. Values are referred to by name. */
QUERN_API quern_status quern_model_create(const char* name, quern_model** out);
/* Which version of an operator set the nodes follow; domain "" is ai.onnx. */
QUERN_API quern_status quern_model_import(quern_model* model, const char* domain, int32_t version);
/* A tensor. rank -1: not known. dims: -1 is an extent not known; symbols (may be NULL): name of a symbolic extent or
 * NULL, one per dimension. */
QUERN_API quern_status quern_model_add_input(quern_model* model, const char* name, int32_t dtype, int32_t rank,
                                             const int64_t* dims, const char* const* symbols);
/* An input of any kind, its type as the text form prints it: "f32[batch,3]", "string[*]" (rank not known),
 * "seq<f32[?,2]>", "opt<i64[]>", "map<string,f32[*]>". */
QUERN_API quern_status quern_model_add_typed_input(quern_model* model, const char* name, const char* type);
/* The content is shared, never copied: block formats reach the kernels as they are. */
QUERN_API quern_status quern_model_add_constant(quern_model* model, const char* name, const quern_value* content);
typedef enum quern_attribute_type {
  QUERN_ATTRIBUTE_INT = 1,
  QUERN_ATTRIBUTE_FLOAT = 2,
  QUERN_ATTRIBUTE_STRING = 3,
  QUERN_ATTRIBUTE_TENSOR = 4,
  QUERN_ATTRIBUTE_GRAPH = 5,
  QUERN_ATTRIBUTE_INTS = 6,
  QUERN_ATTRIBUTE_FLOATS = 7,
  QUERN_ATTRIBUTE_STRINGS = 8
} quern_attribute_type;
typedef struct quern_attribute {
  size_t struct_size;
  const char* name;
  int32_t type; /* a quern_attribute_type; only the field that it names is read */
  int64_t int_value;
  float float_value;
  const char* string_value;
  const quern_value* tensor;
  const quern_model* graph; /* of quern_model_create; copied. Names that it does not define are the outer graph's */
  const int64_t* ints;
  const float* floats;
  const char* const* strings;
  size_t count; /* of ints, floats or strings */
} quern_attribute;
static inline void quern_attribute_init(quern_attribute* attribute) {
  memset(attribute, 0, sizeof *attribute);
  attribute->struct_size = sizeof *attribute;
}
/* inputs and outputs: names, "" for an omitted one. Nodes are added in an order in which they may run. What names do
 * not resolve is found when the model is used. */
QUERN_API quern_status quern_model_add_node(quern_model* model, const char* op_type, const char* domain,
                                            const char* name, const char* const* inputs, size_t num_inputs,
                                            const char* const* outputs, size_t num_outputs,
                                            const quern_attribute* attributes, size_t num_attributes);
QUERN_API quern_status quern_model_add_output(quern_model* model, const char* name);

/* ---------------------------------------------------------------- threads */
typedef struct quern_executor quern_executor;
/* threads 0: as many as the process may use (affinity, cgroup quota). Several sessions may share one. */
QUERN_API quern_status quern_executor_create(int32_t threads, quern_executor** out);
/* A host's own pool: run() must call task(context, slot, begin, end) until [0, total) is covered, slot < concurrency
 * held by one thread at a time; serially on the caller is allowed. The functions must stay valid as long as the
 * executor. */
typedef struct quern_host_executor {
  size_t struct_size;
  void* user;
  int32_t concurrency;
  void (*run)(void* user, int64_t total, int64_t grain,
              void (*task)(void* context, int32_t slot, int64_t begin, int64_t end), void* context);
} quern_host_executor;
static inline void quern_host_executor_init(quern_host_executor* host) {
  memset(host, 0, sizeof *host);
  host->struct_size = sizeof *host;
}
QUERN_API quern_status quern_executor_from_host(const quern_host_executor* host, quern_executor** out);
QUERN_API void quern_executor_free(quern_executor* executor);

/* ---------------------------------------------------------------- sessions */
typedef struct quern_session quern_session;
typedef struct quern_session_options {
  size_t struct_size;
  int32_t threads;                /* 0: default; ignored when executor is set */
  quern_executor* executor;       /* shared; may be NULL */
  const char* cpu;                /* "native", "haswell,-fma"...; NULL: QUERN_CPU or native */
  const char* const* providers;   /* in order of preference; NULL: cpu. reference is always the last resort */
  size_t num_providers;           /* a path with a '/' names a shared library over provider.h */
  const char* precision;          /* "fp32" (default), "fp32-fast", "bf16" */
  const char* const* skip_passes; /* names of graph passes to leave out */
  size_t num_skip_passes;
  int32_t plan_cache_size;          /* plans kept, one per set of input shapes; 0: default (16) */
  const quern_limits* limits;       /* read during the call; may be NULL */
  int32_t overridable_initializers; /* 1: initializers that the file lists as inputs too become inputs, behind the
                                       others; not given, they keep their value. Nothing is folded into them and they
                                       are not packed in advance, so runs are slower. 0: they are constants */
  int32_t profile; /* 1: count the runs of each node and time them, for the facts "profile"; costs each run some 30 ns
                      per node */
  const char* pack_cache;    /* folder where packed weights are kept for the next start and for other processes, which
                                map them; made when missing. Whoever may write there may change results. "": none; NULL:
                                the variable QUERN_CACHE, of which a folder that does not serve is only warned */
  uint64_t pack_cache_bytes; /* beyond this, what was used longest ago is removed; 0: QUERN_CACHE_LIMIT, or 8 GB */
  int32_t serial_branches;   /* 0: with two or more threads, independent branches of small nodes run at the same time
                                where that is expected to be faster, with the same results; 1: never. So too when the
                                variable QUERN_SERIAL_BRANCHES is 1 */
  int32_t flush_denormals;   /* 1: runs take numbers below 2^-126 (float64: 2^-1022) as 0, and make 0 of results below
                                that. They cost many CPUs some 150 cycles each; the facts "profile" say which nodes met
                                any. Threads are as they were after each run. 0: only nodes that sum products do so
                                (convolutions, matrix products, recurrent layers, attention, with what is fused into
                                them; not those of float64) */
  int32_t keep_denormals;    /* 1: those nodes keep such numbers too; not together with flush_denormals */
} quern_session_options;
static inline void quern_session_options_init(quern_session_options* options) {
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
}
/* options may be NULL. The model is not changed and may be used for other sessions. */
QUERN_API quern_status quern_session_create(const quern_model* model, const quern_session_options* options,
                                            quern_session** out);
QUERN_API void quern_session_free(quern_session* session);

QUERN_API size_t quern_session_num_inputs(const quern_session* session);
QUERN_API size_t quern_session_num_outputs(const quern_session* session);
typedef struct quern_port {
  size_t struct_size; /* set by the caller: as much is written */
  const char* name;
  quern_kind kind;
  int32_t dtype;
  int32_t rank;               /* -1: not known */
  const int64_t* dims;        /* -1: symbolic or not known */
  const char* const* symbols; /* name of a symbolic extent, or an expression of names; "" for numbers */
  const char* type_text;      /* "f32[batch,3,224,224]" */
  int32_t has_default;        /* 1: an overridable initializer, which a run need not give */
} quern_port;
static inline void quern_port_init(quern_port* port) {
  memset(port, 0, sizeof *port);
  port->struct_size = sizeof *port;
}
QUERN_API quern_status quern_session_input(const quern_session* session, size_t index, quern_port* out);
QUERN_API quern_status quern_session_output(const quern_session* session, size_t index, quern_port* out);
/* The index of the input of that name; the error of an unknown one lists what the model takes. */
QUERN_API quern_status quern_session_find_input(const quern_session* session, const char* name, size_t* index);

typedef struct quern_cancel quern_cancel;
QUERN_API quern_cancel* quern_cancel_create(void);
QUERN_API void quern_cancel_fire(quern_cancel* cancel); /* from any thread */
QUERN_API void quern_cancel_reset(quern_cancel* cancel);
QUERN_API void quern_cancel_free(quern_cancel* cancel);

/* Runs. inputs: one per session input, in order (NULL for an optional one, or one with a default). outputs: one slot
 * per session output; a slot that is NULL on entry receives a new value, a tensor in the slot is written in place (its
 * type and shape must be the result's; strides allowed). Slots of outputs that are not wanted: want[i] == 0 (want may
 * be NULL: all). The memory of an output that is given, from its first to its last element, must not overlap that of an
 * input or of another output: QUERN_INVALID_ARGUMENT. (What continues an input in place is a state, see below.) With
 * all outputs given, a run whose shapes were seen before allocates nothing. */
typedef struct quern_run_options {
  size_t struct_size;
  quern_cancel* cancel;     /* may be NULL */
  quern_executor* executor; /* for this run only; may be NULL */
  const uint8_t* want;      /* may be NULL */
} quern_run_options;
static inline void quern_run_options_init(quern_run_options* options) {
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
}
QUERN_API quern_status quern_session_run(quern_session* session, const quern_value* const* inputs,
                                         quern_value** outputs, const quern_run_options* options);

/* State: a buffer bound to an input and to the output that continues it (KV cache, recurrent state). axis: the
 * dimension that grows, -1 when the state keeps its shape. No run copies it where the output is the input with rows
 * behind it (Concat, the caches of Attention: only the new rows are written) or where the state keeps its shape: then
 * the buffer and one of the state's own take turns, and quern_state_value says where it is. A growing output of another
 * kind is copied to the buffer after the run. */
typedef struct quern_state quern_state;
typedef struct quern_state_spec {
  size_t struct_size;
  const char* input;
  const char* output;
  int32_t axis;
  const quern_value* buffer; /* tensor whose extent along axis is the capacity */
  int64_t length;            /* extent along axis that is filled at the start */
} quern_state_spec;
static inline void quern_state_spec_init(quern_state_spec* spec) {
  memset(spec, 0, sizeof *spec);
  spec->struct_size = sizeof *spec;
}
/* A run with states takes the other inputs and outputs as usual (the slots of bound ones are ignored, `want` too) and
 * advances each length. Running past the capacity is an error and changes nothing. */
QUERN_API quern_status quern_state_create(quern_session* session, const quern_state_spec* specs, size_t count,
                                          quern_state** out);
QUERN_API quern_status quern_session_run_with_state(quern_session* session, quern_state* state,
                                                    const quern_value* const* inputs, quern_value** outputs,
                                                    const quern_run_options* options);
QUERN_API int64_t quern_state_length(const quern_state* state, size_t index);
QUERN_API quern_status quern_state_set_length(quern_state* state, size_t index, int64_t length);
/* The state as it is now, a view that holds until the next run with it; freed by quern_value_free. */
QUERN_API quern_status quern_state_value(const quern_state* state, size_t index, quern_value** out);
QUERN_API void quern_state_free(quern_state* state);

/* Facts as one versioned JSON document ({"version":1,...}), freed by quern_buffer_free. stage: "neutral", "partition",
 * "compiled", "plan" (of the last shapes run, or of the fixed input shapes), "profile" (of sessions with that option:
 * runs, seconds, operations and bytes of each node, summed since the session was made), or "all". */
QUERN_API quern_status quern_session_facts(const quern_session* session, const char* stage, char** json);
/* The graph's text form after a stage: "neutral", "partition" or "compiled". */
QUERN_API quern_status quern_session_text(const quern_session* session, const char* stage, char** text);

/* Facts about a CPU ("native", "haswell", "apple-m4", ...; NULL: QUERN_CPU or native): features, caches, cores.
 * measure: 1: also time the peaks and the bandwidth of one core (seconds; the host only); 2: of one core and of all. */
QUERN_API quern_status quern_cpu_facts(const char* cpu, int32_t measure, char** json);
/* The micro-kernels: family NULL is all. With m, n, k > 0 and types ("f32,f32,f32": lhs, rhs, dst, and optionally a
 * precision; NULL: these): both selection stages for that shape with every row's cost or reason. */
QUERN_API quern_status quern_kernel_facts(const char* cpu, const char* family, int64_t m, int64_t n, int64_t k,
                                          const char* types, char** json);

/* A line about how far something long has come, on the calling thread. */
typedef void (*quern_progress)(void* user, const char* line);
/* Times this machine's micro-kernels for about so many seconds and gives the text of a
 * calibration file, freed by quern_buffer_free. Sessions and quern_kernel_facts take their cost terms from the file
 * that the environment variable QUERN_CALIBRATION names (for "native" CPUs). progress may be NULL. */
QUERN_API quern_status quern_calibrate(const char* cpu, double seconds, quern_progress progress, void* user,
                                       char** text);
/* Measures whether the micro-kernels chosen for so many seeded shapes are the fastest here. */
QUERN_API quern_status quern_check_selection(const char* cpu, int64_t shapes, quern_progress progress, void* user,
                                             char** json);

#ifdef __cplusplus
}
#endif
#endif /* QUERN_H_ */
