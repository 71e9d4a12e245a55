// An execution provider as a third party would write one: a shared library over provider.h alone, for a "device" whose
// memory the host cannot touch and whose work completes later, on a thread of its own. It takes MatMul by a constant
// matrix and Add of a constant vector.
#include "device_provider.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "quern/provider.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int32_t kF32 = 1, kInvalidArgument = 1, kResourceExhausted = 5, kInternal = 8;

struct Counters {
  std::atomic<int64_t> instances, executables, plans, tickets, buffers, copies_in, copies_out, runs;
  std::atomic<bool> fail_next;
};
Counters g_counters;

// Pages without access but while the device (or a copy) has them open. Several runs may read one buffer at once.
class DeviceMemory {
 public:
  static DeviceMemory& Get() {
    static DeviceMemory memory;
    return memory;
  }
  void* Allocate(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), size = (bytes / page + 1) * page;
    void* data = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    const std::lock_guard lock(mutex_);
    buffers_[data] = {size, 0};
    ++g_counters.buffers;
    return data;
  }
  void Release(void* data) {
    const std::lock_guard lock(mutex_);
    munmap(data, buffers_.at(data).size);
    buffers_.erase(data);
    --g_counters.buffers;
  }
  float* Open(void* data) {
    const std::lock_guard lock(mutex_);
    Buffer& b = buffers_.at(data);
    if (b.open++ == 0) mprotect(data, b.size, PROT_READ | PROT_WRITE);
    return static_cast<float*>(data);
  }
  void Close(void* data) {
    const std::lock_guard lock(mutex_);
    Buffer& b = buffers_.at(data);
    if (--b.open == 0) mprotect(data, b.size, PROT_NONE);
  }
  void* Any() {
    const std::lock_guard lock(mutex_);
    return buffers_.empty() ? nullptr : buffers_.begin()->first;
  }

 private:
  struct Buffer {
    size_t size;
    int open;
  };
  std::mutex mutex_;
  std::map<void*, Buffer> buffers_;
};

// Device memory open for as long as this lives.
class Opened {
 public:
  explicit Opened(void* data) : data_(data), floats_(DeviceMemory::Get().Open(data)) {}
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() { DeviceMemory::Get().Close(data_); }
  float* floats() const { return floats_; }

 private:
  void* data_;
  float* floats_;
};

struct Instruction {
  bool product = false;  // MatMul, else Add
  int from = 0, to = 0;  // values of the executable
  void* constant = nullptr;
  int64_t k = 0, n = 0;  // constant [k, n] of a product, [n] of an addition
};

struct Executable {
  int num_values = 0;
  std::vector<int> inputs, outputs;  // values
  std::vector<Instruction> program;

  Executable() { ++g_counters.executables; }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() {
    for (const Instruction& i : program) {
      if (i.constant) DeviceMemory::Get().Release(i.constant);
    }
    --g_counters.executables;
  }
};

struct Plan {
  const Executable* executable;
  std::vector<std::vector<int64_t>> shapes;  // by value

  explicit Plan(const Executable* e) : executable(e), shapes(static_cast<size_t>(e->num_values)) { ++g_counters.plans; }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { --g_counters.plans; }
};

// One run that the device has been given.
struct Ticket {
  const Plan* plan;
  std::vector<void*> inputs, outputs;
  bool fail = false, done = false;
  int32_t status = 0;

  Ticket() { ++g_counters.tickets; }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
  ~Ticket() { --g_counters.tickets; }
};

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

int32_t Compute(const Ticket& ticket) {
  if (ticket.fail) return kInternal;
  const Plan& plan = *ticket.plan;
  const Executable& exe = *plan.executable;
  std::vector<void*> place(static_cast<size_t>(exe.num_values), nullptr);
  std::vector<void*> own;
  for (size_t i = 0; i < exe.inputs.size(); ++i) place[exe.inputs[i]] = ticket.inputs[i];
  for (size_t i = 0; i < exe.outputs.size(); ++i) place[exe.outputs[i]] = ticket.outputs[i];
  int32_t status = 0;
  for (const Instruction& op : exe.program) {
    const int64_t elements = Elements(plan.shapes[op.to]);
    if (!place[op.to]) {
      place[op.to] = DeviceMemory::Get().Allocate(static_cast<size_t>(elements) * sizeof(float));
      if (!place[op.to]) {
        status = kResourceExhausted;
        break;
      }
      own.push_back(place[op.to]);
    }
    const Opened from(place[op.from]), to(place[op.to]), constant(op.constant);
    for (int64_t e = 0; e < elements; ++e) {
      const int64_t row = e / op.n, column = e % op.n;
      if (!op.product) {
        to.floats()[e] = from.floats()[e] + constant.floats()[column];
        continue;
      }
      double sum = 0;
      for (int64_t i = 0; i < op.k; ++i) {
        sum += static_cast<double>(from.floats()[row * op.k + i]) * constant.floats()[i * op.n + column];
      }
      to.floats()[e] = static_cast<float>(sum);
    }
  }
  for (void* data : own) DeviceMemory::Get().Release(data);
  return status;
}

