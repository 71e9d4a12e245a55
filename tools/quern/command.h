// What the subcommands share: options, failures, sessions. Each subcommand is a file with one Add function.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "quern/quern.hpp"

namespace CLI {
class App;
}

namespace quern_tool {

// A failure of the command itself, shown as "error: ..."; `usage`: the arguments are wrong (exit status 2, else 1).
struct Failure : std::runtime_error {
  explicit Failure(const std::string& message, bool wrong_usage = false)
      : std::runtime_error(message), usage(wrong_usage) {}
  bool usage;
};

struct CommonOptions {
  std::string cpu;  // with what --disable takes away
  std::vector<std::string> disabled;
  std::vector<std::string> providers;
  int threads = 0;
  std::string precision;
  std::optional<std::string> pack_cache;
  std::vector<std::string> skip_passes;
  bool serial_branches = false;
  bool flush_denormals = false, keep_denormals = false;
  quern::Limits limits;
  bool verbose = false;
};

// A subcommand; here, as to make one costs each file that does it seconds to compile.
CLI::App* AddCommand(CLI::App& app, const char* name, const char* description);

// --cpu, --disable, --provider, --threads, --precision, --limit, -v (which lowers the log level too). `thread_counts`:
// --threads takes a list, and fills this one instead.
void AddCommonOptions(CLI::App& app, CommonOptions& options, std::vector<int>* thread_counts = nullptr);
void AddLimitOption(CLI::App& app, CommonOptions& options);
// For commands without a session: --provider and --threads are accepted, as everywhere, and help says that they have no
// effect.
void AddCommonOptionsWithoutSession(CLI::App& app, CommonOptions& options);
quern::SessionOptions ToSessionOptions(const CommonOptions& options);

// The exit status of the subcommand that ran.
void AddRun(CLI::App& app, int& status);
void AddBench(CLI::App& app, int& status);
void AddInspect(CLI::App& app, int& status);
void AddVerify(CLI::App& app, int& status);
void AddCpu(CLI::App& app, int& status);
void AddKernels(CLI::App& app, int& status);
void AddConvert(CLI::App& app, int& status);

// The command under the name quern-perf-test, with onnxruntime_perf_test's options.
int RunPerfTest(int argc, char** argv);

// A line on standard error, which does not mix with results.
void Progress(const std::string& text);
double Now();  // seconds, monotonic

// An ONNX model, or a graph in text form, which the file's beginning tells apart.
quern::Model LoadModel(const std::string& path, const quern::Limits& limits);
std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

// "1x3x224x224" as numbers; a Failure that names `what` otherwise.
std::vector<std::int64_t> ParseShape(const std::string& text, const std::string& what);
// "2G" as 2147483648: K, M and G count in 1024; a Failure that names `what` otherwise.
std::uint64_t ParseSize(const std::string& text, const std::string& what);
// "name=value" split at the first '='; without one the name is empty.
std::pair<std::string, std::string> SplitAssignment(const std::string& text);
// "f32[2,3]" of a tensor or strings.
std::string TypeText(const quern::Value& value);
// "tensor", "sequence"...
const char* KindText(quern_kind kind);
// "12.3 MB", "820 bytes".
std::string FormatBytes(double bytes);
// "0.42 ms", "1.3 s".
std::string FormatSeconds(double seconds);
std::string FormatNumber(double value);  // up to 6 significant digits

}  // namespace quern_tool
