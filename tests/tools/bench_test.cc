// quern bench and quern-perf-test: arguments, what is printed, JSON. No test depends on a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "command_run.h"
#include "npy.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class Bench : public Command {
 protected:
  Json Document(const std::string& arguments) {
    const Ended e = Quern("bench " + Model() + " --json " + arguments);
    EXPECT_EQ(e.status, 0) << e.err;
    return Json::parse(e.out, nullptr, false);
  }
  // The lines "NAME: number..." of quern-perf-test.
  static double Line(const std::string& out, const std::string& name) {
    const std::size_t at = out.find(name + ": ");
    EXPECT_NE(at, std::string::npos) << name << " in " << out;
    return at == std::string::npos ? -1 : std::strtod(out.c_str() + at + name.size() + 2, nullptr);
  }
};

TEST_F(Bench, ReportsEachNumberOfThreads) {
  const Json doc = Document("--threads 1,2 --runs 5 --warmup 3");
  EXPECT_EQ(doc["version"], 1);
  EXPECT_EQ(doc["kind"], "bench");
  EXPECT_EQ(doc["inputs"], Json::array({"image f32[1,1,8,8]"}));
  EXPECT_EQ(doc["warmup"], 3);
  ASSERT_EQ(doc["cases"].size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const Json& c = doc["cases"][i];
    EXPECT_EQ(c["threads"], i + 1);
    EXPECT_EQ(c["runs"], 5);
    double last = 0;
    for (const char* at : {"min", "p50", "p90", "p95", "p99", "p999", "max"}) {
      EXPECT_GE(c["latency_seconds"][at], last) << at;
      last = c["latency_seconds"][at];
    }
    EXPECT_GE(c["latency_seconds"]["mean"], c["latency_seconds"]["min"]);
    EXPECT_LE(c["latency_seconds"]["mean"], last);
    EXPECT_NEAR(c["runs_per_second"].get<double>() * c["wall_seconds"].get<double>(), 5, 1e-9);
    for (const char* field : {"load_seconds", "first_run_seconds", "cpu_use"}) EXPECT_GE(c[field], 0) << field;
    EXPECT_GE(c["peak_memory_bytes"], c["added_memory_bytes"]);
    EXPECT_FALSE(c.contains("nodes"));
    if (c.contains("allocations_per_run")) {
      EXPECT_EQ(c["allocations_per_run"], 0);
    }
  }
}

// One set of inputs for each extent: a run of the fourth is one of the first again.
TEST_F(Bench, VariesAnExtent) {
  const std::string dims = Field(1, Field(2, "rows"));
  const auto port = [&](const std::string& name) {
    return Field(1, name) + Field(2, Field(1, Field(1, 1) + Field(2, dims)));
  };
  const std::string node = Field(1, "x") + Field(2, "y") + Field(4, "Relu");
  Spill(In("m.onnx"), Field(1, 8) + Field(8, Field(1, "") + Field(2, 19)) +
                          Field(7, Field(1, node) + Field(2, "g") + Field(11, port("x")) + Field(12, port("y"))));
  const auto run = [&](const std::string& vary) { return Quern("bench " + In("m.onnx") + " --json --runs 4 " + vary); };
  const Ended e = run("--vary rows=5..7");
  ASSERT_EQ(e.status, 0) << e.err;
  const Json doc = Json::parse(e.out);
  EXPECT_EQ(doc["inputs"], Json::array({"x f32[5]"}));
  EXPECT_EQ(doc["cases"][0]["runs"], 4);
  for (const char* wrong : {"rows", "rows=5", "rows=7..5", "rows=a..b", "=1..2", "cols=1..2", "rows=0..9999999"}) {
    EXPECT_EQ(run("--vary " + std::string(wrong)).status, 2) << wrong;
  }
  EXPECT_THAT(run("--vary rows=1..2 --vary x=1..3").err, HasSubstr("different numbers"));
}

TEST_F(Bench, PrintsATable) {
  const Ended e = Quern("bench " + Model() + " --threads 1 --runs 4 --concurrency 2");
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.out, AllOf(HasSubstr("image f32[1,1,8,8]"), HasSubstr("p999"), HasSubstr("runs/s"),
                           testing::ContainsRegex(" 1 +2 +[0-9]")));
}

