// Elements of any type for operators that only move them: numbers by width, strings, 4- and 2-bit types unpacked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/op.h"

namespace quern {

struct Element16 {
  uint64_t low, high;
};

// Calls f.operator()<T>() with the type that ElementInput and ElementOutput store elements of `dtype` as.
template <typename F>
Status DispatchElements(DType dtype, F&& f) {
  if (dtype == DType::kString) return f.template operator()<std::string>();
  if (GetDTypeInfo(dtype).block_elements > 1 && !IsBlockType(dtype)) return f.template operator()<uint8_t>();
  switch (DTypeBytes(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    case 16:
      return f.template operator()<Element16>();
    default:
      return Unsupported(std::string("element type ") + DTypeName(dtype) + " is not supported here");
  }
}

// Element type of a tensor or string tensor.
DType ElementTypeOf(const Value& value);
const Shape& ShapeOf(const Value& value);

// A tensor or string tensor read element by element, contiguous.
class ElementInput {
 public:
  static Result<ElementInput> Make(EvalContext& c, int i) { return Make(c.input_value(i)); }
  static Result<ElementInput> Make(const Value& value);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  // T: as DispatchElements gives.
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(data_ != nullptr ? data_ : unpacked_.data());
  }

 private:
  Value keep_;
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  const void* data_ = nullptr;
  std::vector<uint8_t> unpacked_;
};

// An output written element by element. Finish() stores what could not be written in place.
class ElementOutput {
 public:
  static Result<ElementOutput> Make(EvalContext& c, int i, DType dtype, const Shape& shape);
  // A value that is no output by itself: an element of a sequence, a slice for a subgraph. Take() gives it.
  static Result<ElementOutput> MakePart(EvalContext& c, DType dtype, const Shape& shape);

  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  template <typename T>
  T* data() {
    return static_cast<T*>(Raw());
  }
  Status Finish();
  Value Take();

 private:
  void* Raw();
  void Pack();
  EvalContext* context_ = nullptr;
  int index_ = 0;
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  Tensor tensor_;
  StringTensor strings_;
  std::vector<uint8_t> unpacked_;
};

// Output i is input `in` under another shape of as many elements; tensors share the memory.
Status ReshapeToOutput(EvalContext& c, int in, int i, const Shape& shape);

// The integer content of input i (int32 or int64, any shape).
Result<std::vector<int64_t>> ReadInts(EvalContext& c, int i);

}  // namespace quern
