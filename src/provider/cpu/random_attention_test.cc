// Attention operators and what comes with them, on random cases against the reference.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

Case Microsoft(const char* op) {
  Case c{.op = op, .domain = "com.microsoft"};
  c.relative = 2e-5;
  c.absolute = 2e-5;
  return c;
}

Tensor DrawInts(const Shape& shape, int64_t low, int64_t high) {
  Tensor t = Tensor::Allocate(DType::kI32, shape).value();
  for (int64_t i = 0; i < t.num_elements(); ++i) t.data<int32_t>()[i] = static_cast<int32_t>(Draw(low, high));
  return t;
}

// Now and then so many keys and queries that blocks are split, and several reaches of causal queries are prepared.
struct Extents {
  int64_t batch = Draw(1, 3), heads = Draw(1, 4), size = Draw(1, 17), value_size = Draw(1, 17);
  bool large = Draw(0, 11) == 0;
  int64_t queries = large ? Draw(257, 400) : Draw(1, 9), keys = large ? Draw(257, 400) : Draw(1, 9);
};

TEST_F(CpuOps, Attention) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    Extents e;
    const int64_t group = Draw(1, 3), past = Draw(0, 2) == 0 ? Draw(1, 6) : 0;
    if (Draw(0, 20) == 0) e.queries = 0;
    const bool flat = Draw(0, 1) != 0;
    Case c{.op = "Attention", .opset = Pick({23, 24})};
    c.relative = c.absolute = 2e-5;
    const auto heads = [&](int64_t count, int64_t rows, int64_t size) {
      return DrawTensor(DType::kF32, flat ? Shape{e.batch, rows, count * size} : Shape{e.batch, count, rows, size}, 1);
    };
    c.In(heads(e.heads * group, e.queries, e.size));
    c.In(heads(e.heads, e.keys, e.size)).In(heads(e.heads, e.keys, e.value_size));
    const int64_t total = past + e.keys;
    switch (Draw(0, 3)) {
      case 0:
      case 1: {
        Shape mask{Pick({int64_t{1}, e.batch}), Pick({int64_t{1}, e.heads * group}), Pick({int64_t{1}, e.queries}),
                   Draw(0, 3) == 0 ? Draw(1, total) : total};
        for (int64_t n = Draw(0, 3); n > 0; --n) mask = Shape(std::span<const int64_t>(mask.begin() + 1, mask.end()));
        Tensor t = DrawTensor(Pick({DType::kBool, DType::kF32}), mask, 1);
        if (t.dtype() == DType::kF32) {
          for (float& x : t.values<float>()) {
            if (Draw(0, 3) == 0) x = Pick({-INFINITY, -10000.0f, std::numeric_limits<float>::lowest()});
          }
        }
        c.In(std::move(t));
        break;
      }
      default:
        c.Omit();
    }
    if (past > 0) {
      c.In(DrawTensor(DType::kF32, Shape{e.batch, e.heads, past, e.size}, 1));
      c.In(DrawTensor(DType::kF32, Shape{e.batch, e.heads, past, e.value_size}, 1));
    } else if (c.opset >= 24 && Draw(0, 2) == 0) {
      c.Omit().Omit();
      Tensor lengths = Tensor::Allocate(DType::kI64, Shape{e.batch}).value();
      for (int64_t& n : lengths.values<int64_t>()) n = Draw(0, e.keys);
      c.In(std::move(lengths));
    }
    if (flat) c.Attr("q_num_heads", e.heads * group).Attr("kv_num_heads", e.heads);
    if (Draw(0, 1)) c.Attr("is_causal", int64_t{1});
    if (Draw(0, 2) == 0) c.Attr("scale", 0.7f);
    if (Draw(0, 2) == 0) c.Attr("softcap", 1.5f);
    c.outputs = past > 0 ? 3 : static_cast<int>(Draw(0, 1)) * 2 + 1;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// Blocks of one head follow each other, with the same keys and values, and end with another head's.
