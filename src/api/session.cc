// Sessions behind the C ABI: options, ports, runs without allocation, state.
#include "session/session.h"

#include <chrono>
#include <mutex>

#include "api/executor.h"
#include "api/model.h"
#include "api/struct_size.h"
#include "api/value.h"
#include "session/facts.h"

namespace quern::api {
namespace {

// What quern_port points to.
struct PortData {
  std::string name, type_text;
  std::vector<int64_t> dims;
  std::vector<std::string> symbol_texts;
  std::vector<const char*> symbols;
  quern_kind kind = QUERN_KIND_NONE;
  int32_t dtype = 0;
  int32_t rank = -1;
  int32_t has_default = 0;

  explicit PortData(const Port& port) : name(port.name), type_text(TypeToString(port.type)) {
    kind = static_cast<quern_kind>(port.type.kind);
    dtype = static_cast<int32_t>(port.type.dtype);
    has_default = port.default_value.has_value();
    if (!port.type.shape) return;
    rank = port.type.rank();
    for (const Dim& d : *port.type.shape) {
      dims.push_back(d.is_constant() ? d.value() : -1);
      symbol_texts.push_back(d.is_constant() ? "" : d.symbol().empty() ? d.ToString() : std::string(d.symbol()));
    }
    for (const std::string& s : symbol_texts) symbols.push_back(s.c_str());
  }
  PortData(const PortData&) = delete;
  PortData& operator=(const PortData&) = delete;

  Status Fill(quern_port* out) const {
    return WriteStruct<quern_port>({.struct_size = 0,
                                    .name = name.c_str(),
                                    .kind = kind,
                                    .dtype = dtype,
                                    .rank = rank,
                                    .dims = dims.data(),
                                    .symbols = symbols.data(),
                                    .type_text = type_text.c_str(),
                                    .has_default = has_default},
                                   out, "port");
  }
};

// Arguments of one run in the form that Session takes.
struct RunSlots {
  std::vector<Value> inputs, outputs;
};

}  // namespace
}  // namespace quern::api

struct quern_session {
  std::shared_ptr<quern::Session> session;
  std::vector<std::unique_ptr<quern::api::PortData>> inputs, outputs;

  // Slots of runs that ended, so that repeated runs allocate nothing.
  std::mutex mutex;
  std::vector<std::unique_ptr<quern::api::RunSlots>> idle;

  std::unique_ptr<quern::api::RunSlots> Acquire() {
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        auto slots = std::move(idle.back());
        idle.pop_back();
        return slots;
      }
    }
    auto slots = std::make_unique<quern::api::RunSlots>();
    slots->inputs.resize(inputs.size());
    slots->outputs.resize(outputs.size());
    return slots;
  }
  // Lets go of the run's values: a caller's memory must not be held longer than the run.
  void Release(std::unique_ptr<quern::api::RunSlots> slots) {
    for (quern::Value& v : slots->inputs) v = quern::Value();
    for (quern::Value& v : slots->outputs) v = quern::Value();
    std::lock_guard lock(mutex);
    idle.push_back(std::move(slots));
  }
};

struct quern_state {
  std::shared_ptr<quern::Session> session;
  quern::SessionState state;
};

