// quern verify: runs folders in the layout of ONNX's backend tests and compares with their expected outputs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <sstream>

#include "command.h"
#include "compare.h"
#include "feeds.h"
#include "json.h"

namespace quern_tool {
namespace {

namespace fs = std::filesystem;

struct VerifyArguments {
  CommonOptions common;
  Tolerance tolerance;
  std::vector<std::string> folders;
  std::string tolerance_file, known_file, filter, json_file;
};

// One folder with a model and test_data_set_* below it.
struct Test {
  std::string name;  // of the folder
  std::string path;  // as it was reached
  fs::path model;
};

enum class Outcome { kPass, kFail, kUnsupported, kError, kKnown };
struct Verdict {
  Outcome outcome = Outcome::kPass;
  std::string message;
  Difference difference;
  double seconds = 0;
};

const char* OutcomeName(Outcome o) {
  switch (o) {
    case Outcome::kPass:
      return "pass";
    case Outcome::kFail:
      return "fail";
    case Outcome::kUnsupported:
      return "unsupported";
    case Outcome::kError:
      return "error";
    case Outcome::kKnown:
      return "known";
  }
  return "?";
}

bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

// Every folder at or below `folder` that holds a model and data sets, sorted by path.
void FindTests(const fs::path& folder, std::vector<Test>& tests) {
  std::vector<fs::path> below, models;
  bool data = false;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory()) {
      data |= StartsWith(name, "test_data_set_");
      below.push_back(entry.path());
    } else if (entry.path().extension() == ".onnx") {
      models.push_back(entry.path());
    }
  }
  std::sort(below.begin(), below.end());
  std::sort(models.begin(), models.end());
  if (data && !models.empty()) {
    const auto usual =
        std::find_if(models.begin(), models.end(), [](const fs::path& p) { return p.filename() == "model.onnx"; });
    const fs::path full = fs::absolute(folder).lexically_normal();
    const std::string name = full.has_filename() ? full.filename().string() : full.parent_path().filename().string();
    tests.push_back({name, folder.string(), usual != models.end() ? *usual : models[0]});
  }
  for (const fs::path& p : below) {
    if (!StartsWith(p.filename().string(), "test_data_set_")) FindTests(p, tests);
  }
}

Difference RunDataSet(quern::Session& session, const fs::path& folder, const Tolerance& tolerance) {
  const std::vector<quern::Value> inputs = ReadDataSet(session, folder.string());
  const std::vector<std::string> output_files = NumberedFiles(folder.string(), "output_");
  if (output_files.empty() || output_files.size() > session.num_outputs()) {
    throw Failure(folder.filename().string() + " has " + std::to_string(output_files.size()) + " outputs, the model " +
                  std::to_string(session.num_outputs()));
  }
  const std::vector<quern::Value> outputs = session.Run(inputs);
  Difference result;
  for (std::size_t i = 0; i < output_files.size(); ++i) {
    const quern_kind kind = session.output(i).kind == QUERN_KIND_OPTIONAL ? QUERN_KIND_OPTIONAL : outputs[i].kind();
    result.Merge(Compare(outputs[i], ReadProto(output_files[i], kind), tolerance, session.output(i).name));
  }
  return result;
}

Verdict RunTest(const Test& test, const VerifyArguments& args, const Tolerance& tolerance) {
  Verdict verdict;
  const double start = Now();
  try {
    quern::Session session(quern::Model::Load(test.model.string(), &args.common.limits), ToSessionOptions(args.common));
    std::vector<fs::path> sets;
    for (const fs::directory_entry& entry : fs::directory_iterator(test.model.parent_path())) {
      if (entry.is_directory() && StartsWith(entry.path().filename().string(), "test_data_set_"))
        sets.push_back(entry.path());
    }
    std::sort(sets.begin(), sets.end());
    for (const fs::path& set : sets) {
      Difference difference = RunDataSet(session, set, tolerance);
      if (!difference.equal && sets.size() > 1) difference.what = set.filename().string() + ": " + difference.what;
      verdict.difference.Merge(difference);
    }
    if (!verdict.difference.equal) {
      verdict.outcome = Outcome::kFail;
      verdict.message = "largest difference " + FormatNumber(verdict.difference.max_abs) + ", relative " +
                        FormatNumber(verdict.difference.max_rel) + "; " + verdict.difference.what;
    }
  } catch (const quern::Error& e) {
    verdict.outcome = e.status() == QUERN_UNSUPPORTED ? Outcome::kUnsupported : Outcome::kError;
    verdict.message = e.what();
  } catch (const std::exception& e) {
    verdict.outcome = Outcome::kError;
    verdict.message = e.what();
  }
  verdict.seconds = Now() - start;
  return verdict;
}

