// Constant: the tensor of an attribute.
#include "ops/common/any_types.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

// The content, made from whichever value attribute is given.
Result<Value> Content(const Node& node) {
  const std::string error = node.Describe() + ": ";
  std::optional<Value> content;
  int given = 0;
  auto set = [&](Value value) {
    content = std::move(value);
    ++given;
  };
  auto vector_of = [](const auto& values, auto zero) {
    using T = decltype(zero);
    return Tensor::FromValues<T>(Shape{static_cast<int64_t>(values.size())}, std::span<const T>(values));
  };
  if (const auto* v = node.FindAttribute<Value>("value")) set(*v);
  if (const auto* v = node.FindAttribute<int64_t>("value_int")) set(Tensor::Scalar<int64_t>(*v));
  if (const auto* v = node.FindAttribute<float>("value_float")) set(Tensor::Scalar<float>(*v));
  if (const auto* v = node.FindAttribute<std::string>("value_string")) set(StringTensor{Shape{}, {*v}});
  if (const auto* v = node.FindAttribute<std::vector<int64_t>>("value_ints")) set(vector_of(*v, int64_t{}));
  if (const auto* v = node.FindAttribute<std::vector<float>>("value_floats")) set(vector_of(*v, float{}));
  if (const auto* v = node.FindAttribute<std::vector<std::string>>("value_strings")) {
    set(StringTensor{Shape{static_cast<int64_t>(v->size())}, *v});
  }
  if (given == 0 && node.attributes().contains("sparse_value")) {
    return Unsupported(error + "sparse_value is not supported; store the tensor densely");
  }
  if (given != 1)
    return InvalidArgument(error + "exactly one value attribute is needed, " + std::to_string(given) + " are given");
  return *std::move(content);
}

Status Infer(InferContext& c) {
  if (const auto* v = c.node().FindAttribute<Value>("value")) {  // without a copy
    c.SetOutputType(0, TypeOf(*v));
    return OkStatus();
  }
  QUERN_ASSIGN_OR_RETURN(const Value content, Content(c.node()));
  c.SetOutputType(0, TypeOf(content));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(Value content, Content(c.node()));
  c.SetOutput(0, std::move(content));
  return OkStatus();
}

constexpr AttrSpec kAttributes1[] = {{"value", AttrType::kTensor, true}};
constexpr AttrSpec kAttributes11[] = {{"value", AttrType::kTensor}, {"sparse_value", AttrType::kTensor}};
constexpr AttrSpec kAttributes12[] = {{"value", AttrType::kTensor},        {"sparse_value", AttrType::kTensor},
                                      {"value_int", AttrType::kInt},       {"value_ints", AttrType::kInts},
                                      {"value_float", AttrType::kFloat},   {"value_floats", AttrType::kFloats},
                                      {"value_string", AttrType::kString}, {"value_strings", AttrType::kStrings}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, {}, kOutputOfAnyType<kSince>, kAttributes12, Infer, Evaluate};
// Exporters of sets 6 to 8 wrote integers, too, which the specification admits from set 9 on.
constexpr OpVersion kVersions[] = {{1, {}, kOutputOfAnyType<9>, kAttributes1, Infer, Evaluate},
                                   {9, {}, kOutputOfAnyType<9>, kAttributes1, Infer, Evaluate},
                                   {11, {}, kOutputOfAnyType<11>, kAttributes11, Infer, Evaluate},
                                   kVersion<12>,
                                   kVersion<13>,
                                   kVersion<19>,
                                   kVersion<21>,
                                   kVersion<23>,
                                   kVersion<24>,
                                   kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpConstant = {"", "Constant", kVersions};

}  // namespace quern
