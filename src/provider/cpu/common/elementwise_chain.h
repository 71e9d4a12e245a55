// A chain: elementwise functions of float32, bools and quantized bytes that are computed one after the other on each
// block of elements.
// It is held by the attributes of this provider's Elementwise(inputs): functions (names, in order), operands (of each
// function in turn), parameters (a and b of each), numbers. Operands count through the inputs, then the numbers, then
// the results of the functions, of which the last is the node's.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "provider/cpu/common/byte_tables.h"
#include "ukernel/elementwise_kinds.h"

namespace quern::cpu {

// Bounds that keep the blocks of a chain's values in a first-level cache.
inline constexpr int kMostChainInputs = 8, kMostChainNumbers = 8, kMostChainSteps = 16;

struct ChainFunction {
  enum class Form : uint8_t {
    kUnary,       // of one float32, by the vector family
    kBinary,      // of two float32, by the vector family
    kPlainUnary,  // likewise of any type, by the elementwise family
    kPlainBinary,
    kChoice,      // the second or third operand, as the first one is
    kDequantize,  // (byte - b) * a, by the affine family
    kQuantize,    // the byte of float32 / a + b, likewise
    kTable,       // the byte that a table has for a byte; made by chain_tables.h, without a name
  };
  Form form;
  bool costly = false;  // more than a few instructions for each element
  ukernel::UnaryKind unary = {};
  ukernel::BinaryKind binary = {};
  DType from = DType::kF32, to = DType::kF32;  // elements of the operands (the last ones) and of the result

  int num_operands() const {
    if (form == Form::kChoice) return 3;
    return form == Form::kBinary || form == Form::kPlainBinary ? 2 : 1;
  }
  // Whether the result may lie on an operand, and an operand be one element.
  bool is_vector() const { return form == Form::kUnary || form == Form::kBinary; }
};
// The function of that name: an operator's, or "GeluTanh", "Square", "Cube", "ToBool", "ToFloat", "DequantizeI8",
// "DequantizeU8", "QuantizeI8", "QuantizeU8"; nothing for others.
std::optional<ChainFunction> FindChainFunction(std::string_view name);

struct ChainStep {
  std::string name;
  ChainFunction function;
  std::array<int, 3> operands{};
  float a = 0, b = 0;
  std::shared_ptr<const ByteTable> table = nullptr;
};

struct Chain {
  int num_inputs = 0;
  std::vector<float> numbers;
  std::vector<ChainStep> steps;

  int num_values() const { return first_step() + static_cast<int>(steps.size()); }
  int first_step() const { return num_inputs + static_cast<int>(numbers.size()); }
};
// To and from the attributes of a node; an error for those that are no chain.
void WriteChain(const Chain& chain, Node& node);
Result<Chain> ReadChain(const Node& node);

}  // namespace quern::cpu
