// A provider in the host's memory, over provider.h alone. It computes Mul by a constant vector, with the weights where
// the model has them. Modes that a test sets: runs that complete when they are waited for, memory of its own that the
// host can touch, results over their operand.
#include "host_provider.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "quern/provider.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int32_t kF32 = 1, kInternal = 8;

struct Counters {
  std::atomic<int64_t> weights, runs, in_place_runs, foreign_runs;
};
Counters g_counters;
host_provider_modes g_modes;
std::mutex g_mutex;
std::set<const void*> g_buffers;  // alive

void* Allocate(void*, size_t bytes) {
  void* data = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
  const std::lock_guard lock(g_mutex);
  g_buffers.insert(data);
  return data;
}
void Release(void*, void* data) {
  const std::lock_guard lock(g_mutex);
  g_buffers.erase(data);
  std::free(data);
}
bool IsOwn(const void* data) {
  const std::lock_guard lock(g_mutex);
  return g_buffers.contains(data);
}

struct Host {
  const quern_host_api* api;
  host_provider_modes modes;
  quern_memory_kind memory{};
};
Host* Self(void* self) { return static_cast<Host*>(self); }

// The operands of a Mul by a constant vector: true when the node is one.
bool Operands(const quern_host_api* api, const quern_graph_view* graph, const quern_node_info& node, int32_t* x,
              quern_value_info* weights) {
  if (*node.domain != 0 || std::string(node.op_type) != "Mul") return false;
  *x = node.inputs[0];
  quern_value_info info;
  quern_value_info_init(&info);
  api->value(graph, *x, &info);
  api->value(graph, node.inputs[1], weights);
  return !info.constant && weights->constant && info.dtype == kF32 && weights->rank == 1 && info.rank > 0 &&
         info.dims[info.rank - 1] == weights->dims[0];
}

// Of an input of the cluster to an output of it: the tests have no chains.
struct Product {
  int input = 0, output = 0;  // values of the executable
  quern_constant* kept = nullptr;
  const float* weights = nullptr;
  int64_t n = 0;
};
struct Executable {
  const quern_host_api* api;
  std::vector<Product> products;
  std::vector<int32_t> inputs, outputs;  // values
  ~Executable() {
    for (const Product& p : products) {
      api->release_constant(p.kept);
      --g_counters.weights;
    }
  }
};
struct Plan {
  const Executable* executable;
  std::vector<int64_t> elements;  // by product
};

int32_t Claim(void* self, const quern_graph_view* graph, quern_claim_sink* sink) {
  const quern_host_api* api = Self(self)->api;
  for (int32_t i = 0; i < api->num_nodes(graph); ++i) {
    quern_node_info node;
    quern_node_info_init(&node);
    api->node(graph, i, &node);
    int32_t x;
    quern_value_info weights;
    quern_value_info_init(&weights);
    if (Operands(api, graph, node, &x, &weights)) {
      api->claim(sink, &i, 1, 1e-9);
    } else {
      api->reject(sink, i, "only Mul by a constant vector");
    }
  }
  return 0;
}

int32_t Compile(void* self, const quern_graph_view* cluster, const char*, void** out) {
  const quern_host_api* api = Self(self)->api;
  auto exe = std::make_unique<Executable>();
  exe->api = api;
  for (int32_t i = 0; i < api->num_inputs(cluster); ++i) exe->inputs.push_back(api->input(cluster, i));
  for (int32_t i = 0; i < api->num_outputs(cluster); ++i) exe->outputs.push_back(api->output(cluster, i));
  for (int32_t i = 0; i < api->num_nodes(cluster); ++i) {
    quern_node_info node;
    quern_node_info_init(&node);
    api->node(cluster, i, &node);
    Product p;
    quern_value_info weights;
    quern_value_info_init(&weights);
    if (!Operands(api, cluster, node, &p.input, &weights)) return kInternal;
    p.output = node.outputs[0];
    p.weights = static_cast<const float*>(weights.constant->data);
    p.n = weights.dims[0];
    const int32_t status = api->retain_constant(cluster, node.inputs[1], &p.kept);
    if (status != 0) return status;
    ++g_counters.weights;
    exe->products.push_back(p);
  }
  *out = exe.release();
  return 0;
}

int32_t Index(const std::vector<int32_t>& values, int value) {
  return static_cast<int32_t>(std::find(values.begin(), values.end(), value) - values.begin());
}

