// Operators that carry a state from token to token, and the gates and rotations of their models, on random cases.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

Case Microsoft(const std::string& op) { return {.op = op, .domain = "com.microsoft"}; }

TEST_F(CpuOps, MRotaryEmbeddings) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const bool flat = Draw(0, 1) != 0, whole = Draw(0, 1) != 0;
    const int64_t batch = Draw(1, 3), length = Draw(0, 9), heads = Draw(1, 40), rows = 12;
    const std::vector<int64_t> sections = {Draw(0, 4), Draw(0, 4), Draw(1, 12)};
    const int64_t half = sections[0] + sections[1] + sections[2], size = 2 * half + (whole ? 0 : Draw(0, 5));
    Case c = Microsoft("MRotaryEmbedding");
    c.relative = c.absolute = 2e-6;
    c.In(DrawTensor(DType::kF32, flat ? Shape{batch, length, heads * size} : Shape{batch, heads, length, size}, 1));
    Tensor positions = Tensor::Allocate(DType::kI64, Shape{3, batch, length}).value();
    for (int64_t& p : positions.values<int64_t>()) p = Draw(0, rows - 1);
    c.In(std::move(positions));
    for (int k = 0; k < 2; ++k) c.In(DrawTensor(DType::kF32, Shape{rows, half}, 0.5f), Draw(0, 1) != 0);
    if (flat || Draw(0, 1)) c.Attr("num_heads", heads);
    if (!whole) c.Attr("rotary_embedding_dim", 2 * half);
    if (Draw(0, 3) == 0) c.Attr("scale", 0.75f);
    c.Attr("mrope_section", sections).Attr("mrope_layout", Draw(0, 1)).Attr("interleaved", Draw(0, 1));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, MRotaryEmbeddingsRefusePositionsOutside) {
  for (const int64_t position : {int64_t{-1}, int64_t{6}, std::numeric_limits<int64_t>::min()}) {
    Case c = Microsoft("MRotaryEmbedding");
    Tensor positions = Tensor::Allocate(DType::kI64, Shape{3, 1, 2}).value();
    for (int64_t& p : positions.values<int64_t>()) p = 5;
    positions.values<int64_t>()[Draw(0, 5)] = position;
    c.In(DrawTensor(DType::kF32, Shape{1, 2, 8})).In(std::move(positions));
    for (int i = 0; i < 2; ++i) c.In(DrawTensor(DType::kF32, Shape{6, 2}), true);
    c.Attr("num_heads", int64_t{2}).Attr("mrope_section", std::vector<int64_t>{2, 0, 0});
    Built b;
    ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
    const Result<std::vector<Tensor>> run = RunOnCpu(b.graph, b.inputs, Config(false));
    ASSERT_FALSE(run.ok());
    EXPECT_NE(run.status().message().find("outside of the caches of 6 rows"), std::string::npos);
  }
}

