#include "session/session.h"

#include <algorithm>

#include "parallel/thread_pool.h"
#include "parallel/topology.h"
#include "provider/cpu/cpu_provider.h"
#include "provider/host.h"
#include "provider/reference/reference_provider.h"
#include "session/executable.h"
#include "session/facts.h"

namespace quern {

struct Session::Impl {
  SessionOptions options;
  std::shared_ptr<Executor> executor;
  std::unique_ptr<Executable> executable;
  std::vector<Port> inputs, outputs;
  std::vector<std::string> overridable;  // initializers that are no inputs because the options do not say so
};

namespace {

Result<std::vector<std::shared_ptr<Provider>>> MakeProviders(const SessionOptions& options,
                                                             const std::shared_ptr<Executor>& executor) {
  std::vector<std::shared_ptr<Provider>> providers;
  bool reference = false;
  for (const std::string& name : options.providers) {
    if (name == "cpu") {
      cpu::CpuConfig config;
      config.cpu = options.cpu;
      config.precision = options.precision;
      config.limits = options.limits;
      if (options.gemm_rows) config.gemm_rows = *options.gemm_rows;
      providers.push_back(cpu::MakeCpuProvider(std::move(config), executor));
    } else if (name == "reference") {
      providers.push_back(MakeReferenceProvider());
      reference = true;
    } else if (name.find('/') != std::string::npos) {
      QUERN_ASSIGN_OR_RETURN(std::shared_ptr<Provider> external, Provider::Load(name, "{}"));
      providers.push_back(std::move(external));
    } else {
      return InvalidArgument(
          "there is no provider '" + name +
          "'; known are cpu and reference, a path with a '/' names a shared library over provider.h");
    }
  }
  if (!reference) providers.push_back(MakeReferenceProvider());
  return providers;
}

// Bytes of one step along the growing dimension do not matter: the buffer's own strides address it.
Tensor StateView(const StateSpec& spec, int64_t length) {
  if (spec.axis < 0) return spec.buffer;
  Shape shape = spec.buffer.shape();
  shape[spec.axis] = length;
  return Tensor::WrapStrided(spec.buffer.dtype(), shape, spec.buffer.strides(), spec.buffer.raw_data(),
                             spec.buffer.owner());
}

// %w = const -> input %w, for every initializer that the file lists as an input too. Their values, in input order.
std::vector<Value> MakeOverridable(Graph& graph) {
  std::vector<Value> defaults;
  for (auto& [name, type] : graph.overridable) {
    GraphValue* constant = graph.FindValue(name);
    defaults.push_back(*constant->constant());
    graph.RenameValue(constant, graph.UniqueName(name + ".default"));
    graph.ReplaceAllUses(constant, graph.AddInput(name, std::move(type)));
    graph.RemoveValue(constant);
  }
  graph.overridable.clear();
  return defaults;
}

void AppendSymbols(const Dim& dim, std::vector<std::string>& to) {
  for (std::string& symbol : dim.symbols()) to.push_back(std::move(symbol));
}

}  // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::Create(std::unique_ptr<Graph> graph, SessionOptions options) {
  if (options.precision != "fp32" && options.precision != "fp32-fast" && options.precision != "bf16") {
    return InvalidArgument("there is no precision '" + options.precision + "'; known are fp32, fp32-fast and bf16");
  }
  if (options.cpu.name.empty()) {
    QUERN_ASSIGN_OR_RETURN(options.cpu, CpuFromEnvironment());
  }
  QUERN_RETURN_IF_ERROR(CheckCanRun(options.cpu));
  auto impl = std::make_unique<Impl>();
  impl->executor = options.executor;
  if (!impl->executor) {
    const int threads = options.threads > 0 ? options.threads : DefaultThreadCount();
    if (threads == 1) {
      impl->executor = std::make_shared<InlineExecutor>();
    } else {
      impl->executor = std::make_shared<ThreadPool>(ThreadPoolOptions{.threads = threads});
    }
  }
  CompileEnv env;
  QUERN_ASSIGN_OR_RETURN(env.providers, MakeProviders(options, impl->executor));
  env.skip_passes = options.skip_passes;
  env.limits = options.limits;
  env.concurrency = impl->executor->concurrency();
  env.plan_cache_size = options.plan_cache_size;
  const size_t num_required = graph->inputs().size();
  std::vector<Value> defaults;
  if (options.overridable_initializers) {
    defaults = MakeOverridable(*graph);
  } else {
    for (const auto& [name, type] : graph->overridable) impl->overridable.push_back(name);
  }
  for (const GraphValue* v : graph->inputs()) impl->inputs.push_back({v->name(), v->type()});
  for (size_t i = 0; i < defaults.size(); ++i) impl->inputs[num_required + i].default_value = std::move(defaults[i]);
  QUERN_ASSIGN_OR_RETURN(impl->executable, Executable::Compile(std::move(graph), env));
  for (const GraphValue* v : impl->executable->graph().outputs()) impl->outputs.push_back({v->name(), v->type()});
  impl->options = std::move(options);
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

std::span<const Port> Session::inputs() const { return impl_->inputs; }
std::span<const Port> Session::outputs() const { return impl_->outputs; }

Result<size_t> Session::FindInput(std::string_view name) const {
  std::string known;
  for (size_t i = 0; i < impl_->inputs.size(); ++i) {
    const Port& port = impl_->inputs[i];
    if (port.name == name) return i;
    known += (i ? ", '" : " '") + port.name + "' (" + TypeToString(port.type) + ")";
  }
  const auto& overridable = impl_->overridable;
  if (std::find(overridable.begin(), overridable.end(), name) != overridable.end()) {
    return InvalidArgument("'" + std::string(name) +
                           "' is an initializer that is also an input: it is a constant unless the session option "
                           "overridable_initializers is set");
  }
  return InvalidArgument("there is no input '" + std::string(name) + "'; the model takes" +
                         (known.empty() ? " no input" : known));
}

Status Session::Run(std::span<const Value> inputs, std::span<Value> outputs, const RunOptions& options) {
  Executor* executor = options.executor ? options.executor : impl_->executor.get();
  if (executor->concurrency() > impl_->executor->concurrency()) {
    return InvalidArgument("the run's executor has " + std::to_string(executor->concurrency()) +
                           " slots, the session was made for " + std::to_string(impl_->executor->concurrency()));
  }
  return impl_->executable->Run(inputs, outputs,
                                {.executor = executor, .cancel = options.cancel, .want = options.want, .depth = 0});
}

Result<SessionState> Session::CreateState(std::vector<StateSpec> specs) const {
  SessionState state;
  auto find = [](const std::vector<Port>& ports, const std::string& name) {
    const auto it = std::find_if(ports.begin(), ports.end(), [&](const Port& p) { return p.name == name; });
    return it == ports.end() ? -1 : static_cast<int>(it - ports.begin());
  };
  for (StateSpec& spec : specs) {
    const int input = find(impl_->inputs, spec.input), output = find(impl_->outputs, spec.output);
    if (input < 0) return NotFound("state: the model has no input '" + spec.input + "'");
    if (output < 0) return NotFound("state: the model has no output '" + spec.output + "'");
    if (!spec.buffer.defined()) return InvalidArgument("state '" + spec.input + "': no buffer");
    if (spec.axis >= spec.buffer.rank()) {
      return InvalidArgument("state '" + spec.input + "': axis " + std::to_string(spec.axis) + " of a buffer of rank " +
                             std::to_string(spec.buffer.rank()));
    }
    if (spec.axis >= 0 && (spec.length < 0 || spec.length > spec.buffer.dim(spec.axis))) {
      return InvalidArgument("state '" + spec.input + "': length " + std::to_string(spec.length) +
                             " is outside the capacity " + std::to_string(spec.buffer.dim(spec.axis)));
    }
    const ValueType& in = impl_->inputs[input].type;
    if (in.dtype != spec.buffer.dtype()) {
      return InvalidArgument("state '" + spec.input + "' is of type " + DTypeName(in.dtype) + ", its buffer of type " +
                             DTypeName(spec.buffer.dtype()));
    }
    state.bindings.push_back({std::move(spec), input, output});
  }
  return state;
}

Status Session::RunWithState(SessionState& state, std::span<const Value> inputs, std::span<Value> outputs,
                             const RunOptions& options) {
  std::vector<Value> in(inputs.begin(), inputs.end());
  std::vector<Value> out(outputs.begin(), outputs.end());
  if (in.size() != impl_->inputs.size() || out.size() != impl_->outputs.size()) {
    return InvalidArgument("a run with state takes a slot per input and per output of the model");
  }
  for (const SessionState::Binding& b : state.bindings) in[b.input_index] = StateView(b.spec, b.spec.length);
  QUERN_ASSIGN_OR_RETURN(const std::vector<std::optional<Shape>> shapes, impl_->executable->OutputShapes(in));

  // The plan is made for full buffers: extents that grow with a state are planned at their most.
  std::vector<Shape> planned;
  for (const Value& v : in) planned.push_back(v.is_tensor() ? v.tensor().shape() : Shape());
  std::vector<int64_t> grown(state.bindings.size(), 0);
  std::vector<Value> second(state.bindings.size());  // where a state that keeps its shape is written
  for (size_t i = 0; i < state.bindings.size(); ++i) {
    const SessionState::Binding& b = state.bindings[i];
    const std::optional<Shape>& shape = shapes[b.output_index];
    if (!shape)
      return Unsupported("state '" + b.spec.input + "': the shape of '" + b.spec.output + "' depends on data");
    if (b.spec.axis < 0) {
      if (!(*shape == b.spec.buffer.shape())) {
        return InvalidArgument("state '" + b.spec.input + "' has shape " + b.spec.buffer.shape().ToString() +
                               ", its continuation has shape " + shape->ToString());
      }
      // The old state may still be read while the new one is written: they swap through memory of their own.
      QUERN_ASSIGN_OR_RETURN(Tensor next, Tensor::Allocate(b.spec.buffer.dtype(), *shape));
      second[i] = next;
      out[b.output_index] = std::move(next);
      continue;
    }
    const int64_t capacity = b.spec.buffer.dim(b.spec.axis), length = (*shape)[b.spec.axis];
    if (length > capacity) {
      return ResourceExhausted("state '" + b.spec.input + "' would grow to " + std::to_string(length) +
                               ", its capacity is " + std::to_string(capacity));
    }
    grown[i] = length - b.spec.length;
    out[b.output_index] = StateView(b.spec, length);
    planned[b.input_index][b.spec.axis] = capacity - grown[i];
    // Other inputs that grow along with this state (an attention mask) are planned at their most too: those whose
    // extent is the state's by its symbols, or has its length now and is not known to stand for something else.
    if (!impl_->inputs[b.input_index].type.shape) continue;
    const Dims& past = *impl_->inputs[b.input_index].type.shape;
    const std::optional<Dims>& whole = impl_->outputs[b.output_index].type.shape;
    std::vector<std::string> steady;
    for (int d = 0; d < static_cast<int>(past.size()); ++d) {
      if (d != b.spec.axis) AppendSymbols(past[d], steady);
    }
    if (whole) AppendSymbols((*whole)[b.spec.axis] - past[b.spec.axis], steady);
    for (size_t k = 0; k < in.size(); ++k) {
      const ValueType& type = impl_->inputs[k].type;
      const bool bound = std::any_of(state.bindings.begin(), state.bindings.end(), [&](const SessionState::Binding& o) {
        return o.input_index == static_cast<int>(k);
      });
      if (bound || !in[k].is_tensor() || !type.shape || type.rank() != in[k].tensor().rank()) continue;
      for (int d = 0; d < type.rank(); ++d) {
        const Dim& dim = (*type.shape)[d];
        if (dim.is_constant() || planned[k][d] != in[k].tensor().dim(d)) continue;
        const std::vector<std::string> symbols = dim.symbols();
        const bool other = std::any_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
          return std::find(steady.begin(), steady.end(), symbol) != steady.end();
        });
        if (dim == past[b.spec.axis]) {
          planned[k][d] = capacity - grown[i];
        } else if ((whole && dim == (*whole)[b.spec.axis]) || (!other && in[k].tensor().dim(d) == length)) {
          planned[k][d] = capacity;
        }
      }
    }
  }
  Executor* executor = options.executor ? options.executor : impl_->executor.get();
  QUERN_RETURN_IF_ERROR(impl_->executable->Run(
      in, out, {.executor = executor, .cancel = options.cancel, .want = options.want, .depth = 0}, planned));
  for (size_t i = 0; i < state.bindings.size(); ++i) {
    SessionState::Binding& b = state.bindings[i];
    if (b.spec.axis < 0) {
      CopyTensor(second[i].tensor(), b.spec.buffer);
    } else {
      b.spec.length += grown[i];
    }
    out[b.output_index] = outputs[b.output_index];
  }
  std::copy(out.begin(), out.end(), outputs.begin());
  return OkStatus();
}

Result<std::string> Session::Facts(std::string_view stage) const { return SessionFacts(*impl_->executable, stage); }
Result<std::string> Session::Text(std::string_view stage) const { return SessionText(*impl_->executable, stage); }
int64_t Session::plans_built() const { return impl_->executable->plans_built(); }

}  // namespace quern
