// Values that are parts of others: concatenations whose inputs are computed in place, splits whose parts are views, on
// random networks, for the planned shapes and smaller ones; and that nothing is copied where nothing needs to be.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

// The line of a constant of random weights, small numbers.
std::string Weights(const std::string& name, const Shape& shape) {
  std::string line = "  const " + name + " = f32" + shape.ToString() + " {";
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    line += (i ? ", " : "") + std::to_string(static_cast<double>(Draw(-8, 8)) / 64);
  }
  return line + "}\n";
}

// Lines of a graph over %x of [n, 8, h, w] that ends in %y.
class RandomNetwork {
 public:
  std::string Lines() {
    values_ = {{"%x", 8}};
    lines_ = "  input %x: f32[n,8,h,w]\n";
    const int64_t steps = Draw(4, 12);
    for (int64_t i = 0; i < steps; ++i) AddStep();
    while (values_.size() > 1) Join(values_.size());
    lines_ += "  %y = Neg(" + values_[0].name + ")\n  return %y\n";
    return lines_;
  }

 private:
  struct Known {
    std::string name;
    int64_t channels;
  };

  std::string NewName() { return "%v" + std::to_string(count_++); }
  Known PickValue() { return values_[static_cast<size_t>(Draw(0, static_cast<int64_t>(values_.size()) - 1))]; }

  void AddStep() {
    const Known from = PickValue();
    const std::string name = NewName();
    switch (Draw(from.channels > 1 ? 0 : 5, 7)) {
      case 0:
      case 1:
      case 2: {
        const bool wide = Draw(0, 1) != 0;
        const int64_t channels = Pick<int64_t>({3, 8, 16, 20});
        const int64_t side = wide ? 3 : 1;
        lines_ += Weights(name + "_w", Shape{channels, from.channels, side, side}) + "  " + name + "_c = Conv(" +
                  from.name + ", " + name + "_w)" + (wide ? " {pads = [1, 1, 1, 1]}" : "") + "\n  " + name +
                  " = Relu(" + name + "_c)\n";
        values_.push_back({name, channels});
        return;
      }
      case 5:
        lines_ += "  " + name + " = " + Pick({"MaxPool", "AveragePool"}) + "(" + from.name +
                  ") {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n";
        values_.push_back({name, from.channels});
        return;
      case 3: {
        const int64_t first = Draw(1, from.channels - 1), rest = from.channels - first;
        const std::string other = NewName();
        lines_ += "  const " + name + "_s = i64[2] {" + std::to_string(first) + ", " + std::to_string(rest) + "}\n  " +
                  name + ", " + other + " = Split(" + from.name + ", " + name + "_s) {axis = 1}\n";
        values_.push_back({name, first});
        values_.push_back({other, rest});
        return;
      }
      case 4:
        lines_ += "  " + name + " = Neg(" + from.name + ")\n";
        values_.push_back({name, from.channels});
        return;
      default:
        Join(static_cast<size_t>(Draw(2, 4)));
    }
  }

  // A concatenation of some values, perhaps one several times, some of which later steps read too.
  void Join(size_t most) {
    const std::string name = NewName();
    std::string list;
    Known whole{name, 0};
    const size_t count = std::min(most, values_.size());
    const bool all = count == values_.size();
    for (size_t i = 0; i < std::max<size_t>(count, 2); ++i) {
      const Known part = all && i < count ? values_[i] : PickValue();
      list += (list.empty() ? "" : ", ") + part.name;
      whole.channels += part.channels;
    }
    if (whole.channels > 80) return values_.resize(1);
    lines_ += "  " + name + " = Concat(" + list + ") {axis = 1}\n";
    if (all) values_.clear();
    values_.push_back(whole);
  }

  std::vector<Known> values_;
  std::string lines_;
  int count_ = 0;
};