TEST_F(CpuOps, AttentionOfManyBlocks) {
  for (const bool adds : {false, true}) {
    Case c{.op = "Attention", .opset = 23};
    c.relative = c.absolute = 2e-5;
    for (const int64_t rows : {600, 300, 300}) c.In(DrawTensor(DType::kF32, Shape{1, 2, rows, 5}, 1));
    if (adds) c.In(DrawTensor(DType::kF32, Shape{600, 300}, 1));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, AttentionWindows) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Extents e;
    Case c{.op = "Attention", .opset = 25};
    c.relative = c.absolute = 2e-5;
    c.In(DrawTensor(DType::kF32, Shape{e.batch, e.heads, e.queries, e.size}, 1));
    c.In(DrawTensor(DType::kF32, Shape{e.batch, e.heads, e.keys, e.size}, 1));
    c.In(DrawTensor(DType::kF32, Shape{e.batch, e.heads, e.keys, e.value_size}, 1));
    c.Attr("left_window_size", Draw(-1, 5)).Attr("right_window_size", Draw(-1, 5));
    if (Draw(0, 1)) c.Attr("is_causal", int64_t{1});
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// What no query sees does not count, whatever it is; what a query sees does.
TEST_F(CpuOps, AttentionBesideNan) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const int64_t batch = Draw(1, 2), heads = Draw(1, 3), queries = Draw(1, 6), keys = Draw(1, 9), size = Draw(1, 9);
    Case c{.op = "Attention", .opset = 23};
    c.relative = c.absolute = 2e-5;
    c.In(DrawTensor(DType::kF32, Shape{batch, heads, queries, size}, 1));
    Tensor k = DrawTensor(DType::kF32, Shape{batch, heads, keys, size}, 1);
    Tensor v = DrawTensor(DType::kF32, Shape{batch, heads, keys, size}, 1);
    Tensor mask = Tensor::Allocate(DType::kBool, Shape{queries, keys}).value();
    const int64_t hidden = Draw(0, keys - 1);
    for (int64_t j = 0; j < queries * keys; ++j) {
      mask.data<bool>()[j] = j % keys != hidden || (Draw(0, 4) == 0 && i % 2 == 0);
    }
    for (int64_t b = 0; b < batch * heads; ++b) {
      k.data<float>()[(b * keys + hidden) * size] = Pick({NAN, INFINITY, -INFINITY, 1.0f});
      v.data<float>()[(b * keys + hidden) * size] = Pick({NAN, INFINITY, -INFINITY});
    }
    c.In(std::move(k)).In(std::move(v)).In(std::move(mask));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// A mask of one of the forms that the operators of com.microsoft take, or none.
void AddMask(Case& c, const Extents& e, int64_t queries, int64_t keys, int64_t past) {
  const int64_t total = past + keys;
  switch (Draw(0, 8)) {
    case 0:
      c.In(DrawInts(Shape{e.batch}, 0, total));
      break;
    case 1:
      c.In(DrawInts(Shape{2 * e.batch}, 0, total));
      break;
    case 2:
      c.In(DrawInts(Shape{3 * e.batch + 2}, 0, total));
      break;
    case 3:
      c.In(DrawInts(Shape{e.batch, total}, 0, 1));
      break;
    case 4:
      c.In(DrawInts(Shape{e.batch, keys}, 0, 1));
      break;
    case 5:
      c.In(DrawInts(Shape{e.batch, queries, total}, -1, 1));
      break;
    case 6:
      if (queries != keys) {
        c.Omit();
        break;
      }
      c.In(DrawInts(Shape{e.batch, 1, total + 2, total + 2}, 0, 1));
      break;
    case 7:
      c.In(DrawInts(Shape{1, 1}, 0, 1));
      break;
    default:
      c.Omit();
  }
}

void AddBiases(Case& c, const Extents& e, int64_t queries, int64_t total) {
  if (Draw(0, 1)) {
    c.Omit();
    return;
  }
  const Shape shape{Pick({int64_t{1}, e.batch}), Pick({int64_t{1}, e.heads}), queries, total};
  c.In(DrawTensor(DType::kF32, shape, 1));
}

void AddOptions(Case& c) {
  if (Draw(0, 1)) c.Attr("unidirectional", int64_t{1});
  if (Draw(0, 2) == 0) c.Attr("scale", 0.6f);
  if (Draw(0, 2) == 0) c.Attr("mask_filter_value", Pick({-3.4028235e38f, -5.0f}));
}

TEST_F(CpuOps, PackedAttention) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    Extents e;
    const int64_t past = Draw(0, 1) ? Draw(1, 6) : 0, width = Draw(1, 20);
    const bool caches = past > 0 || Draw(0, 1);
    if (caches) e.value_size = e.size;
    const int64_t columns = e.heads * (2 * e.size + e.value_size);
    Case c = Microsoft("Attention");
    c.In(DrawTensor(DType::kF32, Shape{e.batch, e.queries, width}, 1));
    c.In(DrawTensor(DType::kF32, Shape{width, columns}, 0.5f), Draw(0, 3) != 0);
    if (Draw(0, 3) == 0) {
      c.Omit();
    } else {
      c.In(DrawTensor(DType::kF32, Shape{columns}, 1), Draw(0, 3) != 0);
    }
    AddMask(c, e, e.queries, e.queries, past);
    if (past > 0) {
      c.In(DrawTensor(DType::kF32, Shape{2, e.batch, e.heads, past, e.size}, 1));
    } else {
      c.Omit();
    }
    AddBiases(c, e, e.queries, past + e.queries);
    c.Attr("num_heads", e.heads);
    if (e.size != e.value_size || Draw(0, 1)) {
      c.Attr("qkv_hidden_sizes", std::vector<int64_t>{e.heads * e.size, e.heads * e.size, e.heads * e.value_size});
    }
    AddOptions(c);
    c.outputs = caches ? 2 : 1;
    c.absolute = 1e-4;
    c.relative = 1e-4;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, QuantizedAttention) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Extents e;
    const int64_t past = Draw(0, 1) ? Draw(1, 6) : 0, width = Draw(1, 20), columns = 3 * e.heads * e.size;
    const DType x_type = Pick({DType::kI8, DType::kU8}), w_type = Pick({DType::kI8, DType::kU8});
    const bool constant = Draw(0, 3) != 0;
    const Shape scales = Draw(0, 1) ? Shape{columns} : Shape{1};
    Case c = Microsoft("QAttention");
    c.In(DrawTensor(x_type, Shape{e.batch, e.queries, width})).In(DrawTensor(w_type, Shape{width, columns}), constant);
    c.In(DrawTensor(DType::kF32, Shape{columns}, 1), constant);
    Tensor w_scale = DrawTensor(DType::kF32, scales, 0.001f);
    c.In(Tensor::Scalar(0.01f)).In(std::move(w_scale), constant);
    AddMask(c, e, e.queries, e.queries, past);
    if (Draw(0, 1)) {
      c.In(DrawTensor(x_type, Shape{})).In(DrawTensor(w_type, scales), constant);
    } else {
      c.Omit().Omit();
    }
    if (past > 0) c.In(DrawTensor(DType::kF32, Shape{2, e.batch, e.heads, past, e.size}, 1));
    c.Attr("num_heads", e.heads);
    AddOptions(c);
    c.outputs = past > 0 || Draw(0, 1) ? 2 : 1;
    c.absolute = c.relative = 1e-4;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, MultiHeadAttention) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    Extents e;
    const int form = static_cast<int>(Draw(0, 3));  // apart, packed keys, all packed, keys that are a past
    const int64_t past = form != 3 && Draw(0, 2) == 0 ? Draw(1, 6) : 0;
    if (form == 1 || form == 2) e.value_size = e.size;
    if (form == 2) e.keys = e.queries;
    Case c = Microsoft("MultiHeadAttention");
    const auto flat = [&](int64_t rows, int64_t size) {
      return DrawTensor(DType::kF32, Shape{e.batch, rows, e.heads * size}, 1);
    };
    if (form == 2) {
      c.In(DrawTensor(DType::kF32, Shape{e.batch, e.queries, e.heads, 3, e.size}, 1)).Omit().Omit();
    } else {
      c.In(flat(e.queries, e.size));
      if (form == 0) c.In(flat(e.keys, e.size)).In(flat(e.keys, e.value_size));
      if (form == 1) c.In(DrawTensor(DType::kF32, Shape{e.batch, e.keys, e.heads, 2, e.size}, 1)).Omit();
      if (form == 3) {
        c.In(DrawTensor(DType::kF32, Shape{e.batch, e.heads, e.keys, e.size}, 1));
        c.In(DrawTensor(DType::kF32, Shape{e.batch, e.heads, e.keys, e.value_size}, 1));
      }
    }
    if (Draw(0, 1)) {
      c.In(DrawTensor(DType::kF32, Shape{e.heads * (2 * e.size + e.value_size)}, 1), Draw(0, 1) != 0);
    } else {
      c.Omit();
    }
    AddMask(c, e, e.queries, e.keys, past);
    AddBiases(c, e, e.queries, past + e.keys);
    if (past > 0) {
      c.In(DrawTensor(DType::kF32, Shape{e.batch, e.heads, past, e.size}, 1));
      c.In(DrawTensor(DType::kF32, Shape{e.batch, e.heads, past, e.value_size}, 1));
    }
    c.Attr("num_heads", e.heads);
    AddOptions(c);
    c.outputs = past > 0 || Draw(0, 1) ? 3 : 1;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, GroupQueryAttention) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const int64_t batch = Draw(1, 3), kv_heads = Draw(1, 3), group = Draw(1, 4), heads = kv_heads * group;
    const bool rotates = Draw(0, 1) != 0, prompt = Draw(0, 1) != 0, packed = Draw(0, 1) != 0;
    const int64_t size = 2 * Draw(1, 9), length = prompt ? Draw(1, Draw(0, 5) == 0 ? 300 : 7) : Draw(1, 3);
    const int64_t past_rows = prompt ? Draw(0, 9) : Draw(1, 9);
    const int64_t total = prompt ? length : length + Draw(1, past_rows);
    Case c = Microsoft("GroupQueryAttention");
    c.In(DrawTensor(DType::kF32, Shape{batch, length, (packed ? heads + 2 * kv_heads : heads) * size}, 1));
    if (packed) {
      c.Omit().Omit();
    } else {
      c.In(DrawTensor(DType::kF32, Shape{batch, length, kv_heads * size}, 1));
      c.In(DrawTensor(DType::kF32, Shape{batch, length, kv_heads * size}, 1));
    }
    if (past_rows > 0) {
      c.In(DrawTensor(DType::kF32, Shape{batch, kv_heads, past_rows, size}, 1));
      c.In(DrawTensor(DType::kF32, Shape{batch, kv_heads, past_rows, size}, 1));
    } else {
      c.Omit().Omit();
    }
    c.In(DrawInts(Shape{batch, 1}, prompt ? 0 : length - 1, total - 1));
    c.In(Tensor::FromValues<int32_t>(Shape{1}, std::vector<int32_t>{static_cast<int32_t>(total)}), true);
    const int64_t half = Draw(1, size / 2), angles = 320;
    if (rotates) {
      c.In(DrawTensor(DType::kF32, Shape{angles, half}, 0.5f), true);
      c.In(DrawTensor(DType::kF32, Shape{angles, half}, 0.5f), true);
      c.Attr("do_rotary", int64_t{1}).Attr("rotary_interleaved", Draw(0, 1));
      if (Draw(0, 1)) {
        Tensor positions = Tensor::Allocate(DType::kI64, Shape{batch, length}).value();
        for (int64_t& p : positions.values<int64_t>()) p = Draw(0, 20);
        c.In(std::move(positions));
      } else {
        c.Omit();
      }
    } else {
      c.Omit().Omit().Omit();
    }
    if (Draw(0, 2) == 0) {
      c.In(DrawTensor(DType::kF32, Shape{Pick({int64_t{1}, batch}), Pick({int64_t{1}, heads}), length, total}, 1));
    } else {
      c.Omit();
    }
    if (Draw(0, 2) == 0) c.In(DrawTensor(DType::kF32, Shape{heads}, 1));
    c.Attr("num_heads", heads).Attr("kv_num_heads", kv_heads);
    if (Draw(0, 2) == 0) c.Attr("local_window_size", Draw(1, 5));
    if (Draw(0, 2) == 0) c.Attr("softcap", 1.2f);
    if (Draw(0, 2) == 0) c.Attr("smooth_softmax", int64_t{1});
    if (Draw(0, 2) == 0) c.Attr("scale", 0.4f);
    c.outputs = 3;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// Runs a case that the operator takes but whose content it must refuse.