class Device {
 public:
  explicit Device(const quern_host_api* h) : host(h), thread_([this] { Work(); }) { ++g_counters.instances; }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
    --g_counters.instances;
  }
  void Submit(Ticket* ticket) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(ticket);
    }
    changed_.notify_all();
  }
  int32_t Wait(const Ticket* ticket) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ticket->done; });
    return ticket->status;
  }

  const quern_host_api* host;
  quern_memory_kind memory{};

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Ticket* ticket = queue_.front();
      queue_.pop_front();
      lock.unlock();
      const int32_t status = Compute(*ticket);
      lock.lock();
      ticket->status = status;
      ticket->done = true;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Ticket*> queue_;
  bool stop_ = false;
  std::thread thread_;
};

Device* Self(void* self) { return static_cast<Device*>(self); }

// Why the device does not compute the node; "" when it does. `activation`, `constant`: which operands these are.
std::string Reject(const quern_host_api* host, const quern_graph_view* graph, const quern_node_info& node,
                   int* activation, int* constant) {
  const std::string op = node.op_type;
  if (*node.domain != 0 || (op != "MatMul" && op != "Add")) return "the device computes MatMul and Add only";
  quern_value_info a, b;
  quern_value_info_init(&a);
  quern_value_info_init(&b);
  *activation = 0, *constant = 1;
  host->value(graph, node.inputs[0], &a);
  host->value(graph, node.inputs[1], &b);
  if (op == "Add" && a.constant) {
    std::swap(a, b);
    std::swap(*activation, *constant);
  }
  if (a.dtype != kF32 || b.dtype != kF32) return "the device computes float32 only";
  if (!b.constant || b.rank != (op == "MatMul" ? 2 : 1))
    return "the second operand is not a constant of the right rank";
  if (a.constant || a.rank < 2) return "the first operand is not a matrix known by its rank";
  if (op == "Add" && a.dims[a.rank - 1] != b.dims[0]) return "the vector is broadcast";
  return {};
}

int32_t Claim(void* self, const quern_graph_view* graph, quern_claim_sink* sink) {
  const quern_host_api* host = Self(self)->host;
  const int32_t count = host->num_nodes(graph);
  std::vector<bool> taken(static_cast<size_t>(count), false);
  for (int32_t i = 0; i < count; ++i) {
    quern_node_info node, next;
    quern_node_info_init(&node);
    quern_node_info_init(&next);
    host->node(graph, i, &node);
    int activation, constant;
    const std::string reason = Reject(host, graph, node, &activation, &constant);
    if (!reason.empty()) {
      host->reject(sink, i, reason.c_str());
      continue;
    }
    if (taken[i]) continue;
    int32_t set[2] = {i, -1};
    quern_value_info product;
    quern_value_info_init(&product);
    host->value(graph, node.outputs[0], &product);
    for (int32_t j = i + 1; j < count && std::strcmp(node.op_type, "MatMul") == 0 && product.num_uses == 1; ++j) {
      host->node(graph, j, &next);
      if (std::strcmp(next.op_type, "Add") != 0 || !Reject(host, graph, next, &activation, &constant).empty()) continue;
      if (next.inputs[activation] != node.outputs[0]) continue;
      set[1] = j;
      taken[j] = true;
      break;
    }
    host->claim(sink, set, set[1] < 0 ? 1 : 2, 1e-9);
  }
  return 0;
}

int32_t Compile(void* self, const quern_graph_view* cluster, const char*, void** out) {
  const quern_host_api* host = Self(self)->host;
  auto exe = std::make_unique<Executable>();
  exe->num_values = host->num_values(cluster);
  for (int32_t i = 0; i < host->num_inputs(cluster); ++i) exe->inputs.push_back(host->input(cluster, i));
  for (int32_t i = 0; i < host->num_outputs(cluster); ++i) exe->outputs.push_back(host->output(cluster, i));
  for (int32_t i = 0; i < host->num_nodes(cluster); ++i) {
    quern_node_info node;
    quern_node_info_init(&node);
    host->node(cluster, i, &node);
    int activation, constant;
    const std::string reason = Reject(host, cluster, node, &activation, &constant);
    if (!reason.empty()) {
      host->set_error((std::string("node '") + node.name + "': " + reason).c_str());
      return kInvalidArgument;
    }
    quern_value_info value;
    quern_value_info_init(&value);
    host->value(cluster, node.inputs[constant], &value);
    const quern_tensor_view& view = *value.constant;
    Instruction op;
    op.product = std::strcmp(node.op_type, "MatMul") == 0;
    op.from = node.inputs[activation];
    op.to = node.outputs[0];
    op.k = op.product ? view.dims[0] : 1;
    op.n = view.dims[view.rank - 1];
    op.constant = DeviceMemory::Get().Allocate(static_cast<size_t>(op.k * op.n) * sizeof(float));
    if (!op.constant) return kResourceExhausted;
    exe->program.push_back(op);
    const Opened to(op.constant);
    for (int64_t r = 0; r < op.k; ++r) {
      for (int64_t c = 0; c < op.n; ++c) {
        const int64_t at = (op.product ? r * view.strides[0] : 0) + c * view.strides[view.rank - 1];
        to.floats()[r * op.n + c] = static_cast<const float*>(view.data)[at];
      }
    }
  }
  *out = exe.release();
  return 0;
}

