// The host's side of provider.h: the opaque structs behind its handles, the function table, and a provider as a C++
// value.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "base/status.h"
#include "graph/graph.h"
#include "parallel/executor.h"
#include "quern/provider.h"
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

// A graph with its nodes and values numbered. In-tree providers reach the Graph itself.
struct quern_graph_view {
  explicit quern_graph_view(const quern::Graph& g);

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
// Text that a provider (or the C ABI) left through set_error on this thread; cleared by reading.
std::string TakeProviderError();

// A Tensor as a provider sees it, and back (the memory stays the owner's).
quern_tensor_view ViewOf(const Tensor& t);
Tensor TensorOf(const quern_tensor_view& v, std::shared_ptr<const void> owner = nullptr);

// Owns a quern_provider. Turns its status codes into Status with the provider's message.
class Provider {
 public:
  explicit Provider(quern_provider p) : p_(p) {}
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;
  ~Provider();

  // A shared library over provider.h. The error names the path and what is wrong with it.
  static Result<std::shared_ptr<Provider>> Load(const std::string& path, const char* options_json);

  const char* name() const { return p_.name; }
  const quern_provider& abi() const { return p_; }
  bool has_own_memory() const { return p_.memory != nullptr && !p_.memory->host_accessible; }
  // Code of an ABI call as a Status; `what` says what was attempted ("compile 'MatMul_3'...").
  Status ToStatus(int32_t code, const std::string& what) const;

 private:
  quern_provider p_;
  void* library_ = nullptr;
};

}  // namespace quern
