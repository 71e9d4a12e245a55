// quern_model_save: a model to a file, as ONNX or text.
#include "api/model.h"
#include "api/struct_size.h"
#include "base/output_file.h"
#include "format/onnx/writer.h"
#include "graph/text.h"
#include "session/neutral.h"

namespace quern::api {
namespace {

Status SaveText(const Graph& graph, const std::string& path) {
  QUERN_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  QUERN_RETURN_IF_ERROR(file->Write(PrintGraph(graph, {.full_constants = true})));
  QUERN_RETURN_IF_ERROR(CheckIntact(graph));
  return file->Publish();
}

Result<bool> IsSecond(const char* given, const char* first, const char* second, const char* what) {
  if (given == nullptr || std::string(given) == first) return false;
  if (std::string(given) == second) return true;
  return InvalidArgument("there is no " + std::string(what) + " '" + given + "'; known are " + first + " and " +
                         second);
}

Status Save(const quern_model* model, const std::string& path, const quern_save_options* given) {
  quern_save_options known{};
  if (given) {
    QUERN_ASSIGN_OR_RETURN(known, ReadStruct(given, "options"));
  }
  QUERN_ASSIGN_OR_RETURN(const bool as_text, IsSecond(known.format, "onnx", "text", "format"));
  QUERN_ASSIGN_OR_RETURN(const bool neutral, IsSecond(known.stage, "file", "neutral", "stage"));
  if (as_text && known.external_data) return InvalidArgument("the text form has no external data");
  OnnxWriteOptions options;
  QUERN_ASSIGN_OR_RETURN(options.limits, ReadLimits(known.limits));
  options.external_data = known.external_data != 0;
  if (known.external_bytes != 0) options.external_bytes = known.external_bytes;
  if (known.external_name) options.external_name = known.external_name;
  options.producer_name = "quern";
  options.producer_version = quern_version();
  std::set<std::string> skip;
  for (size_t i = 0; i < known.num_skip_passes; ++i) {
    QUERN_RETURN_IF_ERROR(RequirePointer(known.skip_passes, "skip_passes"));
    QUERN_RETURN_IF_ERROR(RequirePointer(known.skip_passes[i], "skip_passes[]"));
    skip.emplace(known.skip_passes[i]);
  }
  QUERN_ASSIGN_OR_RETURN(const Graph* graph, GraphOf(model));
  std::unique_ptr<Graph> changed;
  if (neutral) {
    changed = graph->Clone();
    changed->overridable.clear();  // passes compute with their values
    QUERN_RETURN_IF_ERROR(
        RunNeutralStage(*changed, skip, options.limits, /*warn=*/true, /*one_opset=*/!as_text).status());
    graph = changed.get();
  }
  return as_text ? SaveText(*graph, path) : WriteOnnxFile(*graph, path, options);
}

}  // namespace
}  // namespace quern::api

extern "C" {

quern_status quern_model_save(const quern_model* model, const char* path, const quern_save_options* options) {
  return quern::api::Guard([&]() -> quern::Status {
    QUERN_RETURN_IF_ERROR(quern::api::RequirePointer(path, "path"));
    return quern::api::Save(model, path, options);
  });
}

}  // extern "C"