int32_t MakePlan(void* self, void* executable, const quern_plan_args* args, quern_plan_sink* sink, void** out) {
  const quern_host_api* host = Self(self)->host;
  const auto* exe = static_cast<const Executable*>(executable);
  auto plan = std::make_unique<Plan>(exe);
  for (size_t i = 0; i < exe->inputs.size(); ++i) {
    plan->shapes[exe->inputs[i]].assign(args->inputs[i].dims, args->inputs[i].dims + args->inputs[i].rank);
  }
  for (const Instruction& op : exe->program) {
    std::vector<int64_t> shape = plan->shapes[op.from];
    if (op.product && shape.back() != op.k) {
      host->set_error("device: the operands of a MatMul do not fit");
      return kInvalidArgument;
    }
    shape.back() = op.n;
    plan->shapes[op.to] = std::move(shape);
  }
  for (size_t i = 0; i < exe->outputs.size(); ++i) {
    const std::vector<int64_t>& shape = plan->shapes[exe->outputs[i]];
    host->set_output(sink, static_cast<int32_t>(i), kF32, static_cast<int32_t>(shape.size()), shape.data());
  }
  *out = plan.release();
  return 0;
}

int32_t Run(void* self, void* plan, const quern_run_args* args, void** ticket) {
  auto t = std::make_unique<Ticket>();
  t->plan = static_cast<const Plan*>(plan);
  for (int32_t i = 0; i < args->num_inputs; ++i) t->inputs.push_back(args->inputs[i].data);
  for (int32_t i = 0; i < args->num_outputs; ++i) t->outputs.push_back(args->outputs[i].data);
  t->fail = g_counters.fail_next.exchange(false);
  ++g_counters.runs;
  Self(self)->Submit(t.get());
  *ticket = t.release();
  return 0;
}

int32_t Wait(void* self, void* ticket) {
  const std::unique_ptr<Ticket> t(static_cast<Ticket*>(ticket));
  const int32_t status = Self(self)->Wait(t.get());
  if (status != 0) Self(self)->host->set_error("device: the device was lost during the run");
  return status;
}

int32_t CopyFromHost(void*, void* to, const void* from, size_t bytes) {
  const Opened device(to);
  std::memcpy(device.floats(), from, bytes);
  ++g_counters.copies_in;
  return 0;
}

int32_t CopyToHost(void*, void* to, const void* from, size_t bytes) {
  const Opened device(const_cast<void*>(from));
  std::memcpy(to, device.floats(), bytes);
  ++g_counters.copies_out;
  return 0;
}

}  // namespace

EXPORT int32_t quern_provider_create(const quern_host_api* host, const char*, quern_provider* out) {
  if (host->abi_version != QUERN_PROVIDER_ABI_VERSION) return kInvalidArgument;
  auto* device = new Device(host);
  device->memory.struct_size = sizeof device->memory;
  device->memory.name = "device";
  device->memory.allocate = [](void*, size_t bytes) { return DeviceMemory::Get().Allocate(bytes); };
  device->memory.release = [](void*, void* data) { DeviceMemory::Get().Release(data); };
  device->memory.copy_from_host = CopyFromHost;
  device->memory.copy_to_host = CopyToHost;
  out->struct_size = sizeof(quern_provider);
  out->abi_version = QUERN_PROVIDER_ABI_VERSION;
  out->self = device;
  out->name = "device";
  out->version = "1";
  out->memory = &device->memory;
  out->flags = 0;
  out->claim = Claim;
  out->compile = Compile;
  out->destroy_executable = [](void*, void* executable) { delete static_cast<Executable*>(executable); };
  out->input_kind = [](void*, void*, int32_t) -> int32_t { return 1; };
  out->output_kind = [](void*, void*, int32_t) -> int32_t { return 1; };
  out->plan = MakePlan;
  out->destroy_plan = [](void*, void* plan) { delete static_cast<Plan*>(plan); };
  out->run = Run;
  out->wait = Wait;
  out->destroy = [](void* self) { delete Self(self); };
  return 0;
}

EXPORT void device_provider_read(device_provider_counters* out) {
  *out = {g_counters.instances, g_counters.executables, g_counters.plans,      g_counters.tickets,
          g_counters.buffers,   g_counters.copies_in,   g_counters.copies_out, g_counters.runs};
}
EXPORT void* device_provider_any_buffer(void) { return DeviceMemory::Get().Any(); }
EXPORT void device_provider_fail_next(void) { g_counters.fail_next = true; }
