// Session: a model compiled for its providers, run by any number of threads at once.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/limits.h"
#include "base/status.h"
#include "graph/graph.h"
#include "kernels/select.h"
#include "parallel/cancel.h"
#include "parallel/executor.h"
#include "tensor/value.h"

namespace quern {

struct SessionOptions {
  int threads = 0;                               // 0: the usable cores; ignored when executor is set
  std::shared_ptr<Executor> executor;            // shared with other sessions; null: a pool of its own
  CpuInfo cpu;                                   // the CPU to select kernels for; must be one that the host can run
  std::vector<std::string> providers = {"cpu"};  // in order of preference; "reference" is always the last resort;
                                                 // a name with a '/' is a shared library over provider.h
  std::string precision = "fp32";                // "fp32", "fp32-fast", "bf16"
  std::set<std::string> skip_passes;
  int plan_cache_size = 16;  // plans kept, one per set of input shapes
  Limits limits;
  bool overridable_initializers = false;  // Graph::overridable become inputs, behind the others, with a default
  bool profile = false;                   // count the runs of each node and time them, for the facts "profile"
  // Folder of the pack cache (PackCache); "": none. Not given, that of QUERN_CACHE, and the limit QUERN_CACHE_LIMIT
  // (bytes); such a folder that does not serve is only warned of.
  std::optional<std::string> pack_cache;
  uint64_t pack_cache_bytes = 0;  // limit; 0: the default
  // Independent branches never run at the same time, whatever is gained by it; so too when QUERN_SERIAL_BRANCHES is 1.
  bool serial_branches = false;
  // Runs take denormal numbers as 0, and make none: the calling thread and the executor's tasks. Else only nodes that
  // sum products do so, unless these are to keep them too.
  bool flush_denormals = false, keep_denormals = false;
  std::optional<kernels::RowTable> gemm_rows;  // tests put rows of their own; else all of the build
};

struct RunOptions {
  const CancelToken* cancel = nullptr;
  Executor* executor = nullptr;   // for this run only; null: the session's
  std::span<const uint8_t> want;  // per output, 0: not wanted; empty: all
};

// A named input or output.
struct Port {
  std::string name;
  ValueType type;
  Value default_value = {};  // of an overridable initializer: what to give to Run when the user gives nothing
};

// A buffer that stands for an input and the output that continues it (KV cache, recurrent state).
struct StateSpec {
  std::string input, output;
  int axis = -1;       // dimension that grows; -1: the state keeps its shape
  Tensor buffer;       // its extent along axis is the capacity
  int64_t length = 0;  // extent along axis that is filled
};

// Made by Session::CreateState; used by one run at a time.
struct SessionState {
  struct Binding {
    StateSpec spec;
    int input_index, output_index;
    // How a run continues the state. A growing output that is the input with rows behind it (Concat, the caches of
    // Attention) is written where the input lies: the new rows only. Any other goes to `spare`, as large as the buffer,
    // because the input may be read until the end; then a state that keeps its shape lies there and the two change
    // places, and a growing one is copied back.
    bool appends;
    Tensor spare;  // undefined when it appends

    // The state as it is now. It holds until the next run.
    Tensor value() const;
  };
  std::vector<Binding> bindings;

  // Of the run in progress; kept so that a further run allocates nothing for them.
  std::vector<Value> inputs, outputs;
  std::vector<uint8_t> want;
};

class Session {
 public:
  // Takes the graph over: neutral passes, partition, provider compile. Errors name the node.
  static Result<std::unique_ptr<Session>> Create(std::unique_ptr<Graph> graph, SessionOptions options);
  ~Session();

  std::span<const Port> inputs() const;
  std::span<const Port> outputs() const;
  // Position of the input of that name. kInvalidArgument lists what the model takes, and says so when the name is an
  // initializer that could be overridden.
  Result<size_t> FindInput(std::string_view name) const;

  // inputs: one per input, kNone for an omitted one. outputs: one slot per output: kNone receives a new value, a tensor
  // is written in place (type and shape must be the result's; any strides). Thread-safe. With all output slots given, a
  // run whose shapes (and strides) were seen before allocates nothing.
  Status Run(std::span<const Value> inputs, std::span<Value> outputs, const RunOptions& options = {});

  // Errors name the state and what does not fit; two states on one input or output are an error.
  Result<SessionState> CreateState(std::vector<StateSpec> specs) const;
  // As Run; the slots of bound inputs and outputs are ignored, and bound outputs are always wanted. Advances each
  // growing length by what the run appended; on an error no state changes.
  Status RunWithState(SessionState& state, std::span<const Value> inputs, std::span<Value> outputs,
                      const RunOptions& options = {});

  // One versioned JSON document; stage: "neutral", "partition", "compiled", "plan", "profile" or "all".
  Result<std::string> Facts(std::string_view stage) const;
  // Text form of the graph after "neutral", "partition" or "compiled".
  Result<std::string> Text(std::string_view stage) const;

  // Counters for tests and facts: plans built since creation (of the whole session).
  int64_t plans_built() const;

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern
