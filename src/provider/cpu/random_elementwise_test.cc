// Elementwise operators of the CPU provider on random cases, of every type that their schemas admit.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

constexpr std::initializer_list<DType> kIntegers = {DType::kI8, DType::kI16, DType::kI32, DType::kI64,
                                                    DType::kU8, DType::kU16, DType::kU32, DType::kU64};
constexpr std::initializer_list<DType> kFloats = {DType::kF32, DType::kF64};
constexpr std::initializer_list<DType> kNumbers = {DType::kF32, DType::kF64, DType::kI8,  DType::kI16, DType::kI32,
                                                   DType::kI64, DType::kU8,  DType::kU16, DType::kU32, DType::kU64};

// Float64 and integers as the reference has them, alone and in the place of operands.
Case Exact(const std::string& op, int opset) {
  return {.op = op, .opset = opset, .exact = true, .chained = kSignedIntTypes | TypeSet{DType::kF32, DType::kF64}};
}

Tensor Draws(DType t, const Shape& shape) { return DrawTensor(t, shape, 2, true); }

// Integers with 3 in the place of zeros.
Tensor WithoutZeros(Tensor t) {
  const Status known = DispatchInteger(t.dtype(), [&]<typename T>() {
    for (T& v : t.values<T>()) v = v == T{0} ? T{3} : v;
    return OkStatus();
  });
  EXPECT_TRUE(known.ok()) << known.message();
  return t;
}

TEST_F(CpuOps, UnaryOfFloats) {
  // Others are not the C library's.
  const std::set<std::string> exact = {"Relu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "HardSwish", "Sqrt",
                                       "Neg",  "Abs",       "Reciprocal",      "Floor",       "Ceil",      "Round",
                                       "Sign", "Softsign",  "Shrink"};
  for (const std::string op : {"Relu",        "LeakyRelu",  "ThresholdedRelu",
                               "HardSigmoid", "HardSwish",  "Sigmoid",
                               "Swish",       "Tanh",       "Exp",
                               "Log",         "Sqrt",       "Neg",
                               "Abs",         "Reciprocal", "Floor",
                               "Ceil",        "Round",      "Sign",
                               "Erf",         "Elu",        "Celu",
                               "Selu",        "Softplus",   "Softsign",
                               "Gelu",        "Mish",       "Sin",
                               "Cos",         "Tan",        "Atan",
                               "Asin",        "Acos",       "Sinh",
                               "Cosh",        "Asinh",      "Acosh",
                               "Atanh",       "Shrink"}) {
    for (const DType t : kFloats) {
      for (int i = 0; i < kRounds; ++i) {
        Case c = Exact(op, 28);
        c.exact = exact.count(op) > 0;
        c.absolute = op == "Mish" || op == "Gelu" || op == "Swish" ? 1e-5 : 1e-6;
        c.In(DrawTensor(t, DrawShapeOrLarge(0, 6), 3, i % 2 == 0 && (t == DType::kF64 || op != "Gelu")));
        const bool has_alpha = op == "LeakyRelu" || op == "Elu" || op == "ThresholdedRelu" || op == "Swish" ||
                               op == "Celu" || op == "HardSigmoid" || op == "Selu";
        if (has_alpha && Draw(0, 1)) c.Attr("alpha", 0.25f);
        if (op == "HardSigmoid" && Draw(0, 1)) c.Attr("beta", 0.3f);
        if (op == "Selu" && Draw(0, 1)) c.Attr("gamma", 1.25f);
        if (op == "Shrink" && Draw(0, 1)) c.Attr("lambd", 1.5f).Attr("bias", 0.75f);
        if (op == "Gelu" && i % 2) c.Attr("approximate", std::string("tanh"));
        ASSERT_NO_FATAL_FAILURE(Check(c));
      }
    }
  }
}

TEST_F(CpuOps, ExperimentalUnary) {
  for (const std::string op : {"Affine", "Scale", "ScaledTanh", "ParametricSoftplus"}) {
    for (const DType t : kFloats) {
      for (int i = 0; i < kRounds; ++i) {
        Case c = Exact(op, 6);
        c.exact = op == "Affine" || op == "Scale";
        c.In(Draws(t, DrawShapeOrLarge(0, 6)));
        if (op == "Scale") {
          if (Draw(0, 1)) c.Attr("scale", 0.3f);
        } else if (Draw(0, 1)) {
          c.Attr("alpha", 0.7f).Attr("beta", 1.2f);
        }
        ASSERT_NO_FATAL_FAILURE(Check(c));
      }
    }
  }
}