namespace quern::api {
namespace {

Result<SessionOptions> ReadOptions(const quern_session_options* given) {
  SessionOptions options;
  quern_session_options known{};
  if (given) {
    QUERN_ASSIGN_OR_RETURN(known, ReadStruct(given, "options"));
  }
  if (known.threads < 0) return InvalidArgument("threads is " + std::to_string(known.threads) + "; 0 is the default");
  options.threads = known.threads;
  if (known.executor) options.executor = known.executor->owner;
  QUERN_ASSIGN_OR_RETURN(options.cpu, known.cpu ? CpuFromSpec(known.cpu) : CpuFromEnvironment());
  QUERN_RETURN_IF_ERROR(CheckCanRun(options.cpu));
  if (known.providers && known.num_providers > 0) {
    options.providers.clear();
    for (size_t i = 0; i < known.num_providers; ++i) {
      QUERN_RETURN_IF_ERROR(RequirePointer(known.providers[i], "providers[]"));
      options.providers.emplace_back(known.providers[i]);
    }
  }
  if (known.precision) options.precision = known.precision;
  for (size_t i = 0; i < known.num_skip_passes; ++i) {
    QUERN_RETURN_IF_ERROR(RequirePointer(known.skip_passes, "skip_passes"));
    QUERN_RETURN_IF_ERROR(RequirePointer(known.skip_passes[i], "skip_passes[]"));
    options.skip_passes.emplace(known.skip_passes[i]);
  }
  if (known.plan_cache_size > 0) options.plan_cache_size = known.plan_cache_size;
  QUERN_ASSIGN_OR_RETURN(options.limits, ReadLimits(known.limits));
  options.overridable_initializers = known.overridable_initializers != 0;
  options.profile = known.profile != 0;
  if (known.pack_cache) options.pack_cache = known.pack_cache;
  options.pack_cache_bytes = known.pack_cache_bytes;
  options.serial_branches = known.serial_branches != 0;
  options.flush_denormals = known.flush_denormals != 0;
  options.keep_denormals = known.keep_denormals != 0;
  return options;
}

// The elements of an output must be distinct memory.
Status CheckWritable(const Value& value, const std::string& name) {
  if (!value.is_tensor()) return InvalidArgument("output '" + name + "': only tensors can be written in place");
  const Tensor& t = value.tensor();
  for (int i = 0; i < t.rank(); ++i) {
    if (t.strides()[i] == 0 && t.dim(i) > 1) {
      return InvalidArgument("output '" + name + "': the tensor given has stride 0 along dimension " +
                             std::to_string(i));
    }
  }
  return OkStatus();
}

// From the first byte of a tensor to behind its last; both null for what has no memory of its own.
std::pair<uintptr_t, uintptr_t> Extent(const Value& value) {
  if (!value.is_tensor() || value.tensor().num_elements() == 0) return {};
  const Tensor& t = value.tensor();
  const auto begin = reinterpret_cast<uintptr_t>(t.raw_data());
  if (t.is_contiguous()) return {begin, begin + t.bytes()};
  int64_t last = 0;
  for (int i = 0; i < t.rank(); ++i) last += (t.dim(i) - 1) * t.strides()[i];
  return {begin, begin + static_cast<uintptr_t>(last + 1) * DTypeBytes(t.dtype())};
}

// Kernels read inputs while they write outputs: a given output must be memory of its own.
Status CheckApart(const quern_session& s, const RunSlots& slots) {
  for (size_t i = 0; i < slots.outputs.size(); ++i) {
    const auto [begin, end] = Extent(slots.outputs[i]);
    if (begin == end) continue;
    auto check = [&, b = begin, e = end](const Value& other, const std::string& name, const char* kind) {
      const auto [other_begin, other_end] = Extent(other);
      if (other_begin >= e || b >= other_end) return OkStatus();
      return InvalidArgument("the memory of output '" + s.outputs[i]->name + "' overlaps that of " + kind + " '" +
                             name + "'");
    };
    for (size_t k = 0; k < slots.inputs.size(); ++k) {
      QUERN_RETURN_IF_ERROR(check(slots.inputs[k], s.inputs[k]->name, "input"));
    }
    for (size_t k = 0; k < i; ++k) {
      QUERN_RETURN_IF_ERROR(check(slots.outputs[k], s.outputs[k]->name, "output"));
    }
  }
  return OkStatus();
}

Status RunSession(quern_session& s, quern_state* state, const quern_value* const* inputs, quern_value** outputs,
                  const quern_run_options* given, RunSlots& slots) {
  quern_run_options known{};
  if (given) {
    QUERN_ASSIGN_OR_RETURN(known, ReadStruct(given, "options"));
  }
  RunOptions options;
  options.cancel = known.cancel ? &known.cancel->token : nullptr;
  options.executor = known.executor ? known.executor->executor : nullptr;
  if (known.want) options.want = {known.want, s.outputs.size()};
  if (!s.inputs.empty()) QUERN_RETURN_IF_ERROR(RequirePointer(inputs, "inputs"));
  if (!s.outputs.empty()) QUERN_RETURN_IF_ERROR(RequirePointer(outputs, "outputs"));
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    slots.inputs[i] = inputs[i] ? inputs[i]->value : s.session->inputs()[i].default_value;
  }
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    if (!outputs[i] || (known.want && !known.want[i])) continue;
    QUERN_RETURN_IF_ERROR(CheckWritable(outputs[i]->value, s.outputs[i]->name));
    slots.outputs[i] = outputs[i]->value;
  }
  if (state) {
    for (const auto& bound : state->state.bindings) {
      slots.inputs[bound.input_index] = bound.spec.buffer;
      slots.outputs[bound.output_index] = Value();
    }
  }
  QUERN_RETURN_IF_ERROR(CheckApart(s, slots));
  QUERN_RETURN_IF_ERROR(state ? s.session->RunWithState(state->state, slots.inputs, slots.outputs, options)
                              : s.session->Run(slots.inputs, slots.outputs, options));
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    if (outputs[i] || !slots.outputs[i].has_value() || (known.want && !known.want[i])) continue;
    outputs[i] = new (std::nothrow) quern_value{std::move(slots.outputs[i])};
    if (!outputs[i]) return ResourceExhausted("no memory for the handles of the outputs");
  }
  return OkStatus();
}

