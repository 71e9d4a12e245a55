#include "measure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <latch>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <thread>

#include "command.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace quern_tool {
namespace {

double ProcessSeconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The slots of one client's runs: through the C ABI, so that what a run allocates is the library's doing.
class Client {
 public:
  Client(quern::Session& session, const FeedSets& feeds) : session_(session), outputs_(session.num_outputs()) {
    for (const std::vector<quern::Value>& set : feeds) {
      std::vector<const quern_value*>& inputs = inputs_.emplace_back();
      for (const quern::Value& v : set) inputs.push_back(v.get());
    }
  }
  ~Client() { Clear(false); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Seconds of one run.
  double Run() {
    if (fresh_) Clear(false);
    const quern_value* const* inputs = inputs_[next_].data();
    next_ = (next_ + 1) % inputs_.size();
    double start = Now();
    quern_status status = quern_session_run(session_.get(), inputs, outputs_.data(), nullptr);
    if (status == QUERN_INVALID_ARGUMENT && !fresh_ && written_) {
      // Shapes that differ from run to run fit no memory given.
      fresh_ = true;
      Clear(false);
      start = Now();
      status = quern_session_run(session_.get(), inputs, outputs_.data(), nullptr);
    }
    const double took = Now() - start;
    quern::Check(status);
    written_ = true;
    Clear(true);
    return took;
  }

 private:
  // Only tensors can be written in place.
  void Clear(bool keep_tensors) {
    for (quern_value*& v : outputs_) {
      if (keep_tensors && v && quern_value_kind(v) == QUERN_KIND_TENSOR) continue;
      quern_value_free(v);
      v = nullptr;
    }
  }

  quern::Session& session_;
  std::vector<std::vector<const quern_value*>> inputs_;  // by run
  std::size_t next_ = 0;
  std::vector<quern_value*> outputs_;
  bool written_ = false, fresh_ = false;
};

// What the clients share.
struct Work {
  explicit Work(int clients) : ready(clients), begin(1), left(clients), seconds(static_cast<std::size_t>(clients)) {}

  std::latch ready, begin;
  double deadline = 0;
  bool by_count = false;
  std::atomic<std::int64_t> remaining{0};
  std::atomic<std::int64_t> done{0};

  std::mutex mutex;
  std::condition_variable ended;
  int left;
  double last_end = 0;
  std::vector<std::vector<double>> seconds;  // by client
  std::exception_ptr failure;
  std::atomic<bool> failed{false};

  void Fail() {
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::current_exception();
    failed = true;
  }
};

// So many runs of a client that recording their times seldom has to move; a run takes `seconds`.
std::size_t RunsToExpect(const MeasureOptions& options, double seconds) {
  constexpr double kLeast = 1 << 20, kMost = 1 << 22;  // of all clients together; memory that is not written costs none
  const double runs = std::clamp(10 * options.seconds / std::max(seconds, 1e-6), kLeast, kMost) / options.clients;
  return static_cast<std::size_t>(options.runs > 0 ? std::min(static_cast<double>(options.runs), kMost) : runs);
}

// Times go to memory that was reserved before: between the first timed run and the last one only the library allocates.
void RunClient(Work& work, std::vector<double>& seconds, Client& client, int warmup, const MeasureOptions& options) {
  double last = options.seconds;
  try {
    for (int i = 0; i < warmup && !work.failed; ++i) last = client.Run();
    seconds.reserve(RunsToExpect(options, last));
  } catch (...) {
    work.Fail();
  }
  work.ready.count_down();
  work.begin.wait();
  try {
    while (!work.failed) {
      if (work.by_count ? work.remaining.fetch_sub(1) <= 0 : !seconds.empty() && Now() >= work.deadline) break;
      seconds.push_back(client.Run());
      work.done.fetch_add(1, std::memory_order_relaxed);
    }
  } catch (...) {
    work.Fail();
  }
  const double end = Now();
  const std::lock_guard lock(work.mutex);
  work.last_end = std::max(work.last_end, end);
  --work.left;
  work.ended.notify_one();
}

void Report(const MeasureOptions& options, std::int64_t done, double elapsed) {
  char line[256];
  const char* what = options.what.c_str();
  if (options.runs > 0) {
    std::snprintf(line, sizeof line, "%s: %lld of %lld runs in %.1f s\n", what, static_cast<long long>(done),
                  static_cast<long long>(options.runs), elapsed);
  } else {
    std::snprintf(line, sizeof line, "%s: %lld runs in %.1f s of %g s\n", what, static_cast<long long>(done), elapsed,
                  options.seconds);
  }
  std::fputs(line, stderr);
}

}  // namespace

double Percentile(const std::vector<double>& sorted, std::size_t per_mille) {
  return sorted[(per_mille * sorted.size() + 999) / 1000 - 1];
}

Latencies Summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  Latencies l;
  l.min = seconds.front();
  l.max = seconds.back();
  l.mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  l.p50 = Percentile(seconds, 500);
  l.p90 = Percentile(seconds, 900);
  l.p95 = Percentile(seconds, 950);
  l.p99 = Percentile(seconds, 990);
  l.p999 = Percentile(seconds, 999);
  return l;
}