TEST_F(CpuOps, UnaryOfIntegersAndBools) {
  for (int i = 0; i < kRounds; ++i) {
    for (const DType t : kIntegers) {
      const Tensor x = Draws(t, DrawShapeOrLarge(0, 6));
      for (const char* op : {"Abs", "Sign", "BitwiseNot"}) ASSERT_NO_FATAL_FAILURE(Check(Exact(op, 18).In(x)));
      ASSERT_NO_FATAL_FAILURE(Check(Exact("Erf", 9).In(x)));
      Case shrink = Exact("Shrink", 13);
      shrink.In(x).Attr("lambd", Pick({0.5f, 2.5f})).Attr("bias", Pick({0.0f, 1.5f, -1e3f}));
      ASSERT_NO_FATAL_FAILURE(Check(shrink));
      if (!kSignedIntTypes.Has(t)) continue;
      for (const char* op : {"Neg", "Relu"}) ASSERT_NO_FATAL_FAILURE(Check(Exact(op, 18).In(x)));
    }
    ASSERT_NO_FATAL_FAILURE(Check(Exact("Not", 18).In(DrawTensor(DType::kBool, DrawShape(0, 4)))));
  }
}

TEST_F(CpuOps, Clip) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    Case old = Exact("Clip", 6);
    old.In(Draws(Pick(kFloats), DrawShapeOrLarge(0, 4)));
    if (i % 3) old.Attr("min", -1.0f).Attr("max", Pick({2.5f, -3.0f}));
    ASSERT_NO_FATAL_FAILURE(Check(old));
    for (const DType t : kNumbers) {
      Case c = Exact("Clip", 13);
      c.In(Draws(t, i % 4 ? DrawShape(0, 4) : Shape{Draw(300, 900), Draw(1, 90)}));
      for (int bound = 0; bound < 2; ++bound) {
        if (Draw(0, 3) == 0) {
          c.Omit();
        } else {
          c.In(Draws(t, Shape{}), Draw(0, 1) != 0);
        }
      }
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

// Two shapes that broadcast; the second of PRelu to the first.
struct Pair {
  Shape a, b;
};
Pair DrawPair(bool one_way = false) {
  const Shape shape = DrawShapeOrLarge(0, 6);
  Pair p{shape, BroadcastPart(shape)};
  if (one_way) return p;
  if (Draw(0, 1)) std::swap(p.a, p.b);
  if (Draw(0, 3) == 0) p.a = BroadcastPart(shape);
  return p;
}

TEST_F(CpuOps, BinaryOfFloats) {
  for (const std::string op : {"Add", "Sub", "Mul", "Div", "Min", "Max", "PRelu", "Mod", "fmod"}) {
    for (const DType t : kFloats) {
      for (int i = 0; i < 2 * kRounds; ++i) {
        const Pair shapes = DrawPair(op == "PRelu");
        Case c = Exact(op == "fmod" ? "Mod" : op, 28);
        c.In(DrawTensor(t, shapes.a, 2, i % 2 == 0)).In(DrawTensor(t, shapes.b, 2, i % 2 == 0), Draw(0, 1) != 0);
        if (op == "fmod") c.Attr("fmod", int64_t{1});
        ASSERT_NO_FATAL_FAILURE(Check(c));
      }
    }
  }
}

TEST_F(CpuOps, BinaryOfIntegers) {
  for (const std::string op : {"Add", "Sub", "Mul", "Min", "Max", "Div", "Mod", "fmod", "PRelu"}) {
    for (const DType t : kIntegers) {
      if (op == "PRelu" && DTypeBytes(t) < 4) continue;
      for (int i = 0; i < kRounds; ++i) {
        const Pair shapes = DrawPair(op == "PRelu");
        Case c = Exact(op == "fmod" ? "Mod" : op, 21);
        Tensor b = Draws(t, shapes.b);
        c.In(Draws(t, shapes.a)).In(op == "Div" || c.op == "Mod" ? WithoutZeros(b) : b, Draw(0, 1) != 0);
        if (op == "fmod") c.Attr("fmod", int64_t{1});
        ASSERT_NO_FATAL_FAILURE(Check(c));
      }
    }
  }
}

TEST_F(CpuOps, BitwiseAndShifts) {
  for (const std::string op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "LEFT", "RIGHT"}) {
    for (const DType t : kIntegers) {
      for (int i = 0; i < kRounds; ++i) {
        const Pair shapes = DrawPair();
        const bool shift = op == "LEFT" || op == "RIGHT";
        Case c = Exact(shift ? "BitShift" : op, shift && !kSignedIntTypes.Has(t) && Draw(0, 1) ? 11 : 28);
        c.In(Draws(t, shapes.a)).In(Draws(t, shapes.b));
        if (shift) c.Attr("direction", op);
        ASSERT_NO_FATAL_FAILURE(Check(c));
      }
    }
  }
}

