// Reads and writes the models and test data of QUERN_SHARED (a folder with models/ and conformance/), where there is
// one.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "format/onnx/comparable_text.h"
#include "format/onnx/proto_builder.h"
#include "format/onnx/reader.h"
#include "format/onnx/tensor_proto.h"
#include "format/onnx/writer.h"
#include "graph/text.h"
#include "ops/infer.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
using onnx_test::AsBytes;

#define QUERN_SHARED_OR_SKIP(variable)                \
  const char* variable = std::getenv("QUERN_SHARED"); \
  if (variable == nullptr) GTEST_SKIP() << "QUERN_SHARED is not set: no models"

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Operators of a graph and its subgraphs, as the manifest counts them.
void CountOps(const Graph& graph, std::map<std::string, int>* counts) {
  for (const Node* n : graph.nodes()) {
    ++(*counts)[n->op_type()];
    for (const auto& [name, subgraph] : n->subgraphs()) CountOps(*subgraph, counts);
  }
}

// Every capture of a node is an input of each of its subgraphs, and the graph is in order.
void CheckStructure(const Graph& graph) {
  std::map<const GraphValue*, bool> seen;
  for (const GraphValue* v : graph.inputs()) seen[v] = true;
  for (const GraphValue* v : graph.constants()) seen[v] = true;
  for (const Node* n : graph.nodes()) {
    for (const GraphValue* v : n->inputs()) EXPECT_TRUE(v == nullptr || seen[v]) << n->Describe();
    for (const GraphValue* v : n->captures()) EXPECT_TRUE(seen[v]) << n->Describe();
    for (const GraphValue* v : n->outputs()) seen[v] = true;
    for (const auto& [name, subgraph] : n->subgraphs()) {
      EXPECT_GE(subgraph->inputs().size(), n->captures().size());
      CheckStructure(*subgraph);
    }
  }
}

TEST(SharedModels, ReadAsTheManifestSays) {
  QUERN_SHARED_OR_SKIP(shared);
  const fs::path models = fs::path(shared) / "models";
  const nlohmann::json manifest = nlohmann::json::parse(ReadAll(models / "manifest.json"));
  int read = 0;
  for (const nlohmann::json& entry : manifest) {
    const fs::path path = models / entry["name"].get<std::string>() / "model.onnx";
    if (!fs::exists(path)) continue;
    const Result<std::unique_ptr<Graph>> graph = ReadOnnxFile(path.string());
    if (!graph.ok()) {
      EXPECT_EQ(graph.status().code(), StatusCode::kUnsupported) << graph.status().message();
      EXPECT_TRUE(entry.value("negative", false)) << graph.status().message();
      continue;
    }
    ++read;
    std::map<std::string, int> counts;
    CountOps(**graph, &counts);
    for (const auto& [op, count] : entry["ops"].items()) {
      const size_t colon = op.rfind(':');
      const std::string op_type = colon == std::string::npos ? op : op.substr(colon + 1);
      // 48 of its Constant nodes define a name that a later one defines again.
      const int replaced = entry["name"] == "gpt2_one_attn" && op_type == "Constant" ? 48 : 0;
      EXPECT_EQ(counts[op_type], count.get<int>() - replaced) << path << " " << op;
    }
    if (!entry.value("negative", false)) {
      EXPECT_EQ((*graph)->inputs().size(), entry["inputs"].size()) << path;
      EXPECT_EQ((*graph)->outputs().size(), entry["outputs"].size()) << path;
    }
    CheckStructure(**graph);
    // The text form says all: what is parsed of it prints the same.
    const std::string text = PrintGraph(**graph, {.full_constants = true});
    const Result<std::unique_ptr<Graph>> parsed = ParseGraph(text);
    ASSERT_TRUE(parsed.ok()) << path << ": " << parsed.status().message();
    EXPECT_TRUE(PrintGraph(**parsed, {.full_constants = true}) == text) << path;
    for (const GraphValue* v : (*graph)->constants()) {
      if (!v->constant()->is_tensor()) continue;
      const Tensor& was = v->constant()->tensor();
      const Tensor& is = (*parsed)->FindValue(v->name())->constant()->tensor();
      EXPECT_TRUE(is.dtype() == was.dtype() && is.shape() == was.shape()) << path << " " << v->name();
      EXPECT_EQ(std::memcmp(is.raw_data(), was.raw_data(), was.bytes()), 0) << path << " " << v->name();
    }
  }
  EXPECT_GE(read, 50);
}

