#include "api/executor.h"

#include "api/struct_size.h"
#include "parallel/host_executor.h"
#include "parallel/thread_pool.h"

namespace quern::api {
namespace {

// A host's run() as the callback that HostExecutor wants, which counts and slots by itself, so that nothing depends on
// the host keeping slots apart.
class AdaptedHost final : public Executor {
 public:
  explicit AdaptedHost(const quern_host_executor& host)
      : host_(host), inner_(HostParallel{this, host.concurrency, &AdaptedHost::Call}) {}

  int concurrency() const override { return inner_.concurrency(); }
  Status ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel, int max_slots) override {
    return inner_.ParallelFor(total, grain, task, cancel, max_slots);
  }

 private:
  struct Bodies {
    void (*body)(void* body_context, int64_t i);
    void* context;
  };
  static void Call(void* context, void (*body)(void* body_context, int64_t i), void* body_context, int64_t count) {
    const auto* self = static_cast<const AdaptedHost*>(context);
    Bodies bodies{body, body_context};
    self->host_.run(
        self->host_.user, count, 1,
        [](void* c, int32_t, int64_t begin, int64_t end) {
          const auto* b = static_cast<const Bodies*>(c);
          for (int64_t i = begin; i < end; ++i) b->body(b->context, i);
        },
        &bodies);
  }

  quern_host_executor host_;
  HostExecutor inner_;
};

quern_executor* NewExecutor(std::shared_ptr<Executor> executor) {
  auto* handle = new quern_executor{std::move(executor), nullptr, nullptr};
  handle->executor = handle->owner.get();
  return handle;
}

}  // namespace
}  // namespace quern::api

using quern::InvalidArgument;
using quern::OkStatus;
using quern::Status;
using quern::api::Guard;
using quern::api::RequirePointer;

extern "C" {

quern_status quern_executor_create(int32_t threads, quern_executor** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    if (threads < 0) return InvalidArgument("threads is " + std::to_string(threads) + "; 0 is the default");
    quern::ThreadPoolOptions options;
    options.threads = threads;
    *out = quern::api::NewExecutor(std::make_shared<quern::ThreadPool>(options));
    return OkStatus();
  });
}

quern_status quern_executor_from_host(const quern_host_executor* host, quern_executor** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(host, "host"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    QUERN_ASSIGN_OR_RETURN(const quern_host_executor known, quern::api::ReadStruct(host, "host"));
    if (!known.run) return InvalidArgument("host->run must not be NULL");
    if (known.concurrency < 1) return InvalidArgument("host->concurrency must be at least 1");
    *out = quern::api::NewExecutor(std::make_shared<quern::api::AdaptedHost>(known));
    return OkStatus();
  });
}

void quern_executor_free(quern_executor* executor) { delete executor; }

quern_cancel* quern_cancel_create(void) { return new (std::nothrow) quern_cancel; }
void quern_cancel_fire(quern_cancel* cancel) {
  if (cancel) cancel->token.Cancel();
}
void quern_cancel_reset(quern_cancel* cancel) {
  if (cancel) cancel->token.Reset();
}
void quern_cancel_free(quern_cancel* cancel) { delete cancel; }

}  // extern "C"
