// The writer: what it writes reads back to the same graph, and names, types and versions are what checkers ask for.
#include "format/onnx/writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/onnx/comparable_text.h"
#include "format/onnx/proto_builder.h"
#include "format/onnx/reader.h"
#include "graph/verifier.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
using namespace onnx_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using GraphResult = Result<std::unique_ptr<Graph>>;

std::unique_ptr<Graph> Parse(const std::string& text) {
  GraphResult r = ParseGraph(text);
  EXPECT_TRUE(r.ok()) << r.status().message();
  return std::move(r).value();
}
std::unique_ptr<Graph> Read(const std::string& bytes) {
  GraphResult r = ReadOnnx(AsBytes(bytes), nullptr);
  EXPECT_TRUE(r.ok()) << r.status().message();
  return r.ok() ? std::move(r).value() : nullptr;
}
std::string Write(const Graph& graph) {
  const Result<std::string> bytes = WriteOnnx(graph);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return bytes.ok() ? *bytes : "";
}
// The graph that comes back; the facts that every ONNX model has are left out.
std::unique_ptr<Graph> RoundTrip(const Graph& graph) {
  std::unique_ptr<Graph> again = Read(Write(graph));
  if (!again) return nullptr;
  EXPECT_TRUE(Verify(*again).ok());
  for (const char* key : {"onnx.ir_version", "onnx.model_version"}) {
    if (graph.metadata.count(key) == 0) again->metadata.erase(key);
  }
  return again;
}
constexpr PrintOptions kFull = {.full_constants = true};
void ExpectRoundTrip(const std::string& text) {
  const std::unique_ptr<Graph> graph = Parse(text);
  ASSERT_NE(graph, nullptr);
  const std::unique_ptr<Graph> again = RoundTrip(*graph);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ComparableText(*again, kFull), ComparableText(*graph, kFull));
}
void ExpectError(const Result<std::string>& r, StatusCode code, const std::string& text) {
  ASSERT_FALSE(r.ok()) << "expected: " << text;
  EXPECT_EQ(r.status().code(), code) << r.status().message();
  EXPECT_THAT(r.status().message(), HasSubstr(text));
}

TEST(OnnxWriter, EverythingAGraphHas) {
  ExpectRoundTrip(R"(graph @main opset("": 17, "com.microsoft": 1, "my.unused": 3) {
  metadata "k" = "v"
  metadata "onnx.doc_string" = "words"
  metadata "onnx.domain" = "org.example"
  metadata "onnx.ir_version" = "9"
  metadata "onnx.model_version" = "7"
  metadata "onnx.producer_name" = "maker"
  metadata "onnx.producer_version" = "1.2"
  input %x: f32[batch,3,?1,0]
  input %"a b": string[*]
  input %scalar: i64[]
  input %s: seq<f32[*]>
  input %o: opt<seq<i64[2]>>
  input %m: map<string,f32[]>
  const %w = f32[2] {0.5, nan}
  const %words = string[2] {"a", "\xff\x00b"}
  %y: f32["2*n + 1",?2], _, %z = Op(%x, _, %w) {empty = ints [], f = 0.5, i = -7, l = [1, -2],
    s = "text", t = value f32[] {2.0}, ts = [value i64[1] {1}, value string[1] {"x"}], type = type seq<f32[n]>,
    g = floats [], h = strings [], v = values [], w = graphs [], fs = [1.0, inf], ss = ["a", ""]} @node/1
  %q: f32[4] = com.microsoft::Gelu(%y)
  () = Sink(%z)
  return %y, %x, %w, %q
}
)");
}

