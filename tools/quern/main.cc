// The command `quern`, which is quern-perf-test under that name: dispatch, help, exit status (0 good, 1 failed, 2 wrong
// usage).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "command.h"

namespace {

int RunQuern(int argc, char** argv) {
  CLI::App app("quern runs machine-learning models on CPUs through packed micro-kernels, and says which ran and why.",
               "quern");
  app.set_version_flag("--version", std::string("quern ") + quern_version());
  app.require_subcommand(0, 1);
  app.get_formatter()->column_width(34);
  app.footer(
      "Examples:\n"
      "  quern run model.onnx --input image=photo.png --top 5 --labels labels.txt\n"
      "  quern bench model.onnx --threads 1,2 --per-node\n"
      "  quern inspect model.onnx --stage compiled\n"
      "  quern verify folder --rtol 1e-3\n"
      "  quern convert model.onnx optimized.onnx --stage neutral\n"
      "  quern cpu --measure\n"
      "  quern kernels --cpu apple-m4 --shape 128x768x768 --types f32,f32,f32\n"
      "`quern COMMAND --help` says more. Exit status: 0 good, 1 failed, 2 wrong usage.");
  int status = 0;
  quern_tool::AddRun(app, status);
  quern_tool::AddBench(app, status);
  quern_tool::AddInspect(app, status);
  quern_tool::AddVerify(app, status);
  quern_tool::AddConvert(app, status);
  quern_tool::AddCpu(app, status);
  quern_tool::AddKernels(app, status);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) std::fputs(app.help().c_str(), stdout);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "quern";
  int status = 0;
  try {
    status = name == "quern-perf-test" ? quern_tool::RunPerfTest(argc, argv) : RunQuern(argc, argv);
  } catch (const quern_tool::Failure& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return e.usage ? 2 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
  if (std::fflush(stdout) != 0) return 1;
  return status;
}
