// Which nodes of real models the CPU provider takes, and whether it computes what the reference provider does: models
// of QUERN_SHARED, where there are any.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>

#include "base/random_numbers.h"
#include "format/onnx/reader.h"
#include "parallel/thread_pool.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Result<std::unique_ptr<Session>> Open(const fs::path& folder, const char* provider) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".onnx") continue;
    QUERN_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, ReadOnnxFile(entry.path().string()));
    SessionOptions options;
    options.executor = std::make_shared<ThreadPool>();
    options.cpu = HostCpu();
    options.providers = {provider};
    return Session::Create(std::move(graph), std::move(options));
  }
  return NotFound("no .onnx below " + folder.string());
}

struct Claims {
  int all = 0, cpu = 0;
  std::map<std::string, int> left;  // operator and reason
};
void Count(const Json& doc, Claims& claims) {
  for (const Json& node : doc["partition"]["nodes"]) {
    ++claims.all;
    if (node["provider"] == "cpu") {
      ++claims.cpu;
      continue;
    }
    std::string why = node["op"].get<std::string>();
    for (const Json& r : node["rejections"]) why += ": " + r["reason"].get<std::string>();
    ++claims.left[why];
  }
  if (!doc.contains("subgraphs")) return;
  for (const Json& sub : doc["subgraphs"]) Count(sub, claims);
}

// Models whose every operator has a CPU kernel, but for those named.
struct Expectation {
  const char* model;
  double share;  // of nodes, subgraphs included, that the CPU provider must take
};
constexpr Expectation kModels[] = {
    {"mnist_8", 1},
    {"mnist_burn", 1},
    {"mnist_mlir", 1},
    {"super_resolution_10", 1},
    {"nhwc_conv_clip_relu", 1},
    {"residual_block", 1},
    {"mobilenet_v2_0.35_128", 1},
    {"mobilenet_v2_128_0.5", 1},
    {"ultraface_rfb_320", 1},
    {"yunet_n_320", 1},
    {"yunet_n_dynamic", 1},
    {"oww_alexa", 1},
    {"oww_embedding", 1},
    {"ha_hey_nabu_v2", 1},
    {"micro_kws_fp32", 1},
    {"micro_kws_qdq", 1},
    {"micro_kws_qoperator", 1},
    {"tiny_gpt2_past", 1},
    {"silero_vad_v6", 0.9},  // all but the If nodes
    {"dtln_1", 1},
    {"go1_policy", 1},
    {"ppocr_cls", 1},
    {"fastestdet", 1},
    {"yolox_nano", 1},
};

TEST(CpuClaims, RealModelsRunOnTheCpuProvider) {
  const char* shared = std::getenv("QUERN_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "QUERN_SHARED is not set: no models";
  for (const Expectation& e : kModels) {
    SCOPED_TRACE(e.model);
    const Result<std::unique_ptr<Session>> session = Open(fs::path(shared) / "models" / e.model, "cpu");
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) continue;
    const Result<std::string> facts = (*session)->Facts("partition");
    ASSERT_TRUE(facts.ok()) << facts.status().message();
    Claims claims;
    Count(Json::parse(*facts), claims);
    std::string left;
    for (const auto& [why, count] : claims.left) left += "\n  " + std::to_string(count) + " x " + why;
    EXPECT_GE(claims.cpu, e.share * claims.all) << claims.cpu << " of " << claims.all << " nodes; left:" << left;
    if (!left.empty()) std::cout << e.model << " leaves to the reference:" << left << "\n";
  }
}

