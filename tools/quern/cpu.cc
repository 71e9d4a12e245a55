// quern cpu: what a CPU can do, and what this one was measured to do.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>

#include "command.h"
#include "json.h"
#include "table.h"

namespace quern_tool {
namespace {

struct CpuArguments {
  CommonOptions common;
  bool measure = false;
  bool json = false;
};

std::string Join(const Json& list) {
  std::string text;
  for (const Json& item : list) text += (text.empty() ? "" : " ") + item.get<std::string>();
  return text;
}

// Lines of at most 100 characters, indented under a heading.
void PrintWrapped(const char* heading, const std::string& text) {
  std::string line = heading;
  line.resize(11, ' ');
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    if (line.size() + end - at > 100) {
      std::puts(line.c_str());
      line.assign(11, ' ');
    }
    line += text.substr(at, end - at) + " ";
    at = end + 1;
  }
  std::puts(line.c_str());
}

// A line of progress every two seconds: measuring takes some.
std::string Facts(const CpuArguments& args) {
  if (!args.measure) return quern::CpuFacts(args.common.cpu);
  Progress("measuring one core, then all (10 to 20 seconds of an idle machine) ...");
  std::future<std::string> facts = std::async(std::launch::async, [&] { return quern::CpuFacts(args.common.cpu, 2); });
  const double begin = Now();
  while (facts.wait_for(std::chrono::seconds(2)) != std::future_status::ready) {
    Progress("measuring: " + std::to_string(static_cast<int>(Now() - begin)) + " s");
  }
  return facts.get();
}

int ShowCpu(const CpuArguments& args) {
  const Json doc = ParseJson(Facts(args));
  if (args.json) {
    std::puts(Dump(doc).c_str());
    return 0;
  }
  std::printf("%-10s %s (%s)%s\n", "cpu", Text(doc, "name").c_str(), Text(doc, "arch").c_str(),
              Text(doc, "model").empty() ? "" : (", " + Text(doc, "model")).c_str());
  if (!doc["can_run"].get<bool>()) std::printf("%-10s %s\n", "not here", Text(doc, "cannot_run").c_str());
  PrintWrapped("features", Join(doc["features"]));
  Table absent({"absent", "reason"});
  for (const Json& a : doc["absent"]) {
    const std::string reason = Text(a, "reason");
    if (args.common.verbose || reason != "the CPU lacks it") absent.Add({Text(a, "feature"), reason});
  }
  absent.Print();
  std::string caches;
  for (const char* level : {"l1d", "l2", "l3"}) {
    const Json& cache = doc["caches"][level];
    if (cache.is_null()) continue;
    const auto bytes = cache["bytes"].get<std::uint64_t>();
    caches += std::string(caches.empty() ? "" : ", ") + level + " " +
              (bytes >= 1 << 20 ? FormatNumber(static_cast<double>(bytes) / (1 << 20)) + " MiB"
                                : FormatNumber(static_cast<double>(bytes) / 1024) + " KiB");
    const auto shared = cache["shared_by"].get<std::uint64_t>();
    if (shared > 1) caches += " (shared by " + std::to_string(shared) + ")";
  }
  std::printf("%-10s %s\n", "caches", caches.empty() ? "not known" : caches.c_str());
  if (doc["can_run"].get<bool>()) {
    const Json& cores = doc["cores"];
    std::string text = Text(cores, "usable") + " usable logical, " + Text(cores, "physical") + " physical";
    if (cores.contains("quota")) text += ", quota " + FormatNumber(cores["quota"].get<double>());
    if (cores.contains("sme_units")) {
      text += ", SME units " + Text(cores, "sme_units") + (cores["sme_units_known"].get<bool>() ? "" : " (a guess)");
    }
    std::printf("%-10s %s; default %s threads\n", "cores", text.c_str(), Text(cores, "default_threads").c_str());
  }
  if (!args.measure) return 0;
  const auto number = [](const Json& p, const char* key) { return FormatNumber(p[key].get<double>()); };
  Table peaks({"measured", ">one core", ">best", ">" + Text(doc, "peak_threads") + " threads", ">best", "unit"});
  for (const Json& p : doc["peaks"]) {
    peaks.Add({Text(p, "name"), number(p, "value"), number(p, "best"), number(p, "all_value"), number(p, "all_best"),
               Text(p, "unit")});
  }
  peaks.Print("");
  return 0;
}

}  // namespace

void AddCpu(CLI::App& app, int& status) {
  auto args = std::make_shared<CpuArguments>();
  CLI::App* sub = AddCommand(app, "cpu", "Show features, caches and cores; measure peaks");
  sub->add_flag("--measure", args->measure,
                "time the multiply-add engines and the bandwidth of each level of memory, on one core and on all");
  sub->add_flag("--json", args->json, "print the facts as JSON");
  AddCommonOptionsWithoutSession(*sub, args->common);
  sub->footer(
      "Examples:\n"
      "  quern cpu\n"
      "  quern cpu --measure\n"
      "  quern cpu --cpu native,-avx512 --json");
  sub->callback([args, &status] { status = ShowCpu(*args); });
}

}  // namespace quern_tool
