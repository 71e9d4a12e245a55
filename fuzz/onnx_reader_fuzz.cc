// The ONNX reader on arbitrary bytes: an error, or a graph that verifies, whose text form gives the same graph, and
// which the writer gives back: what it writes reads, and is written again as the same bytes.
#include <cstdint>
#include <variant>

#include "base/check.h"
#include "format/onnx/reader.h"
#include "format/onnx/writer.h"
#include "graph/text.h"
#include "graph/verifier.h"

namespace quern {
namespace {

uint64_t g_sink;  // keeps the reads below

// Reads every byte, so that a view beyond the file shows.
void Touch(const Value& value) {
  if (!value.is_tensor()) return;
  const auto* bytes = static_cast<const unsigned char*>(value.tensor().raw_data());
  for (size_t i = 0; i < value.tensor().bytes(); ++i) g_sink += bytes[i];
}

void TouchAll(const Graph& graph) {
  for (const GraphValue* constant : graph.constants()) Touch(*constant->constant());
  for (const Node* node = graph.first_node(); node; node = node->next()) {
    for (const auto& [name, attribute] : node->attributes()) {
      if (const Value* value = std::get_if<Value>(&attribute)) Touch(*value);
    }
    for (const auto& [name, subgraph] : node->subgraphs()) TouchAll(*subgraph);
  }
}

size_t CountNodes(const Graph& graph) {
  size_t count = 0;
  for (const Node* node = graph.first_node(); node; node = node->next()) {
    ++count;
    for (const auto& [name, subgraph] : node->subgraphs()) count += CountNodes(*subgraph);
  }
  return count;
}

void WriteAndReadBack(const Graph& graph, const OnnxReadOptions& options) {
  const OnnxWriteOptions write = {.limits = options.limits};
  const Result<std::string> bytes = WriteOnnx(graph, write);
  if (!bytes.ok()) {
    // Functions may bring two versions of an operator together, and no number may stand where one is needed.
    const StatusCode code = bytes.status().code();
    QUERN_CHECK(code == StatusCode::kUnsupported || code == StatusCode::kInvalidArgument,
                bytes.status().message().c_str());
    return;
  }
  std::string written = *bytes;
  // What cannot be written (a shape without an element type) may have kept inference from the type of an output, so
  // the second time more may be known; after that nothing changes.
  for (int round = 0; round < 2; ++round) {
    const Result<std::unique_ptr<Graph>> again = ReadOnnx(std::as_bytes(std::span(written)), nullptr, options);
    if (!again.ok() && again.status().code() == StatusCode::kResourceExhausted) return;  // a copy is beyond the limit
    QUERN_CHECK(again.ok(), again.status().message().c_str());
    QUERN_CHECK(CountNodes(**again) >= CountNodes(graph), "the writer lost nodes");
    QUERN_CHECK((*again)->constants().size() == graph.constants().size(), "the writer lost constants");
    const Result<std::string> next = WriteOnnx(**again, write);
    QUERN_CHECK(next.ok(), next.status().message().c_str());
    QUERN_CHECK(round == 0 || *next == written, "a graph that was written is written otherwise");
    written = *next;
  }
}

}  // namespace
}  // namespace quern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  OnnxReadOptions options;
  options.limits.memory_bytes = int64_t{128} << 20;
  options.limits.tensor_bytes = int64_t{16} << 20;
  options.limits.nodes = 20000;
  options.external_data_folder = "/nonexistent";
  const std::shared_ptr<const void> owner(data, [](const void*) {});
  const Result<std::unique_ptr<Graph>> graph =
      ReadOnnx({reinterpret_cast<const std::byte*>(data), size}, owner, options);
  if (!graph.ok()) {
    QUERN_CHECK(!graph.status().message().empty(), "an error without words");
    return 0;
  }
  TouchAll(**graph);
  const Status verified = Verify(**graph, options.limits);
  QUERN_CHECK(verified.ok(), verified.message().c_str());
  WriteAndReadBack(**graph, options);
  if (size > 4096) return 0;  // large constants make long texts
  const PrintOptions full = {.full_constants = true};
  const std::string text = PrintGraph(**graph, full);
  const Result<std::unique_ptr<Graph>> again = ParseGraph(text, options.limits);
  QUERN_CHECK(again.ok(), again.status().message().c_str());
  QUERN_CHECK(PrintGraph(**again, full) == text, "the text form does not give the same graph");
  return 0;
}
