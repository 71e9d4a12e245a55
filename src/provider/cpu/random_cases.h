// Random cases of the CPU provider's operators against the reference evaluation: shapes, attributes and types drawn at
// random, run with an executor that orders tasks at random; alone, between other nodes so that results take their
// operands' memory, and on strided memory. Tests alone include this.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random_numbers.h"
#include "ops/common/dispatch.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "provider/cpu/common/widened.h"
#include "provider/cpu/test_run.h"
#include "ukernel/test_depth.h"

namespace quern::cpu {

inline std::mt19937& Random() {
  static std::mt19937 random;
  return random;
}

// Each test draws from the same start, whichever tests ran before it in this process; QUERN_TEST_SEED names another
// one.
class CpuOps : public testing::Test {
 protected:
  void SetUp() override {
    const char* seed = std::getenv("QUERN_TEST_SEED");
    Random().seed(seed ? static_cast<uint32_t>(std::strtoul(seed, nullptr, 10)) : 20240607);
  }
};

inline int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(Random()); }
template <typename T>
T Pick(std::initializer_list<T> list) {
  return list.begin()[Draw(0, static_cast<int64_t>(list.size()) - 1)];
}
inline Shape DrawShape(int min_rank, int max_rank, int64_t largest = 6, bool may_be_empty = true) {
  Shape s;
  const int rank = static_cast<int>(Draw(min_rank, max_rank));
  for (int i = 0; i < rank; ++i) s.push_back(Draw(1, largest));
  if (may_be_empty && rank > 0 && Draw(0, 19) == 0) s[static_cast<int>(Draw(0, rank - 1))] = 0;
  return s;
}
// Now and then large enough for several threads.
inline Shape DrawShapeOrLarge(int min_rank, int max_rank) {
  if (Draw(0, 11) == 0) return Shape{Draw(50, 70), Draw(600, 900)};
  return DrawShape(min_rank, max_rank);
}

// Small numbers, or any of 8 bits; `special`: also the ends of the range, NaN and the like.
template <typename T>
T DrawNumber(const NormalNumbers<float>& normal, bool special) {
  if constexpr (std::is_same_v<T, bool>) {
    return Draw(0, 1) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    using Range = std::numeric_limits<T>;
    if (special && Draw(0, 3) == 0) return Pick<T>({Range::min(), Range::max(), static_cast<T>(Random()()), T{0}});
    if (sizeof(T) == 1) return static_cast<T>(Draw(Range::min(), Range::max()));
    return static_cast<T>(std::is_signed_v<T> ? Draw(-9, 9) : Draw(0, 18));
  } else {
    const float v = normal(Random());
    const bool odd = special && sizeof(T) > 2 && Draw(0, 9) == 0;
    if constexpr (std::is_same_v<T, double>) {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      return odd ? Pick<double>({NAN, kInfinity, -kInfinity, 0.0, -0.0, 1e300, -1e-300}) : double{v} / 3;
    } else {
      return T(odd ? Pick({NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e30f, -1e-30f}) : v);
    }
  }
}
inline Tensor DrawTensor(DType dtype, const Shape& shape, float scale = 2, bool special = false) {
  Tensor t = Tensor::Allocate(dtype, shape).value();
  NormalNumbers<float> normal(0, scale);
  using All = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                    uint64_t, bool>;
  const Status known = DispatchType(All{}, dtype, [&]<typename T>() {
    T* values = t.data<T>();
    for (int64_t i = 0, n = t.num_elements(); i < n; ++i) values[i] = DrawNumber<T>(normal, special);
    return OkStatus();
  });
  EXPECT_TRUE(known.ok()) << known.message();
  return t;
}
inline DType AnyWidth() { return Pick({DType::kF32, DType::kI64, DType::kU8, DType::kF16, DType::kBool}); }
inline Tensor Ints(std::vector<int64_t> values) {
  return Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(values.size())}, values);
}
// A shape that broadcasts to `to`.
inline Shape BroadcastPart(const Shape& to) {
  Shape s;
  for (int i = static_cast<int>(Draw(0, to.rank())); i < to.rank(); ++i) s.push_back(Draw(0, 2) == 0 ? 1 : to[i]);
  return s;
}

// One node with its inputs.
struct Case {
  std::string op;
  int opset = 21;
  std::vector<Value> inputs = {};   // kNone: omitted
  std::vector<bool> constant = {};  // inputs that the graph holds; missing: false
  std::map<std::string, Attribute, std::less<>> attributes = {};
  int outputs = 1;
  double relative = 4e-6, absolute = 1e-6;  // of float32
  bool exact = false;                       // float64 has the reference's bits, but for those of NaN
  TypeSet chained = {DType::kF32};          // those of inputs and outputs that have a node before and behind
  std::string domain = "";
  int domain_opset = 1;