TEST(OnnxWriter, EveryElementType) {
  std::string constants;
  for (int type = 1; type <= static_cast<int>(DType::kI2); ++type) {
    const DType dtype = static_cast<DType>(type);
    if (dtype == DType::kString) continue;
    const Result<Tensor> t = Tensor::Allocate(dtype, Shape{5});
    ASSERT_TRUE(t.ok());
    auto* bytes = static_cast<uint8_t*>(t->raw_data());
    for (size_t i = 0; i < t->bytes(); ++i) bytes[i] = dtype == DType::kBool ? i % 2 : static_cast<uint8_t>(40 + 3 * i);
    Graph graph;
    graph.name = "g";
    graph.opset_imports = {{"", 21}};
    graph.AddOutput(graph.AddConstant("c", *t));
    graph.AddNode({.op_type = "Constant", .outputs = {"d"}, .attributes = {{"value", Value(*t)}}});
    const std::unique_ptr<Graph> again = RoundTrip(graph);
    ASSERT_NE(again, nullptr) << DTypeName(dtype);
    EXPECT_EQ(ComparableText(*again, kFull), ComparableText(graph, kFull));
  }
  Graph graph;
  const Result<Tensor> block = Tensor::Allocate(DType::kQ4_0, Shape{32});
  ASSERT_TRUE(block.ok());
  graph.AddOutput(graph.AddConstant("w", *block));
  ExpectError(WriteOnnx(graph), StatusCode::kUnsupported, "constant 'w': ONNX has no element type q4_0");
}

TEST(OnnxWriter, EmptyAndStridedTensors) {
  ExpectRoundTrip(R"(graph @g opset("": 17) {
  const %none = f32[0,3] {}
  const %words = string[0] {}
  return %none, %words
}
)");
  std::vector<float> data = {1, 2, 3, 4};
  Graph graph;
  graph.name = "g";
  graph.AddOutput(graph.AddConstant("t", Tensor::WrapStrided(DType::kF32, Shape{2, 2}, Shape{1, 2}, data.data())));
  const std::unique_ptr<Graph> again = RoundTrip(graph);
  ASSERT_NE(again, nullptr);
  EXPECT_THAT(again->FindValue("t")->constant()->tensor().values<float>(), ElementsAre(1, 3, 2, 4));
}

TEST(OnnxWriter, SubgraphsReadOuterNames) {
  ExpectRoundTrip(R"(graph @g opset("": 17) {
  input %c: bool[]
  input %x: f32[n]
  const %k = f32[1] {1.0}
  %r: f32[n] = If(%c) captures(%c, %x, %k) {
    else_branch = graph @else {
      input %c: bool[]
      input %x: f32[n]
      input %k: f32[1]
      %n: f32[n] = If(%c) captures(%x) {
        else_branch = graph @inner {
          input %x: f32[n]
          %i: f32[n] = Neg(%x)
          return %i
        },
        then_branch = graph @inner {
          input %x: f32[n]
          const %j = f32[1] {2.0}
          %i: f32[n] = Add(%x, %j)
          return %i
        }
      }
      %e: f32[n] = Add(%n, %k)
      return %e
    },
    then_branch = graph @then {
      input %c: bool[]
      input %x: f32[n]
      input %k: f32[1]
      %t: f32[n] = Mul(%x, %k)
      return %t
    }
  } @choose
  return %r
}
)");
  ExpectRoundTrip(R"(graph @g opset("": 17) {
  input %m: i64[]
  input %x: f32[n]
  %y: f32[n], %all: f32[?1,n] = Loop(%m, _, %x) captures(%x) {
    body = graph @body {
      input %i: i64[]
      input %p: bool[]
      input %v
      input %x: f32[n]
      %w = Add(%v, %x)
      return %p, %w, %w
    }
  }
  return %y, %all
}
)");
}

