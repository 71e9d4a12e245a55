// Elementwise operators of every number type. A row is a loop over neighbouring elements, from the elementwise
// micro-kernels; a kernel holds pointers to rows and broadcasts, converts, writes in place and splits over threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "provider/cpu/common/loops.h"
#include "ukernel/elementwise.h"

namespace quern::cpu {

using ukernel::BinaryKind;
using ukernel::BinaryRow;
using ukernel::RowParameters;
using ukernel::UnaryKind;
using ukernel::UnaryRow;

// n elements of `bytes` bytes each, as they are: 1, 2, 4 or 8.
UnaryRow CopyRow(size_t bytes);

// Elements that a row takes at a time where an operand is not its memory: broadcast, converted or overwritten.
inline constexpr int64_t kRowChunk = 512;
inline constexpr size_t kRowChunkBytes = static_cast<size_t>(kRowChunk) * 8;

// How an operand of elements of 1, 2, 4 or 8 bytes broadcasts to the output.
class PlainOperand {
 public:
  PlainOperand(const Shape& out, const TensorSpec& operand);
  // Each element of the output has its own.
  bool is_whole() const { return whole_; }

 private:
  friend class OperandReader;
  BroadcastWalk<1> walk_;
  size_t bytes_;
  bool whole_;
};

// An operand's elements in the order of the output.
class OperandReader {
 public:
  OperandReader(const PlainOperand& operand, const void* first)
      : operand_(operand), first_(static_cast<const char*>(first)) {}
  OperandReader(const OperandReader&) = delete;
  OperandReader& operator=(const OperandReader&) = delete;
  // Those for the outputs [begin, begin + n), neighbours until the next call; n at most kRowChunk unless is_whole().
  const void* Read(int64_t begin, int64_t n) {
    return operand_.whole_ ? first_ + static_cast<size_t>(begin) * operand_.bytes_ : Gather(begin, n);
  }

 private:
  const void* Gather(int64_t begin, int64_t n);
  template <typename T>
  const void* GatherAs(int64_t begin, int64_t n);

  const PlainOperand& operand_;
  const char* first_;
  const void* repeated_ = nullptr;  // the element that fills the first repetitions_ of the buffer
  int64_t repetitions_ = 0;
  alignas(64) char buffer_[kRowChunkBytes];  // written only where it is needed
};

// One operand, or one that matters: others are looked at when planning.
struct PlainUnary {
  std::string name;
  DType from{};                                        // of the operand
  const ukernel::ElementwiseKernel* kernel = nullptr;  // whose rows these are; null: copies
  std::vector<UnaryRow> rows;  // each one's result is the next one's operand; results between them have 8 bytes or less
  RowParameters parameters = {};
  bool costly = false;  // more than a few instructions for each element
};
std::unique_ptr<CpuKernel> MakePlainUnary(PlainUnary what);

// n elements of x, of x_bits bits each, through the rows of PlainUnary; y may be x where both have the same whole
// bytes.
void ApplyRows(std::span<const UnaryRow> rows, const RowParameters& parameters, int64_t n, const void* x, void* y,
               size_t x_bits, size_t y_bits);

// Two operands that broadcast, or more, each of which meets the result so far.
struct PlainBinary {
  std::string name;
  DType from{};                                        // of the first operand
  const ukernel::ElementwiseKernel* kernel = nullptr;  // whose row this is; null: a loop of the operator's own
  BinaryRow row = nullptr;
  const char* scalar = "";     // why the row is no vector code, if it is not
  bool swapped = false;        // row(b, a)
  bool costly = false;         // more than a few instructions for each element
  UnaryRow convert = nullptr;  // of the second operand, to elements of 8 bytes
  UnaryRow last = nullptr;     // of the result; its parameter `a` is the number of operands
  const char* fault = "";
};
std::unique_ptr<CpuKernel> MakePlainBinary(PlainBinary what);

// The result may take the memory of one of the first two operands: later ones are read after it is written.
Placement PlaceBinary(const BindContext& context);

// Before operator set 7 the second operand was aligned by attributes. Empty where this node's is not.
std::string RejectLegacyBroadcast(const Node& node);

}  // namespace quern::cpu