  Case& In(Tensor t, bool is_constant = false) {
    constant.resize(inputs.size());
    inputs.emplace_back(std::move(t));
    constant.push_back(is_constant);
    return *this;
  }
  Case& Omit() {
    constant.resize(inputs.size() + 1);
    inputs.emplace_back();
    return *this;
  }
  Case& Attr(const std::string& name, Attribute value) {
    attributes[name] = std::move(value);
    return *this;
  }
  std::string ToString() const {
    std::string s = op + " opset " + std::to_string(opset);
    for (const Value& v : inputs) {
      s += v.has_value() ? std::string(" ") + DTypeName(v.tensor().dtype()) + v.tensor().shape().ToString() : " -";
    }
    for (const auto& [name, a] : attributes) {
      s += " " + name + "=";
      if (const auto* i = std::get_if<int64_t>(&a)) s += std::to_string(*i);
      if (const auto* f = std::get_if<float>(&a)) s += std::to_string(*f);
      if (const auto* t = std::get_if<std::string>(&a)) s += *t;
      if (const auto* l = std::get_if<std::vector<int64_t>>(&a)) {
        for (int64_t i : *l) s += std::to_string(i) + ",";
      }
    }
    return s;
  }
};

// The case's node; with `chained`, inputs and outputs of its chained types go through Neg, so that the node stands
// between others.
struct Built {
  Graph graph;
  std::vector<Value> inputs;
  Node* node = nullptr;
};
inline Status MakeGraph(const Case& c, bool chained, Built& b) {
  b.graph.opset_imports[""] = c.opset;
  if (!c.domain.empty()) b.graph.opset_imports[c.domain] = c.domain_opset;
  NodeSpec spec{.name = "n", .domain = c.domain, .op_type = c.op, .attributes = c.attributes};
  auto neg = [&](GraphValue* v, const std::string& name) {
    return b.graph.AddNode({.name = name, .op_type = "Neg", .inputs = {v}, .outputs = {name}})->output(0);
  };
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    if (!c.inputs[i].has_value()) {
      spec.inputs.push_back(nullptr);
    } else if (c.constant[i]) {
      spec.inputs.push_back(b.graph.AddConstant(name, c.inputs[i]));
    } else {
      spec.inputs.push_back(b.graph.AddInput(name, TypeOf(c.inputs[i])));
      b.inputs.push_back(c.inputs[i]);
      if (chained && c.chained.Has(c.inputs[i].tensor().dtype()))
        spec.inputs.back() = neg(spec.inputs.back(), "neg_" + name);
    }
  }
  for (int i = 0; i < c.outputs; ++i) spec.outputs.push_back("y" + std::to_string(i));
  b.node = b.graph.AddNode(std::move(spec));
  QUERN_RETURN_IF_ERROR(InferShapes(b.graph));
  for (int i = 0; i < c.outputs; ++i) {
    GraphValue* y = b.node->output(i);
    b.graph.AddOutput(chained && c.chained.Has(y->type().dtype) ? neg(y, "neg_y" + std::to_string(i)) : y);
  }
  return OkStatus();
}
inline void Build(const Case& c, bool chained, Built& b) { ASSERT_TRUE(MakeGraph(c, chained, b).ok()); }

// The cases whose results were compared in this process, by domain and operator. every_operator_test.cc reads it.
inline std::map<std::pair<std::string, std::string>, std::set<std::string>>& ComparedCases() {
  static std::map<std::pair<std::string, std::string>, std::set<std::string>> cases;
  return cases;
}

template <typename T>
void ExpectSameFloats(const Tensor& actual, const Tensor& expected, const Case& c) {
  constexpr bool kDouble = sizeof(T) == 8;
  const double relative = kDouble ? 1e-12 : c.relative, absolute = kDouble ? 1e-13 : c.absolute;
  const T *got = actual.data<T>(), *wanted = expected.data<T>();
  for (int64_t i = 0, n = expected.num_elements(); i < n; ++i) {
    const T a = got[i], e = wanted[i];
    if (std::isnan(a) && std::isnan(e)) continue;
    if (a == e && (!kDouble || !c.exact || std::signbit(a) == std::signbit(e))) continue;
    ASSERT_FALSE(kDouble && c.exact) << "element " << i << ": " << a << ", not " << e;
    ASSERT_LE(std::fabs(a - e), absolute + relative * std::fabs(static_cast<double>(e)))
        << "element " << i << ": " << a << ", not " << e;
  }
}

// What a sum of `terms` products in float32 may be off by, where the products' deviation is `deviation`: the rounding
// of a partial sum is of the order of 2^-24 * deviation * sqrt(terms), and as many of them add up at random; four
// times that for the largest of many results.
inline double ErrorOfSum(int64_t terms, double deviation) {
  return 1e-6 + 0x1p-22 * deviation * static_cast<double>(terms);
}

