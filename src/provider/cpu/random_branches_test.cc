// Branches that run side by side: on random networks the bits of a run of one node after another, on threads and on an
// executor that orders tasks at random; and whose error is reported.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "parallel/thread_pool.h"
#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

constexpr int64_t kChannels = 16;
constexpr int64_t kSteps = 5;  // of a branch

// Lines of a graph over %x of [n, 16, h, w] that ends in %y: forks into branches of small nodes, joined again.
class RandomForks {
 public:
  std::string Lines() {
    lines_ = "  input %x: f32[n," + std::to_string(kChannels) + ",h,w]\n";
    std::string last = Node("Relu(%x)");
    for (int64_t i = Draw(1, 3); i > 0; --i) last = Module(last);
    lines_ += "  %y = Neg(" + last + ")\n  return %y\n";
    return lines_;
  }

 private:
  std::string Node(const std::string& call) {
    const std::string name = "%v" + std::to_string(count_++);
    lines_ += "  " + name + " = " + call + "\n";
    return name;
  }
  std::string Conv(const std::string& from, int64_t in, int64_t out, int64_t side) {
    const std::string name = "%w" + std::to_string(count_++);
    lines_ += "  const " + name + " = f32" + Shape{out, in, side, side}.ToString() + " {";
    for (int64_t i = 0; i < out * in * side * side; ++i) {
      lines_ += (i ? ", " : "") + std::to_string(static_cast<double>(Draw(-8, 8)) / 64);
    }
    lines_ += "}\n";
    return Node("Conv(" + from + ", " + name + ")" + (side == 3 ? " {pads = [1, 1, 1, 1]}" : ""));
  }
  // Elementwise chains, whose results take their operands' memory; pools; convolutions.
  std::string Step(const std::string& from) {
    switch (Draw(0, 7)) {
      case 0:
      case 6:
      case 7:
        return Conv(from, kChannels, kChannels, 3);
      case 1:
        return Conv(from, kChannels, kChannels, 1);
      case 2:
        return Node("MaxPool(" + from + ") {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}");
      case 3:
        return Node("Softmax(" + from + ") {axis = -1}");
      case 4: {
        const std::string turned = Node("Transpose(" + from + ") {perm = [0, 1, 3, 2]}");
        return Node("Transpose(" + Node("Erf(" + turned + ")") + ") {perm = [0, 1, 3, 2]}");
      }
      default:
        return Node(std::string(Pick({"Sin", "Erf", "Tanh", "Sigmoid"})) + "(" + from + ")");
    }
  }
  std::string Module(const std::string& from) {
    std::vector<std::string> ends(static_cast<size_t>(Draw(2, 4)), from);
    // The branches' nodes in turn, or one branch after another.
    const bool in_turn = Draw(0, 1) != 0;
    for (int64_t i = 0; i < kSteps; ++i) {
      for (size_t b = 0; b < ends.size(); ++b) {
        for (int64_t more = in_turn ? 1 : kSteps; more > 0 && (in_turn || i == 0); --more) ends[b] = Step(ends[b]);
      }
    }
    if (Draw(0, 1) != 0) {
      std::string sum = ends[0];
      for (size_t b = 1; b < ends.size(); ++b) sum = Node("Add(" + sum + ", " + ends[b] + ")");
      return sum;
    }
    std::string list = ends[0];
    for (size_t b = 1; b < ends.size(); ++b) list += ", " + ends[b];
    return Conv(Node("Concat(" + list + ") {axis = 1}"), kChannels * static_cast<int64_t>(ends.size()), kChannels, 1);
  }

  std::string lines_;
  int count_ = 0;
};

struct Planned {
  std::unique_ptr<CpuExecutable> executable;
  std::unique_ptr<CpuPlan> plan;
};

Result<Planned> PlanGraph(const Graph& graph, bool serial, const quern_tensor_view& in) {
  CpuConfig config = Config(true);  // of one nominal speed wherever this runs
  config.serial_branches = serial;
  InlineExecutor executor;
  Planned p;
  QUERN_ASSIGN_OR_RETURN(p.executable, CpuExecutable::Compile(graph, config, executor));
  QUERN_ASSIGN_OR_RETURN(p.plan, PlanFor(*p.executable, in, 2));
  return p;
}

Result<Tensor> RunPlan(const CpuPlan& plan, const Tensor& x, Executor& executor, const CancelToken* cancel = nullptr) {
  QUERN_ASSIGN_OR_RETURN(Tensor y, Tensor::Allocate(DType::kF32, x.shape()));
  QUERN_ASSIGN_OR_RETURN(AlignedBuffer workspace, AlignedBuffer::Allocate(plan.workspace_bytes()));
  std::memset(workspace.data(), 0xff, workspace.size_bytes());  // NaN
  quern_executor handle;
  handle.executor = &executor;
  handle.cancel = cancel;
  const quern_tensor_view in = ViewOf(x);
  quern_tensor_view out = ViewOf(y);
  quern_run_args run{};
  run.num_inputs = run.num_outputs = 1;
  run.inputs = &in;
  run.outputs = &out;
  run.workspace = workspace.data();
  run.executor = &handle;
  QUERN_RETURN_IF_ERROR(plan.Run(run));
  return y;
}

std::unique_ptr<Graph> GraphOf(const std::string& lines) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph("graph opset(\"\": 17) {\n" + lines + "}\n");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return nullptr;
  const Status inferred = InferShapes(**graph);
  EXPECT_TRUE(inferred.ok()) << inferred.message();
  return std::move(graph).value();
}

