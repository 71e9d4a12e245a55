#include "ops/common/elements.h"

#include "base/packed_bits.h"

namespace quern {
namespace {

bool IsPacked(DType dtype) { return PackedBits(dtype) != 0; }

}  // namespace

DType ElementTypeOf(const Value& value) { return value.is_tensor() ? value.tensor().dtype() : DType::kString; }
const Shape& ShapeOf(const Value& value) { return value.is_tensor() ? value.tensor().shape() : value.strings().shape; }

Result<ElementInput> ElementInput::Make(const Value& value) {
  ElementInput in;
  in.dtype_ = ElementTypeOf(value);
  in.shape_ = ShapeOf(value);
  if (!value.is_tensor()) {
    in.keep_ = value;
    in.data_ = value.strings().values.data();
    return in;
  }
  if (IsPacked(in.dtype_)) {
    const int bits = PackedBits(in.dtype_);
    const auto* bytes = static_cast<const uint8_t*>(value.tensor().raw_data());
    const int64_t n = in.num_elements();
    in.unpacked_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) in.unpacked_[static_cast<size_t>(i)] = LoadPacked(bytes, i, bits);
    return in;
  }
  if (value.tensor().is_contiguous()) {
    in.keep_ = value;
  } else {
    QUERN_ASSIGN_OR_RETURN(in.keep_, value.tensor().Contiguous());
  }
  in.data_ = in.keep_.tensor().raw_data();
  return in;
}

Result<ElementOutput> ElementOutput::Make(EvalContext& c, int i, DType dtype, const Shape& shape) {
  ElementOutput out;
  out.context_ = &c;
  out.index_ = i;
  out.dtype_ = dtype;
  out.shape_ = shape;
  if (dtype == DType::kString) {
    const std::optional<int64_t> n = CheckedProduct(shape.span());
    const int64_t most = std::min(c.limits().tensor_bytes, c.limits().memory_bytes);
    if (!n || *n > most / static_cast<int64_t>(sizeof(std::string))) {
      return ResourceExhausted(c.node().Describe() + ": output " + std::to_string(i) + " would have shape " +
                               shape.ToString() + ", more strings than the limits allow");
    }
    out.strings_.shape = shape;
    out.strings_.values.resize(static_cast<size_t>(*n));
    return out;
  }
  QUERN_ASSIGN_OR_RETURN(out.tensor_, c.AllocateOutput(i, dtype, shape));
  if (IsPacked(dtype)) out.unpacked_.resize(static_cast<size_t>(shape.num_elements()));
  return out;
}

Result<ElementOutput> ElementOutput::MakePart(EvalContext& c, DType dtype, const Shape& shape) {
  return Make(c, c.num_outputs(), dtype, shape);  // beyond the outputs: memory that counts and belongs to none of them
}

void* ElementOutput::Raw() {
  if (dtype_ == DType::kString) return strings_.values.data();
  return IsPacked(dtype_) ? unpacked_.data() : tensor_.raw_data();
}

void ElementOutput::Pack() {
  auto* bytes = static_cast<uint8_t*>(tensor_.raw_data());
  for (size_t i = 0; i < unpacked_.size(); ++i) {
    AppendPacked(bytes, static_cast<int64_t>(i), PackedBits(dtype_), unpacked_[i]);
  }
}

Status ElementOutput::Finish() {
  if (dtype_ == DType::kString) {
    context_->SetOutput(index_, Value(std::move(strings_)));
  } else if (IsPacked(dtype_)) {
    Pack();
  }
  return OkStatus();
}

Value ElementOutput::Take() {
  if (dtype_ == DType::kString) return std::move(strings_);
  if (IsPacked(dtype_)) Pack();
  return std::move(tensor_);
}

Status ReshapeToOutput(EvalContext& c, int in, int i, const Shape& shape) {
  const Value& value = c.input_value(in);
  if (CheckedProduct(shape.span()) != ShapeOf(value).num_elements()) {
    return c.Error("shape " + ShapeOf(value).ToString() + " cannot become " + shape.ToString());
  }
  if (value.is_tensor()) {
    c.SetOutput(i, Value(c.input(in).Reshaped(shape)));
  } else {
    c.SetOutput(i, Value(StringTensor{shape, value.strings().values}));
  }
  return OkStatus();
}

Result<std::vector<int64_t>> ReadInts(EvalContext& c, int i) {
  Result<std::vector<int64_t>> values = ToInt64s(c.input(i));
  if (!values.ok()) return values.status().WithContext(c.node().Describe());
  return values;
}

}  // namespace quern