// Quantized weights are packed at load also where nodes of another provider come before their reader, or in between.
TEST(CpuClaims, DequantizedWeightsAreKnownInEveryCluster) {
  const auto make = [] {
    GraphMaker g;
    const auto bytes = [&](const char* name, const Shape& shape) {
      Tensor t = Tensor::Allocate(DType::kI8, shape).value();
      for (int64_t i = 0; i < t.num_elements(); ++i) t.data<int8_t>()[i] = static_cast<int8_t>(i * 37 % 256 - 128);
      return g.Const(name, t);
    };
    GraphValue *scale = g.Const("scale", Tensor::Scalar(0.01f)), *zero = g.Const("zero", Tensor::Scalar(int8_t{3}));
    GraphValue* weights = g.Op("DequantizeLinear", {bytes("w", Shape{2, 2, 3, 3}), scale}, "weights");
    GraphValue* x = g.In("x", DType::kF32, {1, 2, 5, 5});
    const std::map<std::string, Attribute, std::less<>> same = {{"auto_pad", std::string("SAME_UPPER")}};
    for (const std::string n : {"1", "2"}) {
      x = g.Op("ImageScaler", {x}, "scaled" + n);  // the CPU provider has none
      x = g.Op("QuantizeLinear", {x, scale, zero}, "q" + n);
      x = g.Op("DequantizeLinear", {x, scale, zero}, "d" + n);
      x = g.Op("Conv", {x, weights}, "conv" + n, same);
    }
    return g.Finish({x});
  };
  SessionOptions options;
  options.providers = {"reference"};
  const std::unique_ptr<Session> cpu = MakeSession(make()), reference = MakeSession(make(), options);
  ASSERT_TRUE(cpu && reference);
  Claims claims;
  Count(Json::parse(cpu->Facts("partition").value()), claims);
  EXPECT_EQ(claims.left.size(), 1u);
  EXPECT_EQ(claims.all - claims.cpu, 2) << "ImageScaler alone";
  std::vector<Value> in = {DrawFloats(Shape{1, 2, 5, 5}, 1)}, actual(1), expected(1);
  ASSERT_TRUE(cpu->Run(in, actual).ok());
  ASSERT_TRUE(reference->Run(in, expected).ok());
  const auto values = expected[0].tensor().Contiguous().value();
  ExpectNear(actual[0], {values.values<float>().begin(), values.values<float>().end()}, 0.02);
}

// Dequantized weights count as constants, whatever packs them.
TEST(CpuClaims, DequantizedWeightsOfTransposedConvolutions) {
  const auto make = [] {
    GraphMaker g;
    const auto dequantized = [&](const std::string& name, DType type, const Shape& shape) {
      Tensor t = Tensor::Allocate(type, shape).value();
      for (size_t i = 0; i < t.bytes(); ++i) static_cast<uint8_t*>(t.raw_data())[i] = i % 4 ? 0 : uint8_t(i * 37);
      return g.Op("DequantizeLinear", {g.Const(name, t), g.Const(name + "_scale", Tensor::Scalar(0.01f))}, name + "_d");
    };
    GraphValue* w = dequantized("w", DType::kI8, Shape{2, 3, 4});
    GraphValue* y =
        g.Op("ConvTranspose", {g.In("x", DType::kF32, {1, 2, 5}), w, dequantized("b", DType::kI32, Shape{3})}, "y",
             {{"strides", std::vector<int64_t>{2}}});
    return g.Finish({y});
  };
  SessionOptions options;
  options.providers = {"reference"};
  const std::unique_ptr<Session> cpu = MakeSession(make()), reference = MakeSession(make(), options);
  ASSERT_TRUE(cpu && reference);
  Claims claims;
  Count(Json::parse(cpu->Facts("partition").value()), claims);
  EXPECT_EQ(claims.cpu, claims.all);
  std::vector<Value> in = {DrawFloats(Shape{1, 2, 5}, 1)}, actual(1), expected(1);
  ASSERT_TRUE(cpu->Run(in, actual).ok());
  ASSERT_TRUE(reference->Run(in, expected).ok());
  const auto values = expected[0].tensor().Contiguous().value();
  ExpectNear(actual[0], {values.values<float>().begin(), values.values<float>().end()}, 1e-5);
}