// Each string that a run gives is an allocation at least, which the count must see where there is one.
TEST_F(Bench, CountsAllocations) {
  const std::string dim = Field(1, Field(1, 4));
  const auto type = [&](int dtype) { return Field(1, Field(1, dtype) + Field(2, dim)); };
  const std::string node = Field(1, "x") + Field(2, "y") + Field(3, "cast") + Field(4, "Cast") +
                           Field(5, Field(1, "to") + Field(3, 8) + std::string("\xa0\x01\x02", 3));
  const std::string graph = Field(1, node) + Field(2, "g") + Field(11, Field(1, "x") + Field(2, type(1))) +
                            Field(12, Field(1, "y") + Field(2, type(8)));
  Spill(In("m.onnx"), Field(1, 8) + Field(8, Field(1, "") + Field(2, 19)) + Field(7, graph));
  const Ended e = Quern("bench " + In("m.onnx") + " --json --runs 3");
  ASSERT_EQ(e.status, 0) << e.err;
  const Json c = Json::parse(e.out)["cases"][0];
  if (c.contains("allocations_per_run")) {
    EXPECT_GE(c["allocations_per_run"], 1);
  }
}

TEST_F(Bench, BatchesReplaceAnOpenFirstDimension) {
  const Json doc = Document("--batch 5 --runs 2 --threads 1");
  EXPECT_EQ(doc["inputs"], Json::array({"image f32[5,1,8,8]"}));
  EXPECT_EQ(doc["batch"], 5);
  const Json& c = doc["cases"][0];
  EXPECT_NEAR(c["elements_per_second"].get<double>(), 5 * c["runs_per_second"].get<double>(), 1e-6);
  Spill(In("fixed.onnx"), OneNodeModel("Neg", 1));
  Ended e = Quern("bench " + In("fixed.onnx") + " --batch 5 --runs 1");
  EXPECT_EQ(e.status, 2);
  EXPECT_THAT(e.err, AllOf(HasSubstr("--batch 5"), HasSubstr("'x' (f32[2])"), HasSubstr("fixed at 2")));
  e = Quern("bench " + Model() + " --batch 5 --runs 1 --input " QUERN_TEST_MODELS "/heldout_images.npy");
  EXPECT_EQ(e.status, 2);
  EXPECT_THAT(e.err, AllOf(HasSubstr("--batch 5"), HasSubstr("'image'"), HasSubstr("f32[360,1,8,8]")));
  EXPECT_EQ(Quern("bench " + Model() + " --batch 5 --shape batch=4 --runs 1").status, 2);
}

TEST_F(Bench, BatchesOfUnnamedDimensions) {
  Spill(In("graph"), R"(graph @g opset("": 17) {
    input %a: f32[?,3]
    input %b: f32[?,3]
    input %c: f32[m,3]
    %s = Add(%a, %b)
    %t = Neg(%c)
    return %s, %t
  })");
  const Ended e = Quern("bench " + In("graph") + " --batch 4 --runs 1 --json");
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(Json::parse(e.out)["inputs"], Json::array({"a f32[4,3]", "b f32[4,3]", "c f32[1,3]"}));
}

TEST_F(Bench, RefusesWhatMakesNoSense) {
  const std::string bench = "bench " + Model() + " ";
  EXPECT_EQ(Quern("bench").status, 2);
  for (const char* wrong :
       {"--threads 0,x", "--threads -1", "--runs -1", "--runs 2 --seconds 1", "--concurrency 0", "--warmup -1",
        "--seconds -1", "--seconds nan", "--batch -2", "--sort size", "--runs many"}) {
    EXPECT_EQ(Quern(bench + wrong).status, 2) << wrong;
  }
  Ended e = Quern(bench + "--per-node --concurrency 2");
  EXPECT_EQ(e.status, 2);
  EXPECT_THAT(e.err, HasSubstr("one client"));
  e = Quern("bench " + In("missing.onnx"));
  EXPECT_EQ(e.status, 1);
  EXPECT_THAT(e.err, HasSubstr("missing.onnx"));
  EXPECT_EQ(Quern(bench + "--input picture=x.npy").status, 2);
}

