#include "format/onnx/tensor_decoder.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checked_math.h"
#include "base/packed_bits.h"
#include "format/onnx/field_reader.h"
#include "format/onnx/fields.h"

namespace quern::onnx {

// The fields of a TensorProto, without the values of its typed data.
struct TensorDecoder::Head {
  std::string_view name;
  std::vector<int64_t> dims;
  int64_t data_type = 0;
  bool has_raw = false;
  std::string_view raw;  // raw_data, or the one packed chunk of float_data or double_data, which has the same bytes
  bool has_segment = false;
  bool is_external = false;
  ExternalEntry external;
  int fixed_field = 0;       // float_data or double_data when present
  int64_t fixed_chunks = 0;  // packed pieces and single values of it
  std::string_view fixed_packed;
};

namespace {

// The typed field that holds a type's values, as onnx.proto says.
int TypedField(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kC64:
      return TensorField::kFloatData;
    case DType::kF64:
    case DType::kC128:
      return TensorField::kDoubleData;
    case DType::kI64:
      return TensorField::kInt64Data;
    case DType::kU32:
    case DType::kU64:
      return TensorField::kUint64Data;
    case DType::kString:
      return TensorField::kStringData;
    default:
      return TensorField::kInt32Data;
  }
}

const char* TypedFieldName(int field) {
  switch (field) {
    case TensorField::kFloatData:
      return "float_data";
    case TensorField::kDoubleData:
      return "double_data";
    case TensorField::kInt64Data:
      return "int64_data";
    case TensorField::kUint64Data:
      return "uint64_data";
    case TensorField::kStringData:
      return "string_data";
    default:
      return "int32_data";
  }
}

std::string Describe(DType dtype, const Shape& shape) { return DTypeName(dtype) + shape.ToString(); }

Status ReadExternalEntry(std::string_view message, const char* base, ExternalEntry* entry) {
  std::string_view key, value;
  FieldReader r(message, base);
  while (r.Next()) {
    switch (r.field()) {
      case EntryField::kKey:
        key = r.Bytes();
        break;
      case EntryField::kValue:
        value = r.Bytes();
        break;
      default:
        r.Skip();
    }
  }
  if (key == "location") entry->location = value;
  if (key == "offset") entry->offset = value;
  if (key == "length") entry->length = value;
  return r.status();
}

// Values of int32_data and uint64_data land in `out` as `unit_bytes` each, unless one does not fit.
class IntegerSink {
 public:
  IntegerSink(void* out, size_t units, size_t unit_bytes, int unit_bits, bool is_bool)
      : out_(static_cast<char*>(out)), units_(units), unit_bytes_(unit_bytes), bits_(unit_bits), is_bool_(is_bool) {}
  void Add(int64_t value) {
    const size_t i = count_++;
    if (i >= units_) return;
    if (is_bool_) {
      out_[i] = value != 0;
      return;
    }
    // Writers differ in whether the bits of a small type are sign-extended: take both.
    if (bits_ < 64 && (value < -(int64_t{1} << (bits_ - 1)) || value >= (int64_t{1} << bits_))) in_range_ = false;
    std::memcpy(out_ + i * unit_bytes_, &value, unit_bytes_);  // little endian: the low bytes
  }
  size_t count() const { return count_; }
  bool in_range() const { return in_range_; }

 private:
  char* out_;
  size_t units_, unit_bytes_, count_ = 0;
  int bits_;
  bool is_bool_, in_range_ = true;
};

}  // namespace

Status TensorDecoder::Charge(size_t bytes) {
  const std::optional<int64_t> sum = CheckedAdd<int64_t>(charged_bytes_, static_cast<int64_t>(bytes));
  if (!sum || *sum > limits_.memory_bytes) {
    return ResourceExhausted("reading needs more than the limit of " + std::to_string(limits_.memory_bytes) + " bytes");
  }
  charged_bytes_ = *sum;
  return OkStatus();
}

