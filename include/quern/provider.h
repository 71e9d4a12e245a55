/* provider.h: the C ABI between Quern and an execution provider (C99).
 *
 * A provider claims nodes of a graph, compiles the clusters of nodes that it was given, plans memory for given shapes
 * and runs. Quern's own `cpu` and `reference` providers go through this interface; an external one is a shared library
 * that exports
 *
 *     int32_t quern_provider_create(const quern_host_api* host, const char* options_json, quern_provider* out);
 *
 * and needs nothing but this header: whatever it wants of Quern it calls through `host`.
 *
 * Rules for every function here
 * - Strings are UTF-8, zero-terminated. Unless said otherwise pointers handed to a provider are valid during the call.
 * - Functions that can fail return a status code (0 is success) and, on failure, should call host->set_error first
 *   with a message that names the node or tensor.
 * - struct_size is sizeof the struct as the one who made it knew it: fields beyond it are absent and neither read nor
 *   written. The *_init functions set it. New fields are only ever appended. quern_tensor_view alone has none: arrays
 * of it are handed over, and it stays as it is for as long as QUERN_PROVIDER_ABI_VERSION.
 * - claim, compile and plan may be called from any thread, one call at a time per provider; run may be called by
 * several threads at once, with different workspaces.
 */
#ifndef QUERN_PROVIDER_H_
#define QUERN_PROVIDER_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUERN_PROVIDER_ABI_VERSION 1
#define QUERN_MAX_RANK 16

/* Status codes: those of quern.h (0 ok, 1 invalid argument, 2 unsupported, 3 not found, 4 corrupt, 5 resource
 * exhausted, 6 cancelled, 7 i/o, 8 internal). */

typedef struct quern_graph_view quern_graph_view;   /* a graph or cluster, read-only */
typedef struct quern_claim_sink quern_claim_sink;   /* where claim() writes */
typedef struct quern_plan_sink quern_plan_sink;     /* where plan() writes */
typedef struct quern_run_context quern_run_context; /* one run of one cluster */
typedef struct quern_constant quern_constant;       /* a constant that a provider keeps */
struct quern_executor;                              /* the threads of this run */
struct quern_value;                                 /* a value that is not a plain tensor (string, sequence, ...) */

/* A tensor in memory of some kind. Strides in elements. dtype numbers are ONNX's TensorProto.DataType (block formats
 * from 64). Memory is owned by whoever made the view. */
typedef struct quern_tensor_view {
  int32_t dtype;
  int32_t rank;
  int64_t dims[QUERN_MAX_RANK];
  int64_t strides[QUERN_MAX_RANK];
  void* data;
} quern_tensor_view;

/* What host->node() and host->value() fill, as far as struct_size goes. */
typedef struct quern_node_info {
  uint32_t struct_size;
  const char* op_type;
  const char* domain; /* "" is ai.onnx */
  const char* name;   /* may be "" */
  int32_t opset;      /* operator set version the node follows */
  int32_t num_inputs; /* formal inputs; captures of subgraphs follow them in `inputs` */
  int32_t num_captures;
  int32_t num_outputs;
  const int32_t* inputs; /* value indices, -1 for an omitted one; num_inputs + num_captures of them */
  const int32_t* outputs;
} quern_node_info;
static inline void quern_node_info_init(quern_node_info* info) {
  memset(info, 0, sizeof *info);
  info->struct_size = (uint32_t)sizeof *info;
}

typedef struct quern_value_info {
  uint32_t struct_size;
  const char* name;
  int32_t kind;               /* 1 tensor, 2 string tensor, 3 sequence, 4 optional, 5 map */
  int32_t dtype;              /* 0: not known */
  int32_t rank;               /* -1: not known */
  const int64_t* dims;        /* rank of them; -1 where the extent is symbolic or unknown */
  const char* const* symbols; /* rank of them: the expression of a symbolic extent, "" for numbers */
  int32_t producer;           /* node index, -1 for inputs and constants */
  int32_t num_uses;           /* node inputs in this view; use as a graph output not counted */
  int32_t is_input;
  int32_t is_output;
  const quern_tensor_view* constant; /* content of a constant tensor, else NULL; valid as long as the view's graph */
} quern_value_info;
static inline void quern_value_info_init(quern_value_info* info) {
  memset(info, 0, sizeof *info);
  info->struct_size = (uint32_t)sizeof *info;
}

