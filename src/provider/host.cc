#include "provider/host.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace {
thread_local std::string t_error;

using quern::Attribute;
using quern::Node;

template <typename T>
const T* Attr(const quern_graph_view* g, int32_t node, const char* name) {
  if (node < 0 || node >= static_cast<int32_t>(g->nodes.size())) return nullptr;
  return g->nodes[node].node->FindAttribute<T>(name);
}

void HostSetError(const char* message) { t_error = message ? message : ""; }

void HostLog(int32_t level, const char* message) {
  quern::ProcessLogger().Log(static_cast<quern::LogLevel>(level), message ? message : "");
}

int32_t NumNodes(const quern_graph_view* g) { return static_cast<int32_t>(g->nodes.size()); }
int32_t NumValues(const quern_graph_view* g) { return static_cast<int32_t>(g->values.size()); }
int32_t NumInputs(const quern_graph_view* g) { return static_cast<int32_t>(g->graph->inputs().size()); }
int32_t NumOutputs(const quern_graph_view* g) { return static_cast<int32_t>(g->graph->outputs().size()); }
int32_t InputOf(const quern_graph_view* g, int32_t i) {
  return i < 0 || i >= NumInputs(g) ? -1 : g->IndexOf(g->graph->inputs()[i]);
}
int32_t OutputOf(const quern_graph_view* g, int32_t i) {
  return i < 0 || i >= NumOutputs(g) ? -1 : g->IndexOf(g->graph->outputs()[i]);
}

// Fills a provider's struct as far as it goes; its struct_size stays.
template <typename Info>
int32_t WriteInfo(Info from, Info* to) {
  if (to->struct_size < sizeof to->struct_size) {
    HostSetError("struct_size is not set: call the struct's _init");
    return static_cast<int32_t>(quern::StatusCode::kInvalidArgument);
  }
  from.struct_size = to->struct_size;
  std::memcpy(to, &from, std::min<size_t>(to->struct_size, sizeof from));
  return 0;
}

int32_t NodeInfo(const quern_graph_view* g, int32_t i, quern_node_info* out) {
  if (i < 0 || i >= NumNodes(g)) return static_cast<int32_t>(quern::StatusCode::kInvalidArgument);
  const auto& e = g->nodes[i];
  quern_node_info info{};
  info.op_type = e.node->op_type().c_str();
  info.domain = e.node->domain().c_str();
  info.name = e.node->name().c_str();
  info.opset = e.node->opset();
  info.num_inputs = e.node->num_inputs();
  info.num_captures = static_cast<int32_t>(e.node->captures().size());
  info.num_outputs = e.node->num_outputs();
  info.inputs = e.inputs.data();
  info.outputs = e.outputs.data();
  return WriteInfo(info, out);
}

int32_t ValueInfo(const quern_graph_view* g, int32_t i, quern_value_info* out) {
  if (i < 0 || i >= NumValues(g)) return static_cast<int32_t>(quern::StatusCode::kInvalidArgument);
  const auto& e = g->values[i];
  const quern::ValueType& t = e.value->type();
  quern_value_info info{};
  info.name = e.value->name().c_str();
  info.kind = static_cast<int32_t>(t.kind);
  info.dtype = static_cast<int32_t>(t.dtype);
  info.rank = t.shape ? static_cast<int32_t>(t.shape->size()) : -1;
  info.dims = e.dims.data();
  info.symbols = e.symbols.data();
  info.producer = e.value->producer() ? g->IndexOf(e.value->producer()) : -1;
  int32_t uses = 0;
  for (const quern::Use& u : e.value->uses()) uses += u.node != nullptr;
  info.num_uses = uses;
  info.is_input = e.value->is_input();
  info.is_output = e.value->is_graph_output();
  info.constant = e.has_constant ? &e.constant : nullptr;
  if (e.has_constant) e.value->constant()->tensor().raw_data();  // a deferred one is filled when it is looked at
  return WriteInfo(info, out);
}