TEST_F(CpuOps, Pow) {
  for (const DType base : {DType::kF32, DType::kF64, DType::kI32, DType::kI64}) {
    for (const DType exponent : kNumbers) {
      for (int i = 0; i < kRounds; ++i) {
        const Pair shapes = DrawPair();
        Case c = Exact("Pow", 15);
        c.exact = false;  // powers of doubles are not the C library's to the bit
        c.relative = 1e-5;
        const Tensor x = DrawTensor(base, shapes.a, 2, i % 2 == 0);
        c.In(IsFloatType(base) ? x : WithoutZeros(x)).In(DrawTensor(exponent, shapes.b, 2, i % 2 == 0));
        ASSERT_NO_FATAL_FAILURE(Check(c));
      }
    }
    for (const DType exponent : kNumbers) {
      for (const int64_t e : {1, 2, 3, 5}) {
        Case c = Exact("Pow", 15);
        c.exact = false;
        c.relative = 1e-5;
        Tensor one = Tensor::Allocate(exponent, Draw(0, 1) ? Shape{} : Shape{1, 1}).value();
        ASSERT_TRUE(DispatchNumeric(exponent, [&]<typename T>() {
                      *one.data<T>() = T(static_cast<float>(e));
                      return OkStatus();
                    }).ok());
        ASSERT_NO_FATAL_FAILURE(Check(c.In(Draws(base, DrawShapeOrLarge(0, 4))).In(one, true)));
      }
    }
  }
}

TEST_F(CpuOps, Variadic) {
  for (const std::string op : {"Sum", "Mean", "Min", "Max"}) {
    for (const DType t : kNumbers) {
      if (!IsFloatType(t) && op[0] != 'M') continue;
      if (!IsFloatType(t) && op == "Mean") continue;
      for (int i = 0; i < kRounds; ++i) {
        const Shape shape = DrawShapeOrLarge(0, 5);
        Case c = Exact(op, 13);
        const int64_t count = Draw(1, 5);
        for (int64_t k = 0; k < count; ++k) {
          c.In(DrawTensor(t, Draw(0, 1) ? shape : BroadcastPart(shape), 2, op[1] != 'e' && op[0] == 'M'));
        }
        ASSERT_NO_FATAL_FAILURE(Check(c));
      }
    }
  }
}

TEST_F(CpuOps, Comparisons) {
  for (const std::string op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
    for (const DType t : kNumbers) {
      for (int i = 0; i < kRounds; ++i) {
        const Pair shapes = DrawPair();
        ASSERT_NO_FATAL_FAILURE(Check(Exact(op, 19).In(Draws(t, shapes.a)).In(Draws(t, shapes.b))));
      }
    }
  }
}