inline void ExpectSame(const Tensor& actual, const Tensor& expected, const Case& c) {
  ComparedCases()[{c.domain, c.op}].insert(c.ToString() + " to " + expected.shape().ToString());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  ASSERT_EQ(actual.shape().ToString(), expected.shape().ToString());
  if (expected.dtype() == DType::kF32) return ExpectSameFloats<float>(actual, expected, c);
  if (expected.dtype() == DType::kF64) return ExpectSameFloats<double>(actual, expected, c);
  ASSERT_TRUE(expected.bytes() == 0 || std::memcmp(actual.raw_data(), expected.raw_data(), expected.bytes()) == 0);
}

inline void CheckOnce(const Case& c, bool portable, bool chained) {
  SCOPED_TRACE(std::string(portable ? "portable rows" : "the host's rows") +
               (chained ? ", between other nodes" : ", alone"));
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c, chained, b));
  const Result<std::vector<Value>> expected = EvaluateGraph(b.graph, b.inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  const CpuOp* op = FindCpuOp(c.domain, c.op);
  ASSERT_NE(op, nullptr) << "the CPU provider has no " << c.op;
  ASSERT_EQ(op->reject(*b.node, Config(portable)), "");
  ASSERT_TRUE(InferShapes(b.graph).ok());
  // A chain computes an elementwise node and its neighbours; each by itself takes memory of its operands.
  for (const bool fused : {true, false}) {
    if (!fused && !chained) continue;
    SCOPED_TRACE(fused ? "fused" : "not fused");
    const Result<std::vector<Tensor>> actual =
        RunOnCpu(b.graph, b.inputs, fused ? Config(portable) : ConfigWithoutChains(portable));
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    for (size_t i = 0; i < expected->size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(ExpectSame((*actual)[i], (*expected)[i].tensor(), c));
    }
  }
}

// What fails in a run, in the reference's words.
inline void ExpectTheSameError(const Case& c, const std::string& what) {
  SCOPED_TRACE(c.ToString());
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
  const Result<std::vector<Value>> expected = EvaluateGraph(b.graph, b.inputs);
  const Result<std::vector<Tensor>> actual = RunOnCpu(b.graph, b.inputs, Config(false));
  ASSERT_FALSE(expected.ok());
  ASSERT_FALSE(actual.ok());
  EXPECT_EQ(actual.status().message(), expected.status().message());
  EXPECT_NE(actual.status().message().find(what), std::string::npos) << actual.status().message();
}

inline Tensor Halved(DType type, const Tensor& x) {
  Tensor y = Tensor::Allocate(type, x.shape()).value();
  const auto convert = [&]<typename T>(T* to) {
    const float* from = x.data<float>();
    for (int64_t i = 0, n = x.num_elements(); i < n; ++i) to[i] = T(from[i]);
  };
  type == DType::kF16 ? convert(y.data<Float16>()) : convert(y.data<BFloat16>());
  return y;
}
inline Tensor DrawHalf(DType type, const Shape& shape, float scale = 2, bool special = false) {
  return Halved(type, DrawTensor(DType::kF32, shape, scale, special));
}

// Results of 16 bits may be a step apart, as they are rounded from float32 that is not the same.
inline void ExpectNear(const Tensor& actual, const Tensor& expected, Case c) {
  if (!IsHalf(expected.dtype())) return ExpectSame(actual, expected, c);
  ASSERT_EQ(actual.dtype(), expected.dtype());
  ASSERT_EQ(actual.shape().ToString(), expected.shape().ToString());
  c.relative += expected.dtype() == DType::kF16 ? 0x1p-10 : 0x1p-7;
  ExpectSame(WidenConstant(actual).value(), WidenConstant(expected).value(), c);
}

// The case with 16-bit floats in the place of float32, where the operator admits them and runs in float32 then.
inline void CheckHalved(Case c) {
  bool any = false;
  const DType half = Pick({DType::kF16, DType::kBF16});
  for (Value& v : c.inputs) {
    if (!v.has_value() || v.tensor().dtype() != DType::kF32) continue;
    v = Halved(half, v.tensor());
    any = true;
  }
  if (!any) return;
  Built b;
  if (!MakeGraph(c, false, b).ok() || !HasHalfInput(*b.node) || !RejectWidened(*b.node, Config(false)).empty()) return;
  const Result<std::vector<Value>> expected = EvaluateGraph(b.graph, b.inputs);
  if (!expected.ok()) return;  // no type of this version
  SCOPED_TRACE("halved: " + c.ToString());
  const Result<std::vector<Tensor>> actual = RunOnCpu(b.graph, b.inputs, Config(false));
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  for (size_t i = 0; i < expected->size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(ExpectNear((*actual)[i], (*expected)[i].tensor(), c));
  }
}