int32_t MakePlan(void* self, void* executable, const quern_plan_args* args, quern_plan_sink* sink, void** out) {
  const quern_host_api* api = Self(self)->api;
  const auto* exe = static_cast<const Executable*>(executable);
  auto plan = std::make_unique<Plan>();
  plan->executable = exe;
  size_t workspace = 0;
  for (const Product& p : exe->products) {
    const int32_t from = Index(exe->inputs, p.input), to = Index(exe->outputs, p.output);
    if (from == args->num_inputs || to == args->num_outputs) return kInternal;
    const quern_tensor_view& x = args->inputs[from];
    int64_t elements = 1;
    for (int i = 0; i < x.rank; ++i) elements *= x.dims[i];
    plan->elements.push_back(elements);
    workspace += static_cast<size_t>(elements) * sizeof(float);
    api->set_output(sink, to, kF32, x.rank, x.dims);
    const auto readers = std::count_if(exe->products.begin(), exe->products.end(),
                                       [&](const Product& other) { return other.input == p.input; });
    if (Self(self)->modes.in_place && readers == 1) api->set_in_place(sink, to, from);
  }
  api->set_workspace(sink, workspace);
  *out = plan.release();
  return 0;
}

// What is left to do of a run: scale the operands by what lies in the workspace.
struct Ticket {
  const Plan* plan;
  std::vector<const float*> from;
  std::vector<float*> to;
  const float* factors;
};

int32_t Finish(void*, void* ticket) {
  const std::unique_ptr<Ticket> t(static_cast<Ticket*>(ticket));
  const float* factor = t->factors;
  for (size_t i = 0; i < t->plan->elements.size(); ++i) {
    for (int64_t e = 0; e < t->plan->elements[i]; ++e) t->to[i][e] = t->from[i][e] * *factor++;
  }
  return 0;
}

int32_t Run(void* self, void* plan, const quern_run_args* args, void** ticket) {
  const Plan& p = *static_cast<const Plan*>(plan);
  const Executable& exe = *p.executable;
  auto t = std::make_unique<Ticket>();
  t->plan = &p;
  auto* factors = static_cast<float*>(args->workspace);
  t->factors = factors;
  bool in_place = false, foreign = false;
  for (size_t i = 0; i < exe.products.size(); ++i) {
    const Product& product = exe.products[i];
    t->from.push_back(static_cast<const float*>(args->inputs[Index(exe.inputs, product.input)].data));
    t->to.push_back(static_cast<float*>(args->outputs[Index(exe.outputs, product.output)].data));
    in_place = in_place || t->from.back() == t->to.back();
    foreign = foreign || !IsOwn(t->from.back()) || !IsOwn(t->to.back());
    for (int64_t e = 0; e < p.elements[i]; ++e) *factors++ = product.weights[e % product.n];
  }
  ++g_counters.runs;
  g_counters.in_place_runs += in_place;
  g_counters.foreign_runs += foreign;
  if (!Self(self)->modes.late) return Finish(self, t.release());
  *ticket = t.release();
  return 0;
}

}  // namespace

EXPORT int32_t quern_provider_create(const quern_host_api* api, const char*, quern_provider* out) {
  auto* host = new Host{api, g_modes};
  host->memory.struct_size = sizeof(quern_memory_kind);
  host->memory.name = "pinned";
  host->memory.host_accessible = 1;
  host->memory.allocate = Allocate;
  host->memory.release = Release;
  out->struct_size = sizeof(quern_provider);
  out->abi_version = QUERN_PROVIDER_ABI_VERSION;
  out->self = host;
  out->name = "host";
  out->version = "1";
  if (host->modes.own_memory) out->memory = &host->memory;
  out->claim = Claim;
  out->compile = Compile;
  out->destroy_executable = [](void*, void* executable) { delete static_cast<Executable*>(executable); };
  out->input_kind = [](void* self, void*, int32_t) { return Self(self)->modes.own_memory; };
  out->output_kind = [](void* self, void*, int32_t) { return Self(self)->modes.own_memory; };
  out->plan = MakePlan;
  out->destroy_plan = [](void*, void* plan) { delete static_cast<Plan*>(plan); };
  out->run = Run;
  if (host->modes.late) out->wait = Finish;
  out->destroy = [](void* self) { delete Self(self); };
  return 0;
}

EXPORT void host_provider_set_modes(const host_provider_modes* modes) { g_modes = *modes; }
EXPORT void host_provider_read(host_provider_counters* out) {
  const std::lock_guard lock(g_mutex);
  *out = {static_cast<int64_t>(g_buffers.size()), g_counters.weights, g_counters.runs, g_counters.in_place_runs,
          g_counters.foreign_runs};
}
