// quern kernels: the rows of the micro-kernel library, and what both selection stages say of a shape.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command.h"
#include "json.h"
#include "table.h"

namespace quern_tool {
namespace {

struct KernelArguments {
  CommonOptions common;
  std::string family, shape, types;
  bool json = false;
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

int ShowKernels(const KernelArguments& args) {
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
                  "gemm, dwconv, winograd, vector, elementwise, fold, affine, pack, transform or quantize "
                  "(default: all)")
      ->type_name("F");
  sub->add_option("--shape", args->shape, "explain the choice for a product [M,K] x [K,N]")->type_name("MxNxK");
  sub->add_option("--types", args->types,
                  "types of the left side, the right side and the accumulator, and optionally the precision: f32, f16, "
                  "bf16, i8, u8, i8d (dynamic int8 rows), qb4w (4-bit blocks) (default f32,f32,f32)")
      ->type_name("LHS,RHS,DST[,PRECISION]");
  sub->add_flag("--json", args->json, "print the facts as JSON");
  AddCommonOptionsWithoutSession(*sub, args->common);
  sub->footer(
      "Examples:\n"
      "  quern kernels --family gemm\n"
      "  quern kernels --shape 128x768x768 --types f32,f32,f32\n"
      "  quern kernels --shape 1x4096x4096 --types i8d,qb4w,f32 --cpu apple-m4");
  sub->callback([args, &status] { status = ShowKernels(*args); });
}

}  // namespace quern_tool