// A body's names that would mean other values in the file get new ones; captures are known by position, not by name.
TEST(OnnxWriter, NamesInSubgraphsStayApart) {
  const std::unique_ptr<Graph> graph = Parse(R"(graph @g opset("": 17) {
  input %c: bool[]
  input %x: f32[n]
  %t: f32[n] = Abs(%x)
  %r: f32[n] = If(%c) captures(%x, %t) {
    else_branch = graph @else {
      input %outer: f32[n]
      input %other: f32[n]
      const %x = f32[1] {1.0}
      %t: f32[n] = Add(%outer, %x)
      %r = Neg(%t)
      return %r
    },
    then_branch = graph @then {
      input %t: f32[n]
      input %x: f32[n]
      return %x
    }
  }
  %later = Neg(%r)
  return %later
}
)");
  ASSERT_NE(graph, nullptr);
  const std::unique_ptr<Graph> again = RoundTrip(*graph);
  ASSERT_NE(again, nullptr);
  const Node& node = *again->first_node()->next();
  ASSERT_EQ(node.captures().size(), 2u);
  EXPECT_EQ(node.captures()[0]->name(), "x");
  EXPECT_EQ(node.captures()[1]->name(), "t");
  const Graph& e = **node.FindAttribute<GraphPtr>("else_branch");
  const Node& add = *e.first_node();
  EXPECT_EQ(add.input(0), e.inputs()[0]);
  ASSERT_TRUE(add.input(1)->is_constant());
  EXPECT_EQ(add.input(1)->name(), "x_1");   // the constant that had the name of what the graph reads
  EXPECT_EQ(add.output(0)->name(), "t_1");  // visible from outside
  EXPECT_EQ(e.outputs()[0]->name(), "r");   // defined outside only afterwards
  // then_branch gives its second input, the outer t: through an Identity, which runtimes ask for.
  const Graph& t = **node.FindAttribute<GraphPtr>("then_branch");
  ASSERT_EQ(t.num_nodes(), 1);
  EXPECT_TRUE(t.first_node()->Is("Identity"));
  EXPECT_EQ(t.first_node()->input(0), t.inputs()[1]);
  // Written once more, nothing changes.
  EXPECT_EQ(Write(*again), Write(*RoundTrip(*again)));
}

TEST(OnnxWriter, ConstantsThatBecomeNodes) {
  const std::unique_ptr<Graph> graph = Parse(R"(graph @g opset("": 17) {
  const %s = seq [f32[1] {1.0}, f32[2] {2.0, 3.0}]
  const %e: seq<i64[*]> = seq []
  const %o: opt<f32[*]> = opt ()
  const %p = opt (i64[] {5})
  %n = SequenceLength(%s)
  return %n, %s, %e, %o, %p
}
)");
  const std::unique_ptr<Graph> again = RoundTrip(*graph);
  ASSERT_NE(again, nullptr);
  std::map<std::string, const Node*> makers;
  for (const Node* n : again->nodes()) makers[n->output(0)->name()] = n;
  EXPECT_TRUE(makers["s"]->Is("SequenceConstruct"));
  ASSERT_EQ(makers["s"]->num_inputs(), 2);
  EXPECT_THAT(makers["s"]->input(1)->constant()->tensor().values<float>(), ElementsAre(2, 3));
  EXPECT_TRUE(makers["e"]->Is("SequenceEmpty"));
  EXPECT_EQ(makers["e"]->GetInt("dtype", 0), static_cast<int64_t>(DType::kI64));
  EXPECT_TRUE(makers["o"]->Is("Optional"));
  EXPECT_EQ(makers["o"]->FindAttribute<ValueType>("type")->dtype, DType::kF32);
  EXPECT_THAT(makers["p"]->input(0)->constant()->tensor().values<int64_t>(), ElementsAre(5));
  const std::unique_ptr<Graph> map =
      Parse("graph @g opset(\"\": 17) { const %m = map i64 {1: f32[] {1.0}} return %m }");
  ExpectError(WriteOnnx(*map), StatusCode::kUnsupported, "constant 'm': ONNX has no constant of kind map");
  const std::unique_ptr<Graph> attribute = Parse("graph @g opset(\"\": 17) { %y = Op() {a = value seq []} return %y }");
  ExpectError(WriteOnnx(*attribute), StatusCode::kInvalidArgument, "node 'y' (Op): attribute 'a': a sequence");
}

TEST(OnnxWriter, TypesOfOutputsAreInferred) {
  const std::unique_ptr<Graph> graph = Parse(R"(graph @g opset("": 17) {
  input %x: f32[n,3]
  %t = Transpose(%x)
  %y = Relu(%t)
  return %y, %t
}
)");
  const std::unique_ptr<Graph> again = RoundTrip(*graph);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(TypeToString(again->outputs()[0]->type()), "f32[3,n]");
  EXPECT_EQ(TypeToString(again->outputs()[1]->type()), "f32[3,n]");
}

