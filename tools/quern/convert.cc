// quern convert: a model as another file: ONNX or text, as it is or after the graph passes, weights inside or beside
// it.
#include <CLI/CLI.hpp>
#include <memory>

#include "command.h"

namespace quern_tool {
namespace {

struct ConvertArguments {
  CommonOptions common;
  quern::SaveOptions save;
  std::string from, to;
  std::string external_bytes;
};

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

int Convert(ConvertArguments& args) {
  if (args.save.format.empty() && EndsWith(args.to, ".txt")) args.save.format = "text";
  if (!args.external_bytes.empty()) args.save.external_bytes = ParseSize(args.external_bytes, "--external-bytes");
  if (!args.external_bytes.empty() || !args.save.external_name.empty()) args.save.external_data = true;
  args.save.limits = args.common.limits;
  if (args.save.format == "text" && args.save.external_data) throw Failure("the text form has no external data", true);
  LoadModel(args.from, args.common.limits).Save(args.to, args.save);
  return 0;
}

}  // namespace

void AddConvert(CLI::App& app, int& status) {
  auto args = std::make_shared<ConvertArguments>();
  CLI::App* sub = AddCommand(app, "convert", "Write a model as another file: ONNX or text, optimized or as it is");
  sub->add_option("in", args->from, "the ONNX model, or a graph in text form")->required()->type_name("IN");
  sub->add_option("out", args->to, "the file to write, replaced as a whole")->required()->type_name("OUT");
  sub->add_option(
         "--stage", args->save.stage,
         "file: as it is stored, functions inlined and sparse tensors dense (default); neutral: after the graph "
         "passes")
      ->type_name("STAGE")
      ->check(CLI::IsMember({"file", "neutral"}));
  sub->add_option("--format", args->save.format, "onnx or text (default: text if OUT ends in .txt)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"onnx", "text"}));
  sub->add_flag("--external-data", args->save.external_data,
                "put large weights into a file beside OUT, which models of 2 GB and more need");
  sub->add_option("--external-bytes", args->external_bytes, "the least size of those (default: 1K)")
      ->type_name("N[K|M|G]");
  sub->add_option("--external-name", args->save.external_name, "the name of that file (default: OUT.data)")
      ->type_name("NAME");
  sub->add_option("--skip-pass", args->save.skip_passes,
                  "a graph pass to leave out (inspect --stage neutral lists them)")
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
  AddLimitOption(*sub, args->common);
  AddCommonOptionsWithoutSession(*sub, args->common);
  sub->footer(
      "Examples:\n"
      "  quern convert model.onnx copy.onnx\n"
      "  quern convert model.onnx optimized.onnx --stage neutral\n"
      "  quern convert model.onnx small.onnx --external-data --external-bytes 64K\n"
      "  quern convert model.onnx graph.txt\n"
      "  quern convert graph.txt model.onnx");
  sub->callback([args, &status] { status = Convert(*args); });
}

}  // namespace quern_tool