TEST_F(CpuOps, PartsOfRandomNetworks) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const std::string lines = RandomNetwork().Lines();
    SCOPED_TRACE(lines);
    const Result<std::unique_ptr<Graph>> graph = ParseGraph("graph opset(\"\": 17) {\n" + lines + "}\n");
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const Status inferred = InferShapes(**graph);
    ASSERT_TRUE(inferred.ok()) << inferred.message();
    InlineExecutor executor;
    const Result<std::unique_ptr<CpuExecutable>> exe = CpuExecutable::Compile(**graph, Config(i % 2 == 1), executor);
    ASSERT_TRUE(exe.ok()) << exe.status().message();
    const Shape largest{Draw(1, 2), 8, Draw(2, 6), Draw(2, 6)};
    const Tensor planned = DrawTensor(DType::kF32, largest);
    const Result<std::unique_ptr<CpuPlan>> plan = PlanFor(**exe, ViewOf(planned), 1);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    for (const bool smaller : {false, true}) {
      Shape shape = largest;
      for (int d : {0, 2, 3}) shape[d] = smaller ? Draw(1, largest[d]) : largest[d];
      const std::vector<Value> inputs = {DrawTensor(DType::kF32, shape)};
      const Result<std::vector<Value>> expected = EvaluateGraph(**graph, inputs);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      Tensor y = Tensor::Allocate(DType::kF32, expected->at(0).tensor().shape()).value();
      AlignedBuffer workspace = AlignedBuffer::Allocate((*plan)->workspace_bytes()).value();
      std::memset(workspace.data(), 0xff, workspace.size_bytes());  // NaN
      quern_executor handle;
      handle.executor = &executor;
      quern_tensor_view in = ViewOf(inputs[0].tensor()), out = ViewOf(y);
      quern_run_args run{};
      run.num_inputs = run.num_outputs = 1;
      run.inputs = &in;
      run.outputs = &out;
      run.workspace = workspace.data();
      run.executor = &handle;
      const Status status = (*plan)->Run(run);
      ASSERT_TRUE(status.ok()) << status.message();
      // Rounding of a chain of convolutions, some of them Winograd's.
      const Case network{.op = "a network", .absolute = 3e-5};
      ASSERT_NO_FATAL_FAILURE(ExpectSame(y, expected->at(0).tensor(), network));
    }
  }
}

// A dense block: each layer reads all that came before it. Concatenations of concatenations copy nothing but %x.
TEST_F(CpuOps, DenseBlocksAreComputedInPlace) {
  std::string lines = "  input %x: f32[1,16,6,5]\n" + Weights("%w0", Shape{16, 16, 1, 1}) + "  %c0 = Conv(%x, %w0)\n";
  for (int layer = 1; layer < 5; ++layer) {
    const std::string n = std::to_string(layer), last = "%c" + std::to_string(layer - 1);
    lines += Weights("%w" + n, Shape{8, 8 + 8 * layer, 3, 3}) + "  %g" + n + " = Conv(" + last + ", %w" + n +
             ") {pads = [1, 1, 1, 1]}\n  %r" + n + " = Relu(%g" + n + ")\n  %c" + n + " = Concat(" + last + ", %r" + n +
             ") {axis = 1}\n";
  }
  lines += Weights("%w", Shape{4, 48, 1, 1}) + "  %y = Conv(%c4, %w)\n  return %y\n";
  const Result<std::unique_ptr<Graph>> graph = ParseGraph("graph opset(\"\": 17) {\n" + lines + "}\n");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_TRUE(InferShapes(**graph).ok());
  InlineExecutor executor;
  const Result<std::unique_ptr<CpuExecutable>> exe = CpuExecutable::Compile(**graph, Config(false), executor);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  const Tensor x = DrawTensor(DType::kF32, Shape{1, 16, 6, 5});
  const Result<std::unique_ptr<CpuPlan>> plan = PlanFor(**exe, ViewOf(x), 1);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  int joined = 0;
  const BoundSteps& bound = (*plan)->steps();
  for (const BoundSteps::Step& step : bound.steps) {
    if (step.node < 0 || !(*exe)->nodes()[static_cast<size_t>(step.node)].node->Is("Concat")) continue;
    ++joined;
    const Location& whole = bound.outputs(step)[0];
    int64_t at = whole.offset;
    for (size_t k = 0; k < 2; ++k) {
      EXPECT_EQ(bound.inputs(step)[k].buffer, whole.buffer);
      EXPECT_EQ(bound.inputs(step)[k].offset, at);
      at += k == 0 ? (8 + 8 * joined) * 4 : 0;
    }
  }
  EXPECT_EQ(joined, 4);
  const std::vector<Value> inputs = {x};
  const Result<std::vector<Tensor>> actual = RunOnCpu(**graph, inputs, Config(false));
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  const Result<std::vector<Value>> expected = EvaluateGraph(**graph, inputs);
  ASSERT_NO_FATAL_FAILURE(ExpectSame((*actual)[0], expected->at(0).tensor(), Case{.op = "a dense block"}));
}