TEST(OnnxWriter, OverridableInitializersStayInputs) {
  for (int ir : {3, 8}) {
    const std::string bytes = ModelOf(GraphOf({.nodes = {NodeOf("Add", {"x", "w"}, {"y"})},
                                               .initializers = {FloatTensor("w", {2}, {1, 2})},
                                               .inputs = {FloatInfo("w", {"k"}), FloatInfo("x", {"2"})},
                                               .outputs = {FloatInfo("y", {"2"})}}),
                                      13, ir)
                                  .bytes();
    const std::unique_ptr<Graph> graph = Read(bytes);
    const std::unique_ptr<Graph> again = RoundTrip(*graph);
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(ComparableText(*again, kFull), ComparableText(*graph, kFull));
    ASSERT_EQ(again->overridable.size(), 1u);
    EXPECT_EQ(again->overridable[0].first, "w");
    EXPECT_EQ(TypeToString(again->overridable[0].second), "f32[k]");
    EXPECT_EQ(again->metadata.at("onnx.ir_version"), std::to_string(ir));
    // One that is gone or renamed is no input; an initializer that is none needs IR version 4.
    graph->RenameValue(graph->FindValue("w"), "v");
    const std::unique_ptr<Graph> renamed = Read(Write(*graph));
    ASSERT_NE(renamed, nullptr);
    EXPECT_TRUE(renamed->overridable.empty());
    EXPECT_EQ(renamed->metadata.at("onnx.ir_version"), ir == 3 ? "4" : "8");
  }
}

TEST(OnnxWriter, VersionsOfOperatorSets) {
  const auto write = [](const std::string& nodes, const std::string& imports) {
    return WriteOnnx(*Parse("graph @g opset(" + imports + ") { input %x: f32[2] " + nodes + " return %x }"));
  };
  const auto opset = [&](const std::string& nodes, const std::string& imports) {
    const Result<std::string> bytes = write(nodes, imports);
    return bytes.ok() ? Read(*bytes)->opset("") : -1;
  };
  EXPECT_EQ(opset("%a = Relu(%x)", "\"\": 17"), 17);
  EXPECT_EQ(opset("%a = Relu#14(%x) %b = Neg#13(%a)", "\"\": 17"), 17);  // the same operators
  EXPECT_EQ(opset("%a = Softmax#11(%x)", "\"\": 13"), 11);               // another one: its version serves
  EXPECT_EQ(opset("%a = Softmax#11(%x) %b = Neg(%a)", "\"\": 17"), -1);
  ExpectError(write("%a = Softmax#11(%x) %b = Softmax(%a)", "\"\": 17"), StatusCode::kUnsupported,
              "node 'a' (Softmax) follows operator set 11 of ai.onnx, other nodes 17");
  ExpectError(write("%a = Foo#2(%x) %b = Foo#3(%a)", "\"\": 17"), StatusCode::kUnsupported, "follows operator set");
  ExpectError(write("%a = Neg#0(%x)", ""), StatusCode::kInvalidArgument, "node 'a' (Neg): no version");
  EXPECT_EQ(opset("", ""), 17);
}