int32_t AttrInt(const quern_graph_view* g, int32_t node, const char* name, int64_t* out) {
  const int64_t* p = Attr<int64_t>(g, node, name);
  if (p) *out = *p;
  return p != nullptr;
}
int32_t AttrFloat(const quern_graph_view* g, int32_t node, const char* name, float* out) {
  const float* p = Attr<float>(g, node, name);
  if (p) *out = *p;
  return p != nullptr;
}
int32_t AttrString(const quern_graph_view* g, int32_t node, const char* name, const char** out) {
  const std::string* p = Attr<std::string>(g, node, name);
  if (p) *out = p->c_str();
  return p != nullptr;
}
int32_t AttrInts(const quern_graph_view* g, int32_t node, const char* name, const int64_t** out, size_t* count) {
  const auto* p = Attr<std::vector<int64_t>>(g, node, name);
  if (p) *out = p->data(), *count = p->size();
  return p != nullptr;
}
int32_t AttrFloats(const quern_graph_view* g, int32_t node, const char* name, const float** out, size_t* count) {
  const auto* p = Attr<std::vector<float>>(g, node, name);
  if (p) *out = p->data(), *count = p->size();
  return p != nullptr;
}
int32_t AttrTensor(const quern_graph_view* g, int32_t node, const char* name, quern_tensor_view* out) {
  const quern::Value* p = Attr<quern::Value>(g, node, name);
  if (!p || !p->is_tensor()) return 0;
  *out = quern::ViewOf(p->tensor());
  return 1;
}

int32_t RetainConstant(const quern_graph_view* g, int32_t value, quern_constant** out) {
  if (value < 0 || value >= NumValues(g) || !g->values[value].has_constant) {
    t_error = "retain_constant: value " + std::to_string(value) + " is no constant tensor";
    return static_cast<int32_t>(quern::StatusCode::kInvalidArgument);
  }
  *out = new quern_constant{g->values[value].value->constant()->tensor(), g->graph->keep_alive};
  return 0;
}
void ReleaseConstant(quern_constant* constant) { delete constant; }

void Claim(quern_claim_sink* sink, const int32_t* nodes, int32_t count, double cost) {
  if (count <= 0 || nodes == nullptr) {
    if (sink->error.empty()) sink->error = "offers a set of " + std::to_string(count) + " nodes";
    return;
  }
  sink->offers.push_back({std::vector<int32_t>(nodes, nodes + count), cost});
}
void Reject(quern_claim_sink* sink, int32_t node, const char* reason) {
  if (node >= 0 && node < static_cast<int32_t>(sink->rejections.size())) sink->rejections[node] = reason ? reason : "";
}

void SetOutput(quern_plan_sink* sink, int32_t i, int32_t dtype, int32_t rank, const int64_t* dims) {
  if (i < 0 || i >= static_cast<int32_t>(sink->outputs.size()) || rank < 0 || rank > quern::kMaxRank) return;
  auto& o = sink->outputs[i];
  o.known = true;
  o.dtype = static_cast<quern::DType>(dtype);
  o.shape = quern::Shape(std::span<const int64_t>(dims, static_cast<size_t>(rank)));
}
void SetWorkspace(quern_plan_sink* sink, size_t bytes) { sink->workspace_bytes = bytes; }
void SetInPlace(quern_plan_sink* sink, int32_t output, int32_t input) {
  if (output >= 0 && output < static_cast<int32_t>(sink->outputs.size())) sink->outputs[output].in_place = input;
}

int32_t Concurrency(const quern_executor* e) { return e->executor->concurrency(); }
int32_t ParallelFor(quern_executor* e, int64_t total, int64_t grain, void (*task)(void*, int32_t, int64_t, int64_t),
                    void* context) {
  auto body = [&](int slot, int64_t begin, int64_t end) { task(context, slot, begin, end); };
  return static_cast<int32_t>(e->executor->ParallelFor(total, grain, body, e->cancel).code());
}
int32_t IsCancelled(const quern_run_context* c) { return c->cancelled(); }
int32_t AllocateOutput(quern_run_context* c, int32_t i, int32_t dtype, int32_t rank, const int64_t* dims,
                       quern_tensor_view* out) {
  if (rank < 0 || rank > quern::kMaxRank) return static_cast<int32_t>(quern::StatusCode::kInvalidArgument);
  const quern::Status s =
      c->AllocateOutput(i, static_cast<quern::DType>(dtype),
                        quern::Shape(std::span<const int64_t>(dims, static_cast<size_t>(rank))), out);
  if (!s.ok()) t_error = s.message();
  return static_cast<int32_t>(s.code());
}

}  // namespace