Result<TensorDecoder::Head> TensorDecoder::ReadHead(std::string_view message) const {
  Head head;
  const size_t max_rank = static_cast<size_t>(std::clamp(limits_.rank, 0, kMaxRank));
  bool too_many_dims = false;
  FieldReader r(message, base_);
  while (r.Next()) {
    switch (r.field()) {
      case TensorField::kDims:
        r.Varints([&](uint64_t d) {
          if (head.dims.size() == max_rank) {
            too_many_dims = true;
          } else {
            head.dims.push_back(static_cast<int64_t>(d));
          }
        });
        break;
      case TensorField::kDataType:
        head.data_type = r.Int64();
        break;
      case TensorField::kName:
        head.name = r.Bytes();
        break;
      case TensorField::kRawData:
        head.raw = r.Bytes();
        head.has_raw = true;
        break;
      case TensorField::kDataLocation:
        head.is_external = r.Int64() == 1;
        break;
      case TensorField::kExternalData:
        QUERN_RETURN_IF_ERROR(ReadExternalEntry(r.Bytes(), base_, &head.external));
        break;
      case TensorField::kSegment:
        head.has_segment = true;
        r.Skip();
        break;
      case TensorField::kFloatData:
      case TensorField::kDoubleData:
        head.fixed_field = r.field();
        head.fixed_chunks += r.is_length_delimited() ? 1 : 2;  // a single value is never the whole
        if (r.is_length_delimited()) {
          head.fixed_packed = r.Bytes();
        } else {
          r.Skip();
        }
        break;
      default:
        r.Skip();
    }
  }
  QUERN_RETURN_IF_ERROR(r.status());
  if (too_many_dims) return ResourceExhausted("more than " + std::to_string(max_rank) + " dimensions");
  return head;
}

Result<Value> TensorDecoder::Decode(std::string_view message, std::string_view* name) {
  QUERN_ASSIGN_OR_RETURN(Head head, ReadHead(message));
  if (name != nullptr) *name = head.name;
  if (!IsOnnxType(head.data_type)) {
    return Unsupported("element type " + std::to_string(head.data_type) + " is not known");
  }
  const DType dtype = static_cast<DType>(head.data_type);
  if (head.has_segment) return Unsupported("tensors stored in segments are not read");
  for (int64_t d : head.dims) {
    if (d < 0) return Corrupt("dimension " + std::to_string(d) + " is negative");
  }
  const Shape shape{std::span<const int64_t>(head.dims)};
  if (!CheckedProduct(shape.span())) return Corrupt("shape " + shape.ToString() + " is too large");
  if (dtype == DType::kString) return DecodeStrings(message, head, shape);

  QUERN_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(dtype, shape));
  if (bytes > static_cast<size_t>(std::max<int64_t>(limits_.tensor_bytes, 0))) {
    return ResourceExhausted(Describe(dtype, shape) + " has " + std::to_string(bytes) + " bytes, the limit is " +
                             std::to_string(limits_.tensor_bytes));
  }
  std::string_view raw = head.raw;
  std::shared_ptr<const void> owner = owner_;
  if (head.is_external) {
    if (external_ == nullptr) {
      return InvalidArgument("the tensor's data is in an external file, which can only be read along with its model");
    }
    QUERN_ASSIGN_OR_RETURN(ExternalData::Slice slice, external_->Read(head.external, bytes));
    raw = slice.bytes;
    owner = std::move(slice.owner);
  } else if (!head.has_raw) {
    const bool one_chunk = head.fixed_chunks == 1 && head.fixed_field == TypedField(dtype);
    if (!one_chunk) {
      QUERN_ASSIGN_OR_RETURN(Tensor typed, DecodeTyped(message, dtype, shape));
      return Value(std::move(typed));
    }
    raw = head.fixed_packed;
  }
  if (raw.size() != bytes) {
    return Corrupt("has " + std::to_string(raw.size()) + " bytes of data, " + Describe(dtype, shape) + " needs " +
                   std::to_string(bytes));
  }
  QUERN_ASSIGN_OR_RETURN(Tensor tensor, FromRaw(dtype, shape, raw, std::move(owner)));
  return Value(std::move(tensor));
}

Result<Tensor> TensorDecoder::FromRaw(DType dtype, const Shape& shape, std::string_view raw,
                                      std::shared_ptr<const void> owner) {
  const bool is_aligned = reinterpret_cast<uintptr_t>(raw.data()) % DTypeAlignment(dtype) == 0;
  // A C++ bool with other bits than 0 or 1 is undefined, so such bytes are normalised in a copy.
  const bool is_clean = dtype != DType::kBool ||
                        std::all_of(raw.begin(), raw.end(), [](char c) { return static_cast<unsigned char>(c) <= 1; });
  if (is_aligned && is_clean && owner && !raw.empty()) {
    return Tensor::Wrap(dtype, shape, const_cast<char*>(raw.data()), std::move(owner));
  }
  QUERN_RETURN_IF_ERROR(Charge(raw.size()));
  constexpr size_t kLeastDeferred = 64 << 10;  // smaller copies share pages with others anyway
  if (is_clean && owner && raw.size() >= kLeastDeferred) {
    return Tensor::Deferred(dtype, shape, raw.data(), std::move(owner));
  }
  QUERN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  if (!raw.empty()) std::memcpy(tensor.raw_data(), raw.data(), raw.size());
  if (!is_clean) {
    unsigned char* p = static_cast<unsigned char*>(tensor.raw_data());
    for (size_t i = 0; i < raw.size(); ++i) p[i] = p[i] != 0;
  }
  return tensor;
}

