// quern bench: latency, throughput, CPU use and memory of a model, and how close each node comes to the machine's
// limit.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>

#include "allocations.h"
#include "bench_case.h"
#include "command.h"
#include "feeds.h"
#include "table.h"

namespace quern_tool {
namespace {

struct BenchArguments {
  CommonOptions common;
  FeedOptions feeds;
  BenchOptions bench;
  std::vector<std::string> vary;  // NAME=FROM..TO
  std::vector<int> threads;
  NodeOrder order = NodeOrder::kTime;
  std::size_t top = 0;
  bool json = false;
};

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share < 0.0995 ? "%.1f %%" : "%.0f %%", share * 100);
  return text;
}

// 3 significant digits, "" for nothing.
std::string Rate(double per_second) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", per_second / 1e9);
  return per_second > 0 ? text : "";
}

void PrintCases(const BenchOptions& options, const std::vector<BenchCase>& cases) {
  std::string inputs;
  for (const std::string& input : cases[0].inputs) inputs += "  " + input;
  std::printf("%s%s\n", options.model.c_str(), inputs.c_str());
  Table table({">threads", ">clients", ">load", ">first", ">runs", ">min", ">mean", ">p50", ">p90", ">p95", ">p99",
               ">p999", ">runs/s", ">CPU", ">memory", ">allocations"});
  for (const BenchCase& c : cases) {
    const Latencies& l = c.latencies;
    const auto& allocations = c.times.allocations_per_run;
    table.Add({std::to_string(c.threads), std::to_string(options.measure.clients), FormatSeconds(c.load_seconds),
               FormatSeconds(c.times.first_seconds), std::to_string(c.times.seconds.size()), FormatSeconds(l.min),
               FormatSeconds(l.mean), FormatSeconds(l.p50), FormatSeconds(l.p90), FormatSeconds(l.p95),
               FormatSeconds(l.p99), FormatSeconds(l.p999), FormatNumber(c.runs_per_second()), Percent(c.cpu_use()),
               c.peak_bytes > 0 ? "+" + FormatBytes(static_cast<double>(c.added_bytes)) : "not known",
               allocations ? FormatNumber(*allocations) : "not counted"});
  }
  table.Print("");
  for (const BenchCase& c : cases) {
    if (c.peak_bytes > 0) {
      std::printf("%s resident at most with %d %s\n", FormatBytes(static_cast<double>(c.peak_bytes)).c_str(), c.threads,
                  c.threads > 1 ? "threads" : "thread");
    }
    if (options.batch > 0) {
      std::printf("%s elements/s in batches of %lld\n",
                  FormatNumber(c.runs_per_second() * static_cast<double>(options.batch)).c_str(),
                  static_cast<long long>(options.batch));
    }
  }
}

// What denormal numbers may cost, and what to do.
void PrintDenormals(const BenchCase& c) {
  std::size_t count = 0;
  double share = 0;
  for (const NodeRow& r : c.nodes) {
    if (r.denormal_runs <= 0) continue;
    ++count;
    share += r.share;
  }
  if (count == 0) return;
  std::printf(
      "(d) %zu %s, %s of the time, met denormal numbers, which are slow on many CPUs: compare with\n"
      "    --flush-denormals (session option flush_denormals), which counts them as 0\n",
      count, count == 1 ? "node" : "nodes", Percent(share).c_str());
}

void PrintNodes(const BenchArguments& args, const BenchCase& c) {
  std::printf("\n%d %s: the nodes take %s of a run\n", c.threads, c.threads > 1 ? "threads" : "thread",
              Percent(c.nodes_share).c_str());
  Table table({"node", "operator", "micro-kernel", ">time", ">share", ">GFLOP/s", ">GB/s", "limit", ">reached"});
  const std::vector<NodeRow> rows = Selected(c.nodes, args.order, args.top);
  for (const NodeRow& r : rows) {
    table.Add({(r.inside.empty() ? r.name : r.inside + "/" + r.name) + (r.denormal_runs > 0 ? " (d)" : ""), r.op,
               r.provider == "cpu" ? r.kernel : r.kernel + " (" + r.provider + ")", FormatSeconds(r.seconds),
               Percent(r.share), Rate(r.operations_per_second()), Rate(r.bytes_per_second()), r.limit,
               r.limit.empty() ? "" : Percent(r.reached())});
  }
  table.Print("");
  if (rows.size() < c.nodes.size()) std::printf("... and %zu more nodes\n", c.nodes.size() - rows.size());
  PrintDenormals(c);
}

void PrintPeaks(const Json& cpu) {
  std::string text;
  for (const Json& p : cpu["peaks"]) {
    text += (text.empty() ? "" : ", ") + Text(p, "name") + " " + FormatNumber(p["value"].get<double>()) + " " +
            Text(p, "unit");
  }
  std::printf("limits are those of one core times the threads: %s\n", text.c_str());
}

struct Range {
  std::string name;
  std::int64_t from = 0, to = 0;
};

Range ParseRange(const std::string& option) {
  const auto [name, text] = SplitAssignment(option);
  const std::size_t dots = text.find("..");
  const std::string what = "--vary " + option;
  if (name.empty() || dots == std::string::npos) throw Failure(what + ": write NAME=FROM..TO", true);
  const quern::Shape from = ParseShape(text.substr(0, dots), what), to = ParseShape(text.substr(dots + 2), what);
  if (from.size() != 1 || to.size() != 1 || from[0] > to[0]) {
    throw Failure(what + ": FROM and TO are numbers, FROM not above TO", true);
  }
  return {name, from[0], to[0]};
}