// Extents that come with a run are known to no plan, whatever they are joined with.
TEST(CpuClaims, TakesShapesThatARunComputes) {
  for (const bool computed : {false, true}) {
    const auto make = [&] {
      GraphMaker g;
      GraphValue* size = g.In("size", DType::kI64, {1});
      if (computed) size = g.Op("ReduceMax", {size}, "largest", {{"axes", std::vector<int64_t>{0}}});
      const std::vector<int64_t> two = {2};
      GraphValue* shape = g.Op("Concat", {size, g.Const("two", Tensor::FromValues<int64_t>(Shape{1}, two))}, "shape",
                               {{"axis", int64_t{0}}});
      GraphValue* one = g.Const("one", Tensor::FromValues<float>(Shape{1}, std::vector<float>{1}));
      return g.Finish({g.Op("Neg", {g.Op("Expand", {one, shape}, "expanded")}, "y")});
    };
    const std::unique_ptr<Session> session = MakeSession(make());
    ASSERT_TRUE(session);
    Claims claims;
    Count(Json::parse(session->Facts("partition").value()), claims);
    const bool left = std::any_of(claims.left.begin(), claims.left.end(),
                                  [](const auto& entry) { return entry.first.starts_with("Expand"); });
    EXPECT_FALSE(left);
    for (const int64_t n : {3, 1}) {
      std::vector<Value> in = {Tensor::FromValues<int64_t>(Shape{1}, std::vector<int64_t>{n})}, out(1);
      const Status status = session->Run(in, out);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(out[0].tensor().shape(), (Shape{n, 2}));
    }
  }
}

// Random input of a declared type; symbolic extents are 1.
Value DrawInput(const ValueType& type, std::mt19937& random) {
  Shape shape;
  for (const Dim& d : *type.shape) shape.push_back(d.is_constant() ? d.value() : 1);
  Tensor t = Tensor::Allocate(type.dtype, shape).value();
  std::memset(t.raw_data(), 0, t.bytes());
  NormalNumbers<float> normal;
  if (type.dtype == DType::kF32) {
    for (float& v : t.values<float>()) v = normal(random);
  }
  return t;
}

TEST(CpuClaims, SmallModelsComputeWhatTheReferenceDoes) {
  const char* shared = std::getenv("QUERN_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "QUERN_SHARED is not set: no models";
  for (const char* model :
       {"mnist_8", "mnist_burn", "mnist_mlir", "nhwc_conv_clip_relu", "oww_alexa", "oww_embedding", "ha_hey_nabu_v2",
        "micro_kws_fp32", "micro_kws_qdq", "dtln_1", "go1_policy", "fastestdet"}) {
    SCOPED_TRACE(model);
    const fs::path folder = fs::path(shared) / "models" / model;
    const Result<std::unique_ptr<Session>> cpu = Open(folder, "cpu"), reference = Open(folder, "reference");
    EXPECT_TRUE(cpu.ok()) << cpu.status().message();
    EXPECT_TRUE(reference.ok()) << reference.status().message();
    if (!cpu.ok() || !reference.ok()) continue;
    std::mt19937 random(5);
    std::vector<Value> inputs;
    for (const Port& port : (*cpu)->inputs()) inputs.push_back(DrawInput(port.type, random));
    std::vector<Value> actual((*cpu)->outputs().size()), expected(actual.size());
    const Status run = (*cpu)->Run(inputs, actual);
    EXPECT_TRUE(run.ok()) << run.message();
    const Status wanted = (*reference)->Run(inputs, expected);
    EXPECT_TRUE(wanted.ok()) << wanted.message();
    if (!run.ok() || !wanted.ok()) continue;
    for (size_t i = 0; i < actual.size(); ++i) {
      const Tensor a = actual[i].tensor().Contiguous().value(), e = expected[i].tensor().Contiguous().value();
      ASSERT_EQ(a.shape().ToString(), e.shape().ToString());
      if (e.dtype() != DType::kF32) continue;
      float largest = 0, off = 0;
      for (int64_t k = 0; k < e.num_elements(); ++k) {
        largest = std::max(largest, std::fabs(e.data<float>()[k]));
        off = std::max(off, std::fabs(a.data<float>()[k] - e.data<float>()[k]));
        EXPECT_FALSE(std::isnan(a.data<float>()[k]));
      }
      EXPECT_LE(off, 1e-4 * largest) << "output " << i;
    }
  }
}

}  // namespace
}  // namespace quern