TEST_F(Bench, PerNodeCoversEveryNodeThatRuns) {
  const Json doc = Document("--per-node --sort order --runs 20 --threads 1");
  EXPECT_FALSE(doc["peaks"].empty());
  const Json& c = doc["cases"][0];
  const Json plan = Json::parse(Quern("inspect " + Model() + " --stage plan --json").out);
  const Json& steps = plan["plan"]["steps"][0]["steps"];
  ASSERT_EQ(c["nodes"].size(), steps.size()) << "as many as the plan has steps";
  double share = 0, seconds = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Json& n = c["nodes"][i];
    EXPECT_EQ(n["kernel"], steps[i]["kernel"]) << i;
    EXPECT_EQ(n["runs"], 1) << n;
    EXPECT_GT(n["bytes"], 0) << n;
    EXPECT_NE(n["limit"], "") << n;
    const std::string op = n["op"];
    const bool product = op.find("Conv") != std::string::npos || op.find("MatMul") != std::string::npos;
    EXPECT_EQ(n["operations"].get<double>() > 0, product) << n;
    share += n["share"].get<double>();
    seconds += n["seconds"].get<double>();
  }
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_NEAR(c["nodes_share"].get<double>(), seconds / c["latency_seconds"]["mean"].get<double>(), 1e-9);
  EXPECT_LE(c["nodes_share"], 1) << "the nodes lie within the runs";
}

TEST_F(Bench, PerNodeSaysWhichNodesMetDenormals) {
  Spill(In("graph"), R"(graph @g opset("": 17) {
    input %x: f32[8]
    const %three = f32[] {3}
    %y = Div(%x, %three)
    return %y
  })");
  quern_tool::WriteNpy(In("x.npy"), quern::Value::Tensor<float>({8}, std::vector<float>(8, 0x1p-126f)));
  const std::string bench = "bench " + In("graph") + " --input x=" + In("x.npy") + " --runs 5 --threads 1 --per-node ";
  Ended e = Quern(bench);
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.out, AllOf(HasSubstr(" (d)"), HasSubstr("met denormal numbers"), HasSubstr("--flush-denormals")));
  e = Quern(bench + "--json");
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(Json::parse(e.out)["cases"][0]["nodes"][0]["denormal_runs"], 1);
  e = Quern(bench + "--flush-denormals");
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.out, Not(HasSubstr("denormal")));
}

TEST_F(Bench, PerNodePrintsTheSlowestFirst) {
  const Ended e = Quern("bench " + Model() + " --per-node --top 2 --runs 20 --threads 1");
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.out, AllOf(HasSubstr("micro-kernel"), HasSubstr("reached"), HasSubstr("limits are those of one core"),
                           testing::ContainsRegex("\\.\\.\\. and [0-9]+ more nodes")));
}

TEST_F(Bench, PerfTestTakesTheOptionsOfItsModel) {
  MakeFolder("digits", 0);
  const std::string model = In("digits/model.onnx");
  Ended e = PerfTest("-m times -r 5 -c 2 -x 1 -e cpu -o 99 " + model + " " + In("results.csv"));
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(Line(e.out, "Total inference requests"), 10);
  for (const char* name : {"Session creation time cost", "First inference time cost", "Total inference time cost",
                           "Average inference time cost", "Total inference run time", "Number of inferences per second",
                           "Avg CPU usage", "Peak working set size"}) {
    EXPECT_GE(Line(e.out, name), 0);
  }
  EXPECT_THAT(e.out, Not(HasSubstr("P50 Latency")));
  std::istringstream rows(Slurp(In("results.csv")));
  int count = 0;
  for (std::string row; std::getline(rows, row); ++count) {
    EXPECT_EQ(std::count(row.begin(), row.end(), ','), 4) << row;
    EXPECT_EQ(row.rfind("digits,", 0), 0u) << row;
    EXPECT_EQ(row.substr(row.rfind(',') + 1), std::to_string(count)) << row;
  }
  EXPECT_EQ(count, 10);
  // A further call appends; options in the forms that getopt takes.
  e = PerfTest("-mtimes -r3 -Is -y 2 -o 1 " + model + " " + In("results.csv"));
  ASSERT_EQ(e.status, 0) << e.err;
  const std::string results = Slurp(In("results.csv"));
  EXPECT_EQ(std::count(results.begin(), results.end(), '\n'), 13);
  for (const char* name :
       {"Min Latency", "Max Latency", "P50 Latency", "P90 Latency", "P95 Latency", "P99 Latency", "P999 Latency"}) {
    EXPECT_GT(Line(e.out, name), 0);
  }
  EXPECT_THAT(e.err, AllOf(HasSubstr("-y has no effect"), HasSubstr("-o 1 runs all graph passes")));
  e = PerfTest("-t 0.05 -I " + model);
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_GE(Line(e.out, "Total inference run time"), 0.05);
}

