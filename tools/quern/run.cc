// quern run: runs a model on files or random numbers, prints and stores what comes out, and how long it took.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>

#include "command.h"
#include "feeds.h"
#include "json.h"
#include "npy.h"
#include "number.h"

namespace quern_tool {
namespace {

struct RunArguments {
  CommonOptions common;
  FeedOptions feeds;
  std::string model, output_dir, labels;
  int top = 0;
  int repeat = -1;
  bool json = false;
  bool overridable_initializers = false;
};

std::vector<std::string> ReadLabels(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Failure(path + ": cannot be read");
  std::vector<std::string> labels;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    labels.push_back(line);
  }
  return labels;
}

// Smallest, largest and mean of the finite elements, and the first few.
std::string Summary(const quern::Value& value) {
  const std::int64_t count = value.num_elements();
  double low = INFINITY, high = -INFINITY, sum = 0;
  std::int64_t finite = 0;
  std::string first;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<double>(LoadNumber(value.dtype(), value.raw_data(), static_cast<std::size_t>(i)));
    if (i < 4) first += (i ? ", " : "") + FormatNumber(x);
    if (!std::isfinite(x)) continue;
    low = std::min(low, x), high = std::max(high, x), sum += x, ++finite;
  }
  if (count > 4) first += ", ...";
  if (finite == 0) return count == 0 ? "empty" : "{" + first + "}";
  std::string text = "min " + FormatNumber(low) + ", max " + FormatNumber(high) + ", mean " +
                     FormatNumber(sum / static_cast<double>(finite)) + "  {" + first + "}";
  if (finite < count) text += "  " + std::to_string(count - finite) + " not finite";
  return text;
}

struct TopRow {
  std::int64_t row;
  std::vector<std::pair<std::size_t, double>> best;  // index, value
};

// The largest elements of each entry along the first dimension.
std::vector<TopRow> FindTop(const quern::Value& value, int top) {
  const quern::Shape shape = value.shape();
  const std::int64_t rows = shape.size() > 1 ? shape[0] : 1;
  const std::int64_t count = value.num_elements();
  std::vector<TopRow> result;
  if (rows == 0 || count == 0) return result;
  const auto per_row = static_cast<std::size_t>(count / rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    auto at = [&](std::size_t i) {
      return static_cast<double>(
          LoadNumber(value.dtype(), value.raw_data(), static_cast<std::size_t>(r) * per_row + i));
    };
    std::vector<std::size_t> order(per_row);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t keep = std::min(static_cast<std::size_t>(top), per_row);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep), order.end(),
                      [&](std::size_t a, std::size_t b) {
                        const double x = at(a), y = at(b);
                        return x != y ? x > y || std::isnan(y) : a < b;
                      });
    TopRow row{r, {}};
    for (std::size_t i = 0; i < keep; ++i) row.best.emplace_back(order[i], at(order[i]));
    result.push_back(std::move(row));
  }
  return result;
}

void PrintOutput(const std::string& name, const quern::Value& value, const RunArguments& args,
                 const std::vector<std::string>& labels) {
  if (value.kind() == QUERN_KIND_STRINGS) {
    std::printf("%s  %s\n", name.c_str(), TypeText(value).c_str());
    for (std::int64_t i = 0; i < std::min<std::int64_t>(value.num_elements(), 10); ++i) {
      std::printf("  %s\n", value.string(static_cast<std::size_t>(i)).c_str());
    }
    return;
  }
  if (value.kind() != QUERN_KIND_TENSOR) {
    std::printf("%s  %s of %zu\n", name.c_str(), KindText(value.kind()), value.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(value.size(), 4); ++i) {
      PrintOutput("  " + name + "[" + std::to_string(i) + "]", value.element(i), args, labels);
    }
    return;
  }
  const bool number = IsNumber(value.dtype());
  std::printf("%s  %s  %s\n", name.c_str(), TypeText(value).c_str(), number ? Summary(value).c_str() : "");
  if (args.top < 1 || !number) return;
  constexpr std::size_t kRowsShown = 10;
  const std::vector<TopRow> rows = FindTop(value, args.top);
  for (std::size_t r = 0; r < std::min(rows.size(), kRowsShown); ++r) {
    if (rows.size() > 1) std::printf("  [%zu]\n", r);
    for (const auto& [index, x] : rows[r].best) {
      const std::string label = index < labels.size() ? "  " + labels[index] : "";
      std::printf("  %6zu  %-10s%s\n", index, FormatNumber(x).c_str(), label.c_str());
    }
  }
  if (rows.size() > kRowsShown) std::printf("  ... %zu more rows\n", rows.size() - kRowsShown);
}

// A file name that stays in its folder, whatever the output is called.
std::string FileName(const std::string& output) {
  std::string name = output;
  for (char& c : name) {
    if (c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < 0x20) c = '_';
  }
  return name.empty() || name[0] == '.' ? "_" + name : name;
}

void MakeFolder(const std::string& path) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    struct stat info;
    if (mkdir(part.c_str(), 0777) != 0 && (stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))) {
      throw Failure(part + ": this folder cannot be made");
    }
    if (at == std::string::npos) return;
  }
}