// Now and then as long as chunks of work are, or with channels for several of them.
TEST_F(CpuOps, CausalConvsWithState) {
  for (int i = 0; i < 10 * kRounds; ++i) {
    const bool microsoft = Draw(0, 2) != 0, channels_last = microsoft && Draw(0, 1);
    const int64_t taps = Draw(1, 5), dilation = microsoft && Draw(0, 1) ? Draw(1, 3) : 1, kept = (taps - 1) * dilation;
    const bool is_long = Draw(0, 9) == 0, is_wide = !is_long && Draw(0, 9) == 0;
    const int64_t batch = Draw(0, 19) == 0 ? 0 : Draw(1, 3), length = is_long ? Draw(500, 1100) : Draw(0, 12);
    Shape parts = {is_wide ? Draw(500, 1100) : Draw(1, 9)};
    if (channels_last && Draw(0, 1)) parts.push_back(Draw(1, 3));
    const int64_t channels = parts.num_elements();
    const auto lay = [&](int64_t extent) {
      if (!channels_last) return Shape{batch, channels, extent};
      Shape s{batch, extent};
      for (int d = 0; d < parts.rank(); ++d) s.push_back(parts[d]);
      return s;
    };
    Case c = microsoft ? Microsoft("CausalConvWithState") : Case{.op = "CausalConvWithState", .opset = 27};
    c.outputs = 2;
    c.absolute = ErrorOfSum(taps, 4);
    c.In(DrawTensor(DType::kF32, lay(length))).In(DrawTensor(DType::kF32, Shape{channels, 1, taps}), Draw(0, 1) != 0);
    Draw(0, 1) ? c.In(DrawTensor(DType::kF32, Shape{channels})) : c.Omit();
    if (Draw(0, 1)) c.In(DrawTensor(DType::kF32, lay(kept)));
    if (microsoft) c.Attr("dilation", dilation).Attr("channels_last", int64_t{channels_last});
    c.Attr("activation", std::string(Pick({"none", "silu", "swish"})));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, LinearAttentions) {
  for (const std::string rule : {"linear", "gated", "delta", "gated_delta"}) {
    const bool decays = rule.starts_with("gated"), corrects = rule.ends_with("delta");
    for (int i = 0; i < 4 * kRounds; ++i) {
      const bool microsoft = Draw(0, 2) != 0;
      const int64_t batch = Draw(0, 19) == 0 ? 0 : Draw(1, 2), key_heads = Draw(1, 3);
      const int64_t length = Draw(0, 2) ? Draw(0, 9) : Draw(14, 50);  // within a chunk, or several
      const int64_t heads = key_heads * (microsoft ? Draw(1, 2) : 1);
      const int64_t q_heads = microsoft && Draw(0, 2) == 0 ? key_heads : heads * Draw(1, 3);
      const int64_t key_size = Draw(1, 20), value_size = Draw(0, 3) == 0 ? Draw(60, 140) : Draw(1, 20);
      Case c = microsoft ? Microsoft("LinearAttention") : Case{.op = "LinearAttention", .opset = 27};
      c.outputs = 2;
      c.relative = 1e-5;
      c.absolute = ErrorOfSum(key_size * (length + 1), 1);
      // Keys of a length below one, as the delta rule needs, else states grow.
      const auto draw = [&](int64_t columns, float scale) {
        return DrawTensor(DType::kF32, Shape{batch, length, columns}, scale);
      };
      c.In(draw(q_heads * key_size, 0.5f))
          .In(draw(key_heads * key_size, 0.5f / std::sqrt(static_cast<float>(key_size))));
      c.In(draw(heads * value_size, 1));
      Draw(0, 1) ? c.In(DrawTensor(DType::kF32, Shape{batch, heads, key_size, value_size}, 1)) : c.Omit();
      const bool idle = microsoft && Draw(0, 3) == 0;  // inputs that the rule has no use for
      if (decays || idle) {
        c.In(draw(heads * (Draw(0, 1) ? key_size : 1), 0.2f));
      } else {
        c.Omit();
      }
      if (corrects || idle) c.In(draw(Draw(0, 1) ? heads : 1, 0.5f));
      c.Attr("q_num_heads", q_heads).Attr("kv_num_heads", heads).Attr("update_rule", rule);
      if (Draw(0, 1)) c.Attr("scale", 0.5f);
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

TEST_F(CpuOps, LinearAttentionGates) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    Shape shape = DrawShape(1, 3);
    if (Draw(0, 5) == 0) shape = {2, Draw(400, 900), Draw(8, 40)};
    Case c = Microsoft("LinearAttentionGate");
    const bool both = Draw(0, 1) != 0;
    c.outputs = both ? 2 : 1;
    c.In(DrawTensor(DType::kF32, shape, 8));
    for (int k = 0; k < 2; ++k) c.In(DrawTensor(DType::kF32, Shape{shape.back()}), Draw(0, 1) != 0);
    if (both || Draw(0, 1)) c.In(DrawTensor(DType::kF32, shape, 8));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

}  // namespace
}  // namespace quern::cpu
