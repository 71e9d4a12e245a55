#include "bench_case.h"

#include <algorithm>

#include "command.h"

namespace quern_tool {

BenchCase MeasureCase(const BenchOptions& options, int threads, const FeedMaker& make_feeds) {
  BenchCase result;
  result.threads = threads;
  if (threads == 0) result.threads = ParseJson(quern::CpuFacts())["cores"]["default_threads"].get<int>();
  ResetPeakMemory();
  const Memory before = ReadMemory();
  quern::SessionOptions session_options = options.session;
  session_options.threads = result.threads;
  session_options.profile = options.per_node;
  const double start = Now();
  quern::Session session(LoadModel(options.model, session_options.limits), session_options);
  result.load_seconds = Now() - start;
  const FeedSets feeds = make_feeds(session);
  for (std::size_t i = 0; i < feeds[0].size(); ++i) {
    if (feeds[0][i]) result.inputs.push_back(std::string(session.input(i).name) + " " + TypeText(feeds[0][i]));
  }
  MeasureOptions measure = options.measure;
  measure.what = options.model + ", " + std::to_string(result.threads) + (result.threads > 1 ? " threads" : " thread");
  if (options.per_node) measure.after_warmup = [&] { result.profile.before = ParseJson(session.Facts("profile")); };
  result.times = Measure(session, feeds, measure);
  result.latencies = Summarize(result.times.seconds);
  result.peak_bytes = result.times.peak_bytes;
  result.added_bytes = result.peak_bytes - std::min(result.peak_bytes, before.now_bytes);
  if (options.per_node) {
    result.profile.after = ParseJson(session.Facts("profile"));
    result.profile.runs = result.runs();
  }
  return result;
}

Json FindNodes(const std::string& cpu, std::vector<BenchCase>& cases) {
  Progress("measuring the peaks of one core (some seconds) ...");
  Machine machine;
  machine.cpu = ParseJson(quern::CpuFacts(cpu, true));
  for (BenchCase& c : cases) {
    machine.threads = c.threads;
    c.nodes = NodeRows(c.profile, machine);
    double seconds = 0;
    for (const NodeRow& row : c.nodes) seconds += row.inside.empty() ? row.seconds : 0;
    c.nodes_share = seconds / c.latencies.mean;
  }
  return machine.cpu;
}

std::vector<NodeRow> Selected(std::vector<NodeRow> rows, NodeOrder order, std::size_t most) {
  if (order == NodeOrder::kTime) {
    std::sort(rows.begin(), rows.end(), [](const NodeRow& a, const NodeRow& b) { return a.seconds > b.seconds; });
  }
  if (most > 0 && rows.size() > most) rows.resize(most);
  return rows;
}

Json BenchJson(const BenchOptions& options, const std::vector<BenchCase>& cases, const Json& cpu) {
  Json doc = {{"version", 1}, {"kind", "bench"}, {"model", options.model}};
  doc["inputs"] = cases.empty() ? std::vector<std::string>() : cases[0].inputs;
  doc["clients"] = options.measure.clients;
  doc["warmup"] = options.measure.warmup;
  if (options.batch > 0) doc["batch"] = options.batch;
  if (options.per_node) doc["peaks"] = cpu["peaks"];
  doc["cases"] = Json::array();
  for (const BenchCase& c : cases) {
    const Latencies& l = c.latencies;
    Json entry = {{"threads", c.threads},
                  {"load_seconds", c.load_seconds},
                  {"first_run_seconds", c.times.first_seconds},
                  {"runs", c.times.seconds.size()},
                  {"wall_seconds", c.times.wall_seconds},
                  {"latency_seconds",
                   {{"min", l.min},
                    {"mean", l.mean},
                    {"p50", l.p50},
                    {"p90", l.p90},
                    {"p95", l.p95},
                    {"p99", l.p99},
                    {"p999", l.p999},
                    {"max", l.max}}},
                  {"runs_per_second", c.runs_per_second()},
                  {"cpu_use", c.cpu_use()}};
    if (options.batch > 0) {
      entry["elements_per_second"] = c.runs_per_second() * static_cast<double>(options.batch);
    }
    if (c.peak_bytes > 0) {
      entry["peak_memory_bytes"] = c.peak_bytes;
      entry["added_memory_bytes"] = c.added_bytes;
    }
    if (c.times.allocations_per_run) entry["allocations_per_run"] = *c.times.allocations_per_run;
    if (options.per_node) {
      entry["nodes_share"] = c.nodes_share;
      entry["nodes"] = JsonOf(c.nodes);
    }
    doc["cases"].push_back(std::move(entry));
  }
  return doc;
}

}  // namespace quern_tool