// One set of inputs; with --vary one for each of its extents.
FeedSets MakeFeedSets(const quern::Session& session, const BenchArguments& args) {
  constexpr std::int64_t kMostSets = 1 << 16;
  std::vector<Range> ranges;
  for (const std::string& option : args.vary) ranges.push_back(ParseRange(option));
  if (ranges.empty()) return {MakeFeeds(session, args.feeds)};
  const std::int64_t sets = ranges[0].to - ranges[0].from + 1;
  for (const Range& r : ranges) {
    if (r.to - r.from + 1 == sets) continue;
    throw Failure("--vary: '" + r.name + "' and '" + ranges[0].name + "' take different numbers of extents", true);
  }
  if (sets > kMostSets) throw Failure("--vary: at most " + std::to_string(kMostSets) + " extents", true);
  FeedSets feeds;
  for (std::int64_t i = 0; i < sets; ++i) {
    FeedOptions options = args.feeds;
    for (const Range& r : ranges) options.shapes.push_back(r.name + "=" + std::to_string(r.from + i));
    feeds.push_back(MakeFeeds(session, options));
  }
  return feeds;
}

int Bench(BenchArguments& args) {
  BenchOptions& bench = args.bench;
  if (bench.measure.runs < 0 || bench.measure.warmup < 0 || !(bench.measure.seconds >= 0)) {
    throw Failure("--runs, --seconds and --warmup are not negative", true);
  }
  if (args.feeds.batch < 0) throw Failure("--batch is not negative", true);
  if (bench.per_node && bench.measure.clients > 1) {
    throw Failure("--per-node takes one client, as nodes of several runs at once share the machine's limits", true);
  }
  bench.session = ToSessionOptions(args.common);
  bench.batch = args.feeds.batch;
  if (StartCountingAllocations()) bench.measure.allocations = Allocations;
  args.feeds.random = true;
  if (args.threads.empty()) args.threads = {0};
  std::vector<BenchCase> cases;
  for (const int threads : args.threads) {
    cases.push_back(
        MeasureCase(bench, threads, [&](const quern::Session& session) { return MakeFeedSets(session, args); }));
  }
  const Json cpu = bench.per_node ? FindNodes(args.common.cpu, cases) : Json();
  if (args.json) {
    for (BenchCase& c : cases) c.nodes = Selected(std::move(c.nodes), args.order, args.top);
    std::puts(Dump(BenchJson(bench, cases, cpu)).c_str());
    return 0;
  }
  PrintCases(bench, cases);
  if (!bench.per_node) return 0;
  for (const BenchCase& c : cases) PrintNodes(args, c);
  PrintPeaks(cpu);
  return 0;
}

}  // namespace

void AddBench(CLI::App& app, int& status) {
  auto args = std::make_shared<BenchArguments>();
  CLI::App* sub = AddCommand(app, "bench", "Time a model: latency, throughput, memory, and the limit of each node");
  BenchOptions& bench = args->bench;
  sub->add_option("model", bench.model, "the ONNX model, or a graph in text form")->required()->type_name("MODEL");
  sub->add_option("--warmup", bench.measure.warmup, "runs of each client before the timed ones (default 2)")
      ->type_name("N");
  CLI::Option* seconds =
      sub->add_option("--seconds", bench.measure.seconds, "how long to run (default 3)")->type_name("S");
  sub->add_option("--runs", bench.measure.runs, "how many runs to time, instead of for how long")
      ->type_name("N")
      ->excludes(seconds);
  sub->add_option("--concurrency", bench.measure.clients, "clients that run one session at once (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024).description(""));
  sub->add_option("--batch", args->feeds.batch, "size of the first dimension, where the model leaves it open")
      ->type_name("N");
  sub->add_flag("--per-node", bench.per_node,
                "also each node's micro-kernel, time, GFLOP/s (GOP/s of integers), GB/s, and the share that it reaches "
                "of the limit that binds it: arithmetic, or reading from L2 what fits there, else from memory");
  static const std::map<std::string, NodeOrder> orders = {{"time", NodeOrder::kTime}, {"order", NodeOrder::kGraph}};
  sub->add_option("--sort", args->order, "nodes by time (default), or in the order of the graph")
      ->type_name("time|order")
      ->transform(CLI::CheckedTransformer(orders).description(""));
  sub->add_option("--top", args->top, "the first N nodes (default: all)")->type_name("N");
  sub->add_flag("--json", args->json, "print one JSON object");
  AddFeedOptions(*sub, args->feeds);
  sub->add_option("--vary", args->vary,
                  "a symbolic extent that is another one in each run, from FROM to TO and from FROM again; several go "
                  "on together")
      ->type_name("NAME=FROM..TO");
  AddCommonOptions(*sub, args->common, &args->threads);
  sub->footer(
      "Inputs that are not given are seeded random numbers, as with `quern run --random`; open extents are 1. Outputs\n"
      "are written in place. Percentiles are by nearest rank over all runs; CPU is the process's time over the "
      "elapsed\n"
      "one; memory is what became resident at most since before the model was loaded; allocations are calls of the\n"
      "heap for each run.\n"
      "Examples:\n"
      "  quern bench model.onnx --threads 1,2\n"
      "  quern bench model.onnx --input image=photo.png --runs 1000 --warmup 10 --json\n"
      "  quern bench model.onnx --batch 8 --concurrency 4 --threads 1 --seconds 10\n"
      "  quern bench model.onnx --per-node --top 20\n"
      "  quern bench decoder.onnx --vary past=64..191 --vary total=65..192\n"
      "  quern bench model.onnx --per-node --sort order --cpu haswell");
  sub->callback([args, &status] { status = Bench(*args); });
}

}  // namespace quern_tool