// A JSON object, or lines "NAME REASON..." with '#' comments.
std::map<std::string, std::string> ReadKnown(const std::string& path) {
  std::map<std::string, std::string> known;
  const std::string text = ReadFile(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') {
    const Json doc = ParseJson(text);
    if (!doc.is_object()) throw Failure(path + ": not a JSON object of name -> reason", true);
    for (const auto& [name, reason] : doc.items()) {
      if (!reason.is_string() || reason.get<std::string>().empty()) {
        throw Failure(path + ": '" + name + "' has no reason", true);
      }
      known[name] = reason.get<std::string>();
    }
    return known;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const std::size_t end = line.find_first_of(" \t", begin);
    const std::size_t reason = end == std::string::npos ? end : line.find_first_not_of(" \t:", end);
    std::string name = line.substr(begin, end == std::string::npos ? end : end - begin);
    if (!name.empty() && name.back() == ':') name.pop_back();
    if (reason == std::string::npos) throw Failure(path + ": '" + name + "' has no reason", true);
    known[name] = line.substr(reason, line.find_last_not_of(" \t\r") + 1 - reason);
  }
  return known;
}

std::map<std::string, double> ReadTolerances(const std::string& path) {
  const Json doc = ParseJson(ReadFile(path));
  std::map<std::string, double> tolerances;
  if (!doc.is_object()) throw Failure(path + ": not a JSON object of folder name -> max-rel", true);
  for (const auto& [name, value] : doc.items()) {
    if (!value.is_number()) throw Failure(path + ": '" + name + "' is no number", true);
    tolerances[name] = value.get<double>();
  }
  return tolerances;
}

// One line, whatever the message holds.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text.size() > 500 ? text.substr(0, 500) + "..." : text;
}

