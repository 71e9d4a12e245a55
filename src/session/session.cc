#include "session/session.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "kernels/calibration.h"
#include "parallel/flushing_executor.h"
#include "parallel/thread_pool.h"
#include "parallel/topology.h"
#include "provider/cpu/cpu_provider.h"
#include "provider/cpu/sized/sized_provider.h"
#include "provider/host.h"
#include "provider/reference/reference_provider.h"
#include "session/executable.h"
#include "session/facts.h"
#include "session/pack_cache.h"
#include "session/shared_weights.h"

namespace quern {

struct Session::Impl {
  SessionOptions options;
  std::shared_ptr<Executor> executor;
  std::unique_ptr<Executable> executable;
  std::vector<Port> inputs, outputs;
  std::vector<std::string> overridable;  // initializers that are no inputs because the options do not say so

  // The run's own executor, or the session's: scratch and packed forms are made for as many slots as that has.
  Result<RunEnv> RunEnvFor(const RunOptions& given) const {
    RunEnv env{.executor = given.executor ? given.executor : executor.get(),
               .cancel = given.cancel,
               .want = given.want,
               .depth = 0,
               .memory = nullptr};
    if (env.executor->concurrency() <= executor->concurrency()) return env;
    return InvalidArgument("the run's executor has " + std::to_string(env.executor->concurrency()) +
                           " slots, the session was made for " + std::to_string(executor->concurrency()));
  }
  // run(env), which flushes denormals if the options say so.
  template <class F>
  Status WithDenormals(const RunEnv& env, F run) const {
    if (!options.flush_denormals) return run(env);
    return WithDenormalsFlushed(*env.executor, [&](Executor& flushing) {
      RunEnv changed = env;
      changed.executor = &flushing;
      return run(changed);
    });
  }
  // A run over the state's own slots, bound ones filled in.
  Status RunStates(SessionState& state, const RunEnv& env);
  Result<std::vector<int64_t>> GrownLengths(const SessionState& state) const;
  std::vector<Shape> PlannedShapes(const SessionState& state, std::span<const int64_t> lengths) const;
};

namespace {

// The pack cache that the options or the environment ask for; null when neither does.
Result<std::shared_ptr<PackCache>> OpenPackCache(const SessionOptions& options) {
  const auto open = [](const std::string& folder, uint64_t limit) {
    return PackCache::Open(folder, limit > 0 ? limit : PackCache::kDefaultLimitBytes);
  };
  if (options.pack_cache) {
    if (options.pack_cache->empty()) return std::shared_ptr<PackCache>();
    return open(*options.pack_cache, options.pack_cache_bytes);
  }
  const char* folder = std::getenv("QUERN_CACHE");
  if (folder == nullptr || *folder == 0) return std::shared_ptr<PackCache>();
  uint64_t limit = options.pack_cache_bytes;
  if (const char* text = std::getenv("QUERN_CACHE_LIMIT"); text != nullptr && *text != 0 && limit == 0) {
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, limit);
    if (error != std::errc() || stop != end || limit == 0) {
      return InvalidArgument(std::string("QUERN_CACHE_LIMIT is '") + text + "'; a number of bytes is needed");
    }
  }
  Result<std::shared_ptr<PackCache>> cache = open(folder, limit);
  if (cache.ok()) return cache;
  ProcessLogger().Log(LogLevel::kWarning, "QUERN_CACHE: " + cache.status().message());
  return std::shared_ptr<PackCache>();
}

bool WantsSerialBranches(const SessionOptions& options) {
  const char* text = std::getenv("QUERN_SERIAL_BRANCHES");
  return options.serial_branches || (text != nullptr && std::string_view(text) == "1");
}

Result<std::vector<std::shared_ptr<Provider>>> MakeProviders(
    const SessionOptions& options, const std::shared_ptr<Executor>& executor,
    const std::shared_ptr<kernels::PackedStore>& packed_store) {
  if (options.flush_denormals && options.keep_denormals) {
    return InvalidArgument("flush_denormals and keep_denormals exclude each other: set one of them at most");
  }
  std::vector<std::shared_ptr<Provider>> providers;
  bool reference = false;
  for (const std::string& name : options.providers) {
    if (name == "cpu") {
      cpu::CpuConfig config;
      config.cpu = options.cpu;
      config.precision = options.precision;
      config.limits = options.limits;
      config.packed_store = packed_store;
      config.skip_passes = options.skip_passes;
      config.serial_branches = WantsSerialBranches(options);
      config.keep_denormals = options.keep_denormals;
      if (options.gemm_rows) {
        config.gemm_rows = *options.gemm_rows;
      } else {
        QUERN_ASSIGN_OR_RETURN(config.calibration, kernels::CalibrationFromEnvironment(config.cpu));
      }
      if (config.calibration) {
        config.gemm_rows = config.calibration->rows();
        config.calibration->ApplyTo(config.cpu);
      }
      providers.push_back(cpu::MakeCpuProvider(std::move(config), executor));
      providers.push_back(cpu::MakeSizedProvider(options.cpu));
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

// The first `length` of a buffer along the dimension that grows; all of it when none does.
Tensor StateView(const Tensor& buffer, int axis, int64_t length) {
  if (axis < 0) return buffer;
  Shape shape = buffer.shape();
  shape[axis] = length;
  return Tensor::WrapStrided(buffer.dtype(), shape, buffer.strides(), buffer.raw_data(), buffer.owner());
}

// Whether `output` is `input` with more behind it along `axis`, by what its operator is.
bool Appends(const GraphValue& input, const GraphValue& output, int axis) {
  const Node* node = output.producer();
  if (!node) return false;
  if (node->Is("Concat")) {
    const int64_t along = node->GetInt("axis", 0);
    return node->input(0) == &input && (along < 0 ? along + output.type().rank() : along) == axis;
  }
  if (!node->Is("Attention") || axis != 2) return false;
  constexpr int kPastKey = 4, kPastValue = 5, kPresentKey = 1, kPresentValue = 2;
  return (node->input(kPastKey) == &input && node->output(kPresentKey) == &output) ||
         (node->input(kPastValue) == &input && node->output(kPresentValue) == &output);
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
  QUERN_ASSIGN_OR_RETURN(const std::shared_ptr<PackCache> pack_cache, OpenPackCache(options));
  env.pack_cache = pack_cache;
  std::shared_ptr<kernels::PackedStore> packed_store = pack_cache;
  if (SharesWeights(*graph)) packed_store = std::make_shared<SharedWeights>(pack_cache);
  QUERN_ASSIGN_OR_RETURN(env.providers, MakeProviders(options, impl->executor, packed_store));
  env.skip_passes = options.skip_passes;
  env.limits = options.limits;
  env.concurrency = impl->executor->concurrency();
  env.plan_cache_size = options.plan_cache_size;
  env.profile = options.profile;
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
  QUERN_ASSIGN_OR_RETURN(const RunEnv env, impl_->RunEnvFor(options));
  return impl_->WithDenormals(env, [&](const RunEnv& e) { return impl_->executable->Run(inputs, outputs, e); });
}

Tensor SessionState::Binding::value() const { return StateView(spec.buffer, spec.axis, spec.length); }

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
    const std::string what = "state '" + spec.input + "'";
    for (const SessionState::Binding& other : state.bindings) {
      if (other.input_index == input) return InvalidArgument(what + ": another state has this input");
      if (other.output_index == output) {
        return InvalidArgument(what + ": state '" + other.spec.input + "' has the output '" + spec.output + "' too");
      }
    }
    const Tensor& buffer = spec.buffer;
    if (!buffer.defined()) return InvalidArgument(what + ": no buffer");
    if (spec.axis < -1 || spec.axis >= buffer.rank()) {
      return InvalidArgument(what + ": axis " + std::to_string(spec.axis) + " of a buffer of rank " +
                             std::to_string(buffer.rank()));
    }
    if (spec.axis >= 0 && (spec.length < 0 || spec.length > buffer.dim(spec.axis))) {
      return InvalidArgument(what + ": length " + std::to_string(spec.length) + " is outside the capacity " +
                             std::to_string(buffer.dim(spec.axis)));
    }
    const auto fits = [&](const Port& port) -> Status {
      const ValueType& type = port.type;
      if (type.dtype != DType::kUndefined && type.dtype != buffer.dtype()) {
        return InvalidArgument(what + ": '" + port.name + "' is of type " + DTypeName(type.dtype) +
                               ", the buffer of type " + DTypeName(buffer.dtype()));
      }
      if (type.shape && type.rank() != buffer.rank()) {
        return InvalidArgument(what + ": '" + port.name + "' is of rank " + std::to_string(type.rank()) +
                               ", the buffer of rank " + std::to_string(buffer.rank()));
      }
      return OkStatus();
    };
    QUERN_RETURN_IF_ERROR(fits(impl_->inputs[input]));
    QUERN_RETURN_IF_ERROR(fits(impl_->outputs[output]));
    const Graph& graph = impl_->executable->graph();
    SessionState::Binding binding{
        .spec = std::move(spec), .input_index = input, .output_index = output, .appends = false, .spare = {}};
    binding.appends =
        binding.spec.axis >= 0 && Appends(*graph.inputs()[input], *graph.outputs()[output], binding.spec.axis);
    if (!binding.appends) {
      Result<Tensor> spare = Tensor::Allocate(binding.spec.buffer.dtype(), binding.spec.buffer.shape());
      if (!spare.ok()) return spare.status().WithContext(what);
      binding.spare = std::move(spare).value();
    }
    state.bindings.push_back(std::move(binding));
  }
  return state;
}

Status Session::Impl::RunStates(SessionState& state, const RunEnv& env) {
  std::vector<SessionState::Binding>& bindings = state.bindings;
  std::vector<Value>&in = state.inputs, &out = state.outputs;
  bool growing = false;
  for (SessionState::Binding& b : bindings) {
    in[b.input_index] = b.value();
    if (b.spec.axis < 0) out[b.output_index] = b.spare;
    growing = growing || b.spec.axis >= 0;
  }
  std::vector<Shape> planned;
  std::vector<int64_t> lengths;
  if (growing) {
    QUERN_ASSIGN_OR_RETURN(lengths, GrownLengths(state));
    for (size_t i = 0; i < bindings.size(); ++i) {
      const SessionState::Binding& b = bindings[i];
      if (b.spec.axis < 0) continue;
      out[b.output_index] = StateView(b.appends ? b.spec.buffer : b.spare, b.spec.axis, lengths[i]);
    }
    planned = PlannedShapes(state, lengths);
  }
  QUERN_RETURN_IF_ERROR(executable->Run(in, out, env, planned));
  for (size_t i = 0; i < bindings.size(); ++i) {
    SessionState::Binding& b = bindings[i];
    if (b.spec.axis < 0) {
      std::swap(b.spec.buffer, b.spare);
      continue;
    }
    b.spec.length = lengths[i];
    if (!b.appends) CopyTensor(out[b.output_index].tensor(), b.value());
  }
  return OkStatus();
}

// Extent of each growing state after the run.
Result<std::vector<int64_t>> Session::Impl::GrownLengths(const SessionState& state) const {
  QUERN_ASSIGN_OR_RETURN(const std::vector<std::optional<Shape>> shapes, executable->OutputShapes(state.inputs));
  std::vector<int64_t> lengths;
  for (const SessionState::Binding& b : state.bindings) {
    const std::string what = "state '" + b.spec.input + "'";
    const std::optional<Shape>& shape = shapes[b.output_index];
    lengths.push_back(0);
    if (b.spec.axis < 0) continue;
    if (!shape) return Unsupported(what + ": the shape of '" + b.spec.output + "' depends on data");
    Shape most = *shape;
    if (most.rank() == b.spec.buffer.rank()) most[b.spec.axis] = b.spec.buffer.dim(b.spec.axis);
    if (!(most == b.spec.buffer.shape())) {
      return InvalidArgument(what + " has a buffer of shape " + b.spec.buffer.shape().ToString() +
                             ", its continuation has shape " + shape->ToString());
    }
    lengths.back() = (*shape)[b.spec.axis];
    const int64_t capacity = b.spec.buffer.dim(b.spec.axis);
    if (lengths.back() > capacity) {
      return ResourceExhausted(what + " would grow to " + std::to_string(lengths.back()) + ", its capacity is " +
                               std::to_string(capacity));
    }
  }
  return lengths;
}

// Input shapes for the plan: it is made for full buffers, so that a growing length does not mean a new plan.
std::vector<Shape> Session::Impl::PlannedShapes(const SessionState& state, std::span<const int64_t> lengths) const {
  const std::vector<Value>& in = state.inputs;
  std::vector<Shape> planned;
  for (const Value& v : in) planned.push_back(v.is_tensor() ? v.tensor().shape() : Shape());
  for (size_t i = 0; i < state.bindings.size(); ++i) {
    const SessionState::Binding& b = state.bindings[i];
    if (b.spec.axis < 0) continue;
    const int64_t capacity = b.spec.buffer.dim(b.spec.axis);
    const int64_t before = std::min(capacity, capacity - (lengths[i] - b.spec.length));
    planned[b.input_index][b.spec.axis] = before;
    // Other inputs that grow along with this state (an attention mask) are planned at their most too: those whose
    // extent is the state's by its symbols, or has its length now and is not known to stand for something else.
    if (!inputs[b.input_index].type.shape) continue;
    const Dims& past = *inputs[b.input_index].type.shape;
    const std::optional<Dims>& whole = outputs[b.output_index].type.shape;
    std::vector<std::string> steady;
    for (int d = 0; d < static_cast<int>(past.size()); ++d) {
      if (d != b.spec.axis) AppendSymbols(past[d], steady);
    }
    if (whole) AppendSymbols((*whole)[b.spec.axis] - past[b.spec.axis], steady);
    for (size_t k = 0; k < in.size(); ++k) {
      const ValueType& type = inputs[k].type;
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
          planned[k][d] = before;
        } else if ((whole && dim == (*whole)[b.spec.axis]) || (!other && in[k].tensor().dim(d) == lengths[i])) {
          planned[k][d] = capacity;
        }
      }
    }
  }
  return planned;
}