quern_graph_view::quern_graph_view(const quern::Graph& g) : graph(&g) {
  auto add = [&](const quern::GraphValue* v) {
    index.emplace(v, static_cast<int32_t>(values.size()));
    values.push_back({v, {}, {}, {}, {}, false});
    ValueEntry& e = values.back();
    if (v->type().shape) {
      for (const quern::Dim& d : *v->type().shape) {
        e.dims.push_back(d.is_constant() ? d.value() : -1);
        e.symbol_texts.push_back(d.is_constant() ? "" : d.ToString());
      }
    }
    if (v->is_constant() && v->constant()->is_tensor()) {
      const quern::Tensor& t = v->constant()->tensor();
      quern::SetShape(e.constant, t.dtype(), t.shape(), t.strides());
      e.constant.data = const_cast<void*>(t.address());
      e.has_constant = true;
    }
  };
  for (const quern::GraphValue* v : g.inputs()) add(v);
  for (const quern::GraphValue* v : g.constants()) add(v);
  for (Node* n = g.first_node(); n; n = n->next()) {
    for (const quern::GraphValue* v : n->outputs()) {
      if (v) add(v);
    }
  }
  for (ValueEntry& e : values) {
    for (const std::string& s : e.symbol_texts) e.symbols.push_back(s.c_str());
  }
  for (Node* n = g.first_node(); n; n = n->next()) {
    index.emplace(n, static_cast<int32_t>(nodes.size()));
    NodeEntry e{n, {}, {}};
    for (const quern::GraphValue* v : n->inputs()) e.inputs.push_back(IndexOf(v));
    for (const quern::GraphValue* v : n->captures()) e.inputs.push_back(IndexOf(v));
    for (const quern::GraphValue* v : n->outputs()) e.outputs.push_back(IndexOf(v));
    nodes.push_back(std::move(e));
  }
}

int32_t quern_graph_view::IndexOf(const quern::GraphValue* v) const {
  auto it = index.find(v);
  return v == nullptr || it == index.end() ? -1 : it->second;
}
int32_t quern_graph_view::IndexOf(const quern::Node* n) const {
  auto it = index.find(n);
  return it == index.end() ? -1 : it->second;
}

namespace quern {

const quern_host_api* HostApi() {
  static constexpr quern_host_api kApi = {
      .struct_size = sizeof(quern_host_api),
      .abi_version = QUERN_PROVIDER_ABI_VERSION,
      .set_error = HostSetError,
      .log = HostLog,
      .num_nodes = NumNodes,
      .num_values = NumValues,
      .node = NodeInfo,
      .value = ValueInfo,
      .num_inputs = NumInputs,
      .num_outputs = NumOutputs,
      .input = InputOf,
      .output = OutputOf,
      .attr_int = AttrInt,
      .attr_float = AttrFloat,
      .attr_string = AttrString,
      .attr_ints = AttrInts,
      .attr_floats = AttrFloats,
      .attr_tensor = AttrTensor,
      .claim = Claim,
      .reject = Reject,
      .set_output = SetOutput,
      .set_workspace = SetWorkspace,
      .set_in_place = SetInPlace,
      .concurrency = Concurrency,
      .parallel_for = ParallelFor,
      .is_cancelled = IsCancelled,
      .allocate_output = AllocateOutput,
      .retain_constant = RetainConstant,
      .release_constant = ReleaseConstant,
  };
  return &kApi;
}

Logger& ProcessLogger() {
  static Logger logger;
  return logger;
}

int32_t ReportStatus(const Status& status) {
  if (!status.ok()) HostSetError(status.message().c_str());
  return static_cast<int32_t>(status.code());
}

std::string TakeProviderError() {
  std::string s = std::move(t_error);
  t_error.clear();
  return s;
}

quern_tensor_view ViewOf(const Tensor& t) {
  quern_tensor_view v{};
  SetShape(v, t.dtype(), t.shape(), t.strides());
  v.data = t.raw_data();
  return v;
}

void SetShape(quern_tensor_view& view, DType dtype, const Shape& shape, const Shape& strides) {
  view.dtype = static_cast<int32_t>(dtype);
  view.rank = shape.rank();
  for (int i = 0; i < shape.rank(); ++i) view.dims[i] = shape[i], view.strides[i] = strides[i];
}

Tensor TensorOf(const quern_tensor_view& v, std::shared_ptr<const void> owner) {
  const auto dtype = static_cast<DType>(v.dtype);
  const size_t rank = static_cast<size_t>(v.rank);
  const Shape shape(std::span<const int64_t>(v.dims, rank));
  if (DTypeBytes(dtype) == 0) return Tensor::Wrap(dtype, shape, v.data, std::move(owner));
  return Tensor::WrapStrided(dtype, shape, Shape(std::span<const int64_t>(v.strides, rank)), v.data, std::move(owner));
}

Provider::~Provider() {
  if (p_.destroy) p_.destroy(p_.self);
  if (library_) dlclose(library_);
}

Status Provider::ToStatus(int32_t code, const char* what) const {
  if (code == 0) return OkStatus();
  std::string text = TakeProviderError();
  if (text.empty()) text = std::string("provider '") + name() + "': " + what + " failed without a message";
  return Status(code >= 1 && code <= 8 ? static_cast<StatusCode>(code) : StatusCode::kInternal, std::move(text));
}

Status Provider::Claim(const quern_graph_view& graph, quern_claim_sink& sink) const {
  const std::lock_guard lock(mutex_);
  t_error.clear();
  QUERN_RETURN_IF_ERROR(ToStatus(p_.claim(p_.self, &graph, &sink), "claim"));
  if (sink.error.empty()) return OkStatus();
  return InvalidArgument(std::string("provider '") + name() + "' " + sink.error);
}

Status Provider::Compile(const quern_graph_view& cluster, const char* options_json, void** executable) const {
  const std::lock_guard lock(mutex_);
  t_error.clear();
  const int32_t code = p_.compile(p_.self, &cluster, options_json, executable);
  if (code == 0) return OkStatus();
  return ToStatus(code, ("compile of the cluster at " + cluster.nodes.front().node->Describe()).c_str());
}

Status Provider::Plan(void* executable, const quern_plan_args& args, quern_plan_sink& sink, void** plan) const {
  const std::lock_guard lock(mutex_);
  t_error.clear();
  return ToStatus(p_.plan(p_.self, executable, &args, &sink, plan), "plan");
}

Status Provider::Run(void* plan, const quern_run_args& args, void** ticket) const {
  t_error.clear();
  QUERN_RETURN_IF_ERROR(ToStatus(p_.run(p_.self, plan, &args, ticket), "run"));
  if (*ticket == nullptr || p_.wait) return OkStatus();
  *ticket = nullptr;
  return Internal(std::string("provider '") + name() + "' defers the completion of a run but has no wait()");
}

Status Provider::Wait(void* ticket) const {
  t_error.clear();
  return ToStatus(p_.wait(p_.self, ticket), "wait");
}

Status Provider::CopyFromHost(void* to, const void* from, size_t bytes) const {
  if (memory_is_host_accessible()) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return OkStatus();
  }
  t_error.clear();
  return ToStatus(p_.memory->copy_from_host(p_.self, to, from, bytes), "copy_from_host");
}