void StoreOutput(const std::string& folder, const std::string& name, const quern::Value& value) {
  if (!value) return;
  const std::string stem = folder + "/" + FileName(name);
  if (CanWriteNpy(value)) {
    WriteNpy(stem + ".npy", value);
  } else {
    WriteFile(stem + ".pb", value.ToProto(name));
  }
}

struct Times {
  double first = 0;
  std::vector<double> later;
  double median() const {
    std::vector<double> sorted = later;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

// Repeats as asked, or for about 0.3 s when the run is short.
Times TimeRuns(quern::Session& session, const std::vector<quern::Value>& feeds, int repeat,
               std::vector<quern::Value>& outputs) {
  Times times;
  double start = Now();
  outputs = session.Run(feeds);
  times.first = Now() - start;
  const double end = Now() + 0.3;
  for (int i = 0; repeat >= 0 ? i < repeat : i < 50 && times.first < 0.3 && Now() < end; ++i) {
    std::vector<quern::Value> unused;
    start = Now();
    session.RunInto(feeds, unused);
    times.later.push_back(Now() - start);
  }
  return times;
}

Json JsonOf(const std::string& name, const quern::Value& value, const RunArguments& args,
            const std::vector<std::string>& labels) {
  Json out = {{"name", name}};
  if (value.kind() != QUERN_KIND_TENSOR && value.kind() != QUERN_KIND_STRINGS) {
    out["kind"] = KindText(value.kind());
    out["count"] = value.size();
    return out;
  }
  out["dtype"] = quern_dtype_name(value.dtype());
  out["shape"] = value.shape();
  if (args.top < 1 || !IsNumber(value.dtype())) return out;
  for (const TopRow& row : FindTop(value, args.top)) {
    Json best = Json::array();
    for (const auto& [index, x] : row.best) {
      Json entry = {{"index", index}, {"value", x}};
      if (index < labels.size()) entry["label"] = labels[index];
      best.push_back(std::move(entry));
    }
    out["top"].push_back(std::move(best));
  }
  return out;
}

int Run(const RunArguments& args) {
  const std::vector<std::string> labels = args.labels.empty() ? std::vector<std::string>() : ReadLabels(args.labels);
  double start = Now();
  quern::SessionOptions options = ToSessionOptions(args.common);
  options.overridable_initializers = args.overridable_initializers;
  quern::Session session(LoadModel(args.model, args.common.limits), options);
  const double load = Now() - start;
  const std::vector<quern::Value> feeds = MakeFeeds(session, args.feeds);
  if (args.common.verbose) {
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      if (feeds[i]) Progress(std::string("input ") + session.input(i).name + "  " + TypeText(feeds[i]));
    }
  }
  std::vector<quern::Value> outputs;
  const Times times = TimeRuns(session, feeds, args.repeat, outputs);
  if (!args.output_dir.empty()) MakeFolder(args.output_dir);
  Json doc = {{"version", 1},
              {"kind", "run"},
              {"model", args.model},
              {"load_seconds", load},
              {"first_run_seconds", times.first},
              {"run_seconds", times.later},
              {"outputs", Json::array()}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = session.output(i).name;
    if (!args.output_dir.empty()) StoreOutput(args.output_dir, name, outputs[i]);
    if (args.json) {
      doc["outputs"].push_back(JsonOf(name, outputs[i], args, labels));
    } else {
      PrintOutput(name, outputs[i], args, labels);
    }
  }
  if (args.json) {
    std::puts(Dump(doc).c_str());
    return 0;
  }
  std::string line = "loaded in " + FormatSeconds(load) + "; first run " + FormatSeconds(times.first);
  if (!times.later.empty()) {
    line += "; then median " + FormatSeconds(times.median()) + " over " + std::to_string(times.later.size()) + " runs";
  }
  std::puts(line.c_str());
  return 0;
}

}  // namespace

void AddRun(CLI::App& app, int& status) {
  auto args = std::make_shared<RunArguments>();
  CLI::App* sub = AddCommand(app, "run", "Run a model on files or random numbers");
  sub->add_option("model", args->model, "the ONNX model")->required()->type_name("MODEL");
  AddFeedOptions(*sub, args->feeds);
  sub->add_option("--output-dir", args->output_dir,
                  "write each output there as NAME.npy (.pb for what npy cannot hold)")
      ->type_name("FOLDER");
  sub->add_option("--top", args->top, "print the K largest elements of each output, per row")->type_name("K");
  sub->add_option("--labels", args->labels, "names of the classes, one per line, for --top")->type_name("FILE");
  sub->add_option("--repeat", args->repeat, "timed runs after the first one (default: about 0.3 s of them)")
      ->type_name("N");
  sub->add_flag("--overridable-initializers", args->overridable_initializers,
                "let --input replace initializers that the file lists as inputs too");
  sub->add_flag("--json", args->json, "print one JSON object");
  AddCommonOptions(*sub, args->common);
  sub->footer(
      "Examples:\n"
      "  quern run model.onnx --input image=photo.png --top 5 --labels labels.txt\n"
      "  quern run model.onnx --input image=photo.jpg --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --top 5\n"
      "  quern run model.onnx --input ids=ids.npy --input mask=mask.npy --output-dir out\n"
      "  quern run model.onnx --random --shape x=1x3x224x224 --threads 2 --repeat 20");
  sub->callback([args, &status] { status = Run(*args); });
}

}  // namespace quern_tool
