// The text parser on arbitrary bytes: an error with its place, or a graph whose printed form gives the same graph.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "graph/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  Limits limits;
  limits.tensor_bytes = int64_t{16} << 20;
  limits.memory_bytes = int64_t{128} << 20;
  const Result<std::unique_ptr<Graph>> graph = ParseGraph({reinterpret_cast<const char*>(data), size}, limits);
  if (!graph.ok()) {
    QUERN_CHECK(!graph.status().message().empty(), "an error without words");
    return 0;
  }
  const PrintOptions full = {.full_constants = true};
  const std::string text = PrintGraph(**graph, full);
  const Result<std::unique_ptr<Graph>> again = ParseGraph(text, limits);
  QUERN_CHECK(again.ok(), again.status().message().c_str());
  QUERN_CHECK(PrintGraph(**again, full) == text, "the printed form does not give the same graph");
  return 0;
}