Status Provider::CopyToHost(void* to, const void* from, size_t bytes) const {
  if (memory_is_host_accessible()) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return OkStatus();
  }
  t_error.clear();
  return ToStatus(p_.memory->copy_to_host(p_.self, to, from, bytes), "copy_to_host");
}

Result<std::shared_ptr<Provider>> Provider::Create(const quern_provider& p) {
  std::string lacks;
  const auto require = [&](bool present, const char* what) {
    if (!present) lacks += (lacks.empty() ? "" : ", ") + std::string(what);
  };
  if (p.abi_version != QUERN_PROVIDER_ABI_VERSION) {
    return InvalidArgument("follows provider ABI " + std::to_string(p.abi_version) + "; this Quern has ABI " +
                           std::to_string(QUERN_PROVIDER_ABI_VERSION));
  }
  require(p.name, "name");
  require(p.claim, "claim");
  require(p.compile, "compile");
  require(p.destroy_executable, "destroy_executable");
  require(p.plan, "plan");
  require(p.destroy_plan, "destroy_plan");
  require(p.run, "run");
  if (p.memory) {
    require(p.memory->struct_size >= sizeof(quern_memory_kind), "memory->struct_size");
    require(p.memory->allocate, "memory->allocate");
    require(p.memory->release, "memory->release");
    require(p.memory->host_accessible || p.memory->copy_from_host, "memory->copy_from_host");
    require(p.memory->host_accessible || p.memory->copy_to_host, "memory->copy_to_host");
  }
  if (!lacks.empty()) return InvalidArgument("lacks " + lacks);
  return std::shared_ptr<Provider>(new Provider(p));
}

Result<std::shared_ptr<Provider>> Provider::Load(const std::string& path, const char* options_json) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return NotFound("provider '" + path + "': " + dlerror());
  auto create = reinterpret_cast<quern_provider_create_fn>(dlsym(library, "quern_provider_create"));
  if (!create) {
    dlclose(library);
    return InvalidArgument("provider '" + path + "' does not export quern_provider_create");
  }
  quern_provider p{};
  p.struct_size = sizeof p;
  t_error.clear();
  if (create(HostApi(), options_json ? options_json : "{}", &p) != 0) {
    std::string why = TakeProviderError();
    dlclose(library);
    return InvalidArgument("provider '" + path + "' could not be created: " + (why.empty() ? "no reason given" : why));
  }
  Result<std::shared_ptr<Provider>> provider = Create(p);
  if (!provider.ok()) {
    if (p.destroy) p.destroy(p.self);
    dlclose(library);
    return provider.status().WithContext("provider '" + path + "'");
  }
  (*provider)->library_ = library;
  return provider;
}

}  // namespace quern
