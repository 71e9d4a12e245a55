#include "provider/cpu/common/elementwise_chain.h"

#include <algorithm>

#include "provider/cpu/common/elementwise_operators.h"

namespace quern::cpu {
namespace {

using Form = ChainFunction::Form;

struct NamedFunction {
  std::string_view name;
  ChainFunction function;
};

constexpr ChainFunction Plain(BinaryKind kind, DType from, DType to) {
  return {.form = Form::kPlainBinary, .binary = kind, .from = from, .to = to};
}
constexpr ChainFunction Plain(UnaryKind kind, DType from, DType to) {
  return {.form = Form::kPlainUnary, .unary = kind, .from = from, .to = to};
}

// Those that the tables of operators do not have.
constexpr NamedFunction kFunctions[] = {
    {"Clip", {.form = Form::kUnary, .unary = UnaryKind::kClip}},
    {"GeluTanh", {.form = Form::kUnary, .costly = true, .unary = UnaryKind::kGeluTanh}},
    {"Square", {.form = Form::kUnary, .unary = UnaryKind::kSquare}},
    {"Cube", {.form = Form::kUnary, .unary = UnaryKind::kCube}},
    {"Pow", {.form = Form::kPlainBinary, .costly = true, .binary = BinaryKind::kPow}},
    {"Equal", Plain(BinaryKind::kEqual, DType::kF32, DType::kBool)},
    {"Less", Plain(BinaryKind::kLess, DType::kF32, DType::kBool)},
    {"LessOrEqual", Plain(BinaryKind::kAtMost, DType::kF32, DType::kBool)},
    {"And", Plain(BinaryKind::kBitAnd, DType::kBool, DType::kBool)},
    {"Or", Plain(BinaryKind::kBitOr, DType::kBool, DType::kBool)},
    {"Xor", Plain(BinaryKind::kBitXor, DType::kBool, DType::kBool)},
    {"Not", Plain(UnaryKind::kNot, DType::kBool, DType::kBool)},
    {"ToBool", Plain(UnaryKind::kConvert, DType::kF32, DType::kBool)},
    {"ToFloat", Plain(UnaryKind::kConvert, DType::kBool, DType::kF32)},
    {"Where", {.form = Form::kChoice}},
    {"DequantizeI8", {.form = Form::kDequantize, .from = DType::kI8}},
    {"DequantizeU8", {.form = Form::kDequantize, .from = DType::kU8}},
    {"QuantizeI8", {.form = Form::kQuantize, .to = DType::kI8}},
    {"QuantizeU8", {.form = Form::kQuantize, .to = DType::kU8}},
};

}  // namespace

std::optional<ChainFunction> FindChainFunction(std::string_view name) {
  for (const NamedFunction& f : kFunctions) {
    if (f.name == name) return f.function;
  }
  for (const UnaryOperator& o : kUnaryOperators) {
    if (name == o.op_type && HasVectorLoop(o.kind)) {
      return ChainFunction{.form = Form::kUnary, .costly = o.costly, .unary = o.kind};
    }
  }
  for (const BinaryOperator& o : kBinaryOperators) {
    if (name == o.op_type && HasVectorLoop(o.kind)) {
      return ChainFunction{.form = Form::kBinary, .costly = o.costly, .binary = o.kind};
    }
  }
  return std::nullopt;
}

void WriteChain(const Chain& chain, Node& node) {
  std::vector<std::string> functions;
  std::vector<int64_t> operands;
  std::vector<float> parameters;
  for (const ChainStep& s : chain.steps) {
    functions.push_back(s.name);
    operands.insert(operands.end(), s.operands.begin(), s.operands.begin() + s.function.num_operands());
    parameters.insert(parameters.end(), {s.a, s.b});
  }
  node.SetAttribute("functions", std::move(functions));
  node.SetAttribute("operands", std::move(operands));
  node.SetAttribute("parameters", std::move(parameters));
  node.SetAttribute("numbers", chain.numbers);
}

Result<Chain> ReadChain(const Node& node) {
  const auto* functions = node.FindAttribute<std::vector<std::string>>("functions");
  const auto* parameters = node.FindAttribute<std::vector<float>>("parameters");
  const auto* numbers = node.FindAttribute<std::vector<float>>("numbers");
  const std::vector<int64_t> operands = node.GetInts("operands");
  const auto wrong = [&] { return Internal(node.Describe() + ": its attributes are no chain"); };
  if (!functions || functions->empty() || !parameters || parameters->size() != 2 * functions->size() || !numbers) {
    return wrong();
  }
  Chain chain{.num_inputs = node.num_inputs(), .numbers = *numbers, .steps = {}};
  size_t at = 0;
  for (size_t i = 0; i < functions->size(); ++i) {
    const std::optional<ChainFunction> function = FindChainFunction((*functions)[i]);
    if (!function) return wrong();
    ChainStep step{.name = (*functions)[i],
                   .function = *function,
                   .operands = {},
                   .a = (*parameters)[2 * i],
                   .b = (*parameters)[2 * i + 1]};
    for (int k = 0; k < function->num_operands(); ++k, ++at) {
      if (at >= operands.size() || operands[at] < 0 || operands[at] >= chain.num_values()) return wrong();
      step.operands[static_cast<size_t>(k)] = static_cast<int>(operands[at]);
    }
    chain.steps.push_back(std::move(step));
  }
  const bool fits = chain.num_inputs <= kMostChainInputs && static_cast<int>(numbers->size()) <= kMostChainNumbers &&
                    static_cast<int>(functions->size()) <= kMostChainSteps && at == operands.size();
  return fits ? Result<Chain>(std::move(chain)) : wrong();
}

}  // namespace quern::cpu