TEST(OnnxWriter, IrVersionsAndFacts) {
  const auto with = [](const std::string& opset, const std::string& metadata) {
    return Parse("graph opset(" + opset + ") { " + metadata + " input %x: f32[2] return %x }");
  };
  const auto ir = [&](const std::string& opset, const std::string& metadata = "") {
    return Read(Write(*with(opset, metadata)))->metadata.at("onnx.ir_version");
  };
  EXPECT_EQ(ir("\"\": 7"), "4");
  EXPECT_EQ(ir("\"\": 17"), "8");
  EXPECT_EQ(ir("\"\": 21"), "10");
  EXPECT_EQ(ir("\"\": 17, \"ai.onnx.ml\": 5"), "10");
  EXPECT_EQ(ir("\"\": 28"), "14");
  EXPECT_EQ(ir("\"\": 17", "metadata \"onnx.ir_version\" = \"12\""), "12");
  ExpectError(WriteOnnx(*with("\"\": 17", "metadata \"onnx.ir_version\" = \"new\"")), StatusCode::kInvalidArgument,
              "metadata 'onnx.ir_version' is 'new', not a number");
  ExpectError(WriteOnnx(*with("\"\": 17", "metadata \"onnx.ir_version\" = \"-3\"")), StatusCode::kInvalidArgument,
              "-3");
  ExpectError(WriteOnnx(*with("\"\": 17", "metadata \"onnx.model_version\" = \"1.2\"")), StatusCode::kInvalidArgument,
              "'1.2'");
  // Models need a name; a producer is named unless the graph comes from a file.
  OnnxWriteOptions options;
  options.producer_name = "quern";
  options.producer_version = "1.0";
  const std::unique_ptr<Graph> again = Read(*WriteOnnx(*with("\"\": 17", ""), options));
  EXPECT_EQ(again->name, "graph");
  EXPECT_EQ(again->metadata.at("onnx.producer_name"), "quern");
  EXPECT_EQ(again->metadata.at("onnx.producer_version"), "1.0");
  EXPECT_EQ(Read(*WriteOnnx(*with("\"\": 17", "metadata \"onnx.ir_version\" = \"8\""), options))
                ->metadata.count("onnx.producer_name"),
            0u);
}

class OnnxWriterFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("quern_writer_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string In(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  // y = x + w + v, w of 1000 floats, v of one; w also where a branch reads it.
  static std::unique_ptr<Graph> Model(float first = 1) {
    auto graph = std::make_unique<Graph>();
    graph->name = "g";
    graph->opset_imports = {{"", 17}};
    GraphValue* x = graph->AddInput("x", ValueType::Tensor(DType::kF32, Dims{1000}));
    std::vector<float> values(1000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
    const Tensor w = Tensor::FromValues<float>(Shape{1000}, values);
    GraphValue* wide = graph->AddConstant("w", w);
    GraphValue* same = graph->AddConstant("same", w);
    GraphValue* odd = graph->AddConstant("odd", Tensor::FromValues<uint8_t>(Shape{3}, std::vector<uint8_t>{1, 2, 3}));
    GraphValue* wide2 = graph->AddConstant("w2", Tensor::FromValues<float>(Shape{1000}, values));
    Node* n = graph->AddNode({.op_type = "Sum", .inputs = {x, wide, same, wide2}, .outputs = {"y"}});
    n->output(0)->set_type(x->type());
    graph->AddOutput(n->output(0));
    graph->AddOutput(odd);
    return graph;
  }

  fs::path folder_;
};

TEST_F(OnnxWriterFile, ReplacesAsAWhole) {
  const std::string path = In("m.onnx");
  ASSERT_TRUE(WriteOnnxFile(*Model(), path).ok());
  EXPECT_THAT(Files(), ElementsAre("m.onnx"));
  const GraphResult old = ReadOnnxFile(path);
  ASSERT_TRUE(old.ok()) << old.status().message();
  // The model that is read from the file is written over it.
  ASSERT_TRUE(WriteOnnxFile(**old, path).ok());
  const GraphResult again = ReadOnnxFile(path);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(ComparableText(**again, kFull), ComparableText(**old, kFull));
  // What cannot be written leaves what was there, and nothing else.
  const std::unique_ptr<Graph> map =
      Parse("graph @g opset(\"\": 17) { const %m = map i64 {1: f32[] {1.0}} return %m }");
  const Status failed = WriteOnnxFile(*map, path);
  EXPECT_EQ(failed.code(), StatusCode::kUnsupported);
  EXPECT_THAT(failed.message(), HasSubstr(path));
  EXPECT_TRUE(ReadOnnxFile(path).ok());
  EXPECT_THAT(Files(), ElementsAre("m.onnx"));
  EXPECT_EQ(WriteOnnxFile(*Model(), In("no/m.onnx")).code(), StatusCode::kNotFound);
  EXPECT_EQ(WriteOnnxFile(*Model(), folder_.string()).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Files(), ElementsAre("m.onnx"));
}

TEST_F(OnnxWriterFile, ExternalData) {
  const std::string path = In("m.onnx");
  const OnnxWriteOptions options = {.external_data = true};
  const std::unique_ptr<Graph> graph = Model();
  ASSERT_TRUE(WriteOnnxFile(*graph, path, options).ok());
  EXPECT_THAT(Files(), ElementsAre("m.onnx", "m.onnx.data"));
  EXPECT_LT(fs::file_size(path), 1000u);
  // Tensors over the same memory are there once; each begins where a cache line does.
  EXPECT_EQ(fs::file_size(In("m.onnx.data")), 4032u + 4000u);
  const GraphResult read = ReadOnnxFile(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  (*read)->metadata.clear();
  EXPECT_EQ(ComparableText(**read, kFull), ComparableText(*graph, kFull));
  // Read from, and written over, both files.
  ASSERT_TRUE(WriteOnnxFile(**read, path, options).ok());
  EXPECT_TRUE(ReadOnnxFile(path).ok());
  EXPECT_THAT(Files(), ElementsAre("m.onnx", "m.onnx.data"));
  // Another name and another least size; small tensors stay inside.
  ASSERT_TRUE(
      WriteOnnxFile(*graph, In("n.onnx"), {.external_data = true, .external_bytes = 1, .external_name = "n.bin"}).ok());
  EXPECT_EQ(fs::file_size(In("n.bin")), 4032u + 64u + 4000u);
  ASSERT_TRUE(WriteOnnxFile(*graph, In("o.onnx"), {.external_data = true, .external_bytes = 1 << 20}).ok());
  EXPECT_THAT(Files(), ElementsAre("m.onnx", "m.onnx.data", "n.bin", "n.onnx", "o.onnx"));
  for (const char* name : {"", "../n.bin", "a/b", "..", "p.onnx"}) {
    const Status status = WriteOnnxFile(*graph, In("p.onnx"), {.external_data = true, .external_name = name});
    EXPECT_EQ(status.ok(), name[0] == '\0') << name;
  }
}

TEST_F(OnnxWriterFile, LargeTensorsBeginAtAPage) {
  Graph graph;
  graph.name = "g";
  const Result<Tensor> small = Tensor::Allocate(DType::kU8, Shape{2000}),
                       large = Tensor::Allocate(DType::kU8, Shape{1 << 20});
  ASSERT_TRUE(small.ok() && large.ok());
  std::memset(small->raw_data(), 1, small->bytes());
  std::memset(large->raw_data(), 2, large->bytes());
  graph.AddOutput(graph.AddConstant("a", *small));
  graph.AddOutput(graph.AddConstant("b", *large));
  ASSERT_TRUE(WriteOnnxFile(graph, In("m.onnx"), {.external_data = true}).ok());
  std::ifstream in(In("m.onnx.data"), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(bytes, std::string(2000, '\1') + std::string(2096, '\0') + std::string(1 << 20, '\2'));
}

// A source that shrinks while it is written is an error, and the old file stays.
TEST_F(OnnxWriterFile, SourcesThatShrink) {
  const std::string path = In("m.onnx"), to = In("n.onnx");
  ASSERT_TRUE(WriteOnnxFile(*Model(), path, {.external_data = true}).ok());
  ASSERT_TRUE(WriteOnnxFile(*Model(9), to).ok());
  const GraphResult graph = ReadOnnxFile(path);
  ASSERT_TRUE(graph.ok());
  fs::resize_file(In("m.onnx.data"), 10);
  EXPECT_EQ(WriteOnnxFile(**graph, to).code(), StatusCode::kCorrupt);
  EXPECT_FALSE(WriteOnnx(**graph).ok());
  const GraphResult kept = ReadOnnxFile(to);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ((*kept)->FindValue("w")->constant()->tensor().values<float>()[0], 9);
  EXPECT_THAT(Files(), ElementsAre("m.onnx", "m.onnx.data", "n.onnx"));
}

}  // namespace
}  // namespace quern
