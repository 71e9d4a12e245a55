// The operators of ops.h against plain loops in double precision, as a framework calls them: own threads, own memory.
#include "quern/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using testing::HasSubstr;

struct FreeOp {
  void operator()(quern_op* op) const { quern_ops_free(op); }
};
using Op = std::unique_ptr<quern_op, FreeOp>;

struct FreeExecutor {
  void operator()(quern_executor* e) const { quern_executor_free(e); }
};
using Executor = std::unique_ptr<quern_executor, FreeExecutor>;

// A framework's own parallel-for: two threads, made for each region.
void RunOnTwoThreads(void*, int64_t total, int64_t, void (*task)(void*, int32_t, int64_t, int64_t), void* context) {
  const int64_t half = total / 2;
  std::thread other([&] { task(context, 1, half, total); });
  task(context, 0, 0, half);
  other.join();
}
Executor TwoThreads() {
  quern_host_executor host;
  quern_host_executor_init(&host);
  host.concurrency = 2;
  host.run = RunOnTwoThreads;
  quern_executor* e = nullptr;
  EXPECT_EQ(quern_executor_from_host(&host, &e), QUERN_OK);
  return Executor(e);
}

// 64-byte aligned memory between bytes that must stay as they are.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : bytes_(bytes), data_(static_cast<char*>(std::aligned_alloc(64, Total()))) {
    std::fill_n(data_, Total(), kMark);
  }
  ~Workspace() {
    EXPECT_TRUE(std::all_of(data_, data_ + 64, [](char c) { return c == kMark; })) << "written before the workspace";
    EXPECT_TRUE(std::all_of(data_ + 64 + bytes_, data_ + Total(), [](char c) { return c == kMark; }))
        << "written behind the workspace";
    std::free(data_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* data() { return data_ + 64; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr char kMark = 0x5a;
  size_t Total() const { return (bytes_ + 63) / 64 * 64 + 128; }
  size_t bytes_;
  char* data_;
};

std::vector<float> Random(size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<float> v(count);
  for (float& x : v) x = static_cast<float>(static_cast<int>(rng() % 4001) - 2000) / 1000.0f;
  return v;
}
template <class T>
std::vector<T> RandomBytes(size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<T> v(count);
  for (T& x : v) x = static_cast<T>(rng());
  return v;
}

void ExpectClose(const std::vector<float>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (double x : want) largest = std::max(largest, std::fabs(x));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance * largest) << "element " << i;
}

quern_status RunMatMul(const quern_op* op, const quern_matmul_args& args, quern_executor* executor) {
  size_t bytes = 0;
  if (const quern_status s = quern_ops_matmul_workspace(op, &args, executor, &bytes); s != QUERN_OK) return s;
  Workspace workspace(bytes);
  quern_ops_run run;
  quern_ops_run_init(&run);
  run.executor = executor;
  run.workspace = workspace.data();
  run.workspace_bytes = workspace.bytes();
  return quern_ops_matmul_run(op, &args, &run);
}

Op MakeMatMul(const quern_matmul_spec& spec, const quern_ops_options* options = nullptr) {
  quern_op* op = nullptr;
  EXPECT_EQ(quern_ops_matmul_create(&spec, options, &op), QUERN_OK) << quern_error_message();
  return Op(op);
}

TEST(Ops, MatMulOfPackedWeightsWithEpilogue) {
  constexpr size_t kM = 37, kN = 75, kK = 129;
  const auto a = Random(kM * kK, 1), w = Random(kN * kK, 2), bias = Random(kN, 3), residual = Random(kM * kN, 4);
  quern_ops_epilogue epilogue;
  quern_ops_epilogue_init(&epilogue);
  epilogue.bias = bias.data();
  epilogue.residual = 1;
  epilogue.activation = QUERN_ACTIVATION_LEAKY_RELU;
  epilogue.alpha = 0.25f;
  quern_matmul_spec spec;
  quern_matmul_spec_init(&spec);
  spec.lhs = spec.rhs = spec.dst = QUERN_F32;
  spec.n = kN;
  spec.k = kK;
  spec.rhs_data = w.data();  // [n][k]
  spec.rhs_k_stride = 1;
  spec.rhs_n_stride = kK;
  spec.epilogue = &epilogue;
  const Op op = MakeMatMul(spec);
  ASSERT_NE(op, nullptr);
  std::vector<double> want(kM * kN);
  for (size_t m = 0; m < kM; ++m) {
    for (size_t n = 0; n < kN; ++n) {
      double x = bias[n];
      for (size_t k = 0; k < kK; ++k) x += static_cast<double>(a[m * kK + k]) * w[n * kK + k];
      x += residual[m * kN + n];
      want[m * kN + n] = x < 0 ? 0.25 * x : x;
    }
  }
  const Executor two = TwoThreads();
  std::vector<float> first;
  for (quern_executor* executor : {static_cast<quern_executor*>(nullptr), two.get()}) {
    std::vector<float> y(kM * kN, NAN);
    quern_matmul_args args;
    quern_matmul_args_init(&args);
    args.m = kM;
    args.lhs = a.data();
    args.dst = y.data();
    args.residual = residual.data();
    ASSERT_EQ(RunMatMul(op.get(), args, executor), QUERN_OK) << quern_error_message();
    ExpectClose(y, want, 1e-6);
    if (first.empty()) first = y;
    EXPECT_EQ(y, first) << "threads change the result";
  }
}

TEST(Ops, BatchesOfRunTimeProducts) {
  constexpr size_t kB = 3, kH = 2, kM = 9, kN = 20, kK = 31;
  const auto a = Random(kB * kH * kM * kK, 5), w = Random(kH * kK * kN, 6);
  quern_matmul_spec spec;
  quern_matmul_spec_init(&spec);
  spec.lhs = spec.rhs = spec.dst = QUERN_F32;
  spec.n = kN;
  spec.k = kK;
  const Op op = MakeMatMul(spec);
  ASSERT_NE(op, nullptr);
  std::vector<float> y(kB * kH * kM * kN, NAN);
  quern_matmul_args args;
  quern_matmul_args_init(&args);
  args.m = kM;
  args.lhs = a.data();
  args.rhs = w.data();
  args.dst = y.data();
  args.batch_dims = 2;
  args.batch[0] = kB;
  args.batch[1] = kH;
  args.lhs_batch_strides[0] = kH * kM * kK;
  args.lhs_batch_strides[1] = kM * kK;
  args.rhs_batch_strides[0] = 0;  // repeated
  args.rhs_batch_strides[1] = kK * kN;
  args.dst_batch_strides[0] = kH * kM * kN;
  args.dst_batch_strides[1] = kM * kN;
  const Executor two = TwoThreads();
  ASSERT_EQ(RunMatMul(op.get(), args, two.get()), QUERN_OK) << quern_error_message();
  std::vector<double> want(y.size());
  for (size_t i = 0; i < kB * kH; ++i) {
    for (size_t m = 0; m < kM; ++m) {
      for (size_t n = 0; n < kN; ++n) {
        double x = 0;
        for (size_t k = 0; k < kK; ++k) {
          x += static_cast<double>(a[(i * kM + m) * kK + k]) * w[(i % kH * kK + k) * kN + n];
        }
        want[(i * kM + m) * kN + n] = x;
      }
    }
  }
  ExpectClose(y, want, 1e-6);
}

// Weights that are packed, [n][k], and a right side that comes with the run.
TEST(Ops, ProductsOfDoubles) {
  constexpr size_t kM = 21, kN = 37, kK = 700;
  const auto numbers = [](size_t count, unsigned seed) {
    std::mt19937_64 rng(seed);
    std::vector<double> v(count);
    for (double& x : v) x = static_cast<double>(static_cast<int64_t>(rng())) * 0x1p-63;
    return v;
  };
  const std::vector<double> a = numbers(kM * kK, 7), w = numbers(kN * kK, 8);
  quern_matmul_spec spec;
  quern_matmul_spec_init(&spec);
  spec.lhs = spec.rhs = spec.dst = QUERN_F64;
  spec.n = kN;
  spec.k = kK;
  spec.rhs_k_stride = 1;
  spec.rhs_n_stride = kK;
  const Executor two = TwoThreads();
  for (const bool constant : {true, false}) {
    spec.rhs_data = constant ? w.data() : nullptr;
    const Op op = MakeMatMul(spec);
    ASSERT_NE(op, nullptr);
    std::vector<double> y(kM * kN, NAN);
    quern_matmul_args args;
    quern_matmul_args_init(&args);
    args.m = kM;
    args.lhs = a.data();
    args.rhs = constant ? nullptr : w.data();
    args.dst = y.data();
    ASSERT_EQ(RunMatMul(op.get(), args, two.get()), QUERN_OK) << quern_error_message();
    for (size_t m = 0; m < kM; ++m) {
      for (size_t n = 0; n < kN; ++n) {
        double want = 0;
        for (size_t k = 0; k < kK; ++k) want += a[m * kK + k] * w[n * kK + k];
        ASSERT_NEAR(y[m * kN + n], want, 1e-13) << m << "," << n;
      }
    }
  }
}

TEST(Ops, IntegerProductsRequantize) {
  constexpr size_t kM = 5, kN = 34, kK = 70;
  const auto a = RandomBytes<uint8_t>(kM * kK, 7);
  const auto w = RandomBytes<int8_t>(kN * kK, 8);
  std::vector<int32_t> bias(kN);
  std::vector<float> scales(kN);
  for (size_t n = 0; n < kN; ++n) {
    bias[n] = static_cast<int32_t>(n) * 100 - 900;
    scales[n] = 0.0004f + 0.00001f * static_cast<float>(n);
  }
  quern_ops_epilogue epilogue;
  quern_ops_epilogue_init(&epilogue);
  epilogue.bias = bias.data();
  epilogue.scales = scales.data();
  epilogue.zero_point = 3;
  quern_matmul_spec spec;
  quern_matmul_spec_init(&spec);
  spec.lhs = QUERN_U8;
  spec.rhs = spec.dst = QUERN_I8;
  spec.n = kN;
  spec.k = kK;
  spec.rhs_data = w.data();  // [k][n]
  spec.lhs_zero_point = 121;
  spec.epilogue = &epilogue;
  const Op op = MakeMatMul(spec);
  ASSERT_NE(op, nullptr);
  std::vector<int8_t> y(kM * kN);
  quern_matmul_args args;
  quern_matmul_args_init(&args);
  args.m = kM;
  args.lhs = a.data();
  args.dst = y.data();
  ASSERT_EQ(RunMatMul(op.get(), args, nullptr), QUERN_OK) << quern_error_message();
  for (size_t m = 0; m < kM; ++m) {
    for (size_t n = 0; n < kN; ++n) {
      int32_t sum = bias[n];
      for (size_t k = 0; k < kK; ++k) sum += (a[m * kK + k] - 121) * w[k * kN + n];
      const float q = std::nearbyint(static_cast<float>(sum) * scales[n]) + 3.0f;
      ASSERT_EQ(y[m * kN + n], static_cast<int8_t>(std::clamp(q, -128.0f, 127.0f))) << m << "," << n;
    }
  }
}

// float32 rows by 4-bit blocks: the weights as numbers, the rows as numerics.md quantizes them.
TEST(Ops, DynamicRowsByFourBitBlocks) {
  constexpr size_t kM = 4, kN = 24, kK = 96, kBlock = 32, kBlocks = kK / kBlock;
  const auto a = Random(kM * kK, 9), scales = Random(kN * kBlocks, 10);
  const auto w = RandomBytes<uint8_t>(kN * kK / 2, 11);
  quern_matmul_spec spec;
  quern_matmul_spec_init(&spec);
  spec.lhs = spec.dst = spec.scale_type = QUERN_F32;
  spec.rhs = QUERN_U4;
  spec.dynamic_quantization = 1;
  spec.n = kN;
  spec.k = kK;
  spec.rhs_data = w.data();
  spec.block = kBlock;
  spec.scales = scales.data();
  const Op op = MakeMatMul(spec);
  ASSERT_NE(op, nullptr);
  std::vector<float> y(kM * kN, NAN);
  quern_matmul_args args;
  quern_matmul_args_init(&args);
  args.m = kM;
  args.lhs = a.data();
  args.dst = y.data();
  ASSERT_EQ(RunMatMul(op.get(), args, nullptr), QUERN_OK) << quern_error_message();
  std::vector<double> want(y.size());
  for (size_t m = 0; m < kM; ++m) {
    const float* row = a.data() + m * kK;
    const float low = std::min(0.0f, *std::min_element(row, row + kK));
    const float high = std::max(0.0f, *std::max_element(row, row + kK));
    const float s = 255 / (high - low);
    const float zero_low = -128 - low * s, zero_high = 127 - high * s;
    const float zero =
        std::nearbyint(std::clamp((-128 + low * s) + (127 + high * s) > 0 ? zero_low : zero_high, -128.0f, 127.0f));
    for (size_t n = 0; n < kN; ++n) {
      double x = 0;
      for (size_t k = 0; k < kK; ++k) {
        const double q = std::clamp(std::round(row[k] * s) + zero, -128.0f, 127.0f);
        const uint8_t byte = w[n * kK / 2 + k / 2];
        const int nibble = k % 2 ? byte >> 4 : byte & 15;
        x += (q - zero) / static_cast<double>(s) * scales[n * kBlocks + k / kBlock] * (nibble - 8);
      }
      want[m * kN + n] = x;
    }
  }
  ExpectClose(y, want, 1e-5);
}

struct ConvCase {
  size_t channels, filters, groups, kernel, stride, pad;
  const char* algorithm;
};

// Both layouts, against loops; every algorithm is met.
TEST(Ops, ConvolutionsOfBothLayouts) {
  const ConvCase cases[] = {{6, 20, 1, 3, 2, 1, "direct"},
                            {48, 64, 1, 3, 1, 1, nullptr},  // winograd where it is cheaper
                            {24, 24, 24, 3, 1, 1, "depthwise"},
                            {12, 8, 4, 1, 1, 0, "direct"}};
  constexpr size_t kImages = 2, kH = 14, kW = 11;
  const Executor two = TwoThreads();
  for (const ConvCase& c : cases) {
    const size_t per_group = c.channels / c.groups, filters_per_group = c.filters / c.groups;
    const auto x = Random(kImages * c.channels * kH * kW, 12),
               w = Random(c.filters * per_group * c.kernel * c.kernel, 13);
    const auto bias = Random(c.filters, 14);
    quern_ops_epilogue epilogue;
    quern_ops_epilogue_init(&epilogue);
    epilogue.bias = bias.data();
    epilogue.residual = 1;
    epilogue.activation = QUERN_ACTIVATION_RELU;
    for (const quern_conv_layout layout : {QUERN_NHWC, QUERN_NCHW}) {
      SCOPED_TRACE(std::to_string(c.channels) + " channels, layout " + std::to_string(layout));
      quern_conv_spec spec;
      quern_conv_spec_init(&spec);
      spec.input = spec.filters = spec.dst = QUERN_F32;
      spec.layout = layout;
      spec.in_channels = c.channels;
      spec.out_channels = c.filters;
      spec.groups = c.groups;
      for (int d = 0; d < 2; ++d) {
        spec.kernel[d] = c.kernel;
        spec.stride[d] = c.stride;
        spec.pad_begin[d] = spec.pad_end[d] = c.pad;
      }
      spec.filter_data = w.data();
      spec.epilogue = &epilogue;
      quern_op* made = nullptr;
      ASSERT_EQ(quern_ops_conv_create(&spec, nullptr, &made), QUERN_OK) << quern_error_message();
      const Op op(made);
      const size_t in[3] = {kH, kW, 0};
      size_t out[3] = {};
      ASSERT_EQ(quern_ops_conv_output(op.get(), in, out), QUERN_OK);
      ASSERT_EQ(out[0], (kH + 2 * c.pad - c.kernel) / c.stride + 1);
      ASSERT_EQ(out[1], (kW + 2 * c.pad - c.kernel) / c.stride + 1);
      const size_t pixels = out[0] * out[1];
      const auto at = [&](size_t image, size_t channel, size_t y, size_t x0, size_t channels, size_t h, size_t width) {
        return layout == QUERN_NHWC ? ((image * h + y) * width + x0) * channels + channel
                                    : ((image * channels + channel) * h + y) * width + x0;
      };
      const auto residual = Random(kImages * pixels * c.filters, 15);
      std::vector<float> y(residual.size(), NAN);
      quern_conv_args args;
      quern_conv_args_init(&args);
      args.images = kImages;
      args.in[0] = kH;
      args.in[1] = kW;
      args.input = x.data();
      args.dst = y.data();
      args.residual = residual.data();
      size_t bytes = 0;
      ASSERT_EQ(quern_ops_conv_workspace(op.get(), &args, two.get(), &bytes), QUERN_OK);
      Workspace workspace(bytes);
      quern_ops_run run;
      quern_ops_run_init(&run);
      run.executor = two.get();
      run.workspace = workspace.data();
      run.workspace_bytes = workspace.bytes();
      ASSERT_EQ(quern_ops_conv_run(op.get(), &args, &run), QUERN_OK) << quern_error_message();
      std::vector<double> want(y.size());
      for (size_t i = 0; i < kImages; ++i) {
        for (size_t o = 0; o < c.filters; ++o) {
          for (size_t oy = 0; oy < out[0]; ++oy) {
            for (size_t ox = 0; ox < out[1]; ++ox) {
              double sum = bias[o];
              for (size_t ic = 0; ic < per_group; ++ic) {
                for (size_t ky = 0; ky < c.kernel; ++ky) {
                  for (size_t kx = 0; kx < c.kernel; ++kx) {
                    const size_t iy = oy * c.stride + ky - c.pad, ix = ox * c.stride + kx - c.pad;
                    if (iy >= kH || ix >= kW) continue;  // wraps around below 0
                    const size_t channel = o / filters_per_group * per_group + ic;
                    sum += static_cast<double>(x[at(i, channel, iy, ix, c.channels, kH, kW)]) *
                           w[((o * per_group + ic) * c.kernel + ky) * c.kernel + kx];
                  }
                }
              }
              const size_t place = at(i, o, oy, ox, c.filters, out[0], out[1]);
              want[place] = std::max(0.0, sum + residual[place]);
            }
          }
        }
      }
      ExpectClose(y, want, 2e-6);
      char* json = nullptr;
      ASSERT_EQ(quern_ops_explain(op.get(), pixels, &json), QUERN_OK);
      const std::string text = json;
      quern_buffer_free(json);
      EXPECT_THAT(text, HasSubstr("\"op\":\"conv\""));
      if (c.algorithm) {
        EXPECT_THAT(text, HasSubstr(std::string("\"algorithm\":\"") + c.algorithm + "\""));
      }
    }
  }
}

TEST(Ops, AttentionWithMaskAndSharedHeads) {
  constexpr size_t kB = 2, kHeads = 4, kKv = 2, kQ = 13, kKeys = 19, kSize = 16;
  const auto q = Random(kB * kHeads * kQ * kSize, 16), k = Random(kB * kKv * kKeys * kSize, 17);
  const auto v = Random(kB * kKv * kKeys * kSize, 18);
  auto mask = Random(kQ * kKeys, 19);
  for (size_t i = 0; i < mask.size(); i += 5) mask[i] = -INFINITY;
  quern_attention_spec spec;
  quern_attention_spec_init(&spec);
  spec.batch = kB;
  spec.heads = kHeads;
  spec.kv_heads = kKv;
  spec.queries = kQ;
  spec.keys = kKeys;
  spec.head_size = kSize;
  spec.causal = 1;
  spec.concurrency = 2;
  // Queries and results with the heads inside: [batch][rows][heads][size].
  const ptrdiff_t inside[3] = {kQ * kHeads * kSize, kSize, kHeads * kSize};
  std::copy(inside, inside + 3, spec.q_strides);
  std::copy(inside, inside + 3, spec.y_strides);
  quern_op* made = nullptr;
  ASSERT_EQ(quern_ops_attention_create(&spec, nullptr, &made), QUERN_OK) << quern_error_message();
  const Op op(made);
  size_t bytes = 0;
  ASSERT_EQ(quern_ops_attention_workspace(op.get(), &bytes), QUERN_OK);
  Workspace workspace(bytes);
  const Executor two = TwoThreads();
  std::vector<float> y(q.size(), NAN);
  quern_attention_args args;
  quern_attention_args_init(&args);
  args.q = q.data();
  args.k = k.data();
  args.v = v.data();
  args.y = y.data();
  args.mask = mask.data();
  args.mask_strides[2] = kKeys;
  quern_ops_run run;
  quern_ops_run_init(&run);
  run.executor = two.get();
  run.workspace = workspace.data();
  run.workspace_bytes = workspace.bytes();
  ASSERT_EQ(quern_ops_attention_run(op.get(), &args, &run), QUERN_OK) << quern_error_message();
  std::vector<double> want(y.size());
  for (size_t b = 0; b < kB; ++b) {
    for (size_t h = 0; h < kHeads; ++h) {
      const size_t kv = (b * kKv + h / (kHeads / kKv)) * kKeys * kSize;
      for (size_t i = 0; i < kQ; ++i) {
        const size_t row = b * inside[0] + h * kSize + i * kHeads * kSize;
        std::vector<double> p(kKeys, -INFINITY);
        double largest = -INFINITY, sum = 0;
        for (size_t j = 0; j <= kKeys - kQ + i; ++j) {
          double score = 0;
          for (size_t d = 0; d < kSize; ++d) score += static_cast<double>(q[row + d]) * k[kv + j * kSize + d];
          p[j] = score / std::sqrt(static_cast<double>(kSize)) + mask[i * kKeys + j];
          largest = std::max(largest, p[j]);
        }
        for (double& x : p) sum += x = std::exp(x - largest);
        for (size_t d = 0; d < kSize; ++d) {
          double x = 0;
          for (size_t j = 0; j < kKeys; ++j) x += p[j] / sum * v[kv + j * kSize + d];
          want[row + d] = x;
        }
      }
    }
  }
  ExpectClose(y, want, 2e-6);
}

// 16 bits of numbers that these hold exactly, and back.
uint16_t BitsOf(quern_dtype type, float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  if (type == QUERN_BF16 || x == 0) return static_cast<uint16_t>(u >> 16);
  return static_cast<uint16_t>((u >> 16 & 0x8000) | ((u >> 13 & 0x3ffff) - (112u << 10)));
}
double ValueOf(quern_dtype type, const char* at) {
  float x;
  if (type == QUERN_F32) {
    std::memcpy(&x, at, 4);
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  if (type == QUERN_BF16) {
    const uint32_t u = static_cast<uint32_t>(bits) << 16;
    std::memcpy(&x, &u, 4);
    return x;
  }
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = std::ldexp(exponent ? 1024 + fraction : fraction, std::max(exponent, 1) - 25);
  return bits & 0x8000 ? -size : size;
}

// Heads of bfloat16 and float16, and caches of float16 for queries of float32.
TEST(Ops, AttentionOfOtherTypes) {
  constexpr size_t kHeads = 2, kQ = 5, kKeys = 12, kSize = 8;
  const struct {
    quern_dtype q, kv, y;
    double rounded;
  } cases[] = {{QUERN_BF16, QUERN_UNDEFINED, QUERN_UNDEFINED, 0x1p-7},
               {QUERN_F16, QUERN_F16, QUERN_F16, 0x1p-10},
               {QUERN_UNDEFINED, QUERN_F16, QUERN_UNDEFINED, 2e-6}};
  for (const auto& c : cases) {
    quern_attention_spec spec;
    quern_attention_spec_init(&spec);
    spec.batch = 1;
    spec.heads = kHeads;
    spec.queries = kQ;
    spec.keys = kKeys;
    spec.head_size = kSize;
    spec.q_type = c.q;
    spec.kv_type = c.kv;
    spec.y_type = c.y;
    quern_op* made = nullptr;
    ASSERT_EQ(quern_ops_attention_create(&spec, nullptr, &made), QUERN_OK) << quern_error_message();
    const Op op(made);
    const auto type = [&](quern_dtype t) { return t ? t : c.q ? c.q : QUERN_F32; };
    // Small multiples of 1/4 are the same numbers in all types.
    const auto bytes_of = [&](quern_dtype t, const std::vector<float>& x) {
      std::vector<char> bytes;
      for (const float f : x) {
        const uint16_t bits = BitsOf(t, f);
        const char* from = t == QUERN_F32 ? reinterpret_cast<const char*>(&f) : reinterpret_cast<const char*>(&bits);
        bytes.insert(bytes.end(), from, from + (t == QUERN_F32 ? 4 : 2));
      }
      return bytes;
    };
    const auto quarters = [](size_t n, unsigned seed) {
      std::vector<float> x = Random(n, seed);
      for (float& f : x) f = std::nearbyint(4 * f) / 4;
      return x;
    };
    const std::vector<float> q = quarters(kHeads * kQ * kSize, 20), k = quarters(kHeads * kKeys * kSize, 21),
                             v = quarters(kHeads * kKeys * kSize, 22);
    const std::vector<char> q_bytes = bytes_of(type(c.q), q), k_bytes = bytes_of(type(c.kv), k),
                            v_bytes = bytes_of(type(c.kv), v);
    std::vector<char> y_bytes = bytes_of(type(c.y), std::vector<float>(q.size()));
    size_t bytes = 0;
    ASSERT_EQ(quern_ops_attention_workspace(op.get(), &bytes), QUERN_OK);
    Workspace workspace(bytes);
    quern_attention_args args;
    quern_attention_args_init(&args);
    args.q = q_bytes.data();
    args.k = k_bytes.data();
    args.v = v_bytes.data();
    args.y = y_bytes.data();
    quern_ops_run run;
    quern_ops_run_init(&run);
    run.workspace = workspace.data();
    run.workspace_bytes = workspace.bytes();
    ASSERT_EQ(quern_ops_attention_run(op.get(), &args, &run), QUERN_OK) << quern_error_message();
    for (size_t row = 0; row < kHeads * kQ; ++row) {
      const size_t keys = row / kQ * kKeys * kSize;
      std::vector<double> p(kKeys);
      double sum = 0;
      for (size_t j = 0; j < kKeys; ++j) {
        double score = 0;
        for (size_t d = 0; d < kSize; ++d) score += static_cast<double>(q[row * kSize + d]) * k[keys + j * kSize + d];
        sum += p[j] = std::exp(score / std::sqrt(static_cast<double>(kSize)));
      }
      for (size_t d = 0; d < kSize; ++d) {
        double want = 0;
        for (size_t j = 0; j < kKeys; ++j) want += p[j] / sum * v[keys + j * kSize + d];
        const char* at = y_bytes.data() + (row * kSize + d) * (type(c.y) == QUERN_F32 ? 4 : 2);
        EXPECT_NEAR(ValueOf(type(c.y), at), want, c.rounded);
      }
    }
  }
  quern_attention_spec spec;
  quern_attention_spec_init(&spec);
  spec.heads = spec.head_size = 1;
  spec.kv_type = QUERN_I8;
  quern_op* op = nullptr;
  EXPECT_EQ(quern_ops_attention_create(&spec, nullptr, &op), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("spec.kv_type"));
}

TEST(Ops, ExplainsTheChoice) {
  const std::vector<float> w(64 * 64);
  quern_matmul_spec spec;
  quern_matmul_spec_init(&spec);
  spec.lhs = spec.rhs = spec.dst = QUERN_F32;
  spec.n = spec.k = 64;
  spec.rhs_data = w.data();
  quern_ops_options options;
  quern_ops_options_init(&options);
  options.cpu = "generic";
  const Op op = MakeMatMul(spec, &options);
  ASSERT_NE(op, nullptr);
  char* json = nullptr;
  ASSERT_EQ(quern_ops_explain(op.get(), 7, &json), QUERN_OK);
  const std::string text = json;
  quern_buffer_free(json);
  EXPECT_THAT(text, HasSubstr("\"cpu\":\"generic\""));
  EXPECT_THAT(text, HasSubstr("\"m\":7"));
  EXPECT_THAT(text, HasSubstr("_portable\",\"layout\""));
  EXPECT_THAT(text, HasSubstr("\"reason\":\"needs avx\""));
}

TEST(Ops, ErrorsNameTheField) {
  const std::vector<float> w(64 * 64);
  quern_matmul_spec spec;
  quern_matmul_spec_init(&spec);
  spec.lhs = spec.rhs = spec.dst = QUERN_F32;
  spec.n = spec.k = 64;
  spec.rhs_data = w.data();
  quern_op* op = nullptr;
  const auto fails = [&](const quern_matmul_spec& s, const char* why) {
    EXPECT_EQ(quern_ops_matmul_create(&s, nullptr, &op), QUERN_INVALID_ARGUMENT);
    EXPECT_THAT(quern_error_message(), HasSubstr(why));
  };
  quern_matmul_spec wrong = spec;
  wrong.dst = QUERN_I8;
  fails(wrong, "dst is i8");
  wrong = spec;
  wrong.lhs = QUERN_STRING;
  fails(wrong, "spec.lhs");
  wrong = spec;
  wrong.lhs = QUERN_F64;
  fails(wrong, "spec.lhs and spec.rhs");
  wrong.rhs = QUERN_F64;
  fails(wrong, "spec.dst is f32");
  wrong = spec;
  wrong.n = SIZE_MAX / 2;
  fails(wrong, "spec.n and spec.k are too large");
  wrong = spec;
  wrong.rhs = QUERN_U4;
  wrong.dynamic_quantization = 1;
  fails(wrong, "spec.block");
  wrong = spec;
  wrong.struct_size = 0;
  fails(wrong, "spec.struct_size");
  const Op good = MakeMatMul(spec);
  std::vector<float> x(64), y(64);
  quern_matmul_args args;
  quern_matmul_args_init(&args);
  args.m = 1;
  args.lhs = x.data();
  args.dst = y.data();
  quern_ops_run run;
  quern_ops_run_init(&run);
  size_t bytes = 0;
  ASSERT_EQ(quern_ops_matmul_workspace(good.get(), &args, nullptr, &bytes), QUERN_OK);
  ASSERT_GT(bytes, 0u);
  EXPECT_EQ(quern_ops_matmul_run(good.get(), &args, &run), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("workspace"));
  args.dst = nullptr;
  EXPECT_EQ(quern_ops_matmul_run(good.get(), &args, &run), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("args.dst"));
  EXPECT_EQ(quern_ops_conv_run(good.get(), nullptr, &run), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("no convolution"));
  quern_conv_spec conv;
  quern_conv_spec_init(&conv);
  conv.input = conv.filters = conv.dst = QUERN_F32;
  conv.in_channels = 6;
  conv.out_channels = 4;
  conv.groups = 4;
  conv.kernel[0] = conv.kernel[1] = 3;
  conv.filter_data = w.data();
  EXPECT_EQ(quern_ops_conv_create(&conv, nullptr, &op), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_error_message(), HasSubstr("spec.groups"));
}

}  // namespace
