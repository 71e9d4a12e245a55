// quern kernels: the rows of the micro-kernel library, and what both selection stages say of a shape.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "command.h"
#include "json.h"
#include "table.h"

namespace quern_tool {
namespace {

struct KernelArguments {
  CommonOptions common;
  std::string family, shape, types, output;
  bool json = false, calibrate = false, check = false;
  double seconds = 60;
  std::int64_t shapes = 200;
};

std::string Number(const Json& object, const char* key) {
  return object.contains(key) ? FormatNumber(object[key].get<double>()) : "";
}

void PrintRows(const Json& doc) {
  std::string family;
  std::unique_ptr<Table> table;
  for (const Json& row : doc["kernels"]) {
    if (Text(row, "family") != family) {
      if (table) table->Print();
      family = Text(row, "family");
      std::printf("%s\n", family.c_str());
      table = std::make_unique<Table>(std::vector<std::string>{"kernel", "runs", "detail"});
    }
    std::string detail;
    if (row.contains("consumes")) detail = Text(row, "precision") + ", " + Text(row, "consumes");
    if (row.contains("lanes")) detail = Text(row, "lanes") + " lanes";
    if (row.contains("vector_bytes")) detail = "vectors of " + Text(row, "vector_bytes") + " bytes";
    if (row.contains("from")) detail = Text(row, "from") + " -> " + Text(row, "to");
    if (row.contains("layout")) detail = Text(row, "source") + " -> " + Text(row, "layout");
    if (row.contains("fuses") && !row["fuses"].empty()) {
      detail += (detail.empty() ? "fuses " : "; fuses ") + std::to_string(row["fuses"].size()) + " epilogue operations";
    }
    table->Add({Text(row, "name"), row["runs"].get<bool>() ? "yes" : Text(row, "reason"), detail});
  }
  if (table) table->Print();
}

int PrintSelection(const Json& doc) {
  const Json& selection = doc["selection"];
  std::printf("product M %s, N %s, K %s of %s (%s) on %s\n", Text(selection, "m").c_str(), Text(selection, "n").c_str(),
              Text(selection, "k").c_str(), Text(selection, "types").c_str(), Text(selection, "precision").c_str(),
              Text(doc, "cpu").c_str());
  if (selection.contains("error")) {
    std::fprintf(stderr, "error: %s\n", Text(selection, "error").c_str());
  }
  const Json& load = selection["load"];
  std::printf("1. at load, the resident layout: %s\n", load.contains("chosen") ? Text(load, "chosen").c_str() : "none");
  Table layouts({"layout", ">cycles", ">of best", ">bytes", "by", "why not"});
  for (const Json& l : load["layouts"]) {
    layouts.Add({Text(l, "name"), Number(l, "cycles"), Number(l, "score"),
                 l.contains("resident_bytes") ? FormatBytes(l["resident_bytes"].get<double>()) : "", Text(l, "kernel"),
                 l.contains("reason") ? Text(l, "reason") : "chosen"});
  }
  layouts.Print("   ");
  const Json& call = selection["call"];
  std::printf("2. per call, the kernel: %s\n", call.contains("chosen") ? Text(call, "chosen").c_str() : "none");
  Table rows({"kernel", ">cycles", "why not"});
  for (const Json& r : call["kernels"]) {
    rows.Add({Text(r, "name"), Number(r, "cycles"), r.contains("reason") ? Text(r, "reason") : "chosen"});
  }
  rows.Print("   ");
  return selection.contains("error") ? 1 : 0;
}

void PrintProgress(void*, const char* line) { Progress(line); }

int Calibrate(const KernelArguments& args) {
  const std::string text = quern::Calibrate(args.common.cpu, args.seconds, PrintProgress);
  if (args.output.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    WriteFile(args.output, text);
    Progress("QUERN_CALIBRATION=" + args.output + " makes sessions choose by it");
  }
  return 0;
}

// Status 1 when the shapes are not chosen as well as they should be: 95 % within 10 % of the fastest, none beyond 30 %.
int CheckSelection(const KernelArguments& args) {
  constexpr double kShare = 0.95, kWorst = 1.3;
  const Json doc = ParseJson(quern::CheckSelection(args.common.cpu, args.shapes, PrintProgress));
  const double share = doc["within_10"].get<double>(), worst = doc["worst"].get<double>();
  const int status = share >= kShare && worst <= kWorst ? 0 : 1;
  if (args.json) {
    std::puts(Dump(doc).c_str());
    return status;
  }
  std::vector<Json> shapes(doc["shapes"].begin(), doc["shapes"].end());
  std::sort(shapes.begin(), shapes.end(),
            [](const Json& a, const Json& b) { return a["ratio"].get<double>() > b["ratio"].get<double>(); });
  Table table({">of best", "types", "MxNxK", "chosen", "fastest"});
  for (const Json& s : shapes) {
    char ratio[32];
    std::snprintf(ratio, sizeof(ratio), "%.2f", s["ratio"].get<double>());
    const bool same = Text(s, "chosen") == Text(s, "best");
    table.Add({ratio, Text(s, "types"), Text(s, "m") + "x" + Text(s, "n") + "x" + Text(s, "k"), Text(s, "chosen"),
               same ? "it is" : Text(s, "best")});
  }
  table.Print("");
  std::printf("%.1f %% of %zu shapes within 10 %% of the fastest, the worst %.2f times; %s cost data\n", 100 * share,
              shapes.size(), worst, doc["calibrated"].get<bool>() ? "calibrated" : "shipped");
  return status;
}

int ShowKernels(const KernelArguments& args) {
  if (args.calibrate && args.check) throw Failure("--calibrate and --check-selection do not go together", true);
  if (args.calibrate) return Calibrate(args);
  if (args.check) return CheckSelection(args);
  std::vector<std::int64_t> mnk(3, 0);
  if (!args.shape.empty()) {
    mnk = ParseShape(args.shape, "--shape");
    if (mnk.size() != 3 || mnk[0] < 1 || mnk[1] < 1 || mnk[2] < 1) {
      throw Failure("--shape '" + args.shape + "' is not MxNxK, as in 128x768x768", true);
    }
  } else if (!args.types.empty()) {
    throw Failure("--types needs --shape MxNxK", true);
  }
  const Json doc = ParseJson(quern::KernelFacts(args.common.cpu, args.family, mnk[0], mnk[1], mnk[2], args.types));
  if (args.json) {
    std::puts(Dump(doc).c_str());
    return doc.contains("selection") && doc["selection"].contains("error") ? 1 : 0;
  }
  if (doc.contains("selection")) return PrintSelection(doc);
  PrintRows(doc);
  return 0;
}

}  // namespace

void AddKernels(CLI::App& app, int& status) {
  auto args = std::make_shared<KernelArguments>();
  CLI::App* sub = AddCommand(app, "kernels", "List micro-kernels, or explain the choice for a shape");
  sub->add_option("--family", args->family,
                  "gemm, dwconv, winograd, vector, elementwise, fold, affine, fourier, pack, transform or "
                  "quantize (default: all)")
      ->type_name("F");
  sub->add_option("--shape", args->shape, "explain the choice for a product [M,K] x [K,N]")->type_name("MxNxK");
  sub->add_option("--types", args->types,
                  "types of the left side, the right side and the accumulator, and optionally the precision: f32, f16, "
                  "bf16, i8, u8, i8d (dynamic int8 rows), qb4w (4-bit blocks) (default f32,f32,f32)")
      ->type_name("LHS,RHS,DST[,PRECISION]");
  sub->add_flag("--json", args->json, "print the facts as JSON");
  sub->add_flag("--calibrate", args->calibrate,
                "time the rows on this machine and print their cost terms, for QUERN_CALIBRATION");
  sub->add_option("--seconds", args->seconds, "with --calibrate: about how long (default 60)")->type_name("S");
  sub->add_option("-o,--output", args->output, "with --calibrate: the file to write")->type_name("FILE");
  sub->add_flag("--check-selection", args->check,
                "measure whether the rows chosen for seeded shapes are the fastest here");
  sub->add_option("--shapes", args->shapes, "with --check-selection: how many (default 200)")->type_name("N");
  AddCommonOptionsWithoutSession(*sub, args->common);
  sub->footer(
      "Examples:\n"
      "  quern kernels --family gemm\n"
      "  quern kernels --shape 128x768x768 --types f32,f32,f32\n"
      "  quern kernels --shape 1x4096x4096 --types i8d,qb4w,f32 --cpu apple-m4\n"
      "  quern kernels --shape 128x768x768 --disable vector512\n"
      "  quern kernels --calibrate -o here.txt; QUERN_CALIBRATION=here.txt quern kernels --check-selection");
  sub->callback([args, &status] { status = ShowKernels(*args); });
}

}  // namespace quern_tool
