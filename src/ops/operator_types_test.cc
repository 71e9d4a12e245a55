// Every element type that the schema of an operator version admits is computed: where a node of ones can be evaluated
// with one type of a type variable, it can be with all the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using Ints = std::vector<int64_t>;

// Attributes without which a node of ones means nothing. Those that a version lacks are left out.
const std::map<std::string, std::map<std::string, Attribute>>& Attributes() {
  static const std::map<std::string, std::map<std::string, Attribute>> attributes = {
      {"AveragePool", {{"kernel_shape", Ints{1, 1}}}},
      {"BitShift", {{"direction", std::string("LEFT")}}},
      {"Cast", {{"to", int64_t{1}}}},
      {"Concat", {{"axis", int64_t{0}}}},
      {"ConcatFromSequence", {{"axis", int64_t{0}}}},
      {"DepthToSpace", {{"blocksize", int64_t{1}}}},
      {"DequantizeLinear", {{"output_dtype", int64_t{1}}}},
      {"Einsum", {{"equation", std::string("ij,jk->ik")}}},
      {"GRU", {{"hidden_size", int64_t{1}}}},
      {"GivenTensorFill", {{"shape", Ints{1}}, {"values", std::vector<float>{1}}}},
      {"GroupNormalization", {{"num_groups", int64_t{1}}}},
      {"LRN", {{"size", int64_t{1}}}},
      {"LSTM", {{"hidden_size", int64_t{1}}}},
      {"LinearAttention",
       {{"kv_num_heads", int64_t{1}}, {"q_num_heads", int64_t{1}}, {"update_rule", std::string("linear")}}},
      {"LpPool", {{"kernel_shape", Ints{1, 1}}}},
      {"MaxPool", {{"kernel_shape", Ints{1, 1}}}},
      {"MaxRoiPool", {{"pooled_shape", Ints{1, 1}}}},
      {"MaxUnpool", {{"kernel_shape", Ints{1, 1}}}},
      {"Mod", {{"fmod", int64_t{1}}}},
      {"Pad", {{"pads", Ints{0, 0, 0, 0}}}},
      {"RNN", {{"hidden_size", int64_t{1}}}},
      {"RandomNormal", {{"shape", Ints{1}}}},
      {"RandomNormalLike", {{"dtype", int64_t{1}}}},
      {"RandomUniform", {{"shape", Ints{1}}}},
      {"RandomUniformLike", {{"dtype", int64_t{1}}}},
      {"RegexFullMatch", {{"pattern", std::string("1")}}},
      {"Slice", {{"starts", Ints{0}}, {"ends", Ints{1}}}},
      {"SpaceToDepth", {{"blocksize", int64_t{1}}}},
      {"TopK", {{"k", int64_t{1}}}},
      {"Unsqueeze", {{"axes", Ints{0}}}},
      {"Upsample", {{"height_scale", 1.0f}, {"width_scale", 1.0f}, {"scales", std::vector<float>{1, 1, 1, 1}}}},
  };
  return attributes;
}

// Inputs for which no form serves: a shape and a value each; those that follow are left out.
struct Given {
  Shape shape;
  int value = 1;
  bool omitted = false;
};
const std::multimap<std::string, std::vector<Given>>& Inputs() {
  static const std::multimap<std::string, std::vector<Given>> inputs = {
      {"AffineGrid", {{{1, 2, 3}}, {{4}}}},
      {"GRU", {{{1, 1, 1}}, {{1, 3, 1}}, {{1, 3, 1}}}},
      {"GroupNormalization", {{{1, 1, 2, 2}}, {{1}}, {{1}}}},
      {"InstanceNormalization", {{{1, 1, 2}}, {{1}}, {{1}}}},
      {"LSTM", {{{1, 1, 1}}, {{1, 4, 1}}, {{1, 4, 1}}}},
      {"MaxRoiPool", {{{1, 1, 2, 2}}, {{1, 5}, 0}}},
      {"MelWeightMatrix", {{{}, 1}, {{}, 8}, {{}, 8}, {{}, 0}, {{}, 4}}},
      {"NonMaxSuppression", {{{1, 1, 4}}, {{1, 1, 1}}}},
      {"OneHot", {{{1}}, {{}}, {{2}}}},
      {"QLinearConv", {{{1, 1, 1}}, {{}}, {{}}, {{1, 1, 1}}, {{}}, {{}}, {{}}, {{}}}},
      {"Resize", {{{1, 1, 2, 2}}, {{4}}}},
      {"Resize", {{{1, 1, 2, 2}}, {{8}}, {{4}}}},
      {"RoiAlign", {{{1, 1, 2, 2}}, {{1, 4}}, {{1}, 0}}},
      {"RotaryEmbedding", {{{1, 1, 2, 2}}, {{1, 2, 1}}, {{1, 2, 1}}}},
      {"ScatterND", {{{2, 2}}, {{1, 2}, 0}, {{1}}}},
  };
  return inputs;
}

