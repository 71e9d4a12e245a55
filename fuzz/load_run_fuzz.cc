// From bytes to a run, through the C ABI: load, infer shapes, plan and run with small made-up inputs, in one thread.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "quern/quern.h"

namespace {

constexpr int64_t kMaxInputElements = 1 << 14;
constexpr auto kRunTime = std::chrono::seconds(2);  // a model may ask for 2^60 rounds of a Loop

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "load_run_fuzz: %s: %s\n", what, quern_error_message());
  std::abort();
}

// Fires a cancel handle when a run takes longer than kRunTime.
class Watchdog {
 public:
  Watchdog() : cancel_(quern_cancel_create()) {
    std::thread([this] {
      for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const int64_t deadline = deadline_.load();
        if (deadline != 0 && Now() > deadline) quern_cancel_fire(cancel_);
      }
    }).detach();
  }
  void Start() {
    quern_cancel_reset(cancel_);
    deadline_ = Now() + std::chrono::nanoseconds(kRunTime).count();
  }
  void Stop() { deadline_ = 0; }
  quern_cancel* cancel() const { return cancel_; }

 private:
  static int64_t Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  quern_cancel* cancel_;
  std::atomic<int64_t> deadline_{0};
};

quern_value* MakeTensor(int32_t dtype, const std::vector<int64_t>& dims) {
  quern_value* value = nullptr;
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  if (dtype == QUERN_STRING) {
    const std::vector<const char*> words(static_cast<size_t>(count), "a");
    if (quern_strings_create(static_cast<int32_t>(dims.size()), dims.data(), words.data(), nullptr, &value) !=
        QUERN_OK) {
      return nullptr;
    }
    return value;
  }
  if (quern_tensor_create(dtype, static_cast<int32_t>(dims.size()), dims.data(), &value) != QUERN_OK) return nullptr;
  auto* bytes = static_cast<unsigned char*>(quern_value_data(value));
  const size_t size = quern_value_bytes(value);
  if (dtype == QUERN_F32) {
    float f = -1;
    for (size_t i = 0; i + 4 <= size; i += 4, f += 0.375f) std::memcpy(bytes + i, &f, 4);
  } else {
    std::memset(bytes, dtype == QUERN_BOOL ? 1 : 0, size);
    const size_t element = quern_dtype_block_elements(dtype) == 1 ? quern_dtype_block_bytes(dtype) : 1;
    for (size_t i = 0; i < size; i += element) bytes[i] = 1;  // small numbers: indices, counts
  }
  return value;
}

// A value that fits the port, with extents of 1 to 3 where it leaves them open; null when there is none to be had.
quern_value* MakeInput(const quern_port& port) {
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (int32_t i = 0; i < port.rank; ++i) {
    const size_t length = port.symbols[i] ? std::strlen(port.symbols[i]) : 0;
    dims.push_back(port.dims[i] >= 0 ? port.dims[i] : static_cast<int64_t>(1 + length % 3));
    if (__builtin_mul_overflow(count, dims.back(), &count) || count > kMaxInputElements) return nullptr;
  }
  if (port.rank < 0) dims = {2, 3};
  const int32_t dtype = port.dtype == QUERN_UNDEFINED ? int32_t{QUERN_F32} : port.dtype;
  quern_value* value = nullptr;
  switch (port.kind) {
    case QUERN_KIND_TENSOR:
      return MakeTensor(dtype, dims);
    case QUERN_KIND_STRINGS:
      return MakeTensor(QUERN_STRING, dims);
    case QUERN_KIND_SEQUENCE: {
      quern_value* element = MakeTensor(QUERN_F32, {2, 3});
      if (element && quern_sequence_create(&element, 1, &value) != QUERN_OK) value = nullptr;
      quern_value_free(element);
      return value;
    }
    case QUERN_KIND_OPTIONAL:
      return quern_optional_create(nullptr, &value) == QUERN_OK ? value : nullptr;
    default:
      return nullptr;
  }
}

void Run(quern_session* session, Watchdog& watchdog) {
  std::vector<quern_value*> inputs, outputs(quern_session_num_outputs(session), nullptr);
  bool complete = true;
  for (size_t i = 0; i < quern_session_num_inputs(session); ++i) {
    quern_port port;
    quern_port_init(&port);
    Require(quern_session_input(session, i, &port) == QUERN_OK, "an input without a port");
    inputs.push_back(MakeInput(port));
    complete = complete && inputs.back() != nullptr;
  }
  if (complete) {
    quern_run_options options;
    quern_run_options_init(&options);
    options.cancel = watchdog.cancel();
    for (int round = 0; round < 2; ++round) {  // the second takes the cached plan and writes into the outputs
      watchdog.Start();
      const quern_status status = quern_session_run(session, inputs.data(), outputs.data(), &options);
      watchdog.Stop();
      if (status != QUERN_OK) {
        Require(quern_error_message()[0] != '\0', "a failed run without a message");
        Require(status != QUERN_INTERNAL, "an internal error");
        break;
      }
    }
  }
  for (quern_value* v : inputs) quern_value_free(v);
  for (quern_value* v : outputs) quern_value_free(v);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Watchdog* const watchdog = new Watchdog;
  static quern_executor* const executor = [] {
    quern_executor* e = nullptr;
    Require(quern_executor_create(1, &e) == QUERN_OK, "no executor");
    quern_set_log(QUERN_LOG_OFF, nullptr, nullptr);
    return e;
  }();
  quern_limits limits;
  quern_limits_init(&limits);
  limits.tensor_bytes = 4 << 20;
  limits.memory_bytes = 128 << 20;
  limits.nodes = 1000;
  limits.subgraph_depth = 8;
  limits.type_depth = 8;
  quern_model* model = nullptr;
  if (quern_model_load_memory(data, size, /*copy=*/0, nullptr, &limits, &model) != QUERN_OK) return 0;
  char* facts = nullptr;
  Require(quern_model_facts(model, &facts) == QUERN_OK, "no facts of a loaded model");
  quern_buffer_free(facts);
  quern_session_options options;
  quern_session_options_init(&options);
  options.executor = executor;
  options.limits = &limits;
  quern_session* session = nullptr;
  const quern_status status = quern_session_create(model, &options, &session);
  quern_model_free(model);
  if (status != QUERN_OK) {
    Require(status != QUERN_INTERNAL, "an internal error");
    return 0;
  }
  Run(session, *watchdog);
  quern_session_free(session);
  return 0;
}