Measurement Measure(quern::Session& session, const FeedSets& feeds, const MeasureOptions& options) {
  constexpr double kReportSeconds = 2;
  Measurement result;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < options.clients; ++i) clients.push_back(std::make_unique<Client>(session, feeds));
  const bool warms = options.warmup > 0;
  if (warms) result.first_seconds = clients[0]->Run();
  if (result.first_seconds > kReportSeconds)
    Progress(options.what + ": first run " + FormatSeconds(result.first_seconds));

  Work work(options.clients);
  work.by_count = options.runs > 0;
  work.remaining = options.runs;
  std::vector<std::thread> threads;
  try {
    for (int i = 0; i < options.clients; ++i) {
      const int warmup = options.warmup - (i == 0 && warms ? 1 : 0);
      threads.emplace_back(RunClient, std::ref(work), std::ref(work.seconds[i]), std::ref(*clients[i]), warmup,
                           std::cref(options));
    }
  } catch (...) {  // no more threads are to be had: those that wait for the others are let go
    work.Fail();
    const int missing = options.clients - static_cast<int>(threads.size());
    {
      const std::lock_guard lock(work.mutex);
      work.left -= missing;
    }
    work.ready.count_down(missing);
  }
  work.ready.wait();
  try {
    if (options.after_warmup && !work.failed) options.after_warmup();
  } catch (...) {
    work.Fail();
  }
  const std::uint64_t warm_peak = ReadMemory().peak_bytes;
  const std::uint64_t allocations = options.allocations ? options.allocations() : 0;
  const double cpu = ProcessSeconds(), start = Now();
  work.deadline = start + options.seconds;
  work.begin.count_down();
  {
    std::unique_lock lock(work.mutex);
    while (!work.ended.wait_for(lock, std::chrono::duration<double>(kReportSeconds), [&] { return work.left == 0; })) {
      Report(options, work.done.load(std::memory_order_relaxed), Now() - start);
    }
  }
  result.cpu_seconds = ProcessSeconds() - cpu;
  const std::uint64_t made = options.allocations ? options.allocations() - allocations : 0;
  for (std::thread& t : threads) t.join();
  if (work.failure) std::rethrow_exception(work.failure);
  const std::uint64_t peak = ReadMemory().peak_bytes;
  result.wall_seconds = work.last_end - start;
  result.seconds = std::move(work.seconds[0]);
  for (int i = 1; i < options.clients; ++i) {
    result.seconds.insert(result.seconds.end(), work.seconds[i].begin(), work.seconds[i].end());
  }
  result.peak_bytes = peak - std::min(peak - std::min(warm_peak, peak), result.seconds.size() * sizeof(double));
  if (!warms) result.first_seconds = result.seconds.front();
  if (options.allocations) {
    result.allocations_per_run = static_cast<double>(made) / static_cast<double>(result.seconds.size());
  }
  return result;
}

Memory ReadMemory() {
  Memory memory;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    words >> name >> kib;
    if (name == "VmRSS:") memory.now_bytes = kib * 1024;
    if (name == "VmHWM:") memory.peak_bytes = kib * 1024;
  }
  return memory;
}

void ResetPeakMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): the peak becomes what is resident
}

}  // namespace quern_tool