// A tensor of one value, 0 or 1.
Value Filled(DType dtype, const Shape& shape, int value) {
  if (dtype == DType::kString) {
    return StringTensor{shape,
                        std::vector<std::string>(static_cast<size_t>(shape.num_elements()), std::to_string(value))};
  }
  OpTester cast("Cast", 28);
  const std::vector<float> numbers(static_cast<size_t>(shape.num_elements()), static_cast<float>(value));
  if (dtype == DType::kC64 || dtype == DType::kC128) {  // a complex zero, or one with such parts
    const Tensor t = Tensor::Allocate(dtype, shape).value();
    for (size_t i = 0; i < numbers.size() * 2; ++i) {
      if (dtype == DType::kC64) static_cast<float*>(t.raw_data())[i] = numbers[i / 2];
      if (dtype == DType::kC128) static_cast<double*>(t.raw_data())[i] = numbers[i / 2];
    }
    return t;
  }
  return (*cast.Input(shape, numbers).Attr("to", static_cast<int64_t>(dtype)).Run())[0];
}

// A way to give a node inputs: the shape of those that hold data (which may be floats), the shape and value of others.
struct Form {
  Shape data, other;
  int other_value = 0;
  bool optional = false;
  const std::vector<Given>* given = nullptr;  // these instead
};
std::vector<Form> FormsOf(const OpDefinition& op) {
  std::vector<Form> forms;
  const auto [first, last] = Inputs().equal_range(op.name);
  for (auto it = first; it != last; ++it) forms.push_back({{}, {}, 0, false, &it->second});
  for (const Shape& data : {Shape{2, 2}, Shape{1, 1, 2, 2}, Shape{1, 1, 1}, Shape{1}, Shape{}, Shape{1, 2, 2}}) {
    for (const Shape& other : {Shape{}, Shape{1}, Shape{2}, Shape{4}, Shape{2, 2}, Shape{1, 1, 2, 2}}) {
      for (const int value : {0, 1}) {
        for (const bool optional : {false, true}) forms.push_back({data, other, value, optional});
      }
    }
  }
  return forms;
}

// The type variable of an input: its name, or its own where it stands alone. Tensors and the sequences that hold them
// have two, as have weights and the block formats that they may come in.
std::string VariableOf(const OpVersion& version, size_t i) {
  const Param& p = version.inputs[i];
  const std::string variable = *p.type_var ? p.type_var : std::string("input ") + p.name;
  return variable == "TB" || variable == "S" ? "T" : variable;
}

DType FirstChoice(TypeSet types) {
  for (const DType t : {DType::kF32, DType::kI64, DType::kI32, DType::kBool, DType::kU8, DType::kString}) {
    if (types.Has(t)) return t;
  }
  for (int t = 1; t < 64; ++t) {
    if (types.Has(static_cast<DType>(t))) return static_cast<DType>(t);
  }
  return DType::kF32;  // of the elements of a sequence
}