void ExpectRefused(const Case& c, const std::string& what) {
  SCOPED_TRACE(c.ToString());
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
  ASSERT_EQ(FindCpuOp(c.domain, c.op)->reject(*b.node, Config(false)), "");
  const Result<std::vector<Tensor>> run = RunOnCpu(b.graph, b.inputs, Config(false));
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.status().message().find(what), std::string::npos) << run.status().message();
  EXPECT_FALSE(EvaluateGraph(b.graph, b.inputs).ok());
}

TEST_F(CpuOps, AttentionRefusesLengthsAndPositionsOutside) {
  const auto lengths = [](DType dtype, int64_t value) {
    Tensor t = Tensor::Allocate(dtype, Shape{1}).value();
    if (dtype == DType::kI32) *t.data<int32_t>() = static_cast<int32_t>(value);
    if (dtype == DType::kI64) *t.data<int64_t>() = value;
    return t;
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  for (const int64_t n : {int64_t{-1}, int64_t{6}, kMost, kLeast}) {
    Case c{.op = "Attention", .opset = 24};
    for (int i = 0; i < 3; ++i) c.In(DrawTensor(DType::kF32, Shape{1, 2, 5, 4}));
    c.Omit().Omit().Omit().In(lengths(DType::kI64, n));
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(c, "nonpad_kv_seqlen has the entry"));
  }
  const auto grouped = [&](int64_t last, int64_t total, int64_t position) {
    Case c = Microsoft("GroupQueryAttention");
    for (int i = 0; i < 3; ++i) c.In(DrawTensor(DType::kF32, Shape{1, 2, 8}));
    for (int i = 0; i < 2; ++i) c.In(DrawTensor(DType::kF32, Shape{1, 2, 5, 4}));
    c.In(lengths(DType::kI32, last)).In(lengths(DType::kI32, total), true);
    for (int i = 0; i < 2; ++i) c.In(DrawTensor(DType::kF32, Shape{6, 2}), true);
    Tensor positions = Tensor::Allocate(DType::kI64, Shape{1, 2}).value();
    for (int64_t& p : positions.values<int64_t>()) p = position;
    c.In(std::move(positions));
    c.Attr("num_heads", int64_t{2}).Attr("kv_num_heads", int64_t{2}).Attr("do_rotary", int64_t{1});
    c.outputs = 3;
    return c;
  };
  for (const int64_t last : {-2, 0, 4, 2147483647, -2147483647}) {
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(grouped(last, 4, 0), "seqlens_k has the entry"));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectRefused(grouped(3, 1, 0), "total_sequence_length is 1"));
  for (const int64_t position : {int64_t{-1}, int64_t{6}, kMost, kLeast}) {
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(grouped(3, 4, position), "is outside of cos_cache"));
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(grouped(1, 2, position), "is outside of cos_cache"));  // a prompt
    for (const bool one : {false, true}) {
      Case c = Microsoft("RotaryEmbedding");
      Tensor positions = Tensor::Allocate(DType::kI64, one ? Shape{1} : Shape{1, 2}).value();
      for (int64_t& p : positions.values<int64_t>()) p = position;
      c.In(DrawTensor(DType::kF32, Shape{1, 2, 8})).In(std::move(positions));
      for (int i = 0; i < 2; ++i) c.In(DrawTensor(DType::kF32, Shape{6, 2}), true);
      ASSERT_NO_FATAL_FAILURE(ExpectRefused(c, "outside of the caches"));
    }
  }
}