Result<Value> TensorDecoder::DecodeStrings(std::string_view message, const Head& head, const Shape& shape) {
  if (head.has_raw || head.is_external) return Corrupt("strings cannot be stored as raw or external data");
  const size_t n = static_cast<size_t>(shape.num_elements());
  StringTensor strings;
  strings.shape = shape;
  FieldReader r(message, base_);
  while (r.Next()) {
    if (r.field() != TensorField::kStringData) {
      r.Skip();
      continue;
    }
    const std::string_view text = r.Bytes();
    QUERN_RETURN_IF_ERROR(Charge(sizeof(std::string) + text.size()));
    strings.values.emplace_back(text);
  }
  QUERN_RETURN_IF_ERROR(r.status());
  if (strings.values.size() != n) {
    return Corrupt("string_data has " + std::to_string(strings.values.size()) + " values, " +
                   Describe(DType::kString, shape) + " needs " + std::to_string(n));
  }
  return Value(std::move(strings));
}

Result<Tensor> TensorDecoder::DecodeTyped(std::string_view message, DType dtype, const Shape& shape) {
  const int field = TypedField(dtype);
  const bool is_complex = dtype == DType::kC64 || dtype == DType::kC128;
  const DTypeInfo info = GetDTypeInfo(dtype);
  // A unit is what one number of the field holds: an element, half a complex one, or a byte of 4- or 2-bit ones.
  const int packed_bits = PackedBits(dtype);
  const bool packs = packed_bits == 6;  // the field has a number for each element
  const size_t unit_bytes = packed_bits ? 1u : is_complex ? info.block_bytes / 2u : info.block_bytes;
  QUERN_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(dtype, shape));
  const size_t units = packs ? static_cast<size_t>(shape.num_elements()) : bytes / unit_bytes;
  const auto wrong_count = [&](const std::string& found) {
    return Corrupt(std::string(TypedFieldName(field)) + " has " + found + " values, " + Describe(dtype, shape) +
                   " needs " + std::to_string(units));
  };
  // Each number takes at least a byte, so the memory asked for below is bounded by the message.
  if (units > message.size()) return wrong_count("too few");
  QUERN_RETURN_IF_ERROR(Charge(units * unit_bytes));
  QUERN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  std::vector<uint8_t> codes(packs ? units : 0);
  IntegerSink integers(packs ? codes.data() : tensor.raw_data(), units, unit_bytes,
                       packs ? packed_bits : static_cast<int>(8 * unit_bytes), dtype == DType::kBool);
  size_t fixed_count = 0;
  const auto add_fixed = [&](auto value) {
    const size_t i = fixed_count++;
    if (i < units) std::memcpy(static_cast<char*>(tensor.raw_data()) + i * sizeof(value), &value, sizeof(value));
  };
  FieldReader r(message, base_);
  bool in_unsigned_range = true;
  while (r.Next()) {
    if (r.field() != field) {
      r.Skip();
    } else if (field == TensorField::kFloatData) {
      r.Fixed<float>(add_fixed);
    } else if (field == TensorField::kDoubleData) {
      r.Fixed<double>(add_fixed);
    } else if (field == TensorField::kInt32Data) {
      // Negative int32 values are sign-extended to ten bytes; some writers stop at five.
      r.Varints([&](uint64_t v) { integers.Add(v > UINT32_MAX ? static_cast<int64_t>(v) : static_cast<int32_t>(v)); });
    } else {
      r.Varints([&](uint64_t v) {
        if (dtype == DType::kU32 && v > UINT32_MAX) in_unsigned_range = false;
        integers.Add(static_cast<int64_t>(v));
      });
    }
  }
  QUERN_RETURN_IF_ERROR(r.status());
  const size_t count = fixed_count + integers.count();
  if (count != units) return wrong_count(std::to_string(count));
  if (!integers.in_range() || !in_unsigned_range) {
    return Corrupt(std::string(TypedFieldName(field)) + " has a value that does not fit " + info.name);
  }
  for (size_t i = 0; i < codes.size(); ++i) {
    AppendPacked(static_cast<uint8_t*>(tensor.raw_data()), static_cast<int64_t>(i), packed_bits, codes[i]);
  }
  return tensor;
}

}  // namespace quern::onnx