Status Evaluate(const OpDefinition& op, const OpVersion& version, const Form& form,
                const std::map<std::string, DType>& types) {
  OpTester tester(op.name, version.since, op.domain);
  for (size_t i = 0; i < version.inputs.size(); ++i) {
    const Param& p = version.inputs[i];
    const bool data = p.kind == ValueKind::kNone || p.types.Has(DType::kF32) || p.types.Has(DType::kString);
    Given input = data ? Given{form.data} : Given{form.other, form.other_value};
    input.omitted = p.arity == Arity::kOptional && !form.optional;
    if (form.given) input = i < form.given->size() ? (*form.given)[i] : Given{{}, 0, true};
    if (input.omitted) {
      tester.Omit();
      continue;
    }
    const Value value = Filled(types.at(VariableOf(version, i)), input.shape, input.value);
    const bool tensor = p.kind == ValueKind::kNone || p.kind == ValueKind::kTensor;
    for (int copies = p.arity == Arity::kVariadic ? 2 : 1; copies > 0; --copies) {
      tester.Input(tensor ? value : p.kind == ValueKind::kSequence ? Value::Sequence({value}) : Value());
    }
  }
  tester.Outputs(std::max<int>(version.min_outputs, 1));
  if (const auto it = Attributes().find(op.name); it != Attributes().end()) {
    for (const AttrSpec& spec : version.attributes) {
      if (const auto a = it->second.find(spec.name); a != it->second.end()) tester.Attr(a->first, a->second);
    }
  }
  return tester.Run().status();
}

std::map<std::string, TypeSet> VariablesOf(const OpVersion& version) {
  std::map<std::string, TypeSet> variables;
  for (size_t i = 0; i < version.inputs.size(); ++i) {
    TypeSet& types = variables[VariableOf(version, i)];
    if (version.inputs[i].kind == ValueKind::kTensor || version.inputs[i].kind == ValueKind::kNone)
      types = version.inputs[i].types;
  }
  return variables;
}

// Why a type that a schema admits is refused all the same.
const std::map<std::string, std::set<DType>>& Refused() {
  static const std::map<std::string, std::set<DType>> refused = {
      {"Col2Im", {DType::kString}},      // strings cannot be added
      {"GridSample", {DType::kString}},  // nor interpolated
  };
  return refused;
}

// Operators that need subgraphs, have no inputs, or whose types depend on each other.
const std::set<std::string> kOthers = {"BitCast", "Constant", "If", "Loop", "Scan", "SequenceMap", "TfIdfVectorizer"};

TEST(OperatorTypes, AllAreComputed) {
  for (const OpDefinition* op : AllOps()) {
    if (kOthers.contains(op->name)) continue;
    const std::vector<Form> forms = FormsOf(*op);
    const auto refused = Refused().find(op->name);
    for (const OpVersion& version : op->versions) {
      const std::map<std::string, TypeSet> variables = VariablesOf(version);
      std::map<std::string, DType> types;
      for (const auto& [variable, set] : variables) types[variable] = FirstChoice(set);
      const auto form = std::find_if(forms.begin(), forms.end(),
                                     [&](const Form& f) { return Evaluate(*op, version, f, types).ok(); });
      if (form == forms.end()) {
        EXPECT_STRNE(op->domain, "") << op->name << " of operator set " << version.since
                                     << " has no form: give it attributes and inputs above. "
                                     << Evaluate(*op, version, forms[0], types).message();
        continue;
      }
      for (const auto& [variable, set] : variables) {
        std::string names, message;
        for (int t = 1; t < 64; ++t) {
          const DType type = static_cast<DType>(t);
          if (!set.Has(type) || (refused != Refused().end() && refused->second.contains(type))) continue;
          std::map<std::string, DType> others = types;
          others[variable] = type;
          const Status status = Evaluate(*op, version, *form, others);
          if (status.ok()) continue;
          names += std::string(" ") + DTypeName(type);
          message = status.message();
        }
        EXPECT_EQ(names, "") << op->name << " of operator set " << version.since << ", " << variable << ": " << message;
      }
    }
  }
}

TEST(OperatorTypes, ConstantsAreOfAnyType) {
  for (const std::string name : {"Constant", "ConstantOfShape"}) {
    for (const OpVersion& version : FindOp("", name)->versions) {
      for (int t = 1; t < 64; ++t) {
        const DType type = static_cast<DType>(t);
        if (!version.outputs[0].types.Has(type)) continue;
        OpTester tester(name, version.since);
        if (!version.inputs.empty()) tester.Input({2}, Ints{1, 3});
        const auto result = tester.Attr("value", Filled(type, {1}, 1)).Run();
        ASSERT_TRUE(result.ok()) << result.status().message();
        const Value& value = (*result)[0];
        EXPECT_EQ(value.is_tensor() ? value.tensor().dtype() : DType::kString, type) << name;
      }
    }
  }
}

}  // namespace
}  // namespace quern