TEST_F(CpuOps, EmbeddingsRefuseIdsOutside) {
  for (const int wrong : {0, 1, 8}) {
    for (const int64_t id : {-1, 4, 2147483647}) {
      Case c = Microsoft("EmbedLayerNormalization");
      const auto ids = [&](int input) {
        return DrawInts(Shape{1, 3}, input == wrong ? id : 0, input == wrong ? id : 3);
      };
      c.In(ids(0)).In(ids(1));
      for (int i = 0; i < 3; ++i) c.In(DrawTensor(DType::kF32, Shape{4, 6}), true);
      for (int i = 0; i < 2; ++i) c.In(DrawTensor(DType::kF32, Shape{6}), true);
      c.Omit().In(ids(8));
      ASSERT_NO_FATAL_FAILURE(ExpectRefused(c, "outside of an embedding of 4 rows"));
    }
  }
  Case c = Microsoft("EmbedLayerNormalization");
  c.In(DrawInts(Shape{1, 5}, 0, 3)).Omit();
  for (int i = 0; i < 2; ++i) c.In(DrawTensor(DType::kF32, Shape{4, 6}), true);
  c.Omit();
  for (int i = 0; i < 2; ++i) c.In(DrawTensor(DType::kF32, Shape{6}), true);
  ASSERT_NO_FATAL_FAILURE(ExpectRefused(c, "longer than the 4 rows"));
}