Status RunInSlots(quern_session& session, quern_state* state, const quern_value* const* inputs, quern_value** outputs,
                  const quern_run_options* options) {
  std::unique_ptr<RunSlots> slots = session.Acquire();
  Status status = RunSession(session, state, inputs, outputs, options, *slots);
  session.Release(std::move(slots));
  return status;
}

}  // namespace
}  // namespace quern::api

using quern::InvalidArgument;
using quern::OkStatus;
using quern::Result;
using quern::Status;
using quern::api::Guard;
using quern::api::RequirePointer;

extern "C" {

quern_status quern_session_create(const quern_model* model, const quern_session_options* options, quern_session** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    QUERN_ASSIGN_OR_RETURN(const quern::Graph* graph, quern::api::GraphOf(model));
    QUERN_ASSIGN_OR_RETURN(quern::SessionOptions read, quern::api::ReadOptions(options));
    const auto start = std::chrono::steady_clock::now();
    QUERN_ASSIGN_OR_RETURN(std::unique_ptr<quern::Session> session,
                           quern::Session::Create(graph->Clone(), std::move(read)));
    if (quern::ProcessLogger().Enabled(quern::LogLevel::kInfo)) {
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      quern::ProcessLogger().Log(quern::LogLevel::kInfo, "compiled '" + graph->name + "' of " +
                                                             std::to_string(graph->num_nodes()) + " nodes in " +
                                                             std::to_string(took.count()) + " ms");
    }
    auto handle = std::make_unique<quern_session>();
    handle->session = std::move(session);
    for (const quern::Port& p : handle->session->inputs()) {
      handle->inputs.push_back(std::make_unique<quern::api::PortData>(p));
    }
    for (const quern::Port& p : handle->session->outputs()) {
      handle->outputs.push_back(std::make_unique<quern::api::PortData>(p));
    }
    *out = handle.release();
    return OkStatus();
  });
}

void quern_session_free(quern_session* session) { delete session; }

size_t quern_session_num_inputs(const quern_session* session) { return session ? session->inputs.size() : 0; }
size_t quern_session_num_outputs(const quern_session* session) { return session ? session->outputs.size() : 0; }

quern_status quern_session_input(const quern_session* session, size_t index, quern_port* out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(session, "session"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    if (index >= session->inputs.size()) return InvalidArgument("no input " + std::to_string(index));
    return session->inputs[index]->Fill(out);
  });
}

quern_status quern_session_output(const quern_session* session, size_t index, quern_port* out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(session, "session"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    if (index >= session->outputs.size()) return InvalidArgument("no output " + std::to_string(index));
    return session->outputs[index]->Fill(out);
  });
}

