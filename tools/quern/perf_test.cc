// quern-perf-test: the measurements of `quern bench` by the options of onnxruntime_perf_test, with lines of the same
// names, for scripts that were written for that.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "allocations.h"
#include "bench_case.h"
#include "command.h"
#include "feeds.h"

namespace quern_tool {
namespace {

struct PerfTestArguments {
  std::string model, result_file, profile_file;
  std::string mode = "duration", provider = "cpu";
  double seconds = 600;
  std::int64_t times = 1000;
  int clients = 1, threads = 0, inter_op_threads = 0, optimization = 99;
  std::vector<std::string> dimensions;  // NAME:VALUE
  bool statistics = false, generate = false, verbose = false;
  bool flush_denormals = false;
  bool no_arena = false, no_pattern = false, parallel = false;
};

void Note(const std::string& text) { Progress("note: " + text); }

void AddOptions(CLI::App& app, PerfTestArguments& args) {
  app.add_option("model_path", args.model, "the ONNX model")->type_name("MODEL");
  app.add_option("result_file", args.result_file,
                 "append a line for each run: model, seconds, peak memory in bytes, CPU use in %, number of the run")
      ->type_name("FILE");
  app.add_option("-m", args.mode, "duration (default): run for -t seconds; times: run -r times")
      ->type_name("MODE")
      ->check(CLI::IsMember({"duration", "times"}).description(""));
  app.add_option("-t", args.seconds, "seconds to run (default 600)")->type_name("S");
  app.add_option("-r", args.times, "how often each client runs (default 1000)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40).description(""));
  app.add_option("-c", args.clients, "clients that run the session at once (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024).description(""));
  app.add_option("-x", args.threads, "threads within a node (default 0: the cores that the process may use)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_option("-y", args.inter_op_threads, "threads across nodes: accepted, branches share the threads of -x")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_option("-e", args.provider, "execution provider: cpu")->type_name("NAME");
  app.add_option("-o", args.optimization, "0: without Quern's graph passes; 1, 2, 3 and 99: with all (default 99)")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({0, 1, 2, 3, 99}).description(""));
  app.add_option("-p", args.profile_file, "write the profile of the nodes there, as `quern bench --per-node --json`")
      ->type_name("FILE");
  app.add_option("-f", args.dimensions, "value of a free dimension, by its name; may be repeated")
      ->type_name("NAME:VALUE")
      ->allow_extra_args(false);
  app.add_flag("-s", args.statistics, "print percentiles too");
  app.add_flag("-I", args.generate,
               "generate inputs (free dimensions are 1); else those of test_data_set_0 beside the model");
  app.add_flag("-v", args.verbose, "say more, and log what the library does on standard error");
  app.add_flag("-z", args.flush_denormals, "count denormal numbers as 0");
  app.add_flag("-A", args.no_arena, "accepted, without effect");
  app.add_flag("-M", args.no_pattern, "accepted, without effect");
  app.add_flag("-P", args.parallel, "accepted, without effect");
  app.footer(
      "Examples:\n"
      "  quern-perf-test -m times -r 100 -I model.onnx\n"
      "  quern-perf-test -t 10 -x 2 -c 4 -s -I -f batch:8 model.onnx results.csv\n"
      "  quern-perf-test -m times -r 100 -p nodes.json model.onnx\n"
      "`quern bench` has more to say: see `quern bench --help`.");
}

// "-m -t -r ...": what an unknown option is answered with.
std::string KnownOptions(const CLI::App& app) {
  std::string known;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) continue;
    known += (known.empty() ? "" : " ") + option->get_name(false, true);
  }
  return known;
}

// NAME:VALUE as --shape has it. Names may hold colons.
std::string ShapeOption(const std::string& dimension) {
  const std::size_t at = dimension.rfind(':');
  const std::string value = at == std::string::npos ? "" : dimension.substr(at + 1);
  if (at == 0 || value.empty() || value.find_first_not_of("0123456789") != std::string::npos) {
    throw Failure("-f " + dimension + ": a free dimension is given as NAME:VALUE", true);
  }
  return dimension.substr(0, at) + "=" + value;
}

// Names of all passes that kernels can do without: what level 0 leaves out.
std::vector<std::string> GraphPasses(const std::string& model) {
  const quern::Session session(LoadModel(model, quern::Limits()));
  std::vector<std::string> names;
  const Json doc = ParseJson(session.Facts("neutral"));
  for (const Json& pass : doc["neutral"]["passes"]) names.push_back(Text(pass, "name"));
  const Json compiled = ParseJson(session.Facts("compiled"));
  for (const Json& cluster : compiled["compiled"]["clusters"]) {
    if (!cluster.contains("passes")) continue;
    for (const Json& pass : cluster["passes"]) {
      if (!pass.contains("required")) names.push_back(Text(pass, "name"));
    }
  }
  return names;
}

void NoteWhatHasNoEffect(const PerfTestArguments& args) {
  if (args.inter_op_threads > 0) Note("-y has no effect: branches share the threads of -x");
  if (args.optimization == 0) Note("-o 0 leaves out all passes but those that make what kernels need");
  if (args.optimization > 0 && args.optimization < 99) {
    Note("-o " + std::to_string(args.optimization) + " runs all graph passes, as -o 99 does: they have no levels");
  }
  if (args.no_arena || args.no_pattern || args.parallel) Note("-A, -M and -P have no effect");
}

std::vector<quern::Value> Inputs(const quern::Session& session, const PerfTestArguments& args) {
  FeedOptions feeds;
  for (const std::string& d : args.dimensions) feeds.shapes.push_back(ShapeOption(d));
  feeds.random = true;
  if (args.generate || session.num_inputs() == 0) return MakeFeeds(session, feeds);
  const std::string folder = (std::filesystem::path(args.model).parent_path() / "test_data_set_0").string();
  std::vector<quern::Value> inputs = ReadDataSet(session, folder);
  if (std::none_of(inputs.begin(), inputs.end(), [](const quern::Value& v) { return static_cast<bool>(v); })) {
    throw Failure("there is no " + folder + "/input_0.pb: use -I to generate inputs");
  }
  return inputs;
}

// Of all cores, as whole per cent.
long CpuPercent(const BenchCase& c) {
  const long cores = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  return std::lround(100 * c.cpu_use() / static_cast<double>(cores));
}

void Print(const PerfTestArguments& args, const BenchCase& c) {
  const Latencies& l = c.latencies;
  const auto line = [](const char* what, double value, const char* unit) {
    std::printf("%s: %s%s%s\n", what, FormatNumber(value).c_str(), *unit ? " " : "", unit);
  };
  line("Session creation time cost", c.load_seconds, "s");
  line("First inference time cost", c.times.first_seconds * 1e3, "ms");
  line("Total inference time cost", l.mean * c.runs(), "s");
  std::printf("Total inference requests: %zu\n", c.times.seconds.size());
  line("Average inference time cost", l.mean * 1e3, "ms");
  line("Total inference run time", c.times.wall_seconds, "s");
  line("Number of inferences per second", c.runs_per_second(), "");
  std::printf("Avg CPU usage: %ld %%\n", CpuPercent(c));
  std::printf("Peak working set size: %llu bytes\n", static_cast<unsigned long long>(c.peak_bytes));
  if (!args.statistics) return;
  line("Min Latency", l.min, "s");
  line("Max Latency", l.max, "s");
  line("P50 Latency", l.p50, "s");
  line("P90 Latency", l.p90, "s");
  line("P95 Latency", l.p95, "s");
  line("P99 Latency", l.p99, "s");
  line("P999 Latency", l.p999, "s");
}

// The model goes by the name of its folder.
void AppendResults(const PerfTestArguments& args, const BenchCase& c) {
  const std::filesystem::path model = std::filesystem::absolute(args.model);
  std::ofstream out(args.result_file, std::ios::app);
  for (std::size_t i = 0; i < c.times.seconds.size(); ++i) {
    out << model.parent_path().filename().string() << ',' << c.times.seconds[i] << ',' << c.peak_bytes << ','
        << CpuPercent(c) << ',' << i << '\n';
  }
  out.close();
  if (!out) throw Failure(args.result_file + ": cannot be written");
}

int Run(const PerfTestArguments& args) {
  if (args.model.empty()) throw Failure("say which model: quern-perf-test [OPTIONS] model_path [result_file]", true);
  if (args.provider != "cpu") throw Failure("-e " + args.provider + ": Quern runs on the CPU, so only -e cpu", true);
  if (!(args.seconds > 0)) throw Failure("-t: the seconds to run are above 0", true);
  for (const std::string& d : args.dimensions) ShapeOption(d);
  if (args.verbose) quern_set_log(QUERN_LOG_VERBOSE, nullptr, nullptr);
  NoteWhatHasNoEffect(args);
  BenchOptions bench;
  bench.model = args.model;
  if (args.optimization == 0) bench.session.skip_passes = GraphPasses(args.model);
  bench.session.flush_denormals = args.flush_denormals;
  bench.measure.warmup = 1;
  bench.measure.clients = args.clients;
  bench.measure.seconds = args.seconds;
  bench.measure.runs = args.mode == "times" ? args.times * args.clients : 0;
  if (StartCountingAllocations()) bench.measure.allocations = Allocations;
  bench.per_node = !args.profile_file.empty();
  std::vector<BenchCase> cases = {
      MeasureCase(bench, args.threads, [&](const quern::Session& session) { return FeedSets{Inputs(session, args)}; })};
  Print(args, cases[0]);
  if (!args.result_file.empty()) AppendResults(args, cases[0]);
  if (!bench.per_node) return 0;
  const Json cpu = FindNodes("", cases);
  WriteFile(args.profile_file, Dump(BenchJson(bench, cases, cpu)) + "\n");
  return 0;
}

}  // namespace

int RunPerfTest(int argc, char** argv) {
  CLI::App app("quern-perf-test times a model; its options are those of onnxruntime_perf_test.", "quern-perf-test");
  app.get_formatter()->column_width(34);
  PerfTestArguments args;
  AddOptions(app, args);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError& e) {
    throw Failure(std::string(e.what()) + "; known are " + KnownOptions(app), true);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return Run(args);
}

}  // namespace quern_tool