int VerifyFolders(const VerifyArguments& args) {
  std::map<std::string, std::string> known;
  std::map<std::string, double> tolerances;
  if (!args.known_file.empty()) known = ReadKnown(args.known_file);
  if (!args.tolerance_file.empty()) tolerances = ReadTolerances(args.tolerance_file);
  std::vector<Test> tests;
  for (const std::string& folder : args.folders) {
    std::error_code code;
    if (!fs::is_directory(folder, code)) throw Failure(folder + ": there is no such folder", true);
    const std::size_t before = tests.size();
    FindTests(folder, tests);
    if (tests.size() == before) throw Failure(folder + ": no folder in it has a .onnx file and test_data_set_*", true);
  }
  std::map<std::string, std::string> absent = known;
  for (const Test& test : tests) absent.erase(test.name);
  if (!args.filter.empty()) {
    const std::regex filter(args.filter);
    tests.erase(std::remove_if(tests.begin(), tests.end(),
                               [&](const Test& t) {
                                 return !std::regex_search(t.path, filter) && !std::regex_search(t.name, filter);
                               }),
                tests.end());
    if (tests.empty()) throw Failure("--filter '" + args.filter + "' leaves no test", true);
  }
  std::map<Outcome, int> counts;
  Json results = Json::array();
  for (const Test& test : tests) {
    Tolerance tolerance = args.tolerance;
    if (const auto it = tolerances.find(test.name); it != tolerances.end()) tolerance.max_rel = it->second;
    Verdict verdict = RunTest(test, args, tolerance);
    if (const auto it = known.find(test.name); it != known.end()) {
      const bool may_pass = it->second.starts_with("sometimes");
      if (verdict.outcome == Outcome::kPass && !may_pass) {
        verdict.outcome = Outcome::kFail;
        verdict.message = "passes, but " + args.known_file + " lists it: " + it->second;
      } else {
        verdict.message = it->second + " (" + OutcomeName(verdict.outcome) + ": " + verdict.message + ")";
        verdict.outcome = Outcome::kKnown;
      }
    }
    ++counts[verdict.outcome];
    std::string line = OutcomeName(verdict.outcome);
    line.resize(12, ' ');
    line += test.name;
    if (!verdict.message.empty()) line += "  " + OneLine(verdict.message);
    if (args.common.verbose) {
      if (verdict.outcome == Outcome::kPass) {
        line += "  largest difference " + FormatNumber(verdict.difference.max_abs) + ", relative " +
                FormatNumber(verdict.difference.max_rel);
      }
      line += "  " + FormatSeconds(verdict.seconds);
    }
    std::puts(line.c_str());
    std::fflush(stdout);
    if (!args.json_file.empty()) {
      auto finite = [](double x) { return std::isfinite(x) ? Json(x) : Json("infinite"); };
      results.push_back({{"name", test.name},
                         {"path", test.path},
                         {"outcome", OutcomeName(verdict.outcome)},
                         {"message", verdict.message},
                         {"max_abs", finite(verdict.difference.max_abs)},
                         {"max_rel", finite(verdict.difference.max_rel)},
                         {"seconds", verdict.seconds}});
    }
  }
  // One list may serve several suites, and parts of one.
  if (!absent.empty()) {
    Progress("note: " + args.known_file + " lists " + std::to_string(absent.size()) +
             " tests that are not here: " + absent.begin()->first + (absent.size() > 1 ? "..." : ""));
  }
  std::printf("%d passed, %d failed, %d unsupported, %d errors, %d known\n", counts[Outcome::kPass],
              counts[Outcome::kFail], counts[Outcome::kUnsupported], counts[Outcome::kError], counts[Outcome::kKnown]);
  if (!args.json_file.empty()) {
    const Json doc = {{"version", 1},
                      {"kind", "verify"},
                      {"passed", counts[Outcome::kPass]},
                      {"failed", counts[Outcome::kFail]},
                      {"unsupported", counts[Outcome::kUnsupported]},
                      {"errors", counts[Outcome::kError]},
                      {"known", counts[Outcome::kKnown]},
                      {"tests", std::move(results)}};
    WriteFile(args.json_file, Dump(doc) + "\n");
  }
  return counts[Outcome::kFail] + counts[Outcome::kUnsupported] + counts[Outcome::kError] == 0 ? 0 : 1;
}

}  // namespace

void AddVerify(CLI::App& app, int& status) {
  auto args = std::make_shared<VerifyArguments>();
  CLI::App* sub = AddCommand(app, "verify", "Compare with the expected outputs of backend-test folders");
  sub->add_option("folders", args->folders,
                  "folders with *.onnx and test_data_set_*/{input,output}_*.pb, found recursively")
      ->required()
      ->type_name("FOLDER...");
  sub->add_option("--rtol", args->tolerance.rtol, "relative to the expected element (default 1e-3)")->type_name("R");
  sub->add_option("--atol", args->tolerance.atol, "absolute (default 1e-7)")->type_name("A");
  sub->add_option("--max-rel", args->tolerance.max_rel, "relative to the output's largest expected element (default 0)")
      ->type_name("M");
  sub->add_option("--tolerance", args->tolerance_file, "JSON object: folder name -> its --max-rel")
      ->type_name("FILE.json");
  sub->add_option("--known", args->known_file,
                  "tests that are expected not to pass, each with its reason: a JSON object, or lines NAME REASON; one "
                  "that passes fails the run, unless its reason begins with 'sometimes'")
      ->type_name("FILE");
  sub->add_option("--filter", args->filter, "only folders whose path matches")->type_name("REGEX");
  sub->add_option("--json", args->json_file, "also write the results there")->type_name("FILE");
  AddCommonOptions(*sub, args->common);
  sub->footer(
      "An element may differ by atol + rtol * |expected| + max-rel * max |expected|. Exit status 0 only if all pass.\n"
      "Examples:\n"
      "  quern verify models --rtol 0 --tolerance models/tolerance.json\n"
      "  quern verify onnx-node --filter '^.*softmax' --known known.txt --json results.json\n"
      "  quern verify models --cpu haswell --threads 2");
  sub->callback([args, &status] {
    try {
      status = VerifyFolders(*args);
    } catch (const std::regex_error& e) {
      throw Failure("--filter '" + args->filter + "': " + e.what(), true);
    }
  });
}

}  // namespace quern_tool