// Parses every data file of the conformance and model folders by the type its model declares, writes it and reads it
// again. Bytes that the ONNX tools wrote are the oracle of the reader, the reader of the writer.
TEST(SharedModels, TestDataReadsAndWritesBack) {
  QUERN_SHARED_OR_SKIP(shared);
  if (!fs::is_directory(fs::path(shared) / "conformance")) GTEST_SKIP() << "QUERN_SHARED has no conformance/";
  int files = 0;
  std::map<std::string, int> refused;
  for (const char* top : {"conformance", "models"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(shared) / top)) {
      if (entry.path().filename() != "model.onnx") continue;
      const Result<std::unique_ptr<Graph>> graph = ReadOnnxFile(entry.path().string());
      if (!graph.ok()) {
        EXPECT_EQ(graph.status().code(), StatusCode::kUnsupported) << graph.status().message();
        ++refused[entry.path().parent_path().filename().string()];
        continue;
      }
      CheckStructure(**graph);
      for (const fs::directory_entry& set : fs::directory_iterator(entry.path().parent_path())) {
        if (!set.is_directory()) continue;
        for (const char* which : {"input_", "output_"}) {
          const std::vector<GraphValue*>& values = which[0] == 'i' ? (*graph)->inputs() : (*graph)->outputs();
          for (size_t i = 0; i < values.size(); ++i) {
            const fs::path path = set.path() / (which + std::to_string(i) + ".pb");
            if (!fs::exists(path)) continue;
            const std::string bytes = ReadAll(path);
            const Result<Value> value = ReadValueProto(AsBytes(bytes), values[i]->type());
            ASSERT_TRUE(value.ok()) << path << ": " << value.status().message();
            const ValueType& declared = values[i]->type();
            EXPECT_EQ(value->kind(), declared.kind) << path;
            if (declared.dtype != DType::kUndefined && value->is_tensor()) {
              EXPECT_EQ(value->tensor().dtype(), declared.dtype) << path;
            }
            const Result<std::string> again = WriteValueProto(*value, "");
            ASSERT_TRUE(again.ok()) << path << ": " << again.status().message();
            const Result<Value> back = ReadValueProto(AsBytes(*again), declared);
            ASSERT_TRUE(back.ok()) << path << ": " << back.status().message();
            EXPECT_EQ(*WriteValueProto(*back, ""), *again) << path;
            ++files;
          }
        }
      }
    }
  }
  EXPECT_GT(files, 2000);
  EXPECT_LE(refused.size(), 17u);  // preview and training domains, operator set 1
}

// What the writer gives of each model reads back to the same text, which has a digest of each constant; a second time
// the bytes are the same. Most are written as files with external data too.
TEST(SharedModels, WriteBack) {
  QUERN_SHARED_OR_SKIP(shared);
  const fs::path folder = fs::path(testing::TempDir()) / ("quern_write_back_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::vector<fs::path> models;
  for (const char* top : {"conformance", "models"}) {
    if (!fs::is_directory(fs::path(shared) / top)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(shared) / top)) {
      if (entry.path().extension() == ".onnx") models.push_back(entry.path());
    }
  }
  int written = 0;
  for (const fs::path& path : models) {
    const Result<std::unique_ptr<Graph>> graph = ReadOnnxFile(path.string());
    if (!graph.ok()) continue;  // the other tests say which
    const Result<std::string> bytes = WriteOnnx(**graph);
    ASSERT_TRUE(bytes.ok()) << path << ": " << bytes.status().message();
    const Result<std::unique_ptr<Graph>> again = ReadOnnx(AsBytes(*bytes), nullptr);
    ASSERT_TRUE(again.ok()) << path << ": " << again.status().message();
    CheckStructure(**again);
    const Result<std::string> second = WriteOnnx(**again);
    ASSERT_TRUE(second.ok()) << path << ": " << second.status().message();
    EXPECT_TRUE(*second == *bytes) << path;
    // The writer infers the types of outputs that the file leaves open.
    EXPECT_EQ(InferShapes(**again).ok(), InferShapes(**graph).ok()) << path;
    EXPECT_EQ(onnx_test::ComparableText(**again), onnx_test::ComparableText(**graph)) << path;
    const std::string file = (folder / "m.onnx").string();
    const Status status = WriteOnnxFile(**graph, file, {.external_data = true});
    ASSERT_TRUE(status.ok()) << path << ": " << status.message();
    const Result<std::unique_ptr<Graph>> external = ReadOnnxFile(file);
    ASSERT_TRUE(external.ok()) << path << ": " << external.status().message();
    EXPECT_EQ(InferShapes(**external).ok(), InferShapes(**again).ok()) << path;
    EXPECT_EQ(onnx_test::ComparableText(**external), onnx_test::ComparableText(**again)) << path;
    ++written;
  }
  fs::remove_all(folder);
  EXPECT_GE(written, 50);
}

// Every prefix of the smallest models ends in an error or a graph.
TEST(SharedModels, CutShort) {
  QUERN_SHARED_OR_SKIP(shared);
  for (const char* name : {"scan_1", "mnist_8"}) {
    const std::string model = ReadAll(fs::path(shared) / "models" / name / "model.onnx");
    ASSERT_FALSE(model.empty());
    const size_t step = std::max<size_t>(1, model.size() / 3000);
    for (size_t n = 0; n < model.size(); n += step) {
      const std::string cut = model.substr(0, n);
      const auto r = ReadOnnx(AsBytes(cut), nullptr);
      if (n > 100) {
        EXPECT_FALSE(r.ok() && n < model.size() / 2) << name << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace quern