quern_status quern_session_find_input(const quern_session* session, const char* name, size_t* index) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(session, "session"));
    QUERN_RETURN_IF_ERROR(RequirePointer(name, "name"));
    QUERN_RETURN_IF_ERROR(RequirePointer(index, "index"));
    QUERN_ASSIGN_OR_RETURN(*index, session->session->FindInput(name));
    return OkStatus();
  });
}

quern_status quern_session_run(quern_session* session, const quern_value* const* inputs, quern_value** outputs,
                               const quern_run_options* options) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(session, "session"));
    return quern::api::RunInSlots(*session, nullptr, inputs, outputs, options);
  });
}

quern_status quern_state_create(quern_session* session, const quern_state_spec* specs, size_t count,
                                quern_state** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(session, "session"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    if (count > 0) QUERN_RETURN_IF_ERROR(RequirePointer(specs, "specs"));
    std::vector<quern::StateSpec> read;
    for (size_t i = 0; i < count; ++i) {
      QUERN_ASSIGN_OR_RETURN(const quern_state_spec known, quern::api::ReadElement(specs, i, "specs"));
      QUERN_RETURN_IF_ERROR(RequirePointer(known.input, "specs[].input"));
      QUERN_RETURN_IF_ERROR(RequirePointer(known.output, "specs[].output"));
      QUERN_RETURN_IF_ERROR(RequirePointer(known.buffer, "specs[].buffer"));
      if (!known.buffer->value.is_tensor()) return InvalidArgument("the buffer of a state must be a tensor");
      read.push_back({known.input, known.output, known.axis, known.buffer->value.tensor(), known.length});
    }
    QUERN_ASSIGN_OR_RETURN(quern::SessionState state, session->session->CreateState(std::move(read)));
    *out = new quern_state{session->session, std::move(state)};
    return OkStatus();
  });
}

quern_status quern_session_run_with_state(quern_session* session, quern_state* state, const quern_value* const* inputs,
                                          quern_value** outputs, const quern_run_options* options) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(session, "session"));
    QUERN_RETURN_IF_ERROR(RequirePointer(state, "state"));
    if (state->session != session->session) return InvalidArgument("the state belongs to another session");
    return quern::api::RunInSlots(*session, state, inputs, outputs, options);
  });
}

int64_t quern_state_length(const quern_state* state, size_t index) {
  return state && index < state->state.bindings.size() ? state->state.bindings[index].spec.length : -1;
}

quern_status quern_state_set_length(quern_state* state, size_t index, int64_t length) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(state, "state"));
    if (index >= state->state.bindings.size()) return InvalidArgument("no state " + std::to_string(index));
    quern::StateSpec& spec = state->state.bindings[index].spec;
    if (spec.axis < 0) return InvalidArgument("state '" + spec.input + "' does not grow: it has no length to set");
    const int64_t capacity = spec.buffer.dim(spec.axis);
    if (length < 0 || length > capacity) {
      return InvalidArgument("state '" + spec.input + "': length " + std::to_string(length) + " is not in 0.." +
                             std::to_string(capacity));
    }
    spec.length = length;
    return OkStatus();
  });
}

quern_status quern_state_value(const quern_state* state, size_t index, quern_value** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(state, "state"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    if (index >= state->state.bindings.size()) return InvalidArgument("no state " + std::to_string(index));
    *out = new quern_value{state->state.bindings[index].value()};
    return OkStatus();
  });
}

void quern_state_free(quern_state* state) { delete state; }

quern_status quern_session_facts(const quern_session* session, const char* stage, char** json) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(session, "session"));
    QUERN_RETURN_IF_ERROR(RequirePointer(json, "json"));
    QUERN_ASSIGN_OR_RETURN(const std::string text, session->session->Facts(stage ? stage : "all"));
    *json = quern::api::CopyText(text);
    return OkStatus();
  });
}

quern_status quern_session_text(const quern_session* session, const char* stage, char** text) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(session, "session"));
    QUERN_RETURN_IF_ERROR(RequirePointer(stage, "stage"));
    QUERN_RETURN_IF_ERROR(RequirePointer(text, "text"));
    QUERN_ASSIGN_OR_RETURN(const std::string content, session->session->Text(stage));
    *text = quern::api::CopyText(content);
    return OkStatus();
  });
}

}  // extern "C"
