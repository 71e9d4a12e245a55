// The host's side of provider.h: the opaque structs behind its handles, the function table, and a provider as a C++
// value.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "base/status.h"
#include "graph/graph.h"
#include "parallel/executor.h"
#include "quern/provider.h"
#include "tensor/memory_budget.h"
#include "tensor/value.h"

// A value behind the C ABI; dims are cached for accessors that return pointers.
struct quern_value {
  quern::Value value;
};

struct quern_executor {
  std::shared_ptr<quern::Executor> owner;  // null for the view that one run passes on
  quern::Executor* executor = nullptr;
  const quern::CancelToken* cancel = nullptr;
};

// A constant that a provider keeps after its view is gone.
struct quern_constant {
  quern::Tensor content;
  std::vector<std::shared_ptr<const void>> keep_alive;  // what a content without an owner of its own lies in
};

// A graph with its nodes and values numbered. In-tree providers reach the Graph itself, and may keep `owner`.
struct quern_graph_view {
  explicit quern_graph_view(const quern::Graph& g);
  explicit quern_graph_view(std::shared_ptr<const quern::Graph> g) : quern_graph_view(*g) { owner = std::move(g); }

  struct NodeEntry {
    quern::Node* node;
    std::vector<int32_t> inputs, outputs;  // inputs: formal, then captures
  };
  struct ValueEntry {
    const quern::GraphValue* value;
    std::vector<int64_t> dims;
    std::vector<std::string> symbol_texts;
    std::vector<const char*> symbols;
    quern_tensor_view constant;
    bool has_constant = false;
  };
  int32_t IndexOf(const quern::GraphValue* v) const;  // -1 for null
  int32_t IndexOf(const quern::Node* n) const;

  const quern::Graph* graph;
  std::shared_ptr<const quern::Graph> owner;  // of the graph; null when the view only borrows it
  std::vector<NodeEntry> nodes;
  std::vector<ValueEntry> values;
  std::unordered_map<const void*, int32_t> index;
};

struct quern_claim_sink {
  struct Offer {
    std::vector<int32_t> nodes;
    double cost = 0;
  };
  std::vector<Offer> offers;
  std::vector<std::string> rejections;  // by node; "" when none was given
  std::string error;                    // what was wrong with the first call that made no sense; "" when none did
};

struct quern_plan_sink {
  struct Output {
    bool known = false;
    quern::DType dtype = quern::DType::kUndefined;
    quern::Shape shape;
    int in_place = -1;  // input whose memory it may take
  };
  std::vector<Output> outputs;
  size_t workspace_bytes = 0;
};

// What a run offers beyond plain memory. The session implements it.
struct quern_run_context {
  virtual ~quern_run_context() = default;
  virtual bool cancelled() const = 0;
  virtual const quern::Limits& limits() const = 0;
  // What the run may hold; in-tree providers charge what they allocate to it.
  virtual const std::shared_ptr<quern::MemoryBudget>& memory() const = 0;
  // Memory for a data-dependent output of the running step; the view is filled.
  virtual quern::Status AllocateOutput(int index, quern::DType dtype, const quern::Shape& shape,
                                       quern_tensor_view* out) = 0;
  // For in-tree providers: runs a subgraph of the original graph's node (captures appended to inputs by the caller).
  virtual quern::Result<std::vector<quern::Value>> RunSubgraph(const quern::Graph& subgraph,
                                                               std::vector<quern::Value> inputs) = 0;
};

namespace quern {

// The function table handed to providers.
const quern_host_api* HostApi();
// Where providers, sessions and the C ABI log; process-wide, as quern_set_log is.
Logger& ProcessLogger();
// What a function of an in-tree provider returns: the code, with the message left through set_error.
int32_t ReportStatus(const Status& status);
// Text that a provider (or the C ABI) left through set_error on this thread; cleared by reading.
std::string TakeProviderError();

// A Tensor as a provider sees it, and back (the memory stays the owner's).
quern_tensor_view ViewOf(const Tensor& t);
// Fills all of a view but its memory. Strides in elements.
void SetShape(quern_tensor_view& view, DType dtype, const Shape& shape, const Shape& strides);
Tensor TensorOf(const quern_tensor_view& v, std::shared_ptr<const void> owner = nullptr);

// Owns a quern_provider and keeps the rules of its ABI: claim, compile and plan run one at a time, codes become Status
// with the provider's message (or `provider 'x': <what> failed without a message`), leftovers of earlier messages never
// do.
class Provider {
 public:
  // An error names what the provider lacks.
  static Result<std::shared_ptr<Provider>> Create(const quern_provider& p);
  // A shared library over provider.h. The error names the path and what is wrong with it.
  static Result<std::shared_ptr<Provider>> Load(const std::string& path, const char* options_json);
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;
  ~Provider();

  const char* name() const { return p_.name; }
  const quern_provider& abi() const { return p_; }
  bool strided() const { return (p_.flags & QUERN_PROVIDER_STRIDED) != 0; }
  // Runs may complete later.
  bool may_defer() const { return p_.wait != nullptr; }
  // Values of its own kind lie in memory of its allocator...
  bool has_own_memory() const { return p_.memory != nullptr; }
  // ...which the host reads and writes without copies.
  bool memory_is_host_accessible() const { return p_.memory != nullptr && p_.memory->host_accessible != 0; }

  Status Claim(const quern_graph_view& graph, quern_claim_sink& sink) const;
  Status Compile(const quern_graph_view& cluster, const char* options_json, void** executable) const;
  Status Plan(void* executable, const quern_plan_args& args, quern_plan_sink& sink, void** plan) const;
  // *ticket: null unless completion is deferred.
  Status Run(void* plan, const quern_run_args& args, void** ticket) const;
  Status Wait(void* ticket) const;
  // Between the host's memory and its own.
  Status CopyFromHost(void* to, const void* from, size_t bytes) const;
  Status CopyToHost(void* to, const void* from, size_t bytes) const;

 private:
  explicit Provider(const quern_provider& p) : p_(p) {}
  Status ToStatus(int32_t code, const char* what) const;

  quern_provider p_;
  void* library_ = nullptr;
  mutable std::mutex mutex_;  // held by claim, compile and plan
};

}  // namespace quern