// At level 0, where a product of constants is left to the runs.
TEST_F(Bench, PerfTestWritesTheProfile) {
  Spill(In("graph"), R"(graph @g opset("": 17) {
    input %x: f32[rows,2]
    const %a = f32[2] {1, 2}
    %b = Mul(%a, %a)
    %y = Add(%x, %b)
    return %y
  })");
  EXPECT_THAT(Quern("inspect --stage neutral --no-text " + In("graph")).out, Not(HasSubstr("Mul\n")));
  const Ended e = PerfTest("-m times -r 4 -I -o 0 -f rows:3 -v -p " + In("nodes.json") + " " + In("graph"));
  ASSERT_EQ(e.status, 0) << e.err;
  EXPECT_THAT(e.err, AllOf(HasSubstr("-o 0 leaves out all passes but"), HasSubstr("compiled '")));
  const Json doc = Json::parse(Slurp(In("nodes.json")));
  EXPECT_EQ(doc["kind"], "bench");
  EXPECT_EQ(doc["inputs"], Json::array({"x f32[3,2]"}));
  EXPECT_EQ(doc["cases"][0]["runs"], 4);
  std::set<std::string> operators;
  for (const Json& node : doc["cases"][0]["nodes"]) operators.insert(node["op"].get<std::string>());
  EXPECT_EQ(operators, (std::set<std::string>{"Add", "Mul"}));
}

TEST_F(Bench, PerfTestSaysWhatIsWrong) {
  Ended e = PerfTest("-q 3 " + Model());
  EXPECT_EQ(e.status, 2);
  EXPECT_THAT(e.err, AllOf(HasSubstr("-z"), HasSubstr("known are"), HasSubstr("-m -t -r -c -x -y -e -o -p -f -s -I")));
  e = PerfTest("-e cuda -I " + Model());
  EXPECT_EQ(e.status, 2);
  EXPECT_THAT(e.err, AllOf(HasSubstr("-e cuda"), HasSubstr("-e cpu")));
  e = PerfTest("-m times -r 1 " + Model());
  EXPECT_EQ(e.status, 1) << "no data set beside this model";
  EXPECT_THAT(e.err, AllOf(HasSubstr("test_data_set_0"), HasSubstr("-I")));
  for (const char* wrong : {"-m forever -I", "-o 7 -I", "-r 0 -m times -I", "-c 0 -I", "-t 0 -I", "-x -1 -I",
                            "-f batch -I", "-f batch:x -I", "-f :3 -I", "-m times -r 1 -I -f size:3"}) {
    EXPECT_EQ(PerfTest(wrong + std::string(" ") + Model()).status, 2) << wrong;
  }
  EXPECT_EQ(PerfTest("-I").status, 2);
  EXPECT_EQ(PerfTest("-m times -r 1 -I " + Model() + " " + In("no/results.csv")).status, 1);
  e = PerfTest("--help");
  EXPECT_EQ(e.status, 0);
  EXPECT_THAT(e.out, AllOf(HasSubstr("onnxruntime_perf_test"), HasSubstr("Examples:")));
}

}  // namespace