TEST_F(CpuOps, RotaryEmbeddings) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const bool microsoft = Draw(0, 1) != 0, flat = Draw(0, 1) != 0;
    const int64_t batch = Draw(1, 3), length = Draw(0, 9), heads = Draw(1, 40), size = 2 * Draw(1, 9), rows = 12;
    const int64_t rotated = Draw(0, 1) ? 0 : 2 * Draw(1, size / 2), half = (rotated > 0 ? rotated : size) / 2;
    Case c = microsoft ? Microsoft("RotaryEmbedding") : Case{.op = "RotaryEmbedding", .opset = 23};
    c.relative = c.absolute = 2e-6;
    Tensor x =
        DrawTensor(DType::kF32, flat ? Shape{batch, length, heads * size} : Shape{batch, heads, length, size}, 1);
    for (float& e : x.values<float>()) {  // no large numbers, of which a difference may leave nothing but their errors
      if (Draw(0, 15) == 0) e = Pick({INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN(), 0.0f, 1e-40f});
    }
    const bool given = microsoft || Draw(0, 1), from_one = microsoft && Draw(0, 1);
    Tensor positions = Tensor::Allocate(DType::kI64, from_one ? Shape{1} : Shape{batch, length}).value();
    for (int64_t& p : positions.values<int64_t>()) p = Draw(0, from_one ? rows - length : rows - 1);
    const Shape caches = given ? Shape{rows, half} : Shape{batch, length, half};
    c.In(x);
    if (microsoft) c.In(positions);
    c.In(DrawTensor(DType::kF32, caches, 0.5f), given).In(DrawTensor(DType::kF32, caches, 0.5f), given);
    if (!microsoft && given) c.In(positions);
    if (flat || Draw(0, 1)) c.Attr("num_heads", heads);
    c.Attr("rotary_embedding_dim", rotated).Attr("interleaved", Draw(0, 1));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, EmbedLayerNormalizations) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const int64_t batch = Draw(1, 3), length = Draw(0, 9), hidden = Draw(0, 5) == 0 ? Draw(200, 900) : Draw(2, 33);
    Case c = Microsoft("EmbedLayerNormalization");
    c.relative = c.absolute = 1e-4;
    c.In(DrawInts(Shape{batch, length}, 0, 6));
    const bool segments = Draw(0, 1) != 0, mask = Draw(0, 1) != 0;
    if (segments) {
      c.In(DrawInts(Shape{batch, length}, 0, 1));
    } else {
      c.Omit();
    }
    c.In(DrawTensor(DType::kF32, Shape{7, hidden}), true).In(DrawTensor(DType::kF32, Shape{10, hidden}), true);
    if (segments) {
      c.In(DrawTensor(DType::kF32, Shape{2, hidden}), true);
    } else {
      c.Omit();
    }
    c.In(DrawTensor(DType::kF32, Shape{hidden}), true).In(DrawTensor(DType::kF32, Shape{hidden}), true);
    if (mask) {
      c.In(DrawInts(Shape{batch, length}, 0, 2));
    } else {
      c.Omit();
    }
    if (Draw(0, 1)) c.In(DrawInts(Shape{Pick({int64_t{1}, batch}), length}, 0, 9));
    c.Attr("epsilon", 1e-3f);
    c.outputs = static_cast<int>(Draw(1, 3));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

}  // namespace
}  // namespace quern::cpu