TEST_F(CpuOps, LogicAndWhere) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    for (const char* op : {"And", "Or", "Xor", "Equal"}) {
      const Pair shapes = DrawPair();
      Case c{.op = op};
      ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawTensor(DType::kBool, shapes.a)).In(DrawTensor(DType::kBool, shapes.b))));
    }
    const Shape shape = DrawShapeOrLarge(0, 5);
    for (const DType t : {DType::kF32, DType::kF64, DType::kI64, DType::kU8, DType::kF16, DType::kBool}) {
      const Shape part = BroadcastPart(shape);
      Case c{.op = "Where"};
      c.In(DrawTensor(DType::kBool, BroadcastPart(shape)));
      c.In(DrawTensor(t, i % 3 ? shape : part)).In(DrawTensor(t, BroadcastPart(i % 3 ? shape : part)));
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

TEST_F(CpuOps, Cast) {
  std::vector<DType> types(kNumbers);
  types.insert(types.end(), {DType::kF16, DType::kBF16, DType::kBool});
  for (const DType from : types) {
    for (const DType to : types) {
      Case c{.op = "Cast", .opset = 13};
      c.In(DrawTensor(from, DrawShapeOrLarge(0, 4), 100, true));
      Case like{.op = "CastLike", .opset = 15};
      like.In(c.inputs[0].tensor()).In(DrawTensor(to, DrawShape(0, 2)), Draw(0, 1) != 0);
      ASSERT_NO_FATAL_FAILURE(Check(c.Attr("to", static_cast<int64_t>(to))));
      ASSERT_NO_FATAL_FAILURE(Check(like));
      if (DTypeBytes(from) != DTypeBytes(to)) continue;
      Case bits{.op = "BitCast", .opset = 26};
      bits.In(c.inputs[0].tensor());
      ASSERT_NO_FATAL_FAILURE(Check(bits.Attr("to", static_cast<int64_t>(to))));
    }
  }
}

TEST_F(CpuOps, CastOfNumbersThatDoNotFit) {
  const std::vector<float> odd = {NAN,           INFINITY,       -INFINITY, 1e20f, -1e20f, 9.3e18f, 1.8e19f,
                                  2147483648.0f, -2147483648.0f, 300,       -1,    0.99f,  -0.99f,  4294967296.0f};
  std::vector<double> doubles(odd.begin(), odd.end());
  for (const double x : {2147483647.5, -2147483648.5, -2147483649.0, 4294967295.5, 9223372036854775807.0, 65519.99,
                         65520.0, 5e-324, 1.0 + 0x1p-11 + 0x1p-40}) {
    doubles.push_back(x);
  }
  std::vector<int64_t> whole = {65519, 65520, -65520, 2049, (int64_t{1} << 40) + 1, 16777217, -33554433};
  for (const DType to : {DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16, DType::kU32,
                         DType::kU64, DType::kBool, DType::kF32, DType::kF16, DType::kBF16}) {
    const auto check = [&](const Tensor& x) {
      Case c{.op = "Cast", .opset = 13};
      ASSERT_NO_FATAL_FAILURE(Check(c.In(x).Attr("to", static_cast<int64_t>(to))));
    };
    check(Tensor::FromValues<float>(Shape{static_cast<int64_t>(odd.size())}, odd));
    check(Tensor::FromValues<double>(Shape{static_cast<int64_t>(doubles.size())}, doubles));
    check(Ints(whole));
  }
}

TEST_F(CpuOps, SwiGlu) {
  for (const DType t : kFloats) {
    for (int i = 0; i < 2 * kRounds; ++i) {
      const Shape shape = DrawShapeOrLarge(0, 6);
      Case c{.op = "SwiGLU", .opset = 28, .chained = {DType::kF32, DType::kF64}};
      c.absolute = 1e-5;
      c.In(DrawTensor(t, shape, 3, i % 2 == 0)).In(DrawTensor(t, shape, 3, i % 2 == 0 && t == DType::kF64));
      if (Draw(0, 1)) c.Attr("alpha", 1.3f);
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

TEST_F(CpuOps, GelusOfDoubles) {
  for (const std::string op : {"FastGelu", "BiasGelu", "Gelu", "QuickGelu"}) {
    for (int i = 0; i < kRounds; ++i) {
      const Shape shape = DrawShapeOrLarge(1, 4);
      Case c{.op = op, .domain = "com.microsoft"};
      c.In(DrawTensor(DType::kF64, shape));
      if (op == "BiasGelu" || (op == "FastGelu" && Draw(0, 1))) c.In(DrawTensor(DType::kF64, Shape{shape.back()}));
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

TEST_F(CpuOps, Binarizer) {
  for (const DType t : {DType::kF32, DType::kF64, DType::kI64, DType::kI32}) {
    for (int i = 0; i < kRounds; ++i) {
      Case c{.op = "Binarizer", .domain = "ai.onnx.ml"};
      c.In(Draws(t, DrawShapeOrLarge(0, 4)));
      if (Draw(0, 1)) c.Attr("threshold", Pick({0.25f, -1.0f}));
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

TEST_F(CpuOps, IntegerFaultsAreErrors) {
  for (const DType t : kIntegers) {
    for (const char* op : {"Div", "Mod"}) {
      for (int i = 0; i < kRounds; ++i) {
        const Shape shape = DrawShape(1, 4, 6, false);
        Tensor divisor = WithoutZeros(Draws(t, i % 2 ? shape : Shape{shape.back()}));
        std::memset(static_cast<char*>(divisor.raw_data()) +
                        static_cast<size_t>(Draw(0, divisor.num_elements() - 1)) * DTypeBytes(t),
                    0, DTypeBytes(t));
        ExpectTheSameError(Exact(op, 21).In(Draws(t, shape)).In(divisor), "integer division by zero");
      }
    }
  }
  for (const DType t : {DType::kI32, DType::kI64}) {
    Case c = Exact("Pow", 15);
    c.In(Tensor::Allocate(t, Shape{3}).value()).In(Ints({2, -1, 3}));
    std::memset(c.inputs[0].tensor().raw_data(), 0, 3 * DTypeBytes(t));
    ExpectTheSameError(c, "negative power of integer zero");
  }
}

TEST_F(CpuOps, ElementwiseRejectsTypesThatHaveNoLoop) {
  Graph graph;
  graph.opset_imports[""] = 21;
  GraphValue* x = graph.AddInput("x", ValueType::Tensor(DType::kC128, Dims{2}));
  GraphValue* choice = graph.AddInput("choice", ValueType::Tensor(DType::kBool, Dims{2}));
  Node* where = graph.AddNode({.op_type = "Where", .inputs = {choice, x, x}, .outputs = {"y"}});
  EXPECT_EQ(FindCpuOp("", "Where")->reject(*where, Config(false)), "type c128");
  const auto reason = [&](int64_t to) {
    Node* cast = graph.AddNode(
        {.op_type = "Cast", .inputs = {choice}, .outputs = {"cast" + std::to_string(to)}, .attributes = {{"to", to}}});
    return FindCpuOp("", "Cast")->reject(*cast, Config(false));
  };
  EXPECT_EQ(reason(static_cast<int64_t>(DType::kU4)), "to type u4");
  EXPECT_EQ(reason(static_cast<int64_t>(DType::kI4)), "to type i4");
}

// The kernel of one node of two operands of a type, on portable rows.
KernelDescription DescribeNode(const std::string& op, DType t, bool unary) {
  Graph graph;
  graph.opset_imports[""] = 22;
  std::vector<GraphValue*> inputs(unary ? 1 : 2, nullptr);
  for (GraphValue*& v : inputs)
    v = graph.AddInput("x" + std::to_string(&v - inputs.data()), ValueType::Tensor(t, Dims{2}));
  Node* node = graph.AddNode({.op_type = op, .inputs = inputs, .outputs = {"y"}});
  HostileExecutor executor(7, 3);
  const CompileContext context{.config = &Config(true), .executor = &executor};
  return FindCpuOp("", op)->compile(*node, context).value()->Describe();
}

TEST_F(CpuOps, ElementwiseNamesItsMicroKernel) {
  const auto check = [](const std::string& op, DType t, bool unary, const char* kernel, const std::string& why) {
    const KernelDescription d = DescribeNode(op, t, unary);
    EXPECT_EQ(d.kernel, kernel) << op;
    EXPECT_EQ(d.why, why) << op;
  };
  constexpr const char* kRow = "elementwise_any_portable";
  check("Sin", DType::kF32, true, kRow, "Sin (f32), elementwise");
  check("Exp", DType::kF64, true, kRow, "Exp (f64), elementwise");
  check("IsNaN", DType::kF64, true, kRow, "IsNaN (f64), elementwise");
  check("Greater", DType::kF32, false, kRow, "Greater (f32), elementwise with broadcasting");
  check("Div", DType::kI32, false, kRow, "Div (i32), elementwise with broadcasting");
  check("Div", DType::kI64, false, kRow, "Div (i64), elementwise with broadcasting, scalar divisions beyond 2^50");
  check("Pow", DType::kF32, false, kRow, "Pow (f32), elementwise with broadcasting");
  check("Pow", DType::kF64, false, kRow, "Pow (f64), elementwise with broadcasting");
}

}  // namespace
}  // namespace quern::cpu
