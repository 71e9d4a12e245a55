// For tests: the text form of a graph, as it is the same for equal graphs whenever they were made.
#pragma once

#include <cctype>
#include <map>
#include <string>

#include "graph/text.h"

namespace quern::onnx_test {

// Unknown extents ("?12") are numbered anew, from 0 in the order in which they occur.
inline std::string ComparableText(const Graph& graph, const PrintOptions& options = {}) {
  const std::string text = PrintGraph(graph, options);
  std::map<std::string, size_t> numbers;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (text[i] == '?') {
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    }
    if (end == i + 1) {
      out += text[i++];
      continue;
    }
    out += "?" + std::to_string(numbers.emplace(text.substr(i, end - i), numbers.size()).first->second);
    i = end;
  }
  return out;
}

}  // namespace quern::onnx_test