Status Session::RunWithState(SessionState& state, std::span<const Value> inputs, std::span<Value> outputs,
                             const RunOptions& options) {
  if (inputs.size() != impl_->inputs.size() || outputs.size() != impl_->outputs.size()) {
    return InvalidArgument("a run with state takes a slot per input and per output of the model");
  }
  QUERN_ASSIGN_OR_RETURN(RunEnv env, impl_->RunEnvFor(options));
  state.inputs.assign(inputs.begin(), inputs.end());
  state.outputs.assign(outputs.begin(), outputs.end());
  state.want.assign(options.want.begin(), options.want.end());
  if (state.want.size() == outputs.size()) {
    for (const SessionState::Binding& b : state.bindings) state.want[b.output_index] = 1;
  }
  env.want = state.want;
  const Status status = impl_->WithDenormals(env, [&](const RunEnv& e) { return impl_->RunStates(state, e); });
  if (status.ok()) {
    for (const SessionState::Binding& b : state.bindings) state.outputs[b.output_index] = outputs[b.output_index];
    std::move(state.outputs.begin(), state.outputs.end(), outputs.begin());
  }
  // The caller's memory is held no longer than the run.
  std::fill(state.inputs.begin(), state.inputs.end(), Value());
  std::fill(state.outputs.begin(), state.outputs.end(), Value());
  return status;
}

Result<std::string> Session::Facts(std::string_view stage) const { return SessionFacts(*impl_->executable, stage); }
Result<std::string> Session::Text(std::string_view stage) const { return SessionText(*impl_->executable, stage); }
int64_t Session::plans_built() const { return impl_->executable->plans_built(); }

}  // namespace quern
