#include "format/onnx/reader.h"

#include <algorithm>
#include <filesystem>

#include "format/onnx/external_data.h"
#include "format/onnx/graph_builder.h"
#include "format/onnx/inline_functions.h"
#include "format/onnx/model_view.h"
#include "format/onnx/tensor_decoder.h"

namespace quern {
namespace {

Result<std::unique_ptr<Graph>> ReadBytes(std::string_view bytes, std::shared_ptr<const void> owner,
                                         const OnnxReadOptions& options, onnx::ExternalData& external) {
  if (bytes.empty()) return Corrupt("empty: this is not an ONNX model");
  if (bytes.size() > static_cast<size_t>(std::max<int64_t>(options.limits.model_bytes, 0))) {
    return ResourceExhausted("has " + std::to_string(bytes.size()) + " bytes, the limit is " +
                             std::to_string(options.limits.model_bytes));
  }
  QUERN_ASSIGN_OR_RETURN(onnx::ModelView model, onnx::ParseModel(bytes, options.limits));
  onnx::TensorDecoder decoder(bytes.data(), std::move(owner), options.limits, &external);
  QUERN_RETURN_IF_ERROR(onnx::InlineFunctions(&model, decoder));
  QUERN_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, onnx::BuildGraph(model, decoder));
  // Zeros where a file was cut short while it was read would look like weights.
  for (const auto& [path, file] : external.files()) {
    QUERN_RETURN_IF_ERROR(file->CheckIntact());
    graph->mapped_files.push_back(file);
  }
  return graph;
}

}  // namespace

Result<std::unique_ptr<Graph>> ReadOnnxFile(const std::string& path, const OnnxReadOptions& options) {
  QUERN_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file,
                         MappedFile::Open(path, options.limits.model_bytes));
  std::string folder = options.external_data_folder;
  if (folder.empty()) folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  onnx::ExternalData external(std::move(folder), options.limits.memory_bytes);
  const std::string_view bytes(reinterpret_cast<const char*>(file->data()), file->size());
  Result<std::unique_ptr<Graph>> graph = ReadBytes(bytes, file, options, external);
  // First: what was read of a damaged file explains any error in it.
  QUERN_RETURN_IF_ERROR(file->CheckIntact());
  if (!graph.ok()) return graph.status().WithContext(path);
  (*graph)->mapped_files.push_back(file);
  return graph;
}

Result<std::unique_ptr<Graph>> ReadOnnx(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                        const OnnxReadOptions& options) {
  onnx::ExternalData external(options.external_data_folder, options.limits.memory_bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Result<std::unique_ptr<Graph>> graph = ReadBytes(text, std::move(owner), options, external);
  if (!graph.ok()) return graph.status().WithContext(options.name);
  return graph;
}

}  // namespace quern