// Stems put their image in order themselves: what would transpose it before them is a view. Of any number of
// dimensions, of bytes too.
TEST_F(CpuOps, StemsReadImagesChannelsFirst) {
  const auto transposes = [](const std::string& lines, const Shape& shape) {
    const Result<std::unique_ptr<Graph>> graph = ParseGraph("graph opset(\"\": 17) {\n" + lines + "  return %y\n}\n");
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_TRUE(InferShapes(**graph).ok());
    InlineExecutor executor;
    const Result<std::unique_ptr<CpuExecutable>> exe = CpuExecutable::Compile(**graph, Config(false), executor);
    EXPECT_TRUE(exe.ok()) << exe.status().message();
    const Tensor x = DrawTensor(DType::kF32, shape);
    const Result<std::unique_ptr<CpuPlan>> plan = PlanFor(**exe, ViewOf(x), 1);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    int64_t copies = 0;
    for (const BoundSteps::Step& step : (*plan)->steps().steps) {
      copies += step.node >= 0 && (*exe)->nodes()[static_cast<size_t>(step.node)].node->Is("Transpose");
    }
    const std::vector<Value> inputs = {x};
    const Result<std::vector<Tensor>> actual = RunOnCpu(**graph, inputs, Config(false));
    EXPECT_TRUE(actual.ok()) << actual.status().message();
    const Result<std::vector<Value>> expected = EvaluateGraph(**graph, inputs);
    ExpectSame((*actual)[0], expected->at(0).tensor(), Case{.op = "a stem", .absolute = 1e-5});
    return copies;
  };
  const std::string padded = "  %y = Conv(%x, %w) {pads = [1, 1, 1, 1], strides = [2, 2]}\n";
  EXPECT_EQ(transposes("  input %x: f32[2,3,13,9]\n" + Weights("%w", Shape{8, 3, 3, 3}) + padded, {2, 3, 13, 9}), 0);
  EXPECT_EQ(
      transposes("  input %x: f32[1,5,21]\n" + Weights("%w", Shape{8, 5, 4}) + "  %y = Conv(%x, %w)\n", {1, 5, 21}), 0);
  EXPECT_EQ(transposes("  input %x: f32[1,2,4,5,6]\n" + Weights("%w", Shape{8, 2, 2, 3, 2}) + "  %y = Conv(%x, %w)\n",
                       {1, 2, 4, 5, 6}),
            0);
  EXPECT_EQ(transposes("  input %x: f32[1,40,6,5]\n" + Weights("%w", Shape{8, 40, 3, 3}) + padded, {1, 40, 6, 5}), 1)
      << "read in place, channels last";
}

// Deeper than parts are followed.
TEST_F(CpuOps, DeepChainsOfConcatenations) {
  std::string lines = "  input %x: f32[1,1,2,3]\n  const %w = f32[1,1,1,1] {0.5}\n  %c0 = Conv(%x, %w)\n";
  std::string last = "%c0";
  for (int i = 1; i <= 250; ++i) {
    const std::string n = std::to_string(i);
    lines += "  %c" + n + " = Concat(" + last + ", %x) {axis = 1}\n";
    last = "%c" + n;
    lines += "  %d" + n + " = Concat(" + last + ") {axis = 1}\n";
    last = "%d" + n;
  }
  lines += "  %y = Neg(" + last + ")\n  return %y\n";
  const Result<std::unique_ptr<Graph>> graph = ParseGraph("graph opset(\"\": 17) {\n" + lines + "}\n");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_TRUE(InferShapes(**graph).ok());
  const std::vector<Value> inputs = {DrawTensor(DType::kF32, Shape{1, 1, 2, 3})};
  const Result<std::vector<Tensor>> actual = RunOnCpu(**graph, inputs, Config(false));
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  const Result<std::vector<Value>> expected = EvaluateGraph(**graph, inputs);
  ASSERT_NO_FATAL_FAILURE(ExpectSame((*actual)[0], expected->at(0).tensor(), Case{.op = "a chain"}));
}

}  // namespace
}  // namespace quern::cpu