inline Tensor ToDoubles(const Tensor& x) {
  Tensor y = Tensor::Allocate(DType::kF64, x.shape()).value();
  const float* from = x.data<float>();
  double* to = y.data<double>();
  for (int64_t i = 0, n = x.num_elements(); i < n; ++i) to[i] = static_cast<double>(from[i]);
  return y;
}

// The case with float64 in the place of float32, where the operator admits it and the provider takes it.
inline void CheckDoubled(Case c) {
  bool any = false;
  for (Value& v : c.inputs) {
    if (!v.has_value() || v.tensor().dtype() != DType::kF32) continue;
    v = ToDoubles(v.tensor());
    any = true;
  }
  Built b;
  if (!any || !MakeGraph(c, false, b).ok()) return;
  if (!FindCpuOp(c.domain, c.op)->reject(*b.node, Config(false)).empty()) return;
  const Result<std::vector<Value>> expected = EvaluateGraph(b.graph, b.inputs);
  if (!expected.ok()) return;  // no type of this version
  SCOPED_TRACE("doubled: " + c.ToString());
  const Result<std::vector<Tensor>> actual = RunOnCpu(b.graph, b.inputs, Config(false));
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  for (size_t i = 0; i < expected->size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(ExpectSame((*actual)[i], (*expected)[i].tensor(), c));
  }
}

// A tensor of any strides, and all of its memory: bytes of 0x5a.
struct Strided {
  Tensor view, memory;
};
inline Strided DrawStrided(DType dtype, const Shape& shape) {
  std::vector<int> order;  // from the innermost dimension
  for (int d = 0; d < shape.rank(); ++d) order.insert(order.begin() + Draw(0, d), d);
  Shape strides = shape;
  int64_t elements = Draw(1, 2);
  for (const int d : order) {
    strides[d] = elements;
    elements = elements * std::max<int64_t>(1, shape[d]) + Draw(0, 2);
  }
  const Tensor all = Tensor::Allocate(dtype, Shape{elements}).value();
  std::memset(all.raw_data(), 0x5a, all.bytes());
  return {Tensor::WrapStrided(dtype, shape, strides, all.raw_data(), all.owner()), all};
}
inline bool MayBeStrided(const Tensor& t) { return t.rank() > 0 && t.rank() < 7 && DTypeBytes(t.dtype()) > 0; }

// On inputs of any strides, of which some are read by no kernel but through a copy, and into outputs of any.
inline void CheckStrided(const Case& c) {
  SCOPED_TRACE("strided");
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
  const Result<std::vector<Value>> expected = EvaluateGraph(b.graph, b.inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (Value& v : b.inputs) {
    if (!MayBeStrided(v.tensor())) continue;
    const Strided strided = DrawStrided(v.tensor().dtype(), v.tensor().shape());
    CopyTensor(v.tensor(), strided.view);
    v = strided.view;
  }
  std::vector<Strided> places;
  std::vector<Tensor> views;
  for (const Value& v : *expected) {
    const Tensor& e = v.tensor();
    places.push_back(MayBeStrided(e) ? DrawStrided(e.dtype(), e.shape()) : Strided{e.Clone().value(), {}});
    views.push_back(places.back().view);
  }
  const Result<std::vector<Tensor>> actual = RunOnCpu(b.graph, b.inputs, Config(false), views);
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  for (size_t i = 0; i < expected->size(); ++i) {
    const Tensor result = views[i].Contiguous().value();
    ASSERT_NO_FATAL_FAILURE(ExpectSame(result, (*expected)[i].tensor(), c));
    if (!places[i].memory.defined()) continue;
    const Tensor clear = result.Clone().value();
    std::memset(clear.raw_data(), 0x5a, clear.bytes());
    CopyTensor(clear, views[i]);
    const char* bytes = static_cast<const char*>(places[i].memory.raw_data());
    const size_t size = places[i].memory.bytes();
    ASSERT_EQ(std::count(bytes, bytes + size, 0x5a), static_cast<int64_t>(size)) << "written between the elements";
  }
}

inline void Check(const Case& c) {
  SCOPED_TRACE(c.ToString());
  for (const bool portable : {false, true}) {
    for (const bool chained : {false, true}) ASSERT_NO_FATAL_FAILURE(CheckOnce(c, portable, chained));
  }
  ASSERT_NO_FATAL_FAILURE(CheckStrided(c));
  ASSERT_NO_FATAL_FAILURE(CheckHalved(c));
  ASSERT_NO_FATAL_FAILURE(CheckDoubled(c));
}

// How many times a test draws each kind of case; sanitizers find in half of them what they find in all.
inline const int kRounds = ukernel::Depth() == ukernel::TestDepth::kBrief ? 6 : 12;

}  // namespace quern::cpu