/* What Quern offers a provider. Valid for the life of the process. */
typedef struct quern_host_api {
  uint32_t struct_size;
  uint32_t abi_version;

  /* Text of the last failure of the calling thread, shown to the user. */
  void (*set_error)(const char* message);
  /* level: 0 verbose, 1 info, 2 warning, 3 error. */
  void (*log)(int32_t level, const char* message);

  /* --- graph views: nodes 0..num_nodes-1 in topological order, values 0..num_values-1 --- */
  int32_t (*num_nodes)(const quern_graph_view*);
  int32_t (*num_values)(const quern_graph_view*);
  int32_t (*node)(const quern_graph_view*, int32_t node, quern_node_info* out);
  int32_t (*value)(const quern_graph_view*, int32_t value, quern_value_info* out);
  int32_t (*num_inputs)(const quern_graph_view*);
  int32_t (*num_outputs)(const quern_graph_view*);
  int32_t (*input)(const quern_graph_view*, int32_t index);  /* value index */
  int32_t (*output)(const quern_graph_view*, int32_t index); /* value index */
  /* Attributes: return 0 and leave *out alone when the node has none of that name and type; 1 when found. Arrays and
   * strings stay valid as long as the view's graph. */
  int32_t (*attr_int)(const quern_graph_view*, int32_t node, const char* name, int64_t* out);
  int32_t (*attr_float)(const quern_graph_view*, int32_t node, const char* name, float* out);
  int32_t (*attr_string)(const quern_graph_view*, int32_t node, const char* name, const char** out);
  int32_t (*attr_ints)(const quern_graph_view*, int32_t node, const char* name, const int64_t** out, size_t* count);
  int32_t (*attr_floats)(const quern_graph_view*, int32_t node, const char* name, const float** out, size_t* count);
  int32_t (*attr_tensor)(const quern_graph_view*, int32_t node, const char* name, quern_tensor_view* out);

  /* --- claim --- */
  /* Offers to run `count` nodes together. cost: estimated seconds for one run of the set at the shapes known (symbolic
   * extents taken as 1 to 128 as fits), 0 when not known. Nodes may be offered several times; the cheapest offer over
   * all providers, in provider order on ties, wins. The sets need not be connected: neighbours are clustered later. */
  void (*claim)(quern_claim_sink*, const int32_t* nodes, int32_t count, double cost);
  /* Why this provider leaves a node alone; shown by `quern inspect --stage partition`. */
  void (*reject)(quern_claim_sink*, int32_t node, const char* reason);

  /* --- plan --- */
  /* Type and shape of output `index`. Outputs not set here are data-dependent: run() must call allocate_output. */
  void (*set_output)(quern_plan_sink*, int32_t index, int32_t dtype, int32_t rank, const int64_t* dims);
  /* Bytes of scratch that each run needs (64-byte aligned, uninitialised, in host memory). */
  void (*set_workspace)(quern_plan_sink*, size_t bytes);
  /* Output `output` may lie in the memory of input `input` (same bytes, read no more once written). The host does so
   * where both are in the host's memory and nothing else needs the input any more; run() sees equal data pointers. */
  void (*set_in_place)(quern_plan_sink*, int32_t output, int32_t input);

  /* --- run --- */
  int32_t (*concurrency)(const struct quern_executor*);
  /* task(context, slot, begin, end) over [0, total) in pieces of at least `grain`; slot < concurrency() is held by one
   * thread at a time. Tasks may run serially, in any order, on any thread: no barriers between them. */
  int32_t (*parallel_for)(struct quern_executor*, int64_t total, int64_t grain,
                          void (*task)(void* context, int32_t slot, int64_t begin, int64_t end), void* context);
  int32_t (*is_cancelled)(const quern_run_context*);
  /* Memory for a data-dependent output, in the output's memory kind; the view is filled, contiguous. */
  int32_t (*allocate_output)(quern_run_context*, int32_t index, int32_t dtype, int32_t rank, const int64_t* dims,
                             quern_tensor_view* out);

  /* --- constants, for compile --- */
  /* Keeps the content of a constant tensor where it is (a mapped file, the caller's memory), so that the data pointer
   * of its view stays valid until release_constant: for weights that are used as they lie, without a copy. */
  int32_t (*retain_constant)(const quern_graph_view*, int32_t value, quern_constant** out);
  void (*release_constant)(quern_constant*);
} quern_host_api;

/* Shapes for which a plan is made. */
typedef struct quern_plan_args {
  uint32_t struct_size;
  int32_t num_inputs;
  const quern_tensor_view* inputs; /* dtype, dims, strides; data is set only for small integer inputs whose content is
                                      known now (sizes, axes), else NULL. kind other than tensor: dtype 0. */
  int32_t concurrency;             /* slots that a run's executor will have at most */
  int32_t num_outputs;
  const quern_tensor_view* outputs; /* rank -1 unless the caller fixed the output's place: then dtype, dims, strides */
} quern_plan_args;

