// Sessions through the C ABI: results in place, threads, cancellation, hosts' pools, state, facts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "quern/quern.hpp"

extern "C" int DoubleInC(void);

namespace {

using quern::Model;
using quern::Session;
using quern::SessionOptions;
using quern::Value;
using testing::ElementsAre;
using testing::HasSubstr;

// y = relu(x W + b), z = -x
Model Dense() {
  Model m = Model::Create("dense");
  m.Import("", 17).Input("x", QUERN_F32, {-1, 3}, {"n", ""});
  m.Constant("w", Value::Tensor<float>({3, 2}, {1, -1, 2, 0, 0, 3}));
  m.Constant("b", Value::Tensor<float>({2}, {0.5f, -20}));
  m.Node("Gemm", {"x", "w", "b"}, {"g"}, {}, "dense").Node("Relu", {"g"}, {"y"}, {}, "relu");
  m.Node("Neg", {"x"}, {"z"}, {}, "neg");
  m.Output("y").Output("z");
  return m;
}

std::vector<float> Floats(const Value& v) {
  const float* data = v.data<float>();
  return std::vector<float>(data, data + v.num_elements());
}

Session Digits(int threads = 1, const std::string& cpu = {}) {
  SessionOptions options;
  options.threads = threads;
  options.cpu = cpu;
  return Session(Model::Load(QUERN_TEST_MODELS "/digits.onnx"), options);
}

// A picture with some structure, the same for the same seed.
std::vector<float> Picture(int seed) {
  std::vector<float> pixels;
  for (int i = 0; i < 64; ++i) pixels.push_back(static_cast<float>((i * 37 + seed * 11) % 17) / 16);
  return pixels;
}

TEST(ApiSession, TellsHowOftenNodesRanWhenItIsProfiled) {
  SessionOptions options;
  options.threads = 1;
  options.profile = true;
  Session session(Dense(), options);
  for (int i = 0; i < 3; ++i) session.Run({Value::Tensor<float>({2, 3}, {1, 2, 3, -1, -2, -3})});
  const std::string profile = session.Facts("profile");
  // x W alone multiplies, 2 x 3 by 3 x 2.
  EXPECT_THAT(profile, HasSubstr("\"runs\":3"));
  EXPECT_THAT(profile, HasSubstr("\"operations\":" + std::to_string(3 * 2 * 2 * 3 * 2) + ".0"));
  EXPECT_THROW(Session(Dense()).Facts("profile"), quern::Error);
}

TEST(ApiSession, BranchesRunSideBySideUnlessSwitchedOff) {
  Model m = Model::Create("branches");
  m.Import("", 17).Input("x", QUERN_F32, {64, 512});
  for (const std::string branch : {"a", "b"}) {
    for (int i = 0; i < 8; ++i) {
      m.Node(branch == "a" ? "Sin" : "Cos", {i == 0 ? "x" : branch + std::to_string(i - 1)},
             {branch + std::to_string(i)});
    }
  }
  m.Node("Add", {"a7", "b7"}, {"sum"}).Node("Neg", {"sum"}, {"y"}).Output("y");
  SessionOptions options;
  options.threads = 2;
  const Value x = Value::Tensor<float>({64, 512}, std::vector<float>(64 * 512, 0.5f));
  Session together(m, options);
  options.serial_branches = true;
  Session serial(m, options);
  EXPECT_EQ(Floats(together.Run({x})[0]), Floats(serial.Run({x})[0]));
  EXPECT_THAT(together.Facts("plan"), HasSubstr("side_by_side"));
  EXPECT_THAT(serial.Facts("plan"), testing::Not(HasSubstr("side_by_side")));
}

TEST(ApiSession, AC99ProgramRuns) { EXPECT_EQ(DoubleInC(), 0) << quern_error_message(); }

TEST(ApiSession, WritesIntoMemoryOfTheCaller) {
  Session session(Dense());
  float y[4] = {-1, -1, -1, -1};
  std::vector<Value> outputs = {Value::Wrap({2, 2}, y), Value()};
  session.RunInto({Value::Tensor<float>({2, 3}, {1, 2, 3, -1, -2, -3})}, outputs);
  EXPECT_THAT(y, ElementsAre(5.5f, 0, 0, 0));
  EXPECT_THAT(Floats(outputs[1]), ElementsAre(-1, -2, -3, 1, 2, 3));
}

TEST(ApiSession, TakesStridesOnBothSides) {
  Session session(Dense());
  float x[6] = {1, -1, 2, -2, 3, -3};  // columns of the input
  float y[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  std::vector<Value> outputs = {Value::Wrap(QUERN_F32, {2, 2}, {4, 2}, y, sizeof y), Value()};
  session.RunInto({Value::Wrap(QUERN_F32, {2, 3}, {1, 2}, x, sizeof x)}, outputs);
  EXPECT_THAT(y, ElementsAre(5.5f, 9, 0, 9, 0, 9, 0, 9));
  EXPECT_THAT(Floats(outputs[1]), ElementsAre(-1, -2, -3, 1, 2, 3));
  std::vector<Value> folded = {Value::Wrap(QUERN_F32, {2, 2}, {0, 1}, y, sizeof y), Value()};
  EXPECT_THROW(session.RunInto({Value::Wrap({2, 3}, x)}, folded), quern::Error);
}

// A graph that hands on what it is given must not hand out the caller's memory.
TEST(ApiSession, ResultsAreNeverMemoryOfTheCaller) {
  Session session(Model::Parse(R"(graph @same opset("": 17) {
  input %x: f32[2]
  input %s: seq<f32[*]>
  %y: f32[2] = Identity(%x)
  %t: seq<f32[*]> = Identity(%s)
  return %y, %t
})"));
  float x[2] = {1, 2};
  const Value wrapped = Value::Wrap({2}, x);
  const auto out = session.Run({wrapped, Value::Sequence({wrapped})});
  x[0] = 7;
  EXPECT_THAT(Floats(out[0]), ElementsAre(1, 2));
  EXPECT_THAT(Floats(out[1].element(0)), ElementsAre(1, 2));
}

TEST(ApiSession, RefusesOutputsThatOverlap) {
  Session session(Model::Parse(R"(graph @g opset("": 17) {
  input %x: f32[n]
  %y = Neg(%x)
  %z = Abs(%x)
  return %y, %z
})"));
  float memory[8] = {1, -2, 3, -4, 0, 0, 0, 0};
  auto view = [&](int first, std::int64_t count) { return Value::Wrap({count}, memory + first); };
  auto run = [&](Value x, Value y, Value z) {
    std::vector<Value> outputs = {std::move(y), std::move(z)};
    session.RunInto({std::move(x)}, outputs);
  };
  auto message = [&](Value x, Value y, Value z) -> std::string {
    try {
      run(std::move(x), std::move(y), std::move(z));
    } catch (const quern::Error& e) {
      EXPECT_EQ(e.status(), QUERN_INVALID_ARGUMENT);
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(view(0, 2), view(0, 2), Value()), testing::AllOf(HasSubstr("'y'"), HasSubstr("'x'")));
  EXPECT_THAT(message(view(0, 3), Value(), view(2, 3)), testing::AllOf(HasSubstr("'z'"), HasSubstr("'x'")));
  EXPECT_THAT(message(view(0, 2), view(4, 2), view(5, 2)), testing::AllOf(HasSubstr("'z'"), HasSubstr("'y'")));
  EXPECT_THAT(memory, ElementsAre(1, -2, 3, -4, 0, 0, 0, 0)) << "nothing has run";
  run(view(0, 2), view(4, 2), view(6, 2));  // side by side
  EXPECT_THAT(memory, ElementsAre(1, -2, 3, -4, -1, 2, 1, 2));
  run(view(0, 0), view(0, 0), view(0, 0));  // nothing overlaps nothing
}

TEST(ApiSession, RefusesOutputsOfAnotherShapeOrType) {
  Session session(Dense());
  float y[4];
  std::int32_t z[4];
  const Value x = Value::Tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  std::vector<Value> wrong_shape = {Value::Wrap({1, 4}, y), Value()};
  EXPECT_THROW(session.RunInto({x}, wrong_shape), quern::Error);
  std::vector<Value> wrong_type = {Value::Wrap({2, 2}, z), Value()};
  EXPECT_THROW(session.RunInto({x}, wrong_type), quern::Error);
}

TEST(ApiSession, ErrorsOfInputsNameThem) {
  Session session(Dense());
  auto message = [&](const Value& x) -> std::string {
    try {
      session.Run({x});
    } catch (const quern::Error& e) {
      EXPECT_EQ(e.status(), QUERN_INVALID_ARGUMENT);
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(Value::Tensor<double>({1, 3}, {1, 2, 3})), testing::AllOf(HasSubstr("'x'"), HasSubstr("f64")));
  EXPECT_THAT(message(Value::Tensor<float>({1, 4}, {1, 2, 3, 4})),
              testing::AllOf(HasSubstr("'x'"), HasSubstr("[1,4]")));
  EXPECT_THAT(message(Value()), HasSubstr("missing"));
}

TEST(ApiSession, ComputesWantedOutputsOnly) {
  Session session(Dense());
  const std::uint8_t want[2] = {0, 1};
  quern_run_options options;
  quern_run_options_init(&options);
  options.want = want;
  const auto out = session.Run({Value::Tensor<float>({1, 3}, {1, 2, 3})}, &options);
  EXPECT_FALSE(out[0]);
  EXPECT_THAT(Floats(out[1]), ElementsAre(-1, -2, -3));
}

TEST(ApiSession, ManyThreadsShareASession) {
  Session session = Digits(2);
  std::vector<std::vector<float>> expected;
  for (int seed = 0; seed < 4; ++seed) {
    std::vector<float> pixels = Picture(seed);
    expected.push_back(Floats(session.Run({Value::Wrap({1, 1, 8, 8}, pixels.data())})[0]));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const int seed = (t + i) % 4;
        std::vector<float> pixels = Picture(seed);
        wrong += Floats(session.Run({Value::Wrap({1, 1, 8, 8}, pixels.data())})[0]) !=
                 expected[static_cast<std::size_t>(seed)];
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ApiSession, ErrorMessagesBelongToTheirThread) {
  quern_value* v = nullptr;
  ASSERT_NE(quern_tensor_create(-1, 0, nullptr, &v), QUERN_OK);
  const std::string here = quern_error_message();
  std::thread([] { EXPECT_STREQ(quern_error_message(), ""); }).join();
  EXPECT_EQ(quern_error_message(), here);
}

TEST(ApiSession, StopsWhenCancelled) {
  Session session = Digits();
  quern::Cancel cancel;
  quern_run_options options;
  quern_run_options_init(&options);
  options.cancel = cancel.get();
  std::vector<float> pixels = Picture(1);
  const std::vector<Value> inputs = {Value::Wrap({1, 1, 8, 8}, pixels.data())};
  cancel.Fire();
  try {
    session.Run(inputs, &options);
    FAIL() << "ran to its end";
  } catch (const quern::Error& e) {
    EXPECT_EQ(e.status(), QUERN_CANCELLED);
  }
  cancel.Reset();
  EXPECT_EQ(session.Run(inputs, &options).size(), 1u);
}

// Runs everything backwards, in pieces of one, on the calling thread.
void RunBackwards(void* user, std::int64_t total, std::int64_t,
                  void (*task)(void*, std::int32_t, std::int64_t, std::int64_t), void* context) {
  ++*static_cast<std::atomic<int>*>(user);
  for (std::int64_t i = total; i-- > 0;) task(context, 0, i, i + 1);
}

TEST(ApiSession, RunsOnAHostsPool) {
  std::atomic<int> calls{0};
  quern_host_executor host;
  quern_host_executor_init(&host);
  host.user = &calls;
  host.concurrency = 3;
  host.run = RunBackwards;
  const quern::Executor executor(host);
  SessionOptions options;
  options.executor = &executor;
  const Model model = Model::Load(QUERN_TEST_MODELS "/digits.onnx");
  Session on_host(model, options);
  Session alone(model);
  std::vector<float> pixels;
  for (int i = 0; i < 64; ++i) {
    const std::vector<float> one = Picture(i);
    pixels.insert(pixels.end(), one.begin(), one.end());
  }
  const Value x = Value::Wrap({64, 1, 8, 8}, pixels.data());
  EXPECT_EQ(Floats(on_host.Run({x})[0]), Floats(alone.Run({x})[0]));
  EXPECT_GT(calls, 0);
  quern_host_executor broken = host;
  broken.run = nullptr;
  EXPECT_THROW(quern::Executor{broken}, quern::Error);
}

TEST(ApiSession, SharesAnExecutorThatItsOwnerFreed) {
  Value result;
  {
    auto executor = std::make_unique<quern::Executor>(2);
    SessionOptions options;
    options.executor = executor.get();
    Session session(Dense(), options);
    executor.reset();
    result = session.Run({Value::Tensor<float>({1, 3}, {1, 2, 3})})[0];
  }
  EXPECT_THAT(Floats(result), ElementsAre(5.5f, 0));
}

TEST(ApiSession, EveryCpuAndProviderAgrees) {
  std::vector<float> pixels = Picture(2);
  const Value x = Value::Wrap({1, 1, 8, 8}, pixels.data());
  const Model model = Model::Load(QUERN_TEST_MODELS "/digits.onnx");
  SessionOptions reference;
  reference.providers = {"reference"};
  const std::vector<float> expected = Floats(Session(model, reference).Run({x})[0]);
  for (const char* cpu : {"native", "generic"}) {
    SessionOptions options;
    options.cpu = cpu;
    const std::vector<float> got = Floats(Session(model, options).Run({x})[0]);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << cpu;
  }
}

TEST(ApiSession, RefusesCpusAndProvidersThatAreNotThere) {
  auto status = [](SessionOptions options) {
    try {
      Session session(Dense(), options);
    } catch (const quern::Error& e) {
      EXPECT_STRNE(e.what(), "");
      return e.status();
    }
    return QUERN_OK;
  };
  SessionOptions cpu;
  cpu.cpu = "pentium";
  EXPECT_EQ(status(cpu), QUERN_INVALID_ARGUMENT);
#if defined(__aarch64__)
  cpu.cpu = "haswell";
#else
  cpu.cpu = "apple-m4";
#endif
  EXPECT_EQ(status(cpu), QUERN_UNSUPPORTED);
  SessionOptions provider;
  provider.providers = {"gpu"};
  EXPECT_EQ(status(provider), QUERN_INVALID_ARGUMENT);
  provider.providers = {"./no/such/library.so"};
  EXPECT_EQ(status(provider), QUERN_NOT_FOUND);
  SessionOptions precision;
  precision.precision = "fp8";
  EXPECT_EQ(status(precision), QUERN_INVALID_ARGUMENT);
}

TEST(ApiSession, FactsOfEveryStage) {
  Session session = Digits();
  EXPECT_THAT(session.Facts("partition"),
              testing::AllOf(HasSubstr("\"partition\""), HasSubstr("\"provider\":\"cpu\"")));
  EXPECT_THAT(session.Facts("compiled"), HasSubstr("\"kernel\":\""));
  std::vector<float> pixels = Picture(2);
  session.Run({Value::Wrap({1, 1, 8, 8}, pixels.data())});
  EXPECT_THAT(session.Facts("plan"), testing::AllOf(HasSubstr("\"last run\""), HasSubstr("\"arena_bytes\"")));
  const std::string all = session.Facts();
  for (const char* stage : {"neutral", "partition", "compiled", "plan"}) {
    EXPECT_THAT(all, HasSubstr("\"" + std::string(stage) + "\":{"));
  }
  EXPECT_THROW(session.Facts("nonsense"), quern::Error);
  EXPECT_THAT(session.Text("neutral"), HasSubstr("graph "));
  EXPECT_THAT(session.Text("compiled"), HasSubstr("# provider cpu"));
}

TEST(ApiSession, PlansDeclaredShapesWithoutARun) {
  Model m = Model::Create("fixed");
  m.Import("", 17).Input("x", QUERN_F32, {4, 4}).Node("Softmax", {"x"}, {"y"}).Output("y");
  EXPECT_THAT(Session(m).Facts("plan"), HasSubstr("declared shapes"));
  EXPECT_THAT(Session(Dense()).Facts("plan"), HasSubstr("\"plan\":null"));
}

// all = concat(past, new), appended to a buffer of 8 rows.
TEST(ApiSession, StateGrowsInPlace) {
  Model m = Model::Create("cache");
  m.Import("", 17).Input("past", QUERN_F32, {-1, 2}, {"p", ""}).Input("new", QUERN_F32, {1, 2});
  m.Node("Concat", {"past", "new"}, {"all"}, {{"axis", 0}}).Node("ReduceSum", {"all"}, {"sum"}, {{"keepdims", 0}});
  m.Output("all").Output("sum");
  Session session(m);
  std::vector<float> memory(16, -7);
  const Value buffer = Value::Wrap({8, 2}, memory.data());
  quern_state_spec spec;
  quern_state_spec_init(&spec);
  spec.input = "past";
  spec.output = "all";
  spec.axis = 0;
  spec.buffer = buffer.get();
  quern::State state = session.CreateState({spec});
  float total = 0;
  for (int i = 0; i < 8; ++i) {
    total += static_cast<float>(2 * i + 1);
    const auto out =
        session.Run(state, {Value(), Value::Tensor<float>({1, 2}, {static_cast<float>(i), static_cast<float>(i + 1)})});
    EXPECT_EQ(out[1].data<float>()[0], total);
    EXPECT_EQ(state.length(0), i + 1);
    EXPECT_EQ(memory[static_cast<std::size_t>(2 * i)], static_cast<float>(i));
  }
  EXPECT_THROW(session.Run(state, {Value(), Value::Tensor<float>({1, 2}, {0, 0})}), quern::Error);
  EXPECT_EQ(state.length(0), 8);
  // A result must not be written where the state lies.
  state.set_length(0, 1);
  const Value row = Value::Tensor<float>({1, 2}, {5, 5}), sum = Value::Wrap({}, memory.data() + 15);
  const quern_value* inputs[2] = {nullptr, row.get()};
  quern_value* outputs[2] = {nullptr, sum.get()};
  EXPECT_EQ(quern_session_run_with_state(session.get(), state.get(), inputs, outputs, nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), testing::AllOf(HasSubstr("'sum'"), HasSubstr("'past'")));
  state.set_length(0, 1);
  EXPECT_THROW(state.set_length(0, 9), quern::Error);
  EXPECT_EQ(session.Run(state, {Value(), Value::Tensor<float>({1, 2}, {5, 5})})[1].data<float>()[0], 11);
}

TEST(ApiFacts, CpusAndKernels) {
  const std::string host = quern::CpuFacts("native");
  EXPECT_THAT(host, testing::AllOf(HasSubstr("\"can_run\":true"), HasSubstr("\"caches\"")));
  const std::string phone = quern::CpuFacts("apple-m4");
  EXPECT_THAT(phone, testing::AllOf(HasSubstr("\"sme2\""), HasSubstr("\"arch\":\"aarch64\"")));
  EXPECT_THROW(quern::CpuFacts("nothing"), quern::Error);
  const std::string reduced = quern::CpuFacts("sapphirerapids,-amx");
  EXPECT_THAT(reduced, HasSubstr("switched off by '-amx'"));

  const std::string choice = quern::KernelFacts("haswell", "gemm", 128, 768, 768, "f32,f32,f32");
  EXPECT_THAT(choice, testing::AllOf(HasSubstr("\"load\""), HasSubstr("\"call\""), HasSubstr("avx2\"")));
  EXPECT_THAT(choice, HasSubstr("needs avx512f"));
  EXPECT_THROW(quern::KernelFacts("haswell", "nonsense"), quern::Error);
  EXPECT_THROW(quern::KernelFacts("haswell", "", 1, 2, 3, "f32,f99,f32"), quern::Error);
  EXPECT_THROW(quern::KernelFacts("haswell", "", 1, 2, 0, "f32,f32,f32"), quern::Error);
}

TEST(ApiLog, MessagesGoToTheCallback) {
  std::vector<std::string> messages;
  const auto keep = [](void* user, quern_log_level level, const char* text) {
    EXPECT_GE(level, QUERN_LOG_INFO);
    static_cast<std::vector<std::string>*>(user)->push_back(text);
  };
  quern_set_log(QUERN_LOG_INFO, keep, &messages);
  Session first(Dense());
  EXPECT_THAT(messages, testing::Contains(HasSubstr("compiled 'dense' of 3 nodes")));
  const std::size_t before = messages.size();
  quern_set_log(QUERN_LOG_WARNING, keep, &messages);
  Session second(Dense());
  EXPECT_EQ(messages.size(), before) << "below the level";
  quern_set_log(QUERN_LOG_WARNING, nullptr, nullptr);
}

TEST(ApiVersion, NamesItself) {
  EXPECT_STREQ(quern_status_name(QUERN_CORRUPT), "corrupt");
  EXPECT_STREQ(quern_status_name(99), "unknown status");
  EXPECT_EQ(quern_abi_version(), QUERN_ABI_VERSION);
  EXPECT_THAT(quern_version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

}  // namespace