TEST_F(CpuOps, BranchesSideBySideHaveTheBitsOfOneAfterAnother) {
  ThreadPool pool(ThreadPoolOptions{.threads = 2});
  HostileExecutor hostile(3, 2);
  InlineExecutor one;
  const auto enough = static_cast<size_t>(kRounds);
  size_t groups = 0;
  // More networks where the seed draws few branches.
  for (int i = 0; i < 2 * kRounds || (groups <= enough && i < 8 * kRounds); ++i) {
    const std::unique_ptr<Graph> graph = GraphOf(RandomForks().Lines());
    ASSERT_TRUE(graph);
    const Shape largest{Draw(1, 2), kChannels, Draw(5, 9), Draw(5, 9)};
    const Tensor planned = DrawTensor(DType::kF32, largest);
    const Result<Planned> serial = PlanGraph(*graph, true, ViewOf(planned));
    const Result<Planned> beside = PlanGraph(*graph, false, ViewOf(planned));
    ASSERT_TRUE(serial.ok() && beside.ok()) << serial.status().message() << beside.status().message();
    EXPECT_TRUE(serial->plan->side_by_side().empty());
    groups += beside->plan->side_by_side().size();
    for (const bool smaller : {false, true}) {
      Shape shape = largest;
      for (int d : {0, 2, 3}) shape[d] = smaller ? Draw(1, largest[d]) : largest[d];
      const Tensor x = DrawTensor(DType::kF32, shape);
      const Result<Tensor> expected = RunPlan(*serial->plan, x, one);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      for (Executor* executor : {static_cast<Executor*>(&pool), static_cast<Executor*>(&hostile),
                                 static_cast<Executor*>(&one), static_cast<Executor*>(&hostile)}) {
        const Result<Tensor> actual = RunPlan(*beside->plan, x, *executor);
        ASSERT_TRUE(actual.ok()) << actual.status().message();
        ASSERT_EQ(std::memcmp(actual->raw_data(), expected->raw_data(), actual->bytes()), 0) << "network " << i;
      }
    }
  }
  EXPECT_GT(groups, enough) << "hardly any branches were found";
}

// Two branches of which both fail: %b1 in the second step of the first one, %c1 in the first step of the second.
TEST_F(CpuOps, OfBranchesThatFailTheEarliestNodeIsNamed) {
  std::string lines = "  input %x: f32[64,512]\n  input %i: i64[1]\n";
  for (const std::string branch : {"b", "c"}) {
    const std::string first = branch == "b" ? "%b0" : "%x";
    if (branch == "b") lines += "  %b0 = Erf(%x)\n";
    lines += "  %" + branch + "1 = Gather(" + first + ", %i) {axis = 0}\n  %" + branch + "2 = Expand(%" + branch +
             "1, %size)\n";
    std::string last = "%" + branch + "2";
    for (int k = 3; k < 8; ++k) {
      const std::string name = "%" + branch + std::to_string(k);
      lines += "  " + name + " = Tan(" + last + ")\n";
      last = name;
    }
  }
  lines = "  const %size = i64[2] {64, 512}\n" + lines + "  %y0 = Add(%b7, %c7)\n  %y = Neg(%y0)\n  return %y\n";
  const std::unique_ptr<Graph> graph = GraphOf(lines);
  ASSERT_TRUE(graph);
  InlineExecutor one;
  const Result<std::unique_ptr<CpuExecutable>> exe = CpuExecutable::Compile(*graph, Config(false), one);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  const Tensor x = DrawTensor(DType::kF32, Shape{64, 512});
  Tensor index = Ints({3});
  const quern_tensor_view in[] = {ViewOf(x), ViewOf(index)};
  quern_tensor_view out{};
  out.rank = -1;
  quern_plan_args args{};
  args.num_inputs = 2;
  args.inputs = in;
  args.num_outputs = 1;
  args.outputs = &out;
  args.concurrency = 2;
  const Result<std::unique_ptr<CpuPlan>> plan = CpuPlan::Build(**exe, args);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ((*plan)->side_by_side().size(), 1u);
  AlignedBuffer workspace = AlignedBuffer::Allocate((*plan)->workspace_bytes()).value();
  const Tensor y = Tensor::Allocate(DType::kF32, Shape{64, 512}).value();
  out = ViewOf(y);
  ThreadPool pool(ThreadPoolOptions{.threads = 2});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    HostileExecutor hostile(seed, 2);
    quern_executor handle;
    handle.executor = seed % 2 == 0 ? static_cast<Executor*>(&hostile) : &pool;
    quern_run_args run{};
    run.num_inputs = 2;
    run.inputs = in;
    run.num_outputs = 1;
    run.outputs = &out;
    run.workspace = workspace.data();
    run.executor = &handle;
    index.data<int64_t>()[0] = 3;
    const Status good = (*plan)->Run(run);
    EXPECT_TRUE(good.ok()) << good.message();
    index.data<int64_t>()[0] = 64;
    const Status bad = (*plan)->Run(run);
    ASSERT_FALSE(bad.ok());
    EXPECT_NE(bad.message().find("b1"), std::string::npos) << bad.message();
    EXPECT_EQ(bad.message().find("c1"), std::string::npos) << bad.message();
    CancelToken cancel;
    cancel.Cancel();
    handle.cancel = &cancel;
    index.data<int64_t>()[0] = 3;
    EXPECT_EQ((*plan)->Run(run).code(), StatusCode::kCancelled);
  }
}

}  // namespace
}  // namespace quern::cpu
