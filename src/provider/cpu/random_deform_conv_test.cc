// DeformConv on the CPU provider, on random cases.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

struct Sizes {
  int64_t images, channels, out_channels, groups, offset_groups;
  int64_t in[2], kernel[2], stride[2], dilation[2], pad_begin[2], pad_end[2];
};

Sizes DrawSizes() {
  Sizes s{};
  s.images = Draw(1, 3);
  s.groups = Pick<int64_t>({1, 1, 2, 3, 4});
  // Single channels, few, and as many as fill registers.
  s.channels = s.groups * Pick({int64_t{1}, Draw(1, 6), Draw(1, 40)});
  s.out_channels = s.groups * Pick({int64_t{1}, Draw(1, 6), Draw(1, 40)});
  do s.offset_groups = Pick({int64_t{1}, s.channels, Draw(1, 6)});
  while (s.channels % s.offset_groups != 0);
  for (int d = 0; d < 2; ++d) {
    s.in[d] = Draw(1, 12);
    s.kernel[d] = Draw(1, 4);
    s.stride[d] = Draw(1, 3);
    s.dilation[d] = Draw(1, 3);
    const int64_t span = (s.kernel[d] - 1) * s.dilation[d] + 1;
    s.pad_begin[d] = Draw(0, 3);
    s.pad_end[d] = std::max(Draw(0, 3), span - s.in[d] - s.pad_begin[d]);
  }
  return s;
}

Case MakeCase(const Sizes& s, bool bias, bool mask, bool constant, float reach) {
  Shape offset{s.images, 2 * s.offset_groups * s.kernel[0] * s.kernel[1]};
  for (int d = 0; d < 2; ++d) {
    const int64_t span = (s.kernel[d] - 1) * s.dilation[d] + 1;
    offset.push_back((s.in[d] + s.pad_begin[d] + s.pad_end[d] - span) / s.stride[d] + 1);
  }
  Shape factors = offset;
  factors[1] /= 2;
  Case c{.op = "DeformConv", .opset = Pick({19, 22})};
  const int64_t group_in = s.channels / s.groups;
  c.relative = 1e-5;
  c.absolute = 2e-6 * static_cast<double>(8 + group_in * s.kernel[0] * s.kernel[1]);
  c.In(DrawTensor(DType::kF32, {s.images, s.channels, s.in[0], s.in[1]}));
  c.In(DrawTensor(DType::kF32, {s.out_channels, group_in, s.kernel[0], s.kernel[1]}, 1), constant);
  c.In(DrawTensor(DType::kF32, offset, reach));
  if (bias) {
    c.In(DrawTensor(DType::kF32, {s.out_channels}), constant);
  } else if (mask) {
    c.Omit();
  }
  if (mask) c.In(DrawTensor(DType::kF32, factors, 1));
  c.Attr("group", s.groups).Attr("offset_group", s.offset_groups);
  const auto list = [](const int64_t(&v)[2]) { return std::vector<int64_t>{v[0], v[1]}; };
  c.Attr("strides", list(s.stride)).Attr("dilations", list(s.dilation));
  c.Attr("pads", std::vector<int64_t>{s.pad_begin[0], s.pad_begin[1], s.pad_end[0], s.pad_end[1]});
  return c;
}

TEST_F(CpuOps, DeformConv) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const bool bias = Draw(0, 1) != 0, mask = Draw(0, 1) != 0, constant = Draw(0, 2) != 0;
    // Near by, over the borders, and far outside.
    const float reach = Pick({1.0f, 5.0f, 1e10f});
    ASSERT_NO_FATAL_FAILURE(Check(MakeCase(DrawSizes(), bias, mask, constant, reach)));
  }
}

// Several blocks of positions, and taps exactly on pixels and on borders.
TEST_F(CpuOps, DeformConvOfManyPositions) {
  for (int i = 0; i < kRounds / 3; ++i) {
    Sizes s = DrawSizes();
    s.in[0] = Draw(14, 20);
    s.in[1] = Draw(14, 20);
    s.stride[0] = s.stride[1] = 1;
    Case c = MakeCase(s, true, i % 2 == 0, i % 3 != 0, 1.0f);
    Tensor offset = c.inputs[2].tensor();
    for (float& v : offset.values<float>()) v = i % 2 == 0 ? std::round(v) : v;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// What a tap does not read does not matter, be it infinite or no number.
TEST_F(CpuOps, DeformConvReadsOnlyItsTaps) {
  for (int i = 0; i < kRounds; ++i) {
    Case c = MakeCase(DrawSizes(), false, i % 2 == 0, true, 2.0f);
    Tensor x = DrawTensor(DType::kF32, c.inputs[0].tensor().shape(), 2, true);
    for (float& v : x.values<float>()) v = std::fabs(v) > 1e20f ? INFINITY : v;  // large ones that cancel leave errors
    c.inputs[0] = x;
    Tensor offset = c.inputs[2].tensor();
    for (float& v : offset.values<float>()) v = std::round(v);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, DeformConvOfNothing) {
  for (const bool image : {false, true}) {
    Sizes s = DrawSizes();
    (image ? s.in[0] : s.images) = 0;
    s.pad_end[0] = s.kernel[0] * s.dilation[0];
    ASSERT_NO_FATAL_FAILURE(Check(MakeCase(s, true, true, image, 1.0f)));
  }
}

TEST_F(CpuOps, DeformConvChecksShapes) {
  for (const int input : {2, 4}) {
    Case c = MakeCase(DrawSizes(), true, true, true, 1.0f);
    Shape shape = c.inputs[static_cast<size_t>(input)].tensor().shape();
    shape[1] += 1;
    c.inputs[static_cast<size_t>(input)] = DrawTensor(DType::kF32, shape);
    Built b;
    ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
    const Result<std::vector<Tensor>> result = RunOnCpu(b.graph, b.inputs, Config(false));
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.status().message().find("is needed"), std::string::npos) << result.status().message();
  }
}

}  // namespace
}  // namespace quern::cpu
