#include "command.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <limits>
#include <sstream>

namespace quern_tool {

namespace {

void AddCpuOption(CLI::App& app, CommonOptions& options) {
  app.add_option("--cpu", options.cpu,
                 "CPU to choose for: native, generic, haswell, sapphirerapids, zen4, graviton3, apple-m4 and others (a "
                 "wrong name lists them), each with -FEATURE... to take features away (default: QUERN_CPU, or native)")
      ->type_name("NAME[,-FEATURE...]");
  app.add_option("--disable", options.disabled,
                 "micro-kernels to leave out: a family (but for its portable rows), or an engine: vector512, matrix; "
                 "as -NAME in --cpu")
      ->type_name("FAMILY,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.parse_complete_callback([&options] {
    if (options.disabled.empty()) return;
    const char* variable = std::getenv("QUERN_CPU");
    if (options.cpu.empty()) options.cpu = variable && *variable ? variable : "native";
    for (const std::string& name : options.disabled) options.cpu += ",-" + name;
    options.disabled.clear();
  });
  app.add_flag_callback(
      "-v,--verbose",
      [&options] {
        options.verbose = true;
        quern_set_log(QUERN_LOG_VERBOSE, nullptr, nullptr);
      },
      "say more, and log what the library does on standard error");
}

void AddProviderAndThreads(CLI::App& app, CommonOptions& options, const std::string& group,
                           std::vector<int>* thread_counts = nullptr) {
  app.add_option("--provider", options.providers,
                 "provider in order of preference: cpu, reference, or the path of a shared library (default: cpu)")
      ->type_name("NAME")
      ->delimiter(',')
      ->group(group);
  CLI::Option* threads = nullptr;
  if (thread_counts) {
    threads = app.add_option("--threads", *thread_counts,
                             "numbers of threads, each of which is measured (default: the cores that the process may "
                             "use)")
                  ->type_name("N,...")
                  ->delimiter(',')
                  ->allow_extra_args(false);
  } else {
    threads = app.add_option("--threads", options.threads, "threads (default: the cores that the process may use)")
                  ->type_name("N");
  }
  threads->check(CLI::NonNegativeNumber)->group(group);
}

}  // namespace

CLI::App* AddCommand(CLI::App& app, const char* name, const char* description) {
  return app.add_subcommand(name, description);
}

void AddCommonOptions(CLI::App& app, CommonOptions& options, std::vector<int>* thread_counts) {
  AddCpuOption(app, options);
  AddProviderAndThreads(app, options, "OPTIONS", thread_counts);
  app.add_option("--precision", options.precision, "fp32, fp32-fast or bf16 (default: fp32)")->type_name("MODE");
  app.add_option("--pack-cache", options.pack_cache,
                 "keep packed weights in this folder for the next start, and take those that are there (default: "
                 "$QUERN_CACHE; '' for none)")
      ->type_name("FOLDER");
  app.add_option("--skip-pass", options.skip_passes,
                 "a pass to leave out (inspect --stage neutral and --stage compiled list them)")
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--serial-branches", options.serial_branches,
               "never run independent branches at the same time (also: QUERN_SERIAL_BRANCHES=1)");
  app.add_flag(
      "--flush-denormals", options.flush_denormals,
      "count numbers below 2^-126 as 0 in all nodes, not only where products are summed: they slow many CPUs down "
      "(bench --per-node says which nodes met any)");
  app.add_flag("--keep-denormals", options.keep_denormals, "keep such numbers where products are summed too")
      ->excludes("--flush-denormals");
  AddLimitOption(app, options);
}

void AddLimitOption(CLI::App& app, CommonOptions& options) {
  app.add_option_function<std::vector<std::string>>(
         "--limit",
         [&options](const std::vector<std::string>& limits) {
           for (const std::string& limit : limits) {
             const auto [name, value] = SplitAssignment(limit);
             try {
               options.limits.Set(name, ParseSize(value, "--limit " + limit));
             } catch (const quern::Error& e) {
               throw Failure("--limit " + limit + ": " + e.what(), true);
             }
           }
         },
         "what a model may ask for: model_bytes, tensor_bytes, memory_bytes, folded_bytes, nodes, attribute_elements, "
         "loop_iterations, subgraph_depth, type_depth or rank; quern.h has the defaults")
      ->type_name("NAME=N[K|M|G]");
}