typedef struct quern_run_args {
  uint32_t struct_size;
  int32_t num_inputs;
  const quern_tensor_view* inputs;         /* in the memory kind that input_kind() named; extents may be smaller than
                                              planned (growing state), never larger */
  struct quern_value* const* input_values; /* for in-tree providers: each input as a value of any kind. Opaque to
                                              others, which leave nodes with operands other than tensors alone */
  int32_t num_outputs;
  quern_tensor_view* outputs;               /* data set for planned outputs; filled by allocate_output for the others.
                                               That of a Concat that appends to a bound state begins in the memory of
                                               its first input: those elements may be left alone */
  struct quern_value* const* output_values; /* in-tree providers assign values of any kind here instead of outputs[] */
  void* workspace;
  struct quern_executor* executor;
  quern_run_context* context;
} quern_run_args;

/* Memory of the provider's own. */
typedef struct quern_memory_kind {
  uint32_t struct_size;
  const char* name;        /* "npu" */
  int32_t host_accessible; /* 1: the host reads and writes it in place (once a run that writes it has completed), values
                              that the provider makes or takes lie there from the start, and the copies are not called
                              and may be NULL */
  void* (*allocate)(void* self, size_t bytes); /* 64-byte aligned; NULL when short of memory */
  void (*release)(void* self, void* data);
  int32_t (*copy_from_host)(void* self, void* to, const void* from, size_t bytes);
  int32_t (*copy_to_host)(void* self, void* to, const void* from, size_t bytes);
} quern_memory_kind;

/* quern_provider.flags */
enum {
  QUERN_PROVIDER_STRIDED = 1 /* run() takes inputs with any strides, and outputs with the strides that plan() was told;
                                else the host copies to contiguous memory first */
};

/* A provider: filled by quern_provider_create, which finds it zeroed with the host's struct_size, writes no more than
 * that and sets struct_size to what it knew. Functions marked optional may be NULL. */
typedef struct quern_provider {
  uint32_t struct_size;
  uint32_t abi_version; /* QUERN_PROVIDER_ABI_VERSION */
  void* self;
  const char* name;
  const char* version;
  /* The kind of memory that clusters of this provider use for the inputs and outputs that it says; NULL: host. */
  const quern_memory_kind* memory;
  uint32_t flags;

  int32_t (*claim)(void* self, const quern_graph_view* graph, quern_claim_sink* sink);
  /* Compiles a cluster (its inputs, outputs and constants are the view's). `options_json` may hold "threads",
   * "expected_shapes"..., and "profile": true for a session that is profiled. The view dies after the call; constants
   * that the provider wants later it copies, packs or retains now (retain_constant). */
  int32_t (*compile)(void* self, const quern_graph_view* cluster, const char* options_json, void** executable);
  void (*destroy_executable)(void* self, void* executable);
  /* Optional. Whether input/output `index` is read/written in the provider's own memory kind (1) or the host's (0). */
  int32_t (*input_kind)(void* self, void* executable, int32_t index);
  int32_t (*output_kind)(void* self, void* executable, int32_t index);
  /* Makes a plan for shapes; called again for others. */
  int32_t (*plan)(void* self, void* executable, const quern_plan_args* args, quern_plan_sink* sink, void** plan);
  void (*destroy_plan)(void* self, void* plan);
  /* Runs. Completion may be deferred (only with wait): then *ticket is set, inputs and workspace stay as they are, and
   * wait() is called once before any output is read. */
  int32_t (*run)(void* self, void* plan, const quern_run_args* args, void** ticket);
  int32_t (*wait)(void* self, void* ticket); /* optional when no run defers */
  /* Optional. JSON text about an executable (plan may be NULL): {"nodes":[{"name":…,"op":…,"kernel":…,"why":…}]}, and
   * when compile was asked for a profile "profile":[{"name":…,"op":…,"kernel":…,"runs":…,"seconds":…,"operations":…,
   * "bytes":…}], summed over all runs of the executable, with "peak" where a loop of `quern cpu --measure` bounds the
   * kernel's arithmetic: its name. The host calls release_text on it. */
  const char* (*describe)(void* self, void* executable, void* plan);
  void (*release_text)(void* self, const char* text);
  void (*destroy)(void* self);
} quern_provider;

/* What an external provider exports. */
typedef int32_t (*quern_provider_create_fn)(const quern_host_api* host, const char* options_json, quern_provider* out);

#ifdef __cplusplus
}
#endif
#endif /* QUERN_PROVIDER_H_ */