void AddCommonOptionsWithoutSession(CLI::App& app, CommonOptions& options) {
  AddCpuOption(app, options);
  AddProviderAndThreads(app, options, "Accepted as everywhere, without effect here");
}

quern::SessionOptions ToSessionOptions(const CommonOptions& options) {
  quern::SessionOptions session;
  session.cpu = options.cpu;
  session.providers = options.providers;
  session.threads = options.threads;
  session.precision = options.precision;
  session.pack_cache = options.pack_cache;
  session.skip_passes = options.skip_passes;
  session.serial_branches = options.serial_branches;
  session.flush_denormals = options.flush_denormals;
  session.keep_denormals = options.keep_denormals;
  session.limits = options.limits;
  return session;
}

void Progress(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

quern::Model LoadModel(const std::string& path, const quern::Limits& limits) {
  // No ONNX model begins so: blank lines and comments, then the word graph.
  std::ifstream in(path, std::ios::binary);
  constexpr int kLongest = 8;
  std::string word;
  while (in >> std::setw(kLongest) >> word && word.compare(0, 2, "//") == 0) {
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (word.compare(0, 5, "graph") != 0) return quern::Model::Load(path, &limits);
  in.close();
  try {
    return quern::Model::Parse(ReadFile(path), &limits);
  } catch (const quern::Error& e) {
    throw Failure(path + ":" + e.what());
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Failure(path + ": " + std::strerror(errno));
  std::ostringstream bytes;
  bytes << in.rdbuf();
  if (in.bad() || (!bytes && in.peek() != EOF)) throw Failure(path + ": cannot be read");
  return std::move(bytes).str();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw Failure(path + ": cannot be written");
}

std::vector<std::int64_t> ParseShape(const std::string& text, const std::string& what) {
  std::vector<std::int64_t> dims;
  if (text.empty() || text == "scalar") return dims;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, 'x');) {
    char* end = nullptr;
    errno = 0;
    const long long d = std::strtoll(part.c_str(), &end, 10);
    if (part.empty() || *end != '\0' || errno != 0 || d < 0) {
      throw Failure(what + ": '" + text + "' is no shape such as 1x3x224x224", true);
    }
    dims.push_back(d);
  }
  return dims;
}

std::uint64_t ParseSize(const std::string& text, const std::string& what) {
  char* end = nullptr;
  errno = 0;
  std::uint64_t value = std::strtoull(text.c_str(), &end, 10);
  bool good = !text.empty() && text[0] >= '0' && text[0] <= '9' && errno == 0;
  if (good && *end != '\0') {
    const char* units = "KMG";
    const char* unit = std::strchr(units, *end);
    good = unit != nullptr && end[1] == '\0';
    for (const char* u = units; good && u <= unit; ++u) good = !__builtin_mul_overflow(value, 1024, &value);
  }
  if (!good) throw Failure(what + ": '" + text + "' is no number such as 1000, 64K, 16M or 2G", true);
  return value;
}

std::pair<std::string, std::string> SplitAssignment(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos) return {"", text};
  return {text.substr(0, at), text.substr(at + 1)};
}

std::string TypeText(const quern::Value& value) {
  std::string text = quern_dtype_name(value.dtype());
  text += '[';
  const quern::Shape shape = value.shape();
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + ']';
}

const char* KindText(quern_kind kind) {
  switch (kind) {
    case QUERN_KIND_TENSOR:
      return "tensor";
    case QUERN_KIND_STRINGS:
      return "string tensor";
    case QUERN_KIND_SEQUENCE:
      return "sequence";
    case QUERN_KIND_OPTIONAL:
      return "optional";
    case QUERN_KIND_MAP:
      return "map";
    default:
      return "nothing";
  }
}

std::string FormatNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string FormatBytes(double bytes) {
  const char* units[] = {"bytes", "KB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) bytes /= 1000, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, bytes < 100 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return text;
}

std::string FormatSeconds(double seconds) {
  char text[32];
  if (seconds < 1e-3) {
    std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  } else if (seconds < 1) {
    std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.2f s", seconds);
  }
  return text;
}

}  // namespace quern_tool
